//! What is wrong with a line of JSON, in words.

use anyhow::anyhow;

/// An error of a JSON text of one line, with its column; who reads the line adds file and line.
pub fn explained(error: serde_json::Error) -> anyhow::Error {
    let column = error.column();
    if error.is_eof() {
        return anyhow!("the JSON object breaks off at column {column}; is the file cut short?");
    }
    // The parser sees one line and calls it line 1; column 0 stands for the whole.
    let text = error.to_string();
    match text.strip_suffix(&format!(" at line 1 column {column}")) {
        Some(what) if column > 0 => anyhow!("{what}, column {column}"),
        Some(what) => anyhow!("{what}"),
        None => anyhow!("{text}"),
    }
}
