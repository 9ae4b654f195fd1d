//! `bench attention` at sizes that take no time: what it writes, not how fast it is.

use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_synthesizer")).args(["bench", "attention"]).args(arguments).output().unwrap()
}

const TINY: [&str; 12] =
    ["--d-model", "16", "--heads", "2", "--batch", "2", "--repeats", "3", "--seconds", "0", "--device", "cpu"];

#[test]
fn the_csv_has_a_line_for_every_mix_length_part_and_pass() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/time.csv");
    let named = ["--mix", "R + V", "--mix", "FD(hidden=0)", "--mix", "V", "--lengths", "4,12", "--threads", "1"];
    let output = bench(&[&TINY[..], &named, &["--csv", path.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{output:?}");
    let mut reader = csv::Reader::from_path(&path).unwrap();
    let columns = "part,mix,length,batch,d_model,heads,causal,pass,median_seconds,low_seconds,high_seconds,repeats,\
                   peak_memory_bytes,device,threads,product_share,least_seconds,product_rate,copy_rate,\
                   cpu,version,command";
    assert_eq!(reader.headers().unwrap().iter().collect::<Vec<_>>().join(","), columns);
    let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().unwrap();
    let found: Vec<[&str; 4]> = rows.iter().map(|row| [&row[1], &row[2], &row[0], &row[7]]).collect();
    let mut expected = Vec::new();
    for length in ["4", "12"] {
        for part in ["core", "layer"] {
            for pass in ["forward", "forward+backward"] {
                expected.extend(["R+V", "FD(hidden=0)", "V"].map(|mix| [mix, length, part, pass]));
            }
        }
    }
    assert_eq!(found, expected);
    for row in &rows {
        let seconds = [9, 8, 10].map(|column| row[column].parse::<f64>().unwrap());
        assert!(0.0 < seconds[0] && seconds.is_sorted() && seconds[2] < 60.0, "{row:?}");
        assert_eq!([&row[3], &row[4], &row[5], &row[6], &row[11]], ["2", "16", "2", "true", "3"]);
        assert_eq!([&row[13], &row[14]], ["cpu", "1"]);
        assert!(!row[19].is_empty() && row[21].starts_with("synthesizer bench attention --d-model 16"), "{row:?}");
        // By the machine's rates the pass takes so many seconds at the least, and its products this share of them.
        let [share, least, product_rate, copy_rate] =
            [15, 16, 17, 18].map(|column| row[column].parse::<f64>().unwrap());
        assert!(share > 0.0 && copy_rate > 1e8, "{row:?}");
        assert!(least >= share * seconds[0] * (1.0 - 1e-9), "products alone take that long: {row:?}");
        assert!(product_rate > 1e8, "{row:?}");
        #[cfg(target_os = "linux")]
        assert!(row[12].parse::<u64>().unwrap() < 64 << 20, "{row:?}");
    }
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("layer, length 12: batch 2, d_model 16, heads 2, causal, float32, cpu, 1 threads"), "{text}");
    for v in text.lines().filter(|line| line.starts_with("V ")) {
        assert_eq!(v.split_whitespace().filter(|cell| *cell == "1.00").count(), 2, "V against itself: {v}");
    }
}

#[test]
fn batches_are_measured_one_after_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("batch.csv");
    let mut sizes = TINY;
    sizes[5] = "3,1";
    let named = ["--part", "layer", "--mix", "V", "--mix", "R", "--lengths", "4"];
    let output = bench(&[&sizes[..], &named, &["--csv", path.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{output:?}");
    let rows: Vec<csv::StringRecord> =
        csv::Reader::from_path(&path).unwrap().records().collect::<Result<_, _>>().unwrap();
    let found: Vec<[&str; 3]> = rows.iter().map(|row| [&row[3], &row[1], &row[7]]).collect();
    let mut expected = Vec::new();
    for batch in ["3", "1"] {
        for pass in ["forward", "forward+backward"] {
            expected.extend(["V", "R"].map(|mix| [batch, mix, pass]));
        }
    }
    assert_eq!(found, expected);
    let text = String::from_utf8(output.stdout).unwrap();
    let first = text.find("layer, length 4: batch 3, d_model 16").expect("batch 3");
    assert!(text.find("layer, length 4: batch 1, d_model 16").is_some_and(|second| first < second), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("R ")).count(), 2, "{text}");
}

/// An encoder's operator can't be causal: it is measured as it is, and the table and the CSV say so.
#[test]
fn operators_that_cannot_be_causal_are_measured_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("time.csv");
    let named = ["--mix", "DC(kernel=3)", "--mix", "Lin", "--lengths", "6", "--csv", path.to_str().unwrap()];
    let output = bench(&[&TINY[..], &named].concat());
    assert!(output.status.success(), "{output:?}");
    let rows: Vec<csv::StringRecord> =
        csv::Reader::from_path(&path).unwrap().records().collect::<Result<_, _>>().unwrap();
    let found: Vec<[&str; 2]> = rows.iter().map(|row| [&row[1], &row[6]]).collect();
    // an operator has no core apart from its layer
    assert_eq!(found, [["DC(kernel=3)", "true"], ["Lin", "false"], ["DC(kernel=3)", "true"], ["Lin", "false"]]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("heads 2, causal (not: Lin), float32"), "{text}");
}

#[test]
fn memory_grows_with_what_is_kept_for_the_backward_pass() {
    let arguments = [
        "--part",
        "layer",
        "--mix",
        "V",
        "--lengths",
        "512",
        "--repeats",
        "1",
        "--seconds",
        "0",
        "--device",
        "cpu",
        "--json",
    ];
    let output = bench(&[&arguments[..], &["--d-model", "64", "--heads", "4", "--batch", "4"]].concat());
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let peak = |row: usize| rows[row]["peak_memory_bytes"].as_u64();
    if let (Some(forward), Some(backward)) = (peak(0), peak(1)) {
        // Without gradients, at most all of Q, K, values and a few [B, h, L, L] = 16 MiB tensors; the backward pass needs more.
        assert!(forward < 128 << 20 && forward < backward, "{forward} {backward}");
        assert!((1 << 20) < forward, "{forward}");
    }
}

#[test]
fn the_users_faults_end_before_anything_runs() {
    let faults: [(&[&str], &str); 9] = [
        (&["--heads", "7"], "heads = 7 does not divide d_model = 512"),
        (&["--lengths", "0"], "max_length = 0"),
        (&["--lengths", "64,x"], "x"),
        (&["--batch", "0"], "batch is 0"),
        (&["--batch", "4,0"], "batch is 0"),
        (&["--repeats", "0"], "repeats"),
        (&["--device", "tpu"], "tpu"),
        (&["--mix", "FD(a=5)", "--lengths", "64"], "FD(a=5) at length 64"),
        (&["--csv", "/proc/nothing/time.csv"], "cannot write /proc/nothing/time.csv"),
    ];
    for (arguments, message) in faults {
        let output = bench(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(message) && !text.contains("should not happen") && !text.contains(" ms"), "{text}");
    }
    if !tch::Cuda::is_available() {
        let output = bench(&["--device", "cuda"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8(output.stderr).unwrap().contains("--device cuda"));
    }
}
