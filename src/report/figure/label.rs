//! Labels that keep clear of each other and of the data.

use super::canvas::{Anchor, Bounds, Canvas, Colour, Point, Text, BLACK, GREY};
use super::style::{Style, LABEL};

/// Positions nearest to `wanted`, in its order, at least `gap` apart and between `low` and `high` as far as there is room.
pub fn spread(wanted: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]).then(a.cmp(b)));
    // Groups that touch share the shift that is best for all of them: (start, members).
    let mut groups: Vec<(f64, Vec<usize>)> = Vec::new();
    for at in order {
        groups.push((wanted[at].clamp(low, high.max(low)), vec![at]));
        while groups.len() > 1 {
            let (start, members) = &groups[groups.len() - 1];
            let (before, others) = &groups[groups.len() - 2];
            if before + gap * others.len() as f64 <= *start + 1e-9 {
                break;
            }
            let joined: Vec<usize> = others.iter().chain(members).copied().collect();
            let mean =
                joined.iter().enumerate().map(|(i, m)| wanted[*m] - gap * i as f64).sum::<f64>() / joined.len() as f64;
            let longest = (high - gap * (joined.len() - 1) as f64).max(low);
            groups.truncate(groups.len() - 2);
            groups.push((mean.clamp(low, longest), joined));
        }
    }
    let mut positions = vec![0.0; wanted.len()];
    for (start, members) in groups {
        for (i, member) in members.iter().enumerate() {
            positions[*member] = (start + gap * i as f64).clamp(low.min(high), f64::INFINITY);
        }
    }
    positions
}

/// Labels to the right of `x` for lines that end at `ends`, each with its line's look and a leader to its end.
pub fn at_line_ends(canvas: &mut Canvas, x: f64, (low, high): (f64, f64), ends: &[(Point, String, Style)]) {
    let wanted: Vec<f64> = ends.iter().map(|e| e.0 .1).collect();
    let places = spread(&wanted, LABEL + 5.0, low, high);
    for ((end, text, style), y) in ends.iter().zip(places) {
        canvas.line(&[(end.0 + 6.0, end.1), (x + 16.0, y), (x + 22.0, y)], GREY, 0.7, &[1.5, 2.5]);
        canvas.line(&[(x + 22.0, y), (x + 50.0, y)], style.colour, 2.0, style.dash);
        canvas.marker((x + 36.0, y), style.marker, 4.0, style.colour, style.hollow);
        canvas.text((x + 56.0, y + LABEL * 0.36), text, LABEL, Anchor::Start, BLACK);
    }
}

/// Width that [`at_line_ends`] needs beside a panel.
pub fn line_end_width(labels: impl IntoIterator<Item = impl AsRef<str>>) -> f64 {
    62.0 + labels.into_iter().map(|l| super::render::text_width(l.as_ref(), LABEL)).fold(0.0, f64::max)
}

/// Labels beside points, moved away from other points, other labels and the edges of `inside`, with a leader when far.
pub fn beside_points(canvas: &mut Canvas, inside: Bounds, points: &[(Point, String)], colour: Colour) {
    const RADIUS: f64 = 7.0;
    let around = |(x, y): Point| Bounds { left: x - RADIUS, right: x + RADIUS, top: y - RADIUS, bottom: y + RADIUS };
    let mut taken: Vec<Bounds> = points.iter().map(|p| around(p.0)).collect();
    for ((x, y), label) in points {
        let mut best: Option<(f64, Text)> = None;
        for distance in [11.0, 18.0, 27.0, 38.0, 52.0, 70.0, 92.0, 120.0] {
            for direction in [0, 8, 14, 2, 12, 4, 10, 6, 1, 15, 3, 13, 5, 11, 7, 9] {
                let (sin, cos) = (direction as f64 / 16.0 * std::f64::consts::TAU).sin_cos();
                let anchor = match cos {
                    c if c > 0.3 => Anchor::Start,
                    c if c < -0.3 => Anchor::End,
                    _ => Anchor::Middle,
                };
                let at = (x + distance * cos, y + distance * sin + LABEL * 0.36);
                let text = Text { at, text: label.clone(), size: LABEL, anchor, upwards: false, colour };
                let b = text.bounds();
                let fits = b.left >= inside.left
                    && b.right <= inside.right
                    && b.top >= inside.top
                    && b.bottom <= inside.bottom;
                let roomy =
                    Bounds { left: b.left - 3.0, right: b.right + 3.0, top: b.top - 1.0, bottom: b.bottom + 1.0 };
                if fits && !taken.iter().any(|t| t.overlaps(&roomy)) && best.is_none() {
                    best = Some((distance, text));
                }
            }
            if best.is_some() {
                break;
            }
        }
        let Some((distance, text)) = best else {
            // No free place within reach: the label goes where it started, on top of whatever is there.
            canvas.text((x + 11.0, y + LABEL * 0.36), label, LABEL, Anchor::Start, colour);
            continue;
        };
        let b = text.bounds();
        if distance > 18.0 {
            let end = (x.clamp(b.left, b.right), y.clamp(b.top, b.bottom));
            canvas.line(&[(*x, *y), end], GREY, 0.8, &[]);
        }
        taken.push(b);
        canvas.text(text.at, &text.text, LABEL, text.anchor, colour);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_labels_stay_and_near_ones_part() {
        assert_eq!(spread(&[10.0, 50.0], 10.0, 0.0, 100.0), [10.0, 50.0]);
        assert_eq!(spread(&[50.0, 50.0], 10.0, 0.0, 100.0), [45.0, 55.0]);
        // 20 and 22 part to 16 and 26; 28 is then too near, and the three settle around their mean.
        let three = spread(&[22.0, 20.0, 28.0], 10.0, 0.0, 100.0);
        assert!(
            (three[1] - 13.333).abs() < 1e-2 && (three[0] - 23.333).abs() < 1e-2 && (three[2] - 33.333).abs() < 1e-2
        );
    }

    #[test]
    fn labels_stay_inside() {
        assert_eq!(spread(&[99.0, 99.0, 99.0], 10.0, 0.0, 100.0), [80.0, 90.0, 100.0]);
        assert_eq!(spread(&[1.0, 0.0], 10.0, 0.0, 100.0), [10.0, 0.0]);
    }
}
