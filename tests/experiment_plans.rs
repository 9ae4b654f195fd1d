//! Experiment files: plans by name, defaults, hashes by what changes them, and the files that we give away.

#[path = "common/experiments.rs"]
mod experiments;

use experiments::*;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use synthesizer::attention::Mixing;
use synthesizer::experiment::{Run, Schedule, TaskKind};

#[test]
fn a_plan_is_mixes_by_seeds_then_variants() {
    let text =
        format!("title = \"T\"\nseeds = [3, 1]\n{MT}[[variant]]\nname = \"control\"\nmix = \"V\"\nmodel.d_ff = 3000\n");
    let plan = plan(&text);
    let names: Vec<&str> = plan.runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names, ["V-s3", "V-s1", "R+V-s3", "R+V-s1", "V.control-s3", "V.control-s1"]);
    assert_eq!(plan.runs[3].folder, Path::new("results/mini/table2/ende/R+V-s1"));
    assert_eq!(plan.results_csv, Path::new("results/mini/table2/ende.csv"));
    assert_eq!((plan.profile.as_str(), plan.table.as_str(), plan.column.as_str()), ("mini", "table2", "ende"));
    let d_ff: Vec<i64> = plan.runs.iter().map(|run| run.run.model.d_ff).collect();
    assert_eq!(d_ff, [2048, 2048, 2048, 2048, 3000, 3000]);
    assert_eq!(plan.runs[4].run.variant.as_deref(), Some("control"));
    assert!(plan.runs.iter().all(|run| run.run.title == "T" && run.hash == run.run.hash()));
}

#[test]
fn another_file_is_custom_and_titled_by_its_stem() {
    let plan = plan_at("ideas/mine.toml", &format!("{TASK}mix = \"FR( k = 4 ) + V\"\n")).expect("a plan");
    assert_eq!(plan.results_csv, Path::new("results/custom/mine.csv"));
    assert_eq!(plan.runs[0].folder, Path::new("results/custom/mine/FR(k=4)+V-s1"));
    assert_eq!((plan.profile.as_str(), plan.table.as_str(), plan.title.as_str()), ("custom", "", "mine"));
}

/// Tensor2Tensor's transformer_base, as PAPER.md has it.
#[test]
fn defaults_are_the_papers() {
    let run = &plan(MT).runs[0].run;
    assert_eq!((run.model.d_model, run.model.heads, run.model.d_ff, run.model.max_length), (512, 8, 2048, 256));
    assert_eq!((run.model.encoder_layers, run.model.decoder_layers), (6, 6));
    assert_eq!((run.model.dropout, run.model.attention_dropout, run.model.relu_dropout), (0.1, 0.1, 0.1));
    assert_eq!(run.model.mixing, Mixing::Softmax);
    assert_eq!((run.data.source.as_str(), run.data.target.as_str(), run.data.vocabulary), ("en", "de", 32_000));
    let train = &run.train;
    assert_eq!((train.schedule, train.learning_rate, train.warmup), (Schedule::InverseSquareRoot, 2.0, 8000));
    assert_eq!((train.beta1, train.beta2, train.epsilon, train.label_smoothing), (0.9, 0.997, 1e-9, 0.1));
    let decode = run.decode.as_ref().expect("translation decodes");
    assert_eq!((decode.beam, decode.length_penalty), (4, 0.6));

    let run = &plan(LM).runs[0].run;
    assert_eq!((run.task, run.model.encoder_layers, run.train.label_smoothing), (TaskKind::LanguageModelling, 0, 0.0));
    assert!(run.decode.is_none() && run.data.source.is_empty());
    // T5's span corruption, and no text of a human to smooth.
    let run = &plan(MASKED).runs[0].run;
    assert_eq!((run.data.window, run.data.noise_density, run.data.mean_span), (256, 0.15, 3.0));
    assert_eq!((run.model.encoder_layers, run.model.decoder_layers, run.train.label_smoothing), (6, 6, 0.0));
    assert!(run.decode.is_none());
    // The paper's rate of 2 belongs to its schedule.
    let linear = format!("{MT}[train]\nschedule = \"linear\"\n");
    assert_eq!(plan(&linear).runs[0].run.train.learning_rate, 1e-3);
}

#[test]
fn text_files_are_pairs_for_translation_and_single_for_language_modelling() {
    let files = |head: &str, train: &str, rest: &str| {
        let text = format!("{head}[data]\ncorpus = \"text\"\ntrain = {train}\n{rest}");
        plan(&text).runs[0].run.data.train.clone()
    };
    let mt = "dev = [\"d\", \"e\"]\ntest = [\"d\", \"e\"]\nsource = \"en\"\ntarget = \"de\"\n";
    let paths = |rows: &[&[&str]]| -> Vec<Vec<PathBuf>> {
        rows.iter().map(|row| row.iter().map(PathBuf::from).collect()).collect()
    };
    assert_eq!(files(MT, "[\"a.en\", \"a.de\"]", mt), paths(&[&["a.en", "a.de"]]));
    assert_eq!(files(MT, "[[\"a\", \"b\"], [\"c\", \"d\"]]", mt), paths(&[&["a", "b"], &["c", "d"]]));
    let lm = "dev = \"d\"\ntest = [\"d\"]\n";
    assert_eq!(files(LM, "[\"a\", \"b\"]", lm), paths(&[&["a"], &["b"]]));
    assert_eq!(files(LM, "\"a\"", lm), paths(&[&["a"]]));
    let home = std::env::var("HOME").expect("a home folder");
    assert_eq!(files(LM, "\"~/a\"", lm), vec![vec![Path::new(&home).join("a")]]);
}

/// A folder of results is found again by its hash: it must not move when nothing that counts was typed differently.
#[test]
fn equal_settings_have_equal_hashes() {
    let plain = plan(MT).runs[1].hash.clone();
    assert_eq!(plain.len(), 16);
    let typed = format!(
        "# a comment\nseeds = [2, 1] # more\n{}[model]\nheads=8 # the default\n",
        MT.replace("\"R+V\"", "\" R + V \"")
    );
    let runs = plan(&typed).runs;
    let same = runs.iter().find(|run| run.name == "R+V-s1").expect("the row");
    assert_eq!(same.hash, plain);
    assert_eq!(plan(MT).runs[1].hash, plain, "nothing but the settings counts");
}

/// Each key of a resolved run, changed alone, changes the hash.
#[test]
fn every_key_changes_the_hash() {
    let text = std::fs::read_to_string(MINI).expect("an experiment of ours");
    let plan = plan(&text);
    let run = &plan.runs.iter().find(|run| run.run.variant.is_some()).expect("a variant").run;
    let toml: toml::Table = run.to_toml().parse().expect("our own TOML");
    let mut hashes = HashSet::from([run.hash()]);
    let mut keys = 0;
    let mut change = |section: Option<&str>, key: &str, value: &toml::Value| {
        let changed = match value {
            toml::Value::Integer(n) => toml::Value::Integer(n + 1),
            toml::Value::Float(x) => toml::Value::Float(x + 0.5),
            toml::Value::Array(_) => toml::Value::try_from([["f"]]).expect("a list"),
            toml::Value::String(text) => toml::Value::String(
                match text.as_str() {
                    "translation" => "language-modelling",
                    "V" => "D",
                    "home-assistant" => "text",
                    "skip" => "cut",
                    "softmax" => "sum",
                    "linear" => "inverse-square-root",
                    "best" => "last",
                    _ => "other",
                }
                .to_owned(),
            ),
            toml::Value::Boolean(yes) => toml::Value::Boolean(!yes),
            other => panic!("{key} = {other}"),
        };
        let mut table = toml.clone();
        let place = match section {
            Some(section) => table[section].as_table_mut().expect("a section"),
            None => &mut table,
        };
        place.insert(key.to_owned(), changed);
        let changed = Run::from_toml(&table.to_string()).unwrap_or_else(|error| panic!("{key}: {error}"));
        // what a column is called is no setting
        assert_eq!(hashes.insert(changed.hash()), key != "title", "{section:?} {key}");
        keys += 1;
    };
    for (key, value) in &toml {
        match value {
            toml::Value::Table(section) => section.iter().for_each(|(name, value)| change(Some(key), name, value)),
            value => change(None, key, value),
        }
    }
    assert_eq!(keys, 5 + 9 + 10 + 16 + 4, "title, task, mix, variant, seed and four sections");
}

/// Keys that stand in config.toml only where they are not at their neutral value.
#[test]
fn keys_that_came_later_change_the_hash_too() {
    let cases = [
        ("dialogue", "corpus = \"parlai\"\ntrain = \"a\"\ndev = \"a\"\ntest = \"a\"", "personas = false"),
        ("dialogue", "", "history = 3"),
        ("dialogue", "", "vectors = \"glove.txt\""),
        ("dialogue", "", "max_source_tokens = 99"),
        ("dialogue", "", "[decode]\nmin_length = 2"),
        ("dialogue", "", "[decode]\nno_repeat_ngram = 3"),
        ("language-modelling", "", "window = 64"),
        ("masked-language-modelling", "", "window = 64"),
        ("masked-language-modelling", "", "noise_density = 0.3"),
        ("masked-language-modelling", "", "mean_span = 2.0"),
        ("classification", "corpus = \"imdb\"\nfolder = \"a\"", "another folder"),
        (
            "summarization",
            "corpus = \"json-lines\"\ntrain = \"a\"\ndev = \"a\"\ntest = \"a\"",
            "fields = [\"text\", \"title\"]",
        ),
        ("classification", "corpus = \"superglue\"\nfolder = \"a\"\nset = \"CB\"", "another set"),
    ];
    for (task, base, more) in cases {
        let text = format!("task = \"{task}\"\nmix = \"V\"\n[data]\n{base}\n");
        let one = plan(&text);
        let other = match more {
            "another set" => plan(&text.replace("CB", "RTE")),
            "another folder" => plan(&text.replace("\"a\"", "\"b\"")),
            more => plan(&format!("{text}{more}\n")),
        };
        assert_ne!(one.runs[0].hash, other.runs[0].hash, "{more}");
        assert_eq!(Run::from_toml(&other.runs[0].run.to_toml()).expect("what we wrote"), other.runs[0].run, "{more}");
    }
}

/// Results are found again by their hashes: keys that came later must not move those of the runs that were there.
#[test]
fn committed_results_are_of_the_settings_that_we_give_away() {
    let mut checked = 0;
    for column in [
        "table1/news",
        "table2/ende",
        "table2/enfr",
        "table2/lm1b",
        "table3/summarization",
        "table3/dialogue",
        "table7/agnews",
        "table7/reviews",
    ] {
        let path = format!("experiments/mini/{column}.toml");
        let planned = plan_at(&path, &std::fs::read_to_string(&path).expect("ours")).expect("a plan").runs;
        let csv = format!("results/mini/{column}.csv");
        let mut reader = csv::Reader::from_path(&csv).expect(&csv);
        for row in reader.deserialize::<std::collections::HashMap<String, String>>() {
            let row = row.expect(&csv);
            assert!(
                planned.iter().any(|run| run.hash == row["config_hash"]),
                "{csv}: {} seed {}",
                row["mix"],
                row["seed"]
            );
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked}");
}

#[test]
fn config_toml_reads_back_as_the_same_run() {
    for text in
        [format!("title = \"a \\\"b\\\" = ü\"\n{MT}"), LM.to_owned(), std::fs::read_to_string(MINI).expect("ours")]
    {
        for planned in plan(&text).runs {
            let read = Run::from_toml(&planned.run.to_toml()).expect("what we wrote");
            assert_eq!(read, planned.run);
            assert_eq!(read.hash(), planned.hash);
        }
    }
    let error = Run::from_toml("title = \"x\"\ntask = \"translation\"\n").expect_err("keys are missing").to_string();
    assert!(error.contains("missing field `mix`"), "{error}");
}

/// The files that we give away, by what the issue asks of them.
#[test]
fn our_experiments_hold_the_papers_rows() {
    let rows = ["V", "Rfix", "R", "FR", "D", "FD", "R+D", "D+V", "R+V"];
    for (file, control) in [
        ("experiments/mini/table2/ende.toml", Some(910)),
        ("experiments/mini/table2/enfr.toml", Some(910)),
        ("experiments/mini/table1/news.toml", None),
        ("experiments/paper/table2/ende.toml", Some(2560)),
        ("experiments/paper/table2/enfr.toml", Some(2560)),
    ] {
        let text = std::fs::read_to_string(file).expect(file);
        let plan = plan_at(file, &text).unwrap_or_else(|problems| panic!("{problems}"));
        let mixes: Vec<String> =
            plan.runs.iter().filter(|run| run.run.variant.is_none()).map(|run| run.run.mix.to_string()).collect();
        assert_eq!(mixes, rows, "{file}");
        let larger = plan.runs.iter().find(|run| run.name == "V.control-s1").map(|run| run.run.model.d_ff);
        assert_eq!(larger, control, "{file}");
    }
}

/// Every file of ours makes a plan, and the mini ones have the rows of the paper's tables.
#[test]
fn all_our_experiments_plan() {
    let plans = synthesizer::experiment::plan_all(&["experiments".into()], Path::new("results")).unwrap();
    assert!(plans.len() > 25, "{}", plans.len());
    let all = ["V", "Rfix", "R", "FR", "D", "FD", "R+D", "D+V", "R+V"];
    let (five, four) = (["V", "R", "D", "D+V", "R+V"], ["V", "Lin", "FR", "FR+V"]);
    let expected: [(&str, &[&str], usize); 7] = [
        ("table1/news", &all, 1),
        ("table2/lm1b", &all, 1),
        ("table3/summarization", &five, 1),
        ("table3/dialogue", &five, 3),
        ("table6/news", &["V", "DC", "LC", "D", "R", "D+V", "R+V"], 1),
        ("table7/agnews", &four, 3),
        ("table7/reviews", &four, 3),
    ];
    for (column, mixes, seeds) in expected {
        let path = PathBuf::from(format!("experiments/mini/{column}.toml"));
        let (_, plan) = plans.iter().find(|(experiment, _)| experiment.source.path == path).expect(column);
        let mut found: Vec<String> = plan.runs.iter().map(|run| run.run.mix.to_string()).collect();
        assert_eq!(found.len(), mixes.len() * seeds, "{column}");
        found.dedup();
        assert_eq!(found, mixes, "{column}");
    }
}

/// The larger V of both profiles has as many parameters more as R adds: h·N² a layer, and 2·d + 1 for each unit of d_ff.
#[test]
fn control_is_as_large_as_random_plus_vanilla() {
    for file in ["experiments/mini/table2/ende.toml", "experiments/paper/table2/ende.toml"] {
        let plan = plan_at(file, &std::fs::read_to_string(file).expect(file)).expect("a plan");
        let (base, larger) = (&plan.runs[0].run.model, &plan.runs[plan.runs.len() - 1].run.model);
        let layers = base.encoder_layers + base.decoder_layers;
        let random = layers * base.heads * base.max_length * base.max_length;
        let control = layers * (larger.d_ff - base.d_ff) * (2 * base.d_model + 1);
        assert!((control - random).abs() * 100 < random, "{file}: {control} against {random}");
    }
}
