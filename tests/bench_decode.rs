//! `bench decode` on a toy: what it measures, hands to the peer and says of it; not how fast it is.

mod common;

use common::workplace::{toy, Workplace};
use serde_json::Value;

const FEW: [&str; 8] = ["--sentences", "7", "--batch", "3", "--repeats", "3", "--seconds", "0"];

/// What `bench decode` printed, or said of an error.
#[track_caller]
fn bench(place: &Workplace, arguments: &[&str], code: i32) -> String {
    let output = place.run(&[&["bench", "decode", "--device", "cpu"], &FEW[..], arguments].concat());
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
    String::from_utf8_lossy(if code == 0 { &output.stdout } else { &output.stderr }).into_owned()
}

fn rows(place: &Workplace, arguments: &[&str]) -> Vec<Value> {
    serde_json::from_str(&bench(place, &[arguments, &["--json"]].concat(), 0)).unwrap()
}

#[test]
fn kernels_and_plain_steps_write_as_much_with_any_number_of_threads() {
    // trained a little, so that models differ and rows end before their limit
    let place = Workplace::new(r#"["V", "R+D", "FD"]"#, 60);
    place.write(&toy(r#"["V", "R+D", "FD"]"#, 60).replace("evaluate_every = 4", "evaluate_every = 60"));
    place.said(&["run", "toy.toml", "--device", "cpu"], 0);
    let runs = [&["--threads", "1"][..], &["--threads", "3"], &["--threads", "1", "--plain"]];
    let runs = runs.map(|options| rows(&place, &[&["toy.toml", "--beam", "1,3"], options].concat()));
    let said = |row: &Value| {
        let text = |key: &str| row[key].to_string();
        [text("mix"), text("beam"), text("sentences"), text("batch"), text("tokens"), text("steps")]
    };
    let first: Vec<_> = runs[0].iter().map(said).collect();
    let only = rows(&place, &["toy.toml", "--beam", "3", "--mix", "R+D"]);
    assert_eq!(only.iter().map(said).collect::<Vec<_>>(), first[3..4]);
    let names: Vec<&str> = first.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(names, ["\"V\"", "\"V\"", "\"R+D\"", "\"R+D\"", "\"FD\"", "\"FD\""]);
    assert!(first.iter().all(|row| row[2] == "7" && row[3] == "3"), "{first:?}");
    assert!(first[1][5] != first[3][5], "models that take as many steps show little: {first:?}");
    for other in &runs[1..] {
        assert_eq!(other.iter().map(said).collect::<Vec<_>>(), first);
    }
    for row in runs.iter().flatten() {
        let number = |key: &str| row[key].as_f64().unwrap();
        assert!(number("tokens") >= 7.0 && number("steps") >= 3.0, "{row}");
        assert!(number("stepped") >= number("steps") && number("stepped") <= 9.0 * number("steps"), "{row}");
        assert!((number("sentences_per_second") * number("median_seconds") - 7.0).abs() < 1e-6, "{row}");
        assert!((number("tokens_per_second") * number("median_seconds") - number("tokens")).abs() < 1e-6, "{row}");
        assert!(number("step_seconds") > 0.0 && number("encoder_seconds") > 0.0, "{row}");
        assert_eq!(row["trained"], true);
        assert!(row["ratio"].is_null() && row["differing"].is_null(), "{row}");
    }
}

#[test]
fn the_peer_gets_the_sentences_and_is_compared() {
    let place = Workplace::new(r#""V""#, 4);
    bench(&place, &["toy.toml", "--dump", "case.json", "--threads", "1"], 0);
    let case: Value = serde_json::from_slice(&std::fs::read(place.path("case.json")).unwrap()).unwrap();
    let sources: Vec<Vec<u32>> = serde_json::from_value(case["sources"].clone()).unwrap();
    let limits: Vec<usize> = serde_json::from_value(case["max_lengths"].clone()).unwrap();
    let batches: Vec<Vec<usize>> = serde_json::from_value(case["batches"].clone()).unwrap();
    // a source's end mark and the 50 tokens of `max_extra`, or max_length
    assert_eq!(limits, sources.iter().map(|source| (source.len() + 51).min(32)).collect::<Vec<_>>());
    assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [1, 3, 3]);
    let lengths: Vec<usize> = batches.concat().into_iter().map(|row| sources[row].len()).collect();
    assert_eq!((lengths.len(), sources.len()), (7, 7));
    assert!(lengths[0] >= lengths[1..4].iter().copied().max().unwrap() && lengths[1] >= lengths[6], "{lengths:?}");
    assert_eq!(case["model"]["max_length"], 32);
    assert!(std::path::Path::new(case["weights"].as_str().unwrap()).exists());

    // A peer that takes 2 s for 5 steps, whatever it is asked, and writes nothing but the same token six times.
    std::fs::write(
        place.path("peer.sh"),
        "test -s \"$1\" && test \"$2\" = --serve || exit 3\necho '{\"torch\": \"2.11.0\", \"threads\": 1}'\nwhile read beam; do test \"$beam\" = 2 || exit 4\n\
         echo '{\"seconds\": 2.0, \"steps\": 5, \"hypotheses\": [[9],[9],[9],[9],[9],[9]]}'\ndone\n",
    )
    .unwrap();
    let arguments = ["toy.toml", "--beam", "2", "--peer", "--python", "/bin/sh", "--script", "peer.sh"];
    let message = bench(&place, &[&arguments[..], &["--threads", "2"]].concat(), 2);
    assert!(message.contains("the peer runs with 1 threads and not with 2"), "{message}");
    let rows = rows(&place, &[&arguments[..], &["--threads", "1"]].concat());
    let row = &rows[0];
    let number = |key: &str| row[key].as_f64().unwrap();
    assert_eq!([number("peer_median_seconds"), number("peer_steps"), number("differing")], [2.0, 5.0, 7.0]);
    assert!((number("ratio") * number("median_seconds") - 2.0).abs() < 1e-9, "{row}");
}

#[test]
fn the_csv_says_where_it_was_measured_and_how() {
    let place = Workplace::new(r#""V""#, 4);
    bench(&place, &["toy.toml", "--beam", "1,2", "--threads", "1", "--csv", "decode.csv"], 0);
    let mut reader = csv::Reader::from_path(place.path("decode.csv")).unwrap();
    let columns: Vec<String> = reader.headers().unwrap().iter().map(String::from).collect();
    assert_eq!(columns[columns.len() - 5..], ["device", "threads", "cpu", "version", "command"]);
    let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().unwrap();
    assert_eq!(rows.iter().map(|row| &row[3]).collect::<Vec<_>>(), ["1", "2"]);
    for row in &rows {
        let command = row.iter().next_back().unwrap();
        assert!(
            command.starts_with("synthesizer bench decode --device cpu") && command.contains("toy.toml --beam 1,2"),
            "{row:?}"
        );
    }
}

#[test]
fn what_cannot_be_measured_says_why() {
    let place = Workplace::new(r#""FD+V""#, 4);
    let message = bench(&place, &["toy.toml", "--dump", "case.json"], 2);
    assert!(message.contains("the PyTorch peer has no FD; it has V, D, R, Rfix, FR"), "{message}");
    // with others to measure it is measured alone
    std::fs::write(place.path("peer.sh"), "exit 1\n").unwrap();
    let rows = rows(&place, &["toy.toml", "--beam", "1", "--peer", "--python", "/bin/sh", "--script", "peer.sh"]);
    assert!(rows.len() == 1 && rows[0]["ratio"].is_null(), "{rows:?}");
    let message = bench(&place, &["toy.toml", "--mix", "R"], 2);
    assert!(message.contains("no run has one of these mixes; there are FD+V"), "{message}");
    let message = bench(&place, &["nothing"], 2);
    assert!(message.contains("nothing/config.toml") && message.contains("folder of a run"), "{message}");
    let message = bench(&place, &["toy.toml", "--beam", "0"], 2);
    assert!(message.contains("--beam"), "{message}");
    let place = Workplace::new(r#""V""#, 4);
    let message = bench(&place, &["toy.toml", "--peer", "--python", "/no/python"], 2);
    assert!(message.contains("/no/python") && message.contains("--python"), "{message}");
    std::fs::write(place.path("gone.sh"), "exit 1\n").unwrap();
    let message = bench(&place, &["toy.toml", "--peer", "--python", "/bin/sh", "--script", "gone.sh"], 2);
    assert!(message.contains("no PyTorch peer") && message.contains("gone.sh ended"), "{message}");
}
