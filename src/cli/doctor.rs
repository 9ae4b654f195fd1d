//! `synthesizer doctor`: what this machine has, and what is wrong.

use crate::data::{cache_folder, catalog, fetch};
use crate::error::Outcome;
use crate::native::device::cuda_version;
use crate::origin;
use crate::train::device::{loaded_file, loaded_version, version_fits, Flavour};
use crate::train::driver::Driver;
use crate::train::libtorch::NEEDED;
use serde::Serialize;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Options of `doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand: exit code 1 if something that is needed is wrong.
pub fn run(args: Args) -> anyhow::Result<()> {
    let report = Report::new();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", report.text());
    }
    match report.problems.len() {
        0 => Ok(()),
        1 => Err(Outcome::Failed("1 thing is wrong, see above".into()).into()),
        count => Err(Outcome::Failed(format!("{count} things are wrong, see above")).into()),
    }
}

#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    git_commit: &'static str,
    git_state: &'static str,
    libtorch: LibTorch,
    devices: Vec<Gpu>,
    driver: Option<Driver>,
    threads: Threads,
    folders: Vec<Folder>,
    corpora: Vec<Corpus>,
    tools: Vec<Tool>,
    /// What stops the program from working.
    problems: Vec<String>,
    /// What is worth knowing, but stops nothing.
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct LibTorch {
    version: String,
    needed: &'static str,
    flavour: String,
    cuda_devices: usize,
    /// Major and minor of the CUDA version that it is built with.
    cuda: Option<(u32, u32)>,
    loaded_from: Option<PathBuf>,
    cudnn: bool,
    mkl: bool,
    openmp: bool,
}

/// A GPU as its driver lists it: LibTorch tells only how many it can use.
#[derive(Debug, Serialize)]
struct Gpu {
    name: String,
    memory: String,
    driver: String,
}

#[derive(Debug, Serialize)]
struct Threads {
    intra_op: i32,
    inter_op: i32,
    cores: usize,
}

#[derive(Debug, Serialize)]
struct Folder {
    name: &'static str,
    path: PathBuf,
    exists: bool,
    writable: bool,
    free_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Corpus {
    name: &'static str,
    state: fetch::State,
    path: PathBuf,
}

#[derive(Debug, Serialize)]
struct Tool {
    name: &'static str,
    version: Option<String>,
}

impl Report {
    fn new() -> Report {
        let flavour = Flavour::loaded();
        let mut report = Report {
            version: origin::VERSION,
            git_commit: origin::GIT_COMMIT,
            git_state: origin::GIT_STATE,
            libtorch: LibTorch {
                version: loaded_version(),
                needed: NEEDED,
                flavour: flavour.to_string(),
                cuda_devices: if let Flavour::Cuda { devices } = flavour { devices } else { 0 },
                cuda: cuda_version(),
                loaded_from: loaded_file("libtorch_cpu.so"),
                cudnn: tch::Cuda::cudnn_is_available(),
                mkl: tch::utils::has_mkl(),
                openmp: tch::utils::has_openmp(),
            },
            devices: gpus(),
            driver: Driver::installed(),
            threads: Threads {
                intra_op: tch::get_num_threads(),
                inter_op: tch::get_num_interop_threads(),
                cores: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            },
            folders: Vec::new(),
            corpora: Vec::new(),
            tools: vec![tool("python3", &["--version"]), tool("pip", &["-m", "pip", "--version"])],
            problems: Vec::new(),
            notes: Vec::new(),
        };
        report.look_at_libtorch(flavour);
        report.look_at_folders();
        report.look_at_corpora();
        report
    }

    fn look_at_libtorch(&mut self, flavour: Flavour) {
        if !version_fits() {
            let found = &self.libtorch.version;
            self.problems.push(format!(
                "LibTorch {found} was loaded, {NEEDED} is needed: unset LD_LIBRARY_PATH, or run `make libtorch build`"
            ));
        }
        let fits = self.driver.as_ref().zip(self.libtorch.cuda);
        let old = fits.and_then(|(driver, needed)| driver.problem(needed));
        if let Some(old) = old {
            self.problems.push(format!("{old}: update the driver; until then all runs are on the CPU"));
            return;
        }
        match flavour {
            Flavour::Cpu if !self.devices.is_empty() => self.notes.push(
                "an NVIDIA GPU is here, but this is the CPU build: `make build DEVICE=cuda` makes the other one".into(),
            ),
            Flavour::Cuda { devices: 0 } => self.notes.push(
                "CUDA build without a device: all runs on the CPU, and --device cuda is an error; if there is a GPU, \
                 check its driver (nvidia-smi) and CUDA_VISIBLE_DEVICES"
                    .into(),
            ),
            _ => {}
        }
    }

    fn look_at_folders(&mut self) {
        let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        match cache_folder() {
            Ok(cache) => self.folders.push(Folder::new("cache", cache)),
            Err(error) => self.problems.push(error.to_string()),
        }
        for name in ["data", "results", "plots"] {
            self.folders.push(Folder::new(name, here.join(name)));
        }
        for folder in self.folders.iter().filter(|folder| !folder.writable) {
            let advice = match folder.name {
                "cache" => "give yourself the right to, or set SYNTHESIZER_CACHE to another folder",
                _ => "give yourself the right to, or work in another folder",
            };
            self.problems.push(format!("{} can't be written to: {advice}", folder.path.display()));
        }
    }

    fn look_at_corpora(&mut self) {
        for entry in catalog::ENTRIES {
            match fetch::state(entry).and_then(|state| Ok((state, fetch::path(entry)?))) {
                Ok((state, path)) => self.corpora.push(Corpus { name: entry.name, state, path }),
                Err(error) => self.problems.push(format!("{error:#}")),
            }
        }
        let in_state = |states: &[fetch::State]| -> Vec<&str> {
            self.corpora.iter().filter(|corpus| states.contains(&corpus.state)).map(|corpus| corpus.name).collect()
        };
        let lacking = in_state(&[fetch::State::Missing, fetch::State::Damaged]);
        if lacking.is_empty() {
            return;
        }
        let (names, damaged) = (lacking.join(" "), in_state(&[fetch::State::Damaged]).join(" "));
        if !damaged.is_empty() {
            self.notes.push(format!("not the files that are needed: {damaged} (`synthesizer data fetch {damaged}`)"));
        }
        match self.tools.iter().find(|tool| tool.version.is_none()) {
            None => self.notes.push(format!("not in the cache: {names} (`synthesizer data fetch {names}`)")),
            Some(tool) => self.problems.push(format!(
                "{} is not there, which the corpora {names} are fetched with: install it, or put their files where \
                 `synthesizer data list` says",
                tool.name
            )),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("synthesizer {}\n\n", super::version());
        let mut line = |name: &str, value: String| text.push_str(&format!("{name:<12}{value}\n"));
        let from = self.libtorch.loaded_from.as_ref().and_then(|file| file.parent());
        line("LibTorch", format!("{} ({})", self.libtorch.version, self.libtorch.flavour));
        line(
            "",
            format!("loaded from {}", from.map_or("an unknown place".into(), |folder| folder.display().to_string())),
        );
        let yes = |has: bool| if has { "yes" } else { "no" };
        line(
            "",
            format!(
                "OpenMP {}, MKL {}, cuDNN {}",
                yes(self.libtorch.openmp),
                yes(self.libtorch.mkl),
                yes(self.libtorch.cudnn)
            ),
        );
        if self.devices.is_empty() {
            line("GPUs", "none that an NVIDIA driver lists".into());
        }
        for (at, gpu) in self.devices.iter().enumerate() {
            let name = if at == 0 { "GPUs" } else { "" };
            line(name, format!("{}, {}, driver {}", gpu.name, gpu.memory, gpu.driver));
        }
        if let Some(driver) = &self.driver {
            let version = driver.version.as_deref().unwrap_or("of an unknown version");
            let runs = driver.cuda.map_or(String::new(), |(major, minor)| format!(", runs CUDA up to {major}.{minor}"));
            let built =
                self.libtorch.cuda.map_or(String::new(), |(major, minor)| format!("; LibTorch has {major}.{minor}"));
            line("driver", format!("{version}{runs}{built}"));
        }
        let Threads { intra_op, inter_op, cores } = self.threads;
        line("threads", format!("{intra_op} in an operation, {inter_op} between operations; {cores} cores"));
        for folder in &self.folders {
            let state = match (folder.exists, folder.writable) {
                (true, true) => "writable",
                (true, false) => "NOT writable",
                (false, true) => "made when needed",
                (false, false) => "is not there and can't be made",
            };
            let free = folder.free_bytes.map_or(String::new(), |bytes| format!(", {:.1} GB free", bytes as f64 / 1e9));
            line(folder.name, format!("{} ({state}{free})", folder.path.display()));
        }
        for (at, corpus) in self.corpora.iter().enumerate() {
            let state = match corpus.state {
                fetch::State::Ready => "in the cache",
                fetch::State::Missing => "not in the cache",
                fetch::State::Damaged => "damaged",
            };
            line(if at == 0 { "corpora" } else { "" }, format!("{}: {state}", corpus.name));
        }
        for tool in &self.tools {
            line(tool.name, tool.version.clone().unwrap_or_else(|| "not there".into()));
        }
        text.push('\n');
        for note in &self.notes {
            text.push_str(&format!("note: {note}\n"));
        }
        for problem in &self.problems {
            text.push_str(&format!("WRONG: {problem}\n"));
        }
        if self.problems.is_empty() {
            text.push_str("nothing is wrong\n");
        }
        text
    }
}

impl Folder {
    fn new(name: &'static str, path: PathBuf) -> Folder {
        let exists = path.is_dir();
        // What is not there is made later, so its nearest parent counts.
        let nearest = path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("."));
        let writable = nearest.is_dir() && is_writable(nearest);
        let free_bytes = free_bytes(nearest);
        Folder { name, path, exists, writable, free_bytes }
    }
}

fn is_writable(folder: &Path) -> bool {
    // A mount that is read-only and a right that is lacking look alike only to an attempt.
    let probe = folder.join(format!(".synthesizer-doctor-{}.tmp", std::process::id()));
    let made = std::fs::OpenOptions::new().write(true).create_new(true).open(&probe).is_ok();
    if made {
        let _ = std::fs::remove_file(&probe);
    }
    made
}

fn free_bytes(folder: &Path) -> Option<u64> {
    let path = CString::new(folder.as_os_str().as_bytes()).ok()?;
    // SAFETY: statvfs is plain numbers, for which zeros are a value; the call gets a valid string and a valid place.
    let (result, found) = unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &mut found), found)
    };
    (result == 0).then(|| found.f_bavail * found.f_frsize)
}

fn tool(name: &'static str, arguments: &[&str]) -> Tool {
    // `pip 23.2.1 from …`, `Python 3.11.7`
    let said = output_of("python3", arguments);
    Tool { name, version: said.and_then(|text| text.split_whitespace().nth(1).map(str::to_string)) }
}

fn gpus() -> Vec<Gpu> {
    let query = ["--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"];
    let text = output_of("nvidia-smi", &query).unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let mut cells = line.split(',').map(|cell| cell.trim().to_string());
            Some(Gpu { name: cells.next()?, memory: cells.next()?, driver: cells.next()? })
        })
        .collect()
}

fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
