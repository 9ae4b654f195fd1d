//! The attention layer by values: what the golden files don't show.

mod core;
mod cross;
mod forms;
mod functions;
#[path = "../common/instructions.rs"]
mod instructions;
mod kernel;
mod layer;
mod mixing;
mod operators;
mod steps;

use synthesizer::attention::{AttentionConfig, Mixing, SelfAttention};
use synthesizer::experiment::Mix;
use tch::nn::VarStore;
use tch::{no_grad, Device, Kind, Tensor};

const D: i64 = 8;
const HEADS: i64 = 2;
const N: i64 = 6;

const MIXES: &[&str] = &[
    "V",
    "D",
    "R",
    "Rfix",
    "FR",
    "FD",
    "R+D",
    "D+V",
    "R+V",
    "Rfix+V",
    "FR+V",
    "FD+V",
    "R+D+V",
    "R+FR",
    "FR+FD",
    "V(rank=4)",
    "D(hidden=3)",
    "FR(k=2)",
    "FD(hidden=0)",
    "FD(hidden=2,a=3)",
];

/// Operators that can be causal; the kernel of LC and DC alone is wider than any sequence here but those of `steps`.
const CAUSAL_OPERATORS: &[&str] = &["LC", "LC(kernel=3)", "DC", "DC(kernel=3)", "Mixer"];

/// Operators for encoders.
const ENCODER_OPERATORS: &[&str] = &["Lin", "Lin(k=3)", "FFT"];

/// Every mix, with whether it can be causal.
fn all() -> impl Iterator<Item = (&'static str, bool)> {
    let causal = MIXES.iter().chain(CAUSAL_OPERATORS).map(|mix| (*mix, true));
    causal.chain(ENCODER_OPERATORS.iter().map(|mix| (*mix, false)))
}

fn config(mix: &str, causal: bool) -> AttentionConfig {
    AttentionConfig {
        d_model: D,
        heads: HEADS,
        max_length: N,
        terms: Mix::parse(mix).unwrap().terms,
        mixing: Mixing::Softmax,
        dropout: 0.0,
        causal,
    }
}

/// A float64 layer all of whose weights, biases and alphas too, are drawn from N(0, 0.5²).
fn layer(config: &AttentionConfig) -> (VarStore, SelfAttention) {
    let mut store = VarStore::new(Device::Cpu);
    store.set_kind(Kind::Double);
    let layer = SelfAttention::new(&store.root(), config).unwrap();
    shake(&store);
    (store, layer)
}

fn shake(store: &VarStore) {
    // Each test's thread would start threads of its own for tensors far too small to share out: many times slower.
    tch::set_num_threads(1);
    no_grad(|| {
        for mut variable in store.variables().into_values() {
            let _ = variable.normal_(0.0, 0.5);
        }
    });
}

fn set(store: &VarStore, name: &str, values: &Tensor) {
    let mut variable = store.variables().remove(name).unwrap_or_else(|| panic!("no weight {name}"));
    no_grad(|| variable.copy_(values));
}

fn random(size: &[i64]) -> Tensor {
    Tensor::randn(size, (Kind::Double, Device::Cpu))
}

fn doubles(tensor: &Tensor) -> Vec<f64> {
    Vec::try_from(tensor.contiguous().view([-1]).to_kind(Kind::Double)).unwrap()
}

fn distance(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!(a.size(), b.size());
    (a - b).abs().max().double_value(&[])
}

fn finite(tensor: &Tensor) -> bool {
    doubles(tensor).iter().all(|value| value.is_finite())
}

/// bool [rows, length] from the number of keys that may be seen.
fn padding(lengths: &[i64], length: i64) -> Tensor {
    let padded: Vec<bool> = lengths.iter().flat_map(|&end| (0..length).map(move |key| key >= end)).collect();
    Tensor::from_slice(&padded).view([lengths.len() as i64, length])
}
