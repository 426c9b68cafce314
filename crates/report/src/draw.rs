//! Charts as pictures.
//!
//! ```text
//!   Chart --layout--> Scene: rectangles, lines, polygons, words --svg--> text
//!                                                               --pdf--> bytes
//!                                                               --png--> bytes
//! ```
//!
//! A [`Scene`](scene::Scene) is in pixels from the top left corner, 96 to the inch. What is
//! computed, such as where marks stand and how wide words are, is computed once, in front of the
//! scene, so that the formats cannot differ in it.
//!
//! **Invariant:** the same charts give the same bytes.

mod axis;
mod bars;
mod font;
mod forest;
mod layout;
mod lines;
mod pdf;
mod png;
mod scene;
mod svg;
#[cfg(test)]
mod tests;
mod ticks;
mod typeface;

use crate::figures::Charts;

pub use scene::Theme;
pub(crate) use svg::escaped;

/// A format of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Scalable Vector Graphics 1.1.
    Svg,
    /// Portable Document Format 1.4, one page the size of the picture.
    Pdf,
    /// Portable Network Graphics, two dots for a pixel.
    Png,
}

impl Format {
    /// What this build can draw.
    pub const ALL: &[Format] = &[Format::Svg, Format::Pdf, Format::Png];

    /// The name, which is the ending of its files too.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Svg => "svg",
            Format::Pdf => "pdf",
            Format::Png => "png",
        }
    }
}

impl Charts {
    /// Draws each chart: the name of its file without an ending, and the bytes. O(values).
    pub fn pictures(&self, format: Format, theme: Theme) -> impl Iterator<Item = (&str, Vec<u8>)> {
        self.charts.iter().map(move |chart| {
            let scene = layout::scene(self, chart, theme);
            let bytes = match format {
                Format::Svg => svg::render(&scene).into_bytes(),
                Format::Pdf => pdf::render(&scene),
                Format::Png => png::render(&scene),
            };
            (chart.name.as_str(), bytes)
        })
    }
}
