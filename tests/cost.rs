//! What a layer costs, held against the paper, against a public README, and by hand.

use std::process::{Command, Output};
use synthesizer::attention::cost::{count_logit_weights, CostError, Input, Layer, Readme, Thousands};
use synthesizer::attention::registry::{Shape, FUNCTIONS};
use synthesizer::attention::{AttentionConfig, AttentionError, Mixing, SelfAttention, Term};
use synthesizer::experiment::Mix;
use tch::{nn, Device};

fn term(name: &str, parameters: &[(&str, i64)]) -> Term {
    Term { name: name.into(), parameters: parameters.iter().map(|(key, value)| (key.to_string(), *value)).collect() }
}

fn layer(terms: &[Term], d_model: i64, heads: i64, max_length: i64, mixing: Mixing) -> Layer {
    Layer::new(terms, Shape { d_model, heads, max_length }, mixing).unwrap()
}

/// The table that the PyTorch re-implementation's README prints (paper/PAPER.md, last section).
#[test]
fn the_readme_comes_out_to_the_digit() {
    let rows = [
        ("vanilla", vec![term("V", &[])], 3_148_800, 3_145_729),
        ("dense", vec![term("D", &[("hidden", 32)])], 1_083_456, 1_082_370),
        ("random", vec![term("R", &[])], 1_050_624, 1_048_577),
        ("random, fixed", vec![term("Rfix", &[])], 1_050_624, 1_048_577),
        ("factorized random", vec![term("V", &[("rank", 8)])], 1_066_000, 1_064_961),
        ("factorized dense", vec![term("FD", &[("hidden", 0), ("a", 4), ("b", 8)])], 1_061_900, 1_060_865),
        ("mixture", vec![term("R", &[]), term("V", &[])], 3_149_824, 3_145_729),
    ];
    for (name, terms, parameters, flops) in rows {
        let layer = layer(&terms, 1024, 1, 32, Mixing::Sum);
        assert_eq!(layer.readme(), Readme { parameters, flops }, "{name}");
        // Ours has an output projection, and nothing else more.
        assert_eq!(layer.parameters().total, parameters + 1024 * 1024 + 1024, "{name}");
    }
}

/// PAPER.md, Table 2: Q and K of 12 layers are 6,291,456 weights, as many as their 12 R.
#[test]
fn the_papers_arithmetic_of_table_2() {
    let v = layer(&[term("V", &[])], 512, 8, 256, Mixing::Softmax);
    let r = layer(&[term("R", &[])], 512, 8, 256, Mixing::Softmax);
    assert_eq!(12 * (v.parameters().logits - 2 * 512), 6_291_456);
    assert_eq!(12 * r.parameters().logits, 6_291_456);
}

#[test]
fn formulas_of_table_1() {
    let value = |terms: &[Term]| {
        let layer = layer(terms, 512, 8, 256, Mixing::Softmax);
        (layer.formula(), layer.formula_parameters())
    };
    assert_eq!(value(&[term("V", &[])]), ("2d²".into(), 2 * 512 * 512));
    assert_eq!(value(&[term("R", &[])]), ("l²".into(), 256 * 256));
    assert_eq!(value(&[term("Rfix", &[])]), ("l²".into(), 256 * 256));
    assert_eq!(value(&[term("FR", &[])]), ("2lk".into(), 2 * 256 * 8));
    assert_eq!(value(&[term("D", &[])]), ("d² + dl".into(), 512 * 512 + 512 * 256));
    assert_eq!(value(&[term("FD", &[])]), ("d² + d(a+b)".into(), 512 * 512 + 512 * (16 + 16)));
    assert_eq!(value(&[term("R", &[]), term("V", &[])]), ("l² + 2d²".into(), 256 * 256 + 2 * 512 * 512));
    assert_eq!(value(&[term("V", &[("rank", 4)])]), ("2dr".into(), 2 * 512 * 4));
    assert_eq!(value(&[term("D", &[("hidden", 24)])]), ("dm + ml".into(), 512 * 24 + 24 * 256));
    assert_eq!(value(&[term("FR", &[("k", 3)])]), ("2lk".into(), 2 * 256 * 3));
    let fd = |hidden| term("FD", &[("hidden", hidden), ("a", 8), ("b", 32)]);
    assert_eq!(value(&[fd(24)]), ("dm + m(a+b)".into(), 512 * 24 + 24 * 40));
    assert_eq!(value(&[fd(0)]), ("d(a+b)".into(), 512 * 40));
}

/// Each by a written-out sum: B 3, L 10 of N 12, d 8, h 2.
#[test]
fn flops_by_hand() {
    let (b, l, d, h) = (3, 10, 8, 2);
    let count = |terms: &[Term], mixing| {
        layer(terms, d as i64, h as i64, 12, mixing).flops(Input { batch: b as i64, length: l as i64 }).unwrap()
    };
    let around = 2 * (2 * b * l * d * d) + 2 * b * h * l * l * (d / h);
    let softmax = 5 * b * h * l * l;

    let v = count(&[term("V", &[])], Mixing::Softmax);
    assert_eq!(v.total, around + softmax + 2 * (2 * b * l * d * d) + 2 * b * h * l * l * (d / h));
    let dense = count(&[term("D", &[("hidden", 5)])], Mixing::Softmax);
    assert_eq!(dense.total, around + softmax + 2 * b * l * d * (h * 5) + 2 * b * h * l * l * 5);
    // The dot product of a random layer is there once, not once a sequence; so is its softmax.
    let fr = count(&[term("FR", &[("k", 3)])], Mixing::Softmax);
    assert_eq!(fr.total, around + 5 * h * l * l + 2 * h * l * l * 3);
    let r = count(&[term("R", &[])], Mixing::Softmax);
    assert_eq!(r.total, around + 5 * h * l * l);
    // N = 12: a = 3, b = 4.
    let fd = count(&[term("FD", &[("hidden", 5)])], Mixing::Softmax);
    assert_eq!(fd.total, around + softmax + 2 * b * l * (d * h * 5 + h * 5 * (3 + 4)) + b * h * l * l);
    let plain = count(&[term("R", &[]), term("V", &[])], Mixing::Sum);
    assert_eq!(plain.total, v.total + b * h * l * l);
    let mixed = count(&[term("R", &[]), term("V", &[])], Mixing::Softmax);
    assert_eq!(mixed.total, v.total + 3 * b * h * l * l);
    let parts = mixed.projections + mixed.logits + mixed.mixing + mixed.softmax;
    assert_eq!(parts + mixed.value + mixed.weighted_values + mixed.output, mixed.total);
}

/// The same for operators: K 5, k 3; LC's kernels and Mixer's matrix are there once, not once a sequence.
#[test]
fn flops_of_operators_by_hand() {
    let (b, l, n, d, h) = (3, 10, 12, 8, 2);
    let count = |terms: &[Term]| {
        layer(terms, d as i64, h as i64, n, Mixing::Softmax).flops(Input { batch: b as i64, length: l as i64 }).unwrap()
    };
    let map = 2 * b * l * d * d;
    let lightweight = count(&[term("LC", &[("kernel", 5)])]);
    assert_eq!((lightweight.projections, lightweight.softmax), (map, 5 * h * 5));
    assert_eq!(lightweight.total, 3 * map + 5 * h * 5 + 2 * b * l * d * 5);
    let dynamic = count(&[term("DC", &[("kernel", 5)])]);
    assert_eq!(dynamic.projections, map + 2 * b * l * d * (h * 5));
    assert_eq!(dynamic.total, 3 * map + 2 * b * l * d * (h * 5) + 5 * b * l * h * 5 + 2 * b * l * d * 5);
    let linformer = count(&[term("Lin", &[("k", 3)])]);
    assert_eq!(linformer.projections, 2 * map + 2 * (2 * b * 3 * l * d));
    assert_eq!(
        (linformer.logits, linformer.weighted_values),
        (2 * b * h * l * 3 * (d / h), 2 * b * h * l * 3 * (d / h))
    );
    assert_eq!(linformer.total, 4 * map + 4 * b * 3 * l * d + 2 * (2 * b * l * 3 * d) + 5 * b * h * l * 3);
    // 5 n log2 n of 96 points: 3160.78…
    let fourier = count(&[term("FFT", &[])]);
    assert_eq!((fourier.total, fourier.value, fourier.output), (3 * 3161, 0, 0));
    let mixer = count(&[term("Mixer", &[])]);
    assert_eq!(mixer.total, 2 * map + 2 * b * l * l * d);
}

/// Wu et al.'s blocks: a gate beside value and output, and h K (LC) or d h K (DC) for the kernels.
#[test]
fn parameters_of_operators_by_hand() {
    let own = |terms: &[Term]| layer(terms, 512, 8, 256, Mixing::Softmax).parameters();
    let gate = 512 * 512 + 512;
    assert_eq!(own(&[term("LC", &[])]).logits, gate + 8 * 31);
    assert_eq!(own(&[term("DC", &[])]).logits, gate + 512 * 8 * 31);
    assert_eq!(own(&[term("Lin", &[])]).logits, 2 * gate + 2 * 64 * 256);
    assert_eq!(own(&[term("Mixer", &[])]).logits, 256 * 256);
    assert_eq!(own(&[term("FFT", &[])]).total, 0);
    assert_eq!(own(&[term("Mixer", &[])]).total, 256 * 256 + 2 * gate);
    let formula = |terms: &[Term]| layer(terms, 512, 8, 256, Mixing::Softmax).formula_parameters();
    assert_eq!(formula(&[term("LC", &[("kernel", 7)])]), 512 * 512 + 7);
    assert_eq!(formula(&[term("DC", &[("kernel", 7)])]), 512 * 512 + 512 * 7);
    assert_eq!(formula(&[term("Lin", &[("k", 16)])]), 2 * 512 * 512 + 2 * 256 * 16);
}

fn build(terms: &[Term], shape: Shape, mixing: Mixing) -> nn::VarStore {
    let Shape { d_model, heads, max_length } = shape;
    let store = nn::VarStore::new(Device::Cpu);
    let config =
        AttentionConfig { d_model, heads, max_length, terms: terms.to_vec(), mixing, dropout: 0.0, causal: false };
    SelfAttention::new(&store.root(), &config).unwrap();
    store
}

/// Every function of the registry alone, and mixes of two, three and four.
fn mixes() -> Vec<Vec<Term>> {
    let typed = [
        "V(rank=3)",
        "D(hidden=5)",
        "FR(k=3)",
        "FD(hidden=5)",
        "FD(hidden=0, a=6, b=2)",
        "FD(a=4)",
        "R+V",
        "Rfix+V",
        "R+D+V",
        "FR+FD+V(rank=2)+D",
        "LC(kernel=5)",
        "DC(kernel=5)",
        "Lin(k=5)",
    ];
    let typed = typed.iter().map(|mix| mix.parse::<Mix>().unwrap().terms);
    FUNCTIONS.iter().map(|entry| vec![Term::new(entry.name)]).chain(typed).collect()
}

/// Fails if a function's file gives a cost that is not its weights'.
#[test]
fn parameters_are_those_of_a_real_layer() {
    for terms in mixes() {
        for (d_model, heads, mixing) in [(8, 1, Mixing::Softmax), (12, 3, Mixing::Sigmoid), (8, 4, Mixing::Sum)] {
            let shape = Shape { d_model, heads, max_length: 12 };
            let store = build(&terms, shape, mixing);
            let trainable: usize = store.trainable_variables().iter().map(|weight| weight.numel()).sum();
            let total: usize = store.variables().values().map(|weight| weight.numel()).sum();
            let counted = Layer::new(&terms, shape, mixing).unwrap().parameters();
            assert_eq!((counted.trainable, counted.total), (trainable as u64, total as u64), "{terms:?} {shape:?}");
        }
    }
}

/// The paper's formula against the weights of a real layer of one head, biases, value, output and α left out.
#[test]
fn formulas_are_the_count_of_one_head() {
    for terms in mixes() {
        let shape = Shape { d_model: 10, heads: 1, max_length: 12 };
        let counted = count_logit_weights(&build(&terms, shape, Mixing::Softmax).variables());
        let layer = Layer::new(&terms, shape, Mixing::Softmax).unwrap();
        assert_eq!(counted, layer.formula_parameters(), "{terms:?}: {}", layer.formula());
    }
    // Dense, d 10, l 12: d² + dl; its biases would add 10 + 12.
    let shape = Shape { d_model: 10, heads: 1, max_length: 12 };
    assert_eq!(count_logit_weights(&build(&[Term::new("D")], shape, Mixing::Softmax).variables()), 100 + 120);
}

#[test]
fn what_cannot_be_counted_says_so() {
    let shape = Shape { d_model: 8, heads: 2, max_length: 12 };
    let fails = |terms: &[Term], shape| Layer::new(terms, shape, Mixing::Softmax).unwrap_err();
    let v = [term("V", &[])];
    assert_eq!(fails(&v, Shape { heads: 3, ..shape }), AttentionError::Heads { heads: 3, d_model: 8 }.into());
    let size = |name: &str, value| CostError::Size { name: name.into(), value };
    assert_eq!(fails(&v, Shape { max_length: 0, ..shape }), size("max_length", 0));
    assert_eq!(fails(&v, Shape { d_model: 1 << 40, ..shape }), size("d_model", 1 << 40));
    assert_eq!(fails(&[term("V", &[("rank", 1 << 40)])], shape), size("V(rank)", 1 << 40));
    assert!(matches!(
        fails(&[term("V", &[("rank", 0)])], shape),
        CostError::Attention(AttentionError::TooSmall { .. })
    ));
    let factors = fails(&[term("FD", &[("a", 5), ("b", 2)])], shape);
    assert!(matches!(factors, CostError::Attention(AttentionError::Factors { a: 5, b: 2, max_length: 12, .. })));
    let layer = Layer::new(&v, shape, Mixing::Softmax).unwrap();
    let error = layer.flops(Input { batch: 1, length: 13 }).unwrap_err();
    assert_eq!(error, AttentionError::TooLong { length: 13, max_length: 12 }.into());
    let largest = Shape { d_model: 1 << 20, heads: 1, max_length: 1 << 20 };
    let layer = Layer::new(&v, largest, Mixing::Softmax).unwrap();
    assert_eq!(layer.flops(Input { batch: 1 << 20, length: 1 << 20 }), Err(CostError::TooMany));
}

#[test]
fn thousands() {
    let written: Vec<String> = [0, 999, 1000, 3_148_800].iter().map(|n| Thousands(*n).to_string()).collect();
    assert_eq!(written, ["0", "999", "1,000", "3,148,800"]);
    assert_eq!(format!("{:>7}", Thousands(1000)), "  1,000");
}

fn synthesizer(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_synthesizer")).arg("cost").args(arguments).output().unwrap()
}

#[test]
fn the_command_writes_its_csv() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/cost.csv");
    let shape = ["--d-model", "16", "--heads", "2", "--max-length", "8"];
    let arguments = [&["--mix", "D", "--mix", "Rfix + V", "--csv", path.to_str().unwrap()][..], &shape].concat();
    let output = synthesizer(&arguments);
    assert!(output.status.success(), "{output:?}");
    // D: value and output 2(256+16), w1 256+16, w2 2·8·8, b2 2·8. FLOPs: 4·(2·8·256)... written out below.
    let around = 2 * (256 + 16);
    let dense = around + (256 + 16) + 2 * 8 * 8 + 2 * 8;
    let dense_flops = 3 * (2 * 8 * 256) + 2 * (2 * 2 * 64 * 8) + 5 * 2 * 64;
    let mixed = around + 2 * (256 + 16) + 4;
    let mixed_flops = 4 * (2 * 8 * 256) + 2 * (2 * 2 * 64 * 8) + (5 + 3) * 2 * 64;
    let expected = format!(
        "mix,d_model,heads,max_length,trainable_parameters,total_parameters,formula,formula_parameters,\
         counted_one_head_no_bias,forward_flops\n\
         D,16,2,8,{dense},{dense},d² + dl,384,384,{dense_flops}\n\
         Rfix+V,16,2,8,{mixed},{},l² + 2d²,576,576,{mixed_flops}\n",
        mixed + 2 * 64
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
}

#[test]
fn the_command_shows_the_readme_and_json() {
    let output = synthesizer(&["--rules", "readme"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let row =
        |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(row("V ")[1..3], ["3,148,800", "3,145,729"]);
    assert_eq!(row("FD(")[1..3], ["1,061,900", "1,060,865"]);
    assert_eq!(row("R+V")[1..3], ["3,149,824", "3,145,729"]);
    let output = synthesizer(&["--mix", "R", "--json", "--batch", "3"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json[0]["logit_parameters"], 8 * 256 * 256);
    assert_eq!(json[0]["flops"]["softmax"], 5 * 8 * 256 * 256);
    assert_eq!(json[0]["batch"], 3);
}

#[test]
fn the_users_faults_end_in_one_message_and_code_2() {
    let faults: [(&[&str], &str); 5] = [
        (&["--mix", "R+Q"], "`Q`"),
        (&["--heads", "7"], "heads = 7 does not divide d_model = 512"),
        (&["--length", "300"], "300"),
        (&["--d-model", "0"], "d_model = 0"),
        (&["--csv", "/proc/nothing/cost.csv"], "cannot write /proc/nothing/cost.csv"),
    ];
    for (arguments, message) in faults {
        let output = synthesizer(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(message) && !text.contains("should not happen"), "{text}");
    }
}
