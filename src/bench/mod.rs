//! Measuring time and memory.

pub mod attention;
pub mod memory;
pub mod sampling;
