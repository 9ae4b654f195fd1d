//! Beam search on made-up tables of transition probabilities, against exhaustive search.

use rand::{Rng, SeedableRng};
use std::collections::HashSet;
use synthesizer::decode::beam::{beam_search, BeamError, BeamOptions, Hypothesis};
use synthesizer::decode::Stepper;
use tch::{Kind, Tensor};

const BEGIN: u32 = 1;
const END: u32 = 2;

/// log p(next | position, last token), another table for each row of the batch. The state of a row is the tokens it was
/// given and which table it uses, so a wrong reordering gives wrong probabilities.
struct Tables {
    /// [table][position][last][next]
    log_p: Vec<Vec<Vec<Vec<f32>>>>,
    state: Vec<(usize, Vec<u32>)>,
    steps: Vec<usize>,
    reorders: usize,
}

impl Tables {
    fn new(log_p: Vec<Vec<Vec<Vec<f32>>>>) -> Tables {
        let state = (0..log_p.len()).map(|table| (table, vec![])).collect();
        Tables { log_p, state, steps: vec![], reorders: 0 }
    }

    /// `rows` random tables, made sharper by `scale`.
    fn random(seed: u64, rows: usize, positions: usize, vocabulary: usize, scale: f64) -> Tables {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let mut distribution = || {
            let logits: Vec<f64> = (0..vocabulary).map(|_| scale * rng.random::<f64>()).collect();
            let total = logits.iter().map(|x| x.exp()).sum::<f64>().ln();
            logits.iter().map(|x| (x - total) as f32).collect::<Vec<f32>>()
        };
        let mut table =
            |_| (0..positions).map(|_| (0..vocabulary).map(|_| distribution()).collect::<Vec<_>>()).collect::<Vec<_>>();
        Tables::new((0..rows).map(&mut table).collect())
    }

    fn only(&self, row: usize) -> Tables {
        Tables::new(vec![self.log_p[row].clone()])
    }

    /// The best complete sequence of fewer than `max_length` tokens and an end mark.
    fn exhaustive(&self, row: usize, alpha: f64, max_length: usize) -> Hypothesis {
        self.exhaustive_within(row, &options(1, alpha, &[max_length]), max_length)
    }

    /// The same of those that keep the limits of `options`.
    fn exhaustive_within(&self, row: usize, options: &BeamOptions, max_length: usize) -> Hypothesis {
        let mut best = Hypothesis { tokens: vec![], score: f64::NEG_INFINITY, ended: true };
        let mut open = vec![(vec![], 0.0)];
        while let Some((tokens, sum)) = open.pop() {
            let last = *tokens.last().unwrap_or(&BEGIN) as usize;
            for (next, &log_p) in self.log_p[row][tokens.len()][last].iter().enumerate() {
                let sum = sum + f64::from(log_p);
                let length = tokens.len() + 1;
                let score = sum / ((5.0 + length as f64) / 6.0).powf(options.length_penalty);
                if next == END as usize {
                    if score > best.score && keeps_limits(&tokens, options) {
                        best = Hypothesis { tokens: tokens.clone(), score, ended: true };
                    }
                } else if length < max_length {
                    open.push(([&tokens[..], &[next as u32]].concat(), sum));
                }
            }
        }
        best
    }
}

impl Stepper for Tables {
    fn step(&mut self, tokens: &Tensor) -> anyhow::Result<Tensor> {
        let tokens = Vec::<i64>::try_from(tokens)?;
        assert_eq!(tokens.len(), self.state.len());
        self.steps.push(tokens.len());
        let mut rows = vec![];
        for ((table, seen), token) in self.state.iter_mut().zip(tokens) {
            seen.push(token as u32);
            // Dead rows may run beyond the table.
            let position = (seen.len() - 1).min(self.log_p[*table].len() - 1);
            rows.push(Tensor::from_slice(&self.log_p[*table][position][token as usize]));
        }
        Ok(Tensor::stack(&rows, 0))
    }

    fn reorder(&mut self, rows: &Tensor) {
        assert_eq!(rows.kind(), Kind::Int64);
        self.reorders += 1;
        let rows = Vec::<i64>::try_from(rows).unwrap();
        self.state = rows.iter().map(|&row| self.state[row as usize].clone()).collect();
    }
}

fn options(beam: usize, length_penalty: f64, max_length: &[usize]) -> BeamOptions {
    BeamOptions {
        beam,
        length_penalty,
        max_length: max_length.to_vec(),
        min_length: 0,
        no_repeat_ngram: 0,
        begin: BEGIN,
        end: END,
    }
}

/// Whether a complete sequence is long enough and has no n-gram twice.
fn keeps_limits(tokens: &[u32], options: &BeamOptions) -> bool {
    let order = options.no_repeat_ngram;
    let mut seen = HashSet::new();
    tokens.len() >= options.min_length && (order == 0 || tokens.windows(order).all(|ngram| seen.insert(ngram)))
}

fn assert_close(got: &Hypothesis, expected: &Hypothesis) {
    assert_eq!((&got.tokens, got.ended), (&expected.tokens, expected.ended), "{got:?} {expected:?}");
    assert!((got.score - expected.score).abs() < 1e-6, "{got:?} {expected:?}");
}

#[test]
fn a_wide_beam_finds_the_optimum_for_every_length_penalty() {
    for seed in 0..12 {
        for alpha in [-0.5, 0.0, 0.6, 1.0, 3.0] {
            let mut tables = Tables::random(seed, 2, 5, 4, 3.0);
            let expected = [tables.exhaustive(0, alpha, 5), tables.exhaustive(1, alpha, 4)];
            // 3^4 sequences without an end mark are all that can be alive.
            let got = beam_search(&mut tables, 2, &options(81, alpha, &[5, 4])).unwrap();
            assert_close(&got[0], &expected[0]);
            assert_close(&got[1], &expected[1]);
        }
    }
}

#[test]
fn no_beam_beats_the_optimum_and_wider_ones_come_near_it() {
    let (mut narrow, mut wide, mut best) = (0.0, 0.0, 0.0);
    for seed in 0..40 {
        let tables = Tables::random(100 + seed, 1, 6, 5, 3.0);
        let optimum = tables.exhaustive(0, 0.6, 6).score;
        let score = |beam| beam_search(&mut tables.only(0), 1, &options(beam, 0.6, &[6])).unwrap()[0].score;
        assert!(score(2) <= optimum + 1e-6 && score(8) <= optimum + 1e-6);
        narrow += score(2);
        wide += score(8);
        best += optimum;
    }
    assert!(narrow < wide && wide > best - 0.02 * best.abs(), "{narrow} {wide} {best}");
}

/// p(A) .6, p(B) .4; after A everything is spread, after B the end is certain: greedy takes A, beam 2 finds B.
fn garden_path() -> Tables {
    let (a, b) = (3, 4);
    let never = f32::NEG_INFINITY;
    let mut first = vec![vec![never; 5]; 5];
    first[BEGIN as usize][a] = 0.6f32.ln();
    first[BEGIN as usize][b] = 0.4f32.ln();
    let mut second = vec![vec![never; 5]; 5];
    second[a][a] = 0.35f32.ln();
    second[a][b] = 0.25f32.ln();
    second[a][END as usize] = 0.4f32.ln();
    second[b][END as usize] = 0.0;
    Tables::new(vec![vec![first, second]])
}

#[test]
fn greedy_follows_the_largest_probability_and_a_beam_looks_ahead() {
    let greedy = beam_search(&mut garden_path(), 1, &options(1, 0.0, &[2])).unwrap();
    assert_close(&greedy[0], &Hypothesis { tokens: vec![3], score: 0.24f64.ln(), ended: true });
    let beam = beam_search(&mut garden_path(), 1, &options(2, 0.0, &[2])).unwrap();
    assert_close(&beam[0], &Hypothesis { tokens: vec![4], score: 0.4f64.ln(), ended: true });
    // ((5 + 2)/6)^1: the end mark counts.
    let penalised = beam_search(&mut garden_path(), 1, &options(2, 1.0, &[2])).unwrap();
    assert_close(&penalised[0], &Hypothesis { tokens: vec![4], score: 0.4f64.ln() * 6.0 / 7.0, ended: true });
}

#[test]
fn greedy_is_the_chain_of_argmaxes() {
    for seed in 0..30 {
        let mut tables = Tables::random(seed, 3, 8, 9, 4.0);
        let mut expected = vec![];
        for table in &tables.log_p {
            let (mut tokens, mut sum, mut ended) = (vec![], 0.0, false);
            for position in table.iter().take(8) {
                let row = &position[*tokens.last().unwrap_or(&BEGIN) as usize];
                let (next, log_p) = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap();
                sum += f64::from(*log_p);
                if next == END as usize {
                    ended = true;
                    break;
                }
                tokens.push(next as u32);
            }
            let length = (tokens.len() + usize::from(ended)) as f64;
            expected.push(Hypothesis { tokens, score: sum / ((5.0 + length) / 6.0).powf(0.6), ended });
        }
        let got = beam_search(&mut tables, 3, &options(1, 0.6, &[8; 3])).unwrap();
        for (got, expected) in got.iter().zip(&expected) {
            assert_close(got, expected);
        }
    }
}

#[test]
fn a_batch_gives_what_its_rows_give_alone() {
    for beam in [1, 2, 4] {
        let mut tables = Tables::random(7, 9, 12, 7, 5.0);
        let lengths: Vec<usize> = (0..9).map(|row| 4 + row).collect();
        let alone: Vec<Hypothesis> = (0..9)
            .map(|row| beam_search(&mut tables.only(row), 1, &options(beam, 0.6, &[lengths[row]])).unwrap().remove(0))
            .collect();
        let together = beam_search(&mut tables, 9, &options(beam, 0.6, &lengths)).unwrap();
        assert_eq!(together, alone, "beam {beam}");
        // The rows end at different times, and what ended is no longer computed.
        assert!(tables.steps.last().unwrap() < tables.steps.iter().max().unwrap(), "{:?}", tables.steps);
    }
}

/// Tables in which nothing but `chain[position]` is likely.
fn chain(chain: &[u32], positions: usize) -> Vec<Vec<Vec<f32>>> {
    (0..positions)
        .map(|position| {
            let mut row = vec![-9.0f32; 5];
            row[*chain.get(position).unwrap_or(&3) as usize] = -0.1;
            vec![row; 5]
        })
        .collect()
}

#[test]
fn rows_end_on_their_own_and_greedy_never_reorders_while_most_are_alive() {
    let mut tables = Tables::new(vec![chain(&[3, 4, END], 6), chain(&[END], 6), chain(&[], 6), chain(&[4], 6)]);
    let got = beam_search(&mut tables, 4, &options(1, 0.0, &[6, 6, 5, 2])).unwrap();
    let tokens: Vec<&[u32]> = got.iter().map(|hypothesis| &hypothesis.tokens[..]).collect();
    assert_eq!(tokens, [&[3, 4][..], &[], &[3, 3, 3, 3, 3], &[4, 3]]);
    assert_eq!(got.iter().map(|hypothesis| hypothesis.ended).collect::<Vec<_>>(), [true, true, false, false]);
    // Each end frees a quarter or more here, so each is dropped at once; no other reordering.
    assert_eq!((tables.steps, tables.reorders), (vec![4, 3, 2, 1, 1], 3));

    let mut tables = Tables::new((0..8).map(|row| chain(if row == 0 { &[END] } else { &[] }, 4)).collect());
    beam_search(&mut tables, 8, &options(1, 0.0, &[4; 8])).unwrap();
    assert_eq!((tables.steps, tables.reorders), (vec![8; 4], 0));
}

#[test]
fn a_cut_hypothesis_counts_only_where_none_ended() {
    // An end of probability e^-9 is found by beam 2, and preferred to a likelier sequence that was cut.
    let mut tables = Tables::new(vec![chain(&[], 3)]);
    let got = beam_search(&mut tables, 1, &options(2, 0.0, &[3])).unwrap();
    assert!(got[0].ended && (got[0].score + 9.0).abs() < 1e-5, "{got:?}");
    let mut never = chain(&[], 3);
    never.iter_mut().flatten().for_each(|row| row[END as usize] = f32::NEG_INFINITY);
    let got = beam_search(&mut Tables::new(vec![never]), 1, &options(2, 0.0, &[3])).unwrap();
    assert_close(&got[0], &Hypothesis { tokens: vec![3, 3, 3], score: -0.3, ended: false });
}

#[test]
fn equal_scores_fall_to_the_smaller_token() {
    // 40 equal tokens and no end before the last position: topk alone may pick any of them.
    let flat = vec![vec![vec![-3.0f32; 40]; 40]; 4];
    let mut open = flat.clone();
    open[..3].iter_mut().flatten().for_each(|row| row[END as usize] = f32::NEG_INFINITY);
    for beam in [1, 2, 4] {
        let got = beam_search(&mut Tables::new(vec![open.clone()]), 1, &options(beam, 0.0, &[4])).unwrap();
        let expected: &[u32] = if beam == 1 { &[0, 0, 0, 0] } else { &[0, 0, 0] };
        assert_eq!(got[0].tokens, expected, "beam {beam}");
    }
}

#[test]
fn a_row_stops_as_soon_as_nothing_can_beat_its_best() {
    // The end is nearly certain at once: what else is alive can't come near it.
    let mut tables = Tables::new(vec![chain(&[END], 50)]);
    beam_search(&mut tables, 1, &options(4, 0.6, &[50])).unwrap();
    assert_eq!(tables.steps, [1]);
}

#[test]
fn what_cannot_be_searched_is_an_error() {
    let fail = |mut tables: Tables, options: BeamOptions| beam_search(&mut tables, 1, &options).unwrap_err();
    assert!(matches!(fail(garden_path(), options(0, 0.6, &[2])), BeamError::ZeroBeam));
    assert!(matches!(fail(garden_path(), options(2, 0.6, &[2, 2])), BeamError::Lengths { rows: 1, lengths: 2 }));
    let constant = |value: f32| Tables::new(vec![vec![vec![vec![value; 5]; 5]; 3]]);
    for beam in [1, 2] {
        assert!(matches!(fail(constant(f32::NAN), options(beam, 0.6, &[2])), BeamError::NotANumber { position: 1 }));
        let nothing = fail(constant(f32::NEG_INFINITY), options(beam, 0.6, &[2]));
        assert!(matches!(nothing, BeamError::NothingPossible { position: 1 }));
    }
    assert_eq!(beam_search(&mut Tables::new(vec![]), 0, &options(4, 0.6, &[])).unwrap(), []);
    let empty = beam_search(&mut garden_path(), 1, &options(2, 0.6, &[0])).unwrap();
    assert_eq!(empty, [Hypothesis { tokens: vec![], score: 0.0, ended: false }]);
}

#[test]
fn a_wide_beam_finds_the_optimum_within_the_limits() {
    let mut changed = 0;
    for seed in 0..12 {
        for (min_length, no_repeat_ngram) in [(3, 0), (0, 1), (0, 2), (2, 1), (4, 2), (4, 3)] {
            for alpha in [-0.5, 0.0, 0.6, 3.0] {
                let mut tables = Tables::random(seed, 2, 6, 4, 3.0);
                let limited = BeamOptions { min_length, no_repeat_ngram, ..options(243, alpha, &[6, 5]) };
                let expected = [tables.exhaustive_within(0, &limited, 6), tables.exhaustive_within(1, &limited, 5)];
                let free = tables.exhaustive(0, alpha, 6);
                let got = beam_search(&mut tables, 2, &limited).unwrap();
                for (got, expected) in got.iter().zip(&expected) {
                    assert!(expected.score.is_finite());
                    assert_close(got, expected);
                }
                changed += usize::from(expected[0] != free);
            }
        }
    }
    assert!(changed > 100, "the limits hardly mattered: {changed}");
}

#[test]
fn greedy_is_the_chain_of_argmaxes_within_the_limits() {
    for seed in 0..30 {
        for (min_length, no_repeat_ngram) in [(5, 0), (0, 1), (0, 2), (4, 2), (6, 3)] {
            let mut tables = Tables::random(seed, 3, 8, 9, 4.0);
            let limited = BeamOptions { min_length, no_repeat_ngram, ..options(1, 0.6, &[8; 3]) };
            let got = beam_search(&mut Tables::new(tables.log_p.clone()), 3, &limited).unwrap();
            for (table, got) in tables.log_p.iter_mut().zip(&got) {
                let (mut tokens, mut sum, mut ended) = (vec![], 0.0, false);
                while tokens.len() < 8 && !ended {
                    let row = &mut table[tokens.len()][*tokens.last().unwrap_or(&BEGIN) as usize];
                    let allowed = |next: u32| match next {
                        END => tokens.len() >= min_length,
                        _ => keeps_limits(
                            &[&tokens[..], &[next]].concat(),
                            &BeamOptions { min_length: 0, ..limited.clone() },
                        ),
                    };
                    let possible = (0..9u32).filter(|&next| allowed(next));
                    let next = possible.max_by(|&a, &b| row[a as usize].total_cmp(&row[b as usize])).unwrap();
                    sum += f64::from(row[next as usize]);
                    ended = next == END;
                    if !ended {
                        tokens.push(next);
                    }
                }
                let length = (tokens.len() + usize::from(ended)) as f64;
                assert_close(got, &Hypothesis { tokens, score: sum / ((5.0 + length) / 6.0).powf(0.6), ended });
            }
        }
    }
}

#[test]
fn a_batch_gives_what_its_rows_give_alone_within_the_limits() {
    for beam in [1, 2, 4] {
        let lengths: Vec<usize> = (0..9).map(|row| 4 + row).collect();
        let limited =
            |lengths: &[usize]| BeamOptions { min_length: 3, no_repeat_ngram: 2, ..options(beam, 0.6, lengths) };
        let mut tables = Tables::random(7, 9, 12, 7, 5.0);
        let alone: Vec<Hypothesis> = (0..9)
            .map(|row| beam_search(&mut tables.only(row), 1, &limited(&lengths[row..=row])).unwrap().remove(0))
            .collect();
        assert!(alone.iter().all(|hypothesis| hypothesis.tokens.len() >= 3));
        assert_eq!(beam_search(&mut tables, 9, &limited(&lengths)).unwrap(), alone, "beam {beam}");
        assert!(tables.reorders > 0);
    }
}

#[test]
fn limits_by_hand() {
    let search = |table: Vec<Vec<Vec<f32>>>, beam, max_length, min_length, no_repeat_ngram| {
        let limited = BeamOptions { min_length, no_repeat_ngram, ..options(beam, 0.0, &[max_length]) };
        beam_search(&mut Tables::new(vec![table]), 1, &limited).unwrap().remove(0)
    };
    for beam in [1, 2] {
        // The end is likely at once and after two tokens; of the others at first 0 is the smallest.
        let expected = Hypothesis { tokens: vec![0, 3], score: -9.2, ended: true };
        assert_close(&search(chain(&[END, 3, END], 6), beam, 6, 2, 0), &expected);
        // No end mark fits behind 3 tokens: cut, not ended.
        let expected = Hypothesis { tokens: vec![0, 3, 3], score: -9.2, ended: false };
        assert_close(&search(chain(&[END], 6), beam, 3, 3, 0), &expected);
        assert_close(&search(chain(&[END], 6), beam, 3, 100, 0), &expected);
    }
    // 3 3 3 3 … has 3 3 twice at the third token: 0 comes instead. Then 0 3 is new, and 3 0 (-9) is not, nor is 3 3.
    let got = search(chain(&[3, 3, 3, 3, 3, END], 6), 1, 6, 0, 2);
    assert_close(&got, &Hypothesis { tokens: vec![3, 3, 0, 3, 1], score: -0.1 * 4.0 - 18.0, ended: true });
    assert_close(
        &search(chain(&[3, 3, 3, 3, 3, END], 6), 1, 6, 0, 3),
        &Hypothesis { tokens: vec![3, 3, 3, 0, 3], score: -0.1 * 5.0 - 9.0, ended: true },
    );
}

#[test]
fn where_limits_leave_nothing_the_hypothesis_stands_as_it_is() {
    let never = f32::NEG_INFINITY;
    let row = vec![never, never, never, -0.1, -2.0];
    for beam in [1, 2] {
        // 3 and 4 once each, no end mark: nothing is left for the third place.
        let limited = BeamOptions { no_repeat_ngram: 1, ..options(beam, 1.0, &[6]) };
        let got = beam_search(&mut Tables::new(vec![vec![vec![row.clone(); 5]; 6]]), 1, &limited).unwrap();
        assert_close(&got[0], &Hypothesis { tokens: vec![3, 4], score: -2.1 * 6.0 / 7.0, ended: false });
        // Only the end is possible, and it may not come.
        let only_end = vec![never, never, -0.1, never, never];
        let limited = BeamOptions { min_length: 1, ..options(beam, 1.0, &[6]) };
        let got = beam_search(&mut Tables::new(vec![vec![vec![only_end; 5]; 6]]), 1, &limited).unwrap();
        assert_close(&got[0], &Hypothesis { tokens: vec![], score: 0.0, ended: false });
    }
}
