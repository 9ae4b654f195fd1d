//! Training curves: loss and dev perplexity (dev loss where there is no perplexity) by step, a line a mix.

use super::axis::{Panel, Scale};
use super::canvas::{Anchor, Canvas, Point, BLACK};
use super::label::{at_line_ends, line_end_width};
use super::style::{styles, Style, LABEL, TITLE};
use super::Figure;
use crate::report::read::log::LogLine;
use crate::report::results::{row_label, Column, RunFolder};
use crate::report::statistics::Summary;
use crate::report::table::layout::heading;
use crate::report::table::quality::paper_order;

const PANEL: f64 = 330.0;
const TOP: f64 = 70.0;
const PERPLEXITY: &str = "dev perplexity";

type Curve = (String, Style, Vec<(f64, f64)>);

/// The training curves of a column; none without logs.
pub fn figure(column: &Column) -> Option<Figure> {
    let losses = curves(column, |l| l.loss);
    let perplexities = curves(column, |l| l.dev_perplexity);
    let of_tokens = !perplexities.is_empty();
    let dev = if of_tokens { perplexities } else { curves(column, |l| l.dev_loss) };
    // Of a run that has no dev figure yet only the task says what its loss is counted by.
    let loss_name = match (of_tokens, column.task.as_str()) {
        (true, _) => "training loss, nats per token",
        (false, "translation" | "language-modelling" | "summarization" | "dialogue") => "training loss, nats per token",
        (false, _) => "training loss",
    };
    let dev_name = if of_tokens { PERPLEXITY } else { "dev loss" };
    let panels: Vec<(&str, Vec<Curve>)> =
        [(loss_name, losses), (dev_name, dev)].into_iter().filter(|p| !p.1.is_empty()).collect();
    if panels.is_empty() {
        return None;
    }
    let labels: Vec<&str> = panels.iter().flat_map(|p| p.1.iter().map(|c| c.0.as_str())).collect();
    let most = panels.iter().map(|p| p.1.len()).max().unwrap_or(0);
    let height = (most as f64 * (LABEL + 5.0)).max(320.0);
    let stride = 56.0 + PANEL + line_end_width(&labels);
    let title = format!("{}: training", heading(column));
    let mut canvas = Canvas::new(14.0 + stride * panels.len() as f64, TOP + height + 58.0, &title);
    canvas.text((20.0, 28.0), &title, TITLE, Anchor::Start, BLACK);
    for (at, (name, curves)) in panels.iter().enumerate() {
        let values = || curves.iter().flat_map(|c| c.2.iter().copied());
        let last = values().map(|v| v.0).fold(1.0, f64::max);
        // The steep start would press the rest flat: the axis ends at the highest value after a sixth of the steps.
        let top = curves.iter().filter_map(|c| highest_from(&c.2, last / 6.0)).fold(f64::NEG_INFINITY, f64::max);
        let values = || curves.iter().flat_map(|c| c.2.iter().copied()).filter(|v| v.1 <= top);
        let perplexity = *name == PERPLEXITY;
        let y = if perplexity {
            Scale::log(values().map(|v| v.1), 0.04)
        } else {
            Scale::linear(values().map(|v| v.1), false, 0.04)
        };
        let panel = Panel {
            left: 56.0 + stride * at as f64,
            top: TOP,
            width: PANEL,
            height,
            x: Scale { low: 0.0, high: last, log: false },
            y,
        };
        panel.draw(&mut canvas, "step", name, None);
        let mut ends: Vec<(Point, String, Style)> = Vec::new();
        for (label, style, values) in curves {
            let points: Vec<Point> = below(values, panel.y.high).iter().map(|v| panel.at(v.0, v.1)).collect();
            canvas.line(&points, style.colour, 1.6, style.dash);
            // A few markers tell lines apart where they run together.
            let every = points.len().div_ceil(6).max(1);
            // Where a curve is cut off at the top there is no value to mark.
            for point in points.iter().rev().step_by(every).filter(|p| p.1 > panel.top + 0.5) {
                canvas.marker(*point, style.marker, 3.4, style.colour, style.hollow);
            }
            if let Some(end) = points.last() {
                ends.push((*end, label.clone(), *style));
            }
        }
        at_line_ends(&mut canvas, panel.right(), (panel.top, panel.bottom()), &ends);
    }
    let caption = format!(
        "{title}. Mean over the finished seeds of each mix; where no seed has finished, over what was logged. \
         The axes begin where the fast start is over{}.",
        if of_tokens { "; that of perplexity is logarithmic" } else { "" }
    );
    Some(Figure { stem: format!("{}-training", column.stem), caption, canvas })
}

/// The highest value of a curve at a step or later, or else the last.
fn highest_from(curve: &[(f64, f64)], step: f64) -> Option<f64> {
    let later = curve.iter().filter(|v| v.0 >= step).map(|v| v.1).reduce(f64::max);
    later.or(curve.last().map(|v| v.1))
}

/// The part of a curve from where it comes below `high` for good, beginning at the crossing.
fn below(curve: &[(f64, f64)], high: f64) -> Vec<(f64, f64)> {
    let first = curve.iter().rposition(|v| v.1 > high).map_or(0, |above| above + 1);
    let mut part = Vec::new();
    if let (1.., Some(&(x1, y1))) = (first, curve.get(first)) {
        let (x0, y0) = curve[first - 1];
        part.push((x0 + (x1 - x0) * (y0 - high) / (y0 - y1), high));
    }
    part.extend_from_slice(&curve[first..]);
    part
}

fn curves(column: &Column, value: impl Fn(&LogLine) -> Option<f64>) -> Vec<Curve> {
    let mut keys = column.keys();
    keys.sort_by_key(|(mix, variant)| (paper_order(mix), !variant.is_empty()));
    let looks = styles(&keys);
    keys.iter()
        .zip(looks)
        .filter_map(|((mix, variant), style)| {
            let all: Vec<&RunFolder> = column.runs_of(mix, variant).filter(|r| !r.log.lines.is_empty()).collect();
            let finished: Vec<&RunFolder> =
                all.iter().copied().filter(|r| r.finished && r.log.diverged_at().is_none()).collect();
            let diverged = finished.is_empty() && all.iter().any(|r| r.log.diverged_at().is_some());
            let suffix = match (finished.is_empty(), diverged) {
                (true, true) => ", diverged",
                (true, false) => ", unfinished",
                _ => "",
            };
            let points = mean(if finished.is_empty() { &all } else { &finished }, &value);
            (!points.is_empty()).then(|| (format!("{}{suffix}", row_label(mix, variant)), style, points))
        })
        .collect()
}

/// Mean over runs at each step that all of them logged (or that any did, when none is shared).
fn mean(runs: &[&RunFolder], value: impl Fn(&LogLine) -> Option<f64>) -> Vec<(f64, f64)> {
    let mut by_step: std::collections::BTreeMap<u64, Vec<f64>> = std::collections::BTreeMap::new();
    for run in runs {
        for line in &run.log.lines {
            if let Some(v) = value(line).filter(|v| v.is_finite()) {
                by_step.entry(line.step).or_default().push(v);
            }
        }
    }
    let shared = by_step.values().any(|v| v.len() == runs.len());
    by_step
        .into_iter()
        .filter(|(_, values)| !shared || values.len() == runs.len())
        .filter_map(|(step, values)| Some((step as f64, Summary::of(values)?.mean)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_that_rises_again_is_shown_whole() {
        let curve = [(10.0, 9.0), (20.0, 4.0), (30.0, 2.0), (40.0, 5.0), (60.0, 7.0)];
        assert_eq!(highest_from(&curve, 10.0), Some(9.0));
        assert_eq!(highest_from(&curve, 15.0), Some(7.0));
        assert_eq!(highest_from(&curve, 99.0), Some(7.0));
        assert_eq!(below(&curve, 7.0), [(14.0, 7.0), (20.0, 4.0), (30.0, 2.0), (40.0, 5.0), (60.0, 7.0)]);
        // a start that goes up and down across the top is left out, not drawn along it
        let start = [(1.0, 6.0), (2.0, 8.0), (3.0, 6.0), (4.0, 2.0)];
        assert_eq!(below(&start, 7.0), [(2.5, 7.0), (3.0, 6.0), (4.0, 2.0)]);
        assert_eq!(below(&[(1.0, 9.0)], 7.0), []);
    }
}
