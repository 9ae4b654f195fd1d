//! The learned α of each mixture, per layer and head.

use super::canvas::{Anchor, Canvas, Colour, BLACK, GREY, WHITE};
use super::render::text_width;
use super::style::{blend, luminance, HIGH, LABEL, LOW, TITLE};
use super::Figure;
use crate::report::number;
use crate::report::read::log::AlphaKey;
use crate::report::results::{row_label, Column, RunFolder};
use crate::report::table::layout::heading;
use crate::report::table::quality::paper_order;

const CELL: (f64, f64) = (44.0, 26.0);
const GAP: f64 = 48.0;

/// One term's weights in one run.
struct Block {
    title: String,
    /// What an untrained mixture has.
    neutral: f64,
    cells: Vec<(AlphaKey, f64)>,
}

/// The α of a column's mixtures; none when no log holds any.
pub fn figure(column: &Column) -> Option<Figure> {
    let blocks = blocks(column);
    if blocks.is_empty() {
        return None;
    }
    let mut stacks: Vec<String> = Vec::new();
    for (key, _) in blocks.iter().flat_map(|b| &b.cells) {
        if !stacks.contains(&key.stack) {
            stacks.push(key.stack.clone());
        }
    }
    stacks.sort_by_key(|s| (s != "encoder", s.clone()));
    let extent = |stack: &str| {
        let of = || blocks.iter().flat_map(|b| &b.cells).filter(|c| c.0.stack == stack);
        let count = |n: Option<usize>| n.map_or(0, |n| n + 1);
        (count(of().map(|c| c.0.layer).max()), count(of().map(|c| c.0.head).max()))
    };
    let extents: Vec<(usize, usize)> = stacks.iter().map(|s| extent(s)).collect();
    let names: f64 = 70.0;
    let grids: f64 = extents.iter().map(|e| names + e.1 as f64 * CELL.0 + GAP).sum::<f64>() - GAP;
    let titles = blocks.iter().map(|b| text_width(&b.title, LABEL)).fold(0.0, f64::max);
    let title = format!("{}: learned α per layer and head", heading(column));
    let width = (40.0 + grids.max(titles)).max(40.0 + text_width(&title, TITLE)).max(420.0);
    let layers = extents.iter().map(|e| e.0).max().unwrap_or(0) as f64;
    let block_height = 24.0 + 22.0 + layers * CELL.1 + 26.0;
    let top = 54.0;
    let mut canvas = Canvas::new(width, top + block_height * blocks.len() as f64 + 62.0, &title);
    canvas.text((20.0, 28.0), &title, TITLE, Anchor::Start, BLACK);
    for (at, block) in blocks.iter().enumerate() {
        let y = top + block_height * at as f64;
        canvas.text((20.0, y + 14.0), &block.title, LABEL, Anchor::Start, BLACK);
        let mut left = 20.0 + names;
        for (stack, (_, heads)) in stacks.iter().zip(&extents) {
            draw_stack(&mut canvas, block, stack, left, y + 46.0, *heads);
            left += *heads as f64 * CELL.0 + GAP + names;
        }
    }
    draw_key(&mut canvas, 20.0 + names, top + block_height * blocks.len() as f64 + 10.0);
    let caption = format!(
        "{title}: each cell is the share of a term in the mixture's logits after training (the lowest finished seed). \
         An untrained mixture weighs its terms equally. Heads have no order that two seeds would share."
    );
    Some(Figure { stem: format!("{}-alpha", column.stem), caption, canvas })
}

fn blocks(column: &Column) -> Vec<Block> {
    let mut keys = column.keys();
    keys.sort_by_key(|(mix, variant)| (paper_order(mix), !variant.is_empty()));
    let mut blocks = Vec::new();
    for (mix, variant) in keys {
        let runs: Vec<&RunFolder> =
            column.runs_of(&mix, &variant).filter(|r| !r.log.last_alphas().is_empty()).collect();
        let Some(run) = runs.iter().find(|r| r.finished).or_else(|| runs.first()) else { continue };
        let alphas = run.log.last_alphas();
        let mut terms: Vec<&str> = Vec::new();
        for (key, _) in &alphas {
            if !terms.contains(&key.term.as_str()) {
                terms.push(&key.term);
            }
        }
        // With two terms that sum to 1 the second says nothing new.
        let sum_to_one = alphas.iter().map(|a| a.1).sum::<f64>() * terms.len() as f64 / alphas.len() as f64;
        let shown = if terms.len() == 2 && (sum_to_one - 1.0).abs() < 1e-2 { 1 } else { terms.len() };
        for term in &terms[..shown] {
            let state = if run.finished { "" } else { ", unfinished" };
            blocks.push(Block {
                title: format!("{}: α of {term} (seed {}{state})", row_label(&mix, &variant), run.seed),
                neutral: 1.0 / terms.len() as f64,
                cells: alphas.iter().filter(|a| a.0.term == *term).cloned().collect(),
            });
        }
    }
    blocks
}

fn draw_stack(canvas: &mut Canvas, block: &Block, stack: &str, left: f64, top: f64, heads: usize) {
    let cells: Vec<&(AlphaKey, f64)> = block.cells.iter().filter(|c| c.0.stack == stack).collect();
    if cells.is_empty() {
        return;
    }
    for head in 0..heads {
        let x = left + (head as f64 + 0.5) * CELL.0;
        let name = if head == 0 { "head 1".to_string() } else { (head + 1).to_string() };
        canvas.text((x, top - 6.0), &name, LABEL, Anchor::Middle, GREY);
    }
    for (key, value) in cells {
        let (x, y) = (left + key.head as f64 * CELL.0, top + key.layer as f64 * CELL.1);
        let colour = scale(*value, block.neutral);
        canvas.rectangle((x + 1.0, y + 1.0), (x + CELL.0 - 1.0, y + CELL.1 - 1.0), colour);
        let ink = if luminance(colour) > 0.25 { BLACK } else { WHITE };
        canvas.text(
            (x + CELL.0 / 2.0, y + CELL.1 / 2.0 + LABEL * 0.36),
            &number::fixed(*value, 2),
            LABEL,
            Anchor::Middle,
            ink,
        );
        if key.head == 0 {
            let name = format!("{stack} {}", key.layer + 1);
            canvas.text((left - 6.0, y + CELL.1 / 2.0 + LABEL * 0.36), &name, LABEL, Anchor::End, GREY);
        }
    }
}

/// Blue below what an untrained mixture has, vermillion above, white between.
fn scale(value: f64, neutral: f64) -> Colour {
    if value < neutral {
        blend(WHITE, LOW, (neutral - value) / neutral)
    } else {
        blend(WHITE, HIGH, (value - neutral) / (1.0 - neutral).max(1e-9))
    }
}

fn draw_key(canvas: &mut Canvas, left: f64, top: f64) {
    let (width, height, steps) = (220.0, 12.0, 44);
    for i in 0..steps {
        let share = |i: usize| left + width * i as f64 / steps as f64;
        canvas.rectangle((share(i), top), (share(i + 1), top + height), scale((i as f64 + 0.5) / steps as f64, 0.5));
    }
    let corners = [
        (left, top),
        (left + width, top),
        (left + width, top + height),
        (left, top + height),
        (left, top),
        (left + 1.0, top),
    ];
    canvas.line(&corners, GREY, 1.0, &[]);
    for (share, label, anchor) in
        [(0.0, "0", Anchor::Middle), (0.5, "equal", Anchor::Middle), (1.0, "1", Anchor::Middle)]
    {
        canvas.text((left + width * share, top + height + LABEL + 4.0), label, LABEL, anchor, GREY);
    }
}
