//! Measuring time and memory.

pub mod attention;
pub mod compare;
pub mod peer;
pub mod roofline;
pub mod sampling;
pub mod train;
