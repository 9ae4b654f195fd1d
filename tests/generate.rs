//! `synthesizer generate` as a user types it: what a line of input is, and what comes back for it.

mod common;

use common::workplace::{text, Workplace};
use std::io::Write;
use std::process::{Output, Stdio};

fn generate(place: &Workplace, arguments: &[&str], input: &[u8]) -> Output {
    let arguments = [&["generate"], arguments].concat();
    let mut command = place.command(&arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// The lines that it writes, if it ends well.
#[track_caller]
fn lines(place: &Workplace, arguments: &[&str], input: &[u8]) -> Vec<String> {
    let output = generate(place, arguments, input);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    String::from_utf8(output.stdout).unwrap().split_terminator('\n').map(String::from).collect()
}

fn experiment(task: &str, data: &str, steps: u64) -> String {
    let layers = match task {
        "language-modelling" => "decoder_layers = 1",
        _ => "encoder_layers = 1\ndecoder_layers = 1",
    };
    format!(
        "title = \"Case\"\ntask = \"{task}\"\nmix = \"V\"\n[data]\n{data}\nvocabulary = 300\nmax_tokens = 40\n\
         [model]\nd_model = 16\nheads = 2\n{layers}\nd_ff = 32\nmax_length = 64\n\
         dropout = 0.0\nattention_dropout = 0.0\nrelu_dropout = 0.0\n\
         [train]\nsteps = {steps}\nbatch_tokens = 256\nschedule = \"linear\"\nlearning_rate = 5e-3\nwarmup = 2\n\
         log_every = 10\nevaluate_every = {steps}\n"
    )
}

const THINGS: [&str; 6] = ["lamp", "fan", "door", "pump", "clock", "valve"];

/// A place with a translation model of sentences about [`THINGS`], whose test file has blank lines.
fn translation() -> (Workplace, &'static str) {
    let place = Workplace::new(r#"["V"]"#, 4);
    let sentences = |language: &str| THINGS.map(|thing| format!("{language} {thing} is on .")).join("\n") + "\n";
    for (file, text) in [("train.en", sentences("the")), ("train.de", sentences("die"))] {
        std::fs::write(place.path(file), text.repeat(4)).unwrap();
    }
    // A byte-order mark and CR LF; blank sources of several kinds; one of which a model sees blanks alone.
    let blank = ["", "  ", "\t", "\u{a0}\u{3000}", "\u{200b}\u{200d}"].join("\r\n");
    let cut = format!("{}the lamp is on .", "\t".repeat(90));
    std::fs::write(place.path("test.en"), format!("\u{feff}the fan is on .\r\n{blank}\r\n{cut}\r\nthe door is on ."))
        .unwrap();
    std::fs::write(place.path("test.de"), "die fan is on .\n\n\n\n\nx\ny\ndie door is on .\n").unwrap();
    let data = "corpus = \"text\"\nsource = \"en\"\ntarget = \"de\"\ntrain = [\"train.en\", \"train.de\"]\n\
                dev = [\"train.en\", \"train.de\"]\ntest = [\"test.en\", \"test.de\"]";
    place.write(&experiment("translation", data, 60));
    place.said(&["run", "toy.toml", "--threads", "1"], 0);
    (place, "results/custom/toy/V-s1")
}

#[test]
fn blank_lines_stay_blank_and_the_rules_of_files_hold_for_stdin() {
    let (place, folder) = translation();
    let plain = lines(&place, &[folder], b"the fan is on .\nthe door is on .\n");
    assert!(plain.len() == 2 && plain.iter().all(|line| !line.is_empty()), "{plain:?}");
    let [fan, door] = [&plain[0][..], &plain[1]];

    // What is in the test file's lines comes out of it there and here.
    let test = std::fs::read(place.path("test.en")).unwrap();
    let expected = [fan, "", "", "", "", "", "", door];
    for batch in ["1", "3", "32"] {
        assert_eq!(lines(&place, &[folder, "--batch", batch], &test), expected);
    }
    let hypotheses = std::fs::read_to_string(place.path(folder).join("test.hypotheses.txt")).unwrap();
    assert_eq!(hypotheses.lines().collect::<Vec<_>>(), expected);
    // JSON has the line as it was read.
    let json = lines(&place, &[folder, "--json"], "\u{feff}\u{a0}\r\nthe fan is on .".as_bytes());
    assert_eq!(
        json,
        [
            r#"{"input":" ","output":""}"#.replace(' ', "\u{a0}"),
            format!("{{\"input\":\"the fan is on .\",\"output\":{fan:?}}}")
        ]
    );
    // Only a line whose blanks hide words is cut.
    let said = text(&generate(&place, &[folder], format!("{}\n{}x\n", " ".repeat(500), "\t".repeat(500)).as_bytes()));
    assert!(!said.contains("line 1:") && said.contains("line 2: ") && said.contains("takes the first 40"), "{said}");

    // Concatenated files: the byte-order mark of a later line is not read.
    let marked = "\u{feff}the fan is on .\n\u{feff}the door is on .\n".as_bytes();
    assert_eq!(lines(&place, &[folder], marked), plain);
    assert_eq!(lines(&place, &[folder], b""), Vec::<String>::new());
    assert_eq!(lines(&place, &[folder], b"\n"), [""]);
}

#[test]
fn stdin_that_is_no_text_is_refused_after_the_lines_before() {
    let (place, folder) = translation();
    let fan = &lines(&place, &[folder], b"the fan is on .")[0];
    for (input, expected) in [
        (&b"the fan is on .\n\nb\xff\nthe door is on .\n"[..], "stdin, line 3: invalid UTF-8"),
        (b"the fan is on .\n\n\0\n", "stdin, line 3: a NUL byte"),
    ] {
        let output = generate(&place, &[folder], input);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{fan}\n\n"));
        assert!(text(&output).contains(expected), "{}", text(&output));
    }
    for (input, expected) in [(&b"\x1f\x8b\x08\0\0\n"[..], "gzip"), (b"\xff\xfeh\0i\0\n\0", "UTF-16")] {
        let output = generate(&place, &[folder], input);
        assert!(output.status.code() == Some(2) && text(&output).contains(expected), "{}", text(&output));
    }
}

#[test]
fn a_language_model_completes_no_blank_line() {
    let place = Workplace::new(r#"["V"]"#, 4);
    std::fs::write(place.path("a.txt"), THINGS.map(|thing| format!("the {thing} is on .\n")).concat().repeat(4))
        .unwrap();
    std::fs::write(place.path("test.txt"), "a lamp is on .\n").unwrap();
    let data = "corpus = \"text\"\ntrain = \"a.txt\"\ndev = \"a.txt\"\ntest = \"test.txt\"";
    place.write(&experiment("language-modelling", data, 60));
    place.said(&["run", "toy.toml", "--threads", "1"], 0);
    let found = lines(&place, &["results/custom/toy/V-s1"], format!("\nthe lamp\n \u{feff}\n{}\n", "\n").as_bytes());
    assert!(found[1].starts_with("the lamp"), "{found:?}");
    assert_eq!([&found[0], &found[2], &found[3], &found[4]], ["", "", "", ""]);
    assert_eq!(found.len(), 5);
}

#[test]
fn a_dialogue_model_gets_persona_and_history_as_in_training() {
    let place = Workplace::new(r#"["V"]"#, 4);
    let dialogue = |first: &str, second: &str| {
        format!(
            "1 your persona: i like the {first}.\n2 your persona: i am big.\\nyour persona: i am old.\n3 hello ,\\nis the {first} on ?\tyes , it is .|no\n\
             4 and the {second} ?\tthe {second} is on too .\n"
        )
    };
    let file = |shift: usize| -> String {
        (0..THINGS.len()).map(|at| dialogue(THINGS[at], THINGS[(at + shift) % THINGS.len()])).collect()
    };
    for (name, text) in [("train.txt", file(1) + &file(2) + &file(4)), ("test.txt", file(3))] {
        std::fs::write(place.path(name), text).unwrap();
    }
    for history in ["", "history = 1\n"] {
        let data = format!(
            "corpus = \"parlai\"\n{history}max_source_tokens = 60\ntrain = \"train.txt\"\ndev = \"test.txt\"\ntest = \"test.txt\""
        );
        place.write(&experiment("dialogue", &data, 40));
        place.said(&["run", "toy.toml", "--threads", "1", "--fresh"], 0);
        let folder = "results/custom/toy/V-s1";
        let input: String = (0..THINGS.len())
            .map(|at| {
                let (first, second) = (THINGS[at], THINGS[(at + 3) % THINGS.len()]);
                let one = format!(
                    "your persona: i like the {first}.\\nyour persona: i am big.\\nyour persona: i am old.\\nhello ,\\nis the {first} on ?"
                );
                format!("{one}\n{one}\\nyes , it is .\\n and the {second} ?\n")
            })
            .collect();
        let hypotheses = std::fs::read_to_string(place.path(folder).join("test.hypotheses.txt")).unwrap();
        assert_eq!(lines(&place, &[folder], input.as_bytes()), hypotheses.lines().collect::<Vec<_>>());
        assert_eq!(lines(&place, &[folder], b"\n\\n \\n\n"), ["", ""]);
        let output = generate(&place, &[folder], b"hello\thi\n");
        let said = text(&output);
        assert!(output.status.code() == Some(2) && said.contains("stdin, line 1") && said.contains("a tab"), "{said}");
    }
}

#[test]
fn the_help_says_what_a_line_is_for_each_task() {
    let place = Workplace::new(r#"["V"]"#, 4);
    let help = place.said(&["generate", "--help"], 0);
    for part in ["translation", "summarization", "<mask>", "separated by \\n", "a tab between", "A blank line"] {
        assert!(help.contains(part), "{part}: {help}");
    }
}
