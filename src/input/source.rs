//! A buffered reader that looks ahead and knows how far it is.

use std::io::{BufRead, ErrorKind, Read, Result};

const BUFFER: usize = 1 << 17;

/// Reads through a buffer.
pub struct Source<R> {
    reader: R,
    buffer: Vec<u8>,
    /// The bytes of `buffer` that were read and not yet taken.
    from: usize,
    to: usize,
    /// Bytes taken so far.
    offset: u64,
}

impl<R: Read> Source<R> {
    /// At the start of `reader`.
    pub fn new(reader: R) -> Source<R> {
        Source { reader, buffer: vec![0; BUFFER], from: 0, to: 0, offset: 0 }
    }

    /// Bytes taken so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next `count` bytes (at most the buffer's 128 KiB), or fewer at the end; they stay to be read.
    ///
    /// # Errors
    /// Those of the reader.
    pub fn peek(&mut self, count: usize) -> Result<&[u8]> {
        let count = count.min(self.buffer.len());
        if self.buffer.len() - self.from < count {
            self.buffer.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        while self.to - self.from < count {
            match self.reader.read(&mut self.buffer[self.to..]) {
                Ok(0) => break,
                Ok(read) => self.to += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(&self.buffer[self.from..self.to.min(self.from + count)])
    }
}

impl<R: Read> BufRead for Source<R> {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
            self.peek(1)?;
        }
        Ok(&self.buffer[self.from..self.to])
    }

    fn consume(&mut self, count: usize) {
        let count = count.min(self.to - self.from);
        self.from += count;
        self.offset += count as u64;
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_were_looked_at_are_read_later() {
        let bytes: Vec<u8> = (0..3 * BUFFER).map(|at| at as u8).collect();
        let mut source = Source::new(&bytes[..]);
        let mut read = Vec::new();
        while source.peek(1).unwrap() != [] as [u8; 0] {
            // Across the end of the buffer as well.
            let ahead = source.peek(1000).unwrap().to_vec();
            let at = source.offset() as usize;
            assert_eq!(ahead, bytes[at..bytes.len().min(at + 1000)]);
            let mut some = [0; 700];
            let count = source.read(&mut some).unwrap();
            read.extend_from_slice(&some[..count]);
        }
        assert!(read == bytes);
        assert_eq!(source.offset(), bytes.len() as u64);
    }
}
