//! What is special of each function.

use crate::*;
use synthesizer::attention::registry::{self, Shape};
use synthesizer::attention::{factorized_dense, Term};
use tch::nn::OptimizerConfig;

/// softmax over the last axis of h × L × L logits, in plain loops
fn softmax_rows(logits: &[f64], width: usize) -> Vec<f64> {
    let row = |row: &[f64]| {
        let total: f64 = row.iter().map(|value| value.exp()).sum();
        row.iter().map(|value| value.exp() / total).collect::<Vec<f64>>()
    };
    logits.chunks(width).flat_map(row).collect()
}

fn close(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12)
}

#[test]
fn factorized_random_is_a_product_whose_rows_differ_by_query() {
    let (store, layer) = layer(&config("FR(k=3)", false));
    let variables = store.variables();
    let (r1, r2) = (doubles(&variables["factorized_random.r1"]), doubles(&variables["factorized_random.r2"]));
    let at = |r: &[f64], head: usize, row: usize, k: usize| r[(head * 6 + row) * 3 + k];
    let mut logits = Vec::new();
    for head in 0..2 {
        for i in 0..5 {
            for j in 0..5 {
                logits.push((0..3).map(|k| at(&r1, head, i, k) * at(&r2, head, j, k)).sum());
            }
        }
    }
    let weights = doubles(&layer.weights(&random(&[1, 5, D]), None).unwrap());
    assert!(close(&weights, &softmax_rows(&logits, 5)));
    for head in weights.chunks(25) {
        let rows: Vec<&[f64]> = head.chunks(5).collect();
        for i in 0..5 {
            for j in 0..i {
                assert!(!close(rows[i], rows[j]), "queries {i} and {j} are alike");
            }
        }
    }
}

#[test]
fn factorized_dense_shows_every_product() {
    let store = VarStore::new(Device::Cpu);
    let (term, shape) = (Term::new("FD"), Shape { d_model: 4, heads: 1, max_length: 6 });
    let registry::Kind::Logits(build) = registry::find("FD").unwrap().kind else { panic!("FD makes logits") };
    let function = build(&store.root(), &term, &shape).unwrap();
    for name in ["wa", "wb"] {
        set(&store, name, &store.variables()[name].zeros_like());
    }
    // A = [1, 3], B = [1, 5, 25]: a·b = 6 products, all different.
    set(&store, "ba", &Tensor::from_slice(&[1f32, 3.0]).view([1, 2]));
    set(&store, "bb", &Tensor::from_slice(&[1f32, 5.0, 25.0]).view([1, 3]));
    let all = [1.0, 3.0, 5.0, 15.0, 25.0, 75.0];
    for length in 1..=6usize {
        let logits = doubles(&function.logits(&Tensor::ones([1, length as i64, 4], (Kind::Float, Device::Cpu))));
        assert_eq!(logits, all[..length].repeat(length));
    }
}

#[test]
fn factorized_dense_by_values() {
    for mix in ["FD", "FD(hidden=0)", "FD(a=3,hidden=5)", "FD(b=6)"] {
        let (store, layer) = layer(&config(mix, false));
        let options = factorized_dense::Options::of(&Mix::parse(mix).unwrap().terms[0], &config(mix, false).shape());
        let factorized_dense::Options { hidden, a, b } = options.unwrap();
        let variables = store.variables();
        let weight = |name: &str| doubles(&variables[&format!("factorized_dense.{name}")]);
        let (wa, ba, wb, bb) = (weight("wa"), weight("ba"), weight("wb"), weight("bb"));
        let (hidden, a, b, d) = (hidden as usize, a as usize, b as usize, D as usize);
        let x = random(&[1, 5, D]);
        let input = doubles(&x);
        let mut logits = Vec::new();
        for head in 0..2 {
            for position in input.chunks(d) {
                let z: Vec<f64> = if hidden == 0 {
                    position.to_vec()
                } else {
                    let (w, bias) = (weight("w0.weight"), weight("w0.bias"));
                    let unit = |unit: usize| (0..d).map(|i| w[unit * d + i] * position[i]).sum::<f64>() + bias[unit];
                    (head * hidden..(head + 1) * hidden).map(|index| unit(index).max(0.0)).collect()
                };
                let map = |w: &[f64], bias: &[f64], width: usize, at: usize| {
                    (0..z.len()).map(|i| z[i] * w[(head * z.len() + i) * width + at]).sum::<f64>()
                        + bias[head * width + at]
                };
                logits.extend((0..5).map(|j| map(&wa, &ba, a, j % a) * map(&wb, &bb, b, j / a)));
            }
        }
        assert!(close(&doubles(&layer.weights(&x, None).unwrap()), &softmax_rows(&logits, 5)), "{mix}");
    }
}

#[test]
fn factorized_dense_chooses_the_squarest_factors() {
    let term = Term::new("FD");
    for (n, a, b) in [(1, 1, 1), (6, 2, 3), (7, 1, 7), (8, 2, 4), (36, 6, 6), (64, 8, 8), (256, 16, 16), (512, 16, 32)]
    {
        let shape = Shape { d_model: 64, heads: 4, max_length: n };
        let options = factorized_dense::Options::of(&term, &shape).unwrap();
        assert_eq!(options, factorized_dense::Options { hidden: 16, a, b }, "{n}");
    }
}

#[test]
fn dot_product_of_low_rank_scales_by_its_rank() {
    let (store, layer) = layer(&config("V(rank=3)", false));
    let variables = store.variables();
    let x = random(&[1, 4, D]);
    let project = |name: &str| {
        let weight = &variables[&format!("dot_product.{name}.weight")];
        assert_eq!(weight.size(), [HEADS * 3, D]);
        doubles(&(x.matmul(&weight.tr()) + &variables[&format!("dot_product.{name}.bias")]))
    };
    let (queries, keys) = (project("query"), project("key"));
    let mut logits = Vec::new();
    for head in 0..2 {
        for i in 0..4 {
            for j in 0..4 {
                let product: f64 = (0..3).map(|r| queries[i * 6 + head * 3 + r] * keys[j * 6 + head * 3 + r]).sum();
                logits.push(product / 3f64.sqrt());
            }
        }
    }
    assert!(close(&doubles(&layer.weights(&x, None).unwrap()), &softmax_rows(&logits, 4)));
}

#[test]
fn a_cut_random_matrix_is_a_smaller_one() {
    for mix in ["R", "Rfix", "FR", "D", "V", "R+D", "R+V", "D(hidden=3)+FR"] {
        let (large, long) = layer(&config(mix, true));
        let (small, short) = layer(&AttentionConfig { max_length: 4, ..config(mix, true) });
        for (name, variable) in small.variables() {
            let mut values = large.variables().remove(&name).unwrap();
            for (axis, size) in variable.size().into_iter().enumerate() {
                values = values.narrow(axis as i64, 0, size);
            }
            set(&small, &name, &values);
        }
        let x = random(&[2, 4, D]);
        let (a, b) = (long.forward(&x, None, false).unwrap(), short.forward(&x, None, false).unwrap());
        assert!(distance(&a, &b) < 1e-13, "{mix}");
    }
}

#[test]
fn random_is_one_matrix_a_head_shared_by_the_batch() {
    let (store, layer) = layer(&config("R", false));
    let variables = store.variables();
    assert_eq!(variables["random.r"].size(), [HEADS, N, N]);
    assert_eq!(variables.keys().filter(|name| name.starts_with("random")).count(), 1);
    let weights = layer.weights(&random(&[3, N, D]), None).unwrap();
    let again = layer.weights(&random(&[1, N, D]), None).unwrap();
    let wanted = softmax_rows(&doubles(&variables["random.r"]), N as usize);
    for row in 0..3 {
        assert!(close(&doubles(&weights.get(row)), &wanted));
    }
    assert!(close(&doubles(&again), &wanted));
}

#[test]
fn fixed_random_is_saved_and_never_moves() {
    for (mix, trained) in [("R", true), ("Rfix", false), ("R+V", true), ("Rfix+V", false)] {
        let (store, layer) = layer(&config(mix, true));
        let r = store.variables().remove("random.r").unwrap();
        assert_eq!(r.requires_grad(), trained, "{mix}");
        assert_eq!(store.trainable_variables().len(), store.variables().len() - usize::from(!trained), "{mix}");
        let before: Vec<(String, Tensor)> = store.variables().into_iter().map(|(name, v)| (name, v.copy())).collect();
        let mut optimizer = tch::nn::Sgd::default().build(&store, 0.1).unwrap();
        for _ in 0..3 {
            optimizer
                .backward_step(&layer.forward(&random(&[2, N, D]), None, true).unwrap().square().sum(Kind::Double));
        }
        for (name, old) in before {
            let moved = distance(&store.variables()[&name], &old) > 0.0;
            assert_eq!(moved, trained || name != "random.r", "{mix}: {name}");
        }
        let file = tempfile::NamedTempFile::with_suffix(".safetensors").unwrap();
        store.save(file.path()).unwrap();
        let saved = Tensor::read_safetensors(file.path()).unwrap();
        let saved = &saved.iter().find(|(name, _)| name == "random.r").unwrap().1;
        assert_eq!(distance(saved, &r.detach()), 0.0);
    }
}

#[test]
fn the_registry_is_sound() {
    let entries = registry::FUNCTIONS;
    for (index, entry) in entries.iter().enumerate() {
        assert!(entries[..index].iter().all(|earlier| earlier.name != entry.name), "{} twice", entry.name);
        assert!(!entry.summary.is_empty() && !entry.weights.contains('.'));
        // Alone with its defaults every function makes a layer whose weights lie under its own name.
        let (store, layer) = layer(&config(entry.name, entry.can_be_causal()));
        assert!(layer.mixing_weights().is_none());
        assert_eq!(layer.term_names(), [entry.name]);
        let known = |name: &str| {
            ["value.", "output.", &format!("{}.", entry.weights)].iter().any(|start| name.starts_with(start))
        };
        assert!(store.variables().keys().all(|name| known(name)), "{}", entry.name);
    }
}
