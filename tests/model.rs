//! Models by values: incremental steps, padding, tied softmax, flat parameters.

use synthesizer::attention::Mixing;
use synthesizer::experiment::Mix;
use synthesizer::model::language_model::LanguageModel;
use synthesizer::model::seq2seq::Seq2Seq;
use synthesizer::model::TransformerConfig;
use synthesizer::train::parameters::FlatParameters;
use tch::{nn, Device, IndexOp, Kind, Tensor};

const MIXES: [&str; 9] = ["V", "Rfix", "R", "FR", "D", "FD", "R+D", "D+V", "R+V"];

fn config(mix: &str) -> TransformerConfig {
    TransformerConfig {
        vocabulary: 11,
        d_model: 16,
        heads: 4,
        encoder_layers: 2,
        decoder_layers: 2,
        d_ff: 24,
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

fn close(a: &Tensor, b: &Tensor, what: &str) {
    let difference = (a - b).abs().max().double_value(&[]);
    assert!(difference < 1e-10, "{what}: differ by {difference}");
}

#[test]
fn weight_decay_is_of_matrices_and_tables_alone() {
    let variables = double_store(5);
    let _model = LanguageModel::new(&variables.root(), &config("D+FD+R")).unwrap();
    let decayed = FlatParameters::new(&variables).decayed;
    let mut offset = 0;
    for (name, tensor) in synthesizer::train::parameters::trainable(&variables) {
        let count = tensor.numel() as i64;
        let got = decayed.narrow(0, offset, count).mean(Kind::Double).double_value(&[]);
        let last = name.rsplit('.').next().unwrap();
        let expected = match last {
            "bias" | "b2" | "ba" | "bb" | "alpha" => 0.0,
            "weight" if name.contains("norm") => 0.0,
            "weight" | "w2" | "wa" | "wb" | "r" | "table" => 1.0,
            _ => panic!("{name}: matrix or not?"),
        };
        assert_eq!(got, expected, "{name} {:?}", tensor.size());
        offset += count;
    }
    assert_eq!(decayed.size(), [offset]);
}

#[test]
fn steps_give_what_the_whole_prefix_gives() {
    for mix in MIXES {
        let variables = double_store(3);
        let model = Seq2Seq::new(&variables.root(), &config(mix)).unwrap();
        let source = Tensor::from_slice(&[4i64, 5, 6, 2, 7, 2, 0, 0]).view([2, 4]);
        let target = Tensor::from_slice(&[1i64, 8, 9, 10, 4, 1, 5, 5, 6, 7]).view([2, 5]);
        let memory = model.encode(&source, Some(source.eq(0)), false).unwrap();
        let whole = model.logits(&model.decode(&target, &memory, false).unwrap());
        let mut state = model.start(&memory).unwrap();
        for position in 0..5 {
            let step = model.step(&target.i((.., position)), &mut state).unwrap();
            close(&step, &whole.i((.., position)), &format!("{mix} at {position}"));
        }
        // rows swapped half-way must go on as the other row
        let mut state = model.start(&memory).unwrap();
        for position in 0..2 {
            let _ = model.step(&target.i((.., position)), &mut state).unwrap();
        }
        let swap = Tensor::from_slice(&[1i64, 0]);
        state.reorder(&swap);
        let step = model.step(&target.index_select(0, &swap).i((.., 2)), &mut state).unwrap();
        close(&step, &whole.index_select(0, &swap).i((.., 2)), &format!("{mix} reordered"));
    }
}

#[test]
fn a_language_models_steps_give_what_the_whole_prefix_gives() {
    for mix in MIXES {
        let variables = double_store(4);
        let model = LanguageModel::new(&variables.root(), &config(mix)).unwrap();
        let tokens = Tensor::from_slice(&[1i64, 8, 9, 10, 4, 5, 6, 7]).view([1, 8]);
        let whole = model.logits(&model.forward(&tokens, false).unwrap());
        let mut state = model.start().unwrap();
        for position in 0..8 {
            let step = model.step(&tokens.i((.., position)), &mut state).unwrap();
            close(&step, &whole.i((.., position)), &format!("{mix} at {position}"));
        }
        assert!(model.step(&tokens.i((.., 0)), &mut state).is_err(), "{mix}: a ninth token does not fit N = 8");
    }
}

#[test]
fn parameters_are_counted_without_making_them() {
    for mix in MIXES {
        for cross in [true, false] {
            let mut config = config(mix);
            let variables = double_store(2);
            if cross {
                Seq2Seq::new(&variables.root(), &config).unwrap();
            } else {
                config.encoder_layers = 0;
                LanguageModel::new(&variables.root(), &config).unwrap();
            }
            let counted = synthesizer::model::count_parameters(&variables);
            assert_eq!(config.parameters(cross).unwrap(), counted, "{mix}");
        }
    }
}

#[test]
fn padding_changes_nothing() {
    for mix in MIXES {
        let variables = double_store(5);
        let model = Seq2Seq::new(&variables.root(), &config(mix)).unwrap();
        let target = Tensor::from_slice(&[1i64, 8, 9]).view([1, 3]);
        let short = Tensor::from_slice(&[4i64, 5, 2]).view([1, 3]);
        let padded = Tensor::from_slice(&[4i64, 5, 2, 0, 0]).view([1, 5]);
        let memory = model.encode(&short, None, false).unwrap();
        let bare = model.decode(&target, &memory, false).unwrap();
        let memory = model.encode(&padded, Some(padded.eq(0)), false).unwrap();
        close(&model.decode(&target, &memory, false).unwrap(), &bare, mix);
    }
}

#[test]
fn flat_parameters_are_the_models_own() {
    let variables = double_store(6);
    let model = LanguageModel::new(&variables.root(), &config("Rfix+D")).unwrap();
    let tokens = Tensor::from_slice(&[1i64, 8, 9, 10]).view([1, 4]);
    let loss = || model.logits(&model.forward(&tokens, false).unwrap()).square().sum(Kind::Double);
    // the reference: ordinary autograd, before anything is moved
    loss().backward();
    let expected: Vec<(String, Tensor)> = variables
        .variables()
        .into_iter()
        .filter(|(_, tensor)| tensor.requires_grad())
        .map(|(name, tensor)| (name, tensor.grad().copy()))
        .collect();
    for mut tensor in variables.trainable_variables() {
        tensor.zero_grad();
    }
    let before = loss().double_value(&[]);
    let mut flat = FlatParameters::new(&variables);
    assert_eq!(loss().double_value(&[]), before, "moving the parameters changes no value");
    let count: usize = expected.iter().map(|(_, tensor)| tensor.numel()).sum();
    assert_eq!(flat.values.numel(), count, "the fixed matrix is not among them");
    // twice, as accumulation does
    loss().backward();
    loss().backward();
    let variables_by_name = variables.variables();
    for (name, gradient) in &expected {
        close(&variables_by_name[name].grad(), &(gradient * 2.0), name);
    }
    let norm: f64 =
        expected.iter().map(|(_, g)| (g * 2.0).square().sum(Kind::Double).double_value(&[])).sum::<f64>().sqrt();
    let (found, scale) = flat.clip(1.0).unwrap();
    assert!((found.value().unwrap() - norm).abs() < 1e-9 * norm);
    assert!((scale.value().unwrap() * norm - 1.0).abs() < 1e-6, "clipped to 1");
    let unlimited = [0.0, 1e9].map(|limit| flat.clip(limit).unwrap().1.value().unwrap());
    assert_eq!(unlimited, [1.0, 1.0]);
    flat.zero_gradients();
    assert_eq!(variables_by_name["embedding.table"].grad().abs().sum(Kind::Double).double_value(&[]), 0.0);
    // a step on the flat buffer moves the model
    tch::no_grad(|| {
        let _ = flat.values.g_mul_scalar_(0.5);
    });
    assert!((loss().double_value(&[]) - before).abs() > 1e-6);
}
