//! From a [`Canvas`] to SVG and PNG, by the same calls on a plotters backend.

use super::canvas::{Anchor, Canvas, Colour, Shape, Text};
use crate::files::Temporary;
use crate::report::error::{ReportError, Result};
use ab_glyph::{point, Font, FontRef, GlyphId, ScaleFont};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;
use std::sync::OnceLock;

/// Shapes have whole coordinates in plotters: drawn ten times larger, they are exact to a tenth of a pixel.
const SVG_SCALE: f64 = 10.0;
/// PNGs are drawn four times larger, and each 2 by 2 pixels averaged, which smooths all edges.
const PNG_SCALE: f64 = 4.0;
const PNG_AVERAGE: usize = 2;

type Drawn = std::result::Result<(), String>;

/// The font of PNGs and of all measures: no font has to be installed.
fn font() -> &'static FontRef<'static> {
    static FONT: OnceLock<FontRef<'static>> = OnceLock::new();
    FONT.get_or_init(|| {
        // The bytes are part of the program, and every test that draws reads them: they are a font.
        FontRef::try_from_slice(include_bytes!("../fonts/DejaVuSans.ttf")).expect("the embedded font")
    })
}

/// Where the glyphs of a line begin, in ems, and where the line ends.
fn glyphs(text: &str) -> (Vec<(GlyphId, f64)>, f64) {
    let font = font();
    let em = f64::from(font.units_per_em().unwrap_or(1.0));
    let unscaled = font.as_scaled(font.height_unscaled());
    let mut places = Vec::new();
    let mut x = 0.0;
    let mut before = None;
    for letter in text.chars() {
        let glyph = font.glyph_id(letter);
        if let Some(before) = before {
            x += f64::from(unscaled.kern(before, glyph)) / em;
        }
        places.push((glyph, x));
        x += f64::from(unscaled.h_advance(glyph)) / em;
        before = Some(glyph);
    }
    (places, x)
}

/// Width of words in pixels.
pub fn text_width(text: &str, size: f64) -> f64 {
    glyphs(text).1 * size
}

/// Draws all shapes; words by `write`, since plotters places letters of a bitmap without their side bearings.
fn play<B: DrawingBackend>(
    backend: &mut B,
    canvas: &Canvas,
    scale: f64,
    write: impl Fn(&mut B, &Text) -> Drawn,
) -> Drawn {
    for shape in &canvas.shapes {
        let drawn = match shape {
            Shape::Line { points, colour, width } => {
                let style = ShapeStyle::from(&rgb(*colour)).stroke_width((width * scale).round() as u32);
                backend.draw_path(points.iter().map(|p| scaled(*p, scale)), &style)
            }
            Shape::Area { points, colour } => {
                let style = ShapeStyle::from(&rgb(*colour)).filled();
                backend.fill_polygon(points.iter().map(|p| scaled(*p, scale)), &style)
            }
            Shape::Text(text) => {
                write(backend, text)?;
                continue;
            }
        };
        drawn.map_err(|e| e.to_string())?;
    }
    backend.present().map_err(|e| e.to_string())
}

fn rgb(colour: Colour) -> RGBColor {
    RGBColor(colour.0, colour.1, colour.2)
}

fn scaled((x, y): (f64, f64), scale: f64) -> (i32, i32) {
    ((x * scale).round() as i32, (y * scale).round() as i32)
}

/// Words in the reader's own sans-serif font.
fn write_svg<B: DrawingBackend>(backend: &mut B, text: &Text) -> Drawn {
    // plotters' SVG divides a size by 1.24, and puts the baseline 0.76 em below the top.
    let down = text.size * 0.76;
    let (x, y) = text.at;
    let (place, turn) =
        if text.upwards { ((x - down, y), FontTransform::Rotate270) } else { ((x, y - down), FontTransform::None) };
    let horizontal = match text.anchor {
        Anchor::Start => HPos::Left,
        Anchor::Middle => HPos::Center,
        Anchor::End => HPos::Right,
    };
    let colour = rgb(text.colour);
    let style = TextStyle::from(("sans-serif", text.size * 1.24 * SVG_SCALE).into_font())
        .color(&colour)
        .transform(turn)
        .pos(Pos::new(horizontal, VPos::Top));
    backend.draw_text(&text.text, &style, scaled(place, SVG_SCALE)).map_err(|e| e.to_string())
}

/// Words in the embedded font, pixel by pixel.
fn write_png<B: DrawingBackend>(backend: &mut B, text: &Text) -> Drawn {
    let font = font();
    let em = text.size * PNG_SCALE;
    let height = em * f64::from(font.height_unscaled() / font.units_per_em().unwrap_or(1.0));
    let (places, width) = glyphs(&text.text);
    let before = match text.anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => width / 2.0,
        Anchor::End => width,
    };
    let (x0, y0) = scaled(text.at, PNG_SCALE);
    for (glyph, x) in places {
        let glyph = glyph.with_scale_and_position(height as f32, point(((x - before) * em) as f32, 0.0));
        let Some(outline) = font.outline_glyph(glyph) else { continue };
        let corner = outline.px_bounds().min;
        let mut pixels = Vec::new();
        outline.draw(|dx, dy, cover| pixels.push((dx as i32 + corner.x as i32, dy as i32 + corner.y as i32, cover)));
        for (dx, dy, cover) in pixels {
            let (dx, dy) = if text.upwards { (dy, -dx) } else { (dx, dy) };
            let colour = rgb(text.colour).mix(f64::from(cover.clamp(0.0, 1.0)));
            backend.draw_pixel((x0 + dx, y0 + dy), colour.to_backend_color()).map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}

/// The drawing as SVG.
pub fn svg(canvas: &Canvas) -> std::result::Result<String, String> {
    let size = ((canvas.width * SVG_SCALE) as u32, (canvas.height * SVG_SCALE) as u32);
    let mut text = String::new();
    play(&mut SVGBackend::with_string(&mut text, size), canvas, SVG_SCALE, write_svg)?;
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
    let (width, height) = ((canvas.width * PNG_SCALE) as usize, (canvas.height * PNG_SCALE) as usize);
    let mut large = vec![255u8; width * height * 3];
    play(&mut BitMapBackend::with_buffer(&mut large, (width as u32, height as u32)), canvas, PNG_SCALE, write_png)?;
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
    // plotters chooses the format by the ending, so the unfinished file lies in a temporary folder.
    let folder = Temporary::folder(path).map_err(|e| format!("{e:#}"))?;
    let unfinished = folder.path().join("figure.png");
    let mut file = BitMapBackend::new(&unfinished, size);
    file.blit_bitmap((0, 0), size, &small).map_err(|e| e.to_string())?;
    file.present().map_err(|e| e.to_string())?;
    std::fs::rename(&unfinished, path).map_err(|e| e.to_string())
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
