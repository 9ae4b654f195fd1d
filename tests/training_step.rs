//! The kernels of a training step against LibTorch's own operations: values, gradients, dropout's choices, memory.

#[path = "common/instructions.rs"]
mod instructions;

use synthesizer::model::cross_entropy::{chunked, cross_entropy, plain};
use synthesizer::model::layers::plain as plain_layers;
use synthesizer::native::dropout::dropout;
use synthesizer::native::feed_forward::{feed_forward, Weights};
use synthesizer::native::linear::{linear, Map};
use synthesizer::native::norm::{norm, residual_norm, Affine};
use synthesizer::native::{adam, device};
use synthesizer::train::memory::peak_above;
use tch::{Device, Kind, TchError, Tensor};

/// Tests that draw dropout go one at a time: LibTorch's generator belongs to the whole process.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static GENERATOR: std::sync::Mutex<()> = std::sync::Mutex::new(());
    GENERATOR.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Numbers that look random and are the same every time.
fn numbers(size: &[i64], seed: f64) -> Tensor {
    let count: i64 = size.iter().product();
    let x = Tensor::arange(count, (Kind::Double, Device::Cpu));
    ((x * 12.9898 + seed * 78.233).sin() * 43758.5453).sin().view(size)
}

/// A leaf with gradients.
fn leaf(x: &Tensor, kind: Kind) -> Tensor {
    x.to_kind(kind).copy().detach().set_requires_grad(true)
}

fn bound(kind: Kind) -> f64 {
    if kind == Kind::Double {
        1e-12
    } else {
        1e-5
    }
}

/// The largest difference is small beside the largest value.
fn close(found: &Tensor, wanted: &Tensor, kind: Kind, what: &str) {
    assert_eq!(found.size(), wanted.size(), "{what}");
    let wanted = wanted.to_kind(Kind::Double);
    let difference = (found.to_kind(Kind::Double) - &wanted).abs().max().double_value(&[]);
    let size = wanted.abs().max().double_value(&[]).max(1e-3);
    assert!(difference <= bound(kind) * size, "{what}: differ by {difference}, values up to {size}");
}

/// The gradients of Σ factor · output for each output, of each input.
fn gradients(inputs: &[Tensor], outputs: &[&Tensor]) -> Vec<Tensor> {
    let mut sum = Tensor::zeros([], (Kind::Double, Device::Cpu));
    for (index, output) in outputs.iter().enumerate() {
        sum += (output.to_kind(Kind::Double) * numbers(&output.size(), 20.0 + index as f64)).sum(Kind::Double);
    }
    Tensor::run_backward(&[sum], inputs, false, false)
}

#[test]
fn cross_entropy_is_the_definition() {
    // more rows than are held at a time
    let _threads = Threads(tch::get_num_threads());
    let (rows, classes, width) = (2100, 300, 70);
    let (hidden, table) = (numbers(&[rows, width], 1.0), numbers(&[classes, width], 2.0));
    let targets: Vec<i64> = (0..rows).map(|row| row * 7 % classes).collect();
    let target_tensor = Tensor::from_slice(&targets);
    for smoothing in [0.0, 0.1] {
        let definition = [leaf(&hidden, Kind::Double), leaf(&table, Kind::Double)];
        let wanted = plain(&definition[0], &definition[1], &target_tensor, smoothing).unwrap();
        let wanted_gradients = gradients(&definition, &[&wanted]);
        for (kind, threads) in [(Kind::Double, 1), (Kind::Float, 2), (Kind::Double, 7)] {
            tch::set_num_threads(threads);
            for by_kernel in [true, false] {
                let inputs = [leaf(&hidden, kind), leaf(&table, kind)];
                let run = |hidden: &Tensor, table: &Tensor| match by_kernel {
                    true => cross_entropy(hidden, table, &targets, smoothing).unwrap(),
                    false => chunked(hidden, table, &target_tensor, smoothing).unwrap(),
                };
                let what = format!("{kind:?}, kernel {by_kernel}, smoothing {smoothing}");
                let found = run(&inputs[0], &inputs[1]);
                assert_eq!(found.kind(), kind);
                close(&found, &wanted, kind, &what);
                for (found, wanted) in gradients(&inputs, &[&found]).iter().zip(&wanted_gradients) {
                    close(found, wanted, kind, &what);
                }
                // without gradients, and with those of one input
                close(&tch::no_grad(|| run(&inputs[0], &inputs[1])), &wanted, kind, &what);
                for index in 0..2 {
                    let mut given = [inputs[0].detach(), inputs[1].detach()];
                    given[index] = inputs[index].shallow_clone();
                    let found = run(&given[0], &given[1]);
                    close(&gradients(&inputs[index..=index], &[&found])[0], &wanted_gradients[index], kind, &what);
                }
            }
        }
    }
}

#[test]
fn cross_entropy_by_hand() {
    // logits 0 and ln 3: probabilities 1/4 and 3/4
    let (hidden, table) = (Tensor::from_slice(&[3f64.ln()]).view([1, 1]), Tensor::from_slice(&[0.0, 1.0]).view([2, 1]));
    let loss = |smoothing| cross_entropy(&hidden, &table, &[0], smoothing).unwrap().double_value(&[]);
    assert!((loss(0.0) - 4f64.ln()).abs() < 1e-14);
    let smoothed = 0.9 * 4f64.ln() + 0.1 * 0.5 * (4f64.ln() - 0.75f64.ln());
    assert!((loss(0.1) - smoothed).abs() < 1e-14);
    // large logits overflow nothing; what is no number stays none, so that a run that diverges is seen
    let large = cross_entropy(&(&hidden * 1e6), &table, &[1], 0.0).unwrap().double_value(&[]);
    assert!(large.abs() < 1e-9, "{large}");
    for wrong in [f64::NAN, f64::INFINITY] {
        for kind in [Kind::Double, Kind::Float] {
            let given = (&hidden * 0.0 + wrong).to_kind(kind);
            let loss = cross_entropy(&given, &table.to_kind(kind), &[0], 0.1).unwrap().double_value(&[]);
            assert!(!loss.is_finite(), "{wrong} {kind:?}: {loss}");
        }
    }
    for (targets, wanted) in [(&[2][..], "a target is 2"), (&[-1], "a target is -1"), (&[0, 1], "with 2 targets")] {
        let error = cross_entropy(&hidden, &table, targets, 0.0).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    let (none, table) = (leaf(&hidden.narrow(0, 0, 0), Kind::Double), leaf(&table, Kind::Double));
    for _ in 0..20 {
        // what was there before the gradient's memory was asked for
        drop((0..20).map(|_| table.full_like(7.0)).collect::<Vec<_>>());
        let empty = cross_entropy(&none, &table, &[], 0.0).unwrap();
        assert_eq!(empty.double_value(&[]), 0.0);
        let of_table = Tensor::run_backward(&[empty], &[&table], false, false).remove(0);
        assert!(of_table.equal(&table.zeros_like()), "of no rows");
    }
}

/// Most memory of the loss and its gradients in float32: ours, and that of the definition.
fn loss_memory(rows: i64, classes: i64, width: i64) -> Option<[u64; 2]> {
    let inputs =
        [leaf(&numbers(&[rows, width], 1.0), Kind::Float), leaf(&numbers(&[classes, width], 2.0), Kind::Float)];
    let targets = vec![5; rows as usize];
    let peak = |run: &dyn Fn() -> Result<Tensor, TchError>| {
        peak_above(|| run().map(|loss| drop(Tensor::run_backward(&[loss], &inputs, false, false)))).unwrap().1
    };
    let ours = peak(&|| cross_entropy(&inputs[0], &inputs[1], &targets, 0.1));
    let old = peak(&|| plain(&inputs[0], &inputs[1], &Tensor::from_slice(&targets), 0.1));
    Some([ours?, old?])
}

#[test]
fn cross_entropy_keeps_no_copies_of_the_logits() {
    let _alone = alone();
    let Some([ours, old]) = loss_memory(2048, 8000, 16) else { return };
    // all logits are 62.5 MiB, and LibTorch has three copies at least
    assert!(old > 150 << 20, "{old}");
    assert!(ours * 4 < old, "ours {ours} bytes, LibTorch's {old}");
}

#[test]
#[ignore = "takes gigabytes; `cargo test --release --test training_step -- --ignored --nocapture` prints the figures"]
fn cross_entropy_at_the_papers_size() {
    let _alone = alone();
    let Some([ours, old]) = loss_memory(4096, 32_000, 512) else { return };
    println!("4096 tokens, 32,000 classes, width 512: {} MiB, LibTorch's operations {} MiB", ours >> 20, old >> 20);
    assert!(ours * 4 < old, "ours {ours} bytes, LibTorch's {old}");
}

/// x, branch, γ, β.
fn norm_inputs(kind: Kind, width: i64) -> [Tensor; 4] {
    let (x, branch) = (numbers(&[5, 37, width], 1.0) * 3.0 + 0.5, numbers(&[5, 37, width], 2.0));
    [x, branch, numbers(&[width], 3.0), numbers(&[width], 4.0)].map(|tensor| leaf(&tensor, kind))
}

fn affine<'a>(weight: &'a Tensor, bias: &'a Tensor) -> Affine<'a> {
    Affine { weight, bias, epsilon: 1e-6 }
}

#[test]
fn norms_are_the_definition() {
    // of one or two elements the variance may be next to nothing, and rounding is all there is
    for width in [7, 128, 1500] {
        for kind in [Kind::Double, Kind::Float] {
            let (inputs, reference) = (norm_inputs(kind, width), norm_inputs(Kind::Double, width));
            let found = norm(&inputs[0], affine(&inputs[2], &inputs[3])).unwrap();
            let wanted = plain_layers::norm(&reference[0], affine(&reference[2], &reference[3])).unwrap();
            let what = format!("width {width} {kind:?}");
            close(&found, &wanted, kind, &what);
            let pick = |inputs: &[Tensor; 4]| [0, 2, 3].map(|index: usize| inputs[index].shallow_clone());
            let pairs = gradients(&pick(&inputs), &[&found]).into_iter().zip(gradients(&pick(&reference), &[&wanted]));
            for (index, (found, wanted)) in pairs.enumerate() {
                close(&found, &wanted, kind, &format!("{what}: gradient {index}"));
            }
        }
    }
}

/// Which outputs of `residual_norm` the loss depends on.
fn chosen<'a>(which: usize, sum: &'a Tensor, output: &'a Tensor) -> Vec<&'a Tensor> {
    vec![vec![sum, output], vec![output], vec![sum]].swap_remove(which)
}

#[test]
fn residual_norms_are_the_definition_dropped_or_not() {
    let _alone = alone();
    for (width, rate) in [(7, 0.0), (128, 0.3), (1500, 0.6)] {
        for kind in [Kind::Double, Kind::Float] {
            for which in 0..3 {
                let (inputs, reference) = (norm_inputs(kind, width), norm_inputs(Kind::Double, width));
                // 0 plus a dropped branch of ones is what each element is multiplied by
                tch::manual_seed(11);
                let ones = inputs[1].ones_like();
                let (factors, _) =
                    residual_norm(&inputs[0].zeros_like(), &ones, rate, affine(&inputs[2], &inputs[3])).unwrap();
                tch::manual_seed(11);
                let (sum, output) =
                    residual_norm(&inputs[0], &inputs[1], rate, affine(&inputs[2], &inputs[3])).unwrap();
                let wanted_sum = &reference[0] + &reference[1] * factors.detach().to_kind(Kind::Double);
                let wanted = plain_layers::norm(&wanted_sum, affine(&reference[2], &reference[3])).unwrap();
                let what = format!("width {width}, rate {rate}, {kind:?}, outputs {which}");
                // the factors themselves are rounded to float32
                close(&sum, &wanted_sum, kind, &what);
                close(&output, &wanted, kind, &what);
                let count = if which == 2 { 2 } else { 4 };
                let found = gradients(&inputs[..count], &chosen(which, &sum, &output));
                let wanted = gradients(&reference[..count], &chosen(which, &wanted_sum, &wanted));
                for (index, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                    close(found, wanted, kind, &format!("{what}: gradient {index}"));
                }
            }
        }
    }
}

#[test]
fn what_does_not_fit_a_norm_is_an_error() {
    let [x, branch, weight, bias] = norm_inputs(Kind::Float, 8);
    let narrow = weight.narrow(0, 0, 7);
    assert!(norm(&x, affine(&narrow, &bias)).unwrap_err().to_string().contains("[7]"));
    assert!(residual_norm(&x, &branch.narrow(1, 0, 3), 0.0, affine(&weight, &bias)).is_err());
    assert!(norm(&x.to_kind(Kind::Double), affine(&weight, &bias)).is_err());
}

#[test]
fn dropout_drops_its_share_and_nothing_in_common() {
    let _alone = alone();
    for rate in [0.1, 0.5, 0.75] {
        let x = leaf(&Tensor::ones([64, 2000], (Kind::Double, Device::Cpu)), Kind::Float);
        tch::manual_seed(3);
        let first = dropout(&x, rate).unwrap();
        let second = dropout(&x, rate).unwrap();
        tch::manual_seed(3);
        assert!(dropout(&x, rate).unwrap().equal(&first), "the seed decides");
        let kept = |y: &Tensor| y.ne(0.0).to_kind(Kind::Double);
        let grown = (first.detach() - kept(&first) / (1.0 - rate)).abs().max().double_value(&[]);
        assert!(grown < 1e-6, "others grow by 1/(1 - rate)");
        // a share of n fair choices lies within 5 standard deviations but once in two million
        let n = 64.0 * 2000.0;
        let near = |found: f64, chance: f64, what: &str| {
            let deviation = (chance * (1.0 - chance) / n).sqrt();
            assert!((found - chance).abs() < 5.0 * deviation, "{what} at {rate}: {found}, not {chance}");
        };
        let (a, b) = (kept(&first), kept(&second));
        let mean = |x: Tensor| x.mean(Kind::Double).double_value(&[]);
        let both = (1.0 - rate) * (1.0 - rate);
        near(mean(a.shallow_clone()), 1.0 - rate, "share");
        near(mean(&a * &b), both, "two calls");
        near(mean(&a * a.roll([1], [1])), both, "neighbours");
        near(mean(&a * a.roll([1], [0])), both, "rows");
        near(mean(&a * a.roll([1024], [1])), both, "blocks of columns");
        let gradient = &gradients(&[x.shallow_clone()], &[&first])[0];
        close(gradient, &(first.detach() * numbers(&[64, 2000], 20.0)), Kind::Float, "gradient");
    }
}

#[test]
fn feed_forward_is_the_definition_dropped_or_not() {
    let _alone = alone();
    let (width, inner, out) = (270, 1100, 9);
    let made = |kind| {
        let sizes: [&[i64]; 5] = [&[4, 29, width], &[inner, width], &[inner], &[out, inner], &[out]];
        let mut seed = 0.0;
        sizes.map(|size| {
            seed += 1.0;
            leaf(&numbers(size, seed), kind)
        })
    };
    for rate in [0.0, 0.4] {
        for kind in [Kind::Double, Kind::Float] {
            let (inputs, reference) = (made(kind), made(Kind::Double));
            let [x, w1, b1, w2, b2] = &inputs;
            // with w1 = 0, b1 = 1, w2 = 1 and b2 = 0 the output is what each hidden unit is multiplied by
            let (ones, one) = (b1.ones_like(), Tensor::eye(inner, (kind, Device::Cpu)));
            tch::manual_seed(5);
            let bare = Weights { w1: &w1.zeros_like(), b1: &ones, w2: &one, b2: &ones.zeros_like() };
            let factors = feed_forward(x, bare, rate).unwrap().detach().to_kind(Kind::Double);
            tch::manual_seed(5);
            let found = feed_forward(x, Weights { w1, b1, w2, b2 }, rate).unwrap();
            let [x, w1, b1, w2, b2] = &reference;
            let wanted = plain_layers::feed_forward(x, Weights { w1, b1, w2, b2 }, |hidden| hidden.f_mul(&factors));
            let wanted = wanted.unwrap();
            let what = format!("rate {rate} {kind:?}");
            close(&found, &wanted, kind, &what);
            let pairs = gradients(&inputs, &[&found]).into_iter().zip(gradients(&reference, &[&wanted]));
            for (index, (found, wanted)) in pairs.enumerate() {
                close(&found, &wanted, kind, &format!("{what}: gradient {index}"));
            }
        }
    }
    // on any number of threads, and where only some want gradients
    let _threads = Threads(tch::get_num_threads());
    let of = |inputs: &[Tensor; 5]| {
        let [x, w1, b1, w2, b2] = inputs;
        feed_forward(x, Weights { w1, b1, w2, b2 }, 0.0).unwrap()
    };
    let whole = made(Kind::Double);
    let wanted = gradients(&whole, &[&of(&whole)]);
    for threads in [1, 2, 7] {
        tch::set_num_threads(threads);
        for wants in [
            [true; 5],
            [false, false, true, true, false],
            [true, false, false, false, true],
            [false, true, false, false, false],
        ] {
            let given = made(Kind::Double).map(|tensor| tensor.detach());
            let given: Vec<Tensor> =
                given.into_iter().zip(wants).map(|(tensor, wants)| tensor.set_requires_grad(wants)).collect();
            let given: [Tensor; 5] = given.try_into().unwrap();
            let leaves: Vec<Tensor> =
                given.iter().filter(|tensor| tensor.requires_grad()).map(Tensor::shallow_clone).collect();
            let expected = wanted.iter().zip(wants).filter(|(_, wants)| *wants).map(|(gradient, _)| gradient);
            for (found, wanted) in gradients(&leaves, &[&of(&given)]).iter().zip(expected) {
                close(found, wanted, Kind::Double, &format!("{threads} threads, wanted {wants:?}"));
            }
        }
    }
    let [x, w1, b1, w2, b2] = made(Kind::Float);
    let narrow = b1.narrow(0, 0, 5);
    let weights = Weights { w1: &w1, b1: &narrow, w2: &w2, b2: &b2 };
    assert!(feed_forward(&x, weights, 0.0).unwrap_err().to_string().contains("shapes"));
}

/// Leaves for x [rows, inputs] and maps with these outputs: x, then each map's weight and bias, the second map without.
fn map_inputs(rows: i64, inputs: i64, outputs: &[i64], kind: Kind) -> Vec<Tensor> {
    let mut made = vec![leaf(&numbers(&[rows, inputs], 1.0), kind)];
    for (index, &outputs) in outputs.iter().enumerate() {
        made.push(leaf(&numbers(&[outputs, inputs], 2.0 + index as f64), kind));
        if index != 1 {
            made.push(leaf(&numbers(&[outputs], 12.0 + index as f64), kind));
        }
    }
    made
}

/// The maps of [`map_inputs`], by ours or by LibTorch's own.
fn mapped(inputs: &[Tensor], ours: bool) -> Vec<Tensor> {
    let (mut maps, mut rest) = (Vec::new(), &inputs[1..]);
    while let [weight, others @ ..] = rest {
        let bias = others.first().filter(|bias| bias.dim() == 1);
        maps.push(Map { weight, bias });
        rest = if bias.is_some() { &others[1..] } else { others };
    }
    match ours {
        true => linear(&inputs[0], &maps).unwrap(),
        false => maps.iter().map(|map| inputs[0].f_linear(map.weight, map.bias).unwrap()).collect(),
    }
}

/// LibTorch's threads as they were, at the end.
struct Threads(i32);

impl Drop for Threads {
    fn drop(&mut self) {
        tch::set_num_threads(self.0);
    }
}

/// Sizes on both sides of every block and panel of the kernels (`products.h`), by several threads.
#[test]
fn linear_maps_are_the_definition_on_any_number_of_threads() {
    let _threads = Threads(tch::get_num_threads());
    let shapes: [(i64, i64, &[i64]); 6] = [
        (40, 1, &[1]),
        (33, 7, &[5, 16, 3]),
        (97, 130, &[49, 6]),
        (600, 300, &[97, 1, 33]),
        (50, 20, &[300, 270]),
        (2, 9, &[4, 3]),
    ];
    for (rows, inputs, outputs) in shapes {
        let reference = map_inputs(rows, inputs, outputs, Kind::Double);
        let wanted = mapped(&reference, false);
        let wanted_gradients = gradients(&reference, &wanted.iter().collect::<Vec<_>>());
        for kind in [Kind::Double, Kind::Float] {
            let mut first: Option<Vec<Tensor>> = None;
            for threads in [1, 2, 3, 7] {
                tch::set_num_threads(threads);
                let what = format!("{rows} rows, {inputs} to {outputs:?}, {kind:?}, {threads} threads");
                let given = map_inputs(rows, inputs, outputs, kind);
                let found = mapped(&given, true);
                for (found, wanted) in found.iter().zip(&wanted) {
                    close(found, wanted, kind, &what);
                }
                let made = gradients(&given, &found.iter().collect::<Vec<_>>());
                for (index, (found, wanted)) in made.iter().zip(&wanted_gradients).enumerate() {
                    close(found, wanted, kind, &format!("{what}: gradient {index}"));
                }
                let all: Vec<Tensor> = found.into_iter().chain(made).collect();
                let same = |(a, b): (&Tensor, &Tensor)| a.equal(b);
                let first = first.get_or_insert_with(|| all.iter().map(Tensor::shallow_clone).collect());
                // LibTorch makes those of few rows
                assert!(rows < 32 || all.iter().zip(first.iter()).all(same), "{what}: other sums than one thread's");
            }
        }
    }
}

#[test]
fn linear_maps_give_only_the_gradients_that_are_asked_for() {
    let inputs = map_inputs(50, 6, &[4, 3], Kind::Double);
    let frozen: Vec<Tensor> = inputs.iter().map(Tensor::detach).collect();
    assert!(!mapped(&frozen, true)[0].requires_grad());
    // x and the second weight alone, through the second map alone: the first has no gradient
    let given = [&inputs[0], &frozen[1], &frozen[2], &inputs[3]].map(Tensor::shallow_clone);
    let found = gradients(&[inputs[0].shallow_clone(), inputs[3].shallow_clone()], &[&mapped(&given, true)[1]]);
    let wanted = gradients(&[inputs[0].shallow_clone(), inputs[3].shallow_clone()], &[&mapped(&given, false)[1]]);
    for (found, wanted) in found.iter().zip(&wanted) {
        close(found, wanted, Kind::Double, "one map of two");
    }
    // one weight for two maps, and one that is its own input
    let square = leaf(&numbers(&[40, 40], 3.0), Kind::Double);
    let twice = |ours: bool| {
        let maps = [Map { weight: &square, bias: None }; 2];
        let made = if ours {
            linear(&square, &maps).unwrap()
        } else {
            (0..2).map(|_| square.f_linear(&square, None::<&Tensor>).unwrap()).collect()
        };
        gradients(&[square.shallow_clone()], &made.iter().collect::<Vec<_>>()).remove(0)
    };
    close(&twice(true), &twice(false), Kind::Double, "one tensor in three places");
    // a strided input and a strided gradient
    let turned = |x: &Tensor, ours: bool| {
        let x = x.view([6, 50]).tr();
        let weight = &inputs[3];
        let maps = [Map { weight, bias: None }];
        let made =
            if ours { linear(&x, &maps).unwrap().remove(0) } else { x.f_linear(weight, None::<&Tensor>).unwrap() };
        gradients(&[inputs[3].shallow_clone()], &[&made.tr()]).remove(0)
    };
    close(&turned(&inputs[0], true), &turned(&inputs[0], false), Kind::Double, "strided");
    // shapes that do not go together
    let wrong = linear(&inputs[0], &[Map { weight: &inputs[2], bias: None }]);
    assert!(wrong.is_err());
}

#[test]
fn what_is_no_number_passes_through_every_kernel() {
    let nan = Tensor::from_slice(&[f32::NAN, 1.0]).view([1, 2]);
    let (weight, bias) = (Tensor::from_slice(&[1f32, 1.0]), Tensor::from_slice(&[0f32, 0.0]));
    let eye = Tensor::eye(2, (Kind::Float, Device::Cpu));
    let weights = Weights { w1: &eye, b1: &bias, w2: &eye, b2: &bias };
    for (what, found) in [
        ("norm", norm(&nan, affine(&weight, &bias)).unwrap()),
        ("feed-forward", feed_forward(&nan, weights, 0.0).unwrap()),
        ("dropout", dropout(&nan, 0.0).unwrap()),
        ("linear", linear(&nan.expand([40, 2], false), &[Map { weight: &eye, bias: None }]).unwrap().remove(0)),
    ] {
        assert!(found.double_value(&[0, 0]).is_nan(), "{what}");
    }
    assert!(adam::norm(&nan.view([2])).unwrap().is_nan());
}

#[test]
fn the_gradients_norm_is_that_of_all_elements() {
    for count in [1, 1000, 100_001] {
        let x = numbers(&[count], 1.0);
        let wanted = x.norm().double_value(&[]);
        let found = [Kind::Double, Kind::Float].map(|kind| adam::norm(&x.to_kind(kind)).unwrap());
        assert!((found[0] - wanted).abs() < 1e-12 * wanted && (found[1] - wanted).abs() < 1e-6 * wanted);
    }
    assert!(adam::norm(&numbers(&[3, 4], 1.0)).is_err(), "not flat");
}

#[test]
fn kernels_of_every_instruction_set_pass() {
    instructions::pass_with_every_set();
}

#[test]
fn device_settings_are_kept_and_end() {
    assert!(!device::tf32_is_allowed(), "LibTorch's own choice");
    device::allow_tf32(true);
    assert!(device::tf32_is_allowed());
    device::allow_tf32(false);
    assert!(!device::tf32_is_allowed());
    // bfloat16 is for CUDA: a product on the CPU stays what it is
    let x = numbers(&[3, 3], 1.0).to_kind(Kind::Float);
    let product = device::with_bfloat16(true, || x.matmul(&x));
    assert!(product.equal(&x.matmul(&x)) && product.kind() == Kind::Float);
    assert!(device::to_device(&x, Device::Cpu).equal(&x));
}
