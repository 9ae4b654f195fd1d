//! The NVIDIA driver, and whether it is new enough for the CUDA version of the loaded LibTorch.

use crate::native::device::cuda_version;
use serde::Serialize;
use std::ffi::{c_int, CStr};
use std::fmt;
use std::process::{Command, Stdio};

/// What the system tells of its driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Driver {
    /// Such as `580.65.06`.
    pub version: Option<String>,
    /// Major and minor of the newest CUDA version that it runs, by libcuda's own word. This can be newer than what the
    /// version says: CUDA's compatibility packages replace libcuda alone.
    pub cuda: Option<(u32, u32)>,
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the NVIDIA driver")?;
        if let Some(version) = &self.version {
            write!(f, " {version}")?;
        }
        if let Some((major, minor)) = self.cuda {
            write!(f, ", which runs CUDA up to {major}.{minor},")?;
        }
        Ok(())
    }
}

impl Driver {
    /// The driver of this machine; none where there is none.
    pub fn installed() -> Option<Driver> {
        let of_kernel = std::fs::read_to_string("/proc/driver/nvidia/version").ok();
        let version = of_kernel.as_deref().and_then(of_proc).or_else(of_nvidia_smi);
        let cuda = of_libcuda();
        (version.is_some() || cuda.is_some()).then_some(Driver { version, cuda })
    }

    /// Why programs of this CUDA version do not run with the driver; none if they do, or nothing is known.
    pub fn problem(&self, needed: (u32, u32)) -> Option<String> {
        let oldest = oldest_driver(needed.0)?;
        let is_old = match (self.cuda, &self.version) {
            // Within a major version every driver runs programs of every minor version.
            (Some(runs), _) => runs.0 < needed.0,
            (None, Some(version)) => numbers(version) < numbers(oldest),
            (None, None) => false,
        };
        is_old.then(|| {
            let (major, minor) = needed;
            format!(
                "{self} is too old: this LibTorch is built with CUDA {major}.{minor}, which needs driver {oldest} or newer"
            )
        })
    }
}

/// Why the driver does not fit the loaded LibTorch; none for the CPU build, without a driver, and where it fits.
pub fn problem() -> Option<String> {
    Driver::installed()?.problem(cuda_version()?)
}

/// The oldest Linux driver that runs programs of a CUDA major version (NVIDIA's CUDA compatibility guide).
fn oldest_driver(cuda_major: u32) -> Option<&'static str> {
    Some(match cuda_major {
        11 => "450.80.02",
        12 => "525.60.13",
        13 => "580.65.06",
        _ => return None,
    })
}

/// The parts of a version, to compare: `580.65.06` is newer than `580.9`.
fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

/// The version in the text of /proc/driver/nvidia/version.
fn of_proc(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    line.split_whitespace().find(|word| is_version(word)).map(str::to_string)
}

/// Such as `550.54.15` or `470.82`: numbers with points between them.
fn is_version(word: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    word.contains('.') && word.split('.').all(is_number)
}

fn of_nvidia_smi() -> Option<String> {
    let mut command = Command::new("nvidia-smi");
    command.args(["--query-gpu=driver_version", "--format=csv,noheader"]).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(str::trim).find(|line| is_version(line)).map(str::to_string)
}

/// What libcuda says of itself. It needs no device and starts nothing.
fn of_libcuda() -> Option<(u32, u32)> {
    const NAME: &CStr = c"libcuda.so.1";
    // SAFETY: the names are C strings; cuDriverGetVersion takes the place of a number and returns 0 once it has written it.
    // The library stays loaded, as LibTorch loads it too.
    let number = unsafe {
        let library = libc::dlopen(NAME.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL);
        if library.is_null() {
            return None;
        }
        let function = libc::dlsym(library, c"cuDriverGetVersion".as_ptr());
        if function.is_null() {
            return None;
        }
        let version: unsafe extern "C" fn(*mut c_int) -> c_int = std::mem::transmute(function);
        let mut number = 0;
        if version(&mut number) != 0 {
            return None;
        }
        number
    };
    of_number(number)
}

/// CUDA writes 12.4 as 12040. 0: no driver behind the library.
fn of_number(number: c_int) -> Option<(u32, u32)> {
    let number = u32::try_from(number).ok().filter(|number| *number > 0)?;
    Some((number / 1000, number % 1000 / 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_the_kernel_modules_texts() {
        let proprietary = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n\
                           GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n";
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  \
                    (dvs-builder@U22-I3-B17-02-5)  Sun Jul 27 06:54:38 UTC 2025\nGCC version:  gcc version 11.4.0\n";
        let arm = "NVRM version: NVIDIA UNIX aarch64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n";
        let old = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.82  Mon Oct 25 19:20:15 UTC 2021\n";
        for (text, wanted) in [
            (proprietary, Some("550.54.15")),
            (open, Some("580.65.06")),
            (arm, Some("535.104.05")),
            (old, Some("470.82")),
            ("GCC version:  gcc version 12.2.0\n", None),
            ("NVRM version: unknown\n", None),
            ("", None),
        ] {
            assert_eq!(of_proc(text).as_deref(), wanted, "{text}");
        }
        assert_eq!([12040, 13000, 11080, 0].map(of_number), [Some((12, 4)), Some((13, 0)), Some((11, 8)), None]);
    }

    #[test]
    fn a_driver_that_is_too_old_is_told_with_both_versions() {
        let driver = |version: &str, cuda| Driver { version: Some(version.to_string()), cuda };
        for (found, needed, is_old) in [
            (driver("550.54.15", Some((12, 4))), (13, 0), true),
            (driver("570.86.10", None), (13, 0), true),
            (driver("580.65.06", None), (13, 0), false),
            (driver("580.126.09", None), (13, 0), false),
            (driver("580.9", None), (13, 0), true),
            (driver("590.1.2", Some((13, 1))), (13, 0), false),
            (driver("525.60.13", Some((12, 0))), (12, 8), false),
            (driver("520.61.05", None), (12, 8), true),
            // A compatibility package: an older kernel module with a newer libcuda.
            (driver("535.104.05", Some((13, 0))), (13, 0), false),
            (driver("470.82", Some((11, 4))), (11, 8), false),
            // Nothing is known of a CUDA version to come.
            (driver("470.82", None), (99, 0), false),
        ] {
            let problem = found.problem(needed);
            assert_eq!(problem.is_some(), is_old, "{found:?} for {needed:?}: {problem:?}");
        }
        let text = driver("550.54.15", Some((12, 4))).problem((13, 0)).unwrap();
        let wanted =
            "the NVIDIA driver 550.54.15, which runs CUDA up to 12.4, is too old: this LibTorch is built with CUDA \
                      13.0, which needs driver 580.65.06 or newer";
        assert_eq!(text, wanted);
    }

    #[test]
    fn the_cpu_build_needs_no_driver() {
        if cuda_version().is_none() {
            assert_eq!(problem(), None);
        }
    }
}
