//! Scales, ticks and the frame of a panel.

use super::canvas::{Anchor, Canvas, Point, BLACK, GREY, LIGHT};
use super::style::LABEL;
use crate::report::number;

/// From values to a share of an axis' length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// Value at the start.
    pub low: f64,
    /// Value at the end.
    pub high: f64,
    /// Whether equal ratios are equal lengths.
    pub log: bool,
}

impl Scale {
    /// A scale over the values with some room at both ends; `zero` has 0 on it, at its start where no value is below.
    pub fn linear(values: impl IntoIterator<Item = f64>, zero: bool, room: f64) -> Scale {
        let (low, high) = range(values);
        if zero {
            let (low, high) = (low.min(0.0) * (1.0 + room), high.max(0.0) * (1.0 + room));
            return Scale { low, high: if low == high { 1.0 } else { high }, log: false };
        }
        let (low, high) = if low == high { (low - 0.5, high + 0.5) } else { (low, high) };
        let space = (high - low) * room;
        Scale { low: low - space, high: high + space, log: false }
    }

    /// A logarithmic scale over the positive values, with some room at both ends.
    pub fn log(values: impl IntoIterator<Item = f64>, room: f64) -> Scale {
        let (low, high) = range(values.into_iter().filter(|v| *v > 0.0));
        let (low, high) = if low <= 0.0 { (1.0, 10.0) } else { (low, high) };
        let (low, high) = if low == high { (low / 1.5, high * 1.5) } else { (low, high) };
        let space = (high / low).powf(room);
        Scale { low: low / space, high: high * space, log: true }
    }

    /// Share of the axis, 0 at the start.
    pub fn share(&self, value: f64) -> f64 {
        if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    /// About `wanted` round values, with their labels.
    pub fn ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        let values = if self.log { self.log_ticks(wanted) } else { self.linear_ticks(wanted) };
        let step = values.windows(2).map(|w| w[1] - w[0]).fold(f64::INFINITY, f64::min);
        // A tick alone, and one of a logarithmic axis, has the decimals that it needs itself.
        let step_at = |value: f64| if self.log || step.is_infinite() { value } else { step };
        values.iter().map(|v| (*v, tick_label(*v, step_at(*v)))).collect()
    }

    fn linear_ticks(&self, wanted: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / wanted.max(1) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].iter().map(|m| m * power).find(|s| *s >= rough * 0.999).unwrap_or(rough);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|i| i as f64 * step).collect()
    }

    fn log_ticks(&self, wanted: usize) -> Vec<f64> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let inside = |mantissas: &[f64], every: i32| -> Vec<f64> {
            (first..=last)
                .filter(|e| e.rem_euclid(every) == 0)
                .flat_map(|e| mantissas.iter().map(move |m| m * 10f64.powi(e)))
                .filter(|v| *v >= self.low * 0.9999 && *v <= self.high * 1.0001)
                .collect()
        };
        let choices: [(&[f64], i32); 7] = [
            (&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], 1),
            (&[1.0, 2.0, 3.0, 5.0, 7.0], 1),
            (&[1.0, 2.0, 5.0], 1),
            (&[1.0, 3.0], 1),
            (&[1.0], 1),
            (&[1.0], 2),
            (&[1.0], 4),
        ];
        let finest = inside(choices[0].0, 1);
        if finest.len() < 3 {
            // Less than a step of the finest ladder: the axis is as good as linear.
            return self.linear_ticks(wanted);
        }
        choices
            .iter()
            .map(|(m, every)| inside(m, *every))
            .find(|v| v.len() <= wanted + 1)
            .unwrap_or_else(|| inside(&[1.0], 8))
    }
}

fn range(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .into_iter()
        .filter(|v| v.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low > high {
        (0.0, 1.0)
    } else {
        (low, high)
    }
}

/// A tick's label, with as many decimals as its step needs.
fn tick_label(value: f64, step: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    if value.abs() < 1e-3 || value.abs() >= 1e12 {
        let exponent = value.abs().log10().floor() as i32;
        let mantissa = value / 10f64.powi(exponent);
        let power = format!("10{}", superscript(exponent));
        return if (mantissa - 1.0).abs() < 1e-6 {
            power
        } else {
            format!("{}·{power}", number::significant(mantissa, 1))
        };
    }
    let (divisor, unit) = match value.abs() {
        v if v >= 999.5e6 => (1e9, "G"),
        v if v >= 999.5e3 => (1e6, "M"),
        v if v >= 9_999.5 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let step = step / divisor;
    let decimals = (0..8).find(|d| ((step * 10f64.powi(*d)).round() - step * 10f64.powi(*d)).abs() < 1e-6).unwrap_or(3);
    format!("{}{unit}", number::fixed(value / divisor, decimals as usize))
}

fn superscript(value: i32) -> String {
    value
        .to_string()
        .chars()
        .map(|c| match c {
            '-' => '⁻',
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            digit => char::from_u32('⁰' as u32 + digit.to_digit(10).unwrap_or(0)).unwrap_or(digit),
        })
        .collect()
}

/// The rectangle that data is drawn in.
#[derive(Debug, Clone, Copy)]
pub struct Panel {
    /// Left edge.
    pub left: f64,
    /// Upper edge.
    pub top: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
    /// Scale from left to right.
    pub x: Scale,
    /// Scale from bottom to top.
    pub y: Scale,
}

impl Panel {
    /// Where a pair of values lies.
    pub fn at(&self, x: f64, y: f64) -> Point {
        (self.left + self.x.share(x) * self.width, self.top + (1.0 - self.y.share(y)) * self.height)
    }

    /// Right edge.
    pub fn right(&self) -> f64 {
        self.left + self.width
    }

    /// Lower edge.
    pub fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Grid, ticks and frame, with names of the axes; ticks of x may be given.
    pub fn draw(&self, canvas: &mut Canvas, x_name: &str, y_name: &str, x_ticks: Option<Vec<(f64, String)>>) {
        let x_ticks = x_ticks.unwrap_or_else(|| self.x.ticks((self.width / 70.0) as usize));
        let y_ticks = self.y.ticks((self.height / 45.0) as usize);
        for (value, label) in &x_ticks {
            let (x, _) = self.at(*value, self.y.low);
            canvas.line(&[(x, self.top), (x, self.bottom())], LIGHT, 1.0, &[]);
            canvas.text((x, self.bottom() + LABEL + 5.0), label, LABEL, Anchor::Middle, GREY);
        }
        for (value, label) in &y_ticks {
            let (_, y) = self.at(self.x.low, *value);
            canvas.line(&[(self.left, y), (self.right(), y)], LIGHT, 1.0, &[]);
            canvas.text((self.left - 6.0, y + LABEL * 0.36), label, LABEL, Anchor::End, GREY);
        }
        self.frame(canvas);
        canvas.text(
            (self.left + self.width / 2.0, self.bottom() + 2.0 * LABEL + 14.0),
            x_name,
            LABEL,
            Anchor::Middle,
            BLACK,
        );
        canvas.text((self.left, self.top - 10.0), y_name, LABEL, Anchor::Start, BLACK);
    }

    /// The left and lower edges.
    pub fn frame(&self, canvas: &mut Canvas) {
        let corners = [(self.left, self.top), (self.left, self.bottom()), (self.right(), self.bottom())];
        canvas.line(&corners, GREY, 1.0, &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, wanted: usize) -> Vec<String> {
        scale.ticks(wanted).into_iter().map(|t| t.1).collect()
    }

    #[test]
    fn linear_ticks_are_round() {
        assert_eq!(labels(Scale { low: 0.0, high: 13.2, log: false }, 5), ["0", "5", "10"]);
        assert_eq!(labels(Scale { low: 26.9, high: 28.6, log: false }, 4), ["27.0", "27.5", "28.0", "28.5"]);
        assert_eq!(labels(Scale { low: 0.0, high: 1.6e6, log: false }, 4), ["0", "500k", "1.0M", "1.5M"]);
        assert_eq!(labels(Scale { low: 88.7, high: 89.5, log: false }, 1), ["89"]);
    }

    #[test]
    fn a_scale_with_zero_starts_there_unless_a_value_is_below() {
        let ends = |values: &[f64]| {
            let scale = Scale::linear(values.iter().copied(), true, 0.5);
            (scale.low, scale.high)
        };
        assert_eq!(ends(&[0.2]), (0.0, 0.30000000000000004));
        assert_eq!(ends(&[4.0, -2.0]), (-3.0, 6.0));
        assert_eq!(ends(&[-2.0]), (-3.0, 0.0));
        assert_eq!(ends(&[0.0]), (0.0, 1.0));
    }

    #[test]
    fn log_ticks_are_round() {
        assert_eq!(labels(Scale { low: 0.9, high: 120.0, log: true }, 3), ["1", "10", "100"]);
        assert_eq!(labels(Scale { low: 20.0, high: 90.0, log: true }, 4), ["20", "30", "50", "70"]);
        assert_eq!(labels(Scale { low: 1e-6, high: 1.0, log: true }, 5), ["10⁻⁶", "10⁻⁴", "0.01", "1"]);
    }

    #[test]
    fn values_lie_between_the_edges() {
        let panel = Panel {
            left: 10.0,
            top: 20.0,
            width: 100.0,
            height: 50.0,
            x: Scale { low: 1.0, high: 100.0, log: true },
            y: Scale { low: 0.0, high: 2.0, log: false },
        };
        assert_eq!(panel.at(10.0, 0.5), (60.0, 57.5));
    }
}
