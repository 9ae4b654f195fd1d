//! Checks LibTorch's version and points the binaries at its folder, so that nobody needs LD_LIBRARY_PATH. Compiles the kernels.
//! Tells the program the git commit that it is built from.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

#[path = "build/git.rs"]
mod git;
#[path = "src/train/libtorch.rs"]
mod libtorch;

fn main() {
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    println!("cargo:rerun-if-env-changed=LIBTORCH_USE_PYTORCH");
    tell_commit();
    if std::env::var_os("LIBTORCH_USE_PYTORCH").is_some() {
        stop("LIBTORCH_USE_PYTORCH is set: unset it, and set LIBTORCH to the folder `torch` of that Python's packages");
    }
    // .cargo/config.toml gives a default, so it is missing only where that file is not read.
    let Some(folder) = std::env::var_os("LIBTORCH").map(PathBuf::from) else {
        stop("LIBTORCH is not set: run `make libtorch`, and cargo in this repository's folder");
    };
    println!("cargo:rerun-if-changed={}", folder.join("lib/libtorch_cpu.so").display());
    if let Some(wrong) = libtorch::wrong_with(&folder) {
        stop(&wrong);
    }
    compile(&folder);
    let lib = folder.join("lib");
    // First the folder itself, so that a copied binary runs; then the link, so that a moved cache does no harm.
    let mut paths = Vec::from_iter(lib.canonicalize().into_iter().chain(std::path::absolute(&lib)));
    paths.dedup();
    for path in paths {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}", path.display());
    }
    if libtorch::is_cuda(&lib) {
        // Nothing refers to a symbol of libtorch_cuda: without this the linker drops it, and CUDA with it.
        println!("cargo:rustc-link-arg=-Wl,--no-as-needed");
        println!("cargo:rustc-link-arg=-L{}", lib.display());
        println!("cargo:rustc-link-arg=-ltorch_cuda");
        println!("cargo:rustc-link-arg=-Wl,--as-needed");
    }
}

/// Sets SYNTHESIZER_GIT_COMMIT and SYNTHESIZER_GIT_STATE for `env!`. The script runs again whenever a source or the commit
/// changes; that compiles no kernel, see [`compile`].
fn tell_commit() {
    // cargo runs build scripts in the package's folder
    let checkout = git::look(Path::new("."));
    println!("cargo:rustc-env=SYNTHESIZER_GIT_COMMIT={}", checkout.commit);
    println!("cargo:rustc-env=SYNTHESIZER_GIT_STATE={}", checkout.state);
    let sources = git::SOURCES.iter().map(PathBuf::from).filter(|path| path.exists());
    for path in sources.chain(checkout.watched) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
}

/// The variables by which `cc` chooses compiler and flags.
const COMPILER_VARIABLES: [&str; 6] = ["CXX", "CXXFLAGS", "AR", "ARFLAGS", "CXXSTDLIB", "CRATE_CC_NO_DEFAULTS"];

/// src/native: the glue to LibTorch's graph once, the kernels for every instruction set that the program may choose from.
/// A library that was built from the same sources with the same settings is kept, since this takes a minute and the script runs
/// with every change of any source.
fn compile(libtorch: &Path) {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_else(|| stop("OUT_DIR is not set")));
    let settings = settings(libtorch);
    let mut libraries = Vec::new();
    let mut build = |name: String, build: &mut cc::Build| {
        let (library, stamp) = (out.join(format!("lib{name}.a")), out.join(format!("{name}.stamp")));
        let is_built = library.exists() && std::fs::read_to_string(&stamp).is_ok_and(|stamp| stamp == settings);
        if !is_built {
            let _ = std::fs::remove_file(&stamp);
            build.cargo_metadata(false).compile(&name);
            if let Err(error) = std::fs::write(&stamp, &settings) {
                stop(&format!("{}: cannot write: {error}", stamp.display()));
            }
        }
        libraries.push(name);
    };
    let glue = ["autograd.cpp", "device.cpp", "terminate.cpp"];
    let kernels = [
        "adam.cpp",
        "attention_forward.cpp",
        "attention_backward.cpp",
        "cross_entropy.cpp",
        "decode.cpp",
        "dropout.cpp",
        "feed_forward.cpp",
        "linear.cpp",
        "norm.cpp",
    ];
    let source = |name: &&str| Path::new("src/native").join(name);
    let include = libtorch.join("include");
    build(
        "synthesizer_glue".into(),
        cc::Build::new()
            .cpp(true)
            .std("c++17")
            .define("_GLIBCXX_USE_CXX11_ABI", "1")
            .flag("-isystem")
            .flag(&include)
            .flag("-isystem")
            .flag(include.join("torch/csrc/api/include"))
            .files(glue.iter().map(source)),
    );
    let x86 = std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|architecture| architecture == "x86_64");
    let sets: [(&str, &[&str]); 3] = [
        ("baseline", &[]),
        ("avx2", &["-mavx2", "-mfma"]),
        ("avx512", &["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mprefer-vector-width=512"]),
    ];
    for (name, flags) in &sets[..if x86 { 3 } else { 1 }] {
        let mut compiler = cc::Build::new();
        compiler.cpp(true).std("c++17").opt_level(3).define("INSTRUCTIONS", *name);
        // Sums may be taken in another order, which vectors need; infinities and NaN stay what they are.
        for flag in ["-ffast-math", "-fno-finite-math-only"].iter().chain(*flags) {
            compiler.flag(flag);
        }
        build(format!("synthesizer_kernels_{name}"), compiler.files(kernels.iter().map(source)));
    }
    println!("cargo:rustc-link-search=native={}", out.display());
    for name in libraries {
        println!("cargo:rustc-link-lib=static={name}");
    }
    let is_apple = std::env::var("CARGO_CFG_TARGET_VENDOR").is_ok_and(|vendor| vendor == "apple");
    println!("cargo:rustc-link-lib={}", if is_apple { "c++" } else { "stdc++" });
}

/// A digest of everything that the libraries depend on: sources, this script, LibTorch, target and compiler flags.
fn settings(libtorch: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    include_str!("build.rs").hash(&mut hasher);
    (libtorch.canonicalize().ok(), libtorch::version(libtorch)).hash(&mut hasher);
    let Ok(entries) = std::fs::read_dir("src/native") else { stop("src/native cannot be read") };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "cpp" || extension == "h"));
    files.sort();
    for file in files {
        (std::fs::read(&file).ok(), file).hash(&mut hasher);
    }
    for name in ["TARGET", "HOST", "OPT_LEVEL", "DEBUG", "CARGO_CFG_TARGET_FEATURE"] {
        std::env::var_os(name).hash(&mut hasher);
    }
    let target = std::env::var("TARGET").unwrap_or_default();
    for name in COMPILER_VARIABLES {
        let forms = [name.into(), format!("{name}_{target}"), format!("{name}_{}", target.replace('-', "_"))];
        for name in forms.into_iter().chain([format!("HOST_{name}"), format!("TARGET_{name}")]) {
            println!("cargo:rerun-if-env-changed={name}");
            std::env::var_os(name).hash(&mut hasher);
        }
    }
    format!("{:016x}", hasher.finish())
}

fn stop(why: &str) -> ! {
    println!("cargo::error={why}");
    std::process::exit(1)
}
