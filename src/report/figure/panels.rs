//! All metrics of a table in one figure, a small panel a metric.

use super::bars::{Bars, Place, Source};
use super::canvas::{Anchor, Canvas, BLACK, GREY};
use super::render::text_width;
use super::style::{LABEL, TITLE};
use super::Figure;
use crate::report::published::Published;
use crate::report::results::TableResults;
use crate::report::table::layout::{heading, parts, Part};

const ROW: f64 = 24.0;
const MEASURED: f64 = 170.0;
const PUBLISHED: f64 = 130.0;
const PER_LINE: usize = 2;

/// A panel, and the file that its bars come from.
struct Small {
    title: String,
    stem: Option<String>,
    bars: Bars,
}

/// Tables whose figures are looked at side by side; the columns of the others have other units.
fn wanted(table: &str) -> bool {
    ["table3", "table4", "table5", "table6", "table7"].contains(&table)
}

/// The bars of all metrics of a table; none when nothing was measured.
pub fn figure(results: &TableResults, published: &Published) -> Option<Figure> {
    if !wanted(&results.name) {
        return None;
    }
    let panels = panels(results, published);
    if panels.is_empty() {
        return None;
    }
    let widest = |width: &dyn Fn(&Bars) -> f64| panels.iter().map(|p| width(&p.bars)).fold(0.0, f64::max);
    let (labels, figures) = (widest(&Bars::label_width), widest(&Bars::figure_width));
    let with_published = panels.iter().any(|p| p.bars.has_published());
    let published_width = if with_published { PUBLISHED + widest(&Bars::published_width) } else { 0.0 };
    let titles = panels.iter().map(|p| text_width(&p.title, LABEL + 1.0)).fold(0.0, f64::max);
    let stride = (labels + MEASURED + figures + published_width).max(titles) + 36.0;
    let lines = lines(&panels);
    let across = lines.iter().map(Vec::len).max().unwrap_or(1);
    let height = |line: &[usize]| 96.0 + ROW * line.iter().map(|at| panels[*at].bars.len()).max().unwrap_or(0) as f64;
    let number = results.name.trim_start_matches("table");
    let title = format!("Table {number}, profile {}: quality by mix", results.profile);
    let top = 64.0;
    let width = (20.0 + stride * across as f64).max(40.0 + text_width(&title, TITLE));
    let mut canvas = Canvas::new(width, top + lines.iter().map(|line| height(line)).sum::<f64>(), &title);
    canvas.text((20.0, 28.0), &title, TITLE, Anchor::Start, BLACK);
    let legend = if with_published { "bars: measured; hollow markers: published" } else { "bars: measured" };
    canvas.text((20.0, 47.0), legend, LABEL, Anchor::Start, GREY);
    let mut y = top;
    for line in &lines {
        for (place, at) in line.iter().enumerate() {
            let panel = &panels[*at];
            let x = 20.0 + stride * place as f64;
            let left = x + labels;
            canvas.text((x, y + 16.0), &panel.title, LABEL + 1.0, Anchor::Start, BLACK);
            let published = panel.bars.has_published().then_some((left + MEASURED + figures, PUBLISHED));
            let place = Place { left, top: y + 52.0, row: ROW, width: MEASURED, published };
            panel.bars.draw(&mut canvas, place, "measured", "published, own axis");
        }
        y += height(line);
    }
    let caption = format!(
        "{title}. Bars: measured on the test set, mean over seeds; whiskers: one sample standard deviation. Dotted line: the V row. \
         Of a task with two metrics their mean.{}",
        if with_published { " Hollow markers: the paper's figures, on other data and axes of their own that do not start at 0." } else { "" }
    );
    Some(Figure { stem: format!("{}-bars", results.name), caption, canvas })
}

fn panels(results: &TableResults, published: &Published) -> Vec<Small> {
    let mut panels = Vec::new();
    for part in parts(results, published) {
        match &part {
            Part::Parameters(_) => {}
            Part::Score(suite) => {
                if let Some(bars) = Bars::new(results, published, suite.published, Source::Suite(suite)) {
                    panels.push(Small { title: bars.title(), stem: None, bars });
                }
            }
            Part::Quality(quality) => {
                let Some(column) = results.columns.iter().find(|c| c.stem == quality.stem) else { continue };
                for (at, measure) in quality.measures.iter().enumerate() {
                    // Nothing is published for what is only shown beside it.
                    let name = if at == 0 { quality.published.as_str() } else { "" };
                    let source = Source::Column(column, &measure.metrics);
                    if let Some(bars) = Bars::new(results, published, name, source) {
                        let title = format!("{}: {}", heading(column), bars.title());
                        panels.push(Small { title, stem: Some(quality.stem.clone()), bars });
                    }
                }
            }
        }
    }
    panels
}

/// Panels by line. A file with several panels begins a line, so that tasks stay together.
fn lines(panels: &[Small]) -> Vec<Vec<usize>> {
    let count = |stem: &Option<String>| panels.iter().filter(|p| p.stem == *stem).count();
    let mut lines: Vec<Vec<usize>> = Vec::new();
    for (at, panel) in panels.iter().enumerate() {
        let begins = at > 0 && panels[at - 1].stem != panel.stem && count(&panel.stem) > 1;
        match lines.last_mut() {
            Some(line) if line.len() < PER_LINE && !begins => line.push(at),
            _ => lines.push(vec![at]),
        }
    }
    lines
}
