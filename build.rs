//! Checks LibTorch's version and points the binaries at its folder, so that nobody needs LD_LIBRARY_PATH.

use std::path::{Path, PathBuf};

#[path = "src/train/libtorch.rs"]
mod libtorch;

fn main() {
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    println!("cargo:rerun-if-env-changed=LIBTORCH_USE_PYTORCH");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/train/libtorch.rs");
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

/// src/native: the glue to LibTorch's graph once, the kernels for every instruction set that the program may choose from.
fn compile(libtorch: &Path) {
    println!("cargo:rerun-if-changed=src/native");
    let glue = ["autograd.cpp", "device.cpp"];
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
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .define("_GLIBCXX_USE_CXX11_ABI", "1")
        .flag("-isystem")
        .flag(&include)
        .flag("-isystem")
        .flag(include.join("torch/csrc/api/include"))
        .files(glue.iter().map(source))
        .compile("synthesizer_glue");
    let x86 = std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|architecture| architecture == "x86_64");
    let sets: [(&str, &[&str]); 3] = [
        ("baseline", &[]),
        ("avx2", &["-mavx2", "-mfma"]),
        ("avx512", &["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mprefer-vector-width=512"]),
    ];
    for (name, flags) in &sets[..if x86 { 3 } else { 1 }] {
        let mut build = cc::Build::new();
        build.cpp(true).std("c++17").opt_level(3).define("INSTRUCTIONS", *name);
        // Sums may be taken in another order, which vectors need; infinities and NaN stay what they are.
        for flag in ["-ffast-math", "-fno-finite-math-only"].iter().chain(*flags) {
            build.flag(flag);
        }
        build.files(kernels.iter().map(source)).compile(&format!("synthesizer_kernels_{name}"));
    }
}

fn stop(why: &str) -> ! {
    println!("cargo::error={why}");
    std::process::exit(1)
}
