//! A scene as SVG: shapes and words, no scripts, no fonts of its own.

use super::scene::{Anchor, Item, OUTLINE_PX, Scene, Words};
use std::fmt::Write as _;

/// The whole file.
pub(super) fn render(scene: &Scene) -> String {
    let (width, height) = (number(scene.width), number(scene.height));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" \
         font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\">\n\
         <title>{}</title>\n",
        escaped(&scene.title)
    );
    for item in &scene.items {
        element(&mut out, item, scene.colors.paper);
    }
    out.push_str("</svg>\n");
    out
}

fn element(out: &mut String, item: &Item, paper: &str) {
    // Writing to a string does not fail.
    let _ = match item {
        Item::Rect { x, y, width, height, fill } => writeln!(
            out,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{fill}\"/>",
            number(*x),
            number(*y),
            number(*width),
            number(*height)
        ),
        Item::Line { points, color, width, dash } => {
            let dashes: Vec<String> = dash.iter().map(|length| number(*length)).collect();
            let dashes = if dashes.is_empty() {
                String::new()
            } else {
                format!(" stroke-dasharray=\"{}\"", dashes.join(" "))
            };
            writeln!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{}\" \
                 stroke-linejoin=\"round\"{dashes}/>",
                places(points),
                number(*width)
            )
        }
        Item::Polygon { points, color, hollow } => {
            writeln!(
                out,
                "<polygon points=\"{}\" {}/>",
                places(points),
                paint(color, hollow.then_some(paper))
            )
        }
        Item::Disc { x, y, radius, color, hollow } => writeln!(
            out,
            "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" {}/>",
            number(*x),
            number(*y),
            number(*radius),
            paint(color, hollow.then_some(paper))
        ),
        Item::Words(words) => text(out, words),
    };
}

fn text(out: &mut String, words: &Words) -> std::fmt::Result {
    let (x, y) = (number(words.x), number(words.y));
    let anchor = match words.anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let bold = if words.bold { " font-weight=\"bold\"" } else { "" };
    let turned =
        if words.turned { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
    writeln!(
        out,
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\" fill=\"{}\"{anchor}{bold}{turned}>{}</text>",
        number(words.size),
        words.color,
        escaped(&words.text)
    )
}

/// Filled, or an outline around paper.
fn paint(color: &str, hollow: Option<&str>) -> String {
    if let Some(paper) = hollow {
        format!("fill=\"{paper}\" stroke=\"{color}\" stroke-width=\"{}\"", number(OUTLINE_PX))
    } else {
        format!("fill=\"{color}\"")
    }
}

fn places(points: &[(f64, f64)]) -> String {
    let places: Vec<String> =
        points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect();
    places.join(" ")
}

/// Two decimals, without idle zeros.
pub(super) fn number(value: f64) -> String {
    let text = format!("{:.2}", if value.is_finite() { value } else { 0.0 });
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// `text` as the content of an element: control characters, which XML forbids, become blanks.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            letter if letter.is_control() => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}
