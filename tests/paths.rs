//! Where results go: never outside the folder of results, and under names that every file system takes.

mod common;

use common::workplace::{toy, Workplace};
use std::path::{Path, PathBuf};
use synthesizer::experiment::{files, Experiment};

fn csv_of(file: &str, results: &str) -> Result<PathBuf, String> {
    let experiment = Experiment::parse(Path::new(file), &toy(r#"["V"]"#, 4)).unwrap();
    experiment.plan(Path::new(results)).map(|plan| plan.results_csv).map_err(|problems| problems.to_string())
}

#[test]
fn a_path_is_normalised_before_it_names_anything() {
    for (file, csv) in [
        ("experiments/mini/table2/ende.toml", "r/mini/table2/ende.csv"),
        ("experiments/mini/../mini/./table2//ende.toml", "r/mini/table2/ende.csv"),
        ("/somewhere/experiments/mini/table2/ende.toml", "r/mini/table2/ende.csv"),
        ("experiments/../../y.toml", "r/custom/y.csv"),
        ("experiments/../y.toml", "r/custom/y.csv"),
        ("experiments/mini/../y.toml", "r/custom/y.csv"),
        ("/experiments/../../../y.toml", "r/custom/y.csv"),
        ("/x/experiments/../experiments/mini/table2/../../../y.toml", "r/custom/y.csv"),
        ("my experiment (2).toml", "r/custom/my experiment (2).csv"),
        ("wmt14.en-de.toml", "r/custom/wmt14.en-de.csv"),
        ("notes.txt", "r/custom/notes.csv"),
    ] {
        assert_eq!(csv_of(file, "r").unwrap(), Path::new(csv), "{file}");
    }
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let long = format!("{}.toml", "x".repeat(101));
    for file in [
        "..toml",
        "...toml",
        ".toml",
        ".lock.toml",
        "con.toml",
        "nul.en.toml",
        "a .toml",
        "a..toml",
        " a.toml",
        "a\nb.toml",
        "\u{1b}[2J.toml",
        "experiments/.git/table2/ende.toml",
        "experiments/mini/aux/ende.toml",
        "experiments/mini /table2/ende.toml",
        "experiments/bench/table2/ende.toml",
        "experiments/custom/table2/ende.toml",
        "experiments/mini/table1/cost.toml",
        "time.toml",
        &long,
    ] {
        let said = csv_of(file, "r").unwrap_err();
        assert!(said.contains("rename the f"), "{file:?}: {said}");
    }
}

#[cfg(unix)]
#[test]
fn a_name_that_is_not_utf8_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let file = Path::new(std::ffi::OsStr::from_bytes(b"caf\xe9.toml"));
    let experiment = Experiment::parse(file, &toy(r#"["V"]"#, 4)).unwrap();
    assert!(experiment.plan(Path::new("r")).unwrap_err().to_string().contains("rename the file"));
}

#[test]
fn runs_whose_folders_would_have_too_long_names_are_refused() {
    let mix = "V(rank=8) + D(hidden=100000) + R + FR(k=100000) + FD(hidden=100000, a=100000, b=100000)";
    let variant = format!("[[variant]]\nname = \"{}\"\nmix = \"{mix}\"\nmodel.d_ff = 8\n", "x".repeat(100));
    let experiment = Experiment::parse(Path::new("toy.toml"), &(toy(r#"["V"]"#, 4) + &variant)).unwrap();
    let said = experiment.plan(Path::new("r")).unwrap_err().to_string();
    assert!(said.contains("toy.toml:25") && said.contains("a run's name would have 1"), "{said}");
}

#[test]
fn one_file_by_two_paths_is_one_experiment() {
    let place = Workplace::new(r#"["V"]"#, 4);
    let (plain, around) = (place.path("toy.toml"), place.path("x/../toy.toml"));
    std::fs::create_dir(place.path("x")).unwrap();
    assert_eq!(files(&[plain.clone(), around]).unwrap(), [plain]);
}

#[test]
fn nothing_is_written_outside_the_folder_of_results() {
    let place = Workplace::new(r#"["V"]"#, 4);
    std::fs::create_dir_all(place.path("in/deep/experiments")).unwrap();
    let text = std::fs::read(place.path("toy.toml")).unwrap();
    for name in ["in/y.toml", "in/..toml", "in/...toml"] {
        std::fs::write(place.path(name), &text).unwrap();
    }
    let names = || {
        let entries = std::fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name());
        entries.map(|name| name.into_string().unwrap()).collect::<std::collections::BTreeSet<_>>()
    };
    for command in ["validate", "run"] {
        for file in ["in/..toml", "in/...toml"] {
            let said = place.said(&[command, file, "--results", "r/in/deep"], 2);
            assert!(said.contains("rename the file"), "{said}");
        }
    }
    assert!(!names().contains("r"));
    place.said(&["run", "in/deep/experiments/../../y.toml", "--results", "r/in/deep"], 0);
    assert!(place.path("r/in/deep/custom/y.csv").exists() && place.path("r/in/deep/custom/y/V-s1").is_dir());
    let wanted = ["cache", "in", "r", "toy.toml"].map(str::to_string);
    assert_eq!(names(), wanted.into());
    assert_eq!(std::fs::read_dir(place.path("r")).unwrap().count(), 1);
    assert_eq!(std::fs::read_dir(place.path("r/in")).unwrap().count(), 1);
}
