//! The weights of a mixture, and dropout.

use crate::*;

/// Weights [h, L, L] of R+FR from the written-out sum Σ wᵢ Sᵢ, with w [terms][head].
fn mixed(store: &VarStore, [one, two]: [[f64; 2]; 2]) -> Vec<f64> {
    let variables = store.variables();
    let r = doubles(&variables["random.r"]);
    let fr = doubles(&variables["factorized_random.r1"].matmul(&variables["factorized_random.r2"].transpose(1, 2)));
    let mut all = Vec::new();
    for (head, (w1, w2)) in one.into_iter().zip(two).enumerate() {
        for query in 0..6 {
            let logit = |key: usize| {
                let at = (head * 6 + query) * 6 + key;
                (w1 * r[at] + w2 * fr[at]).exp()
            };
            let total: f64 = (0..6).map(logit).sum();
            all.extend((0..6).map(|key| logit(key) / total));
        }
    }
    all
}

#[test]
fn each_mixing_by_values() {
    let alpha = [[0.3, -1.0], [2.0, 0.5]];
    let sigmoid = |a: f64| 1.0 / (1.0 + (-a).exp());
    // softmax over two terms is the sigmoid of their difference
    let softmax = |head: usize| sigmoid(alpha[0][head] - alpha[1][head]);
    for (mixing, wanted) in [
        (Mixing::Softmax, [[softmax(0), softmax(1)], [1.0 - softmax(0), 1.0 - softmax(1)]]),
        (Mixing::Sigmoid, alpha.map(|row| row.map(sigmoid))),
        (Mixing::Sum, [[1.0; 2]; 2]),
    ] {
        let (store, layer) = layer(&AttentionConfig { mixing, ..config("R+FR", false) });
        assert_eq!(store.variables().contains_key("alpha"), mixing != Mixing::Sum);
        if mixing != Mixing::Sum {
            set(&store, "alpha", &Tensor::from_slice2(&alpha));
            let weights = layer.mixing_weights().unwrap();
            assert_eq!(weights.size(), [2, HEADS]);
            assert!(!weights.requires_grad());
            assert!(distance(&weights, &Tensor::from_slice2(&wanted)) < 1e-15, "{mixing:?}");
        } else {
            assert!(layer.mixing_weights().is_none());
        }
        let weights = doubles(&layer.weights(&random(&[1, N, D]), None).unwrap());
        for (ours, theirs) in weights.iter().zip(mixed(&store, wanted)) {
            assert!((ours - theirs).abs() < 1e-13, "{mixing:?}");
        }
        assert_eq!(layer.term_names(), ["R", "FR"]);
    }
}

#[test]
fn one_term_has_no_alpha_in_any_mixing() {
    for mixing in [Mixing::Softmax, Mixing::Sigmoid, Mixing::Sum] {
        let (store, layer) = layer(&AttentionConfig { mixing, ..config("FR(k=4)", false) });
        assert!(!store.variables().contains_key("alpha"));
        assert!(layer.mixing_weights().is_none());
        assert_eq!(layer.term_names(), ["FR(k=4)"]);
    }
}

#[test]
fn the_order_of_terms_orders_alpha_only() {
    let (one, first) = layer(&config("R+D+V", true));
    let (two, second) = layer(&config("V+R+D", true));
    for (name, variable) in one.variables() {
        let values =
            if name == "alpha" { variable.index_select(0, &Tensor::from_slice(&[2i64, 0, 1])) } else { variable };
        set(&two, &name, &values);
    }
    let x = random(&[2, 5, D]);
    assert!(distance(&first.forward(&x, None, false).unwrap(), &second.forward(&x, None, false).unwrap()) < 1e-13);
}

#[test]
fn the_gradient_of_alpha_is_the_slope() {
    for mix in ["R+V", "R+D+V", "FR+FD", "R+FR"] {
        for mixing in [Mixing::Softmax, Mixing::Sigmoid] {
            let (store, layer) = layer(&AttentionConfig { mixing, ..config(mix, true) });
            let (x, toward) = (random(&[2, N, D]), random(&[2, N, D]));
            let loss = || (layer.forward(&x, Some(&padding(&[6, 4], N)), false).unwrap() * &toward).sum(Kind::Double);
            loss().backward();
            let alpha = store.variables().remove("alpha").unwrap();
            let step = 1e-5;
            for term in 0..alpha.size()[0] {
                for head in 0..HEADS {
                    let moved = |by: f64| {
                        let mut cell = alpha.detach().get(term).get(head);
                        let _ = no_grad(|| cell.g_add_scalar_(by));
                        let value = no_grad(|| loss().double_value(&[]));
                        let _ = no_grad(|| cell.g_add_scalar_(-by));
                        value
                    };
                    let slope = (moved(step) - moved(-step)) / (2.0 * step);
                    let gradient = alpha.grad().double_value(&[term, head]);
                    let wrong = (slope - gradient).abs();
                    assert!(
                        wrong < 1e-7 * (1.0 + slope.abs()),
                        "{mix} {mixing:?} [{term}, {head}]: {slope}, {gradient}"
                    );
                }
            }
        }
    }
}

/// A layer with one head whose value and output maps change nothing: on the unit matrix its output is its weights.
fn bare(mix: &str, dropout: f64) -> (VarStore, SelfAttention) {
    let (store, layer) = layer(&AttentionConfig { d_model: N, heads: 1, dropout, ..config(mix, false) });
    for name in ["value", "output"] {
        set(&store, &format!("{name}.weight"), &Tensor::eye(N, (Kind::Double, Device::Cpu)));
        set(&store, &format!("{name}.bias"), &Tensor::zeros([N], (Kind::Double, Device::Cpu)));
    }
    (store, layer)
}

#[test]
fn dropout_acts_on_weights_in_training_only() {
    let rows = 4000;
    for mix in ["R", "V", "R+D"] {
        let (_store, layer) = bare(mix, 0.25);
        let x = Tensor::eye(N, (Kind::Double, Device::Cpu)).expand([rows, N, N], false);
        let weights = layer.weights(&x.narrow(0, 0, 1), None).unwrap().view([N, N]);
        let still = layer.forward(&x.narrow(0, 0, 2), None, false).unwrap();
        assert!(distance(&still, &weights.expand([2, N, N], false)) < 1e-14, "{mix}");

        let trained = layer.forward(&x, None, true).unwrap();
        let kept = trained.ne(0.0).to_kind(Kind::Double);
        // Each weight is either dropped or divided by what is kept.
        assert!(distance(&trained, &(&kept * &weights / 0.75)) < 1e-14, "{mix}");
        // 5 standard deviations of a mean of 4,000 draws that are kept with probability 3/4
        let share = kept.mean_dim(0, false, Kind::Double);
        let tolerance = 5.0 * (0.75 * 0.25 / rows as f64).sqrt();
        assert!(distance(&share, &share.full_like(0.75)) < tolerance, "{mix}: each row of the batch draws its own");
        assert!(distance(&trained.mean_dim(0, false, Kind::Double), &weights) < tolerance / 0.75, "{mix}");
    }
    let (_store, layer) = bare("R", 0.0);
    let x = Tensor::eye(N, (Kind::Double, Device::Cpu)).unsqueeze(0);
    assert_eq!(distance(&layer.forward(&x, None, true).unwrap(), &layer.forward(&x, None, false).unwrap()), 0.0);
}
