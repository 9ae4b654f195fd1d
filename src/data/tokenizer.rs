//! Byte-level byte-pair encoding, shared by all columns of a corpus.
//!
//! Every text can be encoded (all 256 bytes are in the vocabulary) and comes back exactly as it was. A blank is put before
//! the text and taken off again, so that a word has the same tokens at the start of a line as elsewhere; the empty text has
//! no tokens. Text that looks like a special token is text. Merges never cross from a [pre-token](super::pre_tokens) to the
//! next, so a run of over 256 letters without a blank is several.

use super::pre_tokens::{self, byte_level};
use super::rows::sha256_hex;
use super::{cache_folder, Corpus, Examples};
use crate::excerpt::excerpt;
use crate::files::write_atomically;
use crate::interrupt;
use crate::regular;
use crate::sealed::{self, Found};
use anyhow::{anyhow, bail, Context};
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::Mutex;
use std::time::Duration;
use tokenizers::decoders::sequence::Sequence;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::{BpeTrainer, BPE};
use tokenizers::normalizers::Prepend;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, DecoderWrapper, Model, Trainer};

/// Fills rows of a batch that are shorter than the longest.
pub const PAD: u32 = 0;
/// Starts a decoder's input.
pub const BEGIN: u32 = 1;
/// Ends a text.
pub const END: u32 = 2;
/// Kept for vocabularies that are not byte-level; this one never needs it.
pub const UNKNOWN: u32 = 3;

const SPECIAL: [&str; 4] = ["<pad>", "<s>", "</s>", "<unk>"];

/// Special tokens and bytes: the smallest vocabulary.
pub const SMALLEST: usize = crate::experiment::check::SMALLEST_VOCABULARY;
const _: () = assert!(SMALLEST == SPECIAL.len() + 256);

/// Bytes of text that merges are learned from, about: of larger corpora evenly spread rows are taken.
const MOST_BYTES: u64 = 64 << 20;

/// Longer texts are handed to the trainer in parts, so that memory holds the pre-tokens of a part.
const PART_BYTES: usize = 1 << 20;

/// Evenly spread rows by which the size of a corpus is judged.
const JUDGED_ROWS: usize = 10_000;

/// Under this many rows one thread learns the merges.
const FEW_ROWS: usize = 1 << 18;

/// The library's tokenizer around a model: what becomes of a text before and after it.
fn around(model: BPE) -> tokenizers::Tokenizer {
    let mut inner = tokenizers::Tokenizer::new(model);
    inner.with_normalizer(Some(Prepend::new(" ".into())));
    inner.with_pre_tokenizer(Some(ByteLevel::new(false, false, true)));
    let decoders = vec![DecoderWrapper::ByteLevel(ByteLevel::default()), DecoderWrapper::Strip(Strip::new(' ', 1, 0))];
    inner.with_decoder(Some(Sequence::new(decoders)));
    inner
}

/// A trained vocabulary with its merges.
#[derive(Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    json: String,
    hash: String,
}

impl Tokenizer {
    /// Learns merges from all columns of `examples`, until the vocabulary has `vocabulary` entries or nothing is left to
    /// merge. Of a corpus over 64 MiB every n-th row is taken, such that they come to about 64 MiB (n from the mean size of
    /// 10,000 evenly spread rows); of a text over 64 MiB, its first 64 MiB. The same rows always give the same tokenizer.
    ///
    /// Errors: `vocabulary` under [`SMALLEST`]; a text that can't be read; Ctrl-C.
    pub fn train(examples: &dyn Examples, vocabulary: usize) -> anyhow::Result<Tokenizer> {
        if vocabulary < SMALLEST {
            bail!(
                "data.vocabulary = {vocabulary} is too small: {} special tokens and 256 bytes need at least {SMALLEST}",
                SPECIAL.len()
            );
        }
        let mut trainer = BpeTrainer::builder()
            .show_progress(false)
            .vocab_size(vocabulary)
            .special_tokens(SPECIAL.iter().map(|name| AddedToken::from(*name, true)).collect())
            .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
            .build();
        let step = stride(examples, MOST_BYTES)?;
        let broken = Mutex::new(None);
        let parts = |row: usize, column: usize| -> anyhow::Result<Vec<String>> {
            interrupt::check()?;
            let text = examples.text(row, column)?;
            let most = text.floor_char_boundary(MOST_BYTES as usize);
            pre_tokens::parts(prefixed(&text[..most]), PART_BYTES)
        };
        let texts = (0..examples.len())
            .step_by(step)
            .flat_map(|row| (0..examples.columns()).map(move |column| (row, column)))
            .map_while(|(row, column)| match parts(row, column) {
                Ok(parts) => Some(parts),
                Err(error) => {
                    if let Ok(mut first) = broken.lock() {
                        first.get_or_insert(error);
                    }
                    None
                }
            })
            .flatten();
        // Merging meets after every merge: with little text and busy cores, threads wait for each other more than they work.
        let threads = if examples.len() < FEW_ROWS { 1 } else { rayon::current_num_threads() };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().context("can't start threads")?;
        let failed = |error| anyhow!("can't train the tokenizer: {error}");
        pool.install(|| trainer.feed(texts, words)).map_err(failed)?;
        if let Ok(Some(error)) = broken.into_inner() {
            return Err(error);
        }
        let (model, special) = interruptible(move || {
            let mut model = BPE::default();
            let special = pool.install(|| trainer.train(&mut model))?;
            Ok((model, special))
        })?
        .map_err(failed)?;
        let mut inner = around(model);
        inner.add_special_tokens(&special);
        let json = inner.to_string(true).map_err(|error| anyhow!("can't write down the tokenizer: {error}"))?;
        Tokenizer::from_json(json)
    }

    fn from_json(json: String) -> anyhow::Result<Tokenizer> {
        // The library panics on some values, so it reads no others than it wrote.
        let value: Value = serde_json::from_str(&json).context("not the JSON of a tokenizer")?;
        let ours = serde_json::to_value(around(BPE::default())).context("can't write down the tokenizer")?;
        let same = |key: &&str| value.get(key) == ours.get(key);
        if let Some(key) = ["normalizer", "pre_tokenizer", "post_processor", "decoder"].iter().find(|key| !same(key)) {
            bail!("its {key} is another than this program's: another program's tokenizer?");
        }
        let parsed = value.to_string().parse();
        let mut inner: tokenizers::Tokenizer = parsed.map_err(|error| anyhow!("no tokenizer: {error}"))?;
        let entries = inner.get_model().get_vocab_size();
        if let Some((token, id)) = inner.get_vocab(true).iter().find(|(_, id)| **id as usize >= entries) {
            bail!("the token {} has the id {id}, but there are {entries} entries", excerpt(token));
        }
        for (id, name) in SPECIAL.iter().enumerate() {
            if inner.token_to_id(name) != Some(id as u32) {
                bail!("the token {name} has not the id {id}: another program's tokenizer?");
            }
        }
        inner.set_encode_special_tokens(true);
        let hash = sha256_hex(json.as_bytes());
        Ok(Tokenizer { inner, json, hash })
    }

    /// Reads what [`Tokenizer::save`] wrote.
    ///
    /// # Errors
    /// A file that cannot be read or is no tokenizer, by name. Damage that leaves a tokenizer is found by whoever knows the
    /// [`hash`](Tokenizer::hash), such as the checkpoint of a run.
    pub fn load(path: &Path) -> anyhow::Result<Tokenizer> {
        let json = regular::read_text(path, regular::TOKENIZER)
            .with_context(|| format!("can't read the tokenizer {}", path.display()))?;
        Tokenizer::from_json(json).with_context(|| format!("{} is damaged", path.display()))
    }

    /// Writes JSON in the form of the `tokenizers` library, whole or not at all.
    pub fn save(&self, path: &Path) -> anyhow::Result<()> {
        write_atomically(path, self.json.as_bytes())
    }

    /// Entries of the vocabulary, special tokens included; fewer than asked for where the text had no more to merge.
    pub fn size(&self) -> usize {
        self.inner.get_model().get_vocab_size().max(SPECIAL.len())
    }

    /// The saved form: JSON of the `tokenizers` library.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// SHA-256 (hex) of the saved form.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Token ids of a text, without begin and end marks. Time and memory grow with the length of the text and no faster.
    ///
    /// # Errors
    /// Ctrl-C, within a long text.
    pub fn encode(&self, text: &str) -> anyhow::Result<Vec<u32>> {
        let model = self.inner.get_model();
        let mut ids = Vec::new();
        pre_tokens::for_each(&prefixed(text), |piece| {
            interrupt::check()?;
            let tokens =
                model.tokenize(&byte_level(piece)).map_err(|error| anyhow!("cannot encode a text: {error}"))?;
            ids.extend(tokens.iter().map(|token| token.id));
            Ok(())
        })?;
        Ok(ids)
    }

    /// The text of token ids; special tokens and ids out of range are left out, broken UTF-8 becomes U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> anyhow::Result<String> {
        self.inner.decode(ids, true).map_err(|error| anyhow!("can't decode: {error}"))
    }

    /// Tokens for people to read, parted by blanks: marks as `<s>`, blanks within tokens as `▁`, and what is no text of its own
    /// (part of a letter, control characters) as bytes, `<e2 80>`.
    pub fn visible(&self, ids: &[u32]) -> String {
        let token = |id: &u32| match SPECIAL.get(*id as usize) {
            Some(name) => name.to_string(),
            None => {
                let token = self.inner.id_to_token(*id).unwrap_or_default();
                let bytes: Vec<u8> = token.chars().filter_map(byte).collect();
                match std::str::from_utf8(&bytes) {
                    Ok(text) if !text.contains(char::is_control) => text.replace(' ', "▁"),
                    _ => format!("<{}>", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")),
                }
            }
        };
        ids.iter().map(token).collect::<Vec<_>>().join(" ")
    }
}

/// With a blank before it, so that a word has the same tokens at the start of a text as elsewhere; the empty text as it is.
fn prefixed(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(" {text}")
    }
}

/// What merges are learned within: the pre-tokens of a text as the vocabulary spells them.
fn words(text: &str) -> tokenizers::Result<Vec<String>> {
    let mut words = Vec::new();
    pre_tokens::for_each(text, |piece| {
        words.push(byte_level(piece));
        Ok(())
    })?;
    Ok(words)
}

/// 1 where the rows hold at most `most` bytes, else which one of how many to take.
fn stride(examples: &dyn Examples, most: u64) -> anyhow::Result<usize> {
    let rows = examples.len();
    let every = rows.div_ceil(JUDGED_ROWS).max(1);
    let (mut judged, mut bytes) = (0u64, 0u64);
    for row in (0..rows).step_by(every) {
        interrupt::check()?;
        judged += 1;
        for column in 0..examples.columns() {
            bytes += examples.text(row, column)?.len() as u64;
        }
    }
    let all = u128::from(bytes) * rows as u128 / u128::from(judged.max(1));
    Ok(all.div_ceil(u128::from(most)).clamp(1, rows.max(1) as u128) as usize)
}

/// The result of `work`, or [`Interrupted`](interrupt::Interrupted) as soon as the user asks: work of a library that can't be
/// stopped. It then goes on in its thread until the process ends, which is soon.
fn interruptible<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> anyhow::Result<T> {
    let (sender, receiver) = std::sync::mpsc::channel();
    // Nobody listens any more after an interrupt; the result is of no use then.
    let thread = std::thread::spawn(move || drop(sender.send(work())));
    loop {
        interrupt::check()?;
        match receiver.recv_timeout(Duration::from_millis(100)) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                if let Err(panic) = thread.join() {
                    std::panic::resume_unwind(panic);
                }
                bail!("a thread ended without a result");
            }
        }
    }
}

/// The byte that a character of a byte-level token stands for: printing characters of Latin-1 stand for themselves, those from
/// U+0100 for the 68 other bytes in their order.
fn byte(character: char) -> Option<u8> {
    let printing = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    match u32::from(character) {
        code @ 0..=0xff => Some(code as u8),
        code => (0..=0xff).filter(|byte| !printing(*byte)).nth(code as usize - 0x100),
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer").field("size", &self.size()).field("hash", &self.hash).finish_non_exhaustive()
    }
}

/// Trains on the training split of a corpus, or reads the tokenizer that was trained on the same text with the same settings from `folder`.
pub fn train_or_load(corpus: &Corpus, vocabulary: usize, folder: &Path) -> anyhow::Result<Tokenizer> {
    train_or_load_rows(&corpus.name, &corpus.hash, corpus.train.as_ref(), vocabulary, folder)
}

/// [`train_or_load`] on the training rows of a corpus of this name (for messages) and hash.
pub fn train_or_load_rows(
    corpus: &str,
    hash: &str,
    train: &dyn Examples,
    vocabulary: usize,
    folder: &Path,
) -> anyhow::Result<Tokenizer> {
    let file = folder.join(file_name(hash, vocabulary));
    match from_cache(&file)? {
        Ok(Some(tokenizer)) => return Ok(tokenizer),
        Ok(None) => {}
        Err(why) => sealed::tell_rebuild(&file, &why),
    }
    let tokenizer = Tokenizer::train(train, vocabulary)
        .with_context(|| format!("can't make a vocabulary from the training set of {corpus}"))?;
    sealed::write(&file, tokenizer.json.as_bytes())?;
    Ok(tokenizer)
}

/// The tokenizer that was trained on the corpus of this hash, if the cache has it whole.
///
/// # Errors
/// No cache folder; a cache file that cannot be opened.
pub fn cached(hash: &str, vocabulary: usize) -> anyhow::Result<Option<Tokenizer>> {
    let file = cache_folder()?.join("tokens").join(file_name(hash, vocabulary));
    Ok(from_cache(&file)?.unwrap_or(None))
}

fn file_name(hash: &str, vocabulary: usize) -> String {
    format!("{}.tokenizer", sha256_hex(format!("byte-level BPE 3, {vocabulary}, {hash}").as_bytes()))
}

/// The tokenizer of a cache file, none where there is no file, or why it cannot be used.
fn from_cache(file: &Path) -> anyhow::Result<Result<Option<Tokenizer>, String>> {
    let (opened, size) = match sealed::open(file)? {
        Found::Missing => return Ok(Ok(None)),
        Found::Damaged(why) => return Ok(Err(why)),
        Found::Whole(opened, size) => (opened, size),
    };
    let mut json = String::new();
    Ok(match opened.take(size).read_to_string(&mut json) {
        Err(error) => Err(format!("it cannot be read: {error}")),
        Ok(_) => Tokenizer::from_json(json).map(Some).map_err(|error| format!("{error:#}")),
    })
}

#[cfg(test)]
mod tests {
    use super::super::rows::Rows;
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    fn rows() -> Rows {
        Rows::pairs(
            (0..200).map(|n| (format!("the lamp {n} is on, {{name}}"), format!("die Lampe {n} ist an – schön"))),
        )
    }

    fn tokenizer() -> Tokenizer {
        Tokenizer::train(&rows(), 400).unwrap()
    }

    #[test]
    fn special_tokens_have_the_first_ids_and_bytes_follow() {
        let tokenizer = tokenizer();
        assert_eq!(
            ["<pad>", "<s>", "</s>", "<unk>"].map(|name| tokenizer.inner.token_to_id(name)),
            [0, 1, 2, 3].map(Some)
        );
        assert_eq!((PAD, BEGIN, END, UNKNOWN), (0, 1, 2, 3));
        let bytes = Tokenizer::train(&Rows::single(vec!["a".into()]), SMALLEST).unwrap();
        assert_eq!(bytes.size(), 260);
        // "é" is two bytes, the blank before it one more.
        assert_eq!(bytes.encode("é").unwrap().len(), 3);
    }

    #[test]
    fn frequent_words_become_one_token_wherever_they_stand() {
        let tokenizer = tokenizer();
        let lamp = tokenizer.encode("lamp").unwrap();
        assert_eq!(lamp.len(), 1);
        assert_eq!(tokenizer.encode("lamp lamp").unwrap(), [lamp[0], lamp[0]]);
        assert_eq!(tokenizer.decode(&[BEGIN, lamp[0], END, PAD]).unwrap(), "lamp");
    }

    /// The library panics on the first and takes the second.
    #[test]
    fn a_changed_tokenizer_is_refused() {
        let json = tokenizer().json().to_string();
        for (from, to, wanted) in [
            ("\"type\": \"Sequence\"", "\"type\": \"Sequence\" \"", "not the JSON"),
            ("\"type\": \"Prepend\"", "\"type\": \"Lowercase\"", "normalizer"),
            ("\"start\": 1", "\"start\": 2", "decoder"),
            ("\"<unk>\": 3", "\"<unk>\": 70000", "70000"),
        ] {
            assert!(json.contains(from), "{from} is not in {json:.2000}");
            let error = Tokenizer::from_json(json.replacen(from, to, 1)).err().map(|error| format!("{error:#}"));
            assert!(error.as_ref().is_some_and(|error| error.contains(wanted)), "{from}: {error:?}");
        }
    }

    #[test]
    fn training_twice_gives_the_same_file() {
        let first = tokenizer();
        for _ in 0..3 {
            assert_eq!(tokenizer().json, first.json);
        }
        assert!(first.size() <= 400);
    }

    #[test]
    fn of_a_large_corpus_evenly_spread_rows_are_taken() {
        // 200 rows of about 43 bytes.
        let rows = rows();
        let bytes: u64 =
            (0..200).map(|row| (rows.text(row, 0).unwrap().len() + rows.text(row, 1).unwrap().len()) as u64).sum();
        let stride = |most| stride(&rows, most).unwrap();
        assert_eq!([bytes, bytes - 1, bytes / 2, bytes / 10, 1].map(stride), [1, 2, 2, 10, 200]);
        assert_eq!(super::stride(&Rows::single(Vec::new()), 10).unwrap(), 1);
    }

    #[test]
    fn text_that_looks_special_is_text() {
        let tokenizer = tokenizer();
        let ids = tokenizer.encode("a <pad></s> b <unk>").unwrap();
        assert!(ids.iter().all(|id| *id > UNKNOWN), "{ids:?}");
        assert_eq!(tokenizer.decode(&ids).unwrap(), "a <pad></s> b <unk>");
    }

    #[test]
    fn saved_and_loaded_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokenizer.json");
        let tokenizer = tokenizer();
        tokenizer.save(&file).unwrap();
        let loaded = Tokenizer::load(&file).unwrap();
        assert_eq!((loaded.hash(), loaded.size()), (tokenizer.hash(), tokenizer.size()));
        assert_eq!(loaded.encode("die <s> Lampe 7").unwrap(), tokenizer.encode("die <s> Lampe 7").unwrap());
        fs::write(&file, "{\"version\":").unwrap();
        let message = format!("{:#}", Tokenizer::load(&file).unwrap_err());
        assert!(message.contains("tokenizer.json is damaged"), "{message}");
    }

    #[test]
    fn ids_of_texts_without_long_runs_are_those_of_the_library() {
        let tokenizer = tokenizer();
        for text in ["die <s> Lampe 7", " it's  on\t\n – schön ", "語の🚢", "a", " ", "\u{a0}\u{85}", ""] {
            let library = tokenizer.inner.encode_fast(text, false).unwrap();
            assert_eq!(tokenizer.encode(text).unwrap(), library.get_ids(), "{text:?}");
        }
    }

    #[test]
    fn a_vocabulary_without_room_for_bytes_is_refused() {
        let message = Tokenizer::train(&rows(), 259).unwrap_err().to_string();
        assert_eq!(message, "data.vocabulary = 259 is too small: 4 special tokens and 256 bytes need at least 260");
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text in "\\PC{0,20}|[ \\t\u{a0}a-c\u{85}<s>]{0,12}") {
            static TOKENIZER: std::sync::OnceLock<Tokenizer> = std::sync::OnceLock::new();
            let tokenizer = TOKENIZER.get_or_init(tokenizer);
            let ids = tokenizer.encode(&text).unwrap();
            prop_assert_eq!(ids.is_empty(), text.is_empty());
            prop_assert_eq!(tokenizer.decode(&ids).unwrap(), text);
        }
    }
}
