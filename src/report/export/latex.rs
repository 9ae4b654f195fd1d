//! LaTeX with booktabs rules (`\usepackage{booktabs}`); all signs are ASCII, so that any engine takes it.

use super::{Exporter, PRINTED_COLUMNS};
use crate::report::table::{Kind, Table};

/// The LaTeX format.
#[derive(Debug)]
pub struct Latex;

impl Exporter for Latex {
    fn extension(&self) -> &'static str {
        "tex"
    }

    fn export(&self, table: &Table) -> String {
        let mut text = String::from("% Needs \\usepackage{booktabs}; wide tables also \\usepackage{graphicx}.\n");
        text += "\\begin{table}\n\\centering\n\\small\n";
        text += &format!("\\caption{{{}}}\n\\label{{tab:{}}}\n", escape(&table.caption), table.name);
        let blocks = table.blocks(|block| block.columns.len() <= PRINTED_COLUMNS);
        text += &blocks.iter().map(tabular).collect::<Vec<_>>().join("\\par\\medskip\n");
        for note in &table.notes {
            text += &format!("\\par\\smallskip\\raggedright\\footnotesize {}\n", escape(note));
        }
        text + "\\end{table}\n"
    }
}

fn tabular(table: &Table) -> String {
    let shape: String = table.columns.iter().map(|c| if c.kind == Kind::Text { 'l' } else { 'r' }).collect();
    let mut text = format!("\\resizebox{{\\linewidth}}{{!}}{{%\n\\begin{{tabular}}{{{shape}}}\n\\toprule\n");
    let groups = table.groups();
    if groups.iter().any(|g| !g.0.is_empty()) {
        let mut heads = Vec::new();
        let mut rules = String::new();
        let mut at = 1;
        for (name, span) in groups {
            if name.is_empty() {
                heads.push(String::new());
            } else {
                heads.push(format!("\\multicolumn{{{span}}}{{c}}{{{}}}", escape(name)));
                rules += &format!("\\cmidrule(lr){{{at}-{}}}", at + span - 1);
            }
            at += span;
        }
        text += &format!("{} \\\\\n{rules}\n", heads.join(" & "));
    }
    let headings: Vec<String> = table.columns.iter().map(|c| escape(&c.heading)).collect();
    text += &format!("{} \\\\\n\\midrule\n", headings.join(" & "));
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(|c| escape(&c.show())).collect();
        text += &format!("{} \\\\\n", cells.join(" & "));
    }
    text + "\\bottomrule\n\\end{tabular}}\n"
}

/// Text as LaTeX shows it unchanged.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut opens = true;
    for c in text.chars() {
        let quotes = if opens { "``" } else { "''" };
        opens = c.is_whitespace() || "([{-–—/".contains(c);
        match c {
            '\\' => escaped += "\\textbackslash{}",
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '~' => escaped += "\\textasciitilde{}",
            '^' => escaped += "\\textasciicircum{}",
            '<' => escaped += "$<$",
            '>' => escaped += "$>$",
            '|' => escaped += "$|$",
            '±' => escaped += "$\\pm$",
            '\u{2212}' => escaped += "$-$",
            '–' => escaped += "--",
            'Δ' => escaped += "$\\Delta$",
            'α' => escaped += "$\\alpha$",
            'Σ' => escaped += "$\\Sigma$",
            '·' => escaped += "$\\cdot$",
            '×' => escaped += "$\\times$",
            '√' => escaped += "$\\surd$",
            '²' => escaped += "$^2$",
            '³' => escaped += "$^3$",
            '½' => escaped += "$\\frac12$",
            '"' => escaped += quotes,
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn signs_that_latex_reads_as_commands() {
        assert_eq!(escape("50% & #1_a {x} $y"), "50\\% \\& \\#1\\_a \\{x\\} \\$y");
        assert_eq!(escape("a\\b ~ ^"), "a\\textbackslash{}b \\textasciitilde{} \\textasciicircum{}");
        assert_eq!(escape("11.80 ± 0.21 (3)"), "11.80 $\\pm$ 0.21 (3)");
        assert_eq!(escape("\u{2212}0.40"), "$-$0.40");
        assert_eq!(escape("2d² + h·N"), "2d$^2$ + h$\\cdot$N");
    }

    #[test]
    fn quotes_open_and_close() {
        assert_eq!(escape("\"q\", (\"r\") and \"s t\""), "``q'', (``r'') and ``s t''");
        assert_eq!(escape("5\" wide"), "5'' wide");
    }
}
