//! Checkpoints: safetensors files written whole or not at all.
//!
//! `last.safetensors` holds all that the next step depends on; `best.safetensors` and `step-N.safetensors` hold weights
//! only. LibTorch is seeded at every step from (run seed, step) and the data order is a function of (seed, epoch), so
//! there is no generator state to save.

use super::adam::Adam;
use crate::files::write_atomically;
use anyhow::{bail, Context, Result};
use safetensors::tensor::{Dtype, Metadata, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use tch::{nn, Kind, Tensor};

/// Where training stands after a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Steps done.
    pub step: u64,
    /// Epoch of the next batch, from 0.
    pub epoch: u64,
    /// Number of the next batch in its epoch.
    pub batch: usize,
    /// Step and dev loss of the best evaluation.
    pub best: Option<(u64, Exact)>,
    /// Steps of evaluations whose weights are kept for averaging.
    pub kept: Vec<u64>,
    /// Summed loss since the last line of the log.
    pub log_loss: Exact,
    /// Predicted tokens since the last line of the log.
    pub log_tokens: u64,
    /// Predicted tokens in all.
    pub tokens: u64,
    /// Seconds spent training, over all sessions.
    pub seconds: f64,
    /// Of those, in steps: no evaluations, no checkpoints.
    #[serde(default)]
    pub step_seconds: f64,
    /// Hash of the resolved config.
    pub config_hash: String,
    /// Hash of the data.
    #[serde(default)]
    pub data_hash: String,
}

/// A float that survives JSON to the bit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(from = "u64", into = "u64")]
pub struct Exact(pub f64);

impl From<u64> for Exact {
    fn from(bits: u64) -> Self {
        Self(f64::from_bits(bits))
    }
}

impl From<Exact> for u64 {
    fn from(value: Exact) -> Self {
        value.0.to_bits()
    }
}

const STATE: &str = "state";
const FIRST_MOMENT: &str = "adam.first_moment";
const SECOND_MOMENT: &str = "adam.second_moment";

/// The full checkpoint in a run's folder.
pub fn last_file(folder: &Path) -> PathBuf {
    folder.join("checkpoint/last.safetensors")
}

/// Weights of the best evaluation.
pub fn best_file(folder: &Path) -> PathBuf {
    folder.join("checkpoint/best.safetensors")
}

/// Weights after `step`, kept for averaging.
pub fn step_file(folder: &Path, step: u64) -> PathBuf {
    folder.join(format!("checkpoint/step-{step}.safetensors"))
}

/// The weights that were tested: what `generate` loads.
pub fn final_file(folder: &Path) -> PathBuf {
    folder.join("checkpoint/final.safetensors")
}

/// Writes weights, and with `adam` the optimizer's moments too.
pub fn save(path: &Path, variables: &nn::VarStore, adam: Option<&Adam>, state: &State) -> Result<()> {
    let mut tensors = named_weights(variables);
    if let Some(adam) = adam {
        tensors.insert(FIRST_MOMENT.into(), adam.first.shallow_clone());
        tensors.insert(SECOND_MOMENT.into(), adam.second.shallow_clone());
    }
    write(path, &tensors, state)
}

/// Loads a full checkpoint into variables and optimizer.
pub fn load(path: &Path, variables: &nn::VarStore, adam: &mut Adam) -> Result<State> {
    let file = read(path)?;
    copy_weights(path, &file.tensors, variables)?;
    for (name, target) in [(FIRST_MOMENT, &mut adam.first), (SECOND_MOMENT, &mut adam.second)] {
        copy(path, &file.tensors, name, target)?;
    }
    Ok(file.state)
}

/// Where a checkpoint stands: reads the header alone, which safetensors put first, after its length in 8 bytes.
pub fn load_state(path: &Path) -> Result<State> {
    let mut file = File::open(path).with_context(|| cannot_read(path))?;
    let size = file.metadata().with_context(|| cannot_read(path))?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length).with_context(|| broken(path))?;
    let length = u64::from_le_bytes(length);
    // a length that no file has must not be allocated
    let data = size.checked_sub(8).and_then(|rest| rest.checked_sub(length)).with_context(|| broken(path))?;
    let mut header = Vec::new();
    file.take(length).read_to_end(&mut header).with_context(|| cannot_read(path))?;
    let header: Metadata = serde_json::from_slice(&header).with_context(|| broken(path))?;
    if header.data_len() as u64 != data {
        bail!(broken(path));
    }
    state(path, &header)
}

/// Loads weights alone.
pub fn load_weights(path: &Path, variables: &nn::VarStore) -> Result<()> {
    copy_weights(path, &read(path)?.tensors, variables)
}

/// Sets the variables to the mean of several files' weights.
pub fn load_average(paths: &[PathBuf], variables: &nn::VarStore) -> Result<()> {
    let mut sums: BTreeMap<String, Tensor> = BTreeMap::new();
    for path in paths {
        for (name, tensor) in read(path)?.tensors {
            let tensor = tensor.to_kind(Kind::Double);
            match sums.get_mut(&name) {
                Some(sum) => *sum += tensor,
                None => drop(sums.insert(name, tensor)),
            }
        }
    }
    let scale = 1.0 / paths.len() as f64;
    let mean = sums.into_iter().map(|(name, sum)| (name, sum * scale)).collect();
    copy_weights(paths.first().map_or(Path::new(""), PathBuf::as_path), &mean, variables)
}

struct Contents {
    tensors: BTreeMap<String, Tensor>,
    state: State,
}

/// Every variable as files name it: `weight.NAME`.
pub fn named_weights(variables: &nn::VarStore) -> BTreeMap<String, Tensor> {
    variables.variables().into_iter().map(|(name, tensor)| (format!("weight.{name}"), tensor)).collect()
}

fn write(path: &Path, tensors: &BTreeMap<String, Tensor>, state: &State) -> Result<()> {
    let metadata = HashMap::from([(STATE.to_string(), serde_json::to_string(state)?)]);
    write_tensors(path, tensors, metadata).with_context(|| format!("checkpoint at step {}", state.step))
}

/// Writes a safetensors file of float and int64 tensors, whole or not at all.
pub fn write_tensors(path: &Path, tensors: &BTreeMap<String, Tensor>, metadata: HashMap<String, String>) -> Result<()> {
    let raw = tensors
        .iter()
        .map(|(name, tensor)| {
            let tensor = tensor.detach().to_device(tch::Device::Cpu).contiguous();
            let shape: Vec<usize> = tensor.size().iter().map(|&size| size as usize).collect();
            let mut bytes = vec![0u8; tensor.numel() * tensor.kind().elt_size_in_bytes()];
            tensor.f_copy_data_u8(&mut bytes, tensor.numel())?;
            Ok((name.clone(), dtype(tensor.kind())?, shape, bytes))
        })
        .collect::<Result<Vec<_>>>()?;
    let views = raw
        .iter()
        .map(|(name, dtype, shape, bytes)| Ok((name.as_str(), TensorView::new(*dtype, shape.clone(), bytes)?)))
        .collect::<Result<Vec<_>>>()?;
    write_atomically(path, &safetensors::serialize(views, Some(metadata))?)
}

fn read(path: &Path) -> Result<Contents> {
    let bytes = std::fs::read(path).with_context(|| cannot_read(path))?;
    let (_, header) = SafeTensors::read_metadata(&bytes).with_context(|| broken(path))?;
    let state = state(path, &header)?;
    let file = SafeTensors::deserialize(&bytes).with_context(|| broken(path))?;
    let tensors = file
        .tensors()
        .into_iter()
        .map(|(name, view)| {
            let shape: Vec<i64> = view.shape().iter().map(|&size| size as i64).collect();
            Ok((name, Tensor::f_from_data_size(view.data(), &shape, kind(view.dtype())?)?))
        })
        .collect::<Result<_>>()?;
    Ok(Contents { tensors, state })
}

fn state(path: &Path, header: &Metadata) -> Result<State> {
    let state = header.metadata().as_ref().and_then(|metadata| metadata.get(STATE));
    serde_json::from_str(state.with_context(|| broken(path))?).with_context(|| broken(path))
}

fn cannot_read(path: &Path) -> String {
    format!("{}: cannot read this checkpoint", path.display())
}

fn broken(path: &Path) -> String {
    format!("{}: not a whole checkpoint; remove it, or start again with --fresh", path.display())
}

fn copy_weights(path: &Path, tensors: &BTreeMap<String, Tensor>, variables: &nn::VarStore) -> Result<()> {
    for (name, mut target) in named_weights(variables) {
        copy(path, tensors, &name, &mut target)?;
    }
    Ok(())
}

fn copy(path: &Path, tensors: &BTreeMap<String, Tensor>, name: &str, target: &mut Tensor) -> Result<()> {
    let Some(tensor) = tensors.get(name) else { bail!("{}: has no tensor {name:?}", path.display()) };
    if tensor.size() != target.size() {
        bail!("{}: {name} has shape {:?}, the model wants {:?}", path.display(), tensor.size(), target.size());
    }
    tch::no_grad(|| target.f_copy_(tensor))?;
    Ok(())
}

fn dtype(kind: Kind) -> Result<Dtype> {
    Ok(match kind {
        Kind::Float => Dtype::F32,
        Kind::Double => Dtype::F64,
        Kind::Int64 => Dtype::I64,
        kind => bail!("a checkpoint can't hold {kind:?}"),
    })
}

fn kind(dtype: Dtype) -> Result<Kind> {
    Ok(match dtype {
        Dtype::F32 => Kind::Float,
        Dtype::F64 => Kind::Double,
        Dtype::I64 => Kind::Int64,
        dtype => bail!("a checkpoint can't hold {dtype:?}"),
    })
}
