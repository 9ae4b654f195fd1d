//! Which keys a query may see, and a softmax that keeps to it.

use std::cell::RefCell;
use tch::{Device, Kind, Tensor};

/// The causal mask of a layer: made once, and again only for a longer input or another device.
#[derive(Debug, Default)]
pub struct Causal {
    /// bool [n, n], true above the diagonal
    mask: RefCell<Option<Tensor>>,
}

impl Causal {
    /// bool [L, L], true where a key is later than the query (a view).
    pub fn cut(&self, length: i64, device: Device) -> Tensor {
        let mut slot = self.mask.borrow_mut();
        let mask = match slot.take() {
            Some(mask) if mask.device() == device && mask.size()[0] >= length => mask,
            _ => {
                let size = length.unsigned_abs().next_power_of_two() as i64;
                Tensor::ones([size, size], (Kind::Bool, device)).triu(1)
            }
        };
        slot.insert(mask).narrow(0, 0, length).narrow(1, 0, length)
    }
}

/// Keys hidden from queries, and queries that see no key at all.
#[derive(Debug)]
pub struct Mask {
    /// bool, broadcasts to [B, h, L, keys]: true where hidden
    hidden: Tensor,
    /// bool, broadcasts to [B, h, L, 1]: true where every key is hidden; none if that can't be
    blind: Option<Tensor>,
}

impl Mask {
    /// Of a causal mask [L, L], a padding mask [B, keys] (true = padded), both or none.
    pub fn new(causal: Option<Tensor>, padding: Option<&Tensor>) -> Option<Mask> {
        match (causal, padding) {
            (None, None) => None,
            (Some(causal), None) => Some(Mask { hidden: causal, blind: None }),
            (None, Some(padding)) => {
                let hidden = padding.unsqueeze(1).unsqueeze(1);
                Some(Mask { blind: Some(hidden.all_dim(-1, true)), hidden })
            }
            (Some(causal), Some(padding)) => {
                // A query is blind where all keys up to it are padded.
                let visible = padding.logical_not().to_kind(Kind::Int).cumsum(1, Kind::Int);
                let blind = visible.eq(0).unsqueeze(1).unsqueeze(-1);
                Some(Mask { hidden: padding.unsqueeze(1).unsqueeze(1).logical_or(&causal), blind: Some(blind) })
            }
        }
    }

    /// What to add to logits so that hidden keys get nothing, [B or 1, 1, 1 or L, keys].
    pub fn additive(&self, kind: Kind) -> Tensor {
        let mut zeros = Tensor::zeros(self.hidden.size(), (kind, self.hidden.device()));
        zeros.masked_fill_(&self.hidden, fill(kind))
    }

    /// Softmax of the logits over visible keys; hidden keys get exactly 0 from every query that sees any key. The weights
    /// of a blind query are finite and mean nothing: [`Mask::clear_blind`] drops what they led to.
    pub fn softmax(mask: Option<&Mask>, mut logits: Tensor, in_place: bool) -> Tensor {
        if let Some(Mask { hidden, .. }) = mask {
            let fill = fill(logits.kind());
            logits = if in_place { logits.masked_fill_(hidden, fill) } else { logits.masked_fill(hidden, fill) };
        }
        logits.softmax(-1, None)
    }

    /// Zeroes what blind queries got: x [B, h, L, any].
    pub fn clear_blind(mask: Option<&Mask>, x: Tensor) -> Tensor {
        match mask {
            Some(Mask { blind: Some(blind), .. }) => x.masked_fill(blind, 0.0),
            _ => x,
        }
    }
}

/// The logit of a hidden key: finite, so that a blind row makes no NaN, in its gradient either.
fn fill(kind: Kind) -> f64 {
    if kind == Kind::Half {
        -6e4
    } else {
        -1e30
    }
}
