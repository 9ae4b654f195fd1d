//! Decompression of gzip, bzip2, xz and zstd.
//!
//! A file may have many members (streams, frames), as `cat a.gz b.gz` and parallel compressors make them. Zero bytes
//! between and after members are padding. Other bytes after the last member, and a member that is cut short, are errors.

use super::source::Source;
use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{BufRead, Error, ErrorKind, Read, Result};

/// Most memory that an xz or zstd file may ask for: 1 GiB, sixteen times that of `xz -9`.
const MEMORY: u32 = 1 << 30;

/// The start of a bzip2 stream after `BZh` and the block size: a block, or the end of an empty stream.
const BZIP2_BLOCKS: [&[u8]; 2] = [b"\x31\x41\x59\x26\x53\x59", b"\x17\x72\x45\x38\x50\x90"];

/// A compression that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// RFC 1952.
    Gzip,
    /// bzip2.
    Bzip2,
    /// xz.
    Xz,
    /// Zstandard.
    Zstd,
}

impl Packing {
    /// All of them.
    pub const ALL: [Packing; 4] = [Packing::Gzip, Packing::Bzip2, Packing::Xz, Packing::Zstd];

    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Packing::Gzip => "gzip",
            Packing::Bzip2 => "bzip2",
            Packing::Xz => "xz",
            Packing::Zstd => "zstd",
        }
    }

    /// The command that decompresses it with `-dc`.
    pub fn command(self) -> &'static str {
        self.name()
    }

    /// Whether a member begins with these bytes (ten of them, or all that there are).
    pub fn begins(self, head: &[u8]) -> bool {
        match self {
            Packing::Gzip => head.starts_with(b"\x1f\x8b"),
            Packing::Bzip2 => {
                head.starts_with(b"BZh")
                    && head.get(3).is_some_and(|level| (b'1'..=b'9').contains(level))
                    && BZIP2_BLOCKS.iter().any(|start| head[4..].starts_with(&start[..start.len().min(head.len() - 4)]))
            }
            Packing::Xz => head.starts_with(b"\xfd7zXZ\0"),
            Packing::Zstd => head.starts_with(b"\x28\xb5\x2f\xfd") || is_skippable(head),
        }
    }
}

/// Whether a zstd frame holds no data.
fn is_skippable(head: &[u8]) -> bool {
    head.len() >= 4 && head[0] & 0xf0 == 0x50 && head[1..4] == [0x2a, 0x4d, 0x18]
}

type File = Source<Box<dyn Read + Send + Sync>>;

/// One member, while it is decompressed.
enum Member {
    Gzip(Box<GzDecoder<File>>),
    Bzip2(Box<BzDecoder<File>>),
    Xz(Box<XzReader<File>>),
    Zstd(File, Box<FrameDecoder>),
}

impl Member {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self {
            Member::Gzip(member) => member.read(buffer),
            Member::Bzip2(member) => member.read(buffer),
            Member::Xz(member) => member.read(buffer),
            Member::Zstd(source, decoder) => read_frame(source, decoder, buffer),
        }
    }

    fn source(&mut self) -> &mut File {
        match self {
            Member::Gzip(member) => member.get_mut(),
            Member::Bzip2(member) => member.get_mut(),
            Member::Xz(member) => member.inner_mut(),
            Member::Zstd(source, _) => source,
        }
    }

    fn into_source(self) -> File {
        match self {
            Member::Gzip(member) => member.into_inner(),
            Member::Bzip2(member) => member.into_inner(),
            Member::Xz(member) => member.into_inner(),
            Member::Zstd(source, _) => source,
        }
    }
}

/// What the rest of a zstd frame gives; nothing at its end, where its checksum is compared.
fn read_frame(source: &mut File, decoder: &mut FrameDecoder, buffer: &mut [u8]) -> Result<usize> {
    while decoder.can_collect() == 0 && !decoder.is_finished() {
        decoder.decode_blocks(&mut *source, BlockDecodingStrategy::UptoBlocks(1)).map_err(Error::other)?;
    }
    let count = decoder.read(buffer)?;
    let checksums = (decoder.get_checksum_from_data(), decoder.get_calculated_checksum());
    match checksums {
        (Some(stored), Some(found)) if count == 0 && stored != found => {
            Err(Error::new(ErrorKind::InvalidData, "the checksum of a frame is wrong"))
        }
        _ => Ok(count),
    }
}

/// Whether a decoder came to the end of the file before that of its data.
fn wants_more(error: &Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<Error>();
        if io.is_some_and(|error| error.kind() == ErrorKind::UnexpectedEof) {
            return true;
        }
        // The source of an error within an `io::Error` is that error's own source.
        cause = match io.and_then(Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    false
}

enum State {
    Between(File),
    In(Member),
    /// At the end, or after an error.
    Done,
}

/// Gives the decompressed bytes of a file. Its errors say what is wrong, and where in the compressed file.
pub struct Unpacked {
    packing: Packing,
    state: State,
}

impl Unpacked {
    /// From the start of `file`.
    pub fn new(file: File, packing: Packing) -> Unpacked {
        Unpacked { packing, state: State::Between(file) }
    }

    fn error(&self, text: String) -> Error {
        Error::new(ErrorKind::InvalidData, text)
    }

    /// What a decoder's error means at the place that `source` has come to.
    fn explained(&self, error: Error, source: &mut File) -> Error {
        let packing = self.packing.name();
        let at = source.offset();
        match source.peek(1) {
            Ok([]) if wants_more(&error) => self.error(format!(
                "the {packing} data is cut short or damaged: the file ends at byte {at}, within a member"
            )),
            Ok(_) => self.error(format!("the {packing} data is damaged before byte {at}: {error}")),
            // The disk's error, not the data's.
            Err(error) => error,
        }
    }

    /// Skips padding and frames without data; the next member, or nothing at the end of the file.
    fn next(&self, mut source: File) -> Result<Option<Member>> {
        let name = self.packing.name();
        loop {
            let some = source.fill_buf()?;
            if some.is_empty() {
                return Ok(None);
            }
            let zeros = some.iter().take_while(|byte| **byte == 0).count();
            if zeros > 0 {
                source.consume(zeros);
                continue;
            }
            let at = source.offset();
            let head = source.peek(10)?;
            if !self.packing.begins(head) {
                return Err(
                    self.error(format!("the bytes from byte {at} on are not {name} data; is the file damaged?"))
                );
            }
            if self.packing != Packing::Zstd || !is_skippable(head) {
                break;
            }
            let mut length = [0; 4];
            length[..head.len().clamp(4, 8) - 4].copy_from_slice(&head[4..head.len().min(8)]);
            let length = 8 + u64::from(u32::from_le_bytes(length));
            if std::io::copy(&mut source.by_ref().take(length), &mut std::io::sink())? < length {
                return Err(self.error(format!("the {name} data is cut short: the file ends within a frame")));
            }
        }
        Ok(Some(match self.packing {
            Packing::Gzip => Member::Gzip(Box::new(GzDecoder::new(source))),
            Packing::Bzip2 => Member::Bzip2(Box::new(BzDecoder::new(source))),
            Packing::Xz => Member::Xz(Box::new(XzReader::new_mem_limit(source, false, MEMORY >> 10))),
            Packing::Zstd => {
                let mut decoder = Box::new(FrameDecoder::new());
                decoder.set_max_window_size(MEMORY.into());
                match decoder.init(&mut source) {
                    Ok(()) => Member::Zstd(source, decoder),
                    Err(error) => return Err(self.explained(Error::other(error), &mut source)),
                }
            }
        }))
    }
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match std::mem::replace(&mut self.state, State::Done) {
                State::Done => return Ok(0),
                State::Between(source) => match self.next(source)? {
                    Some(member) => self.state = State::In(member),
                    None => return Ok(0),
                },
                State::In(mut member) => match member.read(buffer) {
                    Ok(0) => self.state = State::Between(member.into_source()),
                    Ok(count) => {
                        self.state = State::In(member);
                        return Ok(count);
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => self.state = State::In(member),
                    Err(error) => return Err(self.explained(error, member.source())),
                },
            }
        }
    }
}
