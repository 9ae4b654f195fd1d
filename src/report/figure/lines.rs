//! Panels of lines over whole numbers, all axes logarithmic, with labels at the lines' ends.

use super::axis::{Panel, Scale};
use super::canvas::{Anchor, Canvas, Point, BLACK, GREY};
use super::label::{at_line_ends, line_end_width};
use super::render::text_width;
use super::style::{Style, LABEL, TITLE};

const PANEL: f64 = 300.0;
const TOP: f64 = 84.0;
const HEIGHT: f64 = 330.0;

/// A line's label, look and points.
pub(super) type Line = (String, Style, Vec<(f64, f64)>);

/// The drawing of named panels side by side; those without a line are left out, and there is none when all are.
pub(super) fn canvas(title: &str, setting: &str, x_name: &str, panels: &[(&str, Vec<Line>)]) -> Option<Canvas> {
    let panels: Vec<_> = panels.iter().filter(|(_, lines)| lines.iter().any(|l| l.2.len() > 1)).collect();
    if panels.is_empty() {
        return None;
    }
    let gutter = line_end_width(panels.iter().flat_map(|p| p.1.iter().map(|l| l.0.as_str())));
    let stride = 62.0 + PANEL + gutter;
    let words = 40.0 + text_width(title, TITLE).max(text_width(setting, LABEL));
    let width = (14.0 + stride * panels.len() as f64).max(words);
    let mut canvas = Canvas::new(width, TOP + HEIGHT + 58.0, title);
    canvas.text((20.0, 28.0), title, TITLE, Anchor::Start, BLACK);
    canvas.text((20.0, 47.0), setting, LABEL, Anchor::Start, GREY);
    for (at, (name, lines)) in panels.iter().enumerate() {
        let values = || lines.iter().flat_map(|l| l.2.iter().copied());
        let panel = Panel {
            left: 62.0 + stride * at as f64,
            top: TOP,
            width: PANEL,
            height: HEIGHT,
            x: Scale::log(values().map(|v| v.0), 0.02),
            y: Scale::log(values().map(|v| v.1), 0.04),
        };
        let mut places: Vec<u64> = values().map(|v| v.0 as u64).collect();
        places.sort_unstable();
        places.dedup();
        let ticks = places.iter().map(|l| (*l as f64, l.to_string())).collect();
        panel.draw(&mut canvas, x_name, name, Some(ticks));
        let mut ends: Vec<(Point, String, Style)> = Vec::new();
        for (label, style, values) in lines {
            let points: Vec<Point> = values.iter().map(|v| panel.at(v.0, v.1)).collect();
            canvas.line(&points, style.colour, 1.8, style.dash);
            for point in &points {
                canvas.marker(*point, style.marker, 3.6, style.colour, style.hollow);
            }
            if let Some(end) = points.last() {
                ends.push((*end, label.clone(), *style));
            }
        }
        at_line_ends(&mut canvas, panel.right(), (panel.top, panel.bottom()), &ends);
    }
    Some(canvas)
}
