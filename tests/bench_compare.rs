//! `bench compare` against a peer that stands in for PyTorch and answers what it is told to: a script of the shell.

#[path = "common/workplace.rs"]
mod workplace;

use std::path::Path;
use std::process::{Command, Output};
use synthesizer::bench::train::Subject;
use synthesizer::experiment::Experiment;

/// Answers as the peer does: 0.25 s for every run, 3 MiB of memory, no fused form of R+V.
const PEER: &str = r#"
threads=$2; keep=1; [ "$3" = --stock-allocator ] && keep=0
while read -r line; do
  case "$line" in
    *'"do":"hello"'*) echo "{\"torch\": \"VERSION+cpu\", \"threads\": $threads}" ;;
    *'"mix":"R+V","form":"fused"'*) echo '{"unfit": "nothing fused"}' ;;
    *'"do":"attention"'*) echo '{}' ;;
    *'"do":"memory"'*) echo '{"bytes": 3145728}' ;;
    *'"do":"seconds"'*) if [ $keep = 1 ]; then echo '{"seconds": [0.25]}'; else echo '{"seconds": [0.5]}'; fi ;;
    *'"do":"training"'*) echo '{"parameters": 7, "loss": 1.0}' ;;
    *) echo '{"error": "what is this"}' ;;
  esac
done
"#;

fn compare(script: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_synthesizer"));
    command.args(["bench", "compare"]).args(arguments).args(["--python", "/bin/sh", "--script"]).arg(script);
    command.env("SYNTHESIZER_CACHE", env!("CARGO_TARGET_TMPDIR")).output().unwrap()
}

fn peer(folder: &Path, text: &str) -> std::path::PathBuf {
    let path = folder.join("peer.sh");
    std::fs::write(&path, text.replace("VERSION", "2.11.0")).unwrap();
    path
}

const TINY: [&str; 14] = [
    "attention",
    "--d-model",
    "16",
    "--heads",
    "2",
    "--batch",
    "4",
    "--tokens",
    "16",
    "--rounds",
    "3",
    "--seconds",
    "0",
    "--threads=1",
];

#[test]
fn ratios_are_the_peers_time_over_ours() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("bench/attention.csv");
    let script = peer(folder.path(), PEER);
    let named = ["--mix", "V", "--mix", "R+V", "--lengths", "4,8", "--part", "layer", "--csv", csv.to_str().unwrap()];
    let output = compare(&script, &[&TINY[..], &named].concat());
    assert!(output.status.success(), "{output:?}");
    let mut reader = csv::Reader::from_path(&csv).unwrap();
    let columns = "part,mix,length,batch,d_model,heads,causal,pass,peer,allocator,peer_seconds,our_seconds,ratio,ratio_low,\
                   ratio_high,rounds,product_share,least_seconds,peer_peak_memory_bytes,our_peak_memory_bytes,product_rate,\
                   copy_rate,threads,torch,cpu,version,command";
    let header = reader.headers().unwrap().clone();
    assert_eq!(header.iter().collect::<Vec<_>>().join(","), columns);
    let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().unwrap();
    let mut expected = Vec::new();
    // No more than 16 tokens in a batch.
    for (length, batch) in [("4", "4"), ("8", "2")] {
        for (mix, forms) in [("V", &["stock", "kept", "fused"][..]), ("R+V", &["stock", "kept"])] {
            for form in forms {
                let (peer, allocator) = match *form {
                    "stock" => ("eager", "stock"),
                    "kept" => ("eager", "kept"),
                    fused => (fused, "kept"),
                };
                for pass in ["forward", "forward+backward"] {
                    expected.push([mix, length, batch, pass, peer, allocator]);
                }
            }
        }
    }
    let found: Vec<[&str; 6]> = rows.iter().map(|row| [1, 2, 3, 7, 8, 9].map(|column| &row[column])).collect();
    assert_eq!(found, expected);
    for row in &rows {
        let number = |column: usize| row[column].parse::<f64>().unwrap();
        let theirs = if &row[9] == "stock" { 0.5 } else { 0.25 };
        assert_eq!(number(10), theirs);
        assert!((number(12) - theirs / number(11)).abs() < 1e-9 * number(12), "{row:?}");
        assert!(number(13) <= number(12) * (1.0 + 1e-9) && number(12) <= number(14) * (1.0 + 1e-9), "{row:?}");
        assert_eq!(
            [&row[15], &row[18], &row[22], &row[23], &row[25]],
            ["3", "3145728", "1", "2.11.0+cpu", env!("CARGO_PKG_VERSION")]
        );
        assert!(row[26].starts_with("synthesizer bench compare attention --d-model 16"), "{row:?}");
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.starts_with("R+V")).unwrap();
    assert!(line.contains("·") && line.contains("/ 3.0"), "no fused form, its memory: {text}");
}

#[test]
fn a_peer_that_cannot_be_compared_with_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let named = ["--mix", "V", "--lengths", "4"];
    let arguments = [&TINY[..], &named].concat();
    let cases = [
        (PEER.replace("VERSION", "2.10.0"), "the peer is PyTorch 2.10.0+cpu, and ours is LibTorch 2.11.0"),
        (PEER.replace("$threads}", "9}"), "the peer runs with 9 threads and not with 1"),
        ("exit 1".to_string(), "no peer to compare with: /bin/sh could not run PyTorch; `make bench` makes the peer"),
        (
            PEER.replace("echo '{}'", "echo '{\"error\": \"no memory\"}'"),
            "the peer answered `attention` with: no memory",
        ),
    ];
    for (text, message) in cases {
        let output = compare(&peer(folder.path(), &text), &arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(message) && !text.contains("should not happen"), "{text}");
    }
    let output = compare(&folder.path().join("nothing.py"), &arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("nothing.py: run this in the repository's folder; `make bench` makes the peer"), "{text}");
}

/// Without dropout, which the two would draw differently.
fn toy() -> String {
    let none = "max_length = 32\ndropout = 0.0\nattention_dropout = 0.0\nrelu_dropout = 0.0\n";
    workplace::toy("\"V\"", 9).replace("max_length = 32\n", none)
}

/// Losses and numbers of parameters are compared before anything is timed.
#[test]
fn another_model_is_not_compared_with() {
    let folder = tempfile::tempdir().unwrap();
    let script = peer(folder.path(), PEER);
    let toml = folder.path().join("toy.toml");
    std::fs::write(&toml, toy()).unwrap();
    let output = compare(&script, &["train", toml.to_str().unwrap(), "--threads=1"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("V: the peer's model has 7 parameters, ours "), "{text}");
}

#[test]
fn nothing_to_measure_is_an_error_and_leaves_the_file_of_before() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("attention.csv");
    let script = peer(folder.path(), PEER);
    let output = compare(&script, &[&TINY[..], &["--mix=R+V", "--against=fused", "--lengths=4"]].concat());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("nothing was measured: PyTorch has no such form"), "{text}");
    // no peer: what was measured before is still there
    std::fs::write(&csv, "before").unwrap();
    let script = peer(folder.path(), "exit 1");
    let output = compare(&script, &[&TINY[..], &["--mix=V", "--csv", csv.to_str().unwrap()]].concat());
    assert!(!output.status.success(), "{output:?}");
    assert_eq!(std::fs::read_to_string(&csv).unwrap(), "before");
}

/// A peer with our losses, whose steps take 2 s each, but for a turn's first.
#[test]
fn a_training_step_is_compared_by_its_tokens_a_second() {
    std::env::set_var("SYNTHESIZER_CACHE", env!("CARGO_TARGET_TMPDIR"));
    let folder = tempfile::tempdir().unwrap();
    let experiment = Experiment::parse(Path::new("toy.toml"), &toy()).unwrap();
    let run = experiment.plan(Path::new("results")).unwrap().runs.remove(0).run;
    let task = synthesizer::task::build(&run, tch::Device::Cpu).unwrap();
    let parameters = synthesizer::model::count_parameters(task.variables()).1;
    let mut subject = Subject::new(&run, task.as_ref(), 4).unwrap();
    let losses: Vec<f64> = (0..4).map(|_| subject.step().unwrap().loss).collect();
    let text = PEER.replace("\"parameters\": 7", &format!("\"parameters\": {parameters}")).replace(
        "*) echo '{\"error",
        &format!(
            "*'\"count\":4,\"do\":\"steps\"'*) echo '{{\"seconds\": [], \"losses\": {losses:?}}}' ;;\n\
             *'\"count\":5,\"do\":\"steps\"'*) echo '{{\"seconds\": [[8,1,0,9],[1,1,0,2],[1,1,0,2],[1,1,0,2],[1,1,0,2]], \"losses\": []}}' ;;\n\
             *'\"do\":\"step_memory\"'*) echo '{{\"bytes\": 4194304}}' ;;\n    *) echo '{{\"error"
        ),
    );
    let script = peer(folder.path(), &text);
    let (toml, csv) = (folder.path().join("toy.toml"), folder.path().join("train.csv"));
    std::fs::write(&toml, toy()).unwrap();
    let arguments = ["--threads=1", "--turns=2", "--against=eager", "--csv", csv.to_str().unwrap()];
    let output = compare(&script, &[&["train", toml.to_str().unwrap()], &arguments[..]].concat());
    assert!(output.status.success(), "{output:?}");
    let mut reader = csv::Reader::from_path(&csv).unwrap();
    let columns = "experiment,mix,parameters,peer,allocator,peer_seconds,our_seconds,peer_tokens_per_second,our_tokens_per_second,\
                   ratio,ratio_low,ratio_high,steps,product_share,least_seconds,peer_peak_memory_bytes,our_peak_memory_bytes,\
                   product_rate,copy_rate,threads,torch,cpu,version,command";
    let header: Vec<String> = reader.headers().unwrap().iter().map(String::from).collect();
    assert_eq!(header.join(","), columns);
    let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().unwrap();
    let [row] = &rows[..] else { panic!("one run, one form: {rows:?}") };
    let cell = |name: &str| &row[header.iter().position(|column| column == name).unwrap()];
    let number = |name: &str| cell(name).parse::<f64>().unwrap();
    assert_eq!(["experiment", "mix", "peer", "allocator"].map(cell), ["Toy", "V", "eager", "kept"]);
    assert_eq!([number("peer_seconds"), number("steps"), number("peer_peak_memory_bytes")], [2.0, 8.0, 4194304.0]);
    let ratio = number("our_tokens_per_second") / number("peer_tokens_per_second");
    assert!((number("ratio") / ratio - 1.0).abs() < 1e-9 && ratio > 1.0, "{row:?}");
    // eight steps of at most 256 tokens a side in 16 s
    assert!((8.0..128.0).contains(&number("peer_tokens_per_second")), "{row:?}");
    assert!(number("least_seconds") > 0.0 && number("least_seconds") < number("our_seconds"), "{row:?}");
    assert!(number("product_share") > 0.0 && number("product_share") < 1.0, "{row:?}");
}
