//! A scene as PDF 1.4: one page, vector shapes, the built-in Helvetica.
//!
//! ```text
//!   1 catalog   2 pages   3 page   4 content   5 Helvetica   6 Helvetica-Bold
//! ```
//!
//! PDF has its origin at the bottom and counts in points, 72 to the inch; the content begins with a
//! transformation, so that coordinates are those of the scene. Text is WinAnsi; a letter that it
//! lacks becomes a question mark.

use super::font;
use super::scene::{Anchor, Item, OUTLINE_PX, Scene, Words};
use super::svg::number;
use crate::figures::palette::rgb;

const POINTS_PER_PX: f64 = 0.75;
/// Control points of a quarter of a circle, in radii.
const CIRCLE: f64 = 0.552_284_75;

/// The whole file.
pub(super) fn render(scene: &Scene) -> Vec<u8> {
    let (width, height) = (scene.width * POINTS_PER_PX, scene.height * POINTS_PER_PX);
    let mut content: Vec<u8> = Vec::new();
    let flip = format!("{POINTS_PER_PX} 0 0 -{POINTS_PER_PX} 0 {} cm 1 j\n", number(height));
    content.extend(flip.bytes());
    for item in &scene.items {
        draw(&mut content, item);
    }
    let font = |name: &str| {
        format!("<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>")
    };
    let mut stream = format!("<< /Length {} >>\nstream\n", content.len()).into_bytes();
    stream.extend(&content);
    stream.extend(b"\nendstream");
    let objects: [Vec<u8>; 6] = [
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
        format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {} {}] /Contents 4 0 R \
             /Resources << /Font << /F1 5 0 R /F2 6 0 R >> >> >>",
            number(width),
            number(height)
        )
        .into_bytes(),
        stream,
        font("Helvetica").into_bytes(),
        font("Helvetica-Bold").into_bytes(),
    ];
    let mut out: Vec<u8> = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n".to_vec();
    let mut places = Vec::new();
    for (object, index) in objects.iter().zip(1..) {
        places.push(out.len());
        out.extend(format!("{index} 0 obj\n").bytes());
        out.extend(object);
        out.extend(b"\nendobj\n");
    }
    let table = out.len();
    out.extend(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).bytes());
    for place in places {
        out.extend(format!("{place:010} 00000 n \n").bytes());
    }
    let size = objects.len() + 1;
    let trailer = format!("trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n");
    out.extend(trailer.bytes());
    out
}

fn draw(out: &mut Vec<u8>, item: &Item) {
    let text = match item {
        Item::Rect { x, y, width, height, fill } => {
            let place = [x, y, width, height].map(|value| number(*value)).join(" ");
            format!("{} rg {place} re f\n", color(fill))
        }
        Item::Line { points, color: stroke, width, dash } => {
            let dashes: Vec<String> = dash.iter().map(|length| number(*length)).collect();
            format!(
                "{} RG {} w [{}] 0 d {}S\n",
                color(stroke),
                number(*width),
                dashes.join(" "),
                path(points)
            )
        }
        Item::Polygon { points, color, hollow } => painted(&path(points), color, *hollow),
        Item::Disc { x, y, radius, color, hollow } => {
            painted(&circle(*x, *y, *radius), color, *hollow)
        }
        Item::Words(words) => {
            out.extend(letters(words));
            return;
        }
    };
    out.extend(text.bytes());
}

fn painted(path: &str, fill: &str, hollow: bool) -> String {
    if hollow {
        let width = number(OUTLINE_PX);
        format!("1 1 1 rg {} RG {width} w [] 0 d {path}h B\n", color(fill))
    } else {
        format!("{} rg {path}h f\n", color(fill))
    }
}

fn path(points: &[(f64, f64)]) -> String {
    let mut text = String::new();
    for (index, (x, y)) in points.iter().enumerate() {
        let verb = if index == 0 { "m" } else { "l" };
        text.push_str(&format!("{} {} {verb} ", number(*x), number(*y)));
    }
    text
}

fn circle(x: f64, y: f64, radius: f64) -> String {
    let corners = [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0), (1.0, 0.0)];
    let at =
        |(dx, dy): (f64, f64)| format!("{} {} ", number(x + radius * dx), number(y + radius * dy));
    let mut text = format!("{}m ", at(corners[0]));
    for pair in corners.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let first = (from.0 + CIRCLE * to.0, from.1 + CIRCLE * to.1);
        let second = (to.0 + CIRCLE * from.0, to.1 + CIRCLE * from.1);
        text.push_str(&format!("{}{}{}c ", at(first), at(second), at(to)));
    }
    text
}

/// A text; upright although the page is flipped.
fn letters(words: &Words) -> Vec<u8> {
    let width = font::width(&words.text, words.size, words.bold);
    let back = match words.anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => width / 2.0,
        Anchor::End => width,
    };
    let (matrix, x, y) = if words.turned {
        ("0 -1 -1 0", words.x, words.y + back)
    } else {
        ("1 0 0 -1", words.x - back, words.y)
    };
    let mut out = format!(
        "{} rg BT /F{} {} Tf {matrix} {} {} Tm (",
        color(words.color),
        if words.bold { 2 } else { 1 },
        number(words.size),
        number(x),
        number(y)
    )
    .into_bytes();
    for letter in words.text.chars() {
        // From 0xa0 on WinAnsi is Latin 1.
        match u8::try_from(u32::from(letter)) {
            Ok(byte @ (b'(' | b')' | b'\\')) => out.extend([b'\\', byte]),
            Ok(byte @ (0x20..=0x7e | 0xa0..=0xff)) => out.push(byte),
            _ => out.push(b'?'),
        }
    }
    out.extend(b") Tj ET\n");
    out
}

/// The three parts of a colour, from 0 to 1.
fn color(hex: &str) -> String {
    let parts = rgb(hex).unwrap_or_default();
    parts.map(|part| format!("{:.4}", f64::from(part) / 255.0)).join(" ")
}
