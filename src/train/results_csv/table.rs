//! The rows of a column in memory: merging, ordering, marking.

use super::Merged;
use crate::experiment::row::row_key;
use crate::experiment::{Plan, RowStatus};
use crate::train::outcome::Row;
use anyhow::Result;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Columns without which a file is not one of results.
const REQUIRED: [&str; 4] = ["mix", "variant", "seed", "config_hash"];
const STATUS: &str = "status";
const FINISHED: &str = "finished";

/// A CSV in memory. Cells are kept as they were.
#[derive(Debug, Default)]
pub(super) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Identifies a run: mix and variant by [`row_key`], and the seed.
type Key = ((String, String), u64);

impl Table {
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Table> {
        let fault = |line: u64, why: &str| {
            anyhow::anyhow!(
                "{}:{line}: {why}; rows of results cannot be added to this file: mend it, or move it away",
                path.display()
            )
        };
        if bytes.is_empty() {
            return Err(fault(1, "the file is empty"));
        }
        if !bytes.ends_with(b"\n") {
            let line = bytes.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
            return Err(fault(line, "the last line has no end"));
        }
        // A quote that is not closed would take all lines after it for one cell.
        if !bytes.iter().filter(|byte| **byte == b'"').count().is_multiple_of(2) {
            let last = bytes.iter().rposition(|byte| *byte == b'"').unwrap_or_default();
            let line = bytes[..last].iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
            return Err(fault(line, "a quote is not closed"));
        }
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
        let mut table = Table::default();
        for record in reader.records() {
            let record = record.map_err(|error| {
                let line = error.position().map_or(1, csv::Position::line);
                let is_utf8 = !matches!(error.kind(), csv::ErrorKind::Utf8 { .. });
                fault(line, if is_utf8 { "the line is not CSV" } else { "the line is not UTF-8" })
            })?;
            let line = record.position().map_or(1, csv::Position::line);
            let cells: Vec<String> = record.iter().map(str::to_string).collect();
            if table.header.is_empty() {
                let missing: Vec<&str> = REQUIRED.into_iter().filter(|name| !cells.iter().any(|c| c == name)).collect();
                if !missing.is_empty() {
                    return Err(fault(line, &format!("the header has no {}", missing.join(", "))));
                }
                if let Some(twice) = (1..cells.len()).find(|at| cells[..*at].contains(&cells[*at])) {
                    return Err(fault(line, &format!("the header has {:?} twice", cells[twice])));
                }
                table.header = cells;
                continue;
            }
            if cells.len() != table.header.len() {
                let (cells, columns) = (cells.len(), table.header.len());
                return Err(fault(line, &format!("{cells} cells, but the header has {columns}")));
            }
            table.rows.push(cells);
            if table.key(table.rows.len() - 1).is_none() {
                return Err(fault(line, &format!("{:?} is not a seed", table.cell(table.rows.len() - 1, "seed"))));
            }
        }
        Ok(table)
    }

    fn cell(&self, row: usize, column: &str) -> &str {
        self.header.iter().position(|name| name == column).map_or("", |at| &self.rows[row][at])
    }

    fn key(&self, row: usize) -> Option<Key> {
        let key = row_key(self.cell(row, "mix").trim(), self.cell(row, "variant").trim());
        Some((key, self.cell(row, "seed").trim().parse().ok()?))
    }

    pub fn merge(&mut self, plan: &Plan, finished: &[(&str, Row)], trained: &BTreeSet<String>) -> Merged {
        let mut merged = Merged::default();
        for (name, row) in finished {
            self.add_columns(row);
            let new: Vec<String> = self.header.iter().map(|column| cell(row.get(column))).collect();
            let is_of_run = |table: &Table, at: &usize| table.key(*at) == key_of(row);
            let Some(first) = (0..self.rows.len()).find(|at| is_of_run(self, at)) else {
                self.rows.push(new);
                merged.written.insert(name.to_string());
                continue;
            };
            let same: Vec<usize> = (first..self.rows.len()).filter(|at| is_of_run(self, at)).collect();
            let time = date(row.get(FINISHED).and_then(Value::as_str).unwrap_or_default());
            if !trained.contains(*name) && same.iter().any(|at| date(self.cell(*at, FINISHED)) > time) {
                merged.newer.insert(name.to_string());
                continue;
            }
            if same.len() > 1 || !self.is_same(first, &new) {
                merged.written.insert(name.to_string());
            }
            self.rows[first] = new;
            for at in same.into_iter().skip(1).rev() {
                self.rows.remove(at);
            }
        }
        self.sort(plan);
        self.mark(plan);
        merged.rows = self.rows.len();
        merged
    }

    /// Adds the columns of a row that are not there yet, each after the one that stands before it in the row.
    fn add_columns(&mut self, row: &Row) {
        let mut after = 0;
        for name in row.keys() {
            match self.header.iter().position(|column| column == name) {
                Some(at) => after = at + 1,
                None => {
                    self.header.insert(after, name.clone());
                    self.rows.iter_mut().for_each(|cells| cells.insert(after, String::new()));
                    after += 1;
                }
            }
        }
    }

    fn is_same(&self, row: usize, new: &[String]) -> bool {
        let status = self.header.iter().position(|name| name == STATUS);
        (0..new.len()).all(|at| Some(at) == status || self.rows[row][at] == new[at])
    }

    /// Planned runs in the order of the plan, then the others in the order of the file.
    fn sort(&mut self, plan: &Plan) {
        let places: BTreeMap<Key, usize> = plan
            .runs
            .iter()
            .enumerate()
            .map(|(at, planned)| {
                let variant = planned.run.variant.as_deref().unwrap_or_default();
                ((row_key(&planned.run.mix.to_string(), variant), planned.run.seed), at)
            })
            .collect();
        let place = |at: usize| self.key(at).and_then(|key| places.get(&key).copied()).unwrap_or(usize::MAX);
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by_key(|at| place(*at));
        self.rows = order.into_iter().map(|at| std::mem::take(&mut self.rows[at])).collect();
    }

    /// Writes every row's status.
    fn mark(&mut self, plan: &Plan) {
        if self.rows.is_empty() {
            return;
        }
        let mut marks: Vec<RowStatus> = (0..self.rows.len())
            .map(|at| {
                let (mix, variant) = (self.cell(at, "mix").trim(), self.cell(at, "variant").trim());
                let seed = self.cell(at, "seed").trim().parse().unwrap_or_default();
                plan.status_of(mix, variant, seed, self.cell(at, "config_hash").trim())
            })
            .collect();
        // The newest row of a variant says which data are current. Rows without a date say nothing.
        for at in 0..self.rows.len() {
            let variant = self.cell(at, "variant");
            let newest = (0..self.rows.len())
                .filter(|other| marks[*other].is_comparable() || marks[*other] == RowStatus::OtherData)
                .filter(|other| {
                    self.cell(*other, "variant") == variant && !date(self.cell(*other, FINISHED)).is_empty()
                })
                .max_by_key(|other| date(self.cell(*other, FINISHED)));
            let is_other = |newest: usize| self.cell(newest, "data_hash") != self.cell(at, "data_hash");
            if marks[at].is_comparable() && newest.is_some_and(is_other) {
                marks[at] = RowStatus::OtherData;
            }
        }
        let column = self.header.iter().position(|name| name == STATUS).unwrap_or_else(|| {
            self.header.push(STATUS.into());
            self.rows.iter_mut().for_each(|cells| cells.push(String::new()));
            self.header.len() - 1
        });
        for (cells, mark) in self.rows.iter_mut().zip(marks) {
            cells[column] = mark.text().into();
        }
    }

    pub fn bytes(&self) -> Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(&self.header)?;
        for row in &self.rows {
            writer.write_record(row)?;
        }
        Ok(writer.into_inner()?)
    }
}

/// The run of a row that [`standing::look`] has checked.
fn key_of(row: &Row) -> Option<Key> {
    let text = |key: &str| row.get(key).and_then(Value::as_str).unwrap_or_default();
    Some((row_key(text("mix"), text("variant")), row.get("seed")?.as_u64()?))
}

/// A cell of the column `finished`, whose dates are ordered as texts; blank if it is not such a date.
fn date(cell: &str) -> &str {
    let shape =
        |cell: &str| cell.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte }).collect::<Vec<u8>>();
    let cell = cell.trim();
    if shape(cell) == b"0000-00-00T00:00:00Z" {
        cell
    } else {
        ""
    }
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;

    const PATH: &str = "results/custom/toy.csv";

    fn plan(mixes: &str, seeds: &str, rest: &str) -> Plan {
        let text = format!("task = \"language-modelling\"\nmix = {mixes}\nseeds = {seeds}\n{rest}");
        Experiment::parse(Path::new("toy.toml"), &text).unwrap().plan(Path::new("results")).unwrap()
    }

    /// The result of a planned run: its score, its data and when it was finished.
    fn result<'a>(plan: &'a Plan, name: &str, score: f64, data: &str, finished: &str) -> (&'a str, Row) {
        let planned = plan.runs.iter().find(|planned| planned.name == name).unwrap();
        let run = &planned.run;
        let mut row = Row::new();
        let mut put = |name: &str, value: Value| drop(row.insert(name.into(), value));
        put("mix", run.mix.to_string().into());
        put("variant", run.variant.clone().unwrap_or_default().into());
        put("seed", run.seed.into());
        put("dev.loss", score.into());
        put("config_hash", planned.hash.clone().into());
        put("data_hash", data.into());
        put(FINISHED, finished.into());
        (&planned.name, row)
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    /// Merges into a text; the text then, and what was done.
    fn merged(before: &str, plan: &Plan, finished: &[(&str, Row)], trained: &[&str]) -> (String, Merged) {
        let mut table = match before {
            "" => Table::default(),
            text => Table::parse(Path::new(PATH), text.as_bytes()).unwrap(),
        };
        let done = table.merge(plan, finished, &names(trained));
        (String::from_utf8(table.bytes().unwrap()).unwrap(), done)
    }

    const EARLY: &str = "2026-01-01T00:00:00Z";
    const LATE: &str = "2026-02-01T00:00:00Z";

    #[test]
    fn a_new_mix_leaves_every_other_row_and_cell_as_it_was() {
        let plan = plan(r#"["V", "R"]"#, "[1]", "");
        let (v, r) = (plan.runs[0].hash.as_str(), plan.runs[1].hash.as_str());
        // as an older version wrote it, with a column that nobody knows and blanks that mean something to somebody
        let before =
            format!("mix,variant,seed,my note,dev.loss,config_hash,data_hash\nV,,1,\" a, \"\"b\"\" \",2.50,{v},d\n");
        let (after, done) = merged(&before, &plan, &[result(&plan, "R-s1", 1.5, "d", LATE)], &["R-s1"]);
        let expected = format!(
            "mix,variant,seed,my note,dev.loss,config_hash,data_hash,finished,status\n\
             V,,1,\" a, \"\"b\"\" \",2.50,{v},d,,current\n\
             R,,1,,1.5,{r},d,{LATE},current\n"
        );
        assert_eq!(after, expected);
        assert_eq!((done.written, done.rows), (names(&["R-s1"]), 2));
        // the same result again changes nothing
        let (again, done) = merged(&after, &plan, &[result(&plan, "R-s1", 1.5, "d", LATE)], &[]);
        assert_eq!((again, done.written), (after, names(&[])));
    }

    #[test]
    fn a_row_gives_way_only_to_a_newer_result_of_its_run() {
        let plan = plan(r#"["V"]"#, "[1, 2]", "");
        let with = |score: f64, finished: &str| vec![result(&plan, "V-s1", score, "d", finished)];
        let (early, _) = merged("", &plan, &with(3.0, EARLY), &[]);
        let (late, done) = merged(&early, &plan, &with(2.0, LATE), &[]);
        assert!(late.contains("V,,1,2.0") && !late.contains("3.0"), "{late}");
        assert_eq!(done.written, names(&["V-s1"]));
        // an older metrics.json, and one of a version that wrote no date
        for finished in [EARLY, ""] {
            let (kept, done) = merged(&late, &plan, &with(3.0, finished), &[]);
            assert_eq!(kept, late);
            assert_eq!((done.written, done.newer), (names(&[]), names(&["V-s1"])));
        }
        // a run that has just finished is newer, whatever the clocks say
        let (replaced, done) = merged(&late, &plan, &with(3.0, EARLY), &["V-s1"]);
        assert!(replaced.contains("V,,1,3.0") && done.newer.is_empty(), "{replaced}");
        // another seed is another run
        let (both, done) = merged(&late, &plan, &[result(&plan, "V-s2", 4.0, "d", EARLY)], &[]);
        assert!(both.contains("V,,1,2.0") && both.contains("V,,2,4.0") && done.rows == 2, "{both}");
    }

    #[test]
    fn rows_that_are_not_of_the_plan_are_kept_and_marked() {
        let earlier = plan(r#"["V", "R", "D"]"#, "[1]", "");
        let all: Vec<_> = ["V-s1", "R-s1", "D-s1"].map(|name| result(&earlier, name, 1.0, "d", EARLY)).into();
        let (before, _) = merged("", &earlier, &all, &[]);
        let status = |text: &str| -> Vec<(String, String)> {
            let mut reader = csv::Reader::from_reader(text.as_bytes());
            let rows = reader.records().map(|record| record.unwrap());
            rows.map(|record| (record[0].to_string(), record[record.len() - 1].to_string())).collect()
        };
        let marked = |plan: &Plan, finished: &[(&str, Row)]| status(&merged(&before, plan, finished, &[]).0);
        let pairs =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect::<Vec<_>>();
        // fewer mixes in another order: the plan's rows come first
        let fewer = plan(r#"["D", "V"]"#, "[1]", "");
        assert_eq!(marked(&fewer, &[]), pairs(&[("D", "current"), ("V", "current"), ("R", "not planned")]));
        // other settings, of which one run is finished
        let longer = plan(r#"["V", "R"]"#, "[1]", "[train]\nsteps = 77\n");
        let finished = [result(&longer, "V-s1", 0.5, "d", LATE)];
        let expected = [("V", "current"), ("R", "other settings"), ("D", "other settings")];
        assert_eq!(marked(&longer, &finished), pairs(&expected));
        // the data of the newest row are current
        let finished = [result(&earlier, "V-s1", 0.5, "e", LATE)];
        let expected = [("V", "current"), ("R", "other data"), ("D", "other data")];
        assert_eq!(marked(&earlier, &finished), pairs(&expected));
        // and a mark is not for ever
        let (text, _) = merged(&before, &longer, &[], &[]);
        assert_eq!(status(&text)[0].1, "other settings");
        assert_eq!(status(&merged(&text, &earlier, &[], &[]).0)[0].1, "current");
    }

    #[test]
    fn variants_have_data_of_their_own_and_undated_rows_say_nothing_of_data() {
        let variant = "[[variant]]\nname = \"deep\"\nmix = \"V\"\n[variant.model]\ndecoder_layers = 8\n";
        let plan = plan(r#"["V", "R"]"#, "[1]", variant);
        let finished = [
            result(&plan, "V-s1", 1.0, "d", EARLY),
            result(&plan, "V.deep-s1", 1.0, "e", LATE),
            result(&plan, "R-s1", 1.0, "d", EARLY),
        ];
        let (text, _) = merged("", &plan, &finished, &[]);
        assert_eq!(text.matches("current").count(), 3, "{text}");
        let (text, _) =
            merged("", &plan, &[result(&plan, "V-s1", 1.0, "d", ""), result(&plan, "R-s1", 1.0, "e", "")], &[]);
        assert_eq!(text.matches("current").count(), 2, "{text}");
    }

    #[test]
    fn a_run_that_has_two_rows_gets_one() {
        let plan = plan(r#"["V", "R+V"]"#, "[1]", "");
        // both sides of a git merge, and an earlier order of the terms
        let before = "mix,variant,seed,config_hash\nV,,1,a\nV,,1,b\nV + R,,1,c\n";
        let (text, done) = merged(before, &plan, &[], &[]);
        assert_eq!((text.lines().count(), done.rows), (4, 3), "kept without a newer result: {text}");
        let finished = [result(&plan, "V-s1", 1.0, "d", LATE), result(&plan, "R+V-s1", 1.0, "d", LATE)];
        let (text, done) = merged(before, &plan, &finished, &[]);
        assert_eq!((text.lines().count(), done.written.len()), (3, 2), "{text}");
    }

    #[test]
    fn other_files_are_refused_with_their_line() {
        let good = "mix,variant,seed,config_hash\n";
        for (text, place, why) in [
            (String::new(), "toy.csv:1", "empty"),
            ("name,age\nAnn,3\n".into(), "toy.csv:1", "no mix, variant, seed, config_hash"),
            ("row,mix,ende.bleu.mean\nR,R,3\n".into(), "toy.csv:1", "no variant"),
            ("mix;variant;seed;config_hash\n".into(), "toy.csv:1", "no mix"),
            ("mix,variant,seed,config_hash,mix\n".into(), "toy.csv:1", "\"mix\" twice"),
            (format!("{good}V,,1\n"), "toy.csv:2", "3 cells, but the header has 4"),
            (format!("{good}V,,one,a\n"), "toy.csv:2", "\"one\" is not a seed"),
            (format!("{good}V,,1,a\nR,,1,b"), "toy.csv:3", "no end"),
            (format!("{good}V,,1,\"a\nR,,1,b\n"), "toy.csv:2", "a quote is not closed"),
            (format!("{good}<<<<<<< HEAD\nV,,1,a\n"), "toy.csv:2", "1 cells"),
        ] {
            let error = Table::parse(Path::new(PATH), text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(place) && error.contains(why) && error.contains("move it away"), "{error}");
        }
        let error =
            Table::parse(Path::new(PATH), b"mix,variant,seed,config_hash\n\xff,,1,a\n").unwrap_err().to_string();
        assert!(error.contains("toy.csv:2") && error.contains("UTF-8"), "{error}");
    }
}
