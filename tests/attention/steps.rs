//! One position at a time gives what the whole prefix gives.

use crate::*;
use synthesizer::attention::AttentionError;

/// More positions than a cache adds at a time.
const LONG: i64 = 40;

fn long(mix: &str) -> AttentionConfig {
    let mut config = AttentionConfig { max_length: LONG, ..config(mix, true) };
    for term in &mut config.terms {
        for (name, value) in &mut term.parameters {
            if name == "a" {
                *value = 4;
            }
        }
    }
    config
}

#[test]
fn steps_equal_the_whole_prefix() {
    for mix in MIXES.iter().chain(CAUSAL_OPERATORS) {
        let (_store, layer) = layer(&long(mix));
        let x = random(&[3, LONG, D]);
        let whole = layer.forward(&x, None, false).unwrap();
        let mut state = layer.start();
        assert!(state.is_empty());
        for t in 0..LONG {
            let out = layer.step(&x.narrow(1, t, 1), &mut state).unwrap();
            let error = distance(&out, &whole.narrow(1, t, 1));
            assert!(error < 1e-12, "{mix}: {error:e} at position {t}");
            assert!(!out.requires_grad());
        }
        assert_eq!(state.len(), LONG);
        let error = layer.step(&x.narrow(1, 0, 1), &mut state).unwrap_err();
        assert_eq!(error, AttentionError::TooLong { length: LONG + 1, max_length: LONG });
    }
}

#[test]
fn steps_equal_the_whole_prefix_after_reordering() {
    for mix in MIXES.iter().chain(CAUSAL_OPERATORS) {
        let (_store, layer) = layer(&long(mix));
        let mut x = random(&[2, LONG, D]);
        let mut state = layer.start();
        // Before the first step there is nothing to reorder; later the rows grow, swap, repeat and shrink.
        let orders: &[(i64, &[i64])] =
            &[(0, &[0, 1]), (2, &[1, 1, 0, 0]), (5, &[3, 0, 1, 2]), (33, &[2, 2, 1]), (36, &[0])];
        for t in 0..LONG {
            if let Some((_, rows)) = orders.iter().find(|(when, _)| *when == t) {
                let rows = Tensor::from_slice(rows);
                state.reorder(&rows);
                x = x.index_select(0, &rows);
                // From here on each copy goes its own way.
                x.narrow(1, t, LONG - t).copy_(&random(&[rows.size()[0], LONG - t, D]));
            }
            let out = layer.step(&x.narrow(1, t, 1), &mut state).unwrap();
            let whole = layer.forward(&x.narrow(1, 0, t + 1), None, false).unwrap();
            let error = distance(&out, &whole.narrow(1, t, 1));
            assert!(error < 1e-12, "{mix}: {error:e} at position {t}");
        }
    }
}

#[test]
fn a_step_of_other_rows_or_more_positions_is_an_error() {
    let (_store, layer) = layer(&config("D+V", true));
    let mut state = layer.start();
    let _ = layer.step(&random(&[2, 1, D]), &mut state).unwrap();
    let error = layer.step(&random(&[3, 1, D]), &mut state).unwrap_err().to_string();
    assert!(error.contains("[3, 1, 8]") && error.contains("[2, 1, 8]"), "{error}");
    assert!(layer.step(&random(&[2, 2, D]), &mut state).is_err());
    assert_eq!(state.len(), 1);
}
