//! From a [`Canvas`] to SVG and PNG, by the same calls on a plotters backend.

use super::canvas::{Anchor, Canvas, Shape};
use crate::report::error::{ReportError, Result};
use plotters::prelude::*;
use plotters::style::register_font;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;
use std::sync::OnceLock;

/// Family that texts name: the reader's own font in SVG, the embedded one in PNG.
const FAMILY: &str = "sans-serif";
/// Shapes have whole coordinates in plotters: drawn ten times larger, they are exact to a tenth of a pixel.
const SVG_SCALE: f64 = 10.0;
/// PNGs are drawn four times larger, and each 2 by 2 pixels averaged, which smooths all edges.
const PNG_SCALE: f64 = 4.0;
const PNG_AVERAGE: usize = 2;

/// What differs between the backends: plotters' font size of a 1 pixel em, and the baseline below a text's top, in ems.
#[derive(Debug, Clone, Copy)]
struct FontMeasure {
    size: f64,
    baseline: f64,
}

/// plotters' SVG divides a size by 1.24 and puts the baseline 0.76 em below the top.
const SVG_FONT: FontMeasure = FontMeasure { size: 1.24, baseline: 0.76 };
/// The embedded font's lines are 1.164 em high, and plotters puts the baseline half a line below the top.
const PNG_FONT: FontMeasure = FontMeasure { size: 1.164, baseline: 0.582 };

fn load_font() {
    static LOADED: OnceLock<()> = OnceLock::new();
    LOADED.get_or_init(|| {
        let bytes = include_bytes!("../fonts/DejaVuSans.ttf");
        // The bytes are part of the program, and every test draws with them: they are a font.
        let registered = register_font(FAMILY, FontStyle::Normal, bytes);
        debug_assert!(registered.is_ok());
    });
}

/// Width of words in pixels, in the embedded font.
pub fn text_width(text: &str, size: f64) -> f64 {
    load_font();
    // Measured large, since plotters rounds to whole pixels.
    let font = (FAMILY, size * PNG_FONT.size * 16.0).into_font();
    font.box_size(text).map_or(text.chars().count() as f64 * size * 0.6, |(width, _)| f64::from(width) / 16.0)
}

fn play<B: DrawingBackend>(
    backend: &mut B,
    canvas: &Canvas,
    scale: f64,
    font: FontMeasure,
) -> std::result::Result<(), String> {
    let at = |(x, y): (f64, f64)| ((x * scale).round() as i32, (y * scale).round() as i32);
    for shape in &canvas.shapes {
        let drawn = match shape {
            Shape::Line { points, colour, width } => {
                let style = ShapeStyle::from(&RGBColor(colour.0, colour.1, colour.2))
                    .stroke_width((width * scale).round() as u32);
                backend.draw_path(points.iter().map(|p| at(*p)), &style)
            }
            Shape::Area { points, colour } => {
                let style = ShapeStyle::from(&RGBColor(colour.0, colour.1, colour.2)).filled();
                backend.fill_polygon(points.iter().map(|p| at(*p)), &style)
            }
            Shape::Text(text) => {
                let colour = RGBColor(text.colour.0, text.colour.1, text.colour.2);
                let down = text.size * font.baseline;
                let (x, y) = text.at;
                let (place, turn) = if text.upwards {
                    ((x - down, y), FontTransform::Rotate270)
                } else {
                    ((x, y - down), FontTransform::None)
                };
                let horizontal = match text.anchor {
                    Anchor::Start => HPos::Left,
                    Anchor::Middle => HPos::Center,
                    Anchor::End => HPos::Right,
                };
                let style = TextStyle::from((FAMILY, text.size * font.size * scale).into_font())
                    .color(&colour)
                    .transform(turn)
                    .pos(Pos::new(horizontal, VPos::Top));
                backend.draw_text(&text.text, &style, at(place))
            }
        };
        drawn.map_err(|e| e.to_string())?;
    }
    backend.present().map_err(|e| e.to_string())
}

/// The drawing as SVG.
pub fn svg(canvas: &Canvas) -> std::result::Result<String, String> {
    load_font();
    let size = ((canvas.width * SVG_SCALE) as u32, (canvas.height * SVG_SCALE) as u32);
    let mut text = String::new();
    play(&mut SVGBackend::with_string(&mut text, size), canvas, SVG_SCALE, SVG_FONT)?;
    let start = text.find("<svg").ok_or("no <svg> tag")?;
    let end = start + text[start..].find('>').ok_or("no end of the <svg> tag")? + 1;
    let title = crate::report::export::html::escape(&canvas.title);
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\" role=\"img\">\n<title>{title}</title>{}",
        canvas.width,
        canvas.height,
        size.0,
        size.1,
        &text[end..]
    ))
}

/// Writes the drawing as PNG, two pixels a unit.
pub fn png(canvas: &Canvas, path: &Path) -> std::result::Result<(), String> {
    load_font();
    let (width, height) = ((canvas.width * PNG_SCALE) as usize, (canvas.height * PNG_SCALE) as usize);
    let mut large = vec![255u8; width * height * 3];
    play(&mut BitMapBackend::with_buffer(&mut large, (width as u32, height as u32)), canvas, PNG_SCALE, PNG_FONT)?;
    let (w, h) = (width / PNG_AVERAGE, height / PNG_AVERAGE);
    let mut small = Vec::with_capacity(w * h * 3);
    for y in 0..h {
        for x in 0..w {
            for channel in 0..3 {
                let mut sum = 0usize;
                for dy in 0..PNG_AVERAGE {
                    for dx in 0..PNG_AVERAGE {
                        sum +=
                            usize::from(large[((y * PNG_AVERAGE + dy) * width + x * PNG_AVERAGE + dx) * 3 + channel]);
                    }
                }
                small.push((sum / (PNG_AVERAGE * PNG_AVERAGE)) as u8);
            }
        }
    }
    let size = (w as u32, h as u32);
    let mut file = BitMapBackend::new(path, size);
    file.blit_bitmap((0, 0), size, &small).map_err(|e| e.to_string())?;
    file.present().map_err(|e| e.to_string())
}

/// Writes `<stem>.svg` and `<stem>.png` into a folder that exists; returns both paths.
pub fn write(canvas: &Canvas, folder: &Path, stem: &str) -> Result<[std::path::PathBuf; 2]> {
    let paths = [folder.join(format!("{stem}.svg")), folder.join(format!("{stem}.png"))];
    let fault = |path: &Path, message: String| ReportError::Draw { path: path.into(), message };
    let text = svg(canvas).map_err(|m| fault(&paths[0], m))?;
    crate::report::write(&paths[0], text.as_bytes())?;
    png(canvas, &paths[1]).map_err(|m| fault(&paths[1], m))?;
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::super::canvas::{Canvas, BLACK};
    use super::*;

    #[test]
    fn widths_grow_with_size_and_letters() {
        // DejaVu Sans: the advance of "m" is 1995 of 2048 units, that of "i" 569.
        assert!((text_width("m", 20.0) - 20.0 * 1995.0 / 2048.0).abs() < 0.1);
        assert!((text_width("i", 20.0) - 20.0 * 569.0 / 2048.0).abs() < 0.1);
    }

    #[test]
    fn svg_escapes_words_and_keeps_the_size() {
        let mut canvas = Canvas::new(200.0, 100.0, "a < b");
        canvas.text((10.0, 20.0), "R & \"V\" < α", 12.0, Anchor::Start, BLACK);
        let text = svg(&canvas).unwrap();
        assert!(text.starts_with(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"200\" height=\"100\" viewBox=\"0 0 2000 1000\""
        ));
        assert!(text.contains("<title>a &lt; b</title>"));
        assert!(text.contains("R &amp; &quot;V&quot; &lt; α"), "{text}");
    }
}
