//! What was typed, resolved into runs: mixes × seeds and variants, defaults filled, named and hashed.

use super::check::check;
use super::config::{CorpusKind, DataConfig, DecodeConfig, ModelConfig, Run, Select, TaskKind, TrainConfig};
use super::message::{nearest, Problem, Problems};
use super::mix::{MixError, MixProblem};
use super::place::Place;
use super::typed::{DataToml, DecodeToml, Files, ModelToml, Texts, TrainToml, VariantToml};
use super::{defaults, names, pattern, Experiment, Mix};
use crate::attention::registry::FUNCTIONS;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// All runs of an experiment file, in the order of its rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The column's heading.
    pub title: String,
    /// Mixes in the order typed, each with its seeds, then the variants.
    pub runs: Vec<PlannedRun>,
    /// One row a run is written here.
    pub results_csv: PathBuf,
    /// `mini`, `paper`; `custom` for a file that isn't at experiments/PROFILE/TABLE/COLUMN.toml.
    pub profile: String,
    /// Such as `table2`; empty for a custom file.
    pub table: String,
    /// The file's stem, such as `ende`.
    pub column: String,
}

/// A run with its place among the results.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedRun {
    /// Resolved.
    pub run: Run,
    /// Such as `R+V-s1` or `V.control-s1`.
    pub name: String,
    /// Its results, such as `results/mini/table2/ende/R+V-s1`.
    pub folder: PathBuf,
    /// [`Run::hash`].
    pub hash: String,
}

/// Settings of some rows: the experiment's own, or a variant's.
struct Scope {
    /// `` or `variant.0.`: where its keys stand.
    prefix: String,
    variant: Option<String>,
    /// Each with the name of its place.
    mixes: Vec<(Mix, String)>,
    data: DataConfig,
    model: ModelConfig,
    train: TrainConfig,
    decode: Option<DecodeConfig>,
}

impl Experiment {
    /// Resolves into runs whose folders lie under `results`. Errors: everything that can't work or has no effect.
    pub fn plan(&self, results: &Path) -> Result<Plan, Problems> {
        let mut problems = Vec::new();
        let source = &self.source;
        let Some(task) = self.typed.task else {
            let help = "add `task = \"translation\"`, or language-modelling, masked-language-modelling, summarization, dialogue, classification";
            return Err(Problems(vec![source.of_value("task", "`task` is missing", help)]));
        };
        let seeds = self.seeds(&mut problems);
        let mut scopes = vec![self.scope(task, None, &mut problems)];
        for (i, variant) in self.typed.variant.iter().flatten().enumerate() {
            scopes.push(self.scope(task, Some((i, variant)), &mut problems));
        }
        self.check_rows(&scopes, &mut problems);
        self.check_effects(task, &scopes, &mut problems);

        let place = Place::of(&source.path, results);
        problems.extend(place.faults(&source.path));
        let title = self.typed.title.clone().unwrap_or_else(|| place.column.clone());
        let mut runs = Vec::new();
        for scope in &scopes {
            for (mix, mix_place) in &scope.mixes {
                for &seed in &seeds {
                    let run = Run {
                        title: title.clone(),
                        task,
                        mix: mix.clone(),
                        variant: scope.variant.clone(),
                        seed,
                        data: scope.data.clone(),
                        model: scope.model.clone(),
                        train: scope.train.clone(),
                        decode: scope.decode.clone(),
                    };
                    for finding in check(&run) {
                        let at = self.typed_at(&finding.keys, &scope.prefix, mix_place);
                        problems.push(source.of_value(&at, finding.text, finding.help));
                    }
                    let (name, hash) = (run.name(), run.hash());
                    if name.len() > names::LONGEST_RUN {
                        let text = format!(
                            "a run's name would have {} bytes, {} are the most",
                            name.len(),
                            names::LONGEST_RUN
                        );
                        problems.push(source.of_value(mix_place, text, "shorten the mix or the variant's name"));
                    }
                    runs.push(PlannedRun { folder: place.folder.join(&name), run, name, hash });
                }
            }
        }
        if !problems.is_empty() {
            return Err(sorted(problems));
        }
        let (results_csv, profile, table, column) = (place.csv, place.profile, place.table, place.column);
        Ok(Plan { title, runs, results_csv, profile, table, column })
    }

    /// The `[data]` sections that were typed, each with the prefix of its keys.
    fn data_sections(&self) -> impl Iterator<Item = (String, &DataToml)> {
        let variants = self.typed.variant.iter().flatten().enumerate();
        std::iter::once((String::new(), self.typed.data.as_ref()))
            .chain(variants.map(|(i, variant)| (format!("variant.{i}."), variant.data.as_ref())))
            .filter_map(|(prefix, data)| Some((prefix, data?)))
    }

    /// Files and folders that are named but can't be opened, patterns that no file matches, and parallel patterns whose files
    /// do not belong together.
    pub fn missing_files(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (prefix, section) in self.data_sections() {
            let mut look = |key: String, typed: &str, is_folder: bool| {
                let Err(text) = readable(&expand(typed), is_folder) else { return };
                // A list that was typed as one path has a shorter key.
                let keys = key
                    .match_indices('.')
                    .map(|(dot, _)| &key[..dot])
                    .chain([&key[..]])
                    .map(|key| prefix.clone() + key);
                let at = keys.rev().find(|key| self.source.has(key)).unwrap_or_default();
                let help = "relative paths are from the current folder, `~/` is the home folder";
                problems.push(self.source.of_value(&at, text, help));
            };
            for (key, files) in [("train", &section.train), ("dev", &section.dev), ("test", &section.test)] {
                for (i, entry) in files.iter().flat_map(|files| files.0.iter().enumerate()) {
                    for (j, typed) in entry.texts.iter().enumerate() {
                        look(format!("data.{key}.{i}.{j}"), typed, false);
                    }
                }
            }
            for (i, typed) in section.stories.iter().flat_map(|stories| stories.texts.iter().enumerate()) {
                look(format!("data.stories.{i}"), typed, true);
            }
            for (key, typed, is_folder) in [("folder", &section.folder, true), ("vectors", &section.vectors, false)] {
                if let Some(typed) = typed {
                    look(format!("data.{key}"), typed, is_folder);
                }
            }
            if let (Some(folder), Some(set)) = (&section.folder, &section.set) {
                look("data.set".into(), &Path::new(folder).join(set).to_string_lossy(), true);
            }
        }
        if problems.is_empty() {
            problems = self.unparallel_files();
        }
        problems
    }

    fn unparallel_files(&self) -> Vec<Problem> {
        let Some(task) = self.typed.task else { return Vec::new() };
        let base = self.typed.data.as_ref().and_then(|data| data.corpus);
        let mut problems = Vec::new();
        for (prefix, section) in self.data_sections() {
            let corpus = section.corpus.or(base).unwrap_or(defaults::data(task).corpus);
            for (key, files) in [("train", &section.train), ("dev", &section.dev), ("test", &section.test)] {
                for entry in files.iter().flat_map(|files| entries(files, corpus, task)) {
                    if let Err(text) = pattern::expand(&entry) {
                        let help = "name patterns whose wildcards stand for the same parts, or name the files";
                        problems.push(self.source.of_value(&format!("{prefix}data.{key}"), text, help));
                    }
                }
            }
        }
        problems
    }

    fn seeds(&self, problems: &mut Vec<Problem>) -> Vec<u64> {
        let Some(seeds) = &self.typed.seeds else { return defaults::SEEDS.to_vec() };
        if seeds.is_empty() {
            problems.push(self.source.of_value("seeds", "`seeds` is empty", "give one or more, such as [1, 2, 3]"));
        }
        for (i, seed) in seeds.iter().enumerate() {
            let at = format!("seeds.{i}");
            if seeds[..i].contains(seed) {
                problems.push(self.source.of_value(&at, format!("seed {seed} is given twice"), "take one out"));
            }
            if i64::try_from(*seed).is_err() {
                let help = format!("give {} or less", i64::MAX);
                problems.push(self.source.of_value(&at, format!("seed {seed} is too large"), help));
            }
        }
        seeds.clone()
    }

    fn scope(&self, task: TaskKind, variant: Option<(usize, &VariantToml)>, problems: &mut Vec<Problem>) -> Scope {
        let typed = &self.typed;
        let prefix = variant.map_or(String::new(), |(i, _)| format!("variant.{i}."));
        let over = variant.map(|(_, variant)| variant);
        let layers = |of_base: Option<&TrainToml>, of_variant: Option<&TrainToml>| {
            of_variant.and_then(|train| train.schedule).or(of_base.and_then(|train| train.schedule))
        };
        let schedule = layers(typed.train.as_ref(), over.and_then(|over| over.train.as_ref()));
        let mut data = defaults::data(task);
        let mut model = defaults::model(task);
        let mut train = defaults::train(task, schedule.unwrap_or(defaults::SCHEDULE));
        let mut decode = defaults::decode(task);
        let data_layers = [typed.data.as_ref(), over.and_then(|over| over.data.as_ref())];
        for section in data_layers.into_iter().flatten() {
            lay_data(section, task, &mut data);
        }
        // Only packaged translations have languages to fall back on.
        if data.corpus != CorpusKind::HomeAssistant {
            let typed_language = |get: fn(&DataToml) -> Option<String>| {
                data_layers.into_iter().flatten().filter_map(get).next_back().unwrap_or_default()
            };
            data.source = typed_language(|data| data.source.clone());
            data.target = typed_language(|data| data.target.clone());
        }
        if data.corpus == CorpusKind::JsonLines && data.fields.is_empty() {
            data.fields = defaults::fields(task);
        }
        let model_layers: [Option<&ModelToml>; 2] = [typed.model.as_ref(), over.and_then(|over| over.model.as_ref())];
        model_layers.into_iter().flatten().for_each(|section| section.lay_over(&mut model));
        let train_layers: [Option<&TrainToml>; 2] = [typed.train.as_ref(), over.and_then(|over| over.train.as_ref())];
        train_layers.into_iter().flatten().for_each(|section| section.lay_over(&mut train));
        if let Some(decode) = &mut decode {
            let layers: [Option<&DecodeToml>; 2] = [typed.decode.as_ref(), over.and_then(|over| over.decode.as_ref())];
            layers.into_iter().flatten().for_each(|section| section.lay_over(decode));
        }
        let mix = over.map_or(typed.mix.as_ref(), |over| over.mix.as_ref());
        let mixes = self.mixes(&prefix, mix, problems);
        Scope {
            variant: over.map(|over| over.name.clone().unwrap_or_default()),
            prefix,
            mixes,
            data,
            model,
            train,
            decode,
        }
    }

    fn mixes(&self, prefix: &str, typed: Option<&Texts>, problems: &mut Vec<Problem>) -> Vec<(Mix, String)> {
        let source = &self.source;
        let name = format!("{prefix}mix");
        let Some(typed) = typed else {
            let at = if prefix.is_empty() { &name } else { prefix.trim_end_matches('.') };
            let help = "name one or more, such as `mix = \"R+V\"` or `mix = [\"V\", \"D\"]`";
            problems.push(source.of_value(at, "`mix` is missing", help));
            return Vec::new();
        };
        if typed.texts.is_empty() {
            problems.push(source.of_value(&name, "`mix` is empty", "name one or more, such as [\"V\", \"R+V\"]"));
        }
        let mut mixes: Vec<(Mix, String)> = Vec::new();
        for (i, text) in typed.texts.iter().enumerate() {
            let at = if typed.is_list { format!("{name}.{i}") } else { name.clone() };
            match Mix::parse(text) {
                Ok(mix) => {
                    if mixes.iter().any(|(other, _)| *other == mix) {
                        problems.push(source.of_value(&at, format!("mix `{mix}` is given twice"), "take one out"));
                    }
                    mixes.push((mix, at));
                }
                Err(error) => {
                    let near = near_mix(text, &error);
                    problems.push(source.of_string(&at, error.column, error.problem.to_string(), near));
                }
            }
        }
        mixes
    }

    /// Variants need names that tell rows apart, and settings of their own.
    fn check_rows(&self, scopes: &[Scope], problems: &mut Vec<Problem>) {
        let source = &self.source;
        let mut rows = HashSet::new();
        for scope in scopes {
            let place = scope.prefix.trim_end_matches('.');
            if let Some(name) = &scope.variant {
                let at = format!("{}name", scope.prefix);
                if !source.has(&at) {
                    problems.push(source.of_value(
                        place,
                        "a [[variant]] has no `name`",
                        "add `name = \"control\"` or so",
                    ));
                } else if let Some((text, help)) = names::fault(name, names::Kind::Variant) {
                    problems.push(source.of_value(&at, text, help));
                }
                let base = &scopes[0];
                if (&scope.data, &scope.model, &scope.train, &scope.decode)
                    == (&base.data, &base.model, &base.train, &base.decode)
                {
                    let text = format!("variant `{name}` changes nothing");
                    problems.push(source.of_value(&at, text, "add what differs, such as [variant.model]"));
                }
            }
            for (mix, at) in &scope.mixes {
                if !rows.insert((mix.clone(), scope.variant.clone())) && scope.variant.is_some() {
                    let text = format!("there are two rows `{mix}` of this variant name");
                    problems.push(source.of_value(at, text, "give the variants different names"));
                }
            }
        }
    }

    /// A key that changes nothing is an error: its author expects something of it.
    fn check_effects(&self, task: TaskKind, scopes: &[Scope], problems: &mut Vec<Problem>) {
        let many_terms = |scope: &Scope| scope.mixes.iter().any(|(mix, _)| mix.terms.len() > 1);
        for name in self.source.names() {
            let within = name.strip_prefix("variant.").and_then(|rest| rest.split_once('.'));
            let (index, key) = within.map_or((None, name), |(index, key)| (index.parse::<usize>().ok(), key));
            let touched = match index {
                Some(index) => scopes.get(index + 1..index + 2).unwrap_or_default(),
                None => scopes,
            };
            let all = |idle: &dyn Fn(&Scope) -> bool| touched.iter().all(idle);
            let corpus = |kind: fn(CorpusKind) -> bool| touched.iter().any(|scope| kind(scope.data.corpus));
            let why = match key {
                "decode" if task == TaskKind::MaskedLanguageModelling => "gaps are filled greedily",
                "decode" if !task.has_target() => "this task writes no target",
                "decode.max_extra" if task != TaskKind::Translation => "only a translation's length follows its source",
                "model.encoder_layers" if !task.has_encoder() => "language modelling has no encoder",
                "model.decoder_layers" if !task.has_decoder() => "classification has no decoder",
                "data.source" if task != TaskKind::Translation => "only translation has two languages",
                "data.target" if !task.has_target() => "this task writes no target",
                "data.target" if task != TaskKind::Translation && !corpus(CorpusKind::reads_files) => {
                    "this corpus is English"
                }
                "data.source" | "data.target" if all(&|scope| scope.data.corpus == CorpusKind::Reverse) => {
                    "corpus `reverse` has no languages"
                }
                "data.train" | "data.dev" | "data.test" if !corpus(CorpusKind::reads_files) => {
                    "this corpus reads no files that you name"
                }
                "data.dev" | "data.test" if all(&|scope| scope.data.corpus == CorpusKind::PersonaChat) => {
                    "the one file of `persona-chat` holds all splits"
                }
                "data.folder" if !corpus(CorpusKind::reads_folder) => "this corpus has no official folder",
                "data.set" if !corpus(CorpusKind::has_sets) => "only `glue` and `superglue` have sets",
                "data.stories" if !corpus(|corpus| corpus == CorpusKind::CnnStories) => {
                    "only `cnn-stories` has stories"
                }
                "data.fields" if !corpus(|corpus| corpus == CorpusKind::JsonLines) => "only `json-lines` has fields",
                "data.personas" if !corpus(CorpusKind::has_personas) => "this corpus has no persona lines",
                "data.history" if task == TaskKind::Dialogue && all(&|scope| scope.data.corpus == CorpusKind::Text) => {
                    "a line of corpus `text` is one text"
                }
                "data.history" | "data.vectors" if task != TaskKind::Dialogue => "it is for dialogue",
                "data.window" if !task.models_text() => "it is for language modelling",
                "data.noise_density" | "data.mean_span" if task != TaskKind::MaskedLanguageModelling => {
                    "it is for masked language modelling"
                }
                "data.max_source_tokens" if !matches!(task, TaskKind::Summarization | TaskKind::Dialogue) => {
                    "it is for summarization and dialogue; max_tokens holds here"
                }
                "data.max_tokens" | "data.too_long" if all(&|scope| scope.data.window > 0) => {
                    "windows cut no line; `window` says how long they are"
                }
                "data.too_long" if task == TaskKind::Classification => "long texts are always cut",
                "train.label_smoothing" if all(&|scope| scope.data.corpus.is_scored(&scope.data.set)) => {
                    "a score has no classes"
                }
                "train.average" if all(&|scope| scope.train.select != Select::Average) => {
                    "it counts with `select = \"average\"` only"
                }
                "model.mixing" if !touched.iter().any(many_terms) => "no mix has two terms",
                _ => continue,
            };
            let word = key.rsplit('.').next().unwrap_or(key);
            let text = format!("`{word}` has no effect: {why}");
            problems.push(self.source.of_key(name, text, "take it out"));
        }
    }

    /// The first of the keys that was typed, for these rows or for all.
    fn typed_at(&self, keys: &[&str], prefix: &str, mix_place: &str) -> String {
        for key in keys {
            if *key == "mix" {
                return mix_place.to_owned();
            }
            for name in [format!("{prefix}{key}"), (*key).to_owned()] {
                if self.source.has(&name) {
                    return name;
                }
            }
        }
        let section = keys.first().and_then(|key| key.split_once('.')).map_or("", |(section, _)| section);
        section.to_owned()
    }
}

/// "did you mean" for a function's name that is nearly right, or two names without a `+`.
fn near_mix(mix: &str, error: &MixError) -> String {
    let MixProblem::UnknownName(name) = &error.problem else { return String::new() };
    if error.problem.to_string().contains("did you mean") {
        return String::new(); // only the case was wrong
    }
    let known: Vec<&str> = FUNCTIONS.iter().map(|entry| entry.name).collect();
    let joined = (1..name.len()).filter(|at| name.is_char_boundary(*at)).map(|at| name.split_at(at));
    let joined = joined.filter(|(a, b)| known.contains(a) && known.contains(b)).map(|(a, b)| format!("{a}+{b}")).next();
    let Some(near) = joined.or_else(|| nearest(name, &known).map(str::to_owned)) else { return String::new() };
    let (head, tail): (String, String) =
        (mix.chars().take(error.column).collect(), mix.chars().skip(error.column).collect());
    format!("did you mean `{head}{near}{}`?", tail.strip_prefix(name.as_str()).unwrap_or_default())
}

/// A flat list is one pair where text comes in pairs of files, and many files elsewhere.
fn lay_data(section: &DataToml, task: TaskKind, data: &mut DataConfig) {
    section.lay_over(data);
    for (typed, resolved) in [(&section.folder, &mut data.folder), (&section.vectors, &mut data.vectors)] {
        if let Some(path) = typed {
            *resolved = expand(path);
        }
    }
    if let Some(stories) = &section.stories {
        data.stories = stories.texts.iter().map(|path| expand(path)).collect();
    }
    for (typed, resolved) in
        [(&section.train, &mut data.train), (&section.dev, &mut data.dev), (&section.test, &mut data.test)]
    {
        if let Some(files) = typed {
            *resolved = entries(files, data.corpus, task);
        }
    }
}

fn entries(files: &Files, corpus: CorpusKind, task: TaskKind) -> Vec<Vec<PathBuf>> {
    let pairs = corpus == CorpusKind::Text && task.has_target();
    let flat = !files.0.is_empty() && files.0.iter().all(|entry| !entry.is_list);
    if flat && pairs {
        return vec![files.0.iter().flat_map(|entry| entry.texts.iter().map(|path| expand(path))).collect()];
    }
    files.0.iter().map(|entry| entry.texts.iter().map(|path| expand(path)).collect()).collect()
}

/// `~/` is the home folder; other relative paths are from the current folder.
fn expand(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(path),
    }
}

/// Whether there is such a folder, or file; a pattern stands for the files that it matches.
fn readable(path: &Path, is_folder: bool) -> Result<(), String> {
    if !is_folder && pattern::matches(path)?.is_some() {
        return Ok(());
    }
    let found = std::fs::File::open(path).and_then(|file| file.metadata());
    match found {
        Ok(found) if found.is_dir() == is_folder => Ok(()),
        Ok(_) if is_folder => Err(format!("{} can't be read: it is no folder", path.display())),
        Ok(_) => Err(format!("{} can't be read: it is a folder", path.display())),
        Err(error) => Err(format!("{} can't be read: {error}", path.display())),
    }
}

fn sorted(mut problems: Vec<Problem>) -> Problems {
    problems.sort_by_key(|problem| problem.place.as_ref().map(|place| (place.line, place.column)));
    let mut seen = HashSet::new();
    problems.retain(|problem| seen.insert(format!("{problem}")));
    Problems(problems)
}
