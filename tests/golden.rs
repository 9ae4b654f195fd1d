//! The attention layer against the 56 golden files: outputs and gradients, in float64 and float32.

use std::path::PathBuf;
use synthesizer::cli::parity::{compare, compare_on, Arithmetic, TOLERANCE};

fn files() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "safetensors"))
        .collect();
    files.sort();
    files
}

#[test]
fn every_golden_file_agrees() {
    tch::set_num_threads(1);
    let files = files();
    assert_eq!(files.len(), 56);
    for file in files {
        let comparison = compare(&file).unwrap();
        let (name, error) = comparison.largest(|_| true);
        assert!(error <= TOLERANCE, "{}: {name} differs by {error:e}", file.display());
        assert!(comparison.agrees());
        // The output, the input's gradient, and at least those of the two projections with their biases.
        assert!(comparison.errors.len() >= 6, "{}: {:?}", file.display(), comparison.errors.keys());
    }
}

#[test]
fn every_golden_file_agrees_in_float32_within_its_tolerance() {
    tch::set_num_threads(1);
    for file in files() {
        let comparison = compare_on(&file, tch::Device::Cpu, Arithmetic::Float32).unwrap();
        let (name, error) = comparison.largest(|_| true);
        assert!(comparison.agrees(), "{}: {name} differs by {error:e}", file.display());
        // In float64 no file is this far off: the layer was computed in float32.
        assert!(error > TOLERANCE, "{}: {error:e}", file.display());
    }
    let (_folder, file) = altered(|bytes| overwrite(bytes, "out", 1e-3));
    assert!(!compare_on(&file, tch::Device::Cpu, Arithmetic::Float32).unwrap().agrees());
}

/// A golden file with its bytes changed, in a folder that lasts as long as the result.
fn altered(change: impl Fn(&mut Vec<u8>)) -> (tempfile::TempDir, PathBuf) {
    tch::set_num_threads(1);
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = std::fs::read(golden("d_v-b2l6d16h2n8-causal-pad")).unwrap();
    change(&mut bytes);
    let file = folder.path().join("altered.safetensors");
    std::fs::write(&file, bytes).unwrap();
    (folder, file)
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(format!("{}/tests/golden/{name}.safetensors", env!("CARGO_MANIFEST_DIR")))
}

/// Writes `value` over the first number of a tensor.
fn overwrite(bytes: &mut [u8], tensor: &str, value: f64) {
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let json: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let start = 8 + header + json[tensor]["data_offsets"][0].as_u64().unwrap() as usize;
    bytes[start..start + 8].copy_from_slice(&value.to_le_bytes());
}

/// Replaces text in the header by text of the same length.
fn reword(bytes: &mut [u8], from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
}

fn parity(arguments: &[&std::ffi::OsStr]) -> (i32, String, String) {
    let program = env!("CARGO_BIN_EXE_synthesizer");
    let output = std::process::Command::new(program).arg("parity").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_wrong_number_anywhere_is_found() {
    for (name, value) in
        [("out", 1e6), ("out", f64::NAN), ("grad.x", 1e6), ("grad.alpha", f64::NAN), ("grad.dense.b2", -7.0)]
    {
        let (_folder, file) = altered(|bytes| overwrite(bytes, name, value));
        let comparison = compare(&file).unwrap();
        assert!(!comparison.agrees());
        assert_eq!(comparison.largest(|_| true).0, name);
        assert!(comparison.errors.iter().all(|(other, error)| other == name || *error <= TOLERANCE));
    }
    // A wrong weight or input is a layer that differs.
    for name in ["x", "weight.dense.w2", "weight.alpha"] {
        let (_folder, file) = altered(|bytes| overwrite(bytes, name, 3.0));
        assert!(!compare(&file).unwrap().agrees(), "{name}");
    }
}

#[test]
fn files_that_are_not_golden_say_why() {
    for (from, to, wanted) in [
        ("\"D+V\"", "\"D+W\"", "no attention function `W`"),
        ("\"D+V\"", "\"R+V\"", "no tensor `weight.random.r`"),
        ("\"D+V\"", "\"  V\"", "has a weight `"),
        ("\"weight.alpha\"", "\"weight.alpho\"", "no tensor `weight.alpha`"),
        ("\"grad.alpha\"", "\"grad.alpho\"", "no tensor `grad.alpha`"),
        ("\"lengths\"", "\"lengthz\"", "`lengthz` is of type I64"),
        ("\"heads\":\"2\"", "\"heads\":\"3\"", "heads = 3 does not divide d_model = 16"),
        ("\"heads\":\"2\"", "\"heads\":\"x\"", "heads = `x`"),
        ("\"heads\":\"2\"", "\"heaps\":\"2\"", "no `heads`"),
        ("\"max_len\":\"8\"", "\"max_len\":\"4\"", "shape"),
        ("\"causal\":\"true\"", "\"causal\":\"yeah\"", "causal = `yeah`"),
    ] {
        let (_folder, file) = altered(|bytes| reword(bytes, from, to));
        let error = format!("{:#}", compare(&file).unwrap_err());
        assert!(error.contains(wanted) && error.contains("altered.safetensors"), "{to}: {error}");
    }
    let (_folder, file) = altered(|bytes| bytes.truncate(4000));
    assert!(format!("{:#}", compare(&file).unwrap_err()).contains("safetensors format"));
}

#[test]
fn the_command_prints_errors_and_its_exit_code_tells() {
    let (good, other) = (golden("r_v-b3l8d16h4n8-causal-pad"), golden("fd-b2l6d16h2n8"));
    let (code, out, _) = parity(&[good.as_os_str(), other.as_os_str()]);
    assert_eq!(code, 0);
    assert_eq!(out.lines().count(), 3, "{out}");
    assert!(out.contains("R+V") && out.contains("FD") && !out.contains("DIFFERS"), "{out}");

    let (code, out, _) = parity(&["--json".as_ref(), other.as_os_str()]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &json[0]["agrees"], &json[0]["mix"]), (0, &true.into(), &"FD".into()));
    assert!(json[0]["errors"]["grad.factorized_dense.wa"].as_f64().unwrap() <= TOLERANCE);

    let (_folder, bad) = altered(|bytes| overwrite(bytes, "out", 1.0));
    let (code, out, error) = parity(&[good.as_os_str(), bad.as_os_str()]);
    assert_eq!((code, error.as_str()), (1, "error: 1 of 2 files differ by more than 1e-9\n"));
    assert!(out.lines().last().unwrap().ends_with("DIFFERS"), "{out}");

    // Another precision, and the CPU's kernels off: plain and composed forms alone.
    let (code, out, _) =
        parity(&["--device".as_ref(), "cpu".as_ref(), "--precision=float32".as_ref(), good.as_os_str()]);
    assert_eq!(code, 0, "{out}");
    let off = std::process::Command::new(env!("CARGO_BIN_EXE_synthesizer"))
        .args(["parity".as_ref(), good.as_os_str()])
        .env("SYNTHESIZER_KERNELS", "off")
        .status();
    assert_eq!(off.unwrap().code(), Some(0));
    let (code, _, error) = parity(&["--precision=bfloat16".as_ref(), good.as_os_str()]);
    assert!(code == 2 && error.contains("--device cuda"), "{error}");

    let (code, _, error) = parity(&["nowhere.safetensors".as_ref()]);
    assert_eq!(code, 2);
    assert!(error.starts_with("error: can't read nowhere.safetensors"), "{error}");
}
