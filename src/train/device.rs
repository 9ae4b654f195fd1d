//! Where tensors live: `--device auto|cpu|cuda`.

use super::{driver, libtorch};
use crate::experiment::Precision;
use crate::native::device::choose_attention;
use crate::terminal::tell;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tch::{Cuda, Device, Kind, Tensor};

/// What `--device` was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceChoice {
    /// The first CUDA device if one works, else the CPU
    #[default]
    Auto,
    /// The CPU
    Cpu,
    /// The first CUDA device; an error without one
    Cuda,
}

impl std::fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DeviceChoice::Auto => "auto",
            DeviceChoice::Cpu => "cpu",
            DeviceChoice::Cuda => "cuda",
        })
    }
}

/// The device of a choice. `cuda` never falls back: without a working CUDA device it is an error that says why.
///
/// # Errors
/// No CUDA device that works, for `cuda`.
pub fn resolve(choice: DeviceChoice) -> anyhow::Result<Device> {
    choose_attention(false);
    match choice {
        DeviceChoice::Cpu => Ok(Device::Cpu),
        DeviceChoice::Auto if Cuda::device_count() == 0 => {
            if let Some(problem) = driver::problem() {
                tell(&format!("warning: {problem}; the CPU is used"));
            }
            Ok(Device::Cpu)
        }
        DeviceChoice::Auto => match probe() {
            Ok(()) => Ok(Device::Cuda(0)),
            Err(error) => {
                tell(&format!("warning: a CUDA device is there but does not work, so the CPU is used: {error}"));
                Ok(Device::Cpu)
            }
        },
        DeviceChoice::Cuda => {
            let flavour = Flavour::loaded();
            match flavour {
                Flavour::Cpu => anyhow::bail!(
                    "--device cuda: this program was built with the CPU build of LibTorch (`{flavour}`): \
                     build it with `make build DEVICE=cuda`, or use --device cpu"
                ),
                Flavour::Cuda { devices: 0 } => match driver::problem() {
                    Some(problem) => {
                        anyhow::bail!("--device cuda: {problem}: update the driver, or use --device cpu")
                    }
                    None => anyhow::bail!(
                    "--device cuda: LibTorch finds no CUDA device (`{flavour}`): check the NVIDIA driver (nvidia-smi) \
                     and CUDA_VISIBLE_DEVICES, or use --device cpu"
                    ),
                },
                Flavour::Cuda { .. } => match probe() {
                    Ok(()) => Ok(Device::Cuda(0)),
                    Err(error) => anyhow::bail!("--device cuda: the device is there but does not work: {error}"),
                },
            }
        }
    }
}

/// An error where the device does not train in this precision.
pub fn check_precision(device: Device, precision: Precision) -> anyhow::Result<()> {
    if precision == Precision::Bfloat16 && device == Device::Cpu {
        anyhow::bail!(
            "train.precision = \"bfloat16\" is for CUDA, and the device is the CPU, whose bfloat16 products are far slower \
             than those in float32 (0.3 against 150 GFLOP/s on the 2 cores where both were measured): leave the key out, or \
             use --device cuda"
        );
    }
    Ok(())
}

/// How a device is named in results: `cpu`, `cuda:0`.
pub fn name(device: Device) -> String {
    match device {
        Device::Cpu => "cpu".into(),
        Device::Cuda(index) => format!("cuda:{index}"),
        other => format!("{other:?}").to_lowercase(),
    }
}

/// One sum on the first CUDA device: a device that is counted may still be too old for this LibTorch's kernels.
fn probe() -> anyhow::Result<()> {
    let ones = Tensor::f_ones([8], (Kind::Float, Device::Cuda(0)))?;
    let sum = f64::try_from(ones.f_sum(Kind::Float)?.f_to_device(Device::Cpu)?)?;
    anyhow::ensure!(sum == 8.0, "eight ones add up to {sum} there");
    Ok(())
}

/// Which LibTorch runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// No CUDA in it.
    Cpu,
    /// With CUDA, and so many devices that it can see.
    Cuda {
        /// CUDA devices.
        devices: usize,
    },
}

impl Flavour {
    /// That of the LibTorch in this process.
    pub fn loaded() -> Flavour {
        // `has_cuda` asks the hooks that libtorch_cuda registers: true with 0 devices too.
        if tch::utils::has_cuda() || loaded_file("libtorch_cuda.so").is_some() {
            Flavour::Cuda { devices: usize::try_from(Cuda::device_count()).unwrap_or(0) }
        } else {
            Flavour::Cpu
        }
    }
}

impl std::fmt::Display for Flavour {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Flavour::Cpu => f.write_str("CPU build"),
            Flavour::Cuda { devices: 1 } => f.write_str("CUDA build, 1 device"),
            Flavour::Cuda { devices } => write!(f, "CUDA build, {devices} devices"),
        }
    }
}

unsafe extern "C" {
    /// Part of LibTorch's stable C interface: major, minor and patch in the three highest bytes.
    fn aoti_torch_abi_version() -> u64;
}

/// The version that the loaded libtorch_cpu.so says of itself, such as `2.11.0`.
pub fn loaded_version() -> String {
    // SAFETY: takes nothing, touches no memory, returns a constant.
    let [major, minor, patch, ..] = unsafe { aoti_torch_abi_version() }.to_be_bytes();
    format!("{major}.{minor}.{patch}")
}

/// Whether the loaded LibTorch is the one that the bindings are made for.
pub fn version_fits() -> bool {
    loaded_version() == libtorch::NEEDED
}

/// From where a library of this process was loaded, such as `libtorch_cpu.so`.
pub fn loaded_file(name: &str) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines()
        .filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..])))
        .find(|path| path.file_name().is_some_and(|file| file == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loaded_libtorch_says_its_version_and_place() {
        assert_eq!(loaded_version(), "2.11.0");
        assert!(version_fits());
        let file = loaded_file("libtorch_cpu.so").unwrap();
        assert!(file.ends_with("lib/libtorch_cpu.so"));
        let folder = file.parent().and_then(|lib| lib.parent()).unwrap();
        assert_eq!(libtorch::version(folder).as_deref(), Some("2.11.0"));
        assert_eq!(loaded_file("libnothing.so"), None);
    }

    #[test]
    fn cuda_without_a_device_is_an_error_and_never_the_cpu() {
        assert_eq!(resolve(DeviceChoice::Cpu).unwrap(), Device::Cpu);
        if Cuda::device_count() > 0 {
            assert_eq!(resolve(DeviceChoice::Cuda).unwrap(), Device::Cuda(0));
            return;
        }
        assert_eq!(resolve(DeviceChoice::Auto).unwrap(), Device::Cpu);
        let message = resolve(DeviceChoice::Cuda).unwrap_err().to_string();
        assert!(message.contains(&Flavour::loaded().to_string()), "{message}");
    }

    #[test]
    fn bfloat16_is_for_cuda() {
        let message = check_precision(Device::Cpu, Precision::Bfloat16).unwrap_err().to_string();
        assert!(message.contains("train.precision") && message.contains("--device cuda"), "{message}");
        check_precision(Device::Cuda(0), Precision::Bfloat16).unwrap();
        check_precision(Device::Cpu, Precision::Float32).unwrap();
    }

    #[test]
    fn flavours_read_as_people_say_them() {
        let shown = [Flavour::Cpu, Flavour::Cuda { devices: 0 }, Flavour::Cuda { devices: 1 }].map(|f| f.to_string());
        assert_eq!(shown, ["CPU build", "CUDA build, 0 devices", "CUDA build, 1 device"]);
        assert_eq!((name(Device::Cpu), name(Device::Cuda(1))), ("cpu".into(), "cuda:1".into()));
    }
}
