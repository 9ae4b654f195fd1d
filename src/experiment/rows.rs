//! The rows of a plan: seeds, mixes and variants that tell the rows apart.

use super::message::{clip, nearest, Problem};
use super::mix::{Meaning, MixError, MixProblem};
use super::names;
use super::resolve::Scope;
use super::source::Source;
use super::typed::Texts;
use super::{defaults, Experiment, Mix};
use crate::attention::registry::{Shape, FUNCTIONS};
use std::collections::{HashMap, HashSet};

/// The largest number of runs of a file, and so of mixes and of seeds.
pub const MOST_RUNS: usize = 1000;

/// The largest number of variants of a file.
pub const MOST_VARIANTS: usize = 100;

/// The mixes of a list, each with the name of its place; two of the same meaning at this shape are a problem.
pub(super) fn mixes(
    source: &Source,
    prefix: &str,
    typed: Option<&Texts>,
    shape: &Shape,
    problems: &mut Vec<Problem>,
) -> Vec<(Mix, String)> {
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
    if typed.texts.len() > MOST_RUNS {
        let text = format!("`mix` names {} mixes; a list may have up to {MOST_RUNS}", typed.texts.len());
        problems.push(source.of_value(&name, text, "split the file"));
        return Vec::new();
    }
    let mut mixes: Vec<(Mix, String)> = Vec::new();
    let mut seen: HashMap<Meaning, Mix> = HashMap::new();
    for (i, text) in typed.texts.iter().enumerate() {
        let at = if typed.is_list { format!("{name}.{i}") } else { name.clone() };
        match Mix::parse(text) {
            Ok(mix) => {
                let meaning = mix.meaning(shape);
                match seen.get(&meaning) {
                    Some(other) if *other == mix => {
                        problems.push(source.of_value(&at, format!("mix `{mix}` is given twice"), "take one out"));
                    }
                    Some(other) => {
                        let text = format!("mix `{mix}` is `{other}` again");
                        let help =
                            "neither the order of the terms nor a spelled-out default makes another mix: take one out";
                        problems.push(source.of_value(&at, text, help));
                    }
                    None => drop(seen.insert(meaning, mix.clone())),
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

impl Experiment {
    pub(super) fn seeds(&self, problems: &mut Vec<Problem>) -> Vec<u64> {
        let Some(seeds) = &self.typed.seeds else { return defaults::SEEDS.to_vec() };
        if seeds.is_empty() {
            problems.push(self.source.of_value("seeds", "`seeds` is empty", "give one or more, such as [1, 2, 3]"));
        }
        if seeds.len() > MOST_RUNS {
            let text = format!("`seeds` has {} numbers; a file may have up to {MOST_RUNS}", seeds.len());
            problems.push(self.source.of_value("seeds", text, "take some out"));
            return seeds[..1].to_vec();
        }
        let mut seen = HashSet::new();
        for (i, seed) in seeds.iter().enumerate() {
            let at = format!("seeds.{i}");
            if !seen.insert(seed) {
                problems.push(self.source.of_value(&at, format!("seed {seed} is given twice"), "take one out"));
            }
            if i64::try_from(*seed).is_err() {
                let help = format!("give {} or less", i64::MAX);
                problems.push(self.source.of_value(&at, format!("seed {seed} is too large"), help));
            }
        }
        seeds.clone()
    }

    /// Variants need names that tell rows apart, and settings of their own.
    pub(super) fn check_rows(&self, scopes: &[Scope], problems: &mut Vec<Problem>) {
        let source = &self.source;
        let mut rows: HashMap<(Meaning, String), (&Mix, &Option<String>)> = HashMap::new();
        let mut names = HashSet::new();
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
                    let text = format!("variant `{}` changes nothing", clip(name));
                    problems.push(source.of_value(&at, text, "add what differs, such as [variant.model]"));
                    continue;
                }
            }
            let settings = settings(scope);
            for (mix, at) in &scope.mixes {
                if !names.insert((mix.clone(), scope.variant.clone())) && scope.variant.is_some() {
                    let text = format!("there are two rows `{mix}` of this variant name");
                    problems.push(source.of_value(at, text, "give the variants different names"));
                    continue;
                }
                // within a scope, `mixes` tells
                let meaning = (mix.meaning(&scope.model.shape()), settings.clone());
                if let Some((other, variant)) = rows.get(&meaning).filter(|(_, variant)| **variant != scope.variant) {
                    let of = variant.as_ref().map_or("without a variant".into(), |name| format!("of variant `{name}`"));
                    let text = format!("row `{mix}` has the settings of row `{other}` {of}");
                    problems.push(source.of_value(at, text, "take one out: it would be trained twice"));
                }
                rows.entry(meaning).or_insert((mix, &scope.variant));
            }
        }
    }
}

/// All settings of a scope but its mixes, as text.
fn settings(scope: &Scope) -> String {
    format!("{:?} {:?} {:?} {:?}", scope.data, scope.model, scope.train, scope.decode)
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
