//! Aligned columns for a terminal.

/// Lays rows out under their headings: the first `left` columns to the left, the others, numbers, to the right.
pub fn lay_out(headings: &[&str], rows: &[Vec<String>], left: usize) -> String {
    let width = |text: &str| text.chars().count();
    let mut widths: Vec<usize> = headings.iter().map(|heading| width(heading)).collect();
    for row in rows {
        for (column, cell) in row.iter().enumerate().take(widths.len()) {
            widths[column] = widths[column].max(width(cell));
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (column, cell) in cells.enumerate().take(widths.len()) {
            let space = " ".repeat(widths[column] - width(cell));
            let gap = if column == 0 { "" } else { "  " };
            let (before, after) = if column < left { ("", space.as_str()) } else { (space.as_str(), "") };
            text.extend([gap, before, cell, after]);
        }
        format!("{}\n", text.trim_end())
    };
    let mut text = line(&mut headings.iter().copied());
    text.push_str(&line(
        &mut widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>().iter().map(String::as_str),
    ));
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right_and_a_superscript_is_one_wide() {
        let rows = [vec!["V".into(), "2d²".into(), "10".into()], vec!["R+V".into(), "l²".into(), "1,000".into()]];
        let expected = "mix  formula      n\n---  -------  -----\nV    2d²         10\nR+V  l²       1,000\n";
        assert_eq!(lay_out(&["mix", "formula", "n"], &rows, 2), expected);
    }
}
