//! Table 1's figure of time (and memory) against sequence length.

use super::lines::{canvas, Line};
use super::style::styles;
use super::Figure;
use crate::report::read::cost::TimeRow;
use crate::report::results::{row_key, TableResults};
use crate::report::table::functions;

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
    let canvas = canvas(title, setting, "sequence length", panels)?;
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
