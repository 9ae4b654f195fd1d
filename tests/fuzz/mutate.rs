//! Mutations of bytes, and samples of files of which some are mutated.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::Rng;
use std::path::Path;

/// What parsers stumble over.
const PIECES: [&[u8]; 44] = [
    b"",
    b"0",
    b"-1",
    b"1",
    b"255",
    b"256",
    b"65536",
    b"2147483647",
    b"2147483648",
    b"4294967296",
    b"9223372036854775807",
    b"18446744073709551615",
    b"18446744073709551616",
    b"-9223372036854775809",
    b"1e308",
    b"1e999",
    b"-0.0",
    b"NaN",
    b"inf",
    b"0x10",
    b"null",
    b"true",
    b"\"",
    b"\"\"",
    b"'",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\\n",
    b"\n",
    b"\r\n",
    b"\t",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xc3\xa9",
    b"\xf0\x9f\x92\xa9",
    b"\xe2\x80\xa8",
    b",",
    b"{}",
    b"[]",
    b"../../../etc/passwd",
    b"</seg>",
    b"<seg id=\"",
];

/// Changes some bytes, one to four times; `others` are texts to take pieces from.
pub fn bytes(rng: &mut StdRng, sample: &[u8], others: &[&[u8]]) -> Vec<u8> {
    let mut bytes = sample.to_vec();
    for _ in 0..rng.random_range(1..5) {
        once(rng, &mut bytes, others);
    }
    bytes
}

fn range(rng: &mut StdRng, length: usize) -> std::ops::Range<usize> {
    let from = rng.random_range(0..=length);
    let most = if rng.random_bool(0.8) { 16 } else { length };
    from..(from + rng.random_range(0..=most.max(1))).min(length)
}

fn once(rng: &mut StdRng, bytes: &mut Vec<u8>, others: &[&[u8]]) {
    let at = rng.random_range(0..=bytes.len());
    let piece = range(rng, bytes.len());
    match rng.random_range(0..13) {
        0 if !bytes.is_empty() => {
            let at = at.min(bytes.len() - 1);
            bytes[at] ^= 1 << rng.random_range(0..8);
        }
        1 if !bytes.is_empty() => {
            let at = at.min(bytes.len() - 1);
            bytes[at] = *[0, 1, 0x7f, 0x80, 0xff, b'\n', b'\t', b'"'].choose(rng).unwrap();
        }
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(piece)),
        4 => {
            let copy = bytes[piece].to_vec();
            bytes.splice(at..at, copy);
        }
        5 | 6 => drop(bytes.splice(at..at, PIECES.choose(rng).unwrap().iter().copied())),
        7 => drop(bytes.splice(piece, PIECES.choose(rng).unwrap().iter().copied())),
        8 => {
            // a number becomes another
            let starts: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()).collect();
            if let Some(&from) = starts.choose(rng) {
                let to = (from..bytes.len()).find(|at| !bytes[*at].is_ascii_digit()).unwrap_or(bytes.len());
                bytes.splice(from..to, PIECES[rng.random_range(1..20)].iter().copied());
            }
        }
        9 => {
            // lines change their places, or go
            let mut lines: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            let (a, b) = (rng.random_range(0..lines.len()), rng.random_range(0..lines.len()));
            match rng.random_range(0..3) {
                0 => lines.swap(a, b),
                1 => drop(lines.remove(a)),
                _ => lines.insert(a, lines[b].clone()),
            }
            *bytes = lines.join(&b'\n');
        }
        10 if rng.random_bool(0.3) => {
            // very long, or very deep
            let count = rng.random_range(1000..60_000);
            let letter: &[u8] =
                [&b"a"[..], b"[", b"{\"a\":", b"(", b" ", b"\n", b"1", b"\xc3\xa9", b"a,"].choose(rng).unwrap();
            bytes.splice(at..at, letter.repeat(count / letter.len()));
        }
        11 => {
            if let Some(other) = others.choose(rng) {
                let piece = range(rng, other.len());
                bytes.splice(at..at, other[piece].iter().copied());
            }
        }
        _ => {
            let count = rng.random_range(1..9);
            bytes.splice(at..at, (0..count).map(|_| rng.random::<u8>()).collect::<Vec<_>>());
        }
    }
}

/// Writes the files of a sample, of which one or two are mutated.
pub fn files(rng: &mut StdRng, folder: &Path, sample: &[(String, Vec<u8>)]) {
    let first = rng.random_range(0..sample.len());
    let second = if rng.random_bool(0.2) { rng.random_range(0..sample.len()) } else { first };
    let others: Vec<&[u8]> = sample.iter().map(|(_, bytes)| &bytes[..]).collect();
    for (at, (name, content)) in sample.iter().enumerate() {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let content = if at == first || at == second { bytes(rng, content, &others) } else { content.clone() };
        std::fs::write(path, content).unwrap();
    }
}

/// The files of a folder of the repository, with their paths from there.
pub fn repository(folder: &str) -> Vec<(String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut found = Vec::new();
    collect(&root, &root, &mut found);
    assert!(!found.is_empty(), "{folder}");
    found.sort();
    found
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => collect(root, &path, found),
            false => {
                let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                found.push((name, std::fs::read(&path).unwrap()));
            }
        }
    }
}
