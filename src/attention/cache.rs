//! What incremental decoding keeps of the positions so far.

use tch::{no_grad, Tensor};

/// Slots added when a buffer is full: few enough that reordering copies little that is unused.
const CHUNK: i64 = 32;

/// Vectors of every row, head and position so far: [R, h, t, width] in a buffer that grows.
#[derive(Debug, Default)]
pub struct Cache {
    buffer: Option<Tensor>,
    length: i64,
}

impl Cache {
    /// Appends `vectors` [R, h, 1, width] and gives all so far, [R, h, t + 1, width] (a view, good until the next change).
    pub fn push(&mut self, vectors: &Tensor) -> Tensor {
        no_grad(|| {
            let (rows, heads, _, width) = vectors.size4().unwrap_or_default();
            let buffer = match self.buffer.take() {
                Some(buffer) if buffer.size()[2] > self.length => buffer,
                full => {
                    let spare = vectors.new_empty([rows, heads, CHUNK, width], (vectors.kind(), vectors.device()));
                    match full {
                        Some(full) => Tensor::cat(&[full, spare], 2),
                        None => spare,
                    }
                }
            };
            buffer.narrow(2, self.length, 1).copy_(vectors);
            self.length += 1;
            let all = buffer.narrow(2, 0, self.length);
            self.buffer = Some(buffer);
            all
        })
    }

    /// Appends `vectors` [R, h, 1, width], keeps the last `most` of all so far, and gives those.
    pub fn push_within(&mut self, vectors: &Tensor, most: i64) -> Tensor {
        no_grad(|| {
            let all = match self.buffer.take() {
                Some(buffer) => Tensor::cat(&[&buffer.narrow(2, 0, self.length), vectors], 2),
                None => vectors.copy(),
            };
            self.length = all.size()[2].min(most);
            let kept = all.narrow(2, all.size()[2] - self.length, self.length);
            self.buffer = Some(kept.shallow_clone());
            kept
        })
    }

    /// R, once something was put in.
    pub fn rows(&self) -> Option<i64> {
        self.buffer.as_ref().map(|buffer| buffer.size()[0])
    }

    /// Row i becomes what row `rows[i]` was (int64 [R']).
    pub fn reorder(&mut self, rows: &Tensor) {
        if let Some(buffer) = &self.buffer {
            self.buffer = Some(buffer.index_select(0, &rows.to_device(buffer.device())));
        }
    }
}
