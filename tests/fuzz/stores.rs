//! What the program writes for itself: checkpoints, token files, tokenizers.

use crate::mutate::bytes;
use anyhow::Result;
use rand::rngs::StdRng;
use rand::Rng;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use synthesizer::data::rows::Rows;
use synthesizer::data::token_store::{Keep, StoreOptions, TokenStore};
use synthesizer::data::tokenizer::Tokenizer;
use synthesizer::experiment::TooLong;
use synthesizer::train::checkpoint::{self, Exact, State};
use tch::nn::{self, Init};
use tch::Device;

fn variables() -> nn::VarStore {
    let variables = nn::VarStore::new(Device::Cpu);
    for (name, shape) in [("a", &[3, 4][..]), ("b", &[2])] {
        let _ = variables.root().var(name, shape, Init::Const(0.5));
    }
    variables
}

/// The bytes of a file that `make` writes, made once.
fn made(cell: &'static OnceLock<Vec<u8>>, make: impl Fn(&Path)) -> &'static [u8] {
    cell.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sample");
        make(&path);
        std::fs::read(path).unwrap()
    })
}

/// A mutated checkpoint, its header more often than its data.
pub fn checkpoint(rng: &mut StdRng, folder: &Path) -> Result<()> {
    static SAMPLE: OnceLock<Vec<u8>> = OnceLock::new();
    let sample = made(&SAMPLE, |path| {
        let state = State {
            step: 3,
            epoch: 0,
            batch: 3,
            best: Some((2, Exact(1.5))),
            kept: vec![2],
            log_loss: Exact(0.25),
            log_tokens: 7,
            tokens: 99,
            seconds: 1.0,
            step_seconds: 0.5,
            config_hash: "0123456789abcdef".into(),
            data_hash: "00".repeat(32),
            ..State::default()
        };
        checkpoint::save_weights(path, &variables(), &state).unwrap();
    });
    let path = folder.join("last.safetensors");
    let mut content = bytes(rng, sample, &[]);
    if rng.random_bool(0.5) && content.len() >= 8 {
        // the length of the header fits what became of it
        let header =
            content[8..].windows(2).rposition(|end| end == b"}}" || end == b"} ").map_or(0, |at| at + 2) as u64;
        content[..8].copy_from_slice(&header.to_le_bytes());
    }
    std::fs::write(&path, content)?;
    let state = checkpoint::load_state(&path);
    let variables = variables();
    checkpoint::load_weights(&path, &variables)?;
    checkpoint::load_average(&[path.clone(), path], &variables)?;
    state.map(drop)
}

fn rows() -> Rows {
    Rows::pairs((0..40).map(|n| (format!("row {n} of the source"), format!("row {n}, its target"))))
}

fn bytes_tokenizer() -> &'static Tokenizer {
    static TOKENIZER: OnceLock<Tokenizer> = OnceLock::new();
    TOKENIZER.get_or_init(|| Tokenizer::train(&rows(), 280).unwrap())
}

/// A mutated token file is built again, or gives the ids that it had.
pub fn tokens(rng: &mut StdRng, folder: &Path) -> Result<()> {
    static SAMPLE: OnceLock<Vec<u8>> = OnceLock::new();
    let options =
        StoreOptions { max_tokens: 64, source: None, keep: Keep::Training(TooLong::Cut), data_hash: "made up".into() };
    let build = |path: &Path| TokenStore::build(&rows(), bytes_tokenizer(), &options, path);
    let sample = made(&SAMPLE, |path| drop(build(path).unwrap()));
    let path = folder.join("a.tokens");
    std::fs::write(&path, bytes(rng, sample, &[]))?;
    let store = build(&path)?;
    assert_eq!(store.len(), 40);
    for row in 0..store.len() {
        for column in 0..2 {
            let text = bytes_tokenizer().decode(&store.tokens(row, column)?)?;
            let wanted =
                if column == 0 { format!("row {row} of the source") } else { format!("row {row}, its target") };
            assert_eq!(text, wanted, "row {row}: other ids than were written");
        }
    }
    Ok(())
}

/// A mutated tokenizer is refused, or encodes and decodes.
pub fn tokenizer(rng: &mut StdRng, folder: &Path) -> Result<()> {
    static SAMPLE: OnceLock<Vec<u8>> = OnceLock::new();
    let sample = made(&SAMPLE, |path: &Path| bytes_tokenizer().save(path).unwrap());
    let path: PathBuf = folder.join("tokenizer.json");
    std::fs::write(&path, bytes(rng, sample, &[]))?;
    let tokenizer = Tokenizer::load(&path)?;
    let ids = tokenizer.encode("row 7 of the source, é\u{0}")?;
    assert!(ids.iter().all(|id| (*id as usize) < tokenizer.size()), "an id beyond the {} entries", tokenizer.size());
    tokenizer.decode(&ids)?;
    tokenizer.decode(&[0, tokenizer.size() as u32 - 1])?;
    Ok(())
}
