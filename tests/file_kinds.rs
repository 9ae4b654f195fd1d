//! What a file is, its content says: archives, compression, other encodings and markup are read rightly or refused by name.
//!
//! The compressed bytes were made with gzip 1.12, bzip2 1.0.8, xz 5.4, zstd 1.5 and lz4 1.9 from the text [`TEXT`].

use std::path::{Path, PathBuf};
use std::sync::Once;
use synthesizer::data::lines::Lines;
use synthesizer::data::{load, Corpus, Examples};
use synthesizer::experiment::config::{CorpusKind, DataConfig, TaskKind};
use synthesizer::experiment::defaults;

const TEXT: &str = "A tree.\nA house.\n";
const GZIP: &str = "1f8b0808cfdf0d6b00037400735428294a4dd5e37254c8c82f2d06320036e9e67f11000000";
const BZIP2: &str = "425a68393141592653592526d207000003d58000104001200002409e00200021a1a0d0201a69a201120874af378f78bb\
                     9229c2848129369038";
const XZ: &str = "fd377a585a000004e6d6b4460200210116000000742fe5a30100104120747265652e0a4120686f7573652e0a00000000b10b\
                  0a74c6b1b87700012911320a700e1fb6f37d010000000004595a";
const ZSTD: &str = "28b52ffd24118900004120747265652e0a4120686f7573652e0a887cb6e5";
const LZ4: &str = "04224d186440a7110000804120747265652e0a4120686f7573652e0a0000000020865728";
const LZMA: &str = "5d00008000ffffffffffffffff0020880a872351f9f9a84ee11177a47685db5742cf27fffd19f000";
const EMPTY: [&str; 4] = [
    "1f8b08000000000000030300000000000000000000",
    "425a683917724538509000000000",
    "fd377a585a000004e6d6b446000000001cdf44211fb6f37d010000000004595a",
    "28b52ffd240001000099e9d851",
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap()).collect()
}

fn packings() -> [(&'static str, Vec<u8>); 4] {
    [("gzip", GZIP), ("bzip2", BZIP2), ("xz", XZ), ("zstd", ZSTD)].map(|(name, hex)| (name, bytes(hex)))
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        static CACHE: Once = Once::new();
        CACHE.call_once(|| {
            let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("file_kinds_cache");
            let _ = std::fs::remove_dir_all(&cache);
            std::env::set_var("SYNTHESIZER_CACHE", cache);
        });
        Place(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// The lines of a file.
    fn read(&self, name: &str, bytes: impl AsRef<[u8]>) -> Result<Vec<String>, String> {
        let path = self.write(name, bytes);
        let read = || {
            let lines = Lines::open(&path)?;
            (0..lines.len()).map(|number| lines.line(number)).collect::<anyhow::Result<Vec<String>>>()
        };
        let folder = format!("{}/", self.0.path().display());
        read().map_err(|error| format!("{error:#}").replace(&folder, ""))
    }

    fn refused(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        self.read(name, bytes).unwrap_err()
    }
}

fn text(path: &[PathBuf], task: TaskKind) -> anyhow::Result<Corpus> {
    let files = vec![path.to_vec()];
    let languages = if task == TaskKind::Translation { ("en", "de") } else { ("", "") };
    load(
        &DataConfig {
            corpus: CorpusKind::Text,
            source: languages.0.into(),
            target: languages.1.into(),
            train: files.clone(),
            dev: files.clone(),
            test: files,
            ..defaults::data(task)
        },
        task,
    )
}

fn column(rows: &dyn Examples, column: usize) -> Vec<String> {
    (0..rows.len()).map(|row| rows.text(row, column).unwrap().into_owned()).collect()
}

#[test]
fn compressed_files_are_read_whatever_their_names() {
    let place = Place::new();
    for (packing, bytes) in packings() {
        for name in ["x", "x.en", "x.GZ", "x.gz", "x.tar.gz", "x.bz2"] {
            assert_eq!(place.read(name, &bytes).unwrap(), ["A tree.", "A house."], "{packing} as {name}");
        }
    }
    assert_eq!(place.read("plain.gz", TEXT).unwrap(), ["A tree.", "A house."]);
    assert_eq!(place.read("empty.gz", "").unwrap(), [""; 0]);
    for hex in EMPTY {
        assert_eq!(place.read("empty", bytes(hex)), Ok(vec![]), "{hex}");
    }
}

#[test]
fn members_follow_one_another_and_zeros_pad_them() {
    let place = Place::new();
    for ((packing, member), empty) in packings().into_iter().zip(EMPTY.map(bytes)) {
        let lines = |parts: &[&[u8]]| place.read("x", parts.concat()).unwrap().len();
        assert_eq!(lines(&[&member, &member, &member]), 6, "{packing}");
        assert_eq!(lines(&[&member, &[0; 512]]), 2, "{packing}");
        assert_eq!(lines(&[&member, &[0; 300_000]]), 2, "{packing}");
        assert_eq!(lines(&[&empty, &member, &empty]), 2, "{packing}");
        assert_eq!(lines(&[&member, &[0; 64], &member]), 4, "{packing}");
    }
    // Frames without data, as parallel zstd writes them first.
    let frame = bytes("502a4d1804000000deadbeef");
    assert_eq!(place.read("x", [&frame[..], &bytes(ZSTD), &frame.repeat(100_000)].concat()).unwrap().len(), 2);
    let cut = place.refused("x", [&bytes(ZSTD)[..], &frame[..10]].concat());
    assert!(cut.contains("the zstd data is cut short"), "{cut}");
}

#[test]
fn cut_and_damaged_files_are_refused_with_the_place() {
    let place = Place::new();
    for (packing, member) in packings() {
        let size = member.len();
        for cut in 11..size {
            let error = place.refused("cut", &member[..cut]);
            let expected = format!(
                "cut: the {packing} data is cut short or damaged: the file ends at byte {cut}, within a member"
            );
            assert_eq!(error, expected);
        }
        let error = place.refused("garbage", [&member[..], b"garbage"].concat());
        assert_eq!(
            error,
            format!("garbage: the bytes from byte {size} on are not {packing} data; is the file damaged?")
        );
        let error = place.refused("garbage", [&member[..], &[0, 0], b"garbage"].concat());
        assert!(error.contains(&format!("from byte {} on", size + 2)), "{error}");
        // A wrong checksum: the last bytes hold one, or the one before them.
        let place_of_checksum = if packing == "xz" { size - 36 } else { size - 6 };
        let mut wrong = member.clone();
        wrong[place_of_checksum] ^= 1;
        let error = place.refused("wrong", wrong);
        assert!(error.contains(&format!("{packing} data is damaged before byte ")), "{packing}: {error}");
    }
    // Whatever is damaged, there is an error or the text, and no panic.
    for (packing, member) in packings() {
        for at in 6..member.len() {
            for bit in [1, 16, 128] {
                let mut wrong = member.clone();
                wrong[at] ^= bit;
                if let Ok(lines) = place.read("wrong", wrong) {
                    assert_eq!(lines, ["A tree.", "A house."], "{packing}, byte {at}, bit {bit}");
                }
            }
        }
    }
}

fn tar(name: &str) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_path(name).unwrap();
    header.set_size(TEXT.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    let mut builder = tar::Builder::new(Vec::new());
    builder.append(&header, TEXT.as_bytes()).unwrap();
    builder.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

/// `text` with these bytes before it.
fn after(start: &[u8]) -> Vec<u8> {
    [start, &b" text\n".repeat(200)].concat()
}

#[test]
fn archives_and_other_formats_are_refused_by_name() {
    let place = Place::new();
    let mut v7 = tar("corpus.en");
    v7[257..265].fill(0);
    let sum: u32 = v7[..512]
        .iter()
        .enumerate()
        .map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) })
        .sum();
    v7[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let record = [&5u64.to_le_bytes()[..], &masked(&5u64.to_le_bytes()).to_le_bytes(), b"texts"].concat();
    let cpio = [&b"070701"[..], &b"0".repeat(104), b"corpus.en\0"].concat();
    let tars =
        [("x.tar", tar("corpus.en")), ("x", v7), ("x.tar.gz", gzip(&tar("corpus.en"))), ("x.en", gzip(&tar("a")))];
    for (name, bytes) in tars {
        let error = place.refused(name, bytes);
        assert!(error.starts_with(&format!("{name}: a tar archive")) && error.contains("`tar -xf "), "{error}");
    }
    for (bytes, name, remedy) in [
        (after(b"PK\x03\x04"), "a zip archive", "`unzip "),
        (after(b"PK\x05\x06"), "an empty zip archive", "`unzip "),
        (after(b"7z\xbc\xaf\x27\x1c"), "a 7z archive", "`7z x "),
        (after(b"Rar!\x1a\x07\x01\0"), "a rar archive", "`unrar x "),
        (cpio, "a cpio archive", "`cpio "),
        (bytes(LZ4), "lz4 data", "`lz4 -dc "),
        (bytes(LZMA), "lzma data", "`xz --format=lzma -dc "),
        (after(b"LZIP\x01\x0c"), "lzip data", "`lzip -dc "),
        (after(b"\x1f\x9d\x90"), "Unix compress data (.Z)", "`gzip -dc "),
        (after(b"PAR1\x15\x04"), "a Parquet file", "convert it"),
        (after(b"ARROW1\0\0"), "an Arrow (Feather) file", "convert it"),
        (after(b"\xff\xff\xff\xff\x10"), "an Arrow stream", "convert it"),
        (after(b"SQLite format 3\0"), "an SQLite database", "convert it"),
        (after(b"\x89HDF\r\n\x1a\n"), "an HDF5 file", "convert it"),
        (after(b"\x93NUMPY\x01"), "a NumPy array", "convert it"),
        (after(b"\x80\x04\x95"), "a Python pickle", "convert it"),
        (after(b"%PDF-1.7\n"), "a PDF document", "convert it"),
        (record, "a TFRecord file", "convert it"),
        (after(b"version https://git-lfs.github.com/spec/v1\n"), "a Git LFS pointer", "`git lfs pull`"),
        (after(b"\n<!DOCTYPE HTML>"), "an HTML page", "fetch the file again"),
    ] {
        let error = place.refused("x", &bytes);
        assert!(error.starts_with(&format!("x: {name}")) && error.contains(remedy), "{name}: {error}");
        let error = place.refused("x.gz", gzip(&bytes));
        assert!(error.contains(name) && error.contains("in gzip compression"), "{name}: {error}");
    }
    let twice = place.refused("x.gz", gzip(&gzip(TEXT.as_bytes())));
    assert!(twice.contains("gzip inside gzip; only one layer of compression is read"), "{twice}");
    // Text that begins like a format.
    for text in
        ["PARENTS\n", "PAR1 is a name\n", "BZh1 is a name of six letters\n", "GIF\n", "7z x a\n", "ustar\n", "070701\n"]
    {
        assert_eq!(place.read("x", text).unwrap(), [text.trim()]);
    }
}

/// As TensorFlow masks a checksum (`crc32c` is the program's own dependency).
fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[test]
fn wide_encodings_are_refused_by_name() {
    let place = Place::new();
    let text = "\u{feff}The red lamp is on.\nThe ö is here.\n";
    let utf16: Vec<u16> = text.encode_utf16().collect();
    let utf32: Vec<u32> = text.chars().map(u32::from).collect();
    let encodings = [
        ("UTF-16", "UTF-16LE", utf16.iter().flat_map(|unit| unit.to_le_bytes()).collect::<Vec<u8>>()),
        ("UTF-16", "UTF-16BE", utf16.iter().flat_map(|unit| unit.to_be_bytes()).collect()),
        ("UTF-32", "UTF-32LE", utf32.iter().flat_map(|unit| unit.to_le_bytes()).collect()),
        ("UTF-32", "UTF-32BE", utf32.iter().flat_map(|unit| unit.to_be_bytes()).collect()),
    ];
    for (with_mark, without, bytes) in encodings {
        let error = place.refused("x.en", &bytes);
        assert!(error.starts_with(&format!("x.en: text in {with_mark}, but")), "{error}");
        assert!(error.contains(&format!("`iconv -f {with_mark} -t UTF-8 ")), "{error}");
        let mark = if with_mark == "UTF-32" { 4 } else { 2 };
        let error = place.refused("x.en", &bytes[mark..]);
        assert!(error.starts_with(&format!("x.en: text in {without}, but")), "{error}");
        let error = place.refused("x.en.gz", gzip(&bytes));
        assert!(error.contains(&format!("text in {with_mark} in gzip compression")), "{error}");
    }
}

#[test]
fn nul_bytes_and_other_encodings_are_refused_with_the_line() {
    let place = Place::new();
    let error = place.refused("x.en", "one\ntwo\nth\0ree\n");
    assert!(error.starts_with("x.en, line 3: a NUL byte (byte 10 of the text, from 0)"), "{error}");
    // Beyond the first buffer, compressed.
    let far = "0123456\n".repeat(300_000) + "\0\n";
    let error = place.refused("x.gz", gzip(far.as_bytes()));
    assert!(error.starts_with("x.gz, line 300001: a NUL byte (byte 2400000 "), "{error}");
    let error = place.refused("x.de", b"one\nSch\xf6n\n");
    assert!(error.starts_with("x.de, line 2: invalid UTF-8") && error.contains("iconv"), "{error}");
}

#[test]
fn what_is_no_regular_file_is_told() {
    let place = Place::new();
    let at = |name: &str| place.0.path().join(name);
    std::os::unix::fs::symlink(at("nowhere"), at("link")).unwrap();
    let error = Lines::open(&at("link")).unwrap_err().to_string();
    assert!(error.contains("link is a link to ") && error.ends_with("nowhere, which is not there"), "{error}");
    let error = Lines::open(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(error.starts_with("/dev/zero is a pipe or a device"), "{error}");
    let pipe = std::ffi::CString::new(at("pipe").to_str().unwrap()).unwrap();
    // SAFETY: the path is a NUL-terminated string that lives through the call.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    let error = Lines::open(&at("pipe")).unwrap_err().to_string();
    assert!(error.contains("pipe is a pipe or a device"), "{error}");
}

#[test]
fn byte_order_marks_at_the_start_of_lines_are_not_read() {
    let place = Place::new();
    let marked = "\u{feff}one\r\ntw\u{feff}o\n";
    let path = place.write("x", marked.repeat(3) + "\u{feff}");
    let corpus = text(&[path], TaskKind::LanguageModelling).unwrap();
    // Within a line U+FEFF is a zero-width no-break space.
    assert_eq!(column(corpus.train.as_ref(), 0), ["one", "tw\u{feff}o"].repeat(3));
    let note = corpus.notes.iter().find(|note| note.contains("byte-order mark")).expect("a note");
    assert!(note.contains("/x: 3 lines after the first began with a byte-order mark"), "{note}");
    let single = text(&[place.write("y", marked)], TaskKind::LanguageModelling).unwrap();
    assert!(!single.notes.iter().any(|note| note.contains("byte-order")), "{:?}", single.notes);

    // Marks that lie across the ends of the reading buffer.
    for shift in 0..4 {
        let first = "x".repeat((1 << 20) - 1 - shift);
        let path = place.write("long", format!("{first}\n\u{feff}b\n\u{feff}c"));
        let lines = Lines::open(&path).unwrap();
        assert_eq!((lines.len(), lines.line(1).unwrap().as_str(), lines.line(2).unwrap().as_str()), (3, "b", "c"));
        assert!(lines.note().unwrap().contains("2 lines"), "{shift}");
    }
}

#[test]
fn documents_are_told_by_content_and_paired_by_ids() {
    let place = Place::new();
    let set = |kind: &str, documents: &[(&str, &[(&str, &str)])]| {
        let segments = |segments: &[(&str, &str)]| -> String {
            segments.iter().map(|(id, text)| format!("<seg id=\"{id}\">{text}</seg>\n")).collect()
        };
        let documents: String =
            documents.iter().map(|(name, all)| format!("<doc docid=\"{name}\">\n{}</doc>\n", segments(all))).collect();
        format!("<{kind} setid=\"t\">\n{documents}</{kind}>\n")
    };
    let source = set("srcset", &[("a", &[("1", "a one"), ("2", "a two")]), ("b", &[("1", "b one")])]);
    let target = set("refset", &[("b", &[("1", "b eins")]), ("a", &[("2", "a zwei"), ("1", "a eins")])]);
    let files = |source: &str, target: &str| [place.write("s.txt", source), place.write("t", gzip(target.as_bytes()))];
    let corpus = text(&files(&source, &target), TaskKind::Translation).unwrap();
    assert_eq!(column(corpus.test.as_ref(), 0), ["a one", "a two", "b one"]);
    assert_eq!(column(corpus.test.as_ref(), 1), ["a eins", "a zwei", "b eins"]);

    let other = set("refset", &[("a", &[("1", "a eins"), ("3", "a drei")]), ("c", &[("1", "c eins")])]);
    let error = format!("{:#}", text(&files(&source, &other), TaskKind::Translation).unwrap_err());
    assert!(
        error.contains("only ")
            && error.contains("s.txt has of document \"a\" segment \"2\", document \"b\" (all 1 segments)"),
        "{error}"
    );
    assert!(error.contains("/t has of document \"a\" segment \"3\", document \"c\" (all 1 segments)"), "{error}");

    // With a plain file, in order.
    let corpus = text(&files(&source, "eins\nzwei\ndrei\n"), TaskKind::Translation).unwrap();
    assert_eq!(column(corpus.test.as_ref(), 1), ["eins", "zwei", "drei"]);
    assert!(corpus.notes.iter().any(|note| note.contains("s.txt has segments, ") && note.contains("paired in order")));
    let error = format!("{:#}", text(&files(&source, "eins\n"), TaskKind::Translation).unwrap_err());
    assert!(error.contains("s.txt has 3 segments, but ") && error.contains("/t has 1 lines"), "{error}");
}

#[test]
fn training_files_of_iwslt_are_read_without_their_tags() {
    let place = Place::new();
    let talk = |id: &str, lines: &str| {
        format!(
            "<url>http://x/{id}</url>\n<talkid>{id}</talkid>\n<title>T</title>\n<description>D</description>\n{lines}"
        )
    };
    let source = place.write("train.tags.en-de.en", talk("1", " One .\n Two .\n") + &talk("2", "Three .\n"));
    let target = place.write("y", talk("2", "Drei .\n") + &talk("1", " Eins .\n Zwei .\n<translator>X</translator>\n"));
    let corpus = text(&[source.clone(), target], TaskKind::Translation).unwrap();
    assert_eq!(column(corpus.train.as_ref(), 0), ["One .", "Two .", "Three ."]);
    assert_eq!(column(corpus.train.as_ref(), 1), ["Eins .", "Zwei .", "Drei ."]);
    let short = place.write("z", talk("1", "Eins .\n") + &talk("2", "Drei .\n"));
    let error = format!("{:#}", text(&[source, short], TaskKind::Translation).unwrap_err());
    assert!(error.contains("has of document \"1\" segment \"2\""), "{error}");
}

#[test]
fn wmt_xml_is_source_and_target_in_one_file() {
    let place = Place::new();
    let xml = "<?xml version='1.0' encoding='utf-8'?>\n<dataset id=\"t\">\n<doc origlang=\"en\" id=\"d\">\n\
               <src lang=\"en\">\n<p>\n<seg id=\"1\">Q&amp;A</seg>\n</p>\n</src>\n\
               <ref lang=\"de\" translator=\"A\">\n<p>\n<seg id=\"1\">F&amp;A</seg>\n</p>\n</ref>\n</doc>\n</dataset>\n";
    let path = place.write("newstest2021.en-de", xml);
    let corpus = text(&[path.clone(), path], TaskKind::Translation).unwrap();
    assert_eq!(
        (column(corpus.test.as_ref(), 0), column(corpus.test.as_ref(), 1)),
        (vec!["Q&A".into()], vec!["F&A".into()])
    );
    let tmx = place.write("x.tmx", "<?xml version=\"1.0\"?>\n<tmx version=\"1.4\"><body/></tmx>\n");
    let error = format!("{:#}", text(&[tmx], TaskKind::LanguageModelling).unwrap_err());
    assert!(error.contains("x.tmx: a translation memory (TMX), which is not read"), "{error}");
    // A mention of a tag makes no document.
    let plain = place.write("plain.xml.txt", "The tag <seg id=\"1\">a</seg> is one.\n<seg id=\"2\">b</seg>\n");
    let corpus = text(&[plain], TaskKind::LanguageModelling).unwrap();
    assert_eq!(column(corpus.test.as_ref(), 0), ["The tag <seg id=\"1\">a</seg> is one.", "<seg id=\"2\">b</seg>"]);
}
