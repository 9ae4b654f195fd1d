//! Masked language modelling: the spans that were taken out of windows of running text (T5's span corruption), scored by
//! perplexity.
//!
//! A window ends with a span, as T5's do. The end mark of each line stays in the text, as a token like others. Dev and test are masked the same way for everyone, so
//! that perplexities of several runs are of the same tokens.

use super::attention_view::{Histogram, VIEWED_ROWS};
use super::encoder_decoder::Batch;
use super::evaluation;
use super::remarks::{self, Score};
use super::tokens::{self, held_out, marked, BatchScore, TrainingRows};
use super::writer::Writer;
use super::{around_blanks, Answer, BatchLoss, Cut, DevScore, Generator, Scores, Task, TokenBatch};
use crate::attention::SelfAttention;
use crate::data::rows::is_blank;
use crate::data::running_text::RunningText;
use crate::data::span_corruption::{corrupt, fillings, spans, Draw};
use crate::data::tokenizer::Tokenizer;
use crate::excerpt::excerpt;
use crate::experiment::{DecodeConfig, Run};
use crate::metric::perplexity::exp_mean;
use crate::metric::script::Share;
use anyhow::{bail, Result};
use std::path::Path;
use std::time::Instant;
use tch::{nn, Device};

/// What stands for a gap in a line to fill.
pub const GAP: &str = "<mask>";

/// The model with its tokenizer: lines with gaps in, whole lines out.
pub struct GapFiller {
    writer: Writer,
    sentinels: usize,
    max_length: usize,
}

impl GapFiller {
    /// A model with fresh weights from the run's seed. It writes greedily.
    pub fn new(run: &Run, tokenizer: Tokenizer, device: Device) -> Result<Self> {
        let greedy =
            DecodeConfig { beam: 1, length_penalty: 0.0, max_extra: 0, batch: 32, min_length: 0, no_repeat_ngram: 0 };
        let writer = Writer::with(run, tokenizer, device, greedy)?;
        Ok(Self { writer, sentinels: run.sentinels(), max_length: run.model.max_length as usize })
    }

    /// Id of the first sentinel: they follow the tokenizer's.
    fn first_sentinel(&self) -> u32 {
        self.writer.tokenizer().size() as u32
    }

    /// The pieces of a line around its gaps, as tokens; the last is empty where the line ends with a gap. A gap stands for
    /// whole words: blanks around it are the tokenizer's.
    fn pieces(&self, line: &str) -> Result<Vec<Vec<u32>>> {
        let pieces: Vec<&str> = line.split(GAP).map(str::trim).collect();
        let gaps = pieces.len() - 1 + usize::from(pieces.last().is_some_and(|last| !last.is_empty()));
        if pieces.len() == 1 {
            bail!("there is no gap to fill in {}; write {GAP} where words are missing", excerpt(line));
        }
        if gaps > self.sentinels - 1 {
            bail!(
                "{} gaps in a line are too many: the model was trained on {}, the last one at the end",
                pieces.len() - 1,
                self.sentinels - 1
            );
        }
        pieces.into_iter().map(|piece| self.writer.tokenizer().encode(piece)).collect()
    }
}

impl Generator for GapFiller {
    fn variables_mut(&mut self) -> &mut nn::VarStore {
        self.writer.variables_mut()
    }

    /// Every window of the training data ends with a masked span, so a line that ends with text gets one more gap there, whose
    /// filling is left out.
    fn generate(&self, lines: &[String]) -> Result<Vec<Answer>> {
        // the sentinel of that gap, and the end mark
        let (first, room) = (self.first_sentinel(), self.max_length - 2);
        let blank: Vec<bool> = lines.iter().map(|line| is_blank(line)).collect();
        let lines = lines.iter().zip(&blank).filter(|(_, blank)| !**blank).map(|(line, _)| line);
        let pieces: Vec<Vec<Vec<u32>>> = lines.map(|line| self.pieces(line)).collect::<Result<_>>()?;
        let (mut sources, mut sizes): (Vec<Vec<u32>>, Vec<(usize, usize)>) = Default::default();
        for pieces in &pieces {
            let mut source = pieces[0].clone();
            for (sentinel, piece) in (first..).zip(&pieces[1..]) {
                source.push(sentinel);
                source.extend_from_slice(piece);
            }
            let tokens = source.len();
            source.truncate(room);
            // gaps that were cut off are not the model's to fill
            let seen = source.iter().filter(|token| **token >= first).count();
            if source.last().is_some_and(|token| *token < first) {
                source.push(first + seen as u32);
            }
            sizes.push((tokens, seen));
            sources.push(source);
        }
        let targets = self.writer.write(&sources)?;
        let mask = self.writer.tokenizer().encode(GAP)?;
        let answer = |pieces: Vec<Vec<u32>>, target: &[u32], (tokens, seen): (usize, usize)| {
            // a gap that the model says nothing of stays
            let fillings = fillings(target, first, seen).into_iter().chain(vec![None; pieces.len() - 1 - seen]);
            let fillings = fillings.map(|filling| filling.unwrap_or_else(|| mask.clone())).chain([Vec::new()]);
            let ids: Vec<u32> =
                pieces.into_iter().zip(fillings).flat_map(|(piece, filling)| [piece, filling].concat()).collect();
            let cut = (tokens > room).then_some(Cut { tokens, taken: room, from_end: false });
            Ok(Answer { text: self.writer.tokenizer().decode(&ids)?, cut })
        };
        let rows = pieces.into_iter().zip(&targets).zip(sizes);
        let answers = rows.map(|((pieces, target), size)| answer(pieces, target, size)).collect::<Result<_>>()?;
        Ok(around_blanks(&blank, answers))
    }
}

/// Model and data.
pub struct MaskedLanguageModelling {
    run: Run,
    train: RunningText,
    dev: RunningText,
    test: RunningText,
    training: TrainingRows,
    filler: GapFiller,
}

impl MaskedLanguageModelling {
    /// Reads the data and builds the model.
    pub fn new(run: &Run, device: Device) -> Result<Self> {
        let (_, prepared, training) = tokens::read(run)?;
        let filler = GapFiller::new(run, prepared.tokenizer.clone(), device)?;
        let text = |store| RunningText::new(store, run.data.window);
        let (train, dev, test) = (text(prepared.train), text(prepared.dev), text(prepared.test));
        let training = TrainingRows { lengths: lengths(run, &train), ..training };
        Ok(Self { run: run.clone(), train, dev, test, training, filler })
    }

    /// Source and target of some windows, masked as `draw` says.
    fn batch(&self, text: &RunningText, rows: &[u32], draw: Draw) -> Result<Batch> {
        let (mut sources, mut targets) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for &row in rows {
            let tokens = text.tokens(row as usize)?;
            let spans = spans(self.run.data.spans_in(tokens.len()), draw, row.into());
            let (source, target) = corrupt(&tokens, &spans, self.filler.first_sentinel());
            sources.push(marked(source));
            targets.push(marked(target));
        }
        Ok(Batch::new(&sources, targets, self.variables().device()))
    }

    fn held_out(&self, text: &RunningText) -> Result<Vec<BatchScore>> {
        held_out(&lengths(&self.run, text), self.run.train.batch_tokens, |rows| {
            let batch = self.batch(text, rows, Draw::HeldOut)?;
            let tokens = batch.targets();
            Ok((batch.loss(self.filler.writer.model(), 0.0, false)?, tokens))
        })
    }
}

/// The longer side of each window, marks included.
fn lengths(run: &Run, text: &RunningText) -> Vec<u32> {
    text.lengths().iter().map(|&length| run.data.spans_in(length as usize).longest() as u32).collect()
}

/// In nats per target token (sentinels and end marks among them), and its exponential.
pub fn perplexities(split: &str, score: &DevScore) -> [Score; 2] {
    let reason = "it is above the largest number";
    [
        Score::new(split, "log_perplexity", Some(score.loss()), reason),
        Score::new(split, "perplexity", exp_mean(score.nll, score.tokens), reason),
    ]
}

impl Task for MaskedLanguageModelling {
    fn variables(&self) -> &nn::VarStore {
        self.filler.writer.variables()
    }

    fn training(&self) -> &TrainingRows {
        &self.training
    }

    fn targets(&self, rows: &[u32]) -> u64 {
        let windows = rows.iter().map(|&row| self.train.length(row as usize));
        windows.map(|length| self.run.data.spans_in(length).target() as u64).sum()
    }

    fn loss(&self, epoch: u64, rows: &[u32]) -> Result<BatchLoss> {
        let started = Instant::now();
        let batch = self.batch(&self.train, rows, Draw::Training { seed: self.run.seed, epoch })?;
        let waited = started.elapsed();
        let sum = batch.loss(self.filler.writer.model(), self.run.train.label_smoothing, true)?;
        Ok(BatchLoss { sum, waited })
    }

    fn token_batch(&self, epoch: u64, rows: &[u32]) -> Result<Option<TokenBatch>> {
        let batch = self.batch(&self.train, rows, Draw::Training { seed: self.run.seed, epoch })?;
        Ok(Some(batch.tokens()))
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
        for (split, score) in [("dev", *dev), ("test", test)] {
            let of_split = perplexities(split, &score);
            scores.metrics.extend(of_split.iter().map(Score::metric));
            scores.notes.extend(remarks::blanks(&of_split));
        }
        // every window is scored, on the tokens that are masked in it
        let masked =
            (0..self.test.len()).map(|row| self.run.data.spans_in(self.test.length(row)).target() as u64).sum();
        let (share, note) = remarks::coverage(Share { part: test.tokens, whole: masked }, "masked tokens");
        scores.metrics.push(share);
        scores.notes.extend(note);
        Ok(scores)
    }

    fn attentions(&self) -> Vec<(&'static str, usize, &SelfAttention)> {
        self.filler.writer.model().attentions().collect()
    }

    fn view_attention(&self) -> Result<Vec<Histogram>> {
        let rows: Vec<u32> = (0..self.dev.len().min(VIEWED_ROWS) as u32).collect();
        self.batch(&self.dev, &rows, Draw::HeldOut)?.view_attention(self.filler.writer.model())
    }
}
