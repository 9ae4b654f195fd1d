//! Corpora, tokenizer and batches.
//!
//! [`load`] turns a `[data]` section into three splits of text; [`prepare`] turns those into a [`Tokenizer`] and three
//! [`TokenStore`]s; [`batching`] orders their rows into batches.

pub mod batching;
pub mod catalog;
pub mod chatterbot;
pub mod dialogue;
pub mod fetch;
pub mod files;
pub mod home_assistant;
pub mod inspect;
pub mod json;
pub mod json_lines;
pub mod labelled;
pub mod lines;
pub mod markup;
pub mod news_articles;
pub mod official;
pub mod official_catalog;
pub mod overlap;
pub mod parlai;
pub mod persona_chat;
pub mod pre_tokens;
pub mod reverse;
pub mod rows;
pub mod running_text;
pub mod segments;
pub mod sentences;
pub mod sgm;
pub mod span_corruption;
pub mod stories;
pub mod talks;
pub mod text;
pub mod token_store;
pub mod tokenizer;

use crate::experiment::check::kebab;
use crate::experiment::config::{CorpusKind, DataConfig, TaskKind, TooLong};
use crate::interrupt;
use anyhow::{bail, Context};
use dialogue::History;
use files::SplitFiles;
use rows::Hasher;
use std::borrow::Cow;
use std::path::PathBuf;
use token_store::{Keep, SourceLimit, StoreOptions, TokenStore};
use tokenizer::Tokenizer;

/// A split of a corpus: rows of one text (language modelling) or two (source, target), read on demand.
pub trait Examples: Sync + Send {
    /// Rows.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Texts in a row: 1 or 2.
    fn columns(&self) -> usize;
    /// One text. Errors name the file and line (invalid UTF-8).
    fn text(&self, row: usize, column: usize) -> anyhow::Result<Cow<'_, str>>;
    /// Adds everything that the split holds to a hash; the same content gives the same hash on every machine.
    fn hash_into(&self, hasher: &mut Hasher) -> anyhow::Result<()> {
        hasher.number(self.len() as u64);
        hasher.number(self.columns() as u64);
        for row in 0..self.len() {
            interrupt::check()?;
            for column in 0..self.columns() {
                hasher.text(&self.text(row, column)?);
            }
        }
        Ok(())
    }
}

/// The three splits, and where they came from.
pub struct Corpus {
    /// Such as `homeassistant 2024.3.3 en-de`.
    pub name: String,
    /// Training rows.
    pub train: Box<dyn Examples>,
    /// Rows that choose among checkpoints.
    pub dev: Box<dyn Examples>,
    /// Rows that are reported.
    pub test: Box<dyn Examples>,
    /// SHA-256 (hex) over what the splits hold.
    pub hash: String,
    /// What a reader should know: rows dropped and why.
    pub notes: Vec<String>,
    /// Rows that belong to the test set and cannot be read, so that no score covers them.
    pub skipped_test: usize,
}

impl std::fmt::Debug for Corpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Corpus")
            .field("name", &self.name)
            .field("rows", &[self.train.len(), self.dev.len(), self.test.len()])
            .field("hash", &self.hash)
            .field("notes", &self.notes)
            .finish_non_exhaustive()
    }
}

impl Corpus {
    /// Joins three splits. Errors: a split without rows, or one that cannot be read.
    pub fn new(
        name: String,
        train: Box<dyn Examples>,
        dev: Box<dyn Examples>,
        test: Box<dyn Examples>,
        notes: Vec<String>,
    ) -> anyhow::Result<Corpus> {
        let mut hasher = Hasher::default();
        for (split, rows) in [("training", &train), ("dev", &dev), ("test", &test)] {
            if rows.is_empty() {
                bail!("the {split} set of {name} is empty: there is not one row to read");
            }
            rows.hash_into(&mut hasher).with_context(|| format!("while reading the {split} set of {name}"))?;
        }
        Ok(Corpus { name, train, dev, test, hash: hasher.finish(), notes, skipped_test: 0 })
    }
}

/// Reads the corpus that a `[data]` section names; the small corpora are fetched when the cache lacks them.
///
/// Errors: a corpus that doesn't fit the task, what the reader of the corpus says, an empty split.
pub fn load(config: &DataConfig, task: TaskKind) -> anyhow::Result<Corpus> {
    if !config.corpus.serves(task) {
        // experiment::check says this first, with the place in the file
        bail!("corpus `{}` has nothing for task `{}`", kebab(&config.corpus), kebab(&task));
    }
    match config.corpus {
        CorpusKind::HomeAssistant => {
            let archive = fetch::ensure(&catalog::HOME_ASSISTANT)?;
            home_assistant::read(&archive, &config.source, &config.target)
        }
        CorpusKind::Reverse => reverse::corpus(),
        CorpusKind::NewsArticles => news_articles::read(&fetch::ensure(&catalog::NEWS_ARTICLES)?),
        CorpusKind::Text => text::corpus(config, task),
        CorpusKind::NewsTitles => news_articles::titles(&fetch::ensure(&catalog::NEWS_ARTICLES)?),
        CorpusKind::CnnStories => stories::read(&config.stories, &SplitFiles::of(config)),
        CorpusKind::JsonLines => json_lines::read(&config.fields, task, &SplitFiles::of(config)),
        CorpusKind::Chatterbot => chatterbot::read(&fetch::ensure(&catalog::CHATTERBOT)?, config.history),
        CorpusKind::Parlai => parlai::read(&SplitFiles::of(config), History::of(config)),
        CorpusKind::PersonaChat => persona_chat::read(&SplitFiles::of(config), History::of(config)),
        // labelled corpora have a loader of their own, `labelled::load`
        other => bail!("corpus `{}` has no plain text", kebab(&other)),
    }
}

/// Test rows of a corpus that its training split has too; from the cache where it has the counts.
pub fn seen_in_training(corpus: &Corpus) -> anyhow::Result<overlap::Seen> {
    let tests = [corpus.test.as_ref()];
    overlap::seen_or_load(&corpus.hash, corpus.train.as_ref(), &tests, &token_folder()?)
        .with_context(|| format!("while comparing the test set of {} with its training set", corpus.name))
}

/// Reads the corpus that a `[data]` section names, labelled or not, and keeps nothing of it.
///
/// # Errors
/// Those of [`load`] and of [`labelled::load`].
pub fn check_readable(config: &DataConfig, task: TaskKind) -> anyhow::Result<()> {
    match task {
        TaskKind::Classification => labelled::load(config).map(drop),
        _ => load(config, task).map(drop),
    }
}

/// A corpus as a model reads it.
pub struct Prepared {
    /// Trained on the training split, or read from the cache.
    pub tokenizer: Tokenizer,
    /// Training rows: empty ones dropped (but for a language model's blank lines), long ones skipped or cut.
    pub train: TokenStore,
    /// Dev rows, all of them; long ones cut, but for the lines of a language model.
    pub dev: TokenStore,
    /// Test rows, as dev.
    pub test: TokenStore,
}

/// The source that training makes of what a line of `generate`'s input says: the line, or the history that it spells (see
/// [`History::source_of_line`]) where the corpus is of dialogues that are read turn by turn.
///
/// # Errors
/// Those of [`History::source_of_line`].
pub fn source_of_line<'a>(config: &DataConfig, line: &'a str) -> anyhow::Result<Cow<'a, str>> {
    let personas = match config.corpus {
        CorpusKind::Parlai | CorpusKind::PersonaChat => true,
        CorpusKind::Chatterbot => false,
        _ => return Ok(Cow::Borrowed(line)),
    };
    Ok(Cow::Owned(History::of(config).source_of_line(line, personas)?))
}

/// How sources are cut, where they have a limit of their own. Of a dialogue the end is kept.
pub fn source_limit(config: &DataConfig, task: TaskKind) -> Option<SourceLimit> {
    let keep_end = task == TaskKind::Dialogue;
    match config.max_source_tokens {
        0 => keep_end.then_some(SourceLimit { tokens: config.max_tokens, keep_end }),
        tokens => Some(SourceLimit { tokens, keep_end }),
    }
}

/// Trains the tokenizer and writes the token files, or takes both from the cache (`tokens/`) where data and settings are the same.
pub fn prepare(corpus: &Corpus, config: &DataConfig, task: TaskKind) -> anyhow::Result<Prepared> {
    let folder = token_folder()?;
    let tokenizer = tokenizer::train_or_load(corpus, config.vocabulary, &folder)?;
    let store = |name: &str, rows: &dyn Examples, keep: Keep| {
        // windows of the running text cut no line, and held-out lines are scored in full, in chunks
        let whole = config.window > 0 || (task.models_text() && name != "train");
        let max_tokens = if whole { usize::MAX } else { config.max_tokens };
        let options = StoreOptions {
            max_tokens,
            source: source_limit(config, task),
            keep,
            data_hash: format!("{} {name}", corpus.hash),
        };
        let file = folder.join(format!("{}.tokens", token_store::key(&options, &tokenizer)));
        TokenStore::build(rows, &tokenizer, &options, &file)
            .with_context(|| format!("in the {name} set of {}", corpus.name))
    };
    let of_training = if task.models_text() { Keep::Lines } else { Keep::Training };
    let train = store("train", corpus.train.as_ref(), of_training(config.too_long))?;
    if train.counts.tokens[0] == 0 {
        bail!(
            "no row of the training set of {} is left: all {} are empty or longer than data.max_tokens = {}; raise it or set too_long = \"cut\"",
            corpus.name,
            corpus.train.len(),
            config.max_tokens
        );
    }
    let held_out = |name: &str, rows: &dyn Examples| {
        let kept = store(name, rows, if task.models_text() { Keep::Lines(TooLong::Cut) } else { Keep::All })?;
        if task.models_text() && kept.counts.tokens[0] == 0 {
            bail!("the {name} set of {} has no text: all {} lines are blank", corpus.name, rows.len());
        }
        Ok(kept)
    };
    let dev = held_out("dev", corpus.dev.as_ref())?;
    let test = held_out("test", corpus.test.as_ref())?;
    Ok(Prepared { tokenizer, train, dev, test })
}

/// Where tokenizers and token files are kept, `tokens/` in the cache; made where it is missing.
fn token_folder() -> anyhow::Result<PathBuf> {
    let folder = cache_folder()?.join("tokens");
    std::fs::create_dir_all(&folder).with_context(|| format!("can't make the folder {}", folder.display()))?;
    Ok(folder)
}

/// `$SYNTHESIZER_CACHE`, else `$XDG_CACHE_HOME/synthesizer`, else `~/.cache/synthesizer`.
///
/// Error: none of these variables, nor `HOME`, is set.
pub fn cache_folder() -> anyhow::Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("SYNTHESIZER_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|folder| folder.join("synthesizer")))
        .or_else(|| variable("HOME").map(|folder| folder.join(".cache/synthesizer")))
        .context("no cache folder: set SYNTHESIZER_CACHE to a folder that may hold corpora")
}
