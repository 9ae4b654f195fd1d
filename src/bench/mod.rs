//! Measuring time and memory.

pub mod attention;
pub mod compare;
pub mod decode;
pub mod decode_peer;
pub mod peer;
pub mod process;
pub mod roofline;
pub mod sampling;
pub mod train;
