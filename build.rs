//! Checks LibTorch's version and points the binaries at its folder, so that nobody needs LD_LIBRARY_PATH.

use std::path::PathBuf;

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

fn stop(why: &str) -> ! {
    println!("cargo::error={why}");
    std::process::exit(1)
}
