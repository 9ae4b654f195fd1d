//! Span corruption: counts, cuts and tokens, by hand, as properties, and over many draws.

use proptest::prelude::*;
use std::collections::HashMap;
use std::ops::Range;
use synthesizer::data::span_corruption::{corrupt, fillings, spans, Draw};
use synthesizer::experiment::spans::SpanCounts;

const FIRST: u32 = 1000;

fn counts(length: usize) -> SpanCounts {
    SpanCounts::of(length, 0.15, 3.0)
}

#[test]
fn counts_are_t5s() {
    // (window, density, mean span) -> (masked tokens, spans, source, target), each by hand
    let cases: [(usize, f64, f64, [usize; 4]); 10] = [
        // T5's pre-training: 568 tokens become 512 of source (and 114 of target, which here has one sentinel more)
        (568, 0.15, 3.0, [85, 28, 512, 115]),
        (512, 0.15, 3.0, [77, 26, 462, 105]), // 76.8, 25.7
        (128, 0.15, 3.0, [19, 6, 116, 27]),   // 19.2, 6.3
        (30, 0.15, 3.0, [4, 1, 28, 7]),       // 4.5 is a tie: to the even 4
        (10, 0.15, 3.0, [2, 1, 10, 5]),       // 1.5 is a tie: to the even 2
        (3, 0.15, 3.0, [1, 1, 4, 4]),         // 0.45: but at least one
        (2, 0.9, 3.0, [1, 1, 3, 4]),          // 1.8: but one stays
        (1, 0.15, 3.0, [1, 1, 2, 4]),         // nothing but a span
        (10, 0.9, 1.0, [9, 1, 3, 12]),        // one token stays, and parts no two spans
        (20, 0.5, 1.0, [10, 10, 21, 22]),
    ];
    for (length, density, mean, expected) in cases {
        let counts = SpanCounts::of(length, density, mean);
        let got = [counts.noise, counts.spans, counts.source(), counts.target()];
        assert_eq!(got, expected, "{length} {density} {mean}");
        assert_eq!(counts.longest(), expected[2].max(expected[3]));
    }
}

#[test]
fn a_window_by_hand() {
    let tokens: Vec<u32> = (10..18).collect();
    let (source, target) = corrupt(&tokens, &[1..3, 5..6, 7..8], FIRST);
    assert_eq!(source, [10, 1000, 13, 14, 1001, 16, 1002]);
    assert_eq!(target, [1000, 11, 12, 1001, 15, 1002, 17, 1003]);
    // a span at the start, and text after the last
    let (source, target) = corrupt(&tokens[..4], std::slice::from_ref(&(0..2)), FIRST);
    assert_eq!((source, target), (vec![1000, 12, 13], vec![1000, 10, 11, 1001]));
}

#[test]
fn fillings_are_read_by_their_sentinels() {
    let read = |target: &[u32], count| fillings(target, FIRST, count);
    let some = |tokens: &[u32]| Some(tokens.to_vec());
    assert_eq!(read(&[1000, 11, 12, 1001, 15, 1002], 2), [some(&[11, 12]), some(&[15])]);
    // out of order, an empty one, one without its sentinel, a word before all, one that comes twice, and one too many
    assert_eq!(read(&[9, 1001, 5, 1000, 1003, 7, 8, 1001, 6], 3), [some(&[]), some(&[5]), None]);
    assert_eq!(read(&[1000, 4], 1), [some(&[4])], "without the last sentinel");
    assert_eq!(read(&[], 1), [None]);
}

#[test]
fn a_draw_is_a_function_of_seed_epoch_and_window() {
    let draw = |seed, epoch, window| spans(counts(128), Draw::Training { seed, epoch }, window);
    let one = draw(1, 0, 7);
    assert_eq!(one, draw(1, 0, 7));
    for (other, what) in
        [(draw(2, 0, 7), "seed"), (draw(1, 1, 7), "epoch"), (draw(1, 0, 8), "window"), (draw(0, 1, 7), "both")]
    {
        assert_ne!(one, other, "{what}");
    }
    assert_ne!(draw(0, 0, 7), spans(counts(128), Draw::HeldOut, 7));
    assert_ne!(spans(counts(128), Draw::HeldOut, 6), spans(counts(128), Draw::HeldOut, 7));
}

/// A run of today masks as one of tomorrow: what is drawn is what scripts/make_span_fixtures.py draws.
#[test]
fn draws_are_those_of_the_python_script() {
    #[derive(serde::Deserialize)]
    struct Case {
        length: usize,
        density: f64,
        mean: f64,
        draw: Option<[u64; 2]>,
        window: u64,
        spans: Vec<[usize; 2]>,
    }
    let cases: Vec<Case> = serde_json::from_str(include_str!("fixtures/span_corruption/spans.json")).unwrap();
    assert_eq!(cases.len(), 20);
    for case in cases {
        let counts = SpanCounts::of(case.length, case.density, case.mean);
        let draw = case.draw.map_or(Draw::HeldOut, |[seed, epoch]| Draw::Training { seed, epoch });
        let expected: Vec<Range<usize>> = case.spans.iter().map(|[start, end]| *start..*end).collect();
        assert_eq!(spans(counts, draw, case.window), expected, "{} tokens, {draw:?}, {}", case.length, case.window);
    }
}

#[test]
fn density_and_spans_over_many_windows() {
    let (mut masked, mut tokens, mut pieces) = (0, 0, 0);
    // lengths of the stretches before the spans, and of the spans, by their number
    let (mut kept, mut lengths) = ([0usize; 6], [0usize; 6]);
    for window in 0..4000 {
        let spans = spans(counts(128), Draw::Training { seed: 3, epoch: 0 }, window);
        pieces += spans.len();
        tokens += 128;
        masked += spans.iter().map(|span| span.len()).sum::<usize>();
        let mut before = 0;
        for (number, span) in spans.iter().enumerate() {
            kept[number] += span.start - before;
            lengths[number] += span.len();
            before = span.end;
        }
        assert_eq!(before, 128, "a window ends with a span");
    }
    assert_eq!((masked, pieces), (4000 * 19, 4000 * 6));
    assert!((masked as f64 / tokens as f64 - 0.15).abs() < 0.002);
    assert!((masked as f64 / pieces as f64 - 3.0).abs() < 0.2);
    // no stretch is longer than another but by chance, under five standard deviations of these means
    for (kept, length) in kept.iter().zip(lengths) {
        assert!((*kept as f64 / 4000.0 - 109.0 / 6.0).abs() < 1.3, "{kept}");
        assert!((length as f64 / 4000.0 - 19.0 / 6.0).abs() < 0.16, "{length}");
    }
}

/// Six tokens, three masked in two spans: the kept ones are cut 1+2 or 2+1, and so are the masked ones.
#[test]
fn every_cut_is_as_likely() {
    let mut seen: HashMap<Vec<Range<usize>>, u32> = HashMap::new();
    let counts = SpanCounts::of(6, 0.5, 1.5);
    assert_eq!((counts.noise, counts.spans), (3, 2));
    for window in 0..4000 {
        *seen.entry(spans(counts, Draw::Training { seed: 1, epoch: 0 }, window)).or_default() += 1;
    }
    for expected in [[1..2, 4..6], [1..3, 5..6], [2..3, 4..6], [2..4, 5..6]] {
        let count = seen.remove(expected.as_slice()).unwrap_or(0);
        // five standard deviations of a share of a quarter
        assert!((f64::from(count) - 1000.0).abs() < 5.0 * (4000.0f64 * 0.25 * 0.75).sqrt(), "{expected:?}: {count}");
    }
    assert!(seen.is_empty(), "{seen:?}");
}

proptest! {
    #[test]
    fn source_and_target_make_the_window_again(length in 1usize..300, density in 0.01f64..0.99, mean in 1.0f64..9.0, seed: u64, window: u64) {
        let counts = SpanCounts::of(length, density, mean);
        let tokens: Vec<u32> = (0..length as u32).map(|at| at * 7 % 500).collect();
        let spans = spans(counts, Draw::Training { seed, epoch: 2 }, window);
        prop_assert_eq!(spans.len(), counts.spans);
        prop_assert_eq!(spans.iter().map(|span| span.len()).sum::<usize>(), counts.noise);
        prop_assert!(spans.iter().all(|span| !span.is_empty()));
        prop_assert!(spans.windows(2).all(|pair| pair[0].end < pair[1].start), "an unmasked token parts two spans");
        let (source, target) = corrupt(&tokens, &spans, FIRST);
        prop_assert_eq!((source.len() + 1, target.len() + 1), (counts.source(), counts.target()));
        prop_assert_eq!(*target.last().unwrap(), FIRST + counts.spans as u32);
        // each sentinel of the source gives way to what follows it in the target, up to the next
        let mut rebuilt = Vec::new();
        for token in source {
            if token < FIRST {
                rebuilt.push(token);
                continue;
            }
            let after = target.iter().skip_while(|other| **other != token).skip(1);
            rebuilt.extend(after.take_while(|other| **other < FIRST));
        }
        prop_assert_eq!(rebuilt, tokens);
    }
}
