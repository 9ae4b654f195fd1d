//! Lines to the user. Nobody may read them any more (`… | head`), which is no reason to stop training.

use std::io::Write;

/// A line on standard output.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// A line on standard error.
pub fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
