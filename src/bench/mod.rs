//! Measuring time and memory.

pub mod attention;
pub mod decode;
pub mod decode_peer;
pub mod sampling;
pub mod train;
