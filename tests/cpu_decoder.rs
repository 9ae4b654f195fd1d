//! The CPU's decoder and its kernels against LibTorch's operations: the model's plain steps, and each kernel alone.

#[path = "common/instructions.rs"]
mod instructions;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use synthesizer::attention::Mixing;
use synthesizer::experiment::Mix;
use synthesizer::model::decoder::Memory;
use synthesizer::model::seq2seq::Seq2Seq;
use synthesizer::model::TransformerConfig;
use synthesizer::native::decode::{attend_memory, floats, likeliest, Mode, Norm, Packed, SelfAttention, Table};
use tch::{nn, no_grad, Device, Kind, Tensor};

/// More positions than a vector has lanes, and no multiple of them; widths that leave a remainder too.
const LONGEST: i64 = 19;
const VOCABULARY: i64 = 43;

fn config(mix: &str, mixing: Mixing) -> TransformerConfig {
    TransformerConfig {
        vocabulary: VOCABULARY,
        d_model: 44,
        heads: 4,
        encoder_layers: 1,
        decoder_layers: 2,
        d_ff: 50,
        max_length: LONGEST,
        dropout: 0.3,
        attention_dropout: 0.2,
        relu_dropout: 0.1,
        terms: mix.parse::<Mix>().unwrap().terms,
        mixing,
    }
}

/// All weights, biases and alphas too, drawn from N(0, deviation²); those of norms about 1.
fn model(mix: &str, mixing: Mixing, seed: i64) -> (nn::VarStore, Seq2Seq) {
    tch::set_num_threads(1);
    tch::manual_seed(seed);
    let variables = nn::VarStore::new(Device::Cpu);
    let model = Seq2Seq::new(&variables.root(), &config(mix, mixing)).unwrap();
    no_grad(|| {
        for (name, mut variable) in variables.variables() {
            let mean = if name.contains("norm.weight") { 1.0 } else { 0.0 };
            let deviation = if name.ends_with("alpha") || name.ends_with(".r") { 1.0 } else { 0.25 };
            let _ = variable.normal_(mean, deviation);
        }
    });
    (variables, model)
}

/// Three sources of 7, 2 and 5 tokens.
fn memory(model: &Seq2Seq) -> Memory {
    let source = Tensor::from_slice(&[4i64, 9, 3, 8, 5, 7, 2, 6, 2, 0, 0, 0, 0, 0, 11, 3, 9, 4, 2, 0, 0]).view([3, 7]);
    model.encode(&source, Some(source.eq(0)), false).unwrap()
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, |most, difference| {
        assert!(difference.is_finite());
        f32::max(most, difference)
    })
}

const MIXES: [&str; 12] =
    ["V", "D", "R", "Rfix", "FR", "R+FR", "R+D", "D+V", "R+V", "R+D+V", "V(rank=5)", "D(hidden=3)+FR(k=2)"];
const MIXINGS: [Mixing; 3] = [Mixing::Softmax, Mixing::Sigmoid, Mixing::Sum];

#[test]
fn memories_are_the_models_own_without_the_padding() {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let lengths = [7, 2, LONGEST as usize, 1, 5];
    let sources: Vec<Vec<u32>> = lengths.map(|length| (0..length).map(|_| rng.random_range(2..43)).collect()).to_vec();
    let padded = sources.iter().flat_map(|source| {
        let mut row: Vec<i64> = source.iter().map(|&token| i64::from(token)).collect();
        row.resize(LONGEST as usize, 0);
        row
    });
    let padded = Tensor::from_slice(&padded.collect::<Vec<_>>()).view([5, LONGEST]);
    for (index, mix) in MIXES.into_iter().enumerate() {
        let (_variables, model) = model(mix, MIXINGS[index % 3], index as i64);
        let expected = no_grad(|| model.encode(&padded, Some(padded.eq(0)), false)).unwrap().values;
        let (encoder, decoder) = (model.cpu_encoder().unwrap().unwrap(), model.cpu_decoder().unwrap().unwrap());
        let memory = encoder.encode(&decoder, &sources).unwrap();
        assert_eq!(memory.lengths, lengths.map(|length| length as u32), "{mix}");
        let mut first = 0;
        for (row, length) in lengths.into_iter().enumerate() {
            let expected = floats(&expected.get(row as i64).narrow(0, 0, length as i64)).unwrap();
            let difference = largest_difference(&memory.values[first..first + length * 44], &expected);
            assert!(difference < 2e-5, "{mix}: {difference:e} in source {row}");
            first += length * 44;
        }
        assert_eq!(memory.values.len(), first);
        let error = encoder.encode(&decoder, &[vec![1; 20]]).unwrap_err().to_string();
        assert!(error.contains("20 tokens") && error.contains("19"), "{error}");
        let error = encoder.encode(&decoder, &[vec![1, 43]]).unwrap_err().to_string();
        assert!(error.contains("token 43"), "{error}");
    }
}

#[test]
fn steps_are_the_models_own_whatever_the_order_of_hypotheses() {
    // Before the first step, then as beams grow, swap, repeat, and leave.
    let orders: [(i64, &[usize]); 5] =
        [(1, &[0, 0, 1, 1, 2, 2]), (4, &[1, 0, 0, 3, 5, 4]), (6, &[0, 0, 1, 3, 3, 5, 5]), (11, &[6, 2]), (15, &[1])];
    for (index, mix) in MIXES.into_iter().enumerate() {
        let (_variables, model) = model(mix, MIXINGS[index % 3], index as i64);
        let memory = memory(&model);
        let decoder = model.cpu_decoder().unwrap().unwrap_or_else(|| panic!("{mix} has no kernels"));
        let mut fast = no_grad(|| decoder.start(&memory)).unwrap();
        let mut plain = model.start(&memory).unwrap();
        let mut rows = 3;
        let mut rng = ChaCha8Rng::seed_from_u64(index as u64);
        for position in 0..LONGEST {
            if let Some((_, order)) = orders.iter().find(|(when, _)| *when == position) {
                fast.reorder(order);
                plain.reorder(&Tensor::from_slice(&order.iter().map(|&row| row as i64).collect::<Vec<_>>()));
                rows = order.len();
            }
            let tokens: Vec<u32> = (0..rows).map(|_| rng.random_range(0..VOCABULARY as u32)).collect();
            decoder.step(&tokens, &mut fast).unwrap();
            let ids: Vec<i64> = tokens.iter().map(|&token| i64::from(token)).collect();
            let expected = floats(&no_grad(|| model.step(&Tensor::from_slice(&ids), &mut plain)).unwrap()).unwrap();
            let difference = largest_difference(fast.logits(), &expected);
            let size = expected.iter().map(|x| x.abs()).fold(0.0, f32::max);
            assert!(size > 0.5, "{mix}: logits that are all near 0 show nothing");
            assert!(difference < 2e-5 * size.max(1.0), "{mix}: {difference:e} of {size} at position {position}");
        }
        let error = decoder.step(&vec![1; rows], &mut fast).unwrap_err().to_string();
        assert!(error.contains("20 tokens") && error.contains("19"), "{error}");
    }
}

#[test]
fn a_row_does_not_depend_on_the_rows_beside_it() {
    let (_variables, model) = model("R+D+V", Mixing::Softmax, 3);
    let memory = memory(&model);
    let decoder = model.cpu_decoder().unwrap().unwrap();
    let logits = |copies: usize| {
        let mut state = no_grad(|| decoder.start(&memory)).unwrap();
        state.reorder(&vec![1; copies]);
        for token in [1, 7, 3, 9, 4] {
            decoder.step(&vec![token; copies], &mut state).unwrap();
        }
        state.logits().chunks(VOCABULARY as usize).map(<[f32]>::to_vec).collect::<Vec<_>>()
    };
    let alone = logits(1).remove(0);
    for copies in [2, 5, 6, 7, 13, 26] {
        for (row, got) in logits(copies).iter().enumerate() {
            assert_eq!(got, &alone, "row {row} of {copies}");
        }
    }
}

#[test]
fn a_memory_without_a_token_is_as_in_the_plain_steps() {
    let (_variables, model) = model("V", Mixing::Softmax, 4);
    let mut memory = memory(&model);
    let hidden = Tensor::zeros([3, 7], (Kind::Bool, Device::Cpu));
    let _ = hidden.get(1).fill_(1);
    // one in the midst of a row, too
    let _ = hidden.get(2).get(3).fill_(1);
    memory.padding = Some(hidden);
    let decoder = model.cpu_decoder().unwrap().unwrap();
    let mut fast = no_grad(|| decoder.start(&memory)).unwrap();
    let mut plain = model.start(&memory).unwrap();
    decoder.step(&[1, 1, 1], &mut fast).unwrap();
    let expected = no_grad(|| model.step(&Tensor::from_slice(&[1i64, 1, 1]), &mut plain)).unwrap();
    assert!(largest_difference(fast.logits(), &floats(&expected).unwrap()) < 1e-4);
}

#[test]
fn what_the_kernels_do_not_know_has_none_and_bad_steps_are_errors() {
    let (_variables, other) = model("FD+V", Mixing::Softmax, 5);
    assert!(other.cpu_decoder().unwrap().is_none());
    let mut variables = nn::VarStore::new(Device::Cpu);
    variables.set_kind(Kind::Double);
    let double = Seq2Seq::new(&variables.root(), &config("V", Mixing::Softmax)).unwrap();
    assert!(double.cpu_decoder().unwrap().is_none());

    let (_variables, model) = model("V", Mixing::Softmax, 6);
    let decoder = model.cpu_decoder().unwrap().unwrap();
    let mut state = no_grad(|| decoder.start(&memory(&model))).unwrap();
    let error = decoder.step(&[1, 2], &mut state).unwrap_err().to_string();
    assert!(error.contains("2 tokens") && error.contains("3 rows"), "{error}");
    let error = decoder.step(&[1, 2, 43], &mut state).unwrap_err().to_string();
    assert!(error.contains("token 43") && error.contains("of 43"), "{error}");
}

fn numbers(rng: &mut ChaCha8Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| rng.random_range(-1.0..1.0)).collect()
}

#[test]
fn products_of_every_size_are_those_of_float64() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    // the last one has more rows, and a longer sum, than a kernel works on at a time
    for (rows, depth, columns) in
        [(1, 1, 1), (2, 3, 16), (5, 8, 17), (6, 33, 32), (7, 20, 31), (13, 64, 65), (25, 5, 48), (150, 300, 20)]
    {
        let (weight, bias) = (numbers(&mut rng, columns * depth), numbers(&mut rng, columns));
        let (x_stride, out_stride) = (depth + 3, columns + 2);
        let x = numbers(&mut rng, rows * x_stride);
        let tensor = Tensor::from_slice(&weight).view([columns as i64, depth as i64]);
        let with_bias = Packed::new(&tensor, Some(&Tensor::from_slice(&bias))).unwrap();
        let without = Packed::new(&tensor, None).unwrap();
        for (packed, has_bias) in [(&with_bias, true), (&without, false)] {
            for mode in [Mode::Set, Mode::Add, Mode::Relu] {
                for taken in [columns, columns.div_ceil(2)] {
                    let before = numbers(&mut rng, rows * out_stride);
                    let mut out = before.clone();
                    packed.multiply((rows, taken), (&x, x_stride), mode, (&mut out, out_stride));
                    for (place, (&got, &before)) in out.iter().zip(&before).enumerate() {
                        let (row, column) = (place / out_stride, place % out_stride);
                        if column >= taken {
                            assert_eq!(got, before, "written beyond its columns");
                            continue;
                        }
                        let terms = (0..depth)
                            .map(|k| f64::from(x[row * x_stride + k]) * f64::from(weight[column * depth + k]));
                        let product = terms.sum::<f64>() + if has_bias { f64::from(bias[column]) } else { 0.0 };
                        let expected = match mode {
                            Mode::Set => product,
                            Mode::Add => product + f64::from(before),
                            Mode::Relu => product.max(0.0),
                        };
                        let error = (f64::from(got) - expected).abs();
                        assert!(
                            error < 2e-6 * depth as f64,
                            "{rows}x{depth}x{columns} {mode:?}: {got} is not {expected}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn norms_are_libtorchs() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for width in [1usize, 5, 16, 44] {
        let norm = Norm { weight: numbers(&mut rng, width), bias: numbers(&mut rng, width), epsilon: 1e-3 };
        let x = numbers(&mut rng, 3 * width);
        let mut out = vec![0.0; x.len()];
        norm.apply(&x, &mut out);
        let tensor = |values: &[f32]| Tensor::from_slice(values).to_kind(Kind::Double);
        let (weight, bias) = (tensor(&norm.weight), tensor(&norm.bias));
        let rows = tensor(&x).view([3, width as i64]);
        let expected = rows.layer_norm([width as i64], Some(weight), Some(bias), 1e-3, false);
        assert!(largest_difference(&out, &floats(&expected).unwrap()) < 1e-5, "width {width}");
    }
}

/// softmax(logits) · values for one row and head, written out in float64.
fn attended(logits: &[f64], value: impl Fn(usize, usize) -> f32, width: usize) -> Vec<f64> {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = logits.iter().map(|x| (x - most).exp()).collect();
    let total: f64 = powers.iter().sum();
    (0..width)
        .map(|column| powers.iter().enumerate().map(|(j, p)| p / total * f64::from(value(j, column))).sum())
        .collect()
}

#[test]
fn attention_over_shared_pasts_is_as_written_out() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let (rows, heads, entries_there) = (4, 2, 60);
    for (width, rank, length) in [(1, 1, 1), (5, 3, 7), (8, 8, 16), (33, 16, 17), (64, 40, 30)] {
        let entry = heads * (width + rank) + 3;
        let entries = numbers(&mut rng, entries_there * entry);
        let stride = length + 2;
        let ancestors: Vec<u32> = (0..rows * stride).map(|_| rng.random_range(0..entries_there as u32)).collect();
        let queries: Vec<f32> = numbers(&mut rng, rows * heads * rank).iter().map(|x| 4.0 * x).collect();
        let size = length + 1;
        let dense = numbers(&mut rng, rows * heads * size);
        // of each head, then of each row
        let table: Vec<f32> = numbers(&mut rng, heads * rows * stride).iter().map(|x| 3.0 * x).collect();
        let table_of =
            |is_softmax| Table { logits: &table, head_stride: rows * stride, row_stride: stride, is_softmax };
        for parts in 0..8u32 {
            let [has_queries, has_dense, has_table] = [0, 1, 2].map(|bit| parts >> bit & 1 == 1);
            let attention = SelfAttention {
                heads,
                width,
                length,
                entries: &entries,
                entry,
                ancestors: &ancestors,
                ancestors_stride: stride,
                queries: has_queries.then_some((&queries[..], rank)),
                dense: has_dense.then_some((&dense[..], size)),
                table: has_table.then(|| table_of(false)),
            };
            // without keys an entry's values stand alone, as here
            let mut context = vec![f32::NAN; rows * heads * width];
            attention.attend(&mut vec![], &mut context);
            for (place, got) in context.chunks(width).enumerate() {
                let (row, head) = (place / heads, place % heads);
                let at = |j: usize| ancestors[row * stride + j] as usize * entry;
                let logits: Vec<f64> = (0..length)
                    .map(|j| {
                        let key = &entries[at(j) + heads * width + head * rank..][..rank];
                        let query = &queries[(row * heads + head) * rank..][..rank];
                        let product: f64 = key.iter().zip(query).map(|(k, q)| f64::from(*k) * f64::from(*q)).sum();
                        f64::from(u8::from(has_queries)) * product
                            + if has_dense { f64::from(dense[(row * heads + head) * size + j]) } else { 0.0 }
                            + if has_table { f64::from(table[(head * rows + row) * stride + j]) } else { 0.0 }
                    })
                    .collect();
                let expected = attended(&logits, |j, column| entries[at(j) + head * width + column], width);
                for (got, expected) in got.iter().zip(expected) {
                    assert!(
                        (f64::from(*got) - expected).abs() < 1e-5,
                        "{width} {rank} {length} {parts}: {got} {expected}"
                    );
                }
            }
        }
        // Weights that are given are taken as they are.
        let given = SelfAttention {
            heads,
            width,
            length,
            entries: &entries,
            entry,
            ancestors: &ancestors,
            ancestors_stride: stride,
            queries: None,
            dense: None,
            table: Some(table_of(true)),
        };
        let mut context = vec![f32::NAN; rows * heads * width];
        given.attend(&mut vec![], &mut context);
        for (place, got) in context.iter().enumerate() {
            let (row, head, column) = (place / (heads * width), place / width % heads, place % width);
            let expected: f64 = (0..length)
                .map(|j| {
                    let value = entries[ancestors[row * stride + j] as usize * entry + head * width + column];
                    f64::from(table[(head * rows + row) * stride + j]) * f64::from(value)
                })
                .sum();
            assert!((f64::from(*got) - expected).abs() < 1e-4, "{got} is not {expected}");
        }
    }
}

#[test]
fn attention_to_memories_is_as_written_out() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let (heads, firsts, lengths) = (3, [0u32, 4, 4, 9, 3], [4u32, 5, 17, 0, 1]);
    for width in [1usize, 7, 16, 32, 35] {
        let all = heads * width;
        let entries = numbers(&mut rng, 21 * 2 * all);
        let queries: Vec<f32> = numbers(&mut rng, firsts.len() * all).iter().map(|x| 5.0 * x).collect();
        let mut context = vec![f32::NAN; queries.len()];
        attend_memory(heads, &entries, &firsts, &lengths, &queries, &mut vec![], &mut context);
        for (place, got) in context.chunks(width).enumerate() {
            let (row, head) = (place / heads, place % heads);
            let at = |j: usize| (firsts[row] as usize + j) * 2 * all + head * width;
            let query = &queries[row * all + head * width..][..width];
            let logits: Vec<f64> = (0..lengths[row] as usize)
                .map(|j| {
                    let key = &entries[at(j) + all..][..width];
                    key.iter().zip(query).map(|(k, q)| f64::from(*k) * f64::from(*q)).sum()
                })
                .collect();
            let expected = attended(&logits, |j, column| entries[at(j) + column], width);
            for (got, expected) in got.iter().zip(expected) {
                assert!((f64::from(*got) - expected).abs() < 2e-5, "width {width}, row {row}: {got} is not {expected}");
            }
        }
    }
}

/// All of a row's log-probabilities in float64, those that may come, likeliest first, equal ones by id.
fn sorted(logits: &[f32], bans: &[u32]) -> Vec<(f64, u32)> {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let total: f64 = logits.iter().map(|x| f64::from(x - most).exp()).sum();
    let mut all: Vec<(f64, u32)> = (logits.iter().zip(0..))
        .filter(|(_, token)| !bans.contains(token))
        .map(|(&logit, token)| (f64::from(logit) - f64::from(most) - total.ln(), token))
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    all
}

#[test]
fn the_likeliest_are_the_first_of_all_sorted() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for (vocabulary, count) in [(1, 1), (5, 8), (16, 3), (67, 8), (300, 1), (301, 8), (2000, 2), (2000, 70), (5000, 9)]
    {
        let rows = 5;
        // rounded, so that many are equal
        let mut logits: Vec<f32> =
            (0..rows * vocabulary).map(|_| (rng.random_range(-8.0..8.0f32) * 4.0).round() / 4.0).collect();
        // in order of size, where every token is better than those before
        logits[vocabulary..2 * vocabulary].sort_by(f32::total_cmp);
        if vocabulary > 1 {
            logits[2 * vocabulary] = f32::NEG_INFINITY;
        }
        let best = sorted(&logits[3 * vocabulary..4 * vocabulary], &[]);
        let bans: Vec<[u32; 2]> =
            best.iter().take(vocabulary / 2).flat_map(|&(_, token)| [[3, token]; 2]).chain([[4, 0]]).collect();
        let mut by_row = bans.clone();
        by_row.sort_unstable();
        let (log_probabilities, tokens) = likeliest(&logits, vocabulary, &by_row, count);
        for row in 0..rows {
            let banned: Vec<u32> = bans.iter().filter(|ban| ban[0] == row as u32).map(|ban| ban[1]).collect();
            let all = sorted(&logits[row * vocabulary..(row + 1) * vocabulary], &banned);
            for place in 0..count {
                let (got, token) = (log_probabilities[row * count + place], tokens[row * count + place]);
                match all.get(place) {
                    Some(&(expected, wanted)) if expected > f64::NEG_INFINITY => {
                        assert_eq!(token, wanted, "row {row} of {vocabulary}, place {place} of {count}");
                        assert!((got - expected).abs() < 2e-6, "{got} is not {expected}");
                    }
                    _ => assert_eq!(got, f64::NEG_INFINITY),
                }
            }
        }
    }
}

#[test]
fn a_row_that_is_not_of_numbers_says_so_and_spoils_no_other() {
    for bad in [f32::NAN, f32::INFINITY] {
        for place in [0, 3, 40, 99] {
            let mut logits = vec![0.5; 300];
            logits[100 + place] = bad;
            let (log_probabilities, _) = likeliest(&logits, 100, &[], 4);
            assert!(log_probabilities[4..8].iter().all(|x| x.is_nan()), "{bad} at {place}: {log_probabilities:?}");
            let expected = -(100f64.ln());
            let others = log_probabilities[..4].iter().chain(&log_probabilities[8..]);
            assert!(others.into_iter().all(|x| (x - expected).abs() < 1e-6));
        }
    }
    let (log_probabilities, _) = likeliest(&[f32::NEG_INFINITY; 40], 40, &[], 2);
    assert!(log_probabilities.iter().all(|x| x.is_nan()));
}

#[test]
fn kernels_of_every_instruction_set_pass() {
    instructions::pass_with_every_set();
}
