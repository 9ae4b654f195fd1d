//! A folder with a toy's `toml` in it, where the program is run as a user runs it.
#![allow(dead_code)] // each test file uses its part

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A translation of letters into themselves backwards, which trains in no time; `mixes` as in TOML.
pub fn toy(mixes: &str, steps: u64) -> String {
    format!(
        r#"title = "Toy"
task = "translation"
mix = {mixes}
[data]
corpus = "reverse"
vocabulary = 270
max_tokens = 24
[model]
d_model = 16
heads = 2
encoder_layers = 1
decoder_layers = 1
d_ff = 32
max_length = 32
[train]
steps = {steps}
batch_tokens = 256
schedule = "linear"
learning_rate = 3e-3
warmup = 2
log_every = 2
evaluate_every = 4
"#
    )
}

/// The folder; its cache is in it too.
pub struct Workplace {
    folder: tempfile::TempDir,
}

impl Workplace {
    /// With [`toy`] as `toy.toml`.
    pub fn new(mixes: &str, steps: u64) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        place.write(&toy(mixes, steps));
        place
    }

    /// Another text for `toy.toml`.
    pub fn write(&self, text: &str) {
        std::fs::write(self.path("toy.toml"), text).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_synthesizer"));
        command.args(arguments).current_dir(self.folder.path()).env("SYNTHESIZER_CACHE", self.path("cache"));
        command.stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What it wrote to both streams, if it ends with this code.
    #[track_caller]
    pub fn said(&self, arguments: &[&str], code: i32) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output));
        text(&output)
    }
}

/// Both streams.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
