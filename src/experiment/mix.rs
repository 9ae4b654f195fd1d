//! The mix grammar: `TERM ("+" TERM)*`, `TERM = NAME [ "(" key "=" value ("," …)* ")" ]`; spaces may stand between any
//! two of these. Names, keys and smallest values are those of the registry.

use super::message::{clip, Place};
use crate::attention::registry::{self, Entry, Parameter, Shape, FUNCTIONS};
use crate::attention::Term;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The largest value of a parameter: far above any that fits in memory.
const LARGEST: i64 = 1_000_000;

/// The attention functions of a layer, in order. Two mixes are equal if they are typed alike; [`Mix::meaning`] tells whether
/// they stand for the same layer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mix {
    /// At least one.
    pub terms: Vec<Term>,
}

/// What is wrong with a mix, and where. Shown as the fault, the mix and a caret under the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}\n{}", marked(mix, *column))]
pub struct MixError {
    /// The whole mix as typed.
    pub mix: String,
    /// Characters before the wrong one (the length of the mix if something is missing at its end).
    pub column: usize,
    /// What is wrong there.
    pub problem: MixProblem,
}

/// What can be wrong with a mix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MixProblem {
    /// Something else where a function's name must stand, or nothing.
    #[error("an attention function is missing here: one of {}", names())]
    NameMissing,
    /// A name that the registry lacks.
    #[error("there is no attention function `{name}`; there are {names}{hint}", name = clip(.0), names = names(), hint = near_miss(.0))]
    UnknownName(String),
    /// Parentheses after a function that takes nothing.
    #[error("{0} takes no parameters")]
    NoParameters(&'static str),
    /// Something else where a key must stand, or nothing.
    #[error("a parameter of {0} is missing here: one of {keys}", keys = keys(.0))]
    KeyMissing(&'static str),
    /// A key that the function lacks.
    #[error("{function} has no parameter `{}`; it has {}", clip(key), keys(function))]
    UnknownKey {
        /// The function.
        function: &'static str,
        /// The key typed.
        key: String,
    },
    /// A key given twice.
    #[error("`{0}` is given twice")]
    RepeatedKey(String),
    /// No `=` after a key.
    #[error("`=` and a value are missing after `{0}`")]
    EqualsMissing(String),
    /// A value that is not a whole number in range, or none.
    #[error("`{key}` must be {}, at most {LARGEST}{}", whole_number(*minimum), found(value))]
    Value {
        /// The parameter.
        key: &'static str,
        /// Its smallest value.
        minimum: i64,
        /// What was typed; empty if nothing was.
        value: String,
    },
    /// Neither another parameter nor the end of them.
    #[error("`,` or `)` is missing here")]
    CloseMissing,
    /// Something after a term that is not a `+`.
    #[error("{0} is complete: only `+` and another function, or `(` and parameters, may follow")]
    PlusMissing(Term),
    /// Two terms whose weights would have the same names.
    #[error("{second} can't stand beside {first}: their weights would share the name `{weights}`")]
    SameWeights {
        /// The earlier term.
        first: Box<Term>,
        /// The later one, to which the caret points.
        second: Box<Term>,
        /// The name.
        weights: &'static str,
    },
    /// An operator beside another term.
    #[error("{0} can't be mixed: it makes no logits that could be added; it stands alone. What can be mixed: {mixed}", mixed = registry::names(Entry::can_be_mixed).join(", "))]
    Alone(Term),
}

fn names() -> String {
    FUNCTIONS.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ")
}

fn keys(function: &str) -> String {
    let parameters = registry::find(function).map_or(&[][..], |entry| entry.parameters);
    parameters.iter().map(|parameter| parameter.name).collect::<Vec<_>>().join(", ")
}

fn near_miss(name: &str) -> String {
    let near = FUNCTIONS.iter().find(|entry| entry.name.eq_ignore_ascii_case(name));
    near.map_or_else(String::new, |entry| format!(" (did you mean {}?)", entry.name))
}

fn whole_number(minimum: i64) -> &'static str {
    if minimum == 0 {
        "0 or a positive integer"
    } else {
        "a positive integer"
    }
}

fn found(value: &str) -> String {
    if value.is_empty() {
        String::new()
    } else {
        format!(", not `{}`", clip(value))
    }
}

/// The mix, or of a long one the part around the place, with a caret under it.
fn marked(mix: &str, column: usize) -> String {
    // One character for each of the mix, so that the caret stands right.
    let line: String = mix.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let at = line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
    let Place { column, excerpt, skipped, .. } = Place::of(&line, at..at);
    format!("  {excerpt}\n  {:1$}^", "", column - 1 - skipped)
}

impl Mix {
    /// Reads a mix such as `R+V` or `FD(hidden=16, a=8) + FR(k=4)`.
    pub fn parse(mix: &str) -> Result<Mix, MixError> {
        let mut parser = Parser { characters: mix.chars().collect(), position: 0 };
        parser.mix().map_err(|(column, problem)| MixError { mix: mix.to_string(), column, problem })
    }

    /// The functions with the values of their parameters, in alphabetical order. Two mixes with the same meaning make the same
    /// layer at this shape: the order of the terms and defaults that are spelled out do not count. (Initial values still
    /// follow the typed order, and so do the names of runs.)
    pub fn meaning(&self, shape: &Shape) -> Meaning {
        let sizes = [shape.d_model, shape.heads, shape.max_length];
        let is_good = sizes.iter().all(|size| (1..=i64::from(i32::MAX)).contains(size));
        let values = |term: &Term| match registry::find(&term.name) {
            Some(entry) if is_good && (entry.check)(term, shape).is_ok() => (entry.values)(term, shape),
            // a term that is an error has no values; its typed ones tell it from others
            _ => term.parameters.iter().map(|(_, value)| *value).collect(),
        };
        let mut terms: Vec<_> = self.terms.iter().map(|term| (term.name.clone(), values(term))).collect();
        terms.sort();
        Meaning(terms)
    }
}

/// See [`Mix::meaning`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Meaning(Vec<(String, Vec<i64>)>);

type Parsed<T> = Result<T, (usize, MixProblem)>;

struct Parser {
    characters: Vec<char>,
    position: usize,
}

impl Parser {
    fn mix(&mut self) -> Parsed<Mix> {
        let mut terms: Vec<Term> = Vec::new();
        let mut entries: Vec<&'static Entry> = Vec::new();
        let mut starts = Vec::new();
        loop {
            self.spaces();
            let start = self.position;
            starts.push(start);
            let (entry, term) = self.term()?;
            if let Some(earlier) = entries.iter().position(|earlier| earlier.weights == entry.weights) {
                let (first, second) = (Box::new(terms[earlier].clone()), Box::new(term));
                return Err((start, MixProblem::SameWeights { first, second, weights: entry.weights }));
            }
            entries.push(entry);
            terms.push(term.clone());
            if let Some(index) = entries.iter().position(|entry| entries.len() > 1 && !entry.can_be_mixed()) {
                return Err((starts[index], MixProblem::Alone(terms[index].clone())));
            }
            if self.at_end() {
                return Ok(Mix { terms });
            }
            if !self.take('+') {
                return Err((self.position, MixProblem::PlusMissing(term)));
            }
        }
    }

    fn term(&mut self) -> Parsed<(&'static Entry, Term)> {
        let start = self.position;
        let name = self.word();
        if name.is_empty() {
            return Err((start, MixProblem::NameMissing));
        }
        let entry = registry::find(&name).ok_or_else(|| (start, MixProblem::UnknownName(name.clone())))?;
        let mut term = Term { name, parameters: Vec::new() };
        self.spaces();
        let open = self.position;
        if self.take('(') {
            if entry.parameters.is_empty() {
                return Err((open, MixProblem::NoParameters(entry.name)));
            }
            loop {
                let (key, value) = self.parameter(entry, &term)?;
                term.parameters.push((key.to_string(), value));
                if self.take(')') {
                    break;
                }
                if !self.take(',') {
                    return Err((self.position, MixProblem::CloseMissing));
                }
            }
        }
        Ok((entry, term))
    }

    fn parameter(&mut self, entry: &'static Entry, term: &Term) -> Parsed<(&'static str, i64)> {
        self.spaces();
        let start = self.position;
        let key = self.word();
        if key.is_empty() {
            return Err((start, MixProblem::KeyMissing(entry.name)));
        }
        let Some(&Parameter { name, minimum, .. }) = entry.parameters.iter().find(|parameter| parameter.name == key)
        else {
            return Err((start, MixProblem::UnknownKey { function: entry.name, key }));
        };
        if term.get(name).is_some() {
            return Err((start, MixProblem::RepeatedKey(key)));
        }
        if !self.take('=') {
            return Err((self.position, MixProblem::EqualsMissing(key)));
        }
        self.spaces();
        let start = self.position;
        // Up to the next mark: `1.5` and `-1` are one wrong value, not a right one and rubbish.
        let value = self.run(|c| !c.is_whitespace() && !",()+=".contains(c));
        let digits = !value.is_empty() && value.chars().all(|c| c.is_ascii_digit());
        match value.parse::<i64>() {
            Ok(number) if digits && (minimum..=LARGEST).contains(&number) => Ok((name, number)),
            _ => Err((start, MixProblem::Value { key: name, minimum, value })),
        }
    }

    fn word(&mut self) -> String {
        self.run(|c| c.is_alphanumeric() || c == '_')
    }

    fn run(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let word: String = self.characters[self.position..].iter().copied().take_while(|&c| belongs(c)).collect();
        self.position += word.chars().count();
        word
    }

    fn spaces(&mut self) {
        self.run(char::is_whitespace);
    }

    /// Goes past spaces and then `mark`, if it is there.
    fn take(&mut self, mark: char) -> bool {
        self.spaces();
        let there = self.characters.get(self.position) == Some(&mark);
        self.position += usize::from(there);
        there
    }

    fn at_end(&mut self) -> bool {
        self.spaces();
        self.position == self.characters.len()
    }
}

impl FromStr for Mix {
    type Err = MixError;

    fn from_str(mix: &str) -> Result<Mix, MixError> {
        Mix::parse(mix)
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            write!(f, "{}{term}", if index == 0 { "" } else { "+" })?;
        }
        Ok(())
    }
}

impl Serialize for Mix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Mix, D::Error> {
        struct MixVisitor;

        impl Visitor<'_> for MixVisitor {
            type Value = Mix;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a mix of attention functions such as \"R+V\"")
            }

            fn visit_str<E: Error>(self, mix: &str) -> Result<Mix, E> {
                Mix::parse(mix).map_err(E::custom)
            }
        }

        deserializer.deserialize_str(MixVisitor)
    }
}
