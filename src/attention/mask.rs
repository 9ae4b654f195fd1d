//! Which keys a query may see, and a softmax that keeps to it.

use std::cell::RefCell;
use tch::{Device, Kind, Tensor};

/// The causal mask of a layer, made once a device.
#[derive(Debug)]
pub struct Causal {
    max_length: i64,
    /// bool [N, N], true above the diagonal
    mask: RefCell<Option<Tensor>>,
}

impl Causal {
    /// For sequences of up to N positions.
    pub fn new(max_length: i64) -> Causal {
        Causal { max_length, mask: RefCell::new(None) }
    }

    /// bool [L, L], true where a key is later than the query (a view).
    pub fn cut(&self, length: i64, device: Device) -> Tensor {
        let mut mask = self.mask.borrow_mut();
        if mask.as_ref().is_none_or(|mask| mask.device() != device) {
            *mask = None;
        }
        let mask =
            mask.get_or_insert_with(|| Tensor::ones([self.max_length, self.max_length], (Kind::Bool, device)).triu(1));
        mask.narrow(0, 0, length).narrow(1, 0, length)
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

    /// Softmax of the logits over visible keys; hidden keys get exactly 0 from every query that sees any key. The weights
    /// of a blind query are finite and mean nothing: [`Mask::clear_blind`] drops what they led to.
    pub fn softmax(mask: Option<&Mask>, mut logits: Tensor, in_place: bool) -> Tensor {
        if let Some(Mask { hidden, .. }) = mask {
            // Finite, so that a blind row makes no NaN, in its gradient either.
            let fill = if logits.kind() == Kind::Half { -6e4 } else { -1e30 };
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
