//! TensorBoard event files: the numbers of the log, for those who watch runs there.
//!
//! A file is a row of TFRecords (length, its masked CRC-32C, bytes, their masked CRC-32C), each an `Event` message of
//! TensorFlow's event.proto; only the fields needed here are written.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// An event file. Training can do without it, so an error ends the events alone: [`Events::take_error`].
#[derive(Debug)]
pub struct Events {
    path: PathBuf,
    file: Option<File>,
    error: Option<anyhow::Error>,
}

impl Events {
    /// A new file in `folder`. TensorBoard then forgets what earlier files there say of steps after `step`, because a resumed
    /// run takes those steps again. Earlier files are not checked: nothing is read from them.
    pub fn create(folder: &Path, step: u64) -> Self {
        let path = folder.join(format!("events.out.tfevents.{}.{}", now() as u64, std::process::id()));
        let (file, error) = match File::create(&path) {
            Ok(file) => (Some(file), None),
            Err(error) => {
                let error = anyhow::Error::from(error);
                (None, Some(error.context(format!("{}: cannot make this file", path.display()))))
            }
        };
        let mut events = Self { path, file, error };
        events.write(&event(now(), 0, &string_field(3, "brain.Event:2")));
        // SessionLog { status: START }
        events.write(&event(now(), step + 1, &message_field(7, &varint_field(1, 1))));
        events
    }

    /// One number at a step.
    pub fn scalar(&mut self, step: u64, tag: &str, value: f64) {
        self.write(&event(now(), step, &scalar_summary(tag, value as f32)));
    }

    /// Why events are not written any more; told once.
    pub fn take_error(&mut self) -> Option<anyhow::Error> {
        self.error.take()
    }

    fn write(&mut self, bytes: &[u8]) {
        let Some(file) = &mut self.file else { return };
        if let Err(error) = file.write_all(&record(bytes)) {
            self.error = Some(anyhow::Error::from(error).context(format!("{}: cannot write", self.path.display())));
            self.file = None;
        }
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// Event { wall_time = 1, step = 2 } and one more field, given as bytes.
fn event(wall_time: f64, step: u64, what: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1 << 3 | 1];
    bytes.extend(wall_time.to_le_bytes());
    if step > 0 {
        bytes.extend(varint_field(2, step));
    }
    bytes.extend(what);
    bytes
}

/// Event.summary = 5: Summary { value = 1: Value { tag = 1, simple_value = 2 } }.
fn scalar_summary(tag: &str, value: f32) -> Vec<u8> {
    let mut scalar = string_field(1, tag);
    scalar.push(2 << 3 | 5);
    scalar.extend(value.to_le_bytes());
    message_field(5, &message_field(1, &scalar))
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn varint_field(number: u8, value: u64) -> Vec<u8> {
    [vec![number << 3], varint(value)].concat()
}

fn message_field(number: u8, message: &[u8]) -> Vec<u8> {
    [vec![number << 3 | 2], varint(message.len() as u64), message.to_vec()].concat()
}

fn string_field(number: u8, text: &str) -> Vec<u8> {
    message_field(number, text.as_bytes())
}

fn masked_crc(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

fn record(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    [&length[..], &masked_crc(&length), bytes, &masked_crc(bytes)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes are those that the Python package `tensorboard` (scripts/make_tensorboard_fixture.py) writes.
    #[test]
    fn agrees_with_tensorboard() {
        let expected = include_bytes!("../../tests/fixtures/tensorboard/scalars.tfevents");
        let mut bytes = record(&event(1.5, 0, &string_field(3, "brain.Event:2")));
        bytes.extend(record(&event(2.5, 8, &message_field(7, &varint_field(1, 1)))));
        bytes.extend(record(&event(3.25, 300, &scalar_summary("loss", 0.75))));
        bytes.extend(record(&event(4.0, 301, &scalar_summary("alpha/encoder.0.0.R", -1e-3))));
        assert_eq!(bytes, expected);
    }
}
