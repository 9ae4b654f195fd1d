//! Kernels of every instruction set, not of the best alone.

use std::process::Command;
use synthesizer::native::{instructions, Instructions, INSTRUCTIONS_VARIABLE};

/// Runs the tests of the calling file once more for each set that this processor has but the best, which they run with anyway.
///
/// # Panics
/// If one fails.
pub fn pass_with_every_set() {
    if let Some(wanted) = std::env::var_os(INSTRUCTIONS_VARIABLE) {
        assert_eq!(wanted, instructions().name(), "the variable is not what chooses");
        return;
    }
    let there = Instructions::available();
    for set in &there[..there.len() - 1] {
        let output =
            Command::new(std::env::current_exe().unwrap()).env(INSTRUCTIONS_VARIABLE, set.name()).output().unwrap();
        let [out, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        assert!(output.status.success(), "{set:?}: {out}\n{errors}");
    }
}
