//! What was typed, resolved into runs: mixes × seeds and variants, defaults filled, named and hashed.

use super::check::{check, Finding};
use super::config::{CorpusKind, DataConfig, DecodeConfig, ModelConfig, Run, TaskKind, TrainConfig};
use super::message::{Problem, Problems};
use super::paths::{entries, expand};
use super::place::Place;
use super::rows::{self, MOST_RUNS, MOST_VARIANTS};
use super::typed::{DataToml, DecodeToml, ModelToml, TrainToml, VariantToml};
use super::unusual::unusual;
use super::{defaults, names, Experiment, Mix};
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
    /// Settings that work but are rarely meant.
    pub warnings: Vec<Problem>,
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
pub(super) struct Scope {
    /// `` or `variant.0.`: where its keys stand.
    pub(super) prefix: String,
    pub(super) variant: Option<String>,
    /// Each with the name of its place.
    pub(super) mixes: Vec<(Mix, String)>,
    pub(super) data: DataConfig,
    pub(super) model: ModelConfig,
    pub(super) train: TrainConfig,
    pub(super) decode: Option<DecodeConfig>,
}

impl Scope {
    fn run(&self, title: &str, task: TaskKind, mix: &Mix, seed: u64) -> Run {
        Run {
            title: title.to_owned(),
            task,
            mix: mix.clone(),
            variant: self.variant.clone(),
            seed,
            data: self.data.clone(),
            model: self.model.clone(),
            train: self.train.clone(),
            decode: self.decode.clone(),
        }
    }
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
        let variants = self.typed.variant.as_deref().unwrap_or_default();
        if variants.len() > MOST_VARIANTS {
            let text = format!("there are {} variants; a file may have up to {MOST_VARIANTS}", variants.len());
            return Err(Problems(vec![source.of_value(&format!("variant.{MOST_VARIANTS}"), text, "split the file")]));
        }
        let too_many = self.file_count_problems();
        if !too_many.is_empty() {
            return Err(sorted(too_many)); // each run would hold them
        }
        let mut scopes = vec![self.scope(task, None, &mut problems)];
        for (i, variant) in variants.iter().enumerate() {
            scopes.push(self.scope(task, Some((i, variant)), &mut problems));
        }
        self.check_rows(&scopes, &mut problems);
        self.check_effects(task, &scopes, &mut problems);

        let place = Place::of(&source.path, results);
        problems.extend(place.faults(&source.path));
        let title = self.typed.title.clone().unwrap_or_else(|| place.column.clone());
        problems.extend(names::title_problem(source, &title));
        let rows: usize = scopes.iter().map(|scope| scope.mixes.len()).sum();
        if rows.saturating_mul(seeds.len()) > MOST_RUNS {
            let text = format!("{rows} rows of {} seeds are more than {MOST_RUNS} runs", seeds.len());
            let help = "take out mixes or seeds, or split the file";
            problems.push(source.of_value(if seeds.len() > rows { "seeds" } else { "mix" }, text, help));
        }
        let mut warnings = Vec::new();
        let mut found = HashSet::new();
        for scope in &scopes {
            for (mix, mix_place) in &scope.mixes {
                // a seed changes nothing of what is checked
                let run = scope.run(&title, task, mix, *seeds.iter().max().unwrap_or(&0));
                let mut place_of = |finding: Finding| {
                    let at = self.typed_at(&finding.keys, &scope.prefix, mix_place);
                    let is_new = found.insert((at.clone(), finding.text.clone()));
                    is_new.then(|| source.of_value(&at, finding.text, finding.help))
                };
                let faults = check(&run);
                if faults.is_empty() {
                    warnings.extend(unusual(&run).into_iter().filter_map(&mut place_of));
                }
                problems.extend(faults.into_iter().filter_map(&mut place_of));
                problems.extend(names::run_problem(source, &run, mix_place, &place.folder));
            }
        }
        if !problems.is_empty() {
            return Err(sorted(problems));
        }
        let mut runs = Vec::new();
        for scope in &scopes {
            for (mix, _) in &scope.mixes {
                for &seed in &seeds {
                    let run = scope.run(&title, task, mix, seed);
                    let (name, hash) = (run.name(), run.hash());
                    runs.push(PlannedRun { folder: place.folder.join(&name), run, name, hash });
                }
            }
        }
        let warnings = sorted(warnings).0;
        let (results_csv, profile, table, column) = (place.csv, place.profile, place.table, place.column);
        Ok(Plan { title, runs, results_csv, profile, table, column, warnings })
    }

    /// A problem of a planned run, at the first of `keys` that was typed.
    pub fn problem_of(&self, run: &Run, finding: Finding) -> Problem {
        let has_mix = |texts: &[String]| texts.iter().position(|text| Mix::parse(text).is_ok_and(|mix| mix == run.mix));
        let variants = self.typed.variant.iter().flatten().enumerate();
        let variant = variants
            .filter(|(_, variant)| run.variant.is_some() && variant.name == run.variant)
            .find(|(_, variant)| variant.mix.as_ref().is_some_and(|mix| has_mix(&mix.texts).is_some()));
        let prefix = variant.map_or(String::new(), |(index, _)| format!("variant.{index}."));
        let mix = variant.map_or(self.typed.mix.as_ref(), |(_, variant)| variant.mix.as_ref());
        let element = mix.filter(|mix| mix.is_list).and_then(|mix| has_mix(&mix.texts));
        let mix_place = element.map_or(format!("{prefix}mix"), |index| format!("{prefix}mix.{index}"));
        let at = self.typed_at(&finding.keys, &prefix, &mix_place);
        self.source.of_value(&at, finding.text, finding.help)
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
        let mixes = rows::mixes(&self.source, &prefix, mix, &model.shape(), problems);
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

fn sorted(mut problems: Vec<Problem>) -> Problems {
    problems.sort_by_key(|problem| problem.place.as_ref().map(|place| (place.line, place.column)));
    let mut seen = HashSet::new();
    problems.retain(|problem| seen.insert(format!("{problem}")));
    Problems(problems)
}
