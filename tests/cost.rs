//! What a layer costs, held against the paper, against a public README, and by hand.

use synthesizer::attention::cost::{CostError, Input, Layer, Readme, Shape, Thousands};
use synthesizer::attention::{Mixing, Term};

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

#[test]
fn what_cannot_be_counted_says_so() {
    let shape = Shape { d_model: 8, heads: 2, max_length: 12 };
    let fails = |terms: &[Term], shape| Layer::new(terms, shape, Mixing::Softmax).unwrap_err();
    let v = [term("V", &[])];
    assert_eq!(fails(&v, Shape { heads: 3, ..shape }), CostError::Heads { heads: 3, d_model: 8 });
    assert!(matches!(fails(&v, Shape { max_length: 0, ..shape }), CostError::Size { value: 0, least: 1, .. }));
    assert!(matches!(fails(&[term("V", &[("rank", 0)])], shape), CostError::Size { value: 0, .. }));
    assert_eq!(fails(&[term("FD", &[("a", 5), ("b", 2)])], shape), CostError::Factors { a: 5, b: 2, max_length: 12 });
    let layer = Layer::new(&v, shape, Mixing::Softmax).unwrap();
    let error = layer.flops(Input { batch: 1, length: 13 }).unwrap_err();
    assert_eq!(error, CostError::Length { length: 13, max_length: 12 });
}

#[test]
fn thousands() {
    let written: Vec<String> = [0, 999, 1000, 3_148_800].iter().map(|n| Thousands(*n).to_string()).collect();
    assert_eq!(written, ["0", "999", "1,000", "3,148,800"]);
    assert_eq!(format!("{:>7}", Thousands(1000)), "  1,000");
}
