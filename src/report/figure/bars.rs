//! Quality per mix: measured bars, and beside them the published figures on a scale of their own.

use super::axis::{Panel, Scale};
use super::canvas::{Anchor, Canvas, BLACK, GREY, LIGHT, WHITE};
use super::render::text_width;
use super::style::{blend, styles, Style, LABEL, TITLE};
use super::Figure;
use crate::report::published::{Published, PublishedCell};
use crate::report::results::{row_label, Column, TableResults};
use crate::report::statistics::Summary;
use crate::report::table::layout::{heading, parts, Part, Suite};
use crate::report::table::metric::{self, joined_heading, score, Metric};
use crate::report::table::quality::rows;
use crate::report::table::{notes, suite};

const TOP: f64 = 84.0;

/// One mix.
#[derive(Debug)]
struct Bar {
    label: String,
    style: Style,
    measured: Option<Summary>,
    state: Option<&'static str>,
    published: Option<(f64, String)>,
    base: bool,
    quoted: bool,
}

/// What is measured, and where.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    /// A column; of several metrics their mean.
    Column(&'a Column, &'a [Metric]),
    /// The score of a suite.
    Suite(&'a Suite),
}

/// The mixes of one metric, with what they are drawn by.
#[derive(Debug)]
pub(super) struct Bars {
    bars: Vec<Bar>,
    name: String,
    /// How figures are printed.
    metric: Metric,
    higher_is_better: bool,
}

/// Where bars are drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Left edge of the measured bars.
    pub left: f64,
    /// Upper edge.
    pub top: f64,
    /// Height of a mix.
    pub row: f64,
    /// Width of the measured bars.
    pub width: f64,
    /// Left edge and width of the published figures, where any are drawn.
    pub published: Option<(f64, f64)>,
}

impl Bars {
    /// The bars of a metric; none when nothing was measured.
    pub fn new(results: &TableResults, published: &Published, name: &str, source: Source) -> Option<Bars> {
        let rows: Vec<_> =
            rows(results, published).into_iter().filter_map(|r| Some((r.measured?, r.published))).collect();
        let keys: Vec<(String, String)> = rows.iter().map(|r| r.0.clone()).collect();
        let cell = |c: &PublishedCell| Some((c.mean()?, c.text.clone()));
        let bar = |(((mix, variant), row), style): (((String, String), _), Style)| Bar {
            label: row_label(&mix, &variant),
            style,
            measured: match source {
                Source::Column(column, metrics) => {
                    Summary::of(column.rows_of(&mix, &variant).filter_map(|r| score(r, metrics)))
                }
                Source::Suite(of) => suite::score(results, of, &mix, &variant),
            },
            state: match source {
                Source::Column(column, _) => notes::state(column, &mix, &variant),
                Source::Suite(of) => suite::missing(results, of, &mix, &variant).map(|_| "tasks missing"),
            },
            published: Option::as_ref(&row).and_then(|r| published.cell(r, name)).and_then(cell),
            base: mix == "V" && variant.is_empty(),
            quoted: !variant.is_empty(),
        };
        let bars: Vec<Bar> = rows
            .into_iter()
            .zip(styles(&keys))
            .map(bar)
            // Variants that only the paper has, such as a row it quotes, would be bars that can never be.
            .filter(|b| b.measured.is_some() || b.state.is_some() || (b.published.is_some() && !b.quoted))
            .collect();
        let (name, metric, higher_is_better) = match source {
            Source::Column(_, metrics) if metrics.len() > 1 => {
                (format!("mean of {}", joined_heading(metrics)), metrics[0], true)
            }
            Source::Column(_, metrics) => {
                let metric = metrics.first()?;
                (metric.heading.to_string(), *metric, metric.higher_is_better)
            }
            Source::Suite(suite) => (format!("{} score", suite.heading), suite.tasks.first()?.1[0], true),
        };
        let bars = Bars { bars, name, metric, higher_is_better };
        bars.bars.iter().any(|b| b.measured.is_some()).then_some(bars)
    }

    /// What is measured, and which direction is better: `BLEU by mix (higher is better)`.
    pub fn title(&self) -> String {
        format!("{} by mix ({} is better)", self.name, if self.higher_is_better { "higher" } else { "lower" })
    }

    /// Number of mixes.
    pub fn len(&self) -> usize {
        self.bars.len()
    }

    /// Whether the paper has a figure for any mix.
    pub fn has_published(&self) -> bool {
        self.bars.iter().any(|b| b.published.is_some())
    }

    /// Width of the mixes' names, left of the bars.
    pub fn label_width(&self) -> f64 {
        10.0 + self.bars.iter().map(|b| text_width(&b.label, LABEL)).fold(0.0, f64::max)
    }

    /// Width of the figures, right of the bars.
    pub fn figure_width(&self) -> f64 {
        let texts = self.bars.iter().filter_map(|b| Some(self.figure_text(b.measured?)));
        16.0 + texts.map(|text| text_width(&text, LABEL)).fold(0.0, f64::max)
    }

    /// Width of the published figures, right of their markers.
    pub fn published_width(&self) -> f64 {
        let texts = self.bars.iter().filter_map(|b| Some(&b.published.as_ref()?.1));
        16.0 + texts.map(|text| text_width(text, LABEL)).fold(0.0, f64::max)
    }

    fn figure_text(&self, s: Summary) -> String {
        self.metric.text(s)
    }

    /// Draws the bars, each axis under its name.
    pub fn draw(&self, canvas: &mut Canvas, place: Place, measured_name: &str, published_name: &str) {
        self.draw_measured(canvas, place, measured_name);
        if let Some((left, width)) = place.published {
            self.draw_published(canvas, Place { left, width, ..place }, published_name);
        }
    }

    /// Height of the middle of a mix, and the baseline of its words.
    fn middle(place: Place, at: usize) -> (f64, f64) {
        let middle = place.top + place.row * (at as f64 + 0.5);
        (middle, middle + LABEL * 0.36)
    }

    fn panel(&self, place: Place, x: Scale) -> Panel {
        let height = place.row * self.bars.len() as f64;
        let y = Scale { low: 0.0, high: 1.0, log: false };
        Panel { left: place.left, top: place.top, width: place.width, height, x, y }
    }

    fn draw_measured(&self, canvas: &mut Canvas, place: Place, name: &str) {
        // A whisker may not take a metric that is never below 0 there.
        let low = |s: &Summary| if s.mean < 0.0 { s.mean - s.std.unwrap_or(0.0) } else { 0.0 };
        let all = || self.bars.iter().filter_map(|b| b.measured);
        let ends = all().flat_map(|s| [low(&s), s.mean + s.std.unwrap_or(0.0)]);
        let panel = self.panel(place, Scale::linear(ends, true, 0.02));
        axis(canvas, &panel, name);
        if let Some(base) = self.bars.iter().find(|b| b.base).and_then(|b| b.measured) {
            base_line(canvas, &panel, base.mean);
        }
        let (zero, _) = panel.at(0.0, 0.0);
        for (at, bar) in self.bars.iter().enumerate() {
            let (middle, baseline) = Bars::middle(place, at);
            canvas.text((place.left - 10.0, baseline), &bar.label, LABEL, Anchor::End, BLACK);
            let Some(s) = bar.measured else {
                let state = bar.state.unwrap_or("not run");
                canvas.text((zero + 8.0, baseline), state, LABEL, Anchor::Start, GREY);
                continue;
            };
            let (end, _) = panel.at(s.mean, 0.0);
            let (from, to) = (zero.min(end), zero.max(end));
            let half = place.row * 0.27;
            canvas.rectangle((from, middle - half), (to, middle + half), bar.style.colour);
            if bar.style.hollow {
                let (a, b) = (from + 2.0, (to - 2.0).max(from + 2.0));
                let inside = blend(bar.style.colour, WHITE, 0.6);
                canvas.rectangle((a, middle - half + 2.0), (b, middle + half - 2.0), inside);
            }
            let mut beside = to;
            if let Some(std) = s.std {
                let start = (s.mean - std).max(panel.x.low);
                let ((low, _), (high, _)) = (panel.at(start, 0.0), panel.at(s.mean + std, 0.0));
                whisker(canvas, (low, high), middle);
                beside = high;
            }
            let at = (beside.max(panel.right() + 2.0) + 6.0, baseline);
            canvas.text(at, &self.figure_text(s), LABEL, Anchor::Start, BLACK);
        }
        panel.frame(canvas);
    }

    fn draw_published(&self, canvas: &mut Canvas, place: Place, name: &str) {
        let values = self.bars.iter().filter_map(|b| b.published.as_ref().map(|p| p.0));
        let panel = self.panel(place, Scale::linear(values, false, 0.08));
        axis(canvas, &panel, name);
        if let Some((value, _)) = self.bars.iter().find(|b| b.base).and_then(|b| b.published.as_ref()) {
            base_line(canvas, &panel, *value);
        }
        for (at, bar) in self.bars.iter().enumerate() {
            let (middle, baseline) = Bars::middle(place, at);
            canvas.line(&[(place.left, middle), (panel.right(), middle)], LIGHT, 1.0, &[]);
            if let Some((value, text)) = &bar.published {
                let (x, _) = panel.at(*value, 0.0);
                canvas.marker((x, middle), bar.style.marker, 5.0, bar.style.colour, true);
                canvas.text((panel.right() + 8.0, baseline), text, LABEL, Anchor::Start, BLACK);
            }
        }
        panel.frame(canvas);
    }
}

/// The bars of a column's first metric; none when nothing was measured.
pub fn figure(results: &TableResults, column: &Column, published: &Published) -> Option<Figure> {
    let quality = parts(results, published).into_iter().find_map(|part| match part {
        Part::Quality(quality) if quality.stem == column.stem => Some(quality),
        _ => None,
    })?;
    let metrics = &quality.measures.first()?.metrics;
    let bars = Bars::new(results, published, &quality.published, Source::Column(column, metrics))?;
    let left = 20.0 + bars.label_width();
    let row = 30.0;
    let height = row * bars.len() as f64;
    let with_published = bars.has_published();
    let measured = if with_published { 330.0 } else { 420.0 };
    let beside = left + measured + bars.figure_width();
    let published_left = beside + 60.0;
    let title = format!("{}: {}", heading(column), bars.title());
    // Which perplexity the paper prints is not known.
    let printed = if *metrics == [metric::WORD_PERPLEXITY] { "perplexity" } else { bars.name.as_str() };
    let published_name = format!("published {printed} (axis does not start at 0)");
    let published = (280.0 + bars.published_width().max(60.0)).max(20.0 + text_width(&published_name, LABEL));
    let width = if with_published { published_left + published } else { beside + 20.0 };
    let mut canvas = Canvas::new(width.max(40.0 + text_width(&title, TITLE)), TOP + height + 58.0, &title);
    canvas.text((20.0, 28.0), &title, TITLE, Anchor::Start, BLACK);
    let place =
        Place { left, top: TOP, row, width: measured, published: with_published.then_some((published_left, 280.0)) };
    bars.draw(&mut canvas, place, &format!("measured {}", bars.name), &published_name);
    let caption = format!(
        "{title}. Bars: measured on the test set, mean over seeds; whiskers: one sample standard deviation. Dotted line: the V row.{}",
        if with_published { " Hollow markers: the paper's figures, on other data and an axis of their own that does not start at 0." } else { "" }
    );
    Some(Figure { stem: format!("{}-quality", column.stem), caption, canvas })
}

/// A spread from left to right, around the middle of a bar.
pub(super) fn whisker(canvas: &mut Canvas, (low, high): (f64, f64), middle: f64) {
    canvas.line(&[(low, middle), (high, middle)], WHITE, 3.6, &[]);
    canvas.line(&[(low, middle), (high, middle)], BLACK, 1.4, &[]);
    for x in [low, high] {
        canvas.line(&[(x, middle - 4.0), (x, middle + 4.0)], BLACK, 1.4, &[]);
    }
}

/// A dotted line upwards at a value to compare with.
pub(super) fn base_line(canvas: &mut Canvas, panel: &Panel, value: f64) {
    let (x, _) = panel.at(value, 0.0);
    canvas.line(&[(x, panel.top), (x, panel.bottom())], GREY, 1.2, &[2.0, 3.0]);
}

/// Grid and ticks of the axis that bars lie along, and its name above.
pub(super) fn axis(canvas: &mut Canvas, panel: &Panel, name: &str) {
    for (value, label) in panel.x.ticks((panel.width / 60.0).ceil() as usize) {
        let (x, _) = panel.at(value, 0.0);
        canvas.line(&[(x, panel.top), (x, panel.bottom())], LIGHT, 1.0, &[]);
        canvas.text((x, panel.bottom() + LABEL + 5.0), &label, LABEL, Anchor::Middle, GREY);
    }
    canvas.text((panel.left, panel.top - 12.0), name, LABEL, Anchor::Start, BLACK);
}
