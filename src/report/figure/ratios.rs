//! PyTorch's time over ours: a bar for each of its forms, and a line at 1.

use super::axis::{Panel, Scale};
use super::bars::{axis, base_line, whisker};
use super::canvas::{Anchor, Canvas, Colour, BLACK, GREY};
use super::render::text_width;
use super::style::{FORMS, LABEL, TITLE};
use super::Figure;
use crate::report::number;
use crate::report::read::bench::{Against, LOOP};

const BAR: f64 = 15.0;
const GAP: f64 = 9.0;
const WIDTH: f64 = 280.0;

/// Forms of PyTorch, as files and people name them.
pub const NAMES: [(&str, &str); 5] = [
    ("stock", "PyTorch operation by operation, as it comes"),
    ("eager", "PyTorch operation by operation, freed blocks kept as ours keeps them"),
    (
        "fused",
        "what PyTorch has ready (scaled_dot_product_attention; for R and FR one product a head), freed blocks kept",
    ),
    ("compile", "torch.compile, freed blocks kept"),
    (LOOP, "a PyTorch loop that caches keys and values"),
];

/// The mixes of one panel.
#[derive(Debug, Clone)]
pub struct Ratios<'a> {
    /// What was compared.
    pub title: String,
    /// Mixes, each with its comparisons.
    pub rows: Vec<(String, Vec<&'a Against>)>,
}

impl Ratios<'_> {
    fn height(&self) -> f64 {
        self.rows.iter().map(|row| GAP + BAR * row.1.len() as f64).sum()
    }

    fn all(&self) -> impl Iterator<Item = &Against> {
        self.rows.iter().flat_map(|row| row.1.iter().copied())
    }
}

/// The panels side by side; none when nothing was compared.
pub fn figure(stem: &str, title: &str, panels: &[Ratios]) -> Option<Figure> {
    let panels: Vec<&Ratios> = panels.iter().filter(|panel| panel.all().next().is_some()).collect();
    let tallest = panels.iter().map(|panel| panel.height()).reduce(f64::max)?;
    let is_there = |form: &str| panels.iter().any(|panel| panel.all().any(|against| against.form == form));
    let legend: Vec<(&str, Colour)> =
        NAMES.iter().zip(FORMS).filter(|(name, _)| is_there(name.0)).map(|(name, colour)| (name.1, colour)).collect();
    let labels =
        10.0 + panels.iter().flat_map(|panel| &panel.rows).map(|row| text_width(&row.0, LABEL)).fold(0.0, f64::max);
    let figures =
        14.0 + panels.iter().flat_map(|panel| panel.all()).map(|a| text_width(&text(a), LABEL)).fold(0.0, f64::max);
    let titles = panels.iter().map(|panel| text_width(&panel.title, LABEL + 1.0)).fold(0.0, f64::max);
    let stride = (labels + WIDTH + figures).max(titles) + 30.0;
    let words = legend.iter().map(|item| 40.0 + text_width(item.0, LABEL)).fold(text_width(title, TITLE), f64::max);
    let top = 96.0 + 18.0 * legend.len() as f64;
    let width = (20.0 + stride * panels.len() as f64).max(40.0 + words);
    let mut canvas = Canvas::new(width, top + tallest + 34.0, title);
    canvas.text((20.0, 28.0), title, TITLE, Anchor::Start, BLACK);
    for (at, (words, colour)) in legend.iter().enumerate() {
        let y = 46.0 + 18.0 * at as f64;
        canvas.rectangle((20.0, y - 9.0), (32.0, y + 1.0), *colour);
        canvas.text((38.0, y), words, LABEL, Anchor::Start, GREY);
    }
    for (at, panel) in panels.iter().enumerate() {
        let x = 20.0 + stride * at as f64;
        canvas.text((x, top - 32.0), &panel.title, LABEL + 1.0, Anchor::Start, BLACK);
        draw(&mut canvas, panel, (x + labels, top));
    }
    let caption = format!(
        "{title}: PyTorch's time over ours, measured in turn in two processes on one machine. Right of the dotted line at 1 ours is \
         faster.{}",
        if panels.iter().any(|panel| panel.all().any(|against| against.spread.is_some())) {
            " Whiskers: 10% and 90% quantiles of the ratios of neighbours in time."
        } else {
            ""
        }
    );
    Some(Figure { stem: stem.into(), caption, canvas })
}

fn text(against: &Against) -> String {
    number::fixed(against.ratio, 2)
}

fn draw(canvas: &mut Canvas, ratios: &Ratios, (left, top): (f64, f64)) {
    let ends = ratios.all().flat_map(|a| [a.ratio, a.spread.map_or(0.0, |s| s.1), 1.0]);
    let x = Scale::linear(ends, true, 0.02);
    let y = Scale { low: 0.0, high: 1.0, log: false };
    let panel = Panel { left, top, width: WIDTH, height: ratios.height(), x, y };
    axis(canvas, &panel, "PyTorch's time / ours");
    let mut y = top + GAP / 2.0;
    for (label, comparisons) in &ratios.rows {
        let middle = y + BAR * comparisons.len() as f64 / 2.0;
        canvas.text((left - 10.0, middle + LABEL * 0.36), label, LABEL, Anchor::End, BLACK);
        for against in comparisons {
            let colour = NAMES.iter().zip(FORMS).find(|(name, _)| name.0 == against.form).map_or(GREY, |found| found.1);
            let middle = y + BAR / 2.0;
            let at = |value: f64| panel.at(value, 0.0).0;
            canvas.rectangle((at(0.0), y + 1.5), (at(against.ratio), y + BAR - 1.5), colour);
            if let Some((low, high)) = against.spread {
                whisker(canvas, (at(low), at(high)), middle);
            }
            let beside = (panel.right() + 8.0, middle + LABEL * 0.36);
            canvas.text(beside, &text(against), LABEL, Anchor::Start, BLACK);
            y += BAR;
        }
        y += GAP;
    }
    base_line(canvas, &panel, 1.0);
    panel.frame(canvas);
}
