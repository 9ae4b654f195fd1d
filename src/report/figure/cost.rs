//! Table 1's figure: what a function costs against what it is worth.

use super::axis::{Panel, Scale};
use super::canvas::{Anchor, Bounds, Canvas, Point, BLACK, GREY};
use super::label::beside_points;
use super::style::{styles, Style, LABEL, TITLE};
use super::Figure;
use crate::report::results::{row_label, Column, TableResults};
use crate::report::statistics::Summary;
use crate::report::table::functions;
use crate::report::table::layout::heading;
use crate::report::table::metric::{self, Metric};
use crate::report::table::quality::measured;

struct Item {
    label: String,
    style: Style,
    parameters: f64,
    flops: Option<f64>,
    quality: Summary,
}

/// Cost against quality; none without `cost.csv` or without trained runs.
pub fn figure(results: &TableResults) -> Option<Figure> {
    let column = results.columns.first()?;
    let metric = &metric::of(column)[0];
    let items = items(results, column, metric);
    if items.len() < 2 {
        return None;
    }
    let worth = format!("{} ({} is better)", metric.heading, if metric.higher_is_better { "higher" } else { "lower" });
    let title = format!("Cost against quality: {}", heading(column));
    let mut canvas = Canvas::new(940.0, 440.0, &title);
    canvas.text((20.0, 28.0), &title, TITLE, Anchor::Start, BLACK);
    let y = Scale::linear(
        items.iter().flat_map(|i| {
            [i.quality.mean - i.quality.std.unwrap_or(0.0), i.quality.mean + i.quality.std.unwrap_or(0.0)]
        }),
        false,
        0.1,
    );
    let flops: Vec<&Item> = items.iter().filter(|i| i.flops.is_some()).collect();
    let all: Vec<&Item> = items.iter().collect();
    panel(&mut canvas, 70.0, y, &all, "trained parameters of a layer", &worth, |i| i.parameters);
    panel(&mut canvas, 530.0, y, &flops, "forward FLOPs of a layer", &worth, |i| i.flops.unwrap_or(0.0));
    let first = results.costs.first()?;
    let caption = format!(
        "{title}. Each point is a function: the parameters and floating-point operations of one attention layer (d = {}, {} heads, \
         length {}) against the {} on held-out text of a small model trained with it. The axes do not start at 0.",
        first.d_model, first.heads, first.max_length, metric.heading
    );
    Some(Figure { stem: "cost-quality".into(), caption, canvas })
}

fn items(results: &TableResults, column: &Column, metric: &Metric) -> Vec<Item> {
    let mixes: Vec<(String, String)> = functions::mixes(results).into_iter().filter(|m| m.1.is_empty()).collect();
    let looks = styles(&mixes);
    mixes
        .iter()
        .zip(looks)
        .filter_map(|((mix, variant), style)| {
            let cost = functions::cost(results, mix)?;
            Some(Item {
                label: row_label(mix, variant),
                style,
                parameters: cost.trainable_parameters as f64,
                flops: cost.forward_flops,
                quality: measured(column, mix, variant, metric.key)?,
            })
        })
        .collect()
}

fn panel(
    canvas: &mut Canvas,
    left: f64,
    y: Scale,
    items: &[&Item],
    x_name: &str,
    y_name: &str,
    value: impl Fn(&Item) -> f64,
) {
    if items.is_empty() {
        return;
    }
    let x = Scale::linear(items.iter().map(|i| value(i)), false, 0.12);
    let panel = Panel { left, top: 84.0, width: 385.0, height: 290.0, x, y };
    panel.draw(canvas, x_name, y_name, None);
    let mut points: Vec<(Point, String)> = Vec::new();
    for item in items {
        let at = panel.at(value(item), item.quality.mean);
        if let Some(std) = item.quality.std {
            let (low, high) =
                (panel.at(value(item), item.quality.mean - std), panel.at(value(item), item.quality.mean + std));
            canvas.line(&[low, high], GREY, 1.2, &[]);
        }
        canvas.marker(at, item.style.marker, 5.5, item.style.colour, item.style.hollow);
        points.push((at, item.label.clone()));
    }
    let inside =
        Bounds { left: panel.left + 4.0, right: panel.right(), top: panel.top, bottom: panel.bottom() - LABEL * 0.5 };
    beside_points(canvas, inside, &points, BLACK);
}
