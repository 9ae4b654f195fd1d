//! What a file is, by its first bytes.

use super::unpack::Packing;
use std::path::Path;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text in UTF-8, as far as its beginning shows.
    Text,
    /// Compressed in a way that is read.
    Packed(Packing),
    /// Not read.
    Other(Other),
}

/// A kind of file that is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Other {
    /// Text in another encoding.
    Text(Encoding),
    /// A format with its name, and what turns it into text.
    Format(&'static str, Remedy),
}

/// Encodings of 2 and 4 bytes a unit, by their name for `iconv`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoding(pub &'static str);

/// How a file becomes text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// A command that unpacks files, with the file's name after it.
    Unpack(&'static str),
    /// A command that decompresses to its standard output, with the file's name after it.
    Decompress(&'static str),
    /// Any words.
    Do(&'static str),
}

const CONVERT: Remedy = Remedy::Do("convert it to text or JSON Lines");
const NO_TEXT: Remedy = Remedy::Do("name a file of text");

use Remedy::{Decompress, Do, Unpack};

/// Formats that begin with certain bytes.
const FORMATS: &[(&[u8], &str, Remedy)] = &[
    (b"PK\x03\x04", "a zip archive", Unpack("unzip")),
    (b"PK\x05\x06", "an empty zip archive", Unpack("unzip")),
    (b"PK\x07\x08", "a zip archive in parts", Unpack("unzip")),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", Unpack("7z x")),
    (b"Rar!\x1a\x07", "a rar archive", Unpack("unrar x")),
    (b"xar!\0", "a xar archive", Unpack("xar -xf")),
    (b"!<arch>\n", "an ar archive", Unpack("ar x")),
    (b"MSCF\0\0\0\0", "a cabinet archive", Unpack("cabextract")),
    (b"\xc7\x71", "a cpio archive", Unpack("cpio -idF")),
    (b"\x04\x22\x4d\x18", "lz4 data", Decompress("lz4 -dc")),
    (b"\x02\x21\x4c\x18", "lz4 data (legacy frames)", Decompress("lz4 -dc")),
    (b"\x1f\x9d", "Unix compress data (.Z)", Decompress("gzip -dc")),
    (b"\x1f\xa0", "Unix compress data (LZH)", Decompress("gzip -dc")),
    (b"\x1f\x1e", "Unix pack data (.z)", Decompress("gzip -dc")),
    (b"LZIP\x01", "lzip data", Decompress("lzip -dc")),
    (b"\x5d\0\0", "lzma data", Decompress("xz --format=lzma -dc")),
    (b"\x89LZO\0\r\n\x1a\n", "lzop data", Decompress("lzop -dc")),
    (b"\xff\x06\0\0sNaPpY", "framed Snappy data", Decompress("snzip -dc")),
    (b"ARROW1\0\0", "an Arrow (Feather) file", CONVERT),
    (b"FEA1\0", "a Feather file", CONVERT),
    (b"\xff\xff\xff\xff", "an Arrow stream", CONVERT),
    (b"Obj\x01", "an Avro file", CONVERT),
    (b"SQLite format 3\0", "an SQLite database", CONVERT),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", CONVERT),
    (b"CDF\x01", "a NetCDF file", CONVERT),
    (b"CDF\x02", "a NetCDF file", CONVERT),
    (b"\x93NUMPY", "a NumPy array", CONVERT),
    (b"\x80\x02", "a Python pickle", CONVERT),
    (b"\x80\x03", "a Python pickle", CONVERT),
    (b"\x80\x04\x95", "a Python pickle", CONVERT),
    (b"\x80\x05\x95", "a Python pickle", CONVERT),
    (b"%PDF-", "a PDF document", CONVERT),
    (b"%!PS-", "a PostScript document", CONVERT),
    (b"{\\rtf", "an RTF document", CONVERT),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a Microsoft Office document", CONVERT),
    (b"\xed\xab\xee\xdb", "an RPM package", NO_TEXT),
    (b"\x7fELF", "a program", NO_TEXT),
    (b"\x89PNG\r\n\x1a\n", "a PNG image", NO_TEXT),
    (b"\xff\xd8\xff", "a JPEG image", NO_TEXT),
    (b"GIF87a", "a GIF image", NO_TEXT),
    (b"GIF89a", "a GIF image", NO_TEXT),
    (b"OggS\0", "Ogg media", NO_TEXT),
    (b"fLaC\0", "FLAC audio", NO_TEXT),
    (b"\xba\x16\x4f\x2f", "a fastText model (.bin)", Do("name the text form, .vec")),
    (
        b"version https://git-lfs.github.com/spec/",
        "a Git LFS pointer, not the file itself",
        Do("`git lfs pull` fetches the file"),
    ),
    (b"/annex/objects/", "a git-annex pointer, not the file itself", Do("`git annex get` fetches the file")),
    (b"\xff\xfe\0\0", "text in UTF-32", Do("`iconv -f UTF-32 -t UTF-8` converts it")),
    (b"\0\0\xfe\xff", "text in UTF-32", Do("`iconv -f UTF-32 -t UTF-8` converts it")),
];

impl Kind {
    /// Of a file that begins with `head`, which should be some kilobytes, or the whole file.
    pub fn of(head: &[u8]) -> Kind {
        if let Some(packing) = Packing::ALL.into_iter().find(|packing| packing.begins(head)) {
            // Text may begin with `BZh1`; bzip2 data has six more bytes that tell it.
            if packing != Packing::Bzip2 || head.len() >= 10 {
                return Kind::Packed(packing);
            }
        }
        // UTF-16's mark is the beginning of UTF-32's, and of nothing else in the list.
        if let Some((_, name, remedy)) = FORMATS.iter().find(|(start, ..)| head.starts_with(start)) {
            return Kind::Other(match *name {
                "text in UTF-32" => Other::Text(Encoding("UTF-32")),
                name => Other::Format(name, *remedy),
            });
        }
        if head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") {
            return Kind::Other(Other::Text(Encoding("UTF-16")));
        }
        // Text may begin with these four letters.
        if head.starts_with(b"PAR1")
            && head.get(4).is_some_and(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace())
        {
            return Kind::Other(Other::Format("a Parquet file", CONVERT));
        }
        if is_tar(head) {
            return Kind::Other(Other::Format("a tar archive", Unpack("tar -xf")));
        }
        if is_cpio(head) {
            return Kind::Other(Other::Format("a cpio archive", Unpack("cpio -idF")));
        }
        if is_tfrecord(head) {
            return Kind::Other(Other::Format("a TFRecord file", CONVERT));
        }
        if let Some(encoding) = wide(head) {
            return Kind::Other(Other::Text(encoding));
        }
        if is_html(head) {
            let remedy = Do("it may be the error page of a download; fetch the file again");
            return Kind::Other(Other::Format("an HTML page", remedy));
        }
        Kind::Text
    }
}

impl Other {
    /// The error of a file of this kind, which was compressed or not.
    pub fn refusal(self, path: &Path, packing: Option<Packing>) -> String {
        let place = path.display();
        let packed = packing.map_or(String::new(), |packing| format!(" in {} compression", packing.name()));
        let first =
            packing.map_or(String::new(), |packing| format!("`{} -dc {place} > FILE` first; then ", packing.name()));
        match self {
            Other::Text(Encoding(name)) => {
                let command = match packing {
                    None => format!("iconv -f {name} -t UTF-8 {place} > FILE"),
                    Some(packing) => format!("{} -dc {place} | iconv -f {name} -t UTF-8 > FILE", packing.name()),
                };
                format!("{place}: text in {name}{packed}, but text is read in UTF-8; `{command}` converts it")
            }
            Other::Format(name, Remedy::Unpack(command)) => {
                // tar decompresses by itself
                let first = if command.starts_with("tar") { "" } else { &first };
                format!(
                    "{place}: {name}{packed}, which is not read; unpack it ({first}`{command} {place}`) and name the files in it"
                )
            }
            Other::Format(name, Remedy::Decompress(command)) => {
                format!(
                    "{place}: {name}{packed}, which is not read; `{command} {place} > FILE` decompresses it (gzip, bzip2, xz and \
                     zstd are read as they are)"
                )
            }
            Other::Format(name, Remedy::Do(words)) => format!("{place}: {name}{packed}, which is not read; {words}"),
        }
    }
}

/// POSIX and GNU archives have a magic word; older ones are told by the checksum of their first header.
fn is_tar(head: &[u8]) -> bool {
    let Some(header) = head.get(..512) else { return false };
    if &header[257..262] == b"ustar" {
        return true;
    }
    let field = &header[148..156];
    let digits: Vec<u8> = field.iter().copied().filter(|byte| !matches!(byte, b' ' | b'\0')).collect();
    let stored = std::str::from_utf8(&digits).ok().and_then(|digits| u64::from_str_radix(digits, 8).ok());
    // The field itself counts as blanks.
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    let blanks = field.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    header[0] != 0 && stored == Some(sum - blanks + 8 * u64::from(b' '))
}

/// The two forms of cpio that are written in digits.
fn is_cpio(head: &[u8]) -> bool {
    let digits = |length: usize, radix: u32| {
        head.get(6..length).is_some_and(|digits| digits.iter().all(|byte| char::from(*byte).is_digit(radix)))
    };
    match head.get(..6) {
        Some(b"070701" | b"070702") => digits(110, 16),
        Some(b"070707") => digits(76, 8),
        _ => false,
    }
}

/// TensorFlow's records begin with a length and its masked checksum.
fn is_tfrecord(head: &[u8]) -> bool {
    let Some((length, rest)) = head.split_at_checked(8) else { return false };
    let sum = crc32c::crc32c(length);
    let masked = sum.rotate_right(15).wrapping_add(0xa282_ead8);
    rest.starts_with(&masked.to_le_bytes())
}

/// UTF-16 and UTF-32 without a mark: every second byte, or three of four, are nearly always zero in text of most scripts.
fn wide(head: &[u8]) -> Option<Encoding> {
    let head = &head[..head.len().min(4096) & !3];
    if head.len() < 8 {
        return None;
    }
    let mut zeros = [0; 4];
    head.iter().enumerate().filter(|(_, byte)| **byte == 0).for_each(|(at, _)| zeros[at % 4] += 1);
    let units = head.len() / 4;
    let many = zeros.map(|count| count >= units - units / 4);
    let few = zeros.map(|count| count <= units / 20);
    match (many, few) {
        ([_, true, true, true], [true, ..]) => Some(Encoding("UTF-32LE")),
        ([true, true, true, _], [.., true]) => Some(Encoding("UTF-32BE")),
        ([_, true, _, true], [true, _, true, _]) => Some(Encoding("UTF-16LE")),
        ([true, _, true, _], [_, true, _, true]) => Some(Encoding("UTF-16BE")),
        _ => None,
    }
}

fn is_html(head: &[u8]) -> bool {
    let text = head.trim_ascii_start();
    let text = text.strip_prefix(super::MARK).unwrap_or(text).trim_ascii_start();
    [&b"<!doctype html"[..], b"<html>", b"<html "]
        .iter()
        .any(|start| text.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start)))
}
