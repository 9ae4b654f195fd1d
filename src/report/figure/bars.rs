//! Quality per mix: measured bars, and beside them the published figures on a scale of their own.

use super::axis::{Panel, Scale};
use super::canvas::{Anchor, Canvas, BLACK, GREY, LIGHT};
use super::render::text_width;
use super::style::{styles, Style, LABEL, TITLE};
use super::Figure;
use crate::report::number;
use crate::report::published::Published;
use crate::report::results::{row_label, Column, TableResults};
use crate::report::statistics::Summary;
use crate::report::table::notes;
use crate::report::table::quality::{heading, measured, metrics, rows, Metric};

const ROW: f64 = 30.0;
const TOP: f64 = 84.0;

struct Bar {
    label: String,
    style: Style,
    measured: Option<Summary>,
    state: Option<&'static str>,
    published: Option<(f64, String)>,
    base: bool,
    quoted: bool,
}

/// The bars of one column; none when nothing was measured.
pub fn figure(results: &TableResults, column: &Column, published: &Published) -> Option<Figure> {
    let metric = &metrics(&column.task)[0];
    let bars = bars(results, column, published, metric);
    if !bars.iter().any(|b| b.measured.is_some()) {
        return None;
    }
    let with_published = bars.iter().any(|b| b.published.is_some());
    let left = 30.0 + bars.iter().map(|b| text_width(&b.label, LABEL)).fold(0.0, f64::max);
    let values = |b: &Bar| b.measured.map_or(String::new(), |s| figure_text(s, metric.decimals));
    let beside = 16.0 + bars.iter().map(|b| text_width(&values(b), LABEL)).fold(0.0, f64::max);
    let height = ROW * bars.len() as f64;
    let width = if with_published { left + 330.0 + beside + 60.0 + 280.0 + 60.0 } else { left + 420.0 + beside + 20.0 };
    let better = if metric.higher_is_better { "higher" } else { "lower" };
    let title = format!("{}: {} by mix ({better} is better)", heading(column), metric.heading);
    let mut canvas = Canvas::new(width, TOP + height + 58.0, &title);
    canvas.text((20.0, 28.0), &title, TITLE, Anchor::Start, BLACK);
    draw_measured(&mut canvas, &bars, left, if with_published { 330.0 } else { 420.0 }, height, metric);
    if with_published {
        draw_published(&mut canvas, &bars, left + 330.0 + beside + 60.0, 280.0, height, metric);
    }
    let caption = format!(
        "{title}. Bars: measured on the test set, mean over seeds; whiskers: one sample standard deviation. Dotted line: the V row.{}",
        if with_published { " Hollow markers: the paper's figures, on other data and an axis of their own that does not start at 0." } else { "" }
    );
    Some(Figure { stem: format!("{}-quality", column.stem), caption, canvas })
}

fn bars(results: &TableResults, column: &Column, published: &Published, metric: &Metric) -> Vec<Bar> {
    let rows: Vec<_> = rows(results, published).into_iter().filter_map(|r| Some((r.measured?, r.published))).collect();
    let keys: Vec<(String, String)> = rows.iter().map(|r| r.0.clone()).collect();
    let looks = styles(&keys);
    rows.into_iter()
        .zip(looks)
        .map(|(((mix, variant), row), style)| Bar {
            label: row_label(&mix, &variant),
            style,
            measured: measured(column, &mix, &variant, metric.key),
            state: notes::state(column, &mix, &variant),
            published: row
                .and_then(|r| published.cell(&r, &column.stem))
                .and_then(|c| Some((c.value()?, c.text.clone()))),
            base: mix == "V" && variant.is_empty(),
            quoted: !variant.is_empty(),
        })
        // Variants that only the paper has, such as a row it quotes, would be bars that can never be.
        .filter(|b| b.measured.is_some() || b.state.is_some() || (b.published.is_some() && !b.quoted))
        .collect()
}

fn figure_text(s: Summary, decimals: usize) -> String {
    let mean = number::fixed(s.mean, decimals);
    s.std.map_or(mean.clone(), |std| format!("{mean} ± {}", number::fixed(std, decimals)))
}

fn draw_measured(canvas: &mut Canvas, bars: &[Bar], left: f64, width: f64, height: f64, metric: &Metric) {
    let tops = bars.iter().filter_map(|b| b.measured.map(|s| s.mean + s.std.unwrap_or(0.0)));
    let panel = Panel {
        left,
        top: TOP,
        width,
        height,
        x: Scale::linear(tops, true, 0.02),
        y: Scale { low: 0.0, high: 1.0, log: false },
    };
    axis(canvas, &panel, &format!("measured {}", metric.heading));
    if let Some(base) = bars.iter().find(|b| b.base).and_then(|b| b.measured) {
        let (x, _) = panel.at(base.mean, 0.0);
        canvas.line(&[(x, panel.top), (x, panel.bottom())], GREY, 1.2, &[2.0, 3.0]);
    }
    for (at, bar) in bars.iter().enumerate() {
        let middle = TOP + ROW * (at as f64 + 0.5);
        canvas.text((left - 10.0, middle + LABEL * 0.36), &bar.label, LABEL, Anchor::End, BLACK);
        let Some(s) = bar.measured else {
            canvas.text(
                (left + 8.0, middle + LABEL * 0.36),
                bar.state.unwrap_or("not run"),
                LABEL,
                Anchor::Start,
                GREY,
            );
            continue;
        };
        let (end, _) = panel.at(s.mean, 0.0);
        canvas.rectangle((left, middle - 8.0), (end, middle + 8.0), bar.style.colour);
        if bar.style.hollow {
            canvas.rectangle(
                (left + 2.0, middle - 6.0),
                ((end - 2.0).max(left + 2.0), middle + 6.0),
                super::style::blend(bar.style.colour, super::canvas::WHITE, 0.6),
            );
        }
        let mut beside = end;
        if let Some(std) = s.std {
            let ((low, _), (high, _)) = (panel.at((s.mean - std).max(0.0), 0.0), panel.at(s.mean + std, 0.0));
            canvas.line(&[(low, middle), (high, middle)], super::canvas::WHITE, 3.6, &[]);
            canvas.line(&[(low, middle), (high, middle)], BLACK, 1.4, &[]);
            for x in [low, high] {
                canvas.line(&[(x, middle - 4.0), (x, middle + 4.0)], BLACK, 1.4, &[]);
            }
            beside = high;
        }
        canvas.text(
            (beside.max(panel.right() + 2.0) + 6.0, middle + LABEL * 0.36),
            &figure_text(s, metric.decimals),
            LABEL,
            Anchor::Start,
            BLACK,
        );
    }
    panel.frame(canvas);
}

fn draw_published(canvas: &mut Canvas, bars: &[Bar], left: f64, width: f64, height: f64, metric: &Metric) {
    let values = bars.iter().filter_map(|b| b.published.as_ref().map(|p| p.0));
    let panel = Panel {
        left,
        top: TOP,
        width,
        height,
        x: Scale::linear(values, false, 0.08),
        y: Scale { low: 0.0, high: 1.0, log: false },
    };
    axis(canvas, &panel, &format!("published {} (axis does not start at 0)", metric.heading));
    let base = bars.iter().find(|b| b.base).and_then(|b| b.published.as_ref());
    if let Some((value, _)) = base {
        let (x, _) = panel.at(*value, 0.0);
        canvas.line(&[(x, panel.top), (x, panel.bottom())], GREY, 1.2, &[2.0, 3.0]);
    }
    for (at, bar) in bars.iter().enumerate() {
        let middle = TOP + ROW * (at as f64 + 0.5);
        canvas.line(&[(left, middle), (panel.right(), middle)], LIGHT, 1.0, &[]);
        if let Some((value, text)) = &bar.published {
            let (x, _) = panel.at(*value, 0.0);
            canvas.marker((x, middle), bar.style.marker, 5.0, bar.style.colour, true);
            canvas.text((panel.right() + 8.0, middle + LABEL * 0.36), text, LABEL, Anchor::Start, BLACK);
        }
    }
    panel.frame(canvas);
}

fn axis(canvas: &mut Canvas, panel: &Panel, name: &str) {
    for (value, label) in panel.x.ticks((panel.width / 60.0) as usize) {
        let (x, _) = panel.at(value, 0.0);
        canvas.line(&[(x, panel.top), (x, panel.bottom())], LIGHT, 1.0, &[]);
        canvas.text((x, panel.bottom() + LABEL + 5.0), &label, LABEL, Anchor::Middle, GREY);
    }
    canvas.text((panel.left, panel.top - 12.0), name, LABEL, Anchor::Start, BLACK);
}
