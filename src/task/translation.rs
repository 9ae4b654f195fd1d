//! Translation: source sentence to target sentence, scored by BLEU.

use super::attention_view::{histogram, visible, Histogram, VIEWED_ROWS};
use super::tokens::{cross_entropy, evaluation_batches, pad, TokenizedCorpus};
use super::{encode_line, tokenizer_file, transformer_config, Answer, DevScore, Generator, Metric, Task};
use crate::attention::SelfAttention;
use crate::data::token_store::TokenStore;
use crate::data::tokenizer::{Tokenizer, BEGIN, END, PAD};
use crate::data::Examples;
use crate::decode::beam::{beam_search, BeamOptions};
use crate::decode::Stepper;
use crate::experiment::{DecodeConfig, Run};
use crate::metric::bleu::{corpus_bleu, Language, Tokenization};
use crate::model::decoder::DecoderState;
use crate::model::seq2seq::Seq2Seq;
use anyhow::{Context, Result};
use std::path::Path;
use tch::{nn, Device, Kind, Tensor};

/// The model with its tokenizer: lines in, lines out.
pub struct Translator {
    variables: nn::VarStore,
    model: Seq2Seq,
    tokenizer: Tokenizer,
    max_tokens: usize,
    max_length: usize,
    decode: DecodeConfig,
}

impl Translator {
    /// A model with fresh weights from the run's seed.
    pub fn new(run: &Run, tokenizer: Tokenizer, device: Device) -> Result<Self> {
        let variables = nn::VarStore::new(device);
        tch::manual_seed(run.seed as i64);
        let model = Seq2Seq::new(&variables.root(), &transformer_config(run, tokenizer.size()))?;
        let decode = run.decode.clone().context("a translation run has a [decode] section")?;
        Ok(Self {
            variables,
            model,
            tokenizer,
            max_tokens: run.data.max_tokens,
            max_length: run.model.max_length as usize,
            decode,
        })
    }

    /// Token ids of sources, without marks -> hypotheses without marks, in the same order.
    pub fn translate(&self, sources: &[Vec<u32>]) -> Result<Vec<Vec<u32>>> {
        let _guard = tch::no_grad_guard();
        let mut order: Vec<usize> = (0..sources.len()).collect();
        order.sort_by_key(|&row| (sources[row].len(), row));
        let mut hypotheses = vec![Vec::new(); sources.len()];
        for rows in order.chunks(self.decode.batch) {
            let batch: Vec<Vec<i64>> = rows.iter().map(|&row| marked(&sources[row])).collect();
            let device = self.variables.device();
            let (source, padding) = pad(&batch, device);
            let memory = self.model.encode(&source, padding, false)?;
            let options = BeamOptions {
                beam: self.decode.beam,
                length_penalty: self.decode.length_penalty,
                max_length: batch
                    .iter()
                    .map(|source| (source.len() + self.decode.max_extra).min(self.max_length))
                    .collect(),
                begin: BEGIN,
                end: END,
            };
            let mut stepper = TranslationStepper { model: &self.model, state: self.model.start(&memory)?, device };
            for (&row, hypothesis) in rows.iter().zip(beam_search(&mut stepper, rows.len(), &options)?) {
                hypotheses[row] = hypothesis.tokens;
            }
        }
        Ok(hypotheses)
    }

    fn translate_store(&self, store: &TokenStore) -> Result<Vec<String>> {
        let sources: Vec<Vec<u32>> = (0..store.len()).map(|row| store.tokens(row, 0)).collect::<Result<_>>()?;
        self.translate(&sources)?.iter().map(|tokens| self.tokenizer.decode(tokens)).collect()
    }
}

impl Generator for Translator {
    fn variables_mut(&mut self) -> &mut nn::VarStore {
        &mut self.variables
    }

    fn generate(&self, lines: &[String]) -> Result<Vec<Answer>> {
        let encoded = lines.iter().map(|line| encode_line(&self.tokenizer, line, self.max_tokens));
        let (sources, cuts): (Vec<_>, Vec<_>) = encoded.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let translations = self.translate(&sources)?;
        let answers = translations.iter().zip(cuts);
        answers.map(|(tokens, cut)| Ok(Answer { text: self.tokenizer.decode(tokens)?, cut })).collect()
    }
}

struct TranslationStepper<'a> {
    model: &'a Seq2Seq,
    state: DecoderState,
    device: Device,
}

impl Stepper for TranslationStepper<'_> {
    fn step(&mut self, tokens: &Tensor) -> Result<Tensor> {
        Ok(self.model.step(&tokens.to_device(self.device), &mut self.state)?.log_softmax(-1, Kind::Float))
    }

    fn reorder(&mut self, rows: &Tensor) {
        self.state.reorder(&rows.to_device(self.device));
    }
}

/// Translator and data.
pub struct Translation {
    run: Run,
    data: TokenizedCorpus,
    translator: Translator,
}

struct Batch {
    source: Tensor,
    source_padding: Option<Tensor>,
    target_in: Tensor,
    target_out: Vec<Vec<i64>>,
}

impl Translation {
    /// Reads the data and builds the model.
    pub fn new(run: &Run, device: Device) -> Result<Self> {
        let data = TokenizedCorpus::new(run)?;
        let translator = Translator::new(run, data.prepared.tokenizer.clone(), device)?;
        Ok(Self { run: run.clone(), data, translator })
    }

    fn batch(&self, store: &TokenStore, rows: &[u32]) -> Result<Batch> {
        let device = self.translator.variables.device();
        let side =
            |column| rows.iter().map(|&row| store.tokens(row as usize, column)).collect::<Result<Vec<Vec<u32>>>>();
        let target = side(1)?;
        let shifted: Vec<Vec<i64>> = target.iter().map(|tokens| after_begin(tokens)).collect();
        let sources: Vec<Vec<i64>> = side(0)?.iter().map(|tokens| marked(tokens)).collect();
        let (source, source_padding) = pad(&sources, device);
        let (target_in, _) = pad(&shifted, device);
        let target_out = target.iter().map(|tokens| marked(tokens)).collect();
        Ok(Batch { source, source_padding, target_in, target_out })
    }

    fn batch_loss(&self, store: &TokenStore, rows: &[u32], label_smoothing: f64, train: bool) -> Result<Tensor> {
        let model = &self.translator.model;
        let batch = self.batch(store, rows)?;
        let memory = model.encode(&batch.source, batch.source_padding, train)?;
        let hidden = model.decode(&batch.target_in, &memory, train)?;
        Ok(cross_entropy(&hidden, &batch.target_out, |hidden| model.logits(hidden), label_smoothing))
    }

    fn references(&self, examples: &dyn Examples) -> Result<Vec<String>> {
        (0..examples.len()).map(|row| Ok(examples.text(row, 1)?.into_owned())).collect()
    }
}

/// Ids and the end mark.
fn marked(tokens: &[u32]) -> Vec<i64> {
    tokens.iter().copied().chain([END]).map(i64::from).collect()
}

/// The begin mark and ids.
fn after_begin(tokens: &[u32]) -> Vec<i64> {
    [BEGIN].into_iter().chain(tokens.iter().copied()).map(i64::from).collect()
}

impl Task for Translation {
    fn variables(&self) -> &nn::VarStore {
        &self.translator.variables
    }

    fn notes(&self) -> &[String] {
        &self.data.notes
    }

    fn data_hash(&self) -> &str {
        &self.data.corpus.hash
    }

    fn epoch(&self, epoch: u64) -> Vec<Vec<u32>> {
        self.data.epoch(&self.run, epoch)
    }

    fn target_tokens(&self, rows: &[u32]) -> u64 {
        rows.iter().map(|&row| self.data.prepared.train.text_length(row as usize, 1) as u64 + 1).sum()
    }

    fn loss(&self, rows: &[u32]) -> Result<Tensor> {
        self.batch_loss(&self.data.prepared.train, rows, self.run.train.label_smoothing, true)
    }

    fn dev(&self) -> Result<DevScore> {
        let _guard = tch::no_grad_guard();
        let mut score = DevScore { nll: 0.0, tokens: 0 };
        for rows in evaluation_batches(&self.data.prepared.dev, self.run.train.batch_tokens.max(2048)) {
            score.nll += self.batch_loss(&self.data.prepared.dev, &rows, 0.0, false)?.double_value(&[]);
            score.tokens +=
                rows.iter().map(|&row| self.data.prepared.dev.text_length(row as usize, 1) as u64 + 1).sum::<u64>();
        }
        Ok(score)
    }

    fn score(&self, _dev: &DevScore, folder: &Path) -> Result<Vec<Metric>> {
        let mut metrics = Vec::new();
        let splits = [
            ("dev", &self.data.prepared.dev, self.data.corpus.dev.as_ref()),
            ("test", &self.data.prepared.test, self.data.corpus.test.as_ref()),
        ];
        for (split, store, examples) in splits {
            let hypotheses = self.translator.translate_store(store)?;
            let references = self.references(examples)?;
            crate::files::write_atomically(
                &folder.join(format!("{split}.hypotheses.txt")),
                (hypotheses.join("\n") + "\n").as_bytes(),
            )?;
            let bleu = corpus_bleu(&hypotheses, &references, &Tokenization::ThirteenA)?;
            metrics.push((format!("{split}.bleu"), bleu.score.into()));
            if split == "test" {
                metrics.push(("test.bleu.signature".into(), bleu.signature.into()));
                metrics.push(("test.bleu.brevity_penalty".into(), bleu.brevity_penalty.into()));
                let language = Language::from_code(&self.run.data.target);
                let tokenized = corpus_bleu(&hypotheses, &references, &Tokenization::WmtTokenized(language))?;
                metrics.push(("test.bleu_tokenized".into(), tokenized.score.into()));
                metrics.push(("test.bleu_tokenized.signature".into(), tokenized.signature.into()));
            }
        }
        Ok(metrics)
    }

    fn attentions(&self) -> Vec<(&'static str, usize, &SelfAttention)> {
        self.translator.model.attentions().collect()
    }

    fn view_attention(&self) -> Result<Vec<Histogram>> {
        let _guard = tch::no_grad_guard();
        let rows: Vec<u32> = (0..self.data.prepared.dev.len().min(VIEWED_ROWS) as u32).collect();
        let batch = self.batch(&self.data.prepared.dev, &rows)?;
        let views = self.translator.model.attention_weights(&batch.source, batch.source_padding, &batch.target_in)?;
        let source_real = batch.source.ne(i64::from(PAD));
        let target_real = batch.target_in.ne(i64::from(PAD));
        let histograms = views.iter().map(|view| match view.stack {
            "encoder" => histogram(view, &source_real, &visible(&source_real, false)),
            _ => histogram(view, &target_real, &visible(&target_real, true)),
        });
        Ok(histograms.collect())
    }

    fn save_assets(&self, folder: &Path) -> Result<()> {
        self.data.prepared.tokenizer.save(&tokenizer_file(folder))
    }
}
