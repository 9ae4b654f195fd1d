//! A batch of sources and targets, and what an encoder-decoder makes of it.

use super::attention_view::{chunks, visible, Histogram, Histograms};
use super::tokens::{cross_entropy, pad, shifted};
use super::TokenBatch;
use crate::data::tokenizer::PAD;
use crate::model::seq2seq::Seq2Seq;
use crate::model::LayerView;
use anyhow::Result;
use tch::{Device, Tensor};

/// Rows as tensors.
#[derive(Debug)]
pub struct Batch {
    /// [B, S]
    source: Tensor,
    /// bool [B, S], where there is any.
    source_padding: Option<Tensor>,
    /// [B, T]: the begin mark and all target tokens but the last.
    target_in: Tensor,
    target_out: Vec<Vec<i64>>,
}

impl Batch {
    /// Of token ids with their end marks.
    pub fn new(sources: &[Vec<i64>], targets: Vec<Vec<i64>>, device: Device) -> Batch {
        let (source, source_padding) = pad(sources, device);
        let (target_in, _) = pad(&shifted(&targets), device);
        Batch { source, source_padding, target_in, target_out: targets }
    }

    /// Tokens to predict, end marks among them.
    pub fn targets(&self) -> u64 {
        self.target_out.iter().map(|row| row.len() as u64).sum()
    }

    /// The rows as another program can take them.
    pub fn tokens(self) -> TokenBatch {
        let target = pad(&self.target_out, self.source.device()).0;
        TokenBatch { source: Some(self.source), input: self.target_in, target }
    }

    /// Cross-entropy of the targets, summed.
    pub fn loss(self, model: &Seq2Seq, label_smoothing: f64, train: bool) -> Result<Tensor> {
        let memory = model.encode(&self.source, self.source_padding, train)?;
        let hidden = model.decode(&self.target_in, &memory, train)?;
        cross_entropy(&hidden, &self.target_out, model.table(), label_smoothing)
    }

    /// Histograms of the self-attention weights of both stacks.
    pub fn view_attention(&self, model: &Seq2Seq) -> Result<Vec<Histogram>> {
        let _guard = tch::no_grad_guard();
        let mut histograms = Histograms::default();
        for (first, count) in chunks(self.target_out.len() as i64) {
            let part = |tensor: &Tensor| tensor.narrow(0, first, count);
            let (source, target) = (part(&self.source), part(&self.target_in));
            let real = [&source, &target].map(|tokens| tokens.ne(i64::from(PAD)));
            let visible = [visible(&real[0], false), visible(&real[1], true)];
            let see = &mut |view: LayerView| {
                let side = usize::from(view.stack != "encoder");
                histograms.add(&view, &real[side], &visible[side]);
            };
            model.attention_weights(&source, self.source_padding.as_ref().map(part), &target, see)?;
        }
        Ok(histograms.finish())
    }
}
