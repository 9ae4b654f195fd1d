//! The mix grammar (stub until branch `attention` is merged).

use crate::attention::Term;

/// The attention functions of a layer, in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mix {
    /// At least one.
    pub terms: Vec<Term>,
}

/// What is wrong with a mix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct MixError {
    /// Byte where it goes wrong.
    pub at: usize,
    /// What is wrong.
    pub message: String,
}

impl Mix {
    /// Parses.
    pub fn parse(text: &str) -> Result<Mix, MixError> {
        let mut terms = Vec::new();
        for part in text.split('+') {
            let at = part.as_ptr() as usize - text.as_ptr() as usize;
            let (name, rest) = part.trim().split_once('(').unwrap_or((part.trim(), ")"));
            if !["V", "D", "R", "Rfix", "FR", "FD"].contains(&name) {
                return Err(MixError { at, message: format!("`{name}` is no attention function") });
            }
            let mut parameters = Vec::new();
            for pair in rest.trim_end_matches(')').split(',').filter(|pair| !pair.is_empty()) {
                let (key, value) = pair.split_once('=').unwrap_or((pair, "0"));
                parameters.push((key.trim().to_owned(), value.trim().parse().unwrap_or(0)));
            }
            terms.push(Term { name: name.to_owned(), parameters });
        }
        Ok(Mix { terms })
    }
}

impl std::fmt::Display for Mix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            write!(f, "{}{}", if i > 0 { "+" } else { "" }, term.name)?;
            if !term.parameters.is_empty() {
                let pairs: Vec<String> = term.parameters.iter().map(|(k, v)| format!("{k}={v}")).collect();
                write!(f, "({})", pairs.join(","))?;
            }
        }
        Ok(())
    }
}

impl std::str::FromStr for Mix {
    type Err = MixError;
    fn from_str(text: &str) -> Result<Mix, MixError> {
        Mix::parse(text)
    }
}

impl serde::Serialize for Mix {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Mix {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        Mix::parse(&text).map_err(serde::de::Error::custom)
    }
}
