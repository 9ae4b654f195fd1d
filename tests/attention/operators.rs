//! LC, DC, Lin, FFT and Mixer against their equations written out in Python (scripts/make_baseline_fixtures.py), and what
//! their weights and dropout are.

use crate::*;
use serde_json::Value;
use std::collections::HashMap;
use synthesizer::attention::AttentionError;
use tch::nn::Init;

fn tensor(value: &Value) -> Tensor {
    let numbers = |value: &Value| value.as_array().unwrap().clone();
    let values: Vec<f64> = numbers(&value["values"]).iter().map(|number| number.as_f64().unwrap()).collect();
    let shape: Vec<i64> = numbers(&value["shape"]).iter().map(|size| size.as_i64().unwrap()).collect();
    Tensor::from_slice(&values).view(&shape[..])
}

fn tensors(value: &Value) -> HashMap<&str, Tensor> {
    value.as_object().unwrap().iter().map(|(name, value)| (name.as_str(), tensor(value))).collect()
}

/// Output, gradients of the input and of every weight, and the matrix of weights. LC and DC are there with sequences shorter
/// than a kernel and over several blocks, all with padding and L < N, and with more heads than one.
#[test]
fn every_operator_is_its_equation() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/baselines");
    let (mut files, mut slopes, mut matrices) = (0, 0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let number = |key: &str| file[key].as_i64().unwrap();
        let (store, layer) = layer(&AttentionConfig {
            d_model: number("d_model"),
            heads: number("heads"),
            max_length: number("max_length"),
            ..config(file["mix"].as_str().unwrap(), file["causal"].as_bool().unwrap())
        });
        let weights = tensors(&file["weights"]);
        assert_eq!(store.variables().len(), weights.len(), "{name}: {:?}", store.variables().keys());
        for (weight, values) in &weights {
            set(&store, weight, values);
        }
        let x = tensor(&file["x"]).set_requires_grad(true);
        let mask = file["lengths"]
            .as_array()
            .map(|lengths| padding(&lengths.iter().map(|end| end.as_i64().unwrap()).collect::<Vec<_>>(), x.size()[1]));
        let out = layer.forward(&x, mask.as_ref(), true).unwrap();
        let error = distance(&out, &tensor(&file["out"]));
        assert!(error < 1e-12, "{name}: {error:e}");

        (out * tensor(&file["toward"])).sum(Kind::Double).backward();
        for (weight, wanted) in tensors(&file["gradients"]) {
            let gradient = if weight == "x" { x.grad() } else { store.variables()[weight].grad() };
            let error = distance(&gradient, &wanted);
            assert!(error < 1e-9, "{name}: the gradient of {weight} differs by {error:e}");
            slopes += 1;
        }
        if !file["matrix"].is_null() {
            let error = distance(&layer.weights(&x, mask.as_ref()).unwrap(), &tensor(&file["matrix"]));
            assert!(error < 1e-14, "{name}: weights differ by {error:e}");
            matrices += 1;
        }
        files += 1;
    }
    assert_eq!((files, slopes, matrices), (25, 127, 12));
}

#[test]
fn operators_without_weights_of_positions_say_so() {
    for mix in ["Lin(k=2)", "FFT"] {
        let (_store, layer) = layer(&config(mix, false));
        assert!(!layer.has_shares());
        let error = layer.weights(&random(&[1, N, D]), None).unwrap_err();
        assert_eq!(error, AttentionError::NoWeights { term: config(mix, false).terms[0].clone() });
        assert_eq!(error.to_string(), format!("{mix} has no attention weights to show"));
    }
    // those of Mixer are signed
    assert!(!layer(&config("Mixer", true)).1.has_shares());
    assert!(["LC", "DC", "V", "R+D"].iter().all(|mix| layer(&config(mix, true)).1.has_shares()));
}

#[test]
fn weights_start_as_designed() {
    let store = VarStore::new(Device::Cpu);
    let sizes = AttentionConfig { d_model: 64, heads: 4, max_length: 96, ..config("V", false) };
    let path = store.root();
    let terms = |mix: &str| Mix::parse(mix).unwrap().terms;
    for mix in ["LC", "DC(kernel=15)", "Lin", "Mixer"] {
        SelfAttention::new(
            &(&path / mix.split('(').next().unwrap()),
            &AttentionConfig { terms: terms(mix), ..sizes.clone() },
        )
        .unwrap();
    }
    for (name, shape, inputs, outputs) in [
        ("LC.lightweight_convolution.kernel", vec![4, 31], 31, 4 * 31),
        ("LC.lightweight_convolution.gate.weight", vec![64, 64], 64, 64),
        ("DC.dynamic_convolution.kernel.weight", vec![4 * 15, 64], 64, 4 * 15),
        ("Lin.linformer.e", vec![24, 96], 96, 24),
        ("Lin.linformer.f", vec![24, 96], 96, 24),
        ("Mixer.mixer.w", vec![96, 96], 96, 96),
    ] {
        let weight = &store.variables()[name];
        assert_eq!(weight.size(), shape, "{name}");
        let bound = (6.0 / (inputs + outputs) as f64).sqrt();
        let largest = weight.abs().max().double_value(&[]);
        assert!(largest <= bound * 1.000001 && largest > 0.9 * bound, "{name}: {largest} of {bound}");
    }
    assert!(!store.variables().contains_key("DC.dynamic_convolution.kernel.bias"));
}

/// One head whose value and output maps change nothing, and whose gate halves: on twice the unit matrix the output is the weights.
fn bare(mix: &str) -> SelfAttention {
    let (store, layer) = layer(&AttentionConfig { d_model: N, heads: 1, dropout: 0.25, ..config(mix, false) });
    for name in store.variables().keys().filter(|name| !name.ends_with("kernel") && !name.ends_with(".w")) {
        let unit = ["value.weight", "output.weight", "dynamic_convolution.kernel.weight"].contains(&name.as_str());
        let mut variable = store.variables().remove(name).unwrap();
        match unit && variable.size() == [N, N] {
            true => set(&store, name, &Tensor::eye(N, (Kind::Double, Device::Cpu))),
            false => no_grad(|| variable.init(Init::Const(0.0))),
        }
    }
    layer
}

#[test]
fn dropout_acts_on_the_taps_and_on_the_matrix() {
    let rows = 4000;
    for (mix, gated, shared) in [("LC(kernel=5)", true, true), ("DC(kernel=5)", true, false), ("Mixer", false, true)] {
        let layer = bare(mix);
        let unit = Tensor::eye(N, (Kind::Double, Device::Cpu)) * if gated { 2.0 } else { 1.0 };
        let weights = layer.weights(&unit.unsqueeze(0), None).unwrap().view([N, N]);
        let x = unit.expand([rows, N, N], false);
        let still = layer.forward(&x.narrow(0, 0, 2), None, false).unwrap();
        assert!(distance(&still, &weights.expand([2, N, N], false)) < 1e-14, "{mix}");
        let trained = layer.forward(&x, None, true).unwrap();
        let kept = trained.ne(0.0).to_kind(Kind::Double);
        assert!(distance(&trained, &(&kept * &weights / 0.75)) < 1e-14, "{mix}: dropped, or divided by what is kept");
        let alike = distance(&trained, &trained.narrow(0, 0, 1).expand_as(&trained)) == 0.0;
        assert_eq!(alike, shared, "{mix}: what all rows share drops for all");
        if mix.starts_with("LC") {
            // a tap that is dropped is dropped at every position: each diagonal is there or not
            let first = kept.get(0);
            for offset in -2..=2 {
                let diagonal = first.diagonal(offset, 0, 1);
                assert!(distance(&diagonal, &diagonal.get(0).expand_as(&diagonal)) == 0.0, "{mix}");
            }
        }
        if !shared {
            let share = kept.mean_dim(0, false, Kind::Double).masked_select(&weights.ne(0.0));
            let tolerance = 5.0 * (0.75 * 0.25 / rows as f64).sqrt();
            assert!(distance(&share, &share.full_like(0.75)) < tolerance, "{mix}");
        }
    }
}

#[test]
fn dropout_of_linformer_keeps_the_mean() {
    let rows = 4000;
    let (_store, layer) = layer(&AttentionConfig { dropout: 0.25, ..config("Lin(k=3)", false) });
    let x = random(&[1, N, D]);
    let still = layer.forward(&x, None, false).unwrap();
    let trained = layer.forward(&x.expand([rows, N, D], false), None, true).unwrap();
    let deviation = trained.std_dim(0, false, false).max().double_value(&[]);
    assert!(deviation > 1e-2, "each row drops its own: {deviation}");
    let mean = trained.mean_dim(0, true, Kind::Double);
    assert!(distance(&mean, &still) < 5.0 * deviation / (rows as f64).sqrt());
}
