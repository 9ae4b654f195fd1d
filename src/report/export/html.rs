//! An HTML `<figure>` with a table, for the page.

use super::Exporter;
use crate::report::table::{Kind, Table};

/// The HTML format.
#[derive(Debug)]
pub struct Html;

impl Exporter for Html {
    fn extension(&self) -> &'static str {
        "html"
    }

    fn export(&self, table: &Table) -> String {
        let mut text = format!("<figure class=\"table\">\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n<table>\n<thead>\n", escape(&table.name));
        let groups = table.groups();
        if groups.iter().any(|g| !g.0.is_empty()) {
            text += "<tr>";
            for (name, span) in groups {
                text += &match name {
                    "" => "<td></td>".to_string(),
                    _ => format!("<th colspan=\"{span}\" scope=\"colgroup\" class=\"group\">{}</th>", escape(name)),
                };
            }
            text += "</tr>\n";
        }
        text += "<tr>";
        for (at, column) in table.columns.iter().enumerate() {
            text += &format!("<th scope=\"col\"{}>{}</th>", class(table, at), escape(&column.heading));
        }
        text += "</tr>\n</thead>\n<tbody>\n";
        for row in &table.rows {
            text += "<tr>";
            for (at, cell) in row.iter().enumerate() {
                let shown = escape(&cell.show());
                text += &match at {
                    0 => format!("<th scope=\"row\"{}>{shown}</th>", class(table, at)),
                    _ => format!("<td{}>{shown}</td>", class(table, at)),
                };
            }
            text += "</tr>\n";
        }
        text += "</tbody>\n</table>\n</div>\n";
        text += &format!("<figcaption>{}", escape(&table.caption));
        if !table.notes.is_empty() {
            let notes: String = table.notes.iter().map(|note| format!("<li>{}</li>\n", prose(note))).collect();
            text += &format!("\n<ul>\n{notes}</ul>");
        }
        text + "</figcaption>\n</figure>\n"
    }
}

fn class(table: &Table, at: usize) -> String {
    let column = &table.columns[at];
    let mut classes = Vec::new();
    if column.kind == Kind::Text {
        classes.push("text");
    }
    if at > 0 && column.group != table.columns[at - 1].group {
        classes.push("first");
    }
    if classes.is_empty() {
        String::new()
    } else {
        format!(" class=\"{}\"", classes.join(" "))
    }
}

/// Sentences as HTML, what stands between backticks as code.
fn prose(text: &str) -> String {
    let mut parts = text.split('`');
    let mut shown = escape(parts.next().unwrap_or_default());
    while let Some(code) = parts.next() {
        shown += &match parts.next() {
            Some(after) => format!("<code>{}</code>{}", escape(code), escape(after)),
            None => format!("`{}", escape(code)),
        };
    }
    shown
}

/// Text as HTML shows it unchanged.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::prose;

    #[test]
    fn backticks_mark_code() {
        assert_eq!(prose("By `a <b>` & `c`."), "By <code>a &lt;b&gt;</code> &amp; <code>c</code>.");
        assert_eq!(prose("one ` alone"), "one ` alone");
        assert_eq!(prose("none"), "none");
    }
}
