//! One look for each mix in every figure: a colour of Okabe and Ito's palette, a marker, a dash.

use super::canvas::{Colour, Dash, Marker};
use crate::report::results::row_key;

/// Letters of titles, pixels.
pub const TITLE: f64 = 15.0;
/// Letters of labels and axes, pixels.
pub const LABEL: f64 = 12.0;

const INK: Colour = (0, 0, 0);
const ORANGE: Colour = (230, 159, 0);
const SKY: Colour = (86, 180, 233);
const GREEN: Colour = (0, 158, 115);
const BLUE: Colour = (0, 114, 178);
const VERMILLION: Colour = (213, 94, 0);
const PURPLE: Colour = (204, 121, 167);
const ASH: Colour = (119, 119, 119);

/// Forms of PyTorch, in the order in which `ratios` names them.
pub const FORMS: [Colour; 5] = [ASH, BLUE, ORANGE, GREEN, BLUE];

/// The low end of a scale around a middle.
pub const LOW: Colour = BLUE;
/// The high end of a scale around a middle.
pub const HIGH: Colour = VERMILLION;

const PLAIN: Dash = &[];
const LONG: Dash = &[8.0, 4.0];
const SHORT: Dash = &[3.0, 3.0];
const MIXED: Dash = &[9.0, 3.0, 2.0, 3.0];

/// How a row looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Style {
    /// Colour of its line and marker.
    pub colour: Colour,
    /// Marker.
    pub marker: Marker,
    /// Dash of its line.
    pub dash: Dash,
    /// Whether the marker is hollow.
    pub hollow: bool,
}

const fn style(colour: Colour, marker: Marker, dash: Dash, hollow: bool) -> Style {
    Style { colour, marker, dash, hollow }
}

const KNOWN: [(&str, &str, Style); 16] = [
    ("V", "", style(INK, Marker::Circle, PLAIN, false)),
    ("V", "control", style(INK, Marker::Circle, LONG, true)),
    ("Rfix", "", style(ASH, Marker::Plus, SHORT, false)),
    ("R", "", style(VERMILLION, Marker::Square, PLAIN, false)),
    ("FR", "", style(ORANGE, Marker::TriangleDown, LONG, false)),
    ("D", "", style(BLUE, Marker::Triangle, PLAIN, false)),
    ("FD", "", style(SKY, Marker::Diamond, LONG, false)),
    ("D+R", "", style(PURPLE, Marker::Diamond, MIXED, true)),
    ("D+V", "", style(GREEN, Marker::Triangle, MIXED, true)),
    ("R+V", "", style(GREEN, Marker::Square, PLAIN, true)),
    ("FR+V", "", style(PURPLE, Marker::Circle, PLAIN, false)),
    ("Lin", "", style(SKY, Marker::Square, SHORT, true)),
    ("LC", "", style(ORANGE, Marker::Square, PLAIN, false)),
    ("DC", "", style(ORANGE, Marker::Diamond, SHORT, true)),
    ("FFT", "", style(ASH, Marker::Triangle, PLAIN, true)),
    ("Mixer", "", style(ASH, Marker::Square, MIXED, false)),
];

const OTHERS: [Style; 6] = [
    style(ORANGE, Marker::Circle, MIXED, true),
    style(BLUE, Marker::Plus, SHORT, false),
    style(VERMILLION, Marker::TriangleDown, MIXED, true),
    style(ASH, Marker::Diamond, LONG, true),
    style(PURPLE, Marker::Plus, SHORT, false),
    style(BLUE, Marker::TriangleDown, LONG, true),
];

/// The styles of some rows; mixes that the paper has not take what is left, in their order.
pub fn styles(rows: &[(String, String)]) -> Vec<Style> {
    let mut others = 0;
    rows.iter()
        .map(|(mix, variant)| {
            let key = row_key(mix, variant);
            let known = KNOWN.iter().find(|k| k.0 == key.0 && k.1 == key.1);
            known.map(|k| k.2).unwrap_or_else(|| {
                others += 1;
                OTHERS[(others - 1) % OTHERS.len()]
            })
        })
        .collect()
}

/// A colour between two; 0 is the first.
pub fn blend(a: Colour, b: Colour, t: f64) -> Colour {
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * t.clamp(0.0, 1.0)).round() as u8;
    (mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}

/// Relative luminance, 0 to 1 (sRGB, as in WCAG).
pub fn luminance(colour: Colour) -> f64 {
    let linear = |c: u8| {
        let c = f64::from(c) / 255.0;
        if c <= 0.04045 {
            c / 12.92
        } else {
            ((c + 0.055) / 1.055).powf(2.4)
        }
    };
    0.2126 * linear(colour.0) + 0.7152 * linear(colour.1) + 0.0722 * linear(colour.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_rows_look_alike() {
        let all: Vec<Style> = KNOWN.iter().map(|k| k.2).chain(OTHERS).collect();
        for (i, a) in all.iter().enumerate() {
            for b in &all[i + 1..] {
                assert!((a.colour, a.dash) != (b.colour, b.dash), "lines of {a:?} and {b:?}");
                assert!((a.colour, a.marker, a.hollow) != (b.colour, b.marker, b.hollow), "markers of {a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn a_mix_keeps_its_look_whatever_stands_beside_it() {
        let rows = |mixes: &[&str]| mixes.iter().map(|m| (m.to_string(), String::new())).collect::<Vec<_>>();
        assert_eq!(styles(&rows(&["V(rank=4)", "V+R"]))[1], styles(&rows(&["R+V"]))[0]);
    }

    #[test]
    fn luminance_of_black_and_white() {
        assert_eq!((luminance((0, 0, 0)), luminance((255, 255, 255))), (0.0, 1.0));
    }
}
