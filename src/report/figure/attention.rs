//! Histograms of attention weights per layer, at the start and the end of training: the paper's figures.

use super::axis::{Panel, Scale};
use super::canvas::{Anchor, Canvas, Colour, Point, BLACK, GREY, LIGHT};
use super::render::text_width;
use super::style::{styles, Style, LABEL, TITLE};
use super::Figure;
use crate::report::number;
use crate::report::read::attention::Histogram;
use crate::report::results::{row_label, Column, RunFolder};
use crate::report::table::layout::heading;
use crate::report::table::quality::paper_order;

const PANEL: (f64, f64) = (176.0, 84.0);
const GAP: (f64, f64) = (20.0, 40.0);
const TOP: f64 = 96.0;
const START: Colour = (150, 150, 150);

/// One figure a stack; none without histograms.
pub fn figures(column: &Column) -> Vec<Figure> {
    let mut keys = column.keys();
    keys.sort_by_key(|(mix, variant)| (paper_order(mix), !variant.is_empty()));
    let looks = styles(&keys);
    let rows: Vec<(String, Style, &RunFolder)> = keys
        .iter()
        .zip(looks)
        .filter_map(|((mix, variant), style)| {
            let runs = || column.runs_of(mix, variant).filter(|r| !r.histograms.is_empty());
            let run = runs().find(|r| r.finished).or_else(|| runs().next())?;
            Some((row_label(mix, variant), style, run))
        })
        .collect();
    ["encoder", "decoder"].iter().filter_map(|stack| figure(column, stack, &rows)).collect()
}

fn figure(column: &Column, stack: &str, rows: &[(String, Style, &RunFolder)]) -> Option<Figure> {
    let of_stack = |run: &RunFolder| run.histograms.iter().filter(|h| h.stack == stack).cloned().collect::<Vec<_>>();
    let rows: Vec<(&str, Style, Vec<Histogram>)> = rows
        .iter()
        .map(|(label, style, run)| (label.as_str(), *style, of_stack(run)))
        .filter(|r| !r.2.is_empty())
        .collect();
    let layers = rows.iter().flat_map(|r| &r.2).map(|h| h.layer + 1).max()?;
    let lowest = rows.iter().flat_map(|r| &r.2).flat_map(shares).filter(|s| s.2 > 0.0).map(|s| s.2).fold(1.0, f64::min);
    let y = Scale { low: 10f64.powf(lowest.log10().floor()).max(1e-8), high: 1.0, log: true };
    let left = 34.0 + rows.iter().map(|r| text_width(r.0, LABEL)).fold(0.0, f64::max) + 44.0;
    let title = format!("{}: attention weights of the {stack}'s self-attention", heading(column));
    let width = (left + layers as f64 * (PANEL.0 + GAP.0) + 8.0).max(40.0 + text_width(&title, TITLE)).max(520.0);
    let bottom = TOP + rows.len() as f64 * (PANEL.1 + GAP.1);
    let mut canvas = Canvas::new(width, bottom + 42.0, &title);
    canvas.text((20.0, 28.0), &title, TITLE, Anchor::Start, BLACK);
    key(&mut canvas);
    for (at, (label, style, histograms)) in rows.iter().enumerate() {
        let top = TOP + at as f64 * (PANEL.1 + GAP.1);
        canvas.marker((24.0, top + PANEL.1 / 2.0), style.marker, 4.5, style.colour, style.hollow);
        canvas.text((34.0, top + PANEL.1 / 2.0 + LABEL * 0.36), label, LABEL, Anchor::Start, BLACK);
        for layer in 0..layers {
            let x = Scale { low: 0.0, high: 1.0, log: false };
            let panel =
                Panel { left: left + layer as f64 * (PANEL.0 + GAP.0), top, width: PANEL.0, height: PANEL.1, x, y };
            frame(&mut canvas, &panel, layer == 0, at + 1 == rows.len());
            if at == 0 {
                let x = panel.left + PANEL.0 / 2.0;
                canvas.text((x, top - 24.0), &format!("layer {}", layer + 1), LABEL, Anchor::Middle, BLACK);
            }
            let find = |end: bool| histograms.iter().find(|h| h.end == end && h.layer == layer);
            for (histogram, colour, width) in [(find(false), START, 1.6), (find(true), style.colour, 2.0)] {
                if let Some(histogram) = histogram {
                    steps(&mut canvas, &panel, histogram, colour, width);
                }
            }
            canvas.text((panel.left, top - 6.0), &entropies(find(false), find(true)), LABEL, Anchor::Start, GREY);
        }
    }
    let explained = [
        "across: attention weight; up: share of all weights, logarithmic",
        "numbers: entropy in nats, before → after / of uniform weights",
    ];
    for (at, line) in explained.iter().enumerate() {
        canvas.text((20.0, bottom + 10.0 + 18.0 * at as f64), line, LABEL, Anchor::Start, GREY);
    }
    let caption = format!(
        "{title}: histograms before training (grey) and after (colour), one seed a mix. Numbers: mean entropy of a query's weights in nats, \
         before → after / of uniform attention over the same keys. Lower is sparser."
    );
    Some(Figure { stem: format!("{}-attention-{stack}", column.stem), caption, canvas })
}

/// Bins as low, high, share of all weights.
fn shares(histogram: &Histogram) -> impl Iterator<Item = (f64, f64, f64)> + '_ {
    let total: f64 = histogram.bins.iter().map(|b| b.2).sum();
    histogram.bins.iter().map(move |b| (b.0, b.1, if total > 0.0 { b.2 / total } else { 0.0 }))
}

/// The histogram's outline; where bins are empty it is on the floor, and not drawn.
fn steps(canvas: &mut Canvas, panel: &Panel, histogram: &Histogram, colour: Colour, width: f64) {
    let mut points: Vec<Point> = Vec::new();
    for (low, high, share) in shares(histogram).chain([(1.0, 1.0, 0.0)]) {
        if share > 0.0 {
            let share = share.clamp(panel.y.low, panel.y.high);
            if points.is_empty() && low > 0.0 {
                points.push(panel.at(low, panel.y.low));
            }
            points.extend([panel.at(low, share), panel.at(high, share)]);
        } else if let Some((x, _)) = points.last().copied() {
            if low < 1.0 {
                points.push((x, panel.bottom()));
            }
            canvas.line(&points, colour, width, &[]);
            points.clear();
        }
    }
}

fn frame(canvas: &mut Canvas, panel: &Panel, first: bool, last: bool) {
    for (value, label) in panel.y.ticks(3) {
        let (_, y) = panel.at(0.0, value);
        canvas.line(&[(panel.left, y), (panel.right(), y)], LIGHT, 1.0, &[]);
        if first {
            canvas.text((panel.left - 6.0, y + LABEL * 0.36), &label, LABEL, Anchor::End, GREY);
        }
    }
    panel.frame(canvas);
    if last {
        for (value, anchor) in [(0.0, Anchor::Start), (0.5, Anchor::Middle), (1.0, Anchor::End)] {
            let (x, _) = panel.at(value, panel.y.low);
            canvas.text((x, panel.bottom() + LABEL + 4.0), &number::significant(value, 1), LABEL, anchor, GREY);
        }
    }
}

fn entropies(start: Option<&Histogram>, end: Option<&Histogram>) -> String {
    let show = |h: Option<&Histogram>| h.and_then(|h| h.entropy).map(|e| number::fixed(e, 2));
    let uniform = end
        .or(start)
        .and_then(|h| h.uniform_entropy)
        .map(|e| format!(" / {}", number::fixed(e, 2)))
        .unwrap_or_default();
    match (show(start), show(end)) {
        (Some(a), Some(b)) => format!("{a} → {b}{uniform}"),
        (Some(a), None) | (None, Some(a)) => format!("{a}{uniform}"),
        (None, None) => String::new(),
    }
}

fn key(canvas: &mut Canvas) {
    let y = 48.0;
    canvas.line(&[(20.0, y), (48.0, y)], START, 1.6, &[]);
    canvas.text((54.0, y + LABEL * 0.36), "before training", LABEL, Anchor::Start, BLACK);
    canvas.line(&[(170.0, y), (198.0, y)], BLACK, 2.0, &[]);
    canvas.text((204.0, y + LABEL * 0.36), "after (in the mix's colour)", LABEL, Anchor::Start, BLACK);
}
