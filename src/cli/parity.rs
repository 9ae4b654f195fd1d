//! `synthesizer parity`: runs the layer of golden files and compares outputs and gradients with what the files hold.

use crate::attention::{AttentionConfig, Form, Mixing, SelfAttention};
use crate::error::Outcome;
use crate::experiment::Mix;
use crate::native::{self, device};
use crate::regular;
use crate::train::device::{self as devices, DeviceChoice};

use anyhow::{bail, Context};
use safetensors::{Dtype, SafeTensors};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use tch::nn::VarStore;
use tch::{no_grad, Device, Kind, Tensor};

/// The largest difference that counts as agreement, in float64.
pub const TOLERANCE: f64 = 1e-9;

/// The number format in which a layer is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Arithmetic {
    /// float64
    #[default]
    Float64,
    /// float32
    Float32,
    /// float32 whose products are rounded to TF32, on CUDA
    Tf32,
    /// float32 with products in bfloat16, on CUDA, as `train.precision = "bfloat16"` has them
    Bfloat16,
}

impl Arithmetic {
    /// The largest differences that count as agreement, of outputs and of gradients. In float64 they are absolute; in the
    /// others the golden file's largest number counts as 1 if it is larger.
    pub fn tolerances(self) -> [f64; 2] {
        match self {
            Arithmetic::Float64 => [TOLERANCE, TOLERANCE],
            Arithmetic::Float32 => [1e-5, 1e-4],
            Arithmetic::Tf32 | Arithmetic::Bfloat16 => [2e-2, 2e-2],
        }
    }

    fn kind(self) -> Kind {
        if self == Arithmetic::Float64 {
            Kind::Double
        } else {
            Kind::Float
        }
    }

    fn is_for_cuda(self) -> bool {
        matches!(self, Arithmetic::Tf32 | Arithmetic::Bfloat16)
    }
}

/// Options of `parity`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Golden files (safetensors: a layer's mix and sizes, input, weights, output and gradients)
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Where to compute
    #[arg(long, value_enum, default_value_t = DeviceChoice::Cpu)]
    device: DeviceChoice,
    /// The number format to compute in, which sets the tolerance
    #[arg(long, value_enum, default_value_t)]
    precision: Arithmetic,
}

/// How far a layer is from its golden file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The file.
    pub file: PathBuf,
    /// Its mix.
    pub mix: String,
    /// The largest difference in `out` and in each `grad.NAME`, by that name, over all forms that the device has: the plain
    /// one, the composed one, and on the CPU, unless its kernels are off, the fused one.
    pub errors: BTreeMap<String, f64>,
    #[serde(skip)]
    tolerances: [f64; 2],
}

impl Comparison {
    /// The name and value of the largest error (NaN is larger than any) among names of which `of` holds.
    pub fn largest(&self, of: impl Fn(&str) -> bool) -> (&str, f64) {
        let errors = self.errors.iter().filter(|(name, _)| of(name)).map(|(name, error)| (name.as_str(), *error));
        errors.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())).unwrap_or(("nothing", 0.0))
    }

    /// Whether every error is within its tolerance.
    pub fn agrees(&self) -> bool {
        let [output, gradient] = self.tolerances;
        self.errors.iter().all(|(name, error)| *error <= if name == "out" { output } else { gradient })
    }
}

/// Runs the subcommand.
///
/// # Errors
/// A device or a file that cannot be compared (exit code 2), a file that differs (1).
pub fn run(args: Args) -> anyhow::Result<()> {
    let device = devices::resolve(args.device)?;
    if args.precision.is_for_cuda() && device == Device::Cpu {
        bail!("--precision tf32 and bfloat16 are for CUDA: add --device cuda, or compare in float32");
    }
    // Golden layers are far too small to share out between threads.
    tch::set_num_threads(1);
    let comparisons =
        args.files.iter().map(|file| compare_on(file, device, args.precision)).collect::<anyhow::Result<Vec<_>>>()?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&comparisons.iter().map(json).collect::<Vec<_>>())?);
    } else {
        let width = comparisons.iter().map(|comparison| comparison.file.display().to_string().len()).max().unwrap_or(0);
        println!("{:width$}  {:8}  {:>8}  {:>8}  largest gradient error in", "file", "mix", "output", "gradient");
        for comparison in &comparisons {
            let Comparison { file, mix, .. } = comparison;
            let (_, output) = comparison.largest(|name| name == "out");
            let (name, gradient) = comparison.largest(|name| name != "out");
            let verdict = if comparison.agrees() { "" } else { "  DIFFERS" };
            println!("{:width$}  {mix:8}  {output:8.1e}  {gradient:8.1e}  {name}{verdict}", file.display().to_string());
        }
    }
    let wrong = comparisons.iter().filter(|comparison| !comparison.agrees()).count();
    if wrong > 0 {
        let all = comparisons.len();
        let [output, gradient] = args.precision.tolerances();
        let bound =
            if output == gradient { format!("{output:e}") } else { format!("{output:e} (gradients: {gradient:e})") };
        return Err(Outcome::Failed(format!("{wrong} of {all} files differ by more than {bound}")).into());
    }
    Ok(())
}

fn json(comparison: &Comparison) -> serde_json::Value {
    let (name, error) = comparison.largest(|_| true);
    serde_json::json!({
        "file": comparison.file,
        "mix": comparison.mix,
        "agrees": comparison.agrees(),
        "tolerance": comparison.tolerances[0],
        "gradient_tolerance": comparison.tolerances[1],
        "largest": { "name": name, "error": error },
        "errors": comparison.errors,
    })
}

/// Runs the layer of one golden file in float64 on the CPU.
///
/// # Errors
/// As [`compare_on`].
pub fn compare(file: &Path) -> anyhow::Result<Comparison> {
    compare_on(file, Device::Cpu, Arithmetic::Float64)
}

/// Runs the layer of one golden file.
///
/// # Errors
/// The file cannot be read, lacks something that a golden file has, or holds weights that its mix has no place for.
pub fn compare_on(file: &Path, device: Device, arithmetic: Arithmetic) -> anyhow::Result<Comparison> {
    let bytes = regular::read(file, regular::GOLDEN).with_context(|| format!("can't read {}", file.display()))?;
    let golden = Golden::read(&bytes).with_context(|| format!("{} is not a golden file", file.display()))?;
    device::allow_tf32(arithmetic == Arithmetic::Tf32);
    let errors = golden.errors(device, arithmetic).with_context(|| format!("{} can't be compared", file.display()))?;
    let tolerances = arithmetic.tolerances();
    Ok(Comparison { file: file.to_path_buf(), mix: golden.mix.to_string(), errors, tolerances })
}

struct Golden {
    mix: Mix,
    config: AttentionConfig,
    tensors: HashMap<String, Tensor>,
}

impl Golden {
    fn read(bytes: &[u8]) -> anyhow::Result<Golden> {
        let (_, header) = SafeTensors::read_metadata(bytes).context("not in the safetensors format")?;
        let metadata = header.metadata().clone().unwrap_or_default();
        let text = |key: &str| metadata.get(key).with_context(|| format!("its metadata has no `{key}`"));
        let number = |key: &str| -> anyhow::Result<i64> {
            let value = text(key)?;
            value.parse().with_context(|| format!("its metadata has {key} = `{value}`, not a whole number"))
        };
        let mix = Mix::parse(text("mix")?)?;
        let causal = match text("causal")?.to_lowercase().as_str() {
            "true" => true,
            "false" => false,
            other => bail!("its metadata has causal = `{other}`, neither true nor false"),
        };
        let config = AttentionConfig {
            d_model: number("d_model")?,
            heads: number("heads")?,
            max_length: number("max_len")?,
            terms: mix.terms.clone(),
            mixing: Mixing::Softmax,
            dropout: 0.0,
            causal,
        };
        config.check()?;
        let mut tensors = HashMap::new();
        for (name, view) in SafeTensors::deserialize(bytes).context("not in the safetensors format")?.tensors() {
            let kind = match (view.dtype(), name.as_str()) {
                (Dtype::I64, "lengths") => Kind::Int64,
                (Dtype::F64, _) if name != "lengths" => Kind::Double,
                (found, _) => bail!("`{name}` is of type {found:?}; lengths are I64, all others F64"),
            };
            let size: Vec<i64> = view.shape().iter().map(|&size| size as i64).collect();
            tensors.insert(name, Tensor::f_from_data_size(view.data(), &size, kind)?);
        }
        Ok(Golden { mix, config, tensors })
    }

    fn tensor(&self, name: &str, size: &[i64]) -> anyhow::Result<&Tensor> {
        let tensor = self.tensors.get(name).with_context(|| format!("it has no tensor `{name}`"))?;
        if tensor.size() != size {
            bail!("`{name}` has shape {:?}, but {size:?} is needed", tensor.size());
        }
        Ok(tensor)
    }

    /// The largest over all forms.
    fn errors(&self, device: Device, arithmetic: Arithmetic) -> anyhow::Result<BTreeMap<String, f64>> {
        let mut largest: BTreeMap<String, f64> = BTreeMap::new();
        let fused = native::takes(device, arithmetic.kind()).then_some(Form::Fused);
        for form in [Form::Plain, Form::Composed].into_iter().chain(fused) {
            for (name, error) in self.errors_of(form, device, arithmetic)? {
                let before = largest.entry(name).or_insert(0.0);
                if error.abs().total_cmp(&before.abs()).is_gt() {
                    *before = error;
                }
            }
        }
        Ok(largest)
    }

    fn errors_of(&self, form: Form, device: Device, arithmetic: Arithmetic) -> anyhow::Result<BTreeMap<String, f64>> {
        let mut store = VarStore::new(device);
        store.set_kind(arithmetic.kind());
        let layer = SelfAttention::new(&store.root(), &self.config)?.with_form(form);
        let variables = store.variables();
        for (name, variable) in &variables {
            let golden = self.tensor(&format!("weight.{name}"), &variable.size())?;
            no_grad(|| variable.shallow_clone().copy_(golden));
        }
        for name in self.tensors.keys().filter_map(|name| name.strip_prefix("weight.")) {
            if !variables.contains_key(name) {
                bail!("it has a weight `{name}`, which a layer of {} has not", self.mix);
            }
        }

        let x = self.tensors.get("x").context("it has no tensor `x`")?;
        let [batch, length, width] = x.size()[..] else { bail!("`x` has shape {:?}, not [B, L, d]", x.size()) };
        let like = (arithmetic.kind(), device);
        let x = x.to_device(device).to_kind(like.0).copy().set_requires_grad(true);
        let lengths = self.tensor("lengths", &[batch])?;
        let padding = Tensor::arange(length, (Kind::Int64, Device::Cpu)).ge_tensor(&lengths.unsqueeze(1));
        let padding = (padding.any().int64_value(&[]) != 0).then(|| padding.to_device(device));
        let in_bfloat16 = arithmetic == Arithmetic::Bfloat16;
        let out = device::with_bfloat16(in_bfloat16, || layer.forward(&x, padding.as_ref(), false))?;
        let size = [batch, length, width];
        (&out * self.tensor("grad_out", &size)?.to_device(device).to_kind(like.0)).sum(Kind::Double).backward();

        let difference = |ours: &Tensor, golden: &Tensor| difference(ours, golden, arithmetic);
        let mut errors = BTreeMap::new();
        errors.insert("out".to_string(), difference(&out, self.tensor("out", &size)?));
        errors.insert("grad.x".to_string(), difference(&x.grad(), self.tensor("grad.x", &size)?));
        for (name, variable) in variables.iter().filter(|(_, variable)| variable.requires_grad()) {
            let golden = self.tensor(&format!("grad.{name}"), &variable.size())?;
            errors.insert(format!("grad.{name}"), difference(&variable.grad(), golden));
        }
        for name in self.tensors.keys().filter(|name| name.starts_with("grad.")) {
            if !errors.contains_key(name) {
                bail!("it has a gradient `{name}`, but the layer of {} trains no such weight", self.mix);
            }
        }
        Ok(errors)
    }
}

/// The largest difference as [`Arithmetic::tolerances`] has it; NaN if either has one; all of `golden` if the gradient was
/// never made.
fn difference(ours: &Tensor, golden: &Tensor, arithmetic: Arithmetic) -> f64 {
    if golden.numel() == 0 {
        return 0.0;
    }
    let ours = match ours.defined() {
        true => ours.to_device(Device::Cpu).to_kind(Kind::Double),
        false => golden.zeros_like(),
    };
    let difference = (ours - golden).abs().max().double_value(&[]);
    match arithmetic {
        Arithmetic::Float64 => difference,
        _ => difference / golden.abs().max().double_value(&[]).max(1.0),
    }
}
