//! Classification, GLUE style: one text or two to a class or a score.

use super::attention_view::{chunks, visible, Histogram, Histograms, VIEWED_ROWS};
use super::evaluation::{predictions_file, write_predictions};
use super::judging::{classes, judge_splits, scores, Predictions};
use super::tokens::{describe, held_out, pad, BatchScore, TrainingRows};
use super::{
    around_blanks, remarks, shows_nothing, transformer_config, Answer, BatchLoss, Cut, DevScore, Generator, Scores,
    Task, TOKENIZER,
};
use crate::attention::SelfAttention;
use crate::data::batching;
use crate::data::labelled::tokens::{prepare, LabelledTokens, Limits};
use crate::data::labelled::{self, LabelledCorpus, LabelledRows, Target};
use crate::data::rows::is_blank;
use crate::data::token_store::TokenStore;
use crate::data::tokenizer::{Tokenizer, PAD};
use crate::data::Examples;
use crate::excerpt::excerpt;
use crate::experiment::Run;
use crate::interrupt;
use crate::metric::classification::MetricKind;
use crate::metric::script::{self, Share};
use crate::model::classifier::Classifier;
use crate::model::LayerView;
use crate::regular;
use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tch::{nn, Device, Kind, Tensor};

/// What a trained classifier's outputs mean: `labels.json` in the run's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Labels {
    /// Texts in a row: 1 or 2.
    pub columns: usize,
    /// Names of the classes; none where a score is predicted.
    pub classes: Vec<String>,
}

impl Labels {
    fn of(corpus: &LabelledCorpus) -> Labels {
        let classes = match &corpus.target {
            Target::Classes(names) => names.clone(),
            Target::Score => Vec::new(),
        };
        Labels { columns: corpus.train.columns, classes }
    }

    /// Reads the `labels.json` of a run's folder.
    pub fn load(folder: &Path) -> Result<Labels> {
        let file = labels_file(folder);
        let text =
            regular::read_text(&file, regular::RECORD).with_context(|| format!("{}: cannot read", file.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{}: not whole", file.display()))
    }

    fn outputs(&self) -> i64 {
        self.classes.len().max(1) as i64
    }
}

/// The file of [`Labels`] in a run's folder.
const LABELS: &str = "labels.json";

fn labels_file(folder: &Path) -> PathBuf {
    folder.join(LABELS)
}

/// The model with its tokenizer: lines in, labels out.
pub struct Labeller {
    variables: nn::VarStore,
    model: Classifier,
    tokenizer: Tokenizer,
    labels: Labels,
    limits: Limits,
    batch_tokens: usize,
}

impl Labeller {
    /// A model with fresh weights from the run's seed.
    pub fn new(run: &Run, tokenizer: Tokenizer, labels: Labels, device: Device) -> Result<Self> {
        let variables = nn::VarStore::new(device);
        tch::manual_seed(run.seed as i64);
        let config = transformer_config(run, tokenizer.size());
        let model = Classifier::new(&variables.root(), &config, labels.outputs())?;
        let batch_tokens = run.train.batch_tokens.max(2048);
        Ok(Self { variables, model, tokenizer, labels, limits: limits(run), batch_tokens })
    }

    fn logits(&self, inputs: &[Vec<i64>], train: bool) -> Result<Tensor> {
        let (tokens, padding) = pad(inputs, self.variables.device());
        Ok(self.model.forward(&tokens, padding.as_ref(), train)?.to_kind(Kind::Float))
    }

    /// What the model makes of rows of these lengths; `input` gives a row's tokens.
    fn predict(&self, lengths: &[u32], input: impl Fn(usize) -> Result<Vec<i64>>) -> Result<Predictions> {
        let _guard = tch::no_grad_guard();
        let batches = batching::in_order(lengths, self.batch_tokens);
        let mut predictions = Predictions::default();
        for rows in &batches {
            interrupt::check()?;
            let inputs: Vec<Vec<i64>> = rows.iter().map(|&row| input(row as usize)).collect::<Result<_>>()?;
            let logits = Vec::<f32>::try_from(self.logits(&inputs, false)?.flatten(0, -1).to_device(Device::Cpu))?;
            logits.chunks_exact(self.labels.outputs() as usize).for_each(|row| predictions.push(row));
        }
        Ok(predictions.in_order_of(&batches.concat()))
    }

    /// The label of row `row` as text: the class's name, or the score.
    fn name(&self, predictions: &Predictions, row: usize) -> String {
        match predictions.classes.get(row) {
            // a prediction is the index of an output, of which there is one for each name
            Some(&class) => self.labels.classes[class as usize].clone(),
            None => format!("{:.3}", predictions.numbers[row]),
        }
    }

    /// The texts of a line: two with a tab between them, or the whole line.
    fn texts<'a>(&self, line: &'a str) -> Result<Vec<&'a str>> {
        if self.labels.columns < 2 {
            return Ok(vec![line]);
        }
        let (first, second) = line.split_once('\t').with_context(|| {
            format!(
                "this model labels pairs of texts with a tab between them, but there is no tab in {}",
                excerpt(line)
            )
        })?;
        Ok(vec![first, second])
    }
}

impl Generator for Labeller {
    fn variables_mut(&mut self) -> &mut nn::VarStore {
        &mut self.variables
    }

    fn generate(&self, lines: &[String]) -> Result<Vec<Answer>> {
        let encode = |line: &String| -> Result<Vec<Vec<u32>>> {
            self.texts(line)?.into_iter().map(|text| self.tokenizer.encode(text)).collect()
        };
        let blank: Vec<bool> = lines.iter().map(|line| is_blank(line)).collect();
        let lines = lines.iter().zip(&blank).filter(|(_, blank)| !**blank).map(|(line, _)| line);
        let rows: Vec<Vec<Vec<u32>>> = lines.map(encode).collect::<Result<_>>()?;
        let sizes: Vec<Vec<usize>> = rows.iter().map(|texts| texts.iter().map(Vec::len).collect()).collect();
        let lengths: Vec<u32> = sizes.iter().map(|sizes| self.limits.input_length(sizes) as u32).collect();
        let predictions = self.predict(&lengths, |row| Ok(self.limits.input(&rows[row])))?;
        let answer = |(row, sizes): (usize, &Vec<usize>)| -> Result<Answer> {
            let taken = self.limits.taken(sizes);
            let mut nothing = true;
            for (text, taken) in rows[row].iter().zip(&taken) {
                nothing &= shows_nothing(&self.tokenizer, &text[..*taken], *taken < text.len())?;
            }
            let (tokens, taken) = (sizes.iter().sum(), taken.iter().sum());
            let text = if nothing { String::new() } else { self.name(&predictions, row) };
            Ok(Answer { text, cut: (taken < tokens).then_some(Cut { tokens, taken, from_end: false }) })
        };
        let answers = sizes.iter().enumerate().map(answer).collect::<Result<_>>()?;
        Ok(around_blanks(&blank, answers))
    }
}

fn limits(run: &Run) -> Limits {
    Limits { max_tokens: run.data.max_tokens, max_length: run.model.max_length as usize }
}

/// A split as tokens, with what is to be predicted.
struct Split {
    store: TokenStore,
    /// Length of each row's input, marks counted.
    lengths: Vec<u32>,
    /// Class of each row, or its score.
    wanted: Wanted,
}

enum Wanted {
    Classes(Vec<u32>),
    Scores(Vec<f64>),
}

impl Split {
    fn new(name: &str, store: TokenStore, rows: &LabelledRows, target: &Target, limits: Limits) -> Result<Split> {
        let wanted = match target {
            Target::Classes(_) => classes(rows).map(Wanted::Classes),
            Target::Score => scores(rows).map(Wanted::Scores),
        };
        let wanted = wanted.with_context(|| format!("in the {name} set"))?;
        let lengths = (0..store.len()).map(|row| limits.input_length(&sizes(&store, row)) as u32).collect();
        Ok(Split { store, lengths, wanted })
    }

    fn input(&self, row: usize, limits: Limits) -> Result<Vec<i64>> {
        let texts = (0..self.store.columns()).map(|column| self.store.tokens(row, column));
        Ok(limits.input(&texts.collect::<Result<Vec<_>>>()?))
    }

    /// Rows of which the model sees only a part.
    fn cut_rows(&self, rows: &LabelledRows, tokenizer: &Tokenizer, limits: Limits) -> Result<usize> {
        let mut cut = 0;
        for row in 0..self.store.len() {
            let kept = sizes(&self.store, row);
            // the store holds what is left of a text: one that fills the limit may have been longer
            let mut is_cut = kept != limits.taken(&kept);
            for (column, _) in kept.iter().enumerate().filter(|(_, size)| **size >= limits.single()) {
                is_cut = is_cut || tokenizer.encode(&rows.text(row, column)?)?.len() > limits.single();
            }
            cut += usize::from(is_cut);
        }
        Ok(cut)
    }

    /// Rows of which more was cut than [`TokenStore`] counts: pairs of texts that don't fit together.
    fn cut_pairs(&self, limits: Limits) -> usize {
        let cut = |row: &usize| sizes(&self.store, *row) != limits.taken(&sizes(&self.store, *row));
        (0..self.store.len()).filter(cut).count()
    }
}

/// Tokens of each text of a row, as far as the store holds them.
fn sizes(store: &TokenStore, row: usize) -> Vec<usize> {
    (0..store.columns()).map(|column| store.text_length(row, column)).collect()
}

/// Labeller and data.
pub struct Classification {
    run: Run,
    corpus: LabelledCorpus,
    train: Split,
    dev: Split,
    tests: Vec<Split>,
    training: TrainingRows,
    labeller: Labeller,
}

impl Classification {
    /// Reads the data and builds the model.
    pub fn new(run: &Run, device: Device) -> Result<Self> {
        let corpus = labelled::load(&run.data)?;
        let limits = limits(run);
        let LabelledTokens { tokenizer, train, dev, tests } = prepare(&corpus, run.data.vocabulary, limits)?;
        let labels = Labels::of(&corpus);
        let (found, known) = (corpus.target.outputs(), labelled::outputs(&run.data)?);
        if found != known {
            bail!("{} has {found} classes, not {known}", corpus.name);
        }
        let labeller = Labeller::new(run, tokenizer.clone(), labels, device)?;
        let mut notes = vec![format!("{}, hash {:.16}", corpus.name, corpus.hash)];
        notes.extend(corpus.notes.iter().cloned());
        let mut split = |name: String, store: TokenStore, rows: &LabelledRows| -> Result<Split> {
            let mut note = describe(&name, &store.counts, &format!("{} tokens", limits.single()));
            let split = Split::new(&name, store, rows, &corpus.target, limits)?;
            match split.cut_pairs(limits) {
                0 => {}
                cut => note.push_str(&format!(", {cut} pairs cut to fit together (max_length {})", limits.max_length)),
            }
            notes.push(note);
            Ok(split)
        };
        let train = split("train".into(), train, &corpus.train)?;
        let dev = split("dev".into(), dev, &corpus.dev)?;
        let tests = tests.into_iter().zip(&corpus.tests);
        let tests = tests.map(|(store, rows)| split(test_name(rows), store, rows)).collect::<Result<Vec<_>>>()?;
        let training = TrainingRows {
            tokenizer,
            hash: corpus.hash.clone(),
            seen: labelled::seen_in_training(&corpus)?,
            notes,
            lengths: train.lengths.clone(),
            batch_tokens: run.train.batch_tokens,
            seed: run.seed,
        };
        Ok(Self { run: run.clone(), corpus, train, dev, tests, training, labeller })
    }

    fn inputs(&self, split: &Split, rows: &[u32]) -> Result<Vec<Vec<i64>>> {
        rows.iter().map(|&row| split.input(row as usize, self.labeller.limits)).collect()
    }

    /// A note where the F1 of answers compares whole phrases, since no blank separates their words.
    fn unsplit_answers(&self, rows: &LabelledRows) -> Option<String> {
        let answers = rows.answers.as_ref().filter(|_| self.corpus.metrics.contains(&MetricKind::RecordF1))?;
        let share = script::unspaced(&answers.gold.concat());
        share.is_noted().then(|| {
            format!(
                "F1 splits answers at blanks, but {share} of the letters of the test answers are of scripts written without \
                 blanks, of which a whole phrase counts as one word."
            )
        })
    }

    /// Sum over rows: cross-entropy of classes, or squared error of scores.
    fn summed_loss(&self, split: &Split, rows: &[u32], inputs: &[Vec<i64>], train: bool) -> Result<Tensor> {
        let logits = self.labeller.logits(inputs, train)?;
        let device = logits.device();
        Ok(match &split.wanted {
            Wanted::Classes(classes) => {
                let wanted: Vec<i64> = rows.iter().map(|&row| classes[row as usize].into()).collect();
                let smoothing = if train { self.run.train.label_smoothing } else { 0.0 };
                let wanted = Tensor::from_slice(&wanted).to_device(device);
                logits.cross_entropy_loss::<Tensor>(&wanted, None, tch::Reduction::Sum, -100, smoothing)
            }
            Wanted::Scores(scores) => {
                let wanted: Vec<f32> = rows.iter().map(|&row| scores[row as usize] as f32).collect();
                let wanted = Tensor::from_slice(&wanted).to_device(device);
                (logits.squeeze_dim(1) - wanted).square().sum(Kind::Float)
            }
        })
    }
}

/// `test`, or `test.mismatched` for a test set with a name.
fn test_name(rows: &LabelledRows) -> String {
    if rows.name.is_empty() {
        "test".into()
    } else {
        format!("test.{}", rows.name)
    }
}

impl Task for Classification {
    fn variables(&self) -> &nn::VarStore {
        &self.labeller.variables
    }

    fn training(&self) -> &TrainingRows {
        &self.training
    }

    fn targets(&self, rows: &[u32]) -> u64 {
        rows.len() as u64
    }

    fn loss(&self, _epoch: u64, rows: &[u32]) -> Result<BatchLoss> {
        let started = Instant::now();
        let inputs = self.inputs(&self.train, rows)?;
        let waited = started.elapsed();
        Ok(BatchLoss { sum: self.summed_loss(&self.train, rows, &inputs, true)?, waited })
    }

    /// Cross-entropy or squared error: `tokens` are rows.
    fn dev(&self) -> Result<DevScore> {
        let batches = held_out(&self.dev.lengths, self.run.train.batch_tokens, |rows| {
            let inputs = self.inputs(&self.dev, rows)?;
            Ok((self.summed_loss(&self.dev, rows, &inputs, false)?, rows.len() as u64))
        })?;
        Ok(BatchScore::sum(&batches))
    }

    /// The corpus's metrics × 100 on dev and on every test set, and `test.score`, the mean of those of the test sets. Saves
    /// gold and predicted label of every row in `folder`.
    fn score(&self, _dev: &DevScore, folder: &Path) -> Result<Scores> {
        let mut share = Share::default();
        let mut notes = Vec::new();
        let dev = std::iter::once(("dev".to_string(), &self.dev, &self.corpus.dev));
        let tests = self.tests.iter().zip(&self.corpus.tests);
        let mut predicted = Vec::new();
        for (name, split, rows) in dev.chain(tests.map(|(split, rows)| (test_name(rows), split, rows))) {
            let labeller = &self.labeller;
            let predictions = labeller.predict(&split.lengths, |row| split.input(row, labeller.limits))?;
            write_predictions(&predictions_file(folder, &name), &labeller.labels.classes, rows, &predictions)?;
            if name != "dev" {
                share.part += rows.len() as u64;
                share.whole += (rows.len() + rows.skipped) as u64;
                let cut = split.cut_rows(rows, &self.training.tokenizer, labeller.limits)?;
                notes.extend(remarks::cut(cut, rows.len(), "rows", labeller.limits.max_length));
                notes.extend(self.unsplit_answers(rows));
            }
            predicted.push((name, rows, predictions));
        }
        let splits = predicted.iter().map(|(name, rows, predictions)| (name.as_str(), *rows, predictions));
        let mut scores = judge_splits(&self.corpus.metrics, splits).with_context(|| self.corpus.name.clone())?;
        let (share, note) = remarks::coverage(share, "rows");
        scores.metrics.push(share);
        scores.notes.extend(notes.into_iter().chain(note));
        Ok(scores)
    }

    fn attentions(&self) -> Vec<(&'static str, usize, &SelfAttention)> {
        self.labeller.model.attentions().collect()
    }

    fn view_attention(&self) -> Result<Vec<Histogram>> {
        let _guard = tch::no_grad_guard();
        let rows: Vec<u32> = (0..self.dev.store.len().min(VIEWED_ROWS) as u32).collect();
        let (tokens, padding) = pad(&self.inputs(&self.dev, &rows)?, self.labeller.variables.device());
        let mut histograms = Histograms::default();
        for (first, count) in chunks(rows.len() as i64) {
            let tokens = tokens.narrow(0, first, count);
            let padding = padding.as_ref().map(|padding| padding.narrow(0, first, count));
            let real = tokens.ne(i64::from(PAD));
            let visible = visible(&real, false);
            let see = &mut |view: LayerView| histograms.add(&view, &real, &visible);
            self.labeller.model.attention_weights(&tokens, padding.as_ref(), see)?;
        }
        Ok(histograms.finish())
    }

    fn assets(&self) -> Result<Vec<(&'static str, Vec<u8>)>> {
        let labels = serde_json::to_string_pretty(&self.labeller.labels)? + "\n";
        Ok(vec![(TOKENIZER, self.training.tokenizer.json().into()), (LABELS, labels.into_bytes())])
    }
}
