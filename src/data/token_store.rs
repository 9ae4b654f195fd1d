//! Token ids of a split, written once to a cache file and read from there.
//!
//! The file is built in chunks on all cores, so neither texts nor ids of a large corpus are ever in memory together. Ids take
//! two bytes where the vocabulary has at most 65,536 entries, else four. Layout, all little-endian: a header of 512 bytes,
//! the ids, then for each row an index record of 32-bit words (start of its ids in two words, row in the split, length of
//! each column), and the [seal](crate::sealed). Of an open file only lengths and the place of every 16th row are in memory,
//! 2.5 to 4.5 bytes per row; the ids of a text are one read. The seal is checked when the file is opened, over every byte; that
//! takes a fraction of the time in which the same call hashes the corpus's texts. A damaged file, and one whose header names
//! another key (data, tokenizer, limits) or other rows and columns, is built again with a line on standard error.

use super::rows::{is_blank, sha256_hex};
use super::tokenizer::Tokenizer;
use super::Examples;
use crate::experiment::config::TooLong;
use crate::files::Temporary;
use crate::interrupt;
use crate::sealed::{self, Found};
use anyhow::{bail, Context};
use rayon::prelude::*;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"SYNTOK\x00\x02";
const HEADER: usize = 512;
const KEY: usize = 64;
/// Rows encoded together.
const CHUNK: usize = 4096;
/// Rows from one kept place to the next.
const EVERY: usize = 16;
/// In [`Lengths`]: see the map.
const LONG: u16 = u16::MAX;

/// Which rows are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Training: rows with an empty side are dropped, too long ones skipped or cut.
    Training(TooLong),
    /// Dev and test, and labelled texts: every row, too long ones cut.
    All,
    /// Lines of a language model, in every split: blank ones have no token and are kept, since their end marks count; too long
    /// ones are skipped or cut.
    Lines(TooLong),
}

/// A source that is longer is cut, in training too, whatever [`Keep`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceLimit {
    /// Longest source in tokens.
    pub tokens: usize,
    /// Whether its end is kept (the last that was said) or its beginning (what an article opens with).
    pub keep_end: bool,
}

impl SourceLimit {
    /// Cuts a source that is too long; whether it was.
    pub fn cut(&self, tokens: &mut Vec<u32>) -> bool {
        let over = tokens.len().saturating_sub(self.tokens);
        if self.keep_end {
            tokens.drain(..over);
        } else {
            tokens.truncate(self.tokens);
        }
        over > 0
    }
}

/// What a token file depends on, beside the tokenizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOptions {
    /// Longest text in tokens.
    pub max_tokens: usize,
    /// The first column's own limit, if it has one.
    pub source: Option<SourceLimit>,
    /// Which rows are kept.
    pub keep: Keep,
    /// Hash of the corpus, and the name of the split.
    pub data_hash: String,
}

/// What became of the rows of a split. Columns: source and target, or text and nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Counts {
    /// Rows in the split.
    pub rows: u64,
    /// Rows in the store.
    pub kept: u64,
    /// Training rows left out because a side is longer than the maximum.
    pub skipped: u64,
    /// Kept rows of which a side was cut.
    pub cut: u64,
    /// Rows left out because a side is empty (unless all rows are kept).
    pub empty: u64,
    /// Tokens of the kept rows by column, without begin and end marks.
    pub tokens: [u64; 2],
    /// Words (between white space) of the kept rows by column; of a cut text those in what is left.
    pub words: [u64; 2],
}

/// The kept rows of a split.
#[derive(Debug)]
pub struct TokenStore {
    path: PathBuf,
    file: File,
    width: usize,
    columns: usize,
    /// Where the index begins.
    index: u64,
    /// Tokens before every 16th row.
    starts: Vec<u64>,
    lengths: Lengths,
    /// What became of the rows.
    pub counts: Counts,
}

/// What the cache has of a split.
enum Cached {
    Ready(TokenStore),
    Missing,
    /// A file, and why it cannot be used.
    Unusable(String),
}

/// Lengths of texts, two bytes each unless there are very long ones.
#[derive(Debug, Default)]
struct Lengths {
    short: Vec<u16>,
    /// Those that two bytes can't hold.
    long: HashMap<usize, u32>,
}

impl Lengths {
    fn push(&mut self, length: u32) {
        let short = u16::try_from(length).unwrap_or(LONG);
        if short == LONG {
            self.long.insert(self.short.len(), length);
        }
        self.short.push(short);
    }

    fn get(&self, at: usize) -> u32 {
        match self.short[at] {
            LONG => self.long[&at],
            short => short.into(),
        }
    }
}

/// 64 hexadecimal digits that differ whenever a token file's content may differ: a name for the file.
pub fn key(options: &StoreOptions, tokenizer: &Tokenizer) -> String {
    let StoreOptions { max_tokens, source, keep, data_hash } = options;
    let source = source.map_or(String::new(), |source| format!(", {source:?}"));
    sha256_hex(format!("tokens 3, {data_hash}, {}, {max_tokens}, {keep:?}{source}", tokenizer.hash()).as_bytes())
}

impl TokenStore {
    /// Opens `file` if it was built from the same data, tokenizer and limits, and has as many rows and columns; builds it
    /// otherwise.
    ///
    /// Errors: a text that can't be read, a `max_tokens` of 0, a file that can't be written (full disk).
    pub fn build(
        examples: &dyn Examples,
        tokenizer: &Tokenizer,
        options: &StoreOptions,
        file: &Path,
    ) -> anyhow::Result<TokenStore> {
        if options.max_tokens == 0 {
            bail!("data.max_tokens = 0 leaves nothing of any text; it must be at least 1");
        }
        if examples.len() > u32::MAX as usize {
            bail!("{} rows are more than a token file can number ({})", examples.len(), u32::MAX);
        }
        let key = key(options, tokenizer);
        match TokenStore::open(file, &key, examples)? {
            Cached::Ready(store) => return Ok(store),
            Cached::Missing => {}
            Cached::Unusable(why) => sealed::tell_rebuild(file, &why),
        }
        let (ids, index) = (Temporary::file(file)?, Temporary::file(file)?);
        Builder::new(examples, tokenizer, options, ids.path(), index.path())?.run(&key)?;
        // opened before it is renamed: afterwards another process may put its own file there
        let store = match TokenStore::open(ids.path(), &key, examples)? {
            Cached::Ready(store) => store,
            Cached::Missing => bail!("{} was written, and has been removed", ids.path().display()),
            Cached::Unusable(why) => bail!("{} was written, but cannot be used: {why}", ids.path().display()),
        };
        sealed::put_in_place(ids, file)?;
        Ok(TokenStore { path: file.to_path_buf(), ..store })
    }

    fn open(path: &Path, key: &str, examples: &dyn Examples) -> anyhow::Result<Cached> {
        let unusable = |why: &str| Ok(Cached::Unusable(why.into()));
        let (file, size) = match sealed::open(path)? {
            Found::Missing => return Ok(Cached::Missing),
            Found::Damaged(why) => return Ok(Cached::Unusable(why)),
            Found::Whole(file, size) => (file, size),
        };
        let reading = || format!("can't read {}", path.display());
        let mut header = [0; HEADER];
        if size < HEADER as u64 {
            return unusable("it is no token file");
        }
        file.read_exact_at(&mut header, 0).with_context(reading)?;
        if header[..8] != MAGIC[..] {
            return unusable("it is no token file of this version");
        }
        if &header[8..8 + KEY] != key.as_bytes() {
            return unusable("it holds other data");
        }
        let number = |at: usize| u64_at(&header, 8 + KEY + 8 * at);
        let [width, columns] = [0, 1].map(|at| number(at) as usize);
        let counts = Counts {
            rows: number(3),
            kept: number(4),
            skipped: number(5),
            cut: number(6),
            empty: number(7),
            tokens: [number(8), number(9)],
            words: [number(10), number(11)],
        };
        if columns != examples.columns() || counts.rows != examples.len() as u64 {
            return unusable("it has other rows or columns");
        }
        let index = HEADER as u64 + (number(2) * width as u64).next_multiple_of(4);
        if size != index + counts.kept * record(columns) as u64 {
            return unusable("its size is not what its header says");
        }
        let (starts, lengths) = read_index(&file, index, counts.kept, columns).with_context(reading)?;
        Ok(Cached::Ready(TokenStore { path: path.into(), file, width, columns, index, starts, lengths, counts }))
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.counts.kept as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Texts in a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Where the row is in the split that the store was built from (dropped rows counted). Error: the file can't be read.
    pub fn row(&self, row: usize) -> anyhow::Result<usize> {
        let mut word = [0; 4];
        self.read(&mut word, self.index + (row * record(self.columns) + 8) as u64)?;
        Ok(u32::from_le_bytes(word) as usize)
    }

    /// Token ids of one text, without begin and end marks. Error: the file can't be read.
    pub fn tokens(&self, row: usize, column: usize) -> anyhow::Result<Vec<u32>> {
        let text = row * self.columns + column;
        self.run(text..text + 1)
    }

    /// Token ids of consecutive texts, end to end, in one read; texts are numbered row by row, column by column.
    /// Error: the file can't be read.
    pub fn run(&self, texts: Range<usize>) -> anyhow::Result<Vec<u32>> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let count = |texts: Range<usize>| texts.map(|text| u64::from(self.lengths.get(text))).sum::<u64>();
        let nearest = texts.start / (EVERY * self.columns);
        let start = self.starts[nearest] + count(nearest * EVERY * self.columns..texts.start);
        let mut bytes = vec![0; count(texts) as usize * self.width];
        self.read(&mut bytes, HEADER as u64 + start * self.width as u64)?;
        Ok(match self.width {
            2 => bytes.chunks_exact(2).map(|id| u16::from_le_bytes([id[0], id[1]]).into()).collect(),
            _ => bytes.chunks_exact(4).map(|id| u32::from_le_bytes([id[0], id[1], id[2], id[3]])).collect(),
        })
    }

    /// How many [`TokenStore::tokens`] a text has; no file is read.
    pub fn text_length(&self, row: usize, column: usize) -> usize {
        self.lengths.get(row * self.columns + column) as usize
    }

    /// Tokens of the row's longest column.
    pub fn length(&self, row: usize) -> u32 {
        (0..self.columns).map(|column| self.text_length(row, column) as u32).max().unwrap_or(0)
    }

    /// [`TokenStore::length`] of every row.
    pub fn lengths(&self) -> Vec<u32> {
        (0..self.len()).map(|row| self.length(row)).collect()
    }

    fn read(&self, buffer: &mut [u8], at: u64) -> anyhow::Result<()> {
        self.file.read_exact_at(buffer, at).with_context(|| format!("can't read {}", self.path.display()))
    }
}

/// Tokens before every 16th row, and all lengths.
fn read_index(file: &File, index: u64, rows: u64, columns: usize) -> std::io::Result<(Vec<u64>, Lengths)> {
    let mut reader = BufReader::with_capacity(1 << 20, file);
    reader.seek(SeekFrom::Start(index))?;
    let mut starts = Vec::with_capacity((rows as usize).div_ceil(EVERY));
    let mut lengths = Lengths { short: Vec::with_capacity(rows as usize * columns), ..Lengths::default() };
    let mut bytes = vec![0; record(columns)];
    for row in 0..rows as usize {
        reader.read_exact(&mut bytes)?;
        if row % EVERY == 0 {
            starts.push(u64_at(&bytes, 0));
        }
        for length in bytes[12..].chunks_exact(4) {
            lengths.push(u32::from_le_bytes([length[0], length[1], length[2], length[3]]));
        }
    }
    Ok((starts, lengths))
}

/// Bytes of an index record.
fn record(columns: usize) -> usize {
    4 * (3 + columns)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

/// One row, encoded.
enum Encoded {
    Kept { ids: Vec<Vec<u32>>, words: Vec<u64>, cut: bool },
    Empty,
    Skipped,
}

struct Builder<'a> {
    examples: &'a dyn Examples,
    tokenizer: &'a Tokenizer,
    options: &'a StoreOptions,
    ids: BufWriter<File>,
    index: BufWriter<File>,
    index_path: &'a Path,
    ids_path: &'a Path,
    width: usize,
    written: u64,
    counts: Counts,
}

impl<'a> Builder<'a> {
    fn new(
        examples: &'a dyn Examples,
        tokenizer: &'a Tokenizer,
        options: &'a StoreOptions,
        ids_path: &'a Path,
        index_path: &'a Path,
    ) -> anyhow::Result<Builder<'a>> {
        let create = |path: &Path| {
            let file = File::options().read(true).write(true).create(true).truncate(true).open(path);
            file.map(BufWriter::new).with_context(|| format!("can't write {}", path.display()))
        };
        Ok(Builder {
            examples,
            tokenizer,
            options,
            ids: create(ids_path)?,
            index: create(index_path)?,
            index_path,
            ids_path,
            width: if tokenizer.size() <= 1 << 16 { 2 } else { 4 },
            written: 0,
            counts: Counts { rows: examples.len() as u64, ..Counts::default() },
        })
    }

    fn run(mut self, key: &str) -> anyhow::Result<()> {
        let path = self.ids_path;
        self.ids.write_all(&[0; HEADER]).with_context(|| format!("can't write {}", path.display()))?;
        for start in (0..self.examples.len()).step_by(CHUNK) {
            let rows = start..(start + CHUNK).min(self.examples.len());
            let encoded: Vec<Encoded> =
                rows.clone().into_par_iter().map(|row| self.encode(row)).collect::<anyhow::Result<_>>()?;
            for (row, encoded) in rows.zip(encoded) {
                self.write(row, encoded).with_context(|| format!("can't write {}", path.display()))?;
            }
        }
        let file = self.finish(key).with_context(|| format!("can't write {}", path.display()))?;
        sealed::seal(&file).with_context(|| format!("can't write {}", path.display()))
    }

    fn encode(&self, row: usize) -> anyhow::Result<Encoded> {
        interrupt::check()?;
        let columns = self.examples.columns();
        let (mut ids, mut words) = (Vec::with_capacity(columns), Vec::with_capacity(columns));
        let (mut any_cut, mut any_empty, mut too_long) = (false, false, false);
        for column in 0..columns {
            let text = self.examples.text(row, column)?;
            let is_blank = is_blank(&text);
            any_empty |= is_blank;
            let mut tokens = match self.options.keep {
                Keep::Lines(_) if is_blank => Vec::new(),
                _ => self.tokenizer.encode(&text)?,
            };
            let cut = match self.options.source {
                Some(limit) if column == 0 => limit.cut(&mut tokens),
                _ => {
                    let cut = tokens.len() > self.options.max_tokens;
                    tokens.truncate(self.options.max_tokens);
                    too_long |= cut;
                    cut
                }
            };
            any_cut |= cut;
            if cut {
                // A chunk of long texts would hold the memory of what was cut off.
                tokens.shrink_to_fit();
                words.push(count_words(&self.tokenizer.decode(&tokens)?));
            } else {
                words.push(count_words(&text));
            }
            ids.push(tokens);
        }
        Ok(match self.options.keep {
            Keep::Training(_) if any_empty => Encoded::Empty,
            Keep::Training(TooLong::Skip) | Keep::Lines(TooLong::Skip) if too_long => Encoded::Skipped,
            _ => Encoded::Kept { ids, words, cut: any_cut },
        })
    }

    fn write(&mut self, row: usize, encoded: Encoded) -> std::io::Result<()> {
        let (ids, words, cut) = match encoded {
            Encoded::Empty => {
                self.counts.empty += 1;
                return Ok(());
            }
            Encoded::Skipped => {
                self.counts.skipped += 1;
                return Ok(());
            }
            Encoded::Kept { ids, words, cut } => (ids, words, cut),
        };
        self.counts.kept += 1;
        self.counts.cut += u64::from(cut);
        self.index.write_all(&self.written.to_le_bytes())?;
        self.index.write_all(&(row as u32).to_le_bytes())?;
        for (column, (ids, words)) in ids.iter().zip(words).enumerate() {
            for id in ids {
                self.ids.write_all(&id.to_le_bytes()[..self.width])?;
            }
            self.index.write_all(&(ids.len() as u32).to_le_bytes())?;
            self.written += ids.len() as u64;
            self.counts.tokens[column] += ids.len() as u64;
            self.counts.words[column] += words;
        }
        Ok(())
    }

    fn finish(mut self, key: &str) -> std::io::Result<File> {
        let bytes = self.written as usize * self.width;
        self.ids.write_all(&[0; 4][..bytes.next_multiple_of(4) - bytes])?;
        self.index.flush()?;
        std::io::copy(&mut File::open(self.index_path)?, &mut self.ids)?;

        let Counts { rows, kept, skipped, cut, empty, tokens, words } = self.counts;
        let numbers =
            [self.width as u64, self.examples.columns() as u64, self.written, rows, kept, skipped, cut, empty];
        let mut header = [MAGIC.as_slice(), key.as_bytes()].concat();
        for number in numbers.into_iter().chain(tokens).chain(words) {
            header.extend(number.to_le_bytes());
        }
        self.ids.seek(SeekFrom::Start(0))?;
        self.ids.write_all(&header)?;
        self.ids.into_inner().map_err(|error| error.into_error())
    }
}

fn count_words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}
