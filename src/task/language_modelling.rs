//! Language modelling: the next token, a line a row or in windows of the running text, scored by perplexity.

use super::attention_view::{chunks, visible, Histogram, Histograms, VIEWED_ROWS};
use super::evaluation;
use super::remarks::{self, Score};
use super::tokens::{self, cross_entropy, cross_entropy_after, held_out, pad, shifted, BatchScore, TrainingRows};
use super::{
    encode_line, shows_nothing, transformer_config, Answer, BatchLoss, DevScore, Generator, Scores, Task, TokenBatch,
};
use crate::attention::SelfAttention;
use crate::data::rows::is_blank;
use crate::data::running_text::RunningText;
use crate::data::token_store::SourceLimit;
use crate::data::tokenizer::{Tokenizer, BEGIN, END, PAD};
use crate::data::Examples;
use crate::experiment::Run;
use crate::interrupt;
use crate::metric::perplexity::exp_mean;
use crate::metric::script::{add_unspaced, Share};
use crate::model::language_model::LanguageModel;
use crate::model::LayerView;
use anyhow::Result;
use serde_json::Value;
use std::path::Path;
use std::time::Instant;
use tch::{nn, Device, Tensor};

/// The model with its tokenizer: beginnings in, completions out.
pub struct Completer {
    variables: nn::VarStore,
    model: LanguageModel,
    tokenizer: Tokenizer,
    max_length: usize,
}

impl Completer {
    /// A model with fresh weights from the run's seed.
    pub fn new(run: &Run, tokenizer: Tokenizer, device: Device) -> Result<Self> {
        let variables = nn::VarStore::new(device);
        tch::manual_seed(run.seed as i64);
        let model = LanguageModel::new(&variables.root(), &transformer_config(run, tokenizer.size()))?;
        Ok(Self { variables, model, tokenizer, max_length: run.model.max_length as usize })
    }

    /// The likeliest continuation, token by token, after the given ids.
    fn complete(&self, beginning: &[u32]) -> Result<Vec<u32>> {
        let _guard = tch::no_grad_guard();
        let device = self.variables.device();
        let mut state = self.model.start()?;
        let mut tokens = beginning.to_vec();
        let mut next = BEGIN;
        for position in 0..self.max_length {
            let logits = self.model.step(&Tensor::from_slice(&[i64::from(next)]).to_device(device), &mut state)?;
            next = match beginning.get(position) {
                Some(&given) => given,
                None => {
                    let best = logits.argmax(-1, false).int64_value(&[0]) as u32;
                    if best == END {
                        break;
                    }
                    tokens.push(best);
                    best
                }
            };
        }
        Ok(tokens)
    }
}

impl Generator for Completer {
    fn variables_mut(&mut self) -> &mut nn::VarStore {
        &mut self.variables
    }

    fn generate(&self, lines: &[String]) -> Result<Vec<Answer>> {
        lines
            .iter()
            .map(|line| {
                // of a long beginning the end counts most, and some room is for what follows
                let limit = SourceLimit { tokens: (self.max_length * 3 / 4).max(1), keep_end: true };
                if is_blank(line) {
                    return Ok(Answer::default());
                }
                let (beginning, cut) = encode_line(&self.tokenizer, line, limit)?;
                if shows_nothing(&self.tokenizer, &beginning, cut.is_some())? {
                    return Ok(Answer { text: String::new(), cut });
                }
                Ok(Answer { text: self.tokenizer.decode(&self.complete(&beginning)?)?, cut })
            })
            .collect()
    }
}

/// The most tokens that are predicted in one row of a line: those of the longest training row, its end mark included.
fn longest(run: &Run) -> usize {
    run.data.max_tokens + 1
}

/// From this share of letters in scripts without blanks on, there is no perplexity per word.
const UNSPACED: f64 = 0.5;

/// Completer and data.
pub struct LanguageModelling {
    run: Run,
    /// The lines of dev and of test.
    lines: [Box<dyn Examples>; 2],
    train: RunningText,
    dev: RunningText,
    test: RunningText,
    training: TrainingRows,
    completer: Completer,
}

impl LanguageModelling {
    /// Reads the data and builds the model.
    pub fn new(run: &Run, device: Device) -> Result<Self> {
        let (corpus, prepared, mut training) = tokens::read(run)?;
        let completer = Completer::new(run, prepared.tokenizer.clone(), device)?;
        let train = RunningText::new(prepared.train, run.data.window);
        let held_out = |store| RunningText::in_full(store, run.data.window, longest(run));
        let (dev, test) = (held_out(prepared.dev), held_out(prepared.test));
        for (name, text) in [("dev", &dev), ("test", &test)] {
            if text.long_lines() > 0 {
                training.notes.push(format!(
                    "{name}: {} lines are longer than max_tokens = {} and scored in full, in chunks",
                    text.long_lines(),
                    run.data.max_tokens
                ));
            }
        }
        let training = TrainingRows { lengths: train.lengths(), ..training };
        Ok(Self { run: run.clone(), lines: [corpus.dev, corpus.test], train, dev, test, training, completer })
    }

    /// What the model is to predict at each position of some rows.
    fn targets_of(&self, text: &RunningText, rows: &[u32]) -> Result<Vec<Vec<i64>>> {
        rows.iter().map(|&row| Ok(text.tokens(row as usize)?.into_iter().map(i64::from).collect())).collect()
    }

    /// What it reads to predict them: [B, L].
    fn input_of(&self, targets: &[Vec<i64>]) -> Tensor {
        pad(&shifted(targets), self.completer.variables.device()).0
    }

    fn batch_loss(&self, input: &Tensor, targets: &[Vec<i64>], label_smoothing: f64, train: bool) -> Result<Tensor> {
        let model = &self.completer.model;
        let hidden = model.forward(input, train)?;
        cross_entropy(&hidden, targets, model.table(), label_smoothing)
    }

    fn held_out(&self, text: &RunningText) -> Result<Vec<BatchScore>> {
        held_out(&text.lengths(), self.run.train.batch_tokens, |rows| {
            let targets = self.targets_of(text, rows)?;
            let context: Vec<usize> = rows.iter().map(|&row| text.context(row as usize)).collect();
            let tokens = targets.iter().zip(&context).map(|(row, context)| (row.len() - context) as u64).sum();
            let model = &self.completer.model;
            let hidden = model.forward(&self.input_of(&targets), false)?;
            Ok((cross_entropy_after(&context, &hidden, &targets, model.table())?, tokens))
        })
    }

    /// The share of a split's letters in scripts that are written without blanks.
    fn unspaced(lines: &dyn Examples) -> Result<Share> {
        let mut share = Share::default();
        for row in 0..lines.len() {
            interrupt::check()?;
            add_unspaced(&mut share, &lines.text(row, 0)?);
        }
        Ok(share)
    }

    /// How words and tokens are counted.
    fn signature(&self) -> String {
        let rows = match self.run.data.window {
            0 => format!("rows:lines|long-lines:chunks-of-{}-after-half", longest(&self.run)),
            window => format!("rows:windows-of-{window}|context:none"),
        };
        let version = env!("CARGO_PKG_VERSION");
        format!("words:between-blanks|end-marks:every-line-and-blank-ones|{rows}|version:synthesizer-{version}")
    }
}

/// Per subword, and per word: the same sum over the number of words, each line's end mark counted as one. Without a number of
/// words there is no perplexity per word, for the reason that stands in its place.
pub fn perplexities(split: &str, score: &DevScore, words: Result<u64, String>) -> [Score; 2] {
    let overflow = "it is above the largest number".to_string();
    let (per_word, reason) = match words {
        Ok(words) => (exp_mean(score.nll, words), overflow.clone()),
        Err(reason) => (None, reason),
    };
    [
        Score::new(split, "perplexity", exp_mean(score.nll, score.tokens), overflow),
        Score::new(split, "word_perplexity", per_word, reason),
    ]
}

impl Task for LanguageModelling {
    fn variables(&self) -> &nn::VarStore {
        &self.completer.variables
    }

    fn training(&self) -> &TrainingRows {
        &self.training
    }

    fn targets(&self, rows: &[u32]) -> u64 {
        rows.iter().map(|&row| u64::from(self.training.lengths[row as usize])).sum()
    }

    fn loss(&self, _epoch: u64, rows: &[u32]) -> Result<BatchLoss> {
        let started = Instant::now();
        let targets = self.targets_of(&self.train, rows)?;
        let input = self.input_of(&targets);
        let waited = started.elapsed();
        Ok(BatchLoss { sum: self.batch_loss(&input, &targets, self.run.train.label_smoothing, true)?, waited })
    }

    fn token_batch(&self, _epoch: u64, rows: &[u32]) -> Result<Option<TokenBatch>> {
        let targets = self.targets_of(&self.train, rows)?;
        let target = pad(&targets, self.completer.variables.device()).0;
        Ok(Some(TokenBatch { source: None, input: self.input_of(&targets), target }))
    }

    fn dev(&self) -> Result<DevScore> {
        Ok(BatchScore::sum(&self.held_out(&self.dev)?))
    }

    /// Perplexities of both splits; saves the losses of the test split in `folder`.
    fn score(&self, dev: &DevScore, folder: &Path) -> Result<Scores> {
        let mut scores = Scores::default();
        let batches = self.held_out(&self.test)?;
        evaluation::write_losses(&evaluation::losses_file(folder, "test"), &batches)?;
        let test = BatchScore::sum(&batches);
        let splits = [("dev", *dev, &self.dev), ("test", test, &self.test)];
        for ((split, score, text), lines) in splits.into_iter().zip(&self.lines) {
            let unspaced = Self::unspaced(lines.as_ref())?;
            let without_words = unspaced.value() >= UNSPACED;
            let words = match without_words {
                true => Err(format!("{unspaced} of the letters are of scripts written without blanks between words")),
                false => Ok(text.words()),
            };
            if split == "test" {
                let count = words.as_ref().map_or(Value::Null, |words| (*words).into());
                scores.metrics.push(("test.words".into(), count));
            }
            let of_split = perplexities(split, &score, words);
            scores.metrics.extend(of_split.iter().map(Score::metric));
            scores.metrics.push((format!("{split}.word_perplexity.signature"), self.signature().into()));
            scores.notes.extend(remarks::blanks(&of_split));
            scores.notes.extend((split == "test" && unspaced.is_noted() && !without_words).then(|| {
                format!(
                    "The word perplexity counts words between blanks, but {unspaced} of the letters of the test text are of \
                     scripts written without blanks."
                )
            }));
        }
        let (share, note) = remarks::coverage(Share { part: test.tokens, whole: self.test.token_count() }, "tokens");
        scores.metrics.push(share);
        scores.notes.extend(note);
        Ok(scores)
    }

    fn attentions(&self) -> Vec<(&'static str, usize, &SelfAttention)> {
        self.completer.model.attentions().collect()
    }

    fn view_attention(&self) -> Result<Vec<Histogram>> {
        let _guard = tch::no_grad_guard();
        let rows: Vec<u32> = (0..self.dev.len().min(VIEWED_ROWS) as u32).collect();
        let input = self.input_of(&self.targets_of(&self.dev, &rows)?);
        let mut histograms = Histograms::default();
        for (first, count) in chunks(rows.len() as i64) {
            let input = input.narrow(0, first, count);
            let real = input.ne(i64::from(PAD));
            let visible = visible(&real, true);
            let see = &mut |view: LayerView| histograms.add(&view, &real, &visible);
            self.completer.model.attention_weights(&input, see)?;
        }
        Ok(histograms.finish())
    }
}
