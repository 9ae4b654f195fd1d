//! Every figure of the README's tables is in the committed results, or in the paper's.
//!
//! A comment before a table says what its columns are: `<!-- cells: 3 published table2 ende; 4 measured table2/ende test.bleu 2 -->`
//! (column, counted from 1; file under `experiments/published` and column there, or file under `results/mini`, metric and
//! decimal places, and `M` where millions are meant; or `ratio`, a file under `results/bench` and what its line must have, as
//! `ratio attention part=core length=256`, a mean where several lines do). Rows are found by the mix between backticks, with the variant in
//! brackets after it.

use std::collections::BTreeMap;
use std::path::Path;

type Rows = Vec<BTreeMap<String, String>>;

fn rows(path: &str) -> Rows {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let mut reader = csv::Reader::from_path(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    reader.deserialize().collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn of(rows: Rows, mix: &str, variant: &str) -> Rows {
    let wanted = |row: &BTreeMap<String, String>| row["mix"] == mix && row.get("variant").map_or("", |v| v) == variant;
    rows.into_iter().filter(wanted).collect()
}

/// `15.35`, or `15.35 ± 0.12` over several seeds (sample standard deviation).
fn measured(words: &[&str], mix: &str, variant: &str) -> String {
    let places: usize = words[2].trim_end_matches('M').parse().expect("decimal places");
    let scale = if words[2].ends_with('M') { 1e6 } else { 1.0 };
    let rows = of(rows(&format!("results/mini/{}.csv", words[0])), mix, variant);
    let values: Vec<f64> = rows.iter().map(|row| row[words[1]].parse::<f64>().expect("a number") / scale).collect();
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    match values.len() {
        0 => String::new(),
        1 => format!("{mean:.places$}"),
        _ => {
            let std = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt();
            format!("{mean:.places$} ± {std:.places$}")
        }
    }
}

fn published(words: &[&str], mix: &str, variant: &str) -> String {
    let rows = of(rows(&format!("experiments/published/{}.csv", words[0])), mix, variant);
    // a paper's own run comes after the one it quotes
    rows.iter().rev().find(|row| row["column"] == words[1]).map_or("·".into(), |row| row["value"].clone())
}

/// The ratio of a benchmark's line, `·` where there is none.
fn ratio(words: &[&str], mix: &str) -> String {
    let rows = rows(&format!("results/bench/{}.csv", words[0]));
    let fits = |row: &BTreeMap<String, String>| {
        let named = |word: &&str| word.split_once('=').is_some_and(|(key, value)| row[key] == value);
        row["mix"] == mix && words[1..].iter().all(named)
    };
    let found: Vec<f64> = rows.iter().filter(|row| fits(row)).map(|row| row["ratio"].parse().unwrap()).collect();
    match found[..] {
        [] => "·".into(),
        _ => format!("{:.2}", found.iter().sum::<f64>() / found.len() as f64),
    }
}

#[test]
fn each_figure_of_the_tables_is_measured_or_published() {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let mut lines = readme.lines().enumerate();
    let (mut tables, mut checked) = (0, 0);
    while let Some((_, line)) = lines.next() {
        let Some(cells) = line.strip_prefix("<!-- cells: ").and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        tables += 1;
        let cells: Vec<Vec<&str>> = cells.split("; ").map(|cell| cell.split(' ').collect()).collect();
        let table =
            lines.by_ref().skip_while(|(_, line)| line.is_empty()).take_while(|(_, line)| line.starts_with('|'));
        for (number, row) in table.skip(2) {
            let row: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let name = row.iter().find(|cell| cell.starts_with('`')).expect("a mix");
            let (mix, variant) = name.split_once(' ').unwrap_or((name, ""));
            let (mix, variant) = (mix.trim_matches('`'), variant.trim_matches(['(', ')']));
            for cell in &cells {
                let column: usize = cell[0].parse().expect("a column");
                let expected = match cell[1] {
                    "measured" => measured(&cell[2..], mix, variant),
                    "ratio" => ratio(&cell[2..], mix),
                    "published" => published(&cell[2..], mix, variant),
                    other => panic!("README.md: what is {other}?"),
                };
                assert_eq!(row[column - 1].replace(',', ""), expected, "README.md:{}: column {column}", number + 1);
                checked += 1;
            }
        }
    }
    assert!(tables == 8 && checked > 150, "{tables} tables, {checked} figures: the comments are not where they were");
}

/// What the README says of the yardstick is in its file.
#[test]
fn the_yardsticks_figures_are_in_its_file() {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let rows = rows("results/yardstick-ende.csv");
    assert_eq!(rows.len(), 1);
    let number = |key: &str| rows[0][key].parse::<f64>().unwrap();
    let told = format!(
        "gets {:.2}, {:.1} more, in {:.0} s",
        number("test.bleu"),
        number("test.bleu") - 11.8,
        number("wall_seconds")
    );
    let words = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&told), "README.md: {told:?} is not there");
}
