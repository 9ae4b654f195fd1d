//! Time and memory against the length, with the fitted exponents, and tokens a second against the batch.

use super::lines::{canvas, Line};
use super::style::styles;
use super::Figure;
use crate::report::grown::{Grown, Quantity, FIT_FROM};
use crate::report::number;

/// Time and memory of `growth.csv`; none where no mix has two lengths.
pub fn by_length(grown: &Grown) -> Vec<Figure> {
    let time = figure(grown, Quantity::Milliseconds, "growth-time", "Time against the length");
    let memory = figure(grown, Quantity::Megabytes, "growth-memory", "Peak memory against the length");
    time.into_iter().chain(memory).collect()
}

fn figure(grown: &Grown, quantity: Quantity, stem: &str, title: &str) -> Option<Figure> {
    let lines = |backward| {
        lines(grown, |mix| {
            let points = grown.by_length(mix, backward, quantity);
            let exponent = grown.exponent(mix, backward, quantity);
            (exponent.map_or(mix.to_string(), |e| format!("{mix}: L^{}", number::fixed(e, 2))), points)
        })
    };
    let unit = quantity.unit();
    let panels = [(&*format!("forward, {unit}"), lines(false)), (&*format!("forward + backward, {unit}"), lines(true))];
    let setting = format!("{}; exponents of L from {FIT_FROM}", grown.setting(true));
    let caption = format!(
        "{title}: one attention layer, maximum length as long as the sequence ({}). Both axes are logarithmic: a straight line is a \
         power of the length L. The labels give that power, fitted by least squares over the lengths from {FIT_FROM}.",
        grown.setting(true)
    );
    Some(Figure { stem: stem.into(), caption, canvas: canvas(title, &setting, "length L", &panels)? })
}

/// Tokens a second of `batch.csv`; none where no mix has two batches.
pub fn by_batch(grown: &Grown) -> Option<Figure> {
    let title = "Tokens a second against the batch";
    let lines = |backward| lines(grown, |mix| (mix.to_string(), grown.by_batch(mix, backward)));
    let panels = [("forward, tokens/s", lines(false)), ("forward + backward, tokens/s", lines(true))];
    let setting = grown.setting(false);
    let caption = format!("{title}: one attention layer ({setting}). Both axes are logarithmic. Higher is faster.");
    let canvas = canvas(title, &setting, "sequences in a batch B", &panels)?;
    Some(Figure { stem: "batch-tokens".into(), caption, canvas })
}

fn lines(grown: &Grown, line: impl Fn(&str) -> (String, Vec<(f64, f64)>)) -> Vec<Line> {
    let mixes: Vec<(String, String)> = grown.mixes().into_iter().map(|mix| (mix, String::new())).collect();
    let looks = styles(&mixes);
    let lines = mixes.iter().zip(looks).map(|((mix, _), style)| {
        let (label, points) = line(mix);
        (label, style, points)
    });
    lines.filter(|line| !line.2.is_empty()).collect()
}
