//! The tables beside the results against those that `report` would make now.

use super::rows::reason;
use super::{Check, Part, BENCHMARKS};
use crate::regular;
use crate::report::results::name_of;
use crate::report::{render, render_benchmarks};
use std::path::Path;

/// Verifies the tables of one folder; nothing where there are none to make.
pub fn table(folder: &Path, profile: &str, published: &Path) -> Option<Part> {
    let mut part = Part::new(folder);
    let rendered = match name_of(folder) == BENCHMARKS {
        true => render_benchmarks(folder),
        false => render(folder, profile, published),
    };
    let rendered = match rendered {
        Ok(rendered) if rendered.is_empty() => return None,
        Ok(rendered) => rendered,
        Err(error) => {
            part.problem(Check::Tables, folder, None, format!("no table can be made: {}", reason(&error, folder)));
            return Some(part);
        }
    };
    let any = rendered.iter().any(|(path, _)| path.exists());
    for (path, wanted) in rendered {
        match regular::read(&path, regular::TABLE) {
            Ok(found) if found == wanted.as_bytes() => part.ok(Check::Tables),
            Ok(found) => part.problem(Check::Tables, &path, None, difference(&found, &wanted)),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                part.problem(Check::Tables, &path, None, format!("cannot read: {error}"))
            }
            Err(_) if any => part.problem(Check::Tables, &path, None, "missing; `synthesizer report` makes it"),
            Err(_) => part.absent(Check::Tables, "tables, which `synthesizer report` makes"),
        }
    }
    Some(part)
}

/// The first line in which a file is not what it should be.
fn difference(found: &[u8], wanted: &str) -> String {
    let found = String::from_utf8_lossy(found);
    let (mut there, mut here) = (found.split('\n'), wanted.split('\n'));
    let mut line = 0;
    loop {
        line += 1;
        match (there.next(), here.next()) {
            (Some(a), Some(b)) if a == b => {}
            (None, None) => return "it is not UTF-8 text".into(),
            (a, b) => {
                let [a, b] = [a, b].map(|line| line.map_or("nothing".to_string(), |line| around(line, a, b)));
                return format!("line {line} is {a}; `synthesizer report` would write {b}");
            }
        }
    }
}

/// A piece of a line around the first letter in which two lines differ.
fn around(line: &str, a: Option<&str>, b: Option<&str>) -> String {
    let letters: Vec<char> = line.chars().collect();
    let common = a.zip(b).map_or(0, |(a, b)| a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count());
    let from = common.saturating_sub(30).min(letters.len());
    let to = (common + 30).min(letters.len());
    let piece: String = letters[from..to].iter().collect();
    let [before, after] = [from > 0, to < letters.len()].map(|cut| if cut { "…" } else { "" });
    format!("{:?}", format!("{before}{piece}{after}"))
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn the_first_difference_is_shown() {
        let text = difference(b"a,b\n1,2\n", "a,b\n1,3\n");
        assert_eq!(text, "line 2 is \"1,2\"; `synthesizer report` would write \"1,3\"");
        let text = difference(b"a\n", "a\nb\n");
        assert!(text.starts_with("line 2 is \"\""), "{text}");
        let (long, other) = ("x".repeat(100) + "1" + &"y".repeat(100), "x".repeat(100) + "2" + &"y".repeat(100));
        let text = difference(long.as_bytes(), &other);
        assert!(text.len() < 250 && text.contains("x1y") && text.contains("x2y"), "{text}");
    }
}
