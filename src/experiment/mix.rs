//! The mix grammar: `TERM ("+" TERM)*`, `TERM = NAME [ "(" key "=" value ("," …)* ")" ]`.

use crate::attention::Term;

/// The attention functions of a layer, in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mix {
    /// At least one.
    pub terms: Vec<Term>,
}

impl serde::Serialize for Mix {
    fn serialize<S: serde::Serializer>(&self, _s: S) -> Result<S::Ok, S::Error> {
        todo!("skeleton")
    }
}

impl<'de> serde::Deserialize<'de> for Mix {
    fn deserialize<D: serde::Deserializer<'de>>(_d: D) -> Result<Self, D::Error> {
        todo!("skeleton")
    }
}
