//! The attention layer against the 56 golden files: outputs and gradients, in float64.

use std::path::PathBuf;
use synthesizer::cli::parity::{compare, TOLERANCE};

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
