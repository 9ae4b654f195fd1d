//! Training: device, loop, optimizer, schedule, checkpoint.

pub mod device;
pub mod libtorch;
