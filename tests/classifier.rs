//! The classifier by values: a case written out, padding, gradients, the count of its parameters.

use synthesizer::attention::Mixing;
use synthesizer::experiment::Mix;
use synthesizer::model::classifier::Classifier;
use synthesizer::model::TransformerConfig;
use tch::{nn, Device, Kind, Tensor};

const MIXES: [&str; 9] = ["V", "Rfix", "R", "FR", "D", "FD", "R+D", "FR+V", "R+V"];

fn config(mix: &str, encoder_layers: i64, d_model: i64) -> TransformerConfig {
    TransformerConfig {
        vocabulary: 7,
        d_model,
        heads: 2,
        encoder_layers,
        decoder_layers: 0,
        d_ff: 6,
        max_length: 8,
        dropout: 0.3,
        attention_dropout: 0.2,
        relu_dropout: 0.1,
        terms: mix.parse::<Mix>().unwrap().terms,
        mixing: Mixing::Softmax,
    }
}

fn double_store(seed: i64) -> nn::VarStore {
    tch::manual_seed(seed);
    let mut variables = nn::VarStore::new(Device::Cpu);
    variables.set_kind(Kind::Double);
    variables
}

fn set(variables: &nn::VarStore, name: &str, values: &[f64]) {
    let mut variable = variables.variables().remove(name).unwrap_or_else(|| panic!("no variable {name}"));
    tch::no_grad(|| variable.copy_(&Tensor::from_slice(values).view(&variable.size()[..])));
}

/// No layer but the last norm: what is pooled, and the head, by hand.
#[test]
fn a_small_case_by_hand() {
    let variables = double_store(1);
    let model = Classifier::new(&variables.root(), &config("V", 0, 2), 3).unwrap();
    // √2·E[token] + (sin p, cos p)
    set(&variables, "embedding.table", &[9.0, 9.0, 3.0, 0.0, 0.0, 5.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    set(&variables, "encoder.norm.weight", &[2.0, 3.0]);
    set(&variables, "encoder.norm.bias", &[0.5, -0.5]);
    set(&variables, "head.hidden.weight", &[0.2, 0.1, -0.3, 0.4]);
    set(&variables, "head.hidden.bias", &[0.05, -0.1]);
    set(&variables, "head.output.weight", &[1.0, 2.0, -1.0, 0.5, 0.0, 3.0]);
    set(&variables, "head.output.bias", &[0.1, 0.2, 0.3]);
    let norm = |x: f64, y: f64| {
        // the mean taken off, two numbers are ±δ
        let delta = (x - y) / 2.0;
        let unit = delta / (delta * delta + 1e-6).sqrt();
        [2.0 * unit + 0.5, -3.0 * unit - 0.5]
    };
    let root = 2f64.sqrt();
    let rows =
        [norm(3.0 * root, 1.0), norm(1f64.sin(), 5.0 * root + 1f64.cos()), norm(4.0 * root + 2f64.sin(), 2f64.cos())];
    let head = |rows: &[[f64; 2]]| {
        let mean = [0, 1].map(|at| rows.iter().map(|row| row[at]).sum::<f64>() / rows.len() as f64);
        let hidden = [0.2 * mean[0] + 0.1 * mean[1] + 0.05, -0.3 * mean[0] + 0.4 * mean[1] - 0.1].map(f64::tanh);
        [hidden[0] + 2.0 * hidden[1] + 0.1, 0.5 * hidden[1] - hidden[0] + 0.2, 3.0 * hidden[1] + 0.3]
    };
    let tokens = Tensor::from_slice(&[1i64, 2, 3, 1, 2, 0]).view([2, 3]);
    let logits = model.forward(&tokens, Some(&tokens.eq(0)), false).unwrap();
    assert_eq!(logits.size(), [2, 3]);
    for (row, expected) in [head(&rows), head(&rows[..2])].iter().enumerate() {
        for (column, value) in expected.iter().enumerate() {
            let got = logits.double_value(&[row as i64, column as i64]);
            assert!((got - value).abs() < 1e-12, "row {row}, class {column}: {got} is not {value}");
        }
    }
}

#[test]
fn padding_changes_nothing() {
    for mix in MIXES {
        let variables = double_store(2);
        let model = Classifier::new(&variables.root(), &config(mix, 2, 8), 3).unwrap();
        let bare = model.forward(&Tensor::from_slice(&[1i64, 5, 6, 2]).view([1, 4]), None, false).unwrap();
        for more in 1..=4 {
            let tokens = [vec![1i64, 5, 6, 2], vec![0; more]].concat();
            let tokens = Tensor::from_slice(&tokens).view([1, -1]);
            let logits = model.forward(&tokens, Some(&tokens.eq(0)), false).unwrap();
            let difference = (&logits - &bare).abs().max().double_value(&[]);
            assert!(difference < 1e-12, "{mix}: {more} more positions change the logits by {difference}");
        }
        // and beside a longer row
        let tokens = Tensor::from_slice(&[1i64, 5, 6, 2, 0, 0, 1, 3, 4, 4, 5, 2]).view([2, 6]);
        let logits = model.forward(&tokens, Some(&tokens.eq(0)), false).unwrap();
        let difference = (logits.narrow(0, 0, 1) - &bare).abs().max().double_value(&[]);
        assert!(difference < 1e-12, "{mix}: beside a longer row the logits differ by {difference}");
        assert!(model.forward(&Tensor::ones([1, 9], (Kind::Int64, Device::Cpu)), None, false).is_err(), "{mix}: N = 8");
    }
}

#[test]
fn gradients_are_finite_differences() {
    for mix in ["V", "FR", "R+V", "FD+FR+V"] {
        let variables = double_store(3);
        let model = Classifier::new(&variables.root(), &config(mix, 1, 4), 3).unwrap();
        let tokens = Tensor::from_slice(&[1i64, 5, 6, 2, 1, 4, 2, 0]).view([2, 4]);
        let wanted = Tensor::from_slice(&[2i64, 0]);
        let loss = || {
            let logits = model.forward(&tokens, Some(&tokens.eq(0)), false).unwrap();
            logits.cross_entropy_loss::<Tensor>(&wanted, None, tch::Reduction::Sum, -100, 0.1)
        };
        loss().backward();
        for (name, mut variable) in variables.variables() {
            let gradient = variable.grad();
            let start = variable.copy().detach();
            let along = |step: f64, direction: &Tensor, variable: &mut Tensor| {
                tch::no_grad(|| {
                    variable.copy_(&(&start + direction * step));
                    loss().double_value(&[])
                })
            };
            // of length 1: along a longer one the differences' own error would come near the tolerance
            let direction = start.randn_like();
            let direction = &direction / direction.norm();
            let difference = (along(1e-5, &direction, &mut variable) - along(-1e-5, &direction, &mut variable)) / 2e-5;
            tch::no_grad(|| variable.copy_(&start));
            let expected = (&gradient * &direction).sum(Kind::Double).double_value(&[]);
            let tolerance = 2e-8 * (1.0 + expected.abs());
            assert!(
                (difference - expected).abs() < tolerance,
                "{mix}, {name}: {expected}, by differences {difference}"
            );
        }
    }
}

#[test]
fn dropout_acts_in_training_only() {
    let variables = double_store(4);
    let model = Classifier::new(&variables.root(), &config("R+V", 1, 8), 2).unwrap();
    let tokens = Tensor::from_slice(&[1i64, 5, 6, 2]).view([1, 4]);
    let logits = |train| model.forward(&tokens, None, train).unwrap();
    assert!(logits(false).equal(&logits(false)));
    assert!(!logits(true).equal(&logits(true)));
}

#[test]
fn parameters_are_counted_without_making_them() {
    for mix in MIXES {
        for (layers, outputs) in [(1, 1), (1, 2), (2, 5)] {
            let variables = double_store(5);
            let config = config(mix, layers, 8);
            Classifier::new(&variables.root(), &config, outputs).unwrap();
            let counted = synthesizer::model::count_parameters(&variables);
            assert_eq!(config.classifier_parameters(outputs as u64).unwrap(), counted, "{mix}, {layers} layers");
        }
    }
}
