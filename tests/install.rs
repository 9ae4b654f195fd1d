//! scripts/libtorch.py with wheels of a few bytes, and the Makefile's checks. Nothing here needs a network.

use sha2::{Digest, Sha256};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const TORCH: &str = "torch-2.11.0-cp312-cp312-manylinux_2_28_x86_64.whl";
const NVIDIA: &str = "nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl";

/// A folder with a cache, a repository to link into, two small wheels of the real names, and their list.
struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { root: tempfile::tempdir().unwrap() };
        for folder in ["cache/downloads", "repository", "index"] {
            fs::create_dir_all(place.path(folder)).unwrap();
        }
        let torch = wheel(
            "torch",
            "2.11.0",
            &[
                ("torch/version.py", "__all__ = ['__version__']\n__version__ = '2.11.0+cu130'\n"),
                ("torch/lib/libtorch.so", "a"),
                ("torch/lib/libtorch_cpu.so", "b"),
                ("torch/lib/libc10.so", "c"),
                ("torch/lib/libtorch_cuda.so", "d"),
                ("torch/lib/libtorch_python.so", "e"),
                ("torch/include/torch/csrc/api/include/torch/torch.h", "f"),
                ("torch/nn/modules/linear.py", "g"),
            ],
        );
        let nvidia = wheel(
            "nvidia-cuda-runtime",
            "13.0.96",
            &[
                ("nvidia/cu13/lib/libcudart.so.13", "h"),
                ("nvidia/cu13/lib/libcupti.so.13", "i"),
                ("nvidia/cu13/lib/libcublas.so.13", "j"),
                ("nvidia/cu13/include/cuda.h", "k"),
            ],
        );
        let list = format!(
            "# a list\ntorch==2.11.0 --hash=sha256:{} # {TORCH}\n\
             nvidia-cuda-runtime==13.0.96 --hash=sha256:{} # {NVIDIA}\n",
            sha256(&torch),
            sha256(&nvidia)
        );
        fs::write(place.path("list.txt"), list).unwrap();
        fs::write(place.path(&format!("index/{TORCH}")), torch).unwrap();
        fs::write(place.path(&format!("index/{NVIDIA}")), nvidia).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn put_by_hand(&self, name: &str) {
        fs::copy(self.path("index").join(name), self.path("cache/downloads").join(name)).unwrap();
    }

    /// The script, with no index to ask and only the `index` folder to find files in, if `online`.
    fn command(&self, online: bool) -> Command {
        let mut command = Command::new("python3");
        command.arg(script()).arg("--repository").arg(self.path("repository")).arg("--lock").arg(self.path("list.txt"));
        command.env_remove("LIBTORCH").env("SYNTHESIZER_CACHE", self.path("cache"));
        command.env("PIP_NO_INDEX", "1").env_remove("PIP_FIND_LINKS").env("PIP_CONFIG_FILE", "/dev/null");
        if online {
            command.env("PIP_FIND_LINKS", self.path("index"));
        }
        command
    }

    fn run(&self, online: bool) -> Output {
        self.command(online).output().unwrap()
    }

    fn folder(&self) -> PathBuf {
        self.path("cache/libtorch/2.11.0-cpu")
    }

    fn link(&self) -> PathBuf {
        self.path("repository/.libtorch")
    }

    /// What is in the cache's libtorch folder, other than the lock.
    fn left(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path("cache/libtorch"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != ".lock")
            .collect();
        names.sort();
        names
    }
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/libtorch.py")
}

fn wheel(name: &str, version: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let info = format!("{}-{version}.dist-info", name.replace('-', "_"));
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
    let tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: py3-none-any\n";
    let own = [
        (format!("{info}/METADATA"), metadata),
        (format!("{info}/WHEEL"), tags.into()),
        (format!("{info}/RECORD"), String::new()),
    ];
    let given = files.iter().map(|(path, text)| (path.to_string(), text.to_string()));
    for (path, text) in given.chain(own) {
        archive.start_file(path, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn fetches_unpacks_links_and_does_nothing_the_second_time() {
    let place = Place::new();
    let first = place.run(true);
    assert!(first.status.success(), "{}", err(&first));
    assert_eq!(fs::read_link(place.link()).unwrap(), place.folder().join("torch"));
    let has = |name: &str| place.folder().join(name).exists();
    assert!(has("torch/lib/libtorch_cpu.so") && has("torch/version.py") && has("nvidia/cu13/lib/libcupti.so.13"));
    for unwanted in
        ["torch/lib/libtorch_cuda.so", "torch/lib/libtorch_python.so", "torch/nn", "nvidia/cu13/lib/libcublas.so.13"]
    {
        assert!(!has(unwanted), "{unwanted}");
    }
    assert_eq!(place.left(), ["2.11.0-cpu"], "no wheel and no temporary folder stays");

    fs::remove_dir_all(place.path("index")).unwrap();
    let second = place.run(false);
    assert!(second.status.success(), "{}", err(&second));
    assert!(!out(&second).contains("fetching") && !out(&second).contains("unpacking"), "{}", out(&second));
}

#[test]
fn without_network_it_names_what_to_put_where_and_takes_it_then() {
    let place = Place::new();
    place.put_by_hand(NVIDIA);
    let offline = place.run(false);
    assert_eq!(offline.status.code(), Some(2));
    let message = err(&offline);
    let torch = sha256(&fs::read(place.path("index").join(TORCH)).unwrap());
    let hand = place.path("cache/downloads");
    for part in ["torch", "2.11.0", TORCH, &torch, hand.to_str().unwrap()] {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
    assert!(!message.contains(NVIDIA), "{message}");
    assert!(!place.link().exists());

    place.put_by_hand(TORCH);
    let output = place.run(false);
    assert!(output.status.success(), "{}", err(&output));
    assert!(place.link().join("lib/libtorch_cpu.so").exists());
    assert!(hand.join(TORCH).exists(), "a file put there by hand is the user's");
}

#[test]
fn wrong_bytes_are_never_unpacked() {
    let place = Place::new();
    place.put_by_hand(NVIDIA);
    fs::write(place.path("cache/downloads").join(TORCH), "cut short").unwrap();
    let by_hand = place.run(true);
    assert_eq!(by_hand.status.code(), Some(2));
    assert!(err(&by_hand).contains(&sha256(b"cut short")), "{}", err(&by_hand));

    let place = Place::new();
    let other = wheel("torch", "2.11.0", &[("torch/lib/libtorch_cpu.so", "other")]);
    fs::write(place.path("index").join(TORCH), other).unwrap();
    let fetched = place.run(true);
    assert_eq!(fetched.status.code(), Some(2));
    assert!(err(&fetched).contains("torch 2.11.0 could not be fetched"), "{}", err(&fetched));
    assert!(!place.folder().exists() && !place.link().exists());
}

#[test]
fn what_a_stopped_call_left_is_cleared_and_what_lacks_a_file_is_replaced() {
    let place = Place::new();
    let root = place.path("cache/libtorch");
    fs::create_dir_all(root.join("2.11.0-cpu.tmp-stopped/torch/lib")).unwrap();
    fs::create_dir_all(root.join("downloads/pip-stopped")).unwrap();
    fs::write(root.join("downloads").join(TORCH), "half of it").unwrap();
    assert!(place.run(true).status.success());
    assert_eq!(place.left(), ["2.11.0-cpu"]);

    fs::remove_file(place.folder().join("nvidia/cu13/lib/libcudart.so.13")).unwrap();
    let again = place.run(true);
    assert!(out(&again).contains("incomplete"), "{}", out(&again));
    assert!(place.folder().join("nvidia/cu13/lib/libcudart.so.13").exists());
}

#[test]
fn two_at_once_both_succeed() {
    let place = Place::new();
    let start = || place.command(true).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let outputs = [start(), start(), start()].map(|child| child.wait_with_output().unwrap());
    for output in &outputs {
        assert!(output.status.success(), "{}", err(output));
    }
    assert_eq!(outputs.iter().filter(|output| out(output).contains("unpacking")).count(), 1);
    assert_eq!(place.left(), ["2.11.0-cpu"]);
    let links = fs::read_dir(place.path("repository")).unwrap().count();
    assert_eq!(links, 1, "no temporary link stays");
}

#[test]
fn libtorch_already_set_wins_after_a_check_of_one_line() {
    let place = Place::new();
    let given = place.path("given");
    fs::create_dir_all(given.join("lib")).unwrap();
    let run = |device: &str| place.command(false).env("LIBTORCH", &given).args(["--device", device]).output().unwrap();
    let cases = [
        (None, "cpu", "found no lib/libtorch_cpu.so there, needed is LibTorch 2.11.0"),
        (Some("2.4.1+cpu"), "cpu", "found LibTorch 2.4.1, needed is LibTorch 2.11.0"),
        (Some("2.11.0+cpu"), "cuda", "found a CPU build of LibTorch 2.11.0, needed is LibTorch 2.11.0 with CUDA"),
    ];
    for (version, device, expected) in cases {
        if let Some(version) = version {
            fs::write(given.join("lib/libtorch_cpu.so"), "").unwrap();
            fs::write(given.join("build-version"), version).unwrap();
        }
        let output = run(device);
        assert_eq!(output.status.code(), Some(2), "{expected}");
        let message = err(&output);
        assert!(message.contains(expected) && message.contains(given.to_str().unwrap()), "{message}");
        assert_eq!(message.trim().lines().count(), 1, "{message}");
    }
    let fits = run("auto");
    assert!(fits.status.success(), "{}", err(&fits));
    assert!(out(&fits).contains("found LibTorch 2.11.0, a CPU build, as needed"), "{}", out(&fits));
    assert!(!place.link().exists() && !place.path("cache/libtorch").exists(), "it wins: nothing is fetched or linked");
}

#[test]
fn a_folder_in_the_place_of_the_link_is_left_alone() {
    let place = Place::new();
    fs::create_dir(place.link()).unwrap();
    fs::write(place.link().join("mine"), "").unwrap();
    let output = place.run(true);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("is not a link"), "{}", err(&output));
    assert!(place.link().join("mine").exists());
}

#[test]
fn the_real_lists_pin_every_wheel() {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let read = |name: &str| -> Vec<String> {
        let text = fs::read_to_string(scripts.join(name)).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_string).collect()
    };
    let (cpu, cuda) = (read("libtorch-cpu.txt"), read("libtorch-cuda.txt"));
    assert_eq!(cpu.len(), 3);
    assert!(cpu.iter().all(|line| cuda.contains(line)), "the CUDA flavour holds what the CPU one has");
    for line in &cuda {
        let (name, rest) = line.split_once("==").unwrap();
        let (version, rest) = rest.split_once(" --hash=sha256:").unwrap();
        let (hash, file) = rest.split_once(" # ").unwrap();
        assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
        assert!(file.starts_with(&format!("{}-{version}-", name.replace('-', "_"))), "{line}");
    }
}

#[test]
fn make_refuses_an_unknown_device_or_profile() {
    let make = |arguments: &[&str]| {
        let output = Command::new("make").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        (output.status.code(), out(&output), err(&output))
    };
    let (code, _, message) = make(&["build", "DEVICE=tpu"]);
    assert!(code == Some(2) && message.contains("DEVICE=tpu: choose auto, cpu or cuda"), "{message}");
    let (code, _, message) = make(&["report", "PROFILE=tiny"]);
    assert!(code == Some(2) && message.contains("PROFILE=tiny: choose mini or paper"), "{message}");
    let (code, text, _) = make(&[]);
    assert_eq!(code, Some(0));
    for target in ["libtorch", "build", "test", "lint", "run", "report", "bench", "data", "reproduce-table1", "clean"] {
        assert!(text.lines().any(|line| line.trim_start().starts_with(&format!("{target} "))), "{target}: {text}");
    }
}
