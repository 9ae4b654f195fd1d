//! A drawing as a list of shapes, in pixels at scale 1, before it is SVG or PNG.

use super::render::text_width;

/// Red, green, blue.
pub type Colour = (u8, u8, u8);

/// A point, x to the right and y down.
pub type Point = (f64, f64);

/// Black.
pub const BLACK: Colour = (0, 0, 0);
/// White.
pub const WHITE: Colour = (255, 255, 255);
/// Text that explains.
pub const GREY: Colour = (85, 85, 85);
/// Grid lines.
pub const LIGHT: Colour = (221, 221, 221);

/// Where a text's position lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// At its start.
    Start,
    /// In its middle.
    Middle,
    /// At its end.
    End,
}

/// Words on a drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    /// The position: x of the anchor, y of the baseline.
    pub at: Point,
    /// The words.
    pub text: String,
    /// Height of the letters' em in pixels.
    pub size: f64,
    /// Where the position lies.
    pub anchor: Anchor,
    /// Whether it reads upwards.
    pub upwards: bool,
    /// Colour.
    pub colour: Colour,
}

/// One shape.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A line through points.
    Line {
        /// At least two.
        points: Vec<Point>,
        /// Colour.
        colour: Colour,
        /// Width in pixels.
        width: f64,
    },
    /// A filled polygon.
    Area {
        /// Its corners.
        points: Vec<Point>,
        /// Colour.
        colour: Colour,
    },
    /// Words.
    Text(Text),
}

/// A rectangle that something covers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Left edge.
    pub left: f64,
    /// Upper edge.
    pub top: f64,
    /// Right edge.
    pub right: f64,
    /// Lower edge.
    pub bottom: f64,
}

impl Bounds {
    /// Whether two rectangles share more than an edge.
    pub fn overlaps(&self, other: &Bounds) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }
}

impl Text {
    /// The rectangle that the words cover.
    pub fn bounds(&self) -> Bounds {
        let width = text_width(&self.text, self.size);
        let before = match self.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width / 2.0,
            Anchor::End => width,
        };
        let (x, y) = self.at;
        let (rise, fall) = (self.size * 0.76, self.size * 0.24);
        if self.upwards {
            Bounds { left: x - rise, right: x + fall, top: y - (width - before), bottom: y + before }
        } else {
            Bounds { left: x - before, right: x - before + width, top: y - rise, bottom: y + fall }
        }
    }
}

/// Lengths of a line's strokes and gaps; a plain line when empty.
pub type Dash = &'static [f64];

/// A marker's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marker {
    /// ●
    Circle,
    /// ■
    Square,
    /// ▲
    Triangle,
    /// ▼
    TriangleDown,
    /// ◆
    Diamond,
    /// ✚
    Plus,
}

/// A drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct Canvas {
    /// Width in pixels.
    pub width: f64,
    /// Height in pixels.
    pub height: f64,
    /// What it shows, for readers who can't see it.
    pub title: String,
    /// Shapes, the last on top.
    pub shapes: Vec<Shape>,
}

impl Canvas {
    /// An empty white drawing.
    pub fn new(width: f64, height: f64, title: &str) -> Canvas {
        let (width, height) = (width.ceil(), height.ceil());
        let mut canvas = Canvas { width, height, title: title.to_string(), shapes: Vec::new() };
        canvas.rectangle((0.0, 0.0), (width, height), WHITE);
        canvas
    }

    /// A line through points that are all finite.
    pub fn line(&mut self, points: &[Point], colour: Colour, width: f64, dash: Dash) {
        if points.len() < 2 {
            return;
        }
        if dash.is_empty() {
            self.shapes.push(Shape::Line { points: points.to_vec(), colour, width });
            return;
        }
        for points in dashes(points, dash) {
            self.shapes.push(Shape::Line { points, colour, width });
        }
    }

    /// A filled rectangle from its upper left to its lower right corner.
    pub fn rectangle(&mut self, (x0, y0): Point, (x1, y1): Point, colour: Colour) {
        self.shapes.push(Shape::Area { points: vec![(x0, y0), (x1, y0), (x1, y1), (x0, y1)], colour });
    }

    /// A filled polygon.
    pub fn area(&mut self, points: Vec<Point>, colour: Colour) {
        self.shapes.push(Shape::Area { points, colour });
    }

    /// Words on a baseline.
    pub fn text(&mut self, at: Point, text: &str, size: f64, anchor: Anchor, colour: Colour) {
        self.shapes.push(Shape::Text(Text { at, text: text.to_string(), size, anchor, upwards: false, colour }));
    }

    /// Words that read upwards, centred on a point.
    pub fn text_upwards(&mut self, at: Point, text: &str, size: f64, colour: Colour) {
        let anchor = Anchor::Middle;
        self.shapes.push(Shape::Text(Text { at, text: text.to_string(), size, anchor, upwards: true, colour }));
    }

    /// A marker around a point; hollow ones are white inside.
    pub fn marker(&mut self, (x, y): Point, marker: Marker, radius: f64, colour: Colour, hollow: bool) {
        let r = radius;
        let corners: Vec<Point> = match marker {
            Marker::Circle => (0..24)
                .map(|i| (i as f64 / 24.0 * std::f64::consts::TAU).sin_cos())
                .map(|(s, c)| (r * c, r * s))
                .collect(),
            Marker::Square => {
                vec![(-0.88 * r, -0.88 * r), (0.88 * r, -0.88 * r), (0.88 * r, 0.88 * r), (-0.88 * r, 0.88 * r)]
            }
            Marker::Triangle => vec![(0.0, -1.2 * r), (1.1 * r, 0.8 * r), (-1.1 * r, 0.8 * r)],
            Marker::TriangleDown => vec![(0.0, 1.2 * r), (-1.1 * r, -0.8 * r), (1.1 * r, -0.8 * r)],
            Marker::Diamond => vec![(0.0, -1.3 * r), (1.3 * r, 0.0), (0.0, 1.3 * r), (-1.3 * r, 0.0)],
            Marker::Plus => {
                let (l, w) = (1.25 * r, 0.45 * r);
                vec![
                    (-w, -l),
                    (w, -l),
                    (w, -w),
                    (l, -w),
                    (l, w),
                    (w, w),
                    (w, l),
                    (-w, l),
                    (-w, w),
                    (-l, w),
                    (-l, -w),
                    (-w, -w),
                ]
            }
        };
        let corners: Vec<Point> = corners.into_iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
        if !hollow {
            self.area(corners, colour);
            return;
        }
        self.area(corners.clone(), WHITE);
        // Edge by edge, each a little longer, so that the corners close: a bitmap's thick paths leave them open.
        const WIDTH: f64 = 1.6;
        for at in 0..corners.len() {
            let ((x0, y0), (x1, y1)) = (corners[at], corners[(at + 1) % corners.len()]);
            let length = (x1 - x0).hypot(y1 - y0);
            let (ex, ey) = ((x1 - x0) / length * WIDTH * 0.45, (y1 - y0) / length * WIDTH * 0.45);
            self.line(&[(x0 - ex, y0 - ey), (x1 + ex, y1 + ey)], colour, WIDTH, &[]);
        }
    }

    /// The words on it.
    pub fn texts(&self) -> impl Iterator<Item = &Text> {
        self.shapes.iter().filter_map(|shape| match shape {
            Shape::Text(text) => Some(text),
            _ => None,
        })
    }
}

fn dashes(points: &[Point], dash: &[f64]) -> Vec<Vec<Point>> {
    let mut strokes = Vec::new();
    let mut stroke = vec![points[0]];
    let mut part = 0;
    let mut left = dash[0];
    for pair in points.windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        let length = (x1 - x0).hypot(y1 - y0);
        let mut done = 0.0;
        while length - done > left {
            done += left;
            let at = (x0 + (x1 - x0) * done / length, y0 + (y1 - y0) * done / length);
            if part % 2 == 0 {
                stroke.push(at);
                strokes.push(std::mem::take(&mut stroke));
            } else {
                stroke = vec![at];
            }
            part += 1;
            left = dash[part % dash.len()];
        }
        left -= length - done;
        if part % 2 == 0 {
            stroke.push((x1, y1));
        }
    }
    if stroke.len() > 1 {
        strokes.push(stroke);
    }
    strokes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_cover_strokes_and_leave_gaps() {
        let strokes = dashes(&[(0.0, 0.0), (10.0, 0.0)], &[4.0, 2.0]);
        assert_eq!(strokes, [vec![(0.0, 0.0), (4.0, 0.0)], vec![(6.0, 0.0), (10.0, 0.0)]]);
    }

    #[test]
    fn a_dash_goes_on_around_a_corner() {
        let strokes = dashes(&[(0.0, 0.0), (3.0, 0.0), (3.0, 3.0)], &[4.0, 1.0]);
        assert_eq!(strokes[0], [(0.0, 0.0), (3.0, 0.0), (3.0, 1.0)]);
        assert_eq!(strokes[1], [(3.0, 2.0), (3.0, 3.0)]);
    }
}
