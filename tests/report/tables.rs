//! Tables 1 and 2, and faults of the files that they are made from.

use super::{copy, files, fixtures, published, sheet, Work};
use std::collections::HashMap;
use std::path::PathBuf;
use synthesizer::report::published::Published;
use synthesizer::report::{export, make_table, results};

#[test]
fn means_spreads_and_differences_are_those_of_the_rows() {
    let work = Work::new();
    work.text(&["results/mini/table2"]);
    let rows: HashMap<_, _> = sheet(&work.read("results/mini/table2/table2.csv")).into_iter().collect();
    // Computed apart: the BLEUs of the three seeds straight from the fixture.
    let bleus = |mix: &str| -> Vec<f64> {
        let text = std::fs::read_to_string(fixtures().join("results/mini/table2/ende.csv")).unwrap();
        let rows = sheet(&text).into_iter().map(|r| r.1);
        rows.filter(|r| r["mix"] == mix && r["variant"].is_empty()).map(|r| r["test.bleu"].parse().unwrap()).collect()
    };
    let (v, r) = (bleus("V"), bleus("R"));
    assert_eq!((v.len(), r.len()), (3, 3));
    let mean = |x: &[f64]| (x[0] + x[1] + x[2]) / 3.0;
    let std = ((r[0] - mean(&r)).powi(2) + (r[1] - mean(&r)).powi(2) + (r[2] - mean(&r)).powi(2)) / 2.0;
    let cell = |row: &str, column: &str| rows[row][column].parse::<f64>().unwrap();
    assert!((cell("Random", "ende.bleu.mean") - mean(&r)).abs() < 1e-6);
    assert!((cell("Random", "ende.bleu.std") - std.sqrt()).abs() < 1e-6);
    assert_eq!(rows["Random"]["ende.bleu.n"], "3");
    assert!((cell("Random", "ende.bleu.delta") - (mean(&r) - mean(&v))).abs() < 1e-6);
    // The paper's own difference, beside it: 27.27 - 27.67.
    assert_eq!(rows["Random"]["ende.published"], "27.27");
    assert!((cell("Random", "ende.published.delta") + 0.40).abs() < 1e-9);
    // One seed has no spread.
    assert_eq!(
        (rows["Fixed Random"]["ende.bleu.n"].as_str(), rows["Fixed Random"]["ende.bleu.std"].as_str()),
        ("1", "")
    );
}

#[test]
fn what_is_missing_stays_blank_and_says_why() {
    let work = Work::new();
    let shown = work.text(&["results/mini/table2"]);
    let rows: HashMap<_, _> = sheet(&work.read("results/mini/table2/table2.csv")).into_iter().collect();
    // D+V was not run, FD diverged; neither has a figure, and the paper's stay.
    for (row, published) in [("Dense + Vanilla", "27.57"), ("Factorized Dense", "27.32")] {
        assert_eq!((rows[row]["ende.bleu.mean"].as_str(), rows[row]["ende.published"].as_str()), ("", published));
        assert_eq!(rows[row]["ende.bleu.delta"], "");
    }
    // The paper prints no LM1B figure for Control, and no run stands for the row that it quotes.
    assert_eq!(rows["Transformer (Control, larger)"]["lm1b.published"], "");
    assert_eq!(rows["Transformer (Vaswani et al.)"]["ende.bleu.mean"], "");
    assert!(
        shown.contains("English-German, FD, seed 1: diverged, the loss is not a number at step 400; not in the mean.")
    );
    assert!(shown.contains("English-German, R+V, seed 3: unfinished, at step 300 of 900."));
    // Two of three seeds are in the mean.
    assert_eq!(rows["Random + Vanilla"]["ende.bleu.n"], "2");
    assert!(shown.contains("BLEU signature (English-German, English-French):\n  nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.5.1"));
}

#[test]
fn remarks_of_rows_stand_under_the_table_in_every_format() {
    let work = Work::new();
    let path = work.path("results/mini/table2/ende.csv");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut remarked = String::new();
    for line in text.lines() {
        let all = "3 of 8 sources are cut.";
        let notes = match line {
            _ if remarked.is_empty() => "notes".to_string(),
            _ if line.contains(",V,,1,") || line.contains(",V,,2,") || line.contains(",R,,1,") => {
                format!("{all} BLEU & co are blank.")
            }
            _ => all.to_string(),
        };
        remarked += &format!("{line},{notes}\n");
    }
    std::fs::write(&path, &remarked).unwrap();
    let shown = work.text(&["results/mini/table2"]);
    let rows = text.lines().count() - 1;
    // one line for what all rows share, one for what three rows share
    let of_all = format!("English-German, all {rows} rows: 3 of 8 sources are cut.");
    let of_some = "English-German, V, seeds 1, 2; R, seed 1: BLEU & co are blank.";
    assert!(shown.contains(&of_all) && shown.contains(of_some), "{shown}");
    for (file, some) in [
        ("results/mini/table2/table2.md", of_some.to_string()),
        ("plots/mini/index.html", of_some.replace('&', "&amp;")),
        ("results/mini/table2/table2.tex", of_some.replace('&', "\\&")),
    ] {
        let text = work.read(file);
        assert!(text.contains(&some), "{file}: {text}");
        assert_eq!(text.matches(&of_all).count(), 1, "{file}: {text}");
    }
}

#[test]
fn rows_come_in_the_papers_order_and_new_mixes_after() {
    let work = Work::new();
    let path = work.path("results/mini/table2/ende.csv");
    let text = std::fs::read_to_string(&path).unwrap();
    let of_v = text.lines().find(|l| l.contains(",V,,1,")).unwrap();
    // First in the file, last in the table; and V+R is the row of R+V.
    let new = of_v.replace(",V,,1,", ",\"FR(k=16)\",,1,");
    let (header, rows) = text.split_once('\n').unwrap();
    std::fs::write(&path, format!("{header}\n{new}\n{}", rows.replace(",R+V,,2,", ",V+R,,2,"))).unwrap();
    work.text(&[]);
    let rows = sheet(&work.read("results/mini/table2/table2.csv"));
    let mixes: Vec<&str> = rows.iter().map(|r| r.1["mix"].as_str()).collect();
    assert_eq!(mixes, ["V", "V", "V", "Rfix", "R", "FR", "D", "FD", "R+D", "D+V", "R+V", "FR(k=16)"]);
    assert_eq!(rows[10].1["ende.bleu.n"], "2");
    assert_eq!(rows[11].1["ende.published"], "");
}

#[test]
fn tables_match_the_golden_files() {
    for table in ["table1", "table2", "table3", "table4", "table5", "table7"] {
        let results = results::read(&fixtures().join("results/mini").join(table), "mini").unwrap();
        let made = make_table(&results, &Published::read(&published(), table).unwrap());
        for exporter in export::all() {
            let name = format!("{table}.{}", exporter.extension());
            let golden = fixtures().join("golden").join(&name);
            let made = exporter.export(&made);
            if std::env::var_os("BLESS").is_some() {
                std::fs::create_dir_all(golden.parent().unwrap()).unwrap();
                std::fs::write(&golden, &made).unwrap();
            }
            assert!(
                made == std::fs::read_to_string(&golden).unwrap(),
                "{name} is not the golden one (BLESS=1 rewrites it):\n{made}"
            );
        }
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let (a, b) = (Work::new(), Work::new());
    let first = a.text(&[]);
    a.text(&[]); // reading its own tables must change nothing
    assert_eq!(first, b.text(&[]));
    let relative = |work: &Work| -> Vec<(PathBuf, Vec<u8>)> {
        files(work.0.path()).into_iter().map(|(p, b)| (p.strip_prefix(work.0.path()).unwrap().into(), b)).collect()
    };
    let (a, b) = (relative(&a), relative(&b));
    assert!(a.len() > 60 && a.iter().any(|f| f.0.ends_with("ende-alpha.png")));
    assert_eq!(a.len(), b.len());
    for (x, y) in a.iter().zip(&b) {
        assert!(x == y, "{} differs", x.0.display());
    }
}

#[test]
fn json_holds_numbers_and_paths() {
    let work = Work::new();
    let report: serde_json::Value = serde_json::from_str(&work.text(&["--json", "results/mini/table2"])).unwrap();
    let rows = report["tables"][0]["rows"].as_array().unwrap();
    let random = rows.iter().find(|r| r["row"] == "Random").unwrap();
    assert_eq!(random["ende.published"], 27.27);
    assert_eq!(random["ende.bleu"]["n"], 3);
    assert_eq!(random["ende.parameters"], 1447936.0);
    assert_eq!(report["pages"][0], "plots/mini/index.html");
    assert!(report["tables"][0]["files"].as_array().unwrap().iter().any(|f| f == "results/mini/table2/table2.md"));
}

#[test]
fn table_one_joins_counts_times_and_quality() {
    let results = results::read(&fixtures().join("results/mini/table1"), "mini").unwrap();
    let table = make_table(&results, &Published::default());
    let row = |mix: &str| {
        let row = table.rows.iter().find(|r| r[1].show() == mix).unwrap();
        table.columns.iter().map(|c| c.key.as_str()).zip(row.iter().map(|c| c.show())).collect::<HashMap<_, _>>()
    };
    let (v, r) = (row("V"), row("R"));
    // 256: the longest that the layer of cost.csv covers, though 1024 was timed too. The times are those of time.csv.
    assert_eq!((r["forward_ms"].as_str(), r["forward_backward_ms"].as_str()), ("24.4", "65.9"));
    assert_eq!((v["ratio_to_v"].as_str(), r["ratio_to_v"].as_str()), ("1.00", "0.72"));
    assert_eq!((r["formula"].as_str(), r["formula_parameters"].as_str()), ("N²", "65,536"));
    assert_eq!(
        (r["news.word_perplexity"].as_str(), r["news.word_perplexity.delta"].as_str()),
        ("231.00 (1)", "+19.00")
    );
    let mixes: Vec<String> = table.rows.iter().map(|r| r[1].show()).collect();
    assert_eq!(mixes, ["V", "Rfix", "R", "FR", "D", "FD", "R+D", "D+V", "R+V"]);
}

#[test]
fn faulty_files_end_in_a_message_with_file_and_line() {
    let fault = |path: &str, change: &dyn Fn(String) -> String, message: &str| {
        let work = Work::new();
        let changed = change(work.read(path));
        std::fs::write(work.path(path), changed).unwrap();
        let error = work.error(&[]);
        assert!(error.contains(message), "{error}");
    };
    let ende = "results/mini/table2/ende.csv";
    fault(ende, &|t| t[..t.len() - 30].to_string(), "results/mini/table2/ende.csv:18: the last line has no end");
    fault(ende, &|t| t.replace(",V,,2,", ",V,,two,"), "ende.csv:3: column `seed` holds \"two\"");
    fault(ende, &|_| "name,age\nAnn,3\n".into(), "ende.csv:1: no column `title`");
    fault(
        "results/mini/table1/time.csv",
        &|t| t.replacen("forward", "sideways", 1),
        "time.csv:2: column `pass` holds \"sideways\"",
    );
    fault("results/mini/table1/cost.csv", &|_| String::new(), "cost.csv:1: empty");
    fault(
        "results/mini/table2/ende/V-s1/attention.csv",
        &|t| t.replacen("start", "middle", 1),
        "attention.csv:2: column `when`",
    );
    fault("results/mini/table2/ende/V-s1/config.toml", &|_| "mix = \"V\"\nseed = =\n".into(), "config.toml:2:");
}

#[test]
fn a_log_that_is_being_written_is_no_fault() {
    let work = Work::new();
    let path = work.path("results/mini/table2/ende/R+V-s3/log.csv");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}350,2,3.")).unwrap();
    assert!(work.text(&[]).contains("R+V, seed 3: unfinished, at step 300 of 900."));
}

#[test]
fn nothing_there_says_which_command_makes_it() {
    let work = Work(tempfile::tempdir().unwrap());
    assert!(work.error(&[]).contains("no results under results: `synthesizer run experiments/mini/table2` makes some"));
    std::fs::create_dir_all(work.path("experiments/mini/table2")).unwrap();
    let error = work.error(&["experiments/mini/table2"]);
    assert!(error.contains("no results under results/mini/table2: `synthesizer run experiments/mini/table2` makes them, or `make reproduce-table2 PROFILE=mini`"), "{error}");
    assert!(work.error(&["results/mini/table9"]).contains("results/mini/table9: no such file or folder"));
}

#[test]
fn results_of_an_experiment_outside_the_house_are_reported_too() {
    let work = Work::new();
    copy(&work.path("results/mini/table2/enfr"), &work.path("other/custom/idea"));
    std::fs::copy(work.path("results/mini/table2/enfr.csv"), work.path("other/custom/idea.csv")).unwrap();
    let shown = work.text(&["--results", "other", "--plots", "pictures"]);
    assert!(shown.starts_with("Results of \"custom\", profile custom."), "{shown}");
    assert!(!shown.contains("published"), "{shown}");
    assert!(
        work.path("other/custom/custom.md").is_file() && work.path("pictures/custom/custom/idea-quality.svg").is_file()
    );
}

#[test]
fn rows_of_other_settings_or_data_are_in_no_mean_and_are_named() {
    let work = Work::new();
    let path = work.path("results/mini/table2/ende.csv");
    let text = std::fs::read_to_string(&path).unwrap();
    let with = |status: &dyn Fn(&str) -> &'static str| {
        let mut lines = text.lines();
        let mut marked = format!("{},status\n", lines.next().unwrap());
        lines.for_each(|line| marked += &format!("{line},{}\n", status(line)));
        marked
    };
    let cells = |work: &Work| -> HashMap<String, HashMap<String, String>> {
        sheet(&work.read("results/mini/table2/table2.csv")).into_iter().collect()
    };
    let plain = work.text(&["results/mini/table2"]);
    let before = cells(&work);
    // blank cells, as of a file that was merged from an older one, say nothing
    std::fs::write(&path, with(&|_| "")).unwrap();
    assert_eq!(work.text(&["results/mini/table2"]), plain);

    std::fs::write(
        &path,
        with(&|line| match line {
            _ if line.contains(",R,,1,") => "other settings",
            _ if line.contains(",Rfix,,") => "other data",
            _ if line.contains(",V,,3,") => "not planned",
            _ => "current",
        }),
    )
    .unwrap();
    let shown = work.text(&["results/mini/table2"]);
    let after = cells(&work);
    let bleu = |seed: u32| -> f64 {
        let rows = sheet(&text).into_iter().map(|row| row.1);
        let mut row =
            rows.filter(|row| row["mix"] == "R" && row["variant"].is_empty() && row["seed"] == seed.to_string());
        row.next().unwrap()["test.bleu"].parse().unwrap()
    };
    assert_eq!(after["Random"]["ende.bleu.n"], "2");
    let mean: f64 = after["Random"]["ende.bleu.mean"].parse().unwrap();
    assert!((mean - (bleu(2) + bleu(3)) / 2.0).abs() < 1e-6, "{mean}");
    // a row that has no other figure says why
    assert!(!before["Fixed Random"]["ende.bleu.mean"].is_empty());
    assert!(after["Fixed Random"]["ende.bleu.n"].is_empty() && after["Fixed Random"]["ende.bleu.delta"].is_empty());
    assert!(shown.contains("other data"), "{shown}");
    // the same settings can be compared
    let of_v = |cells: &HashMap<String, HashMap<String, String>>| -> Vec<(String, String)> {
        let mut rows: Vec<_> = cells.iter().filter(|(_, row)| row["mix"] == "V").collect();
        rows.sort_by_key(|(name, _)| name.as_str());
        rows.into_iter().map(|(name, row)| (name.clone(), row["ende.bleu.mean"].clone())).collect()
    };
    assert!(of_v(&after) == of_v(&before) && of_v(&after).iter().any(|(_, mean)| !mean.is_empty()));
    for note in [
        "English-German, R, seed 1: trained with other settings than the experiment file has; in no mean",
        "English-German, Rfix, seed 1: trained on other data than the newest row; in no mean",
        "English-German, V, seed 3: not in the experiment file, whose settings these rows have.",
    ] {
        assert!(shown.contains(note), "{note:?} is not in {shown}");
    }
    std::fs::write(&path, with(&|_| "old")).unwrap();
    let error = work.error(&["results/mini/table2"]);
    assert!(error.contains("ende.csv:2") && error.contains("\"old\"") && error.contains("`not planned`"), "{error}");
}
