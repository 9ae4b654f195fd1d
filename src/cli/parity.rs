//! `synthesizer parity`: runs the layer of golden files and compares outputs and gradients with what the files hold.

use crate::attention::{AttentionConfig, Form, Mixing, SelfAttention};
use crate::error::Outcome;
use crate::experiment::Mix;
use anyhow::{bail, Context};
use safetensors::{Dtype, SafeTensors};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use tch::nn::VarStore;
use tch::{no_grad, Device, Kind, Tensor};

/// The largest difference that counts as agreement, in float64.
pub const TOLERANCE: f64 = 1e-9;

/// Options of `parity`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Golden files (safetensors: a layer's mix and sizes, input, weights, output and gradients)
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// How far a layer is from its golden file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The file.
    pub file: PathBuf,
    /// Its mix.
    pub mix: String,
    /// The largest absolute difference in `out` and in each `grad.NAME`, by that name, over the plain, the composed and the
    /// fused form.
    pub errors: BTreeMap<String, f64>,
}

impl Comparison {
    /// The name and value of the largest error (NaN is larger than any) among names of which `of` holds.
    pub fn largest(&self, of: impl Fn(&str) -> bool) -> (&str, f64) {
        let errors = self.errors.iter().filter(|(name, _)| of(name)).map(|(name, error)| (name.as_str(), *error));
        errors.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())).unwrap_or(("nothing", 0.0))
    }

    /// Whether every error is within [`TOLERANCE`].
    pub fn agrees(&self) -> bool {
        self.errors.values().all(|error| *error <= TOLERANCE)
    }
}

/// Runs the subcommand. Errors: a file that can't be compared (exit code 2), one that differs (1).
pub fn run(args: Args) -> anyhow::Result<()> {
    // Golden layers are far too small to share out between threads.
    tch::set_num_threads(1);
    let comparisons = args.files.iter().map(|file| compare(file)).collect::<anyhow::Result<Vec<_>>>()?;
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
        return Err(Outcome::Failed(format!("{wrong} of {all} files differ by more than {TOLERANCE:e}")).into());
    }
    Ok(())
}

fn json(comparison: &Comparison) -> serde_json::Value {
    let (name, error) = comparison.largest(|_| true);
    serde_json::json!({
        "file": comparison.file,
        "mix": comparison.mix,
        "agrees": comparison.agrees(),
        "tolerance": TOLERANCE,
        "largest": { "name": name, "error": error },
        "errors": comparison.errors,
    })
}

/// Runs the layer of one golden file in float64 on the CPU. Errors: the file can't be read, or lacks something that a
/// golden file has, or holds weights that its mix has no place for.
pub fn compare(file: &Path) -> anyhow::Result<Comparison> {
    let bytes = std::fs::read(file).with_context(|| format!("can't read {}", file.display()))?;
    let golden = Golden::read(&bytes).with_context(|| format!("{} is not a golden file", file.display()))?;
    let errors = golden.errors().with_context(|| format!("{} can't be compared", file.display()))?;
    Ok(Comparison { file: file.to_path_buf(), mix: golden.mix.to_string(), errors })
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
    fn errors(&self) -> anyhow::Result<BTreeMap<String, f64>> {
        let mut largest: BTreeMap<String, f64> = BTreeMap::new();
        for form in [Form::Plain, Form::Composed, Form::Fused] {
            for (name, error) in self.errors_of(form)? {
                let before = largest.entry(name).or_insert(0.0);
                if error.abs().total_cmp(&before.abs()).is_gt() {
                    *before = error;
                }
            }
        }
        Ok(largest)
    }

    fn errors_of(&self, form: Form) -> anyhow::Result<BTreeMap<String, f64>> {
        let mut store = VarStore::new(Device::Cpu);
        store.set_kind(Kind::Double);
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
        let x = x.copy().set_requires_grad(true);
        let lengths = self.tensor("lengths", &[batch])?;
        let padding = Tensor::arange(length, (Kind::Int64, Device::Cpu)).ge_tensor(&lengths.unsqueeze(1));
        let padding = (padding.any().int64_value(&[]) != 0).then_some(padding);
        let out = layer.forward(&x, padding.as_ref(), false)?;
        let size = [batch, length, width];
        (&out * self.tensor("grad_out", &size)?).sum(Kind::Double).backward();

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

/// The largest absolute difference; NaN if either has one; all of `golden` if the gradient was never made.
fn difference(ours: &Tensor, golden: &Tensor) -> f64 {
    let difference = if ours.defined() { ours - golden } else { golden.shallow_clone() };
    if difference.numel() == 0 {
        return 0.0;
    }
    difference.abs().max().double_value(&[])
}
