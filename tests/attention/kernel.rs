//! The kernel itself against the definition written in LibTorch's operations, with its autograd: sizes and subsets of gradients that
//! no layer of the other tests has.

use crate::*;
use synthesizer::native::attention::{attend, Part, Request};

const DOUBLE: (Kind, Device) = (Kind::Double, Device::Cpu);

/// What enters, and the direction in which the output is summed.
struct Case {
    parts: Vec<Part>,
    weights: Option<Tensor>,
    values: Tensor,
    padding: Option<Tensor>,
    causal: bool,
    dropout: f64,
    toward: Tensor,
}

impl Case {
    fn new(parts: Vec<Part>, values: Tensor, rows: i64) -> Self {
        // unless a case says so: threads take whole heads
        tch::set_num_threads(1);
        let [batch, heads, _, width] = <[i64; 4]>::try_from(values.size()).unwrap();
        let toward = random(&[batch, heads, rows, width]);
        Self { parts, weights: None, values, padding: None, causal: false, dropout: 0.0, toward }
    }

    fn tensors(&self) -> Vec<&Tensor> {
        let parts = self.parts.iter().flat_map(|part| part.tensors().into_iter().flatten());
        [&self.values].into_iter().chain(&self.weights).chain(parts).collect()
    }

    fn request(&self, values: &Tensor, dropout: f64) -> Request<'_> {
        Request {
            parts: self.parts.iter().map(Part::shallow_clone).collect(),
            weights: self.weights.as_ref().map(Tensor::shallow_clone),
            values: values.shallow_clone(),
            padding: self.padding.as_ref(),
            causal: self.causal,
            dropout,
            seed: 7,
        }
    }

    fn attend(&self) -> Tensor {
        attend(self.request(&self.values, self.dropout)).unwrap()
    }

    fn logits(&self) -> Tensor {
        let logits = self.parts.iter().enumerate().map(|(index, part)| {
            let logits = match part {
                Part::Product { queries, keys, scale, bias } => {
                    let product = queries.matmul(&keys.transpose(2, 3)) * *scale;
                    bias.iter().fold(product, |sum, bias| sum + bias.unsqueeze(1))
                }
                Part::Table(table) => table.unsqueeze(0),
                Part::Outer { first, second, columns } => {
                    (second.unsqueeze(-1) * first.unsqueeze(-2)).flatten(-2, -1).narrow(-1, 0, *columns)
                }
            };
            match &self.weights {
                Some(weights) => logits * weights.get(index as i64).view([-1, 1, 1]),
                None => logits,
            }
        });
        logits.reduce(|sum, next| sum + next).unwrap()
    }

    /// The definition; what is dropped is read from the kernel, given the identity as values.
    fn definition(&self) -> Tensor {
        let logits = self.logits();
        let [rows, columns] = <[i64; 2]>::try_from(&logits.size()[2..]).unwrap();
        let (batch, heads) = (self.values.size()[0], self.values.size()[1]);
        let mut hidden = Tensor::zeros([batch, 1, rows, columns], (Kind::Bool, Device::Cpu));
        if let Some(padding) = &self.padding {
            hidden = hidden.logical_or(&padding.view([batch, 1, 1, columns]));
        }
        if self.causal {
            let later = Tensor::ones([rows, columns], (Kind::Bool, Device::Cpu)).triu(1);
            hidden = hidden.logical_or(&later);
        }
        // finite, so that a row that sees nothing has gradients of 0
        let weights = logits.masked_fill(&hidden, -1e30).softmax(-1, None::<Kind>) * hidden.logical_not();
        let weights = match self.dropout > 0.0 {
            true => {
                let identity = Tensor::eye(columns, DOUBLE).expand([batch, heads, columns, columns], true);
                let kept = no_grad(|| attend(self.request(&identity, self.dropout)).unwrap()).ne(0.0);
                weights * kept / (1.0 - self.dropout)
            }
            false => weights,
        };
        weights.matmul(&self.values)
    }

    /// Output and gradients of the tensors that want one.
    fn run(&self, output: &Tensor) -> Vec<Tensor> {
        for tensor in self.tensors() {
            tensor.shallow_clone().zero_grad();
        }
        (output * &self.toward).sum(output.kind()).backward();
        let gradients = self.tensors().into_iter().filter(|tensor| tensor.requires_grad());
        [output.detach()].into_iter().chain(gradients.map(|tensor| tensor.grad().copy())).collect()
    }

    /// In float64, then in float32, where they lie as they did.
    fn check(&self, what: &str) {
        let wanted = self.run(&self.definition());
        alike(&wanted, &self.run(&self.attend()), 1e-10, what);
        let single = self.in_single();
        alike(&wanted, &single.run(&single.attend()), 1e-4, &format!("{what}, float32"));
    }

    fn in_single(&self) -> Case {
        // `to_kind` keeps strides
        let single = |tensor: &Tensor| tensor.detach().to_kind(Kind::Float).set_requires_grad(tensor.requires_grad());
        let parts = self.parts.iter().map(|part| match part {
            Part::Product { queries, keys, scale, bias } => Part::Product {
                queries: single(queries),
                keys: single(keys),
                scale: *scale,
                bias: bias.as_ref().map(single),
            },
            Part::Table(table) => Part::Table(single(table)),
            Part::Outer { first, second, columns } => {
                Part::Outer { first: single(first), second: single(second), columns: *columns }
            }
        });
        Case {
            parts: parts.collect(),
            weights: self.weights.as_ref().map(single),
            values: single(&self.values),
            padding: self.padding.as_ref().map(Tensor::shallow_clone),
            toward: self.toward.to_kind(Kind::Float),
            ..*self
        }
    }
}

fn alike(wanted: &[Tensor], found: &[Tensor], tolerance: f64, what: &str) {
    assert_eq!(wanted.len(), found.len());
    for (index, (wanted, found)) in wanted.iter().zip(found).enumerate() {
        let size = wanted.abs().max().double_value(&[]).max(1.0);
        let error = distance(wanted, &found.to_kind(Kind::Double)) / size;
        // a NaN is no error below the tolerance
        assert!(error < tolerance, "{what}, tensor {index} {:?}: {error:e}", wanted.size());
    }
}

fn leaf(size: &[i64]) -> Tensor {
    random(size).set_requires_grad(true)
}

/// Rows lie in memory as columns.
fn turned_leaf(size: [i64; 4]) -> Tensor {
    let [batch, heads, rows, columns] = size;
    random(&[batch, heads, columns, rows]).transpose(2, 3).detach().set_requires_grad(true)
}

fn product(queries: Tensor, keys: Tensor) -> Part {
    Part::Product { queries, keys, scale: 0.3, bias: None }
}

/// Depths over 256, panels in part and several blocks of columns: of one sequence's products, and of all sequences' together.
#[test]
fn depths_over_a_block_of_one_and_of_all_sequences() {
    for causal in [false, true] {
        let own = product(leaf(&[2, 2, 300, 40]), turned_leaf([2, 2, 300, 40]));
        Case { causal, ..Case::new(vec![own], leaf(&[2, 2, 300, 40]), 300) }.check(&format!("own, causal {causal}"));
        let shared = vec![
            product(leaf(&[1, 2, 270, 40]), turned_leaf([1, 2, 270, 40])),
            product(leaf(&[1, 2, 270, 3]), leaf(&[1, 2, 270, 3])),
            Part::Table(leaf(&[2, 270, 270])),
        ];
        let case = Case { causal, weights: Some(leaf(&[3, 2])), ..Case::new(shared, leaf(&[8, 2, 270, 40]), 270) };
        for threads in [1, 3] {
            tch::set_num_threads(threads);
            case.check(&format!("shared, causal {causal}, {threads} threads"));
        }
        tch::set_num_threads(1);
    }
}

/// Blocks of 32 and of 16 rows.
#[test]
fn lengths_whose_blocks_have_fewer_rows() {
    for length in [1100, 2100] {
        for causal in [false, true] {
            let own = product(leaf(&[1, 1, length, 5]), leaf(&[1, 1, length, 5]));
            let parts = vec![own, Part::Table(leaf(&[1, length, length]))];
            Case { causal, ..Case::new(parts, leaf(&[2, 1, length, 9]), length) }
                .check(&format!("length {length}, causal {causal}"));
        }
    }
}

/// Columns that are not as many as rows, in every kind of part; a sequence that sees nothing; what was dropped, in later blocks too.
#[test]
fn rows_columns_padding_and_dropout() {
    for (rows, columns, lengths) in [(150, 5, [5, 2, 0]), (70, 33, [33, 0, 17]), (3, 170, [170, 129, 1])] {
        for dropout in [0.0, 0.4] {
            let parts = vec![
                Part::Product {
                    queries: leaf(&[3, 2, rows, 7]),
                    keys: turned_leaf([3, 2, columns, 7]),
                    scale: 0.5,
                    bias: Some(leaf(&[2, columns])),
                },
                Part::Table(leaf(&[2, rows, columns])),
                Part::Outer { first: leaf(&[3, 2, rows, 6]), second: leaf(&[3, 2, rows, columns / 6 + 1]), columns },
            ];
            let case = Case {
                weights: Some(leaf(&[3, 2])),
                padding: Some(padding(&lengths, columns)),
                dropout,
                ..Case::new(parts, leaf(&[3, 2, columns, 11]), rows)
            };
            for threads in [1, 3] {
                tch::set_num_threads(threads);
                case.check(&format!("{rows} × {columns}, dropout {dropout}, {threads} threads"));
            }
        }
    }
    for lengths in [[150, 150], [150, 20]] {
        let own = product(leaf(&[2, 2, 150, 6]), leaf(&[2, 2, 150, 6]));
        Case {
            padding: Some(padding(&lengths, 150)),
            causal: true,
            dropout: 0.25,
            ..Case::new(vec![own], leaf(&[2, 2, 150, 5]), 150)
        }
        .check(&format!("causal, dropout, {lengths:?}"));
    }
}

/// Each tensor alone wants a gradient, over several blocks.
#[test]
fn one_gradient_at_a_time() {
    for wanted in 0..8 {
        for causal in [false, true] {
            let tensors: Vec<Tensor> = [
                random(&[2, 2, 90, 6]),
                random(&[3, 2]),
                random(&[2, 2, 90, 4]),
                random(&[2, 2, 90, 4]),
                random(&[2, 90]),
                random(&[2, 90, 90]),
                random(&[2, 2, 90, 9]),
                random(&[2, 2, 90, 10]),
            ]
            .into_iter()
            .enumerate()
            .map(|(index, tensor)| tensor.set_requires_grad(index == wanted))
            .collect();
            let [values, weights, queries, keys, bias, table, first, second] =
                <[Tensor; 8]>::try_from(tensors).unwrap();
            let parts = vec![
                Part::Product { queries, keys, scale: 0.4, bias: Some(bias) },
                Part::Table(table),
                Part::Outer { first, second, columns: 90 },
            ];
            Case { weights: Some(weights), causal, ..Case::new(parts, values, 90) }
                .check(&format!("gradient {wanted} alone, causal {causal}"));
        }
    }
    // values alone of logits that sequences share: Rfix
    for causal in [false, true] {
        let parts = vec![Part::Table(random(&[2, 150, 150]))];
        Case { causal, ..Case::new(parts, leaf(&[3, 2, 150, 6]), 150) }.check(&format!("Rfix, causal {causal}"));
    }
}

/// What is no number in a row's gradient stays out of what later keys get: the row does not see them.
#[test]
fn a_bad_row_leaves_later_keys_alone() {
    let case = Case {
        causal: true,
        ..Case::new(vec![product(leaf(&[1, 1, 40, 3]), leaf(&[1, 1, 40, 3]))], leaf(&[1, 1, 40, 4]), 40)
    };
    let _ = case.toward.get(0).get(0).get(20).fill_(f64::NAN);
    case.run(&case.attend());
    let gradient = case.parts[0].tensors()[1].unwrap().grad();
    let finite_at = |first, count| finite(&gradient.narrow(2, first, count));
    assert!(!finite_at(20, 1) && finite_at(21, 19));
}

/// In float32 a row's maximum and the logarithm of its sum are one number, of which few digits are behind the point here.
#[test]
fn gradients_at_large_logits_keep_their_digits() {
    let part = |kind| vec![Part::Table(Tensor::full([1, 4, 20], 1e5, (kind, Device::Cpu)).set_requires_grad(true))];
    // what all weights have in common cancels
    let values = (random(&[2, 1, 20, 3]) + 50.0).set_requires_grad(true);
    let double = Case::new(part(Kind::Double), values, 4);
    let wanted = double.run(&double.definition());
    let single = double.in_single();
    let found = single.run(&single.attend());
    for (index, (wanted, found)) in wanted.iter().zip(&found).enumerate() {
        let error = distance(wanted, &found.to_kind(Kind::Double)) / wanted.abs().max().double_value(&[]);
        assert!(error < 1e-2, "tensor {index}: {error:e}");
    }
}
