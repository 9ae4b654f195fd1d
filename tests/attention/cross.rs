//! Encoder-decoder attention against plain loops, and its steps against itself.

use crate::*;
use synthesizer::attention::CrossAttention;

fn cross() -> (VarStore, CrossAttention) {
    let mut store = VarStore::new(Device::Cpu);
    store.set_kind(Kind::Double);
    let layer = CrossAttention::new(&store.root(), D, HEADS, 0.0).unwrap();
    shake(&store);
    (store, layer)
}

/// softmax(Q Kᵀ/√d_h) V by loops, for the first `seen` positions of a memory.
fn by_loops(store: &VarStore, x: &Tensor, memory: &Tensor, seen: usize) -> Vec<f64> {
    let variables = store.variables();
    let map = |name: &str, rows: Vec<f64>| -> Vec<f64> {
        let (w, b) = (doubles(&variables[&format!("{name}.weight")]), doubles(&variables[&format!("{name}.bias")]));
        rows.chunks(8)
            .flat_map(|row| {
                (0..8).map(|o| b[o] + (0..8).map(|i| w[o * 8 + i] * row[i]).sum::<f64>()).collect::<Vec<_>>()
            })
            .collect()
    };
    let (q, k, v) = (map("query", doubles(x)), map("key", doubles(memory)), map("value", doubles(memory)));
    let mut context = Vec::new();
    for query in q.chunks(8) {
        for head in 0..2 {
            let logit = |s: usize| (0..4).map(|i| query[head * 4 + i] * k[s * 8 + head * 4 + i]).sum::<f64>() / 2.0;
            let total: f64 = (0..seen).map(|s| logit(s).exp()).sum();
            for i in 0..4 {
                context.push((0..seen).map(|s| logit(s).exp() / total * v[s * 8 + head * 4 + i]).sum());
            }
        }
    }
    map("output", context)
}

#[test]
fn forward_by_loops() {
    let (store, layer) = cross();
    let names: Vec<String> = store.variables().into_keys().collect();
    assert_eq!(names.len(), 8, "{names:?}");
    let (x, memory) = (random(&[3, 4, D]), random(&[3, 5, D]));
    let lengths = [5, 2, 0];
    let out = layer.forward(&x, &memory, Some(&padding(&lengths, 5)), false).unwrap();
    for (row, &seen) in lengths.iter().enumerate() {
        let wanted = by_loops(&store, &x.get(row as i64), &memory.get(row as i64), seen as usize);
        for (ours, theirs) in doubles(&out.get(row as i64)).iter().zip(&wanted) {
            assert!((ours - theirs).abs() < 1e-12, "row {row}: {ours}, {theirs}");
        }
    }
    let open = layer.forward(&x, &memory, None, false).unwrap();
    assert!(distance(&open.get(0), &out.get(0)) < 1e-13);
    assert!(distance(&open.get(1), &out.get(1)) > 1e-6);
}

#[test]
fn gradients_stay_finite_beside_an_empty_memory() {
    let (store, layer) = cross();
    let memory = random(&[2, 5, D]).set_requires_grad(true);
    layer
        .forward(&random(&[2, 4, D]), &memory, Some(&padding(&[3, 0], 5)), false)
        .unwrap()
        .sum(Kind::Double)
        .backward();
    assert!(finite(&memory.grad()));
    assert!(store.trainable_variables().iter().all(|variable| finite(&variable.grad())));
}

#[test]
fn steps_equal_forward_through_every_reordering() {
    let (_store, layer) = cross();
    for padded in [false, true] {
        let memory = random(&[3, 5, D]);
        let mask = padded.then(|| padding(&[5, 3, 1], 5));
        let mut state = layer.start(&memory, mask.as_ref()).unwrap();
        let mut reads: Vec<i64> = vec![0, 1, 2];
        // Beams, a shuffle inside beams, a sentence that ends, rows out of order, uneven groups, one row.
        let orders: &[&[i64]] =
            &[&[0, 1, 2], &[0, 0, 1, 1, 2, 2], &[1, 0, 2, 3, 5, 5], &[2, 3, 4, 5], &[3, 0, 2, 1], &[0, 0, 0, 1], &[3]];
        for rows in orders {
            state.reorder(&Tensor::from_slice(rows));
            reads = rows.iter().map(|&row| reads[row as usize]).collect();
            let index = Tensor::from_slice(&reads);
            let x = random(&[reads.len() as i64, 1, D]);
            let seen = mask.as_ref().map(|mask| mask.index_select(0, &index));
            let wanted = layer.forward(&x, &memory.index_select(0, &index), seen.as_ref(), false).unwrap();
            let out = layer.step(&x, &state).unwrap();
            assert!(distance(&out, &wanted) < 1e-13, "{rows:?}");
            assert!(!out.requires_grad());
        }
        assert!(layer.step(&random(&[2, 1, D]), &state).is_err());
    }
}

#[test]
fn wrong_shapes_are_errors() {
    let (_store, layer) = cross();
    let error = layer.forward(&random(&[2, 4, D]), &random(&[3, 5, D]), None, false).unwrap_err().to_string();
    assert!(error.contains("[3, 5, 8]") && error.contains("[2, length, 8]"), "{error}");
    assert!(layer.forward(&random(&[2, 4, D]), &random(&[2, 5, 7]), None, false).is_err());
    assert!(layer.start(&random(&[2, 5, D]), Some(&padding(&[4], 5))).is_err());
    assert!(CrossAttention::new(&VarStore::new(Device::Cpu).root(), 8, 3, 0.0).is_err());
}
