//! What `validate` and `run` check of experiment files before anything is trained: the same findings in both.

use crate::data::files::SplitFiles;
use crate::data::overlap::{self, Seen};
use crate::data::tokenizer::{self, Tokenizer};
use crate::data::{self, catalog, fetch, labelled};
use crate::experiment::check::Finding;
use crate::experiment::config::{CorpusKind, DataConfig};
use crate::experiment::{self, Experiment, Plan, PlannedRun, Problem, Problems, Run, TaskKind};
use crate::input;
use crate::interrupt::Interrupted;
use crate::machine::Memory;
use crate::regular;
use crate::task::size::Size;
use crate::task::tokenizer_file;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// Corpora up to this size are read when an experiment file is checked.
const READ_UP_TO: u64 = 64 << 20;

/// Why a packaged corpus is not read.
pub(super) const NOT_FETCHED: &str = "the corpus is not in the cache";

/// Corpora of more files than this are not read then.
const MOST_FILES: usize = 4000;

/// A good experiment file.
pub(super) struct Checked {
    pub(super) experiment: Experiment,
    pub(super) plan: Plan,
    /// The size of each run, in the plan's order.
    pub(super) sizes: Vec<Size>,
    /// What is known of the data of each run, in the plan's order.
    pub(super) facts: Vec<Facts>,
    /// What works but is rarely meant.
    pub(super) warnings: Vec<Problem>,
}

/// What is known of data before they are prepared.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    /// Test rows that training has seen; nothing if the data were not read.
    pub(super) seen: Option<Seen>,
    /// Entries of the tokenizer, if the cache has it.
    pub(super) tokenizer: Option<usize>,
    /// Why the data were not read.
    pub(super) unread: Option<String>,
}

/// Plans and checks experiment files. `memory` is what a run may take; data are looked at if `look_at_data`. Good files come
/// back beside the problems of the others.
///
/// # Errors
/// Ctrl-C.
pub(super) fn check(
    files: &[PathBuf],
    results: &Path,
    memory: Memory,
    look_at_data: bool,
) -> Result<(Vec<Checked>, Vec<Problem>)> {
    let (plans, mut problems) = experiment::examine(files, results);
    let mut checked = Vec::new();
    // several files may have one corpus, which is read once
    let mut corpora: Vec<(TaskKind, DataConfig, Facts)> = Vec::new();
    for (experiment, plan) in plans {
        let mut found = Found { experiment: &experiment, problems: experiment.missing_files(), warnings: Vec::new() };
        found.warnings.extend(plan.warnings.iter().cloned());
        let is_complete = found.problems.is_empty();
        let mut sections: Vec<(&DataConfig, Facts)> = Vec::new();
        let (mut sizes, mut facts) = (Vec::new(), Vec::new());
        for planned in &plan.runs {
            let run = &planned.run;
            let known = sections.iter().find(|(data, _)| **data == run.data).map(|(_, facts)| facts.clone());
            let of_data = match known {
                Some(facts) => facts,
                None => {
                    let facts = match is_complete && look_at_data {
                        true => found.look_at(run, &mut corpora)?,
                        false => Facts::default(),
                    };
                    sections.push((&run.data, facts.clone()));
                    facts
                }
            };
            let size = Size::of(run, of_data.tokenizer.or_else(|| tokenizer_of(planned)))?;
            match size.fault(run, memory) {
                Some(fault) => found.problem(run, fault),
                None => size.warning(run, memory).into_iter().for_each(|warning| found.warn(run, warning)),
            }
            sizes.push(size);
            facts.push(of_data);
        }
        let Found { problems: faults, warnings, .. } = found;
        problems.extend(faults);
        checked.push(Checked { experiment, plan, sizes, facts, warnings });
    }
    Ok((checked, problems))
}

/// As [`check`], for files and folders; a problem is an error.
pub(super) fn check_all(paths: &[PathBuf], results: &Path, memory: Memory, look_at_data: bool) -> Result<Vec<Checked>> {
    let (checked, problems) = check(&experiment::files(paths)?, results, memory, look_at_data)?;
    if problems.is_empty() {
        Ok(checked)
    } else {
        Err(Problems(problems).into())
    }
}

/// What was found of one experiment file.
struct Found<'a> {
    experiment: &'a Experiment,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Found<'_> {
    /// Runs that differ in the seed alone have the same findings.
    fn problem(&mut self, run: &Run, finding: Finding) {
        let problem = self.experiment.problem_of(run, finding);
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    fn warn(&mut self, run: &Run, finding: Finding) {
        let warning = self.experiment.problem_of(run, finding);
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Files that are the same, then the corpus itself where that is cheap.
    fn look_at(&mut self, run: &Run, corpora: &mut Vec<(TaskKind, DataConfig, Facts)>) -> Result<Facts> {
        let before = self.problems.len();
        match overlap::same_files(&run.data) {
            Ok(same) => same.iter().for_each(|same| self.same_file(run, same)),
            Err(error) => self.unreadable(run, error)?,
        }
        if self.problems.len() > before {
            return Ok(Facts::default());
        }
        if let Some(why) = too_dear(&run.data) {
            return Ok(Facts { unread: Some(why), ..Facts::default() });
        }
        let known = corpora.iter().find(|(task, data, _)| (*task, data) == (run.task, &run.data));
        match known.map_or_else(|| facts(run), |(_, _, facts)| Ok(facts.clone())) {
            Ok(facts) => {
                self.remark(run, &facts);
                corpora.push((run.task, run.data.clone(), facts.clone()));
                Ok(facts)
            }
            Err(error) => self.unreadable(run, error).map(|()| Facts::default()),
        }
    }

    /// Warns of test rows that training has.
    fn remark(&mut self, run: &Run, facts: &Facts) {
        if let Some(remark) = facts.seen.and_then(|seen| seen.remark()) {
            let help = "results will carry this remark; test on rows that training does not have".into();
            let keys = vec!["data.test", "data.folder", "data.corpus"];
            self.warn(run, Finding { keys, text: remark.trim_end_matches('.').to_owned(), help });
        }
    }

    fn same_file(&mut self, run: &Run, same: &overlap::SameFile) {
        let (first, second, names) = (same.first.0, same.second.0, same.names());
        let [one, other] = [first, second].map(|key| &key[5..]);
        let is = if same.first.1 == same.second.1 { "is" } else { "are the same file," };
        let finding = |text: String, help: &str| Finding { keys: vec![second, first], text, help: help.to_owned() };
        match (one, other) {
            _ if same.is_one_entry => {
                let text = format!("{names} {is} both sides of an entry of `{one}`");
                self.problem(run, finding(text, "give the source file and the target file"));
            }
            ("train", "test") => {
                let text = format!("{names} {is} both in `train` and in `test`");
                self.problem(run, finding(text, "test on text that training does not have"));
            }
            _ if one == other => {
                let text = format!("{names} {is} twice in `{one}`");
                self.warn(run, finding(text, "its rows count twice; take one out"));
            }
            _ => {
                let text = format!("{names} {is} both in `{one}` and in `{other}`");
                let help =
                    "dev chooses among checkpoints: rows of train or test make that choice, or the score, too good";
                self.warn(run, finding(text, help));
            }
        }
    }

    /// Data that cannot be read, at the key that the error names.
    fn unreadable(&mut self, run: &Run, error: anyhow::Error) -> Result<()> {
        if error.chain().any(|cause| cause.is::<Interrupted>()) {
            return Err(error);
        }
        let text = format!("{error:#}");
        let of_language = |name: &str| !name.is_empty() && text.contains(&format!("language {name:?}"));
        let key = match &run.data {
            data if of_language(&data.target) => Some("data.target"),
            data if of_language(&data.source) => Some("data.source"),
            _ => ["data.train", "data.dev", "data.test"].into_iter().find(|key| text.contains(key)),
        };
        let keys = key.into_iter().chain(["data.folder", "data.train", "data.corpus", "task"]).collect();
        self.problem(run, Finding { keys, text, help: String::new() });
        Ok(())
    }
}

/// Entries of the tokenizer of a run that was started.
fn tokenizer_of(planned: &PlannedRun) -> Option<usize> {
    let config = regular::read_text(&planned.folder.join("config.toml"), regular::EXPERIMENT).ok()?;
    let found = Run::from_toml(&config).ok().filter(|found| found.hash() == planned.hash);
    found.and_then(|_| Some(Tokenizer::load(&tokenizer_file(&planned.folder)).ok()?.size()))
}

/// Reads a corpus, and looks for its tokenizer in the cache.
fn facts(run: &Run) -> Result<Facts> {
    let (hash, seen) = if run.task == TaskKind::Classification {
        let corpus = labelled::load(&run.data)?;
        let tests: Vec<&dyn data::Examples> = corpus.tests.iter().map(|test| test as &dyn data::Examples).collect();
        (corpus.hash.clone(), overlap::seen(&corpus.train, &tests)?)
    } else {
        let corpus = data::load(&run.data, run.task)?;
        (corpus.hash.clone(), overlap::seen(corpus.train.as_ref(), &[corpus.test.as_ref()])?)
    };
    let tokenizer = tokenizer::cached(&hash, run.data.vocabulary)?.map(|tokenizer| tokenizer.size());
    Ok(Facts { seen: Some(seen), tokenizer, unread: None })
}

/// Why a corpus is not read when an experiment file is checked; nothing if it is.
fn too_dear(data: &DataConfig) -> Option<String> {
    let packaged = match data.corpus {
        CorpusKind::HomeAssistant => Some(&catalog::HOME_ASSISTANT),
        CorpusKind::NewsArticles | CorpusKind::NewsTitles => Some(&catalog::NEWS_ARTICLES),
        CorpusKind::Chatterbot => Some(&catalog::CHATTERBOT),
        CorpusKind::BbcTopics => Some(&catalog::BBC_TOPICS),
        CorpusKind::MovieSentences => Some(&catalog::MOVIE_SENTENCES),
        _ => None,
    };
    if let Some(entry) = packaged {
        let is_ready = fetch::state(entry).is_ok_and(|state| state == fetch::State::Ready);
        return (!is_ready).then(|| NOT_FETCHED.into());
    }
    let SplitFiles { train, dev, test } = SplitFiles::of(data);
    let mut paths: Vec<PathBuf> = Vec::new();
    for (key, entries) in [("train", train), ("dev", dev), ("test", test)] {
        if !entries.is_empty() {
            paths.extend(data::files::expand(key, entries).ok()?.into_iter().flatten());
        }
    }
    let is_packed = |path: &PathBuf| matches!(input::open(path), Ok(input::Content::Packed(_)));
    if paths.iter().any(is_packed) {
        return Some("compressed files are unpacked when they are trained on".into());
    }
    let of_set = if data.set.is_empty() { data.folder.clone() } else { data.folder.join(&data.set) };
    paths.extend((!data.folder.as_os_str().is_empty()).then_some(of_set));
    paths.extend(data.stories.iter().cloned());
    let mut total = 0u64;
    let mut files = 0;
    while let Some(path) = paths.pop() {
        let Ok(found) = path.metadata() else { continue };
        if found.is_dir() {
            paths.extend(path.read_dir().into_iter().flatten().flatten().map(|entry| entry.path()));
        }
        files += 1;
        total = total.saturating_add(if found.is_file() { found.len() } else { 0 });
        if total > READ_UP_TO || files > MOST_FILES || paths.len() > MOST_FILES {
            return Some(format!("the data are larger than {} MiB or {MOST_FILES} files", READ_UP_TO >> 20));
        }
    }
    None
}
