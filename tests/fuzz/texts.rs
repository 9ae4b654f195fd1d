//! What users type: mixes and experiment files.

use crate::mutate::{bytes, repository};
use anyhow::{anyhow, Result};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::Rng;
use std::path::Path;
use std::sync::OnceLock;
use synthesizer::experiment::{Experiment, Mix, Run};

const MIXES: [&str; 14] = [
    "V",
    "R+V",
    "D + V",
    "Rfix",
    "FR(k=16)+V",
    "FD(hidden=0,a=4,b=8)",
    "V(rank=4)",
    "D(hidden=3)",
    "LC(kernel=3)",
    "DC",
    "Lin(k=2)",
    "FFT",
    "Mixer",
    "R+D+V+FR",
];
const TOKENS: [&str; 24] = [
    "V",
    "D",
    "R",
    "Rfix",
    "FR",
    "FD",
    "LC",
    "Lin",
    "(",
    ")",
    "+",
    ",",
    "=",
    "k",
    "rank",
    "hidden",
    "a",
    "b",
    "0",
    "-1",
    " ",
    "99999999999999999999",
    "é",
    "\u{0}",
];

/// A mix parses or is refused at a place within it; what parses prints to what parses the same.
pub fn mix(rng: &mut StdRng, folder: &Path) -> Result<()> {
    let text = match rng.random_bool(0.5) {
        true => {
            let seed = MIXES.choose(rng).unwrap();
            String::from_utf8_lossy(&bytes(rng, seed.as_bytes(), &[])).into_owned()
        }
        false => (0..rng.random_range(0..12)).map(|_| *TOKENS.choose(rng).unwrap()).collect(),
    };
    std::fs::write(folder.join("mix.txt"), &text)?;
    match Mix::parse(&text) {
        Ok(mix) => {
            let printed = mix.to_string();
            assert_eq!(Mix::parse(&printed).unwrap(), mix, "{printed}");
            assert!(!mix.terms.is_empty());
            Ok(())
        }
        Err(error) => {
            let length = error.mix.chars().count();
            assert!(error.column <= length, "column {} of {length} characters", error.column);
            Err(anyhow!(error))
        }
    }
}

/// Values that no key is meant to have.
const VALUES: [&str; 26] = [
    "0",
    "-1",
    "1",
    "2147483647",
    "9223372036854775807",
    "9223372036854775808",
    "1e308",
    "-1e-300",
    "nan",
    "inf",
    "true",
    "\"\"",
    "\"x\"",
    "[]",
    "[[]]",
    "{}",
    "[\"V\", \"V\"]",
    "\"V+R\"",
    "\"../..\"",
    "\"~/x\"",
    "\"a\\u0000b\"",
    "\"translation\"",
    "[1, \"a\"]",
    "1979-05-27",
    "'''\n'''",
    "\"\u{202e}\"",
];

fn experiments() -> &'static [(String, Vec<u8>)] {
    static FILES: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    FILES.get_or_init(|| repository("experiments").into_iter().filter(|(name, _)| name.ends_with(".toml")).collect())
}

/// An experiment plans its runs, or is refused; a planned run survives its `config.toml`.
pub fn experiment(rng: &mut StdRng, folder: &Path) -> Result<()> {
    let (_, sample) = experiments().choose(rng).unwrap();
    let mut text = String::from_utf8(sample.clone())?;
    for _ in 0..rng.random_range(1..4) {
        let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
        let at = rng.random_range(0..lines.len().max(1));
        if lines.is_empty() {
            break;
        }
        match rng.random_range(0..5) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[rng.random_range(0..lines.len())].clone()),
            2 | 3 => {
                if let Some((key, _)) = lines[at].clone().split_once('=') {
                    lines[at] = format!("{key}= {}", VALUES.choose(rng).unwrap());
                }
            }
            _ => {
                let others: Vec<&[u8]> = experiments().iter().map(|(_, bytes)| &bytes[..]).collect();
                lines = vec![String::from_utf8_lossy(&bytes(rng, lines.join("\n").as_bytes(), &others)).into_owned()];
            }
        }
        text = lines.join("\n");
    }
    let path = folder.join("fuzz.toml");
    std::fs::write(&path, &text)?;
    let plan = Experiment::parse(&path, &text)?.plan(Path::new("results"))?;
    for planned in &plan.runs {
        let run = Run::from_toml(&planned.run.to_toml()).unwrap_or_else(|error| panic!("{}: {error}", planned.name));
        assert_eq!(run.hash(), planned.hash, "{}", planned.name);
        let _ = synthesizer::task::size::Size::of(&planned.run, None);
    }
    Ok(())
}
