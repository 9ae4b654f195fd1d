//! The fused and the composed form against the plain one, which the golden files hold; dropout inside the kernel.

use crate::*;
use synthesizer::attention::{CrossAttention, Form};
use synthesizer::native::attention::{attend, Part, Request};

/// Outputs, then gradients of the input and of every weight, for a fixed direction.
fn run(store: &VarStore, layer: &SelfAttention, x: &Tensor, padding: Option<&Tensor>, toward: &Tensor) -> Vec<Tensor> {
    for mut variable in store.trainable_variables() {
        variable.zero_grad();
    }
    let x = x.copy().set_requires_grad(true);
    let out = layer.forward(&x, padding, false).unwrap();
    (&out * toward).sum(x.kind()).backward();
    let mut all = vec![out.detach(), x.grad()];
    all.extend(store.trainable_variables().iter().map(|variable| variable.grad().copy()));
    all
}

fn forms(config: &AttentionConfig, kind: Kind, batch: i64, length: i64, lengths: Option<&[i64]>) -> [Vec<Tensor>; 3] {
    let mut store = VarStore::new(Device::Cpu);
    store.set_kind(kind);
    let mut layer = SelfAttention::new(&store.root(), config).unwrap();
    shake(&store);
    let x = random(&[batch, length, config.d_model]).to_kind(kind);
    let toward = random(&[batch, length, config.d_model]).to_kind(kind);
    let mask = lengths.map(|lengths| padding(lengths, length));
    [Form::Plain, Form::Composed, Form::Fused].map(|form| {
        layer = std::mem::replace(&mut layer, SelfAttention::new(&VarStore::new(Device::Cpu).root(), config).unwrap())
            .with_form(form);
        run(&store, &layer, &x, mask.as_ref(), &toward)
    })
}

fn assert_alike(all: [Vec<Tensor>; 3], tolerance: f64, what: &str) {
    let [plain, composed, fused] = all;
    for (name, other) in [("composed", composed), ("fused", fused)] {
        assert_eq!(plain.len(), other.len());
        for (index, (plain, other)) in plain.iter().zip(&other).enumerate() {
            let size = plain.abs().max().double_value(&[]).max(1.0);
            let error = distance(plain, other) / size;
            assert!(error < tolerance, "{what}, {name}, tensor {index} {:?}: {error:e}", plain.size());
        }
    }
}

#[test]
fn every_mix_mask_and_mixing_agrees() {
    for mix in MIXES {
        for causal in [false, true] {
            for mixing in [Mixing::Softmax, Mixing::Sigmoid, Mixing::Sum] {
                for (batch, length, lengths) in
                    [(3, 5, None), (1, N, None), (3, N, Some(&[N, 3, 0][..])), (2, 1, None), (1, 4, Some(&[2][..]))]
                {
                    let config = AttentionConfig { mixing, ..config(mix, causal) };
                    let what =
                        format!("{mix}, {mixing:?}, causal {causal}, batch {batch}, length {length}, {lengths:?}");
                    assert_alike(forms(&config, Kind::Double, batch, length, lengths), 1e-11, &what);
                }
            }
        }
    }
}

/// More rows than a block of the kernel has, heads that several threads share, lengths that no vector divides.
#[test]
fn long_sequences_and_several_threads_agree() {
    for mix in ["V", "D", "R", "FR", "FD", "R+D", "D+V", "R+V", "FR+V", "R+FR", "FD+V"] {
        for threads in [1, 2, 3, 7] {
            for (causal, lengths) in [(true, None), (false, Some(&[150, 67, 1][..])), (true, Some(&[150, 149, 20][..]))]
            {
                let config = AttentionConfig { max_length: 156, d_model: 12, ..config(mix, causal) };
                tch::set_num_threads(threads);
                let what = format!("{mix}, {threads} threads, causal {causal}, {lengths:?}");
                let mut store = VarStore::new(Device::Cpu);
                store.set_kind(Kind::Double);
                let layer = SelfAttention::new(&store.root(), &config).unwrap();
                shake(&store);
                tch::set_num_threads(threads);
                let (x, toward) = (random(&[3, 150, 12]), random(&[3, 150, 12]));
                let mask = lengths.map(|lengths| padding(lengths, 150));
                let plain = layer.with_form(Form::Plain);
                let wanted = run(&store, &plain, &x, mask.as_ref(), &toward);
                let fused = plain.with_form(Form::Fused);
                let found = run(&store, &fused, &x, mask.as_ref(), &toward);
                let again = run(&store, &fused, &x, mask.as_ref(), &toward);
                for (index, ((wanted, found), again)) in wanted.iter().zip(&found).zip(&again).enumerate() {
                    let error = distance(wanted, found) / wanted.abs().max().double_value(&[]).max(1.0);
                    assert!(error < 1e-11, "{what}, tensor {index} {:?}: {error:e}", wanted.size());
                    assert_eq!(distance(found, again), 0.0, "{what}: a second run differs");
                }
            }
        }
    }
    tch::set_num_threads(1);
}

#[test]
fn single_precision_agrees_to_its_digits() {
    for mix in MIXES {
        let config = AttentionConfig { max_length: 96, ..config(mix, true) };
        assert_alike(forms(&config, Kind::Float, 2, 96, None), 1e-4, mix);
        assert_alike(forms(&config, Kind::Float, 2, 96, Some(&[96, 31])), 1e-4, mix);
    }
}

/// Large logits: the softmax must be taken from their maximum.
#[test]
fn large_logits_neither_overflow_nor_vanish() {
    for kind in [Kind::Float, Kind::Double] {
        let table = (random(&[1, 9, 9]) * 1e4).to_kind(kind);
        let best = table.argmax(-1, true);
        // Far enough above the second, whatever was drawn.
        let table = table.scatter_value_reduce(-1, &best, 100.0, "add").set_requires_grad(true);
        let values = random(&[2, 1, 9, 3]).to_kind(kind);
        let request = request(vec![Part::Table(table.shallow_clone())], values.shallow_clone());
        let out = attend(request).unwrap();
        let wanted = values.index_select(2, &best.view([-1]));
        assert!(distance(&out.detach(), &wanted) < 1e-6, "the largest logit takes all");
        out.sum(kind).backward();
        assert!(finite(&table.grad()));
    }
}

/// A row whose logits are all NaN is not one that sees nothing.
#[test]
fn what_is_no_number_stays_none() {
    let table = random(&[1, 4, 4]);
    let _ = table.get(0).get(0).fill_(f64::NAN);
    let _ = table.get(0).get(2).get(3).fill_(f64::NAN);
    for causal in [false, true] {
        let part = vec![Part::Table(table.shallow_clone())];
        let out = attend(Request { causal, ..request(part, random(&[2, 1, 4, 3])) }).unwrap();
        let bad: Vec<bool> = (0..4).map(|row| !finite(&out.narrow(2, row, 1))).collect();
        assert_eq!(bad, [true, false, !causal, false], "causal {causal}");
    }
}

fn request(parts: Vec<Part>, values: Tensor) -> Request<'static> {
    Request { parts, weights: None, values, padding: None, causal: false, dropout: 0.0, seed: 0 }
}

/// With the identity as values the output is the weights themselves.
fn dropped(seed: u64, dropout: f64) -> (Tensor, Tensor) {
    let (batch, heads, length) = (3, 2, 70);
    let logits = Tensor::linspace(-1.0, 1.0, heads * length * length, (Kind::Double, Device::Cpu));
    let logits = logits.view([heads, length, length]);
    let identity = Tensor::eye(length, (Kind::Double, Device::Cpu)).expand([batch, heads, length, length], true);
    let part = || vec![Part::Table(logits.shallow_clone())];
    let whole = attend(request(part(), identity.copy())).unwrap();
    let dropped = attend(Request { dropout, seed, ..request(part(), identity.copy()) }).unwrap();
    (whole, dropped)
}

#[test]
fn dropout_keeps_a_share_of_the_weights_and_scales_them() {
    let rate = 0.3;
    let (whole, some) = dropped(5, rate);
    let kept = some.ne(0.0);
    let wanted = (&whole / (1.0 - rate)).where_self(&kept, &whole.zeros_like());
    assert!(distance(&some, &wanted) < 1e-12);
    let share = |kept: &Tensor| kept.to_kind(Kind::Double).mean(Kind::Double).double_value(&[]);
    // 29,400 draws: the share's deviation is 0.0027.
    assert!((share(&kept) - (1.0 - rate)).abs() < 0.011, "{}", share(&kept));
    // Rows, columns, heads and sequences draw for themselves: two of them agree in p² + (1-p)² of the places.
    let alike = rate * rate + (1.0 - rate) * (1.0 - rate);
    for (one, other) in [
        (kept.get(0), kept.get(1)),
        (kept.narrow(1, 0, 1), kept.narrow(1, 1, 1)),
        (kept.narrow(2, 0, 69), kept.narrow(2, 1, 69)),
        (kept.narrow(3, 0, 69), kept.narrow(3, 1, 69)),
    ] {
        let found = share(&one.eq_tensor(&other));
        assert!((found - alike).abs() < 0.02, "{found}");
    }
    assert_eq!(distance(&some, &dropped(5, rate).1), 0.0, "the same seed");
    assert!((share(&dropped(6, rate).1.ne(0.0).eq_tensor(&kept)) - alike).abs() < 0.011, "another seed");
    assert_eq!(distance(&dropped(5, 0.0).1, &whole), 0.0);
}

/// Central differences of every tensor that enters, with the seed held.
#[test]
fn gradients_under_dropout_by_finite_differences() {
    let leaf = |size: &[i64]| random(size).set_requires_grad(true);
    let tensors = [
        leaf(&[2, 2, 5, 4]),
        leaf(&[2, 2, 5, 3]),
        leaf(&[2, 2, 5, 3]),
        leaf(&[2, 5, 5]),
        leaf(&[2, 2, 5, 2]),
        leaf(&[2, 2, 5, 3]),
        leaf(&[1, 2, 5, 2]),
        leaf(&[1, 2, 5, 2]),
        leaf(&[2, 5]),
        leaf(&[4, 2]),
    ];
    let mask = padding(&[5, 3], 5);
    let toward = random(&[2, 2, 5, 4]);
    let loss = |causal: bool| {
        let [values, queries, keys, table, first, second, r1, r2, bias, weights] =
            tensors.each_ref().map(Tensor::shallow_clone);
        let parts = vec![
            Part::Product { queries, keys, scale: 0.7, bias: Some(bias) },
            Part::Table(table),
            Part::Outer { first, second, columns: 5 },
            Part::Product { queries: r1, keys: r2, scale: 1.0, bias: None },
        ];
        let request =
            Request { parts, weights: Some(weights), values, padding: Some(&mask), causal, dropout: 0.4, seed: 11 };
        (attend(request).unwrap() * &toward).sum(Kind::Double)
    };
    for causal in [false, true] {
        for mut tensor in tensors.each_ref().map(Tensor::shallow_clone) {
            tensor.zero_grad();
        }
        loss(causal).backward();
        for (index, tensor) in tensors.iter().enumerate() {
            let gradient = doubles(&tensor.grad());
            let flat = tensor.detach().view([-1]);
            for place in 0..flat.numel() as i64 {
                let at = |change: f64| {
                    let before = flat.double_value(&[place]);
                    let _ = flat.get(place).fill_(before + change);
                    let value = no_grad(|| loss(causal)).double_value(&[]);
                    let _ = flat.get(place).fill_(before);
                    value
                };
                let wanted = (at(1e-5) - at(-1e-5)) / 2e-5;
                let found = gradient[place as usize];
                assert!((wanted - found).abs() < 1e-7, "tensor {index}, place {place}: {found}, wanted {wanted}");
            }
        }
    }
}

#[test]
fn layers_drop_anew_each_time_and_as_the_seed_says() {
    let config = AttentionConfig { dropout: 0.5, ..config("R+V", true) };
    let (_store, layer) = layer(&config);
    let x = random(&[2, N, D]);
    let draw = || {
        tch::manual_seed(3);
        [(); 2].map(|()| layer.forward(&x, None, true).unwrap())
    };
    // Another test may draw between seed and use: then a second look agrees.
    let agree = (0..50).any(|_| {
        let (first, second) = (draw(), draw());
        first.iter().zip(&second).all(|(a, b)| distance(a, b) == 0.0) && distance(&first[0], &first[1]) > 1e-6
    });
    assert!(agree);
    assert_eq!(distance(&layer.forward(&x, None, false).unwrap(), &layer.forward(&x, None, false).unwrap()), 0.0);
}

#[test]
fn cross_attention_agrees() {
    let mut store = VarStore::new(Device::Cpu);
    store.set_kind(Kind::Double);
    let mut layer = CrossAttention::new(&store.root(), D, HEADS, 0.0).unwrap();
    shake(&store);
    let (x, memory) = (random(&[3, 4, D]), random(&[3, 70, D]));
    let mask = padding(&[70, 2, 0], 70);
    for padding in [None, Some(&mask)] {
        let mut all = Vec::new();
        for form in [Form::Plain, Form::Composed, Form::Fused] {
            layer = layer.with_form(form);
            for mut variable in store.trainable_variables() {
                variable.zero_grad();
            }
            let (x, memory) = (x.copy().set_requires_grad(true), memory.copy().set_requires_grad(true));
            let out = layer.forward(&x, &memory, padding, false).unwrap();
            out.square().sum(Kind::Double).backward();
            let mut tensors = vec![out.detach(), x.grad(), memory.grad()];
            tensors.extend(store.trainable_variables().iter().map(|variable| variable.grad().copy()));
            all.push(tensors);
        }
        let all: [Vec<Tensor>; 3] = all.try_into().unwrap();
        assert_alike(all, 1e-11, "cross-attention");
    }
}

#[test]
fn parts_that_do_not_go_together_are_errors() {
    let values = || random(&[2, 2, 5, 3]);
    let wrong: Vec<(Request, &str)> = vec![
        (request(vec![], values()), "0 parts"),
        (request(vec![Part::Table(random(&[2, 5, 6]))], values()), "[2, 5, 6]"),
        (request(vec![Part::Table(random(&[2, 5, 5]).to_kind(Kind::Float))], values()), "one kind"),
        (Request { dropout: 1.0, ..request(vec![Part::Table(random(&[2, 5, 5]))], values()) }, "dropout"),
        (
            Request { weights: Some(random(&[2, 2])), ..request(vec![Part::Table(random(&[2, 5, 5]))], values()) },
            "weights",
        ),
        (
            request(
                vec![Part::Outer { first: random(&[2, 2, 5, 2]), second: random(&[2, 2, 5, 2]), columns: 5 }],
                values(),
            ),
            "[2, 2, 5, 2]",
        ),
    ];
    // A factor that sequences share would get the gradient of one of them.
    let first = random(&[1, 2, 5, 2]);
    let shared = request(vec![Part::Outer { first, second: random(&[2, 2, 5, 3]), columns: 5 }], values());
    assert!(attend(shared).is_err());
    for (request, wanted) in wrong {
        let error = attend(request).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

/// All files of this folder, not this one alone.
#[test]
fn kernels_of_every_instruction_set_pass() {
    crate::instructions::pass_with_every_set();
}
