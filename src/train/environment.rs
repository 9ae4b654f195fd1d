//! What decides the bits of a training run beside its settings, its data and its seed.
//!
//! A sum of floats depends on the order of its terms, and that order on the number of threads, on the instructions of the
//! kernels and on the libraries. All of it is part of a checkpoint, so that a run that is resumed under other circumstances
//! does so only when it is asked to, and says so in its row.

use super::checkpoint::State;
use super::device;
use crate::native;
use anyhow::{bail, Result};
use serde::{Deserialize, Serialize};
use tch::Device;

/// Variables of the environment by which libraries choose other instructions or another order of sums.
const VARIABLES: [&str; 16] = [
    "ATEN_CPU_CAPABILITY",
    "CUBLAS_WORKSPACE_CONFIG",
    "DNNL_DEFAULT_FPMATH_MODE",
    "DNNL_MAX_CPU_ISA",
    "KMP_DETERMINISTIC_REDUCTION",
    "MKL_CBWR",
    "MKL_DEBUG_CPU_TYPE",
    "MKL_DYNAMIC",
    "MKL_ENABLE_INSTRUCTIONS",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_DYNAMIC",
    "OMP_SCHEDULE",
    "OMP_THREAD_LIMIT",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "ONEDNN_MAX_CPU_ISA",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
];

/// Everything that two processes must have in common to compute the same bits. A field that a checkpoint lacks, because the
/// program that wrote it did not know the field, is empty or zero. Whatever else comes to decide the bits gets a field here and a
/// line in `fields`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Numerics {
    /// Threads of one operation.
    pub threads: i32,
    /// Such as `cpu`.
    pub device: String,
    /// The processor's model; on CUDA, the GPU's where there is one kind of them.
    pub processor: String,
    /// Instruction set of the kernels, such as `avx512`.
    pub instructions: String,
    /// Whether those kernels compute, `on` or `off`; empty on CUDA, which has none.
    pub kernels: String,
    /// Version of LibTorch.
    pub libtorch: String,
    /// Version of this program.
    pub program: String,
    /// Those variables of the libraries that are set, such as `MKL_CBWR=AVX2`.
    pub environment: String,
}

impl Numerics {
    /// Those of this process, for a run on `device` with so many threads.
    pub fn here(device: Device, threads: i32) -> Self {
        // The program itself chooses cuBLAS's workspace, which the CPU makes no use of.
        let matters = |name: &&&str| device.is_cuda() || !name.starts_with("CUBLAS");
        let set = VARIABLES.iter().filter(matters);
        let set = set.filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?)));
        Self {
            threads,
            device: device::name(device),
            processor: match device {
                Device::Cuda(_) => gpu_model(),
                _ => crate::origin::cpu(),
            },
            instructions: native::instructions().name().into(),
            kernels: match device {
                Device::Cuda(_) => "",
                _ if native::kernels_are_on() => "on",
                _ => "off",
            }
            .into(),
            libtorch: device::loaded_version(),
            program: env!("CARGO_PKG_VERSION").into(),
            environment: match set.collect::<Vec<_>>().join(" ") {
                none if none.is_empty() => "no such variable".into(),
                set => set,
            },
        }
    }

    /// Names and values, in the order in which they are told.
    fn fields(&self) -> [(&'static str, String); 8] {
        let threads = if self.threads > 0 { self.threads.to_string() } else { String::new() };
        [
            ("threads", threads),
            ("device", self.device.clone()),
            ("processor", self.processor.clone()),
            ("instructions", self.instructions.clone()),
            ("kernels", self.kernels.clone()),
            ("LibTorch", self.libtorch.clone()),
            ("program version", self.program.clone()),
            ("environment", self.environment.clone()),
        ]
    }

    /// What differs from `here`, such as `threads 1, now 2`; empty where bits are the same. Fields that one of the two lacks
    /// are not compared.
    pub fn differences(&self, here: &Numerics) -> Vec<String> {
        let pairs = self.fields().into_iter().zip(here.fields());
        pairs
            .filter(|((_, saved), (_, now))| saved != now && !saved.is_empty() && !now.is_empty())
            .map(|((name, saved), (_, now))| format!("{name} {saved}, now {now}"))
            .collect()
    }
}

/// A sentence for the row of a run that is resumed from `state` under circumstances that may change its bits; none where they
/// are the same.
///
/// # Errors
/// They differ, and `anyway` is false.
pub fn check(name: &str, state: &State, here: &Numerics, anyway: bool) -> Result<Option<String>> {
    let step = state.step;
    let Some(saved) = &state.numerics else {
        return Ok(Some(format!(
            "Resumed after step {step} from a checkpoint of an earlier version, so bits may differ from an uninterrupted run."
        )));
    };
    let differences = saved.differences(here).join("; ");
    if differences.is_empty() {
        return Ok(None);
    }
    if !anyway {
        bail!(
            "{name} was saved after step {step} under other circumstances: {differences}. Resumed like this, it would not come \
             to the bits of an uninterrupted run. Without --threads a run resumes with the number that it had; --resume-anyway \
             resumes with what is different, and puts a note into the run's row; --fresh starts the run again"
        );
    }
    Ok(Some(format!(
        "Resumed after step {step} under other circumstances ({differences}), so bits may differ from an uninterrupted run."
    )))
}

/// The model of the NVIDIA GPUs, by their driver; empty where there are several kinds or the driver does not tell.
fn gpu_model() -> String {
    let mut models: Vec<String> = std::fs::read_dir("/proc/driver/nvidia/gpus")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("information")).ok())
        .filter_map(|about| Some(about.lines().find_map(|line| line.strip_prefix("Model:"))?.trim().to_string()))
        .collect();
    models.dedup();
    match models.as_slice() {
        [model] => model.clone(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_both_values() {
        let saved = Numerics { threads: 1, ..Numerics::here(Device::Cpu, 2) };
        assert_eq!(saved.differences(&Numerics::here(Device::Cpu, 1)), [""; 0]);
        assert_eq!(saved.differences(&Numerics::here(Device::Cpu, 2)), ["threads 1, now 2"]);
        let other = Numerics { threads: 1, instructions: "baseline".into(), libtorch: "1.0".into(), ..saved.clone() };
        assert_eq!(other.differences(&saved).len(), 2);
        assert!(other.differences(&saved)[1].starts_with("LibTorch 1.0, now "));
        // a checkpoint that knew nothing of it yet
        assert_eq!(Numerics::default().differences(&saved), [""; 0]);
        assert_eq!(serde_json::from_str::<Numerics>("{\"threads\":1,\"later\":2}").unwrap().threads, 1);
    }
}
