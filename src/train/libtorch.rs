//! What a LibTorch folder holds. build.rs includes this file too, so it knows the standard library alone.

use std::path::Path;

/// The version for which the bindings (tch 0.24) are made; torch-sys checks nothing when LIBTORCH is set.
pub const NEEDED: &str = "2.11.0";

/// The version in a LibTorch folder (the one that holds `lib` and `include`), without a local part such as `+cu130`.
pub fn version(folder: &Path) -> Option<String> {
    let header = "define TORCH_VERSION ";
    let places = [
        ("version.py", "__version__"),
        ("build-version", ""),
        ("include/torch/headeronly/version.h", header),
        ("include/torch/csrc/api/include/torch/version.h", header),
    ];
    places.iter().find_map(|(name, before)| {
        let text = std::fs::read_to_string(folder.join(name)).ok()?;
        let start = match *before {
            "__version__" => text.find("\n__version__ =").or_else(|| text.find("\n__version__=")).map(|at| at + 1)?,
            before => text.find(before)?,
        };
        let found: String = text[start + before.len()..]
            .chars()
            .skip_while(|c| !c.is_ascii_digit())
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '.')
            .collect();
        (!found.is_empty()).then_some(found)
    })
}

/// Whether a `lib` folder is that of a CUDA build.
pub fn is_cuda(lib: &Path) -> bool {
    lib.join("libtorch_cuda.so").exists()
}

/// Why a folder can't be built against, in one line; `None` when it can.
pub fn wrong_with(folder: &Path) -> Option<String> {
    let advice = "run `make libtorch`, or set LIBTORCH to such a folder";
    if !folder.join("lib/libtorch_cpu.so").exists() {
        let shown = folder.display();
        return Some(format!(
            "no LibTorch at {shown} (lib/libtorch_cpu.so is not there), {NEEDED} is needed: {advice}"
        ));
    }
    match version(folder) {
        Some(found) if found == NEEDED => None,
        found => {
            let found = found.unwrap_or_else(|| "of an unknown version".into());
            Some(format!("found LibTorch {found} at {}, {NEEDED} is needed: {advice}", folder.display()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn version_is_read_from_each_place() {
        let wheel = "__all__ = ['__version__', 'debug']\n__version__ = '2.11.0+cu130'\ndebug = False\n";
        let header = "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION \\\n  \"2.9.1\"\n";
        for (name, text, expected) in [
            ("version.py", wheel, Some("2.11.0")),
            ("build-version", "2.10.0+cpu\n", Some("2.10.0")),
            ("include/torch/headeronly/version.h", header, Some("2.9.1")),
            ("include/torch/csrc/api/include/torch/version.h", "#define TORCH_VERSION \"2.3.0\"\n", Some("2.3.0")),
            ("version.py", "nothing", None),
            ("README", "2.11.0", None),
        ] {
            assert_eq!(version(folder(&[(name, text)]).path()).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn wrong_names_what_was_found_and_what_is_needed() {
        let empty = folder(&[]);
        assert!(wrong_with(empty.path()).unwrap().contains("no LibTorch at"));
        let old = folder(&[("lib/libtorch_cpu.so", ""), ("build-version", "2.4.0")]);
        let message = wrong_with(old.path()).unwrap();
        assert!(message.contains("found LibTorch 2.4.0") && message.contains("2.11.0 is needed"), "{message}");
        assert_eq!(message.lines().count(), 1);
        let right = folder(&[("lib/libtorch_cpu.so", ""), ("build-version", "2.11.0")]);
        assert_eq!(wrong_with(right.path()), None);
    }
}
