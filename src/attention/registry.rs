//! The functions that a mix may name.
