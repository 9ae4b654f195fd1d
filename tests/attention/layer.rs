//! Masks, shapes and paths of the layer, for every mix.

use crate::*;
use synthesizer::attention::AttentionError;

#[test]
fn a_change_never_reaches_earlier_outputs() {
    for mix in MIXES.iter().chain(CAUSAL_OPERATORS) {
        let (_store, layer) = layer(&config(mix, true));
        let x = random(&[2, N, D]);
        let before = layer.forward(&x, None, false).unwrap();
        for t in 0..N {
            let changed = x.copy();
            changed.narrow(1, t, 1).copy_(&random(&[2, 1, D]));
            let after = layer.forward(&changed, None, false).unwrap();
            if t > 0 {
                let leak = distance(&before.narrow(1, 0, t), &after.narrow(1, 0, t));
                assert!(leak < 1e-13, "{mix}: position {t} leaks {leak:e} back");
            }
            assert!(distance(&before.narrow(1, t, 1), &after.narrow(1, t, 1)) > 1e-6, "{mix}: {t} does nothing");
        }
    }
}

#[test]
fn without_a_causal_mask_a_change_reaches_every_output() {
    for (mix, _) in all().filter(|(mix, _)| !mix.contains("kernel")) {
        let (_store, layer) = layer(&config(mix, false));
        let x = random(&[1, N, D]);
        let changed = x.copy();
        changed.narrow(1, N - 1, 1).copy_(&random(&[1, 1, D]));
        let (before, after) = (layer.forward(&x, None, false).unwrap(), layer.forward(&changed, None, false).unwrap());
        for t in 0..N {
            assert!(distance(&before.narrow(1, t, 1), &after.narrow(1, t, 1)) > 1e-9, "{mix}: {t}");
        }
    }
}

#[test]
fn padded_and_later_keys_weigh_exactly_nothing_and_rows_sum_to_one() {
    let lengths = [N, 4, 1, 0];
    for mix in MIXES {
        for causal in [false, true] {
            let (_store, layer) = layer(&config(mix, causal));
            let x = random(&[4, N, D]);
            for masked in [false, true] {
                let mask = masked.then(|| padding(&lengths, N));
                let weights = layer.weights(&x, mask.as_ref()).unwrap();
                assert_eq!(weights.size(), [4, HEADS, N, N]);
                for (row, &end) in lengths.iter().enumerate() {
                    for head in 0..HEADS {
                        for query in 0..N {
                            let place = format!("{mix}, causal {causal}, row {row}, head {head}, query {query}");
                            let seen = |key: i64| (!causal || key <= query) && (!masked || key < end);
                            let mut sum = 0.0;
                            for key in 0..N {
                                let weight = weights.double_value(&[row as i64, head, query, key]);
                                assert_eq!(weight > 0.0, seen(key), "{place}, key {key}: {weight}");
                                assert!(seen(key) || weight == 0.0, "{place}, key {key}: {weight}");
                                sum += weight;
                            }
                            let wanted = if (0..N).any(seen) { 1.0 } else { 0.0 };
                            assert!((sum - wanted).abs() < 1e-12, "{place}: {sum}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn padded_positions_do_not_reach_the_others() {
    for (mix, _) in all() {
        let (_store, layer) = layer(&config(mix, false));
        let mask = padding(&[N, 4], N);
        let x = random(&[2, N, D]);
        let changed = x.copy();
        changed.get(1).narrow(0, 4, 2).copy_(&random(&[2, D]));
        let before = layer.forward(&x, Some(&mask), false).unwrap();
        let after = layer.forward(&changed, Some(&mask), false).unwrap();
        assert!(distance(&before.get(0), &after.get(0)) < 1e-13, "{mix}");
        assert!(distance(&before.get(1).narrow(0, 0, 4), &after.get(1).narrow(0, 0, 4)) < 1e-13, "{mix}");
        // The padded row is the shorter sequence, up to its end.
        let short = layer.forward(&x.get(1).narrow(0, 0, 4).unsqueeze(0), None, false).unwrap();
        assert!(distance(&before.get(1).narrow(0, 0, 4), &short.get(0)) < 1e-12, "{mix}");
    }
}

#[test]
fn a_row_that_is_all_padding_gets_the_bias_and_finite_gradients() {
    for kind in [Kind::Double, Kind::Float] {
        // FFT has no bias
        for (mix, can_be_causal) in all().filter(|(mix, _)| *mix != "FFT") {
            for causal in [false, true].into_iter().filter(|causal| can_be_causal || !causal) {
                let (mut store, layer) = layer(&config(mix, causal));
                store.set_kind(kind);
                let x = random(&[2, N, D]).to_kind(kind).set_requires_grad(true);
                // Padding on the left as well: with the causal mask the first query of row 1 sees nothing.
                let mask = padding(&[0, N], N);
                let _ = mask.get(1).narrow(0, 0, 1).fill_(1);
                let out = layer.forward(&x, Some(&mask), false).unwrap();
                let bias = store.variables().remove("output.bias").unwrap();
                assert!(distance(&out.get(0), &bias.expand([N, D], false)) == 0.0, "{mix}");
                assert_eq!(distance(&out.get(1).get(0), &bias) == 0.0, causal, "{mix}");
                out.square().sum(kind).backward();
                assert!(finite(&out) && finite(&x.grad()), "{mix}");
                assert_eq!(x.grad().get(0).abs().max().double_value(&[]), 0.0, "{mix}");
                for (name, variable) in store.variables() {
                    assert!(!variable.requires_grad() || finite(&variable.grad()), "{mix}: {name}");
                }
            }
        }
    }
}

/// Without padding, logits that are the same for every row go through one product a head; with an (empty) padding mask
/// every row has its own. Outputs and gradients must not differ.
#[test]
fn the_shared_path_equals_the_plain_one() {
    for (mix, can_be_causal) in all() {
        for causal in [false, true].into_iter().filter(|causal| can_be_causal || !causal) {
            let (store, layer) = layer(&config(mix, causal));
            let (x, toward) = (random(&[3, 5, D]).set_requires_grad(true), random(&[3, 5, D]));
            let run = |mask: Option<&Tensor>| {
                for mut variable in store.trainable_variables() {
                    variable.zero_grad();
                }
                let mut input = x.shallow_clone();
                input.zero_grad();
                let out = layer.forward(&x, mask, false).unwrap();
                (&out * &toward).sum(Kind::Double).backward();
                let mut all = vec![out.detach(), x.grad().copy()];
                all.extend(store.trainable_variables().iter().map(|variable| variable.grad().copy()));
                all
            };
            let (plain, fast) = (run(Some(&padding(&[5, 5, 5], 5))), run(None));
            for (plain, fast) in plain.iter().zip(&fast) {
                assert!(distance(plain, fast) < 1e-12, "{mix}");
            }
        }
    }
}

#[test]
fn too_long_an_input_names_both_numbers() {
    for (mix, can_be_causal) in all() {
        let (_store, layer) = layer(&config(mix, can_be_causal));
        let error = layer.forward(&random(&[1, N + 3, D]), None, false).unwrap_err();
        assert_eq!(error, AttentionError::TooLong { length: 9, max_length: 6 });
        let text = error.to_string();
        assert!(text.contains("9 positions") && text.contains("max_length = 6"), "{text}");
        assert!(layer.weights(&random(&[1, N + 1, D]), None).is_err());
        assert_eq!(layer.forward(&random(&[1, N, D]), None, false).unwrap().size(), [1, N, D]);
        assert_eq!(layer.forward(&random(&[2, 1, D]), None, false).unwrap().size(), [2, 1, D]);
    }
}

#[test]
fn wrong_shapes_are_errors() {
    let (_store, layer) = layer(&config("R+V", false));
    let error = layer.forward(&random(&[2, 3, D + 1]), None, false).unwrap_err().to_string();
    assert!(error.contains("[2, 3, 9]") && error.contains("[batch, length, 8]"), "{error}");
    assert!(layer.forward(&random(&[3, D]), None, false).is_err());
    let error = layer.forward(&random(&[2, 3, D]), Some(&padding(&[3], 3)), false).unwrap_err().to_string();
    assert!(error.contains("[1, 3]") && error.contains("[2, 3]"), "{error}");
    assert_eq!(layer.step(&random(&[2, 1, D]), &mut layer.start()).unwrap_err(), AttentionError::NotCausal);
}

#[test]
fn impossible_layers_are_errors() {
    let refuse = |change: &dyn Fn(&mut AttentionConfig)| {
        let mut config = config("FD", false);
        change(&mut config);
        let checked = config.check().unwrap_err();
        let store = VarStore::new(Device::Cpu);
        assert_eq!(SelfAttention::new(&store.root(), &config).unwrap_err(), checked);
        assert!(store.is_empty());
        checked.to_string()
    };
    let terms = |mix: &str| Mix::parse(mix).unwrap().terms;
    for (text, wanted) in [
        (refuse(&|c| c.heads = 3), vec!["heads = 3", "d_model = 8"]),
        (refuse(&|c| c.heads = 0), vec!["heads = 0", "at least 1"]),
        (refuse(&|c| c.d_model = 0), vec!["d_model = 0"]),
        (refuse(&|c| c.max_length = 0), vec!["max_length = 0", "at least 1"]),
        (refuse(&|c| c.dropout = 1.0), vec!["dropout = 1"]),
        (refuse(&|c| c.dropout = -0.1), vec!["dropout = -0.1"]),
        (refuse(&|c| c.terms = vec![]), vec!["at least one"]),
        (refuse(&|c| c.terms = terms("FD(a=2,b=4)")), vec!["2 · 4 = 8", "max_length = 6"]),
        (refuse(&|c| c.terms = terms("FD(a=4)")), vec!["4 · 1 = 4", "max_length = 6"]),
        (refuse(&|c| c.terms = terms("V+FD(b=5)")), vec!["1 · 5 = 5", "max_length = 6"]),
        (refuse(&|c| c.terms = [terms("R"), terms("Rfix")].concat()), vec!["R and Rfix", "random"]),
        (refuse(&|c| c.terms = [terms("LC"), terms("V")].concat()), vec!["LC can't be mixed", "V, D, R, Rfix, FR, FD"]),
        (refuse(&|c| c.terms = terms("DC(kernel=4)")), vec!["`DC(kernel=4)`", "4 is even", "give 3 or 5"]),
        (
            refuse(&|c| (c.terms, c.causal) = (terms("Lin(k=2)"), true)),
            vec!["Lin(k=2) can't be causal", "LC, DC, Mixer"],
        ),
        (refuse(&|c| (c.terms, c.causal) = (terms("FFT"), true)), vec!["FFT can't be causal", "encoders only"]),
        (refuse(&|c| c.terms[0].name = "W".to_string()), vec!["`W`", "V, D, R"]),
        (refuse(&|c| c.terms[0].parameters = vec![("k".to_string(), 3)]), vec!["FD(k=3)", "hidden, a, b"]),
        (refuse(&|c| c.terms[0].parameters = vec![("a".to_string(), 0)]), vec!["FD(a) = 0", "at least 1"]),
    ] {
        assert!(wanted.iter().all(|part| text.contains(part)), "{text}: {wanted:?}");
    }
}

#[test]
fn a_dropout_that_is_no_number_is_an_error() {
    let error = AttentionConfig { dropout: f64::NAN, ..config("V", false) }.check().unwrap_err();
    assert!(error.to_string().contains("dropout = NaN"), "{error}");
}

#[test]
fn new_weights_start_as_designed() {
    let store = VarStore::new(Device::Cpu);
    let config = AttentionConfig { d_model: 64, heads: 4, max_length: 96, ..config("R+FR+D+FD+V", true) };
    let layer = SelfAttention::new(&store.root(), &config).unwrap();
    let variables = store.variables();
    let deviation = |values: &Tensor| values.std(false).double_value(&[]);
    let r = &variables["random.r"];
    assert!((deviation(r) - 1.0).abs() < 0.02 && r.mean(Kind::Float).double_value(&[]).abs() < 0.02);
    let logits = variables["factorized_random.r1"].matmul(&variables["factorized_random.r2"].transpose(1, 2));
    assert!((deviation(&logits) - 1.0).abs() < 0.1, "{}", deviation(&logits));
    for (name, inputs, outputs) in [
        ("value.weight", 64, 64),
        ("dot_product.key.weight", 64, 64),
        ("dense.w2", 16, 96),
        ("factorized_dense.wa", 16, 8),
        ("factorized_dense.wb", 16, 12),
    ] {
        let bound = (6.0 / (inputs + outputs) as f64).sqrt();
        let largest = variables[name].abs().max().double_value(&[]);
        assert!(largest <= bound * 1.000001 && largest > 0.95 * bound, "{name}: {largest} of {bound}");
    }
    for (name, variable) in &variables {
        assert_eq!(variable.kind(), Kind::Float);
        let zero = name.ends_with("bias") || name == "alpha" || name.ends_with("ba") || name.ends_with("bb");
        assert_eq!(variable.abs().max().double_value(&[]) == 0.0, zero || name.ends_with("b2"), "{name}");
    }
    assert_eq!(
        doubles(&layer.mixing_weights().unwrap()),
        doubles(&(Tensor::ones([5, 4], (Kind::Float, Device::Cpu)) * 0.2))
    );
}
