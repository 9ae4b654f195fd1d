//! Table 1's figure of time (and memory) against sequence length.

use super::axis::{Panel, Scale};
use super::canvas::{Anchor, Canvas, Point, BLACK, GREY};
use super::label::{at_line_ends, line_end_width};
use super::style::{styles, Style, LABEL, TITLE};
use super::Figure;
use crate::report::read::cost::TimeRow;
use crate::report::results::{row_key, TableResults};
use crate::report::table::functions;

const PANEL: f64 = 300.0;
const TOP: f64 = 84.0;
const HEIGHT: f64 = 330.0;

type Line = (String, Style, Vec<(f64, f64)>);

/// Time and memory against length, all axes logarithmic; none without `time.csv`.
pub fn figures(results: &TableResults) -> Vec<Figure> {
    let seconds = |t: &TimeRow| Some(t.median_seconds * 1e3);
    let megabytes = |t: &TimeRow| t.peak_memory_bytes.map(|b| b as f64 / 1e6);
    let time =
        [("forward, ms", lines(results, false, seconds)), ("forward + backward, ms", lines(results, true, seconds))];
    let memory = [
        ("forward, MB", lines(results, false, megabytes)),
        ("forward + backward, MB", lines(results, true, megabytes)),
    ];
    [
        figure(results, "time-length", "Time against sequence length", &time),
        figure(results, "memory-length", "Peak memory against sequence length", &memory),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn figure(results: &TableResults, stem: &str, title: &str, panels: &[(&str, Vec<Line>)]) -> Option<Figure> {
    let setting = functions::setting(results)?;
    let panels: Vec<_> = panels.iter().filter(|(_, lines)| lines.iter().any(|l| l.2.len() > 1)).collect();
    if panels.is_empty() {
        return None;
    }
    let gutter = line_end_width(panels.iter().flat_map(|p| p.1.iter().map(|l| l.0.as_str())));
    let stride = 62.0 + PANEL + gutter;
    let mut canvas = Canvas::new(14.0 + stride * panels.len() as f64, TOP + HEIGHT + 58.0, title);
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
        let mut lengths: Vec<u64> = values().map(|v| v.0 as u64).collect();
        lengths.sort_unstable();
        lengths.dedup();
        let ticks = lengths.iter().map(|l| (*l as f64, l.to_string())).collect();
        panel.draw(&mut canvas, "sequence length", name, Some(ticks));
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
    let caption = format!(
        "{title}: one attention layer, maximum length as long as the sequence ({setting}). \
         Both axes are logarithmic: a straight line is a power of the length."
    );
    Some(Figure { stem: stem.into(), caption, canvas })
}

fn lines(results: &TableResults, backward: bool, value: impl Fn(&TimeRow) -> Option<f64>) -> Vec<Line> {
    let setting = functions::setting(results).unwrap_or_default();
    let mixes: Vec<(String, String)> = functions::mixes(results).into_iter().filter(|m| m.1.is_empty()).collect();
    let looks = styles(&mixes);
    mixes
        .iter()
        .zip(looks)
        .map(|((mix, _), style)| {
            let key = row_key(mix, "");
            let mut points: Vec<(f64, f64)> = results
                .times
                .iter()
                .filter(|t| row_key(&t.mix, "") == key && t.backward == backward && t.setting == setting)
                .filter_map(|t| Some((t.length as f64, value(t).filter(|v| *v > 0.0)?)))
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            (mix.clone(), style, points)
        })
        .filter(|line| !line.2.is_empty())
        .collect()
}
