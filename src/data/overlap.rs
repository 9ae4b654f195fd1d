//! What the splits share: files that two splits name, and test rows that training has seen.

use super::files::expand;
use super::rows::{sha256_hex, Hasher};
use super::Examples;
use crate::experiment::config::{CorpusKind, DataConfig};
use crate::files::write_atomically;
use crate::{input, interrupt, regular};
use anyhow::Context;
use rayon::prelude::*;
use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Rows that are read together.
const CHUNK: usize = 1 << 16;

/// Largest share of test rows seen in training that needs no remark.
pub const UNREMARKABLE: f64 = 0.01;

/// Test rows that the training split has too. A row is seen if all its texts are those of one training row, whatever the
/// white space in them. Blank rows are left out: they are no text. In a language model's data a row is a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    /// Test rows that are not blank.
    pub rows: u64,
    /// Those that are seen.
    pub seen: u64,
    /// Those whose first text is the first text of a training row.
    pub first_texts: u64,
}

impl Seen {
    /// The share of the rows that are seen, 0 to 1.
    pub fn share(&self) -> f64 {
        self.seen as f64 / self.rows.max(1) as f64
    }

    /// The remark for readers of a score, if the share is above [`UNREMARKABLE`].
    pub fn remark(&self) -> Option<String> {
        (self.share() > UNREMARKABLE).then(|| {
            let percent = |count: u64| format!("{:.1} %", 100.0 * count as f64 / self.rows as f64);
            let first = match self.first_texts > self.seen {
                true => format!("; {} by their first text alone", percent(self.first_texts)),
                false => String::new(),
            };
            format!(
                "{} of the test rows are in the training set too ({} of {}{first}).",
                percent(self.seen),
                self.seen,
                self.rows
            )
        })
    }
}

/// Counts the rows of `tests` that `train` has. Memory grows with `tests`, not with `train`, which is read once.
///
/// # Errors
/// A text that cannot be read; Ctrl-C.
pub fn seen(train: &dyn Examples, tests: &[&dyn Examples]) -> anyhow::Result<Seen> {
    let mut rows = Vec::new();
    for test in tests {
        rows.extend(hashes(*test, 0..test.len())?.into_iter().flatten());
    }
    let mut firsts: HashMap<u64, bool> = rows.iter().map(|(first, _)| (*first, false)).collect();
    let mut wholes: HashMap<u64, bool> = rows.iter().map(|(_, whole)| (*whole, false)).collect();
    for start in (0..train.len()).step_by(CHUNK) {
        for (first, whole) in hashes(train, start..(start + CHUNK).min(train.len()))?.into_iter().flatten() {
            firsts.entry(first).and_modify(|found| *found = true);
            wholes.entry(whole).and_modify(|found| *found = true);
        }
    }
    let count = |found: &dyn Fn(&(u64, u64)) -> bool| rows.iter().filter(|row| found(row)).count() as u64;
    Ok(Seen {
        rows: rows.len() as u64,
        seen: count(&|(_, whole)| wholes[whole]),
        first_texts: count(&|(first, _)| firsts[first]),
    })
}

/// As [`seen`], kept in `folder` under the hash of the corpus, so that the next run of the same data counts nothing.
///
/// # Errors
/// Those of [`seen`]; a file that cannot be written.
pub fn seen_or_load(hash: &str, train: &dyn Examples, tests: &[&dyn Examples], folder: &Path) -> anyhow::Result<Seen> {
    let file = folder.join(format!("{}.overlap", sha256_hex(format!("rows without white space 1, {hash}").as_bytes())));
    if let Some(seen) = load(&file) {
        return Ok(seen);
    }
    let Seen { rows, seen, first_texts } = seen(train, tests)?;
    let counts = format!("{rows} {seen} {first_texts}");
    write_atomically(&file, format!("{counts}\n{}\n", sha256_hex(counts.as_bytes())).as_bytes())?;
    Ok(Seen { rows, seen, first_texts })
}

/// What [`seen_or_load`] kept; nothing if it is damaged, so that it is counted again.
fn load(file: &Path) -> Option<Seen> {
    let text = regular::read_text(file, regular::RECORD).ok()?;
    let (counts, digest) = text.strip_suffix('\n')?.split_once('\n')?;
    let numbers: Vec<u64> = counts.split(' ').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let [rows, seen, first_texts] = numbers[..] else { return None };
    (sha256_hex(counts.as_bytes()) == digest).then_some(Seen { rows, seen, first_texts })
}

/// Of each row the hash of its first text and that of all its texts; none of a row that is blank.
fn hashes(examples: &dyn Examples, rows: std::ops::Range<usize>) -> anyhow::Result<Vec<Option<(u64, u64)>>> {
    let hash = |row: usize| -> anyhow::Result<Option<(u64, u64)>> {
        interrupt::check()?;
        let mut hasher = DefaultHasher::new();
        let (mut first, mut is_blank) = (0, true);
        for column in 0..examples.columns() {
            let text = examples.text(row, column)?;
            for word in text.split_whitespace() {
                is_blank = false;
                word.hash(&mut hasher);
            }
            hasher.write_u8(0xfe); // ends the text; no word ends so
            if column == 0 {
                first = hasher.finish();
            }
        }
        Ok((!is_blank).then(|| (first, hasher.finish())))
    };
    rows.into_par_iter().map(hash).collect()
}

/// Two of an experiment's files that are the same: by name, by inode (links) or by content, decompressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SameFile {
    /// Key and path of the first, such as `data.train`.
    pub first: (&'static str, PathBuf),
    /// Key and path of the second.
    pub second: (&'static str, PathBuf),
    /// Whether both are the two sides of one entry.
    pub is_one_entry: bool,
}

impl SameFile {
    /// Such as `a.en` or `a.en and b.en`.
    pub fn names(&self) -> String {
        let (first, second) = (self.first.1.display(), self.second.1.display());
        match self.first.1 == self.second.1 {
            true => format!("`{first}`"),
            false => format!("`{first}` and `{second}`"),
        }
    }
}

/// A file that a split names.
struct Named {
    key: &'static str,
    /// Entry and column.
    place: (usize, usize),
    path: PathBuf,
    inode: (u64, u64),
    /// Bytes, decompressed as far as the file's end says.
    size: u64,
    digest: Option<Option<String>>,
}

impl Named {
    /// SHA-256 of what the file holds; nothing if it cannot be read.
    fn digest(&mut self) -> Option<String> {
        self.digest.get_or_insert_with(|| content_digest(&self.path).ok()).clone()
    }
}

/// Files that are named twice: for each file the first such pair. Contents are read only of files of one size.
///
/// # Errors
/// Patterns that match nothing, files that cannot be looked at; Ctrl-C.
pub fn same_files(config: &DataConfig) -> anyhow::Result<Vec<SameFile>> {
    if !config.corpus.reads_files() || config.corpus == CorpusKind::PersonaChat {
        return Ok(Vec::new()); // persona-chat's one file holds all splits
    }
    let mut files: Vec<Named> = Vec::new();
    for (key, entries) in [("data.train", &config.train), ("data.dev", &config.dev), ("data.test", &config.test)] {
        for (entry, paths) in expand(&key[5..], entries)?.into_iter().enumerate() {
            for (column, path) in paths.into_iter().enumerate() {
                let file = regular::open(&path).with_context(|| format!("{key}: can't read {}", path.display()))?;
                let found = file.metadata().with_context(|| format!("can't look at {}", path.display()))?;
                let size = unpacked_size(&file).unwrap_or(found.len());
                let inode = (found.dev(), found.ino());
                files.push(Named { key, place: (entry, column), path, inode, size, digest: None });
            }
        }
    }
    let mut same = Vec::new();
    let mut by_size: HashMap<u64, Vec<usize>> = HashMap::new();
    for at in 0..files.len() {
        interrupt::check()?;
        let earlier = by_size.entry(files[at].size).or_default().clone();
        for before in earlier {
            let is_same = files[before].inode == files[at].inode || {
                let digest = files[at].digest();
                files[at].size > 0 && digest.is_some() && files[before].digest() == digest
            };
            if is_same {
                let (a, b) = (&files[before], &files[at]);
                same.push(SameFile {
                    first: (a.key, a.path.clone()),
                    second: (b.key, b.path.clone()),
                    is_one_entry: a.key == b.key && a.place.0 == b.place.0,
                });
                break;
            }
        }
        by_size.entry(files[at].size).or_default().push(at);
    }
    Ok(same)
}

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// What a gzip file's last four bytes say of its size; nothing of other files.
fn unpacked_size(mut file: &File) -> Option<u64> {
    let mut bytes = [0; 2];
    file.read_exact(&mut bytes).ok().filter(|()| bytes == GZIP)?;
    let mut size = [0; 4];
    file.seek(SeekFrom::End(-4)).ok()?;
    file.read_exact(&mut size).ok()?;
    Some(u32::from_le_bytes(size).into())
}

fn content_digest(path: &Path) -> anyhow::Result<String> {
    let mut reader = input::stream(path)?;
    let mut hasher = Hasher::default();
    let mut buffer = vec![0; 1 << 20];
    loop {
        interrupt::check()?;
        match reader.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            count => hasher.bytes(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::Rows;
    use super::*;
    use std::io::Write;

    fn pairs(pairs: &[(&str, &str)]) -> Rows {
        Rows::pairs(pairs.iter().map(|(source, target)| (source.to_string(), target.to_string())))
    }

    #[test]
    fn a_row_is_seen_if_all_its_texts_are_those_of_one_training_row() {
        let train = pairs(&[("a b", "c"), ("a b", "d"), ("e", "f"), ("", ""), ("ab", "c")]);
        // whole; other white space; source alone; target alone; other case; letters parted elsewhere; blank, which is left out
        let test =
            pairs(&[("a b", "d"), (" a\tb ", "c\n"), ("e", "x"), ("x", "f"), ("A b", "c"), ("a", "bc"), (" ", "")]);
        let found = seen(&train, &[&test]).unwrap();
        assert_eq!(found, Seen { rows: 6, seen: 2, first_texts: 3 });
        assert_eq!(found.share(), 2.0 / 6.0);
        assert_eq!(
            found.remark().unwrap(),
            "33.3 % of the test rows are in the training set too (2 of 6; 50.0 % by their first text alone)."
        );
        let none = seen(&train, &[&pairs(&[("y", "z")]), &pairs(&[("y", "c")])]).unwrap();
        assert_eq!((none, none.remark()), (Seen { rows: 2, seen: 0, first_texts: 0 }, None));
        assert_eq!(Seen { rows: 0, seen: 0, first_texts: 0 }.share(), 0.0);
        // up to one row of a hundred
        let (few, more) = (Seen { rows: 100, seen: 1, first_texts: 1 }, Seen { rows: 100, seen: 2, first_texts: 2 });
        assert_eq!(few.remark(), None);
        assert_eq!(more.remark().unwrap(), "2.0 % of the test rows are in the training set too (2 of 100).");
    }

    #[test]
    fn counts_are_kept_and_counted_again_if_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let (train, test) = (pairs(&[("a", "b")]), pairs(&[("a", "b"), ("c", "d")]));
        let count = |train: &Rows| seen_or_load("hash", train, &[&test], folder.path()).unwrap();
        let first = count(&train);
        assert_eq!(first, Seen { rows: 2, seen: 1, first_texts: 1 });
        // of other rows under the same hash the kept counts come back
        assert_eq!(count(&pairs(&[("x", "y")])), first);
        let file = folder.path().read_dir().unwrap().next().unwrap().unwrap().path();
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("2 1 1", "2 0 1")).unwrap();
        assert_eq!(count(&train), first);
    }

    fn config(folder: &Path, train: &[&[&str]], test: &[&[&str]]) -> DataConfig {
        let entries = |entries: &[&[&str]]| -> Vec<Vec<PathBuf>> {
            entries.iter().map(|entry| entry.iter().map(|name| folder.join(name)).collect()).collect()
        };
        let mut config = crate::experiment::defaults::data(crate::experiment::TaskKind::Translation);
        config.corpus = CorpusKind::Text;
        (config.train, config.dev, config.test) = (entries(train), entries(&[&["dev.a", "dev.b"]]), entries(test));
        config
    }

    #[test]
    fn the_same_file_is_found_under_every_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, text) in [
            ("a", "one\ntwo\n"),
            ("b", "eins\nzwei\n"),
            ("c", "six\nten\n"),
            ("copy", "one\ntwo\n"),
            ("dev.a", "x\n"),
            ("dev.b", "yy\n"),
        ] {
            std::fs::write(path(name), text).unwrap();
        }
        std::os::unix::fs::symlink(path("a"), path("symbolic")).unwrap();
        std::fs::hard_link(path("a"), path("hard")).unwrap();
        let mut gzip = flate2::write::GzEncoder::new(File::create(path("a.gz")).unwrap(), Default::default());
        gzip.write_all(b"one\ntwo\n").unwrap();
        gzip.finish().unwrap();
        let found = |test: &[&[&str]]| same_files(&config(folder.path(), &[&["a", "b"]], test)).unwrap();
        for name in ["a", "symbolic", "hard", "copy", "a.gz", "../{}/a", "[ah]*rd"] {
            let name = name.replace("{}", &folder.path().file_name().unwrap().to_string_lossy());
            let same = found(&[&[&name, "c"]]);
            assert_eq!(same.len(), 1, "{name}");
            let keys = (same[0].first.0, same[0].second.0, same[0].is_one_entry);
            assert_eq!(keys, ("data.train", "data.test", false), "{name}");
        }
        assert_eq!(found(&[&["c", "dev.b"]])[0].second, ("data.test", path("dev.b")), "dev and test");
        assert!(found(&[&["c", "c"]])[0].is_one_entry);
        // of one size, but of other content
        std::fs::write(path("other"), "neun\nacht\n").unwrap();
        assert_eq!(found(&[&["c", "other"]]), []);
    }
}
