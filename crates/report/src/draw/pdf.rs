//! A scene as PDF 1.4: one page, vector shapes, letters of the font that is in the file.
//!
//! ```text
//!   1 catalog   2 pages   3 page   4 content   5 title   6.. the letters   11.. the bold ones
//! ```
//!
//! PDF has its origin at the bottom and counts in points, 72 to the inch; the content begins with a
//! transformation, so that coordinates are those of the scene. A reader needs no font of its own.

mod fonts;

use super::scene::{Item, OUTLINE_PX, Scene, Words};
use super::svg::number;
use crate::figures::palette::rgb;
use fonts::Used;

const POINTS_PER_PX: f64 = 0.75;
/// Control points of a quarter of a circle, in radii.
const CIRCLE: f64 = 0.552_284_75;
/// The objects in front of the fonts.
const OWN_OBJECTS: usize = 5;

/// The whole file.
pub(super) fn render(scene: &Scene) -> Vec<u8> {
    let (width, height) = (scene.width * POINTS_PER_PX, scene.height * POINTS_PER_PX);
    let mut content = format!("{POINTS_PER_PX} 0 0 -{POINTS_PER_PX} 0 {} cm 1 j\n", number(height));
    let mut used = [false, true].map(Used::new);
    for item in &scene.items {
        content.push_str(&drawn(item, scene.colors.paper, &mut used));
    }
    let (plain, bold) = (OWN_OBJECTS + 1, OWN_OBJECTS + 1 + fonts::OBJECTS);
    let own: [Vec<u8>; OWN_OBJECTS] = [
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
        format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {} {}] /Contents 4 0 R \
             /Resources << /Font << /F1 {plain} 0 R /F2 {bold} 0 R >> >> >>",
            number(width),
            number(height)
        )
        .into_bytes(),
        format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()).into_bytes(),
        format!("<< /Title <feff{}> >>", utf16(&scene.title)).into_bytes(),
    ];
    let objects = own.into_iter().chain(used[0].objects(plain)).chain(used[1].objects(bold));
    let mut out: Vec<u8> = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n".to_vec();
    let mut places = Vec::new();
    for (object, index) in objects.zip(1..) {
        places.push(out.len());
        out.extend(format!("{index} 0 obj\n").bytes());
        out.extend(object);
        out.extend(b"\nendobj\n");
    }
    let (table, size) = (out.len(), places.len() + 1);
    out.extend(format!("xref\n0 {size}\n0000000000 65535 f \n").bytes());
    for place in places {
        out.extend(format!("{place:010} 00000 n \n").bytes());
    }
    let trailer = format!("<< /Size {size} /Root 1 0 R /Info 5 0 R >>");
    out.extend(format!("trailer\n{trailer}\nstartxref\n{table}\n%%EOF\n").bytes());
    out
}

/// A text as digits.
fn utf16(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("{unit:04x}")).collect()
}

fn drawn(item: &Item, paper: &str, used: &mut [Used; 2]) -> String {
    match item {
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
        Item::Polygon { points, color, hollow } => {
            painted(&path(points), color, hollow.then_some(paper))
        }
        Item::Disc { x, y, radius, color, hollow } => {
            painted(&circle(*x, *y, *radius), color, hollow.then_some(paper))
        }
        Item::Words(words) => letters(words, &mut used[usize::from(words.bold)]),
    }
}

/// Filled, or an outline around paper.
fn painted(path: &str, fill: &str, hollow: Option<&str>) -> String {
    if let Some(paper) = hollow {
        let (width, paper) = (number(OUTLINE_PX), color(paper));
        format!("{paper} rg {} RG {width} w [] 0 d {path}h B\n", color(fill))
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
fn letters(words: &Words, used: &mut Used) -> String {
    let (_, back) = words.extent();
    let (matrix, x, y) = if words.turned {
        ("0 -1 -1 0", words.x, words.y + back)
    } else {
        ("1 0 0 -1", words.x - back, words.y)
    };
    format!(
        "{} rg BT /F{} {} Tf {matrix} {} {} Tm <{}> Tj ET\n",
        color(words.color),
        if words.bold { 2 } else { 1 },
        number(words.size),
        number(x),
        number(y),
        used.glyphs(&words.text)
    )
}

/// The three parts of a colour, from 0 to 1.
fn color(hex: &str) -> String {
    let parts = rgb(hex).unwrap_or_default();
    parts.map(|part| format!("{:.4}", f64::from(part) / 255.0)).join(" ")
}
