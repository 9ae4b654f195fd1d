//! Measuring time and memory.

pub mod attention;
pub mod sampling;
pub mod train;
