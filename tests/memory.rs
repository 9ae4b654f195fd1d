//! Memory of a corpus larger than it may take. Alone in its file: it measures the whole process.

use std::io::Write;
use std::path::Path;
use synthesizer::data::load;
use synthesizer::experiment::config::{CorpusKind, DataConfig, TaskKind};
use synthesizer::experiment::defaults;
use synthesizer::train::memory::peak_above;

#[cfg(target_os = "linux")]
#[test]
fn a_large_file_is_hashed_and_read_in_little_memory() {
    const LINES: usize = 2_000_000;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("large.txt");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    for line in 0..LINES {
        writeln!(file, "{line} is a line of some sixty characters, which is not very long").unwrap();
    }
    file.into_inner().unwrap().sync_all().unwrap();
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(size > 120 << 20, "{size}");
    let files = |path: &Path| vec![vec![path.to_path_buf()]];
    let config = DataConfig {
        corpus: CorpusKind::Text,
        train: files(&path),
        dev: files(&path),
        test: files(&path),
        vocabulary: 300,
        max_tokens: 100,
        ..defaults::data(TaskKind::LanguageModelling)
    };
    let peak = peak_above(|| {
        let corpus = load(&config, TaskKind::LanguageModelling)?;
        assert_eq!(corpus.train.len(), LINES);
        for row in (0..LINES).step_by(97) {
            assert!(corpus.train.text(row, 0)?.starts_with(&format!("{row} is a line")));
        }
        anyhow::Ok(())
    });
    let peak = peak.unwrap().1.expect("Linux tells the peak");
    assert!(peak < 16 << 20, "{peak} bytes for a file of {size}");
}
