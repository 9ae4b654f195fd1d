//! Training: one loop for every task.

pub mod adam;
pub mod attention_log;
pub mod checkpoint;
pub mod device;
pub mod driver;
pub mod environment;
pub mod interrupt;
pub mod libtorch;
pub mod log;
pub mod memory;
pub mod outcome;
pub mod parameters;
pub mod progress;
pub mod results_csv;
pub mod schedule;
pub mod side_text;
pub mod standing;
pub mod step;
pub mod tensorboard;
pub mod threads;
pub mod trainer;
pub mod watch;
