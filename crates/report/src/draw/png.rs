//! A scene as PNG: two dots for each pixel of the scene, 192 to the inch, no transparency.
//!
//! Edges are smoothed by coverage. A picture of more than [`DOTS_MAX`] gets fewer dots for a pixel.

use super::scene::{Item, OUTLINE_PX, Scene, Words};
use super::typeface;
use crate::figures::palette::rgb;
use png::{BitDepth, ColorType, Compression, Encoder, PixelDimensions, Unit};
use tiny_skia::{
    Color, FillRule, LineJoin, Paint, Path, PathBuilder, Pixmap, Rect, Stroke, StrokeDash,
    Transform,
};
use ttf_parser::OutlineBuilder;

/// Dots for a pixel, unless the picture is huge.
const SCALE: f64 = 2.0;
/// Dots of a picture: 256 MiB while it is drawn.
const DOTS_MAX: f64 = 67_108_864.0;
/// Pixels of a scene for a metre, at 96 to the inch.
const PIXELS_PER_METRE: f64 = 96.0 / 0.0254;

/// The whole file.
pub(super) fn render(scene: &Scene) -> Vec<u8> {
    let (width, height) = (scene.width.max(1.0), scene.height.max(1.0));
    let scale = scale(width, height);
    let dots = |pixels: f64| (pixels * scale).round().max(1.0) as u32;
    let mut pixmap = Pixmap::new(dots(width), dots(height)).expect("a bounded size");
    pixmap.fill(color(scene.colors.paper));
    let mut canvas =
        Canvas { pixmap, scale: Transform::from_scale(scale as f32, scale as f32), scene };
    for item in &scene.items {
        canvas.draw(item);
    }
    encoded(&canvas.pixmap, scale, &scene.title)
}

/// Dots for a pixel of a picture.
fn scale(width: f64, height: f64) -> f64 {
    SCALE.min((DOTS_MAX / (width * height)).sqrt())
}

struct Canvas<'a> {
    pixmap: Pixmap,
    scale: Transform,
    scene: &'a Scene,
}

impl Canvas<'_> {
    fn draw(&mut self, item: &Item) {
        match item {
            Item::Rect { x, y, width, height, fill } => {
                let place = Rect::from_xywh(*x as f32, *y as f32, *width as f32, *height as f32);
                if let Some(place) = place {
                    self.pixmap.fill_rect(place, &paint(fill), self.scale, None);
                }
            }
            Item::Line { points, color, width, dash } => {
                let dash = dash.iter().map(|length| *length as f32).collect();
                self.stroke(through(points, false), color, *width, StrokeDash::new(dash, 0.0));
            }
            Item::Polygon { points, color, hollow } => {
                self.shape(through(points, true), color, *hollow);
            }
            Item::Disc { x, y, radius, color, hollow } => {
                let disc = PathBuilder::from_circle(*x as f32, *y as f32, *radius as f32);
                self.shape(disc, color, *hollow);
            }
            Item::Words(words) => self.fill(outlines(words), words.color),
        }
    }

    /// Filled, or an outline around paper.
    fn shape(&mut self, path: Option<Path>, color: &str, hollow: bool) {
        if hollow {
            self.fill(path.clone(), self.scene.colors.paper);
            self.stroke(path, color, OUTLINE_PX, None);
        } else {
            self.fill(path, color);
        }
    }

    fn fill(&mut self, path: Option<Path>, color: &str) {
        if let Some(path) = path {
            self.pixmap.fill_path(&path, &paint(color), FillRule::Winding, self.scale, None);
        }
    }

    fn stroke(&mut self, path: Option<Path>, color: &str, width: f64, dash: Option<StrokeDash>) {
        let Some(path) = path else { return };
        let stroke =
            Stroke { width: width as f32, line_join: LineJoin::Round, dash, ..Stroke::default() };
        self.pixmap.stroke_path(&path, &paint(color), &stroke, self.scale, None);
    }
}

/// Nothing of less than two points: such a line is not seen.
fn through(points: &[(f64, f64)], closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (index, (x, y)) in points.iter().enumerate() {
        match index {
            0 => path.move_to(*x as f32, *y as f32),
            _ => path.line_to(*x as f32, *y as f32),
        }
    }
    if closed {
        path.close();
    }
    path.finish()
}

/// The outlines of a text, where it stands.
fn outlines(words: &Words) -> Option<Path> {
    let face = typeface::face(words.bold);
    let mut pen = Pen {
        path: PathBuilder::new(),
        words,
        em: words.size / f64::from(face.units_per_em()),
        along: -words.extent().1,
    };
    for letter in words.text.chars() {
        let glyph = typeface::glyph(letter, words.bold);
        // A blank has no outline.
        let _ = face.outline_glyph(glyph, &mut pen);
        pen.along += typeface::advance(glyph, words.bold) * words.size;
    }
    pen.path.finish()
}

/// Puts the points of a letter, which count upwards from the base line, into the picture.
struct Pen<'a> {
    path: PathBuilder,
    words: &'a Words,
    /// Pixels of a unit of the font.
    em: f64,
    /// Where the letter begins on its line.
    along: f64,
}

impl Pen<'_> {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        let (along, up) = (self.along + f64::from(x) * self.em, f64::from(y) * self.em);
        let words = self.words;
        let (x, y) = if words.turned {
            (words.x - up, words.y - along)
        } else {
            (words.x + along, words.y - up)
        };
        (x as f32, y as f32)
    }
}

impl OutlineBuilder for Pen<'_> {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

fn color(hex: &str) -> Color {
    let [red, green, blue] = rgb(hex).unwrap_or_default();
    Color::from_rgba8(red, green, blue, 255)
}

fn paint(hex: &str) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color(color(hex));
    paint
}

fn encoded(pixmap: &Pixmap, scale: f64, title: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, pixmap.width(), pixmap.height());
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::Fast);
    let density = (PIXELS_PER_METRE * scale).round() as u32;
    let dims = PixelDimensions { xppu: density, yppu: density, unit: Unit::Meter };
    encoder.set_pixel_dims(Some(dims));
    // Everything was drawn on paper without transparency, so colours are as they are.
    let mut dots = Vec::with_capacity(pixmap.data().len() / 4 * 3);
    for dot in pixmap.data().chunks_exact(4) {
        dots.extend_from_slice(&dot[..3]);
    }
    let written = encoder
        .add_itxt_chunk("Title".to_owned(), title.replace('\0', " "))
        .and_then(|()| encoder.write_header())
        .and_then(|mut writer| {
            writer.write_image_data(&dots)?;
            writer.finish()
        });
    written.expect("writing to memory does not fail");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_picture_gets_fewer_dots() {
        assert_eq!(scale(820.0, 600.0), SCALE);
        let least = scale(40_000.0, 2_000.0);
        assert!(least < 1.0 && 40_000.0 * least * (2_000.0 * least) <= DOTS_MAX * 1.001);
    }
}
