//! A reproduction harness for "Synthesizer: Rethinking Self-Attention for Transformer Models" (Tay et al., arXiv 2005.00743).
//!
//! Imports run downwards only: [`cli`] reads everything; [`report`] reads result files; [`train`] drives a [`task`];
//! a task joins [`data`], a [`model`], a [`decode`] search and [`metric`]s; models are built on [`attention`],
//! which has kernels in [`native`].
//! [`experiment`] is plain data; [`mod@bench`] measures the attention layer; [`mod@verify`] checks results that are there.

pub mod attention;
pub mod bench;
pub mod checksum;
pub mod cli;
pub mod data;
pub mod decode;
pub mod error;
pub mod excerpt;
pub mod experiment;
pub mod files;
pub mod input;
pub mod interrupt;
pub mod machine;
pub mod metric;
pub mod model;
pub mod native;
pub mod origin;
pub mod out_of_memory;
pub mod regular;
pub mod report;
pub mod sealed;
pub mod task;
pub mod terminal;
pub mod train;
pub mod verify;
