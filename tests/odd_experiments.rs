//! Experiment files that nobody would write: each ends in messages with a place, and none of them takes time or memory that
//! grows faster than the file.

#[path = "common/workplace.rs"]
mod workplace;

use std::path::Path;
use std::process::Stdio;
use synthesizer::experiment::{Experiment, Problems};
use workplace::Workplace;

const LM: &str = "task = \"language-modelling\"\nmix = [\"V\"]\n";

fn problems(text: &str) -> Problems {
    let plan =
        Experiment::parse(Path::new("x.toml"), text).and_then(|experiment| experiment.plan(Path::new("results")));
    plan.expect_err("a problem")
}

/// Files of a megabyte that hold one thing many times. Each took minutes or gigabytes where a pass over the file was made for
/// every element.
#[test]
fn a_thing_many_times_is_told_in_short() {
    let list = |element: &dyn Fn(usize) -> String, count: usize| (0..count).map(element).collect::<Vec<_>>().join(",");
    let cases = [
        format!("task = \"language-modelling\"\nmix = [{}]\n", list(&|k| format!("\"FR(k={})\"", k + 1), 60_000)),
        format!("task = \"language-modelling\"\nmix = [{}]\n", list(&|_| "\"V\"".into(), 200_000)),
        format!("task = \"language-modelling\"\nmix = [{}]\n", list(&|k| format!("\"Q{k}\""), 1000)),
        format!("task = \"language-modelling\"\nmix = \"{}V\"\n", "V+".repeat(400_000)),
        format!("task = \"language-modelling\"\nmix = \"{}\"\n", "V".repeat(900_000)),
        format!("task = \"language-modelling\"\nmix = \"FR(k={})\"\n", "9".repeat(900_000)),
        format!("{LM}seeds = [{}]\n", list(&|seed| seed.to_string(), 150_000)),
        format!("{LM}{}", list(&|k| format!("\nk{k}=1"), 80_000).replace(',', "")),
        format!("{LM}[model]\n{}", list(&|k| format!("\nk{k}=1"), 80_000).replace(',', "")),
        format!("{LM}{} = 1\n", "k".repeat(900_000)),
        format!("{LM}{} = [{}]\n", "k".repeat(500_000), "1,".repeat(100_000)),
        format!("title = \"{}\"\n{LM}", "t".repeat(900_000)),
        format!("{LM}[data]\ncorpus = \"text\"\ntrain = [{}]\n", list(&|n| format!("\"f{n}\""), 100_000)),
        format!("{LM}[data]\ncorpus = \"text\"\ntrain = \"{}\"\ndev = \"a\"\ntest = \"b\"\n", "p".repeat(900_000)),
        format!("{LM}x = {}{}\n", "[".repeat(400_000), "]".repeat(400_000)),
        format!("{LM}x = {}1{}\n", "{a=".repeat(200_000), "}".repeat(200_000)),
    ];
    for text in cases {
        let found = problems(&text);
        let start: String = text.chars().take(80).collect();
        assert!(found.0.iter().all(|problem| problem.place.is_some()), "{start}");
        let message = found.to_string();
        assert!(message.len() < 60_000, "{start}: {} bytes", message.len());
        assert!(message.lines().all(|line| line.chars().count() < 700), "{start}: {message:.2000}");
    }
}

/// Each ends with exit code 2 and the file's name, and the program does not wait.
#[test]
fn what_is_no_experiment_file_is_refused() {
    let place = Workplace::new(r#"["V"]"#, 4);
    std::fs::write(place.path("big.toml"), vec![b'#'; (1 << 20) + 1]).unwrap();
    std::fs::create_dir(place.path("folder.toml")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(place.path("pipe.toml")).status().unwrap();
    assert!(made.success());
    for (file, message) in [
        ("big.toml", "big.toml: can't be read: it is larger than 1 MiB; experiment files are read up to that size"),
        ("pipe.toml", "pipe.toml: can't be read: it is a pipe, not a file"),
        ("/dev/zero", "/dev/zero: can't be read: it is a device, not a file"),
        ("/dev/null", "/dev/null: can't be read: it is a device, not a file"),
        ("folder.toml", "folder.toml: no *.toml beneath this folder"),
    ] {
        for command in ["validate", "run"] {
            let said = place.said(&[command, file], 2);
            assert!(said.contains(message), "{command} {file}: {said}");
        }
    }
    let piped = place.command(&["validate", "/dev/stdin"]).stdin(Stdio::piped()).output().unwrap();
    assert_eq!(piped.status.code(), Some(2));
    assert!(workplace::text(&piped).contains("/dev/stdin: can't be read: it is a pipe, not a file"));
    // a byte-order mark and carriage returns are an editor's, and do no harm
    let plain = std::fs::read_to_string(place.path("toy.toml")).unwrap();
    std::fs::write(place.path("toy.toml"), format!("\u{feff}{}", plain.replace('\n', "\r\n"))).unwrap();
    place.said(&["validate", "toy.toml"], 0);
    for (bytes, message) in [
        (&b"\xff\xfet\0"[..], "line 1 is not UTF-8 text"),
        (b"task = \"translation\"\n\0", ":2:2: "),
        (b"title = \"a\xc3\"\n", "line 1 is not UTF-8 text"),
        (b"", "`task` is missing"),
    ] {
        std::fs::write(place.path("toy.toml"), bytes).unwrap();
        let said = place.said(&["validate", "toy.toml"], 2);
        assert!(said.contains(message), "{said}");
    }
}

/// Data that are a pipe or a device are refused too, and nobody waits for a writer.
#[test]
fn data_that_are_no_file_are_refused() {
    let place = Workplace::new(r#"["V"]"#, 4);
    assert!(std::process::Command::new("mkfifo").arg(place.path("pipe")).status().unwrap().success());
    std::fs::write(place.path("a"), "one\ntwo\n").unwrap();
    for (file, what) in [("pipe", "a pipe"), ("/dev/zero", "a device")] {
        place.write(&format!(
            "task = \"language-modelling\"\nmix = \"V\"\n[data]\ncorpus = \"text\"\ntrain = \"{file}\"\ndev = \"a\"\ntest = \"a\"\n"
        ));
        for command in ["validate", "run"] {
            let said = place.said(&[command, "toy.toml"], 2);
            assert!(said.contains(&format!("toy.toml:5:9: {file} can't be read: it is {what}, not a file")), "{said}");
        }
    }
}

/// `V+R` on the command line is the `R+V` of the file.
#[test]
fn a_mix_is_chosen_in_any_spelling() {
    let place = Workplace::new(r#"["R+V", "FR", "V"]"#, 4);
    for (mix, run) in [("V+R", "R+V-s1"), (" V + R ", "R+V-s1"), ("FR(k=8)", "FR-s1"), ("V(rank=8)", "V-s1")] {
        let said = place.said(&["run", "toy.toml", "--dry-run", "--mix", mix], 0);
        assert!(said.contains("Toy: 1 runs") && said.contains(&format!("  {run} ")), "{mix}: {said}");
    }
    let said = place.said(&["run", "toy.toml", "--dry-run", "--mix", "V(rank=4)"], 2);
    assert!(said.contains("no run has one of these mixes; there are R+V, FR, V"), "{said}");
}
