//! Lines to the user. Nobody may read them any more (`… | head`), which is no reason to stop training.

use crate::excerpt::clipped;
use std::io::Write;

/// What was typed, as a shell takes it again: `synthesizer`, then the arguments.
pub fn command_line() -> String {
    let arguments = std::env::args_os().skip(1).map(|argument| quoted(&argument.to_string_lossy()));
    std::iter::once("synthesizer".to_string()).chain(arguments).collect::<Vec<_>>().join(" ")
}

fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_+=.,:/@%".contains(c);
    match !argument.is_empty() && argument.chars().all(is_plain) {
        true => argument.to_string(),
        false => format!("'{}'", argument.replace('\'', "'\\''")),
    }
}

/// A line on standard output.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// A line on standard error; megabytes that a file put into a message are cut ([`clipped`]).
pub fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", clipped(text));
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn what_a_shell_would_split_or_change_is_quoted() {
        for (argument, wanted) in [
            ("--mix=R+V", "--mix=R+V"),
            ("R + V", "'R + V'"),
            ("FD(hidden=0)", "'FD(hidden=0)'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(argument), wanted);
        }
    }
}
