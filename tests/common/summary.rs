//! Counts of a long trial, as CSV and Markdown.
#![allow(dead_code)] // each test file uses its part

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// A number from the environment.
pub fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// Cases of one kind.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub ok: u64,
    pub failed: u64,
    pub skipped: u64,
}

/// What was tried, and where.
pub struct Summary {
    pub title: &'static str,
    pub command: &'static str,
    pub seed: u64,
    pub seconds: u64,
}

impl Summary {
    /// Writes the counts to the CSV that an environment variable names, and to a Markdown file beside it; nothing without
    /// the variable.
    pub fn write(&self, variable: &str, tallies: &BTreeMap<&str, Tally>) {
        let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) else { return };
        let path = Path::new(&path);
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let output = |program: &str, arguments: &[&str]| -> String {
            let output = Command::new(program).args(arguments).current_dir(root).output();
            output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string()).unwrap_or_default()
        };
        let version = output(env!("CARGO_BIN_EXE_synthesizer"), &["--version"]);
        let commit = output("git", &["rev-parse", "--short=12", "HEAD"]);
        let clean = output("git", &["status", "--porcelain", "--untracked-files=no"]).is_empty();
        let state = if clean { "clean" } else { "modified" };
        let date = output("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]);
        let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = about.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == "model name");
        let cpu = cpu.map_or(std::env::consts::ARCH.to_string(), |(_, name)| name.trim().to_string());
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let machine = format!("{cpu}, {cores} cores");

        let mut writer = csv::Writer::from_writer(Vec::new());
        let columns = [
            "kind",
            "cases",
            "ok",
            "failed",
            "skipped",
            "seed",
            "version",
            "git_commit",
            "git_state",
            "finished",
            "cpu",
        ];
        writer.write_record(columns).unwrap();
        let mut rows = String::new();
        let mut all = Tally::default();
        for (kind, tally) in tallies {
            let Tally { ok, failed, skipped } = *tally;
            let counts = [ok + failed + skipped, ok, failed, skipped].map(|count| count.to_string());
            let facts = [&self.seed.to_string(), &version, &commit, state, &date, &machine];
            writer.write_record([*kind].into_iter().chain(counts.iter().map(|c| &**c)).chain(facts)).unwrap();
            rows.push_str(&format!("| {kind} | {} |\n", counts.join(" | ")));
            all = Tally { ok: all.ok + ok, failed: all.failed + failed, skipped: all.skipped + skipped };
        }
        let cases = all.ok + all.failed + all.skipped;
        let text = format!(
            "# {}\n\n{cases} cases: {} ended as promised, {} did not, {} were skipped.\n\n\
             | kind | cases | ok | failed | skipped |\n|---|---:|---:|---:|---:|\n{rows}\n\
             `{}`, seed {}, {} min; {version}; commit {commit} ({state}); {date}; {machine}.\n",
            self.title,
            all.ok,
            all.failed,
            all.skipped,
            self.command,
            self.seed,
            self.seconds.div_ceil(60),
        );
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(path, writer.into_inner().unwrap()).unwrap();
        std::fs::write(path.with_extension("md"), text).unwrap();
    }
}
