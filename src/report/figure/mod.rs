//! Figures. Each is laid out on a [`canvas::Canvas`] and then drawn twice, as SVG and as PNG, by [`render`].

pub mod alpha;
pub mod attention;
pub mod axis;
pub mod bars;
pub mod canvas;
pub mod cost;
pub mod curves;
pub mod growth;
pub mod label;
mod lines;
pub mod panels;
pub mod ratios;
pub mod render;
pub mod style;
pub mod time;

use super::published::Published;
use super::results::TableResults;
use canvas::Canvas;

/// A figure with its file's stem and the line under it.
#[derive(Debug, Clone)]
pub struct Figure {
    /// File stem, such as `ende-quality`.
    pub stem: String,
    /// What it shows.
    pub caption: String,
    /// The drawing.
    pub canvas: Canvas,
}

/// All figures that some results have data for.
pub fn figures(results: &TableResults, published: &Published) -> Vec<Figure> {
    let mut figures = Vec::new();
    figures.extend(cost::figure(results));
    figures.extend(time::figures(results));
    figures.extend(panels::figure(results, published));
    for column in &results.columns {
        figures.extend(bars::figure(results, column, published));
        figures.extend(curves::figure(column));
        figures.extend(alpha::figure(column));
        figures.extend(attention::figures(column));
    }
    figures
}
