//! What a picture consists of, in pixels from its top left corner.

use super::font;
use crate::figures::{Look, Shape};

/// A picture.
#[derive(Debug)]
pub(super) struct Scene {
    /// For readers that cannot see it.
    pub(super) title: String,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) colors: &'static Colors,
    /// In the order in which they cover each other.
    pub(super) items: Vec<Item>,
}

#[derive(Debug)]
pub(super) enum Item {
    Rect {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        fill: String,
    },
    /// Through all points, not closed.
    Line {
        points: Vec<(f64, f64)>,
        color: String,
        width: f64,
        dash: &'static [f64],
    },
    /// Closed and filled; with an outline instead where it is hollow.
    Polygon {
        points: Vec<(f64, f64)>,
        color: String,
        hollow: bool,
    },
    Disc {
        x: f64,
        y: f64,
        radius: f64,
        color: String,
        hollow: bool,
    },
    Words(Words),
}

/// A line of text.
#[derive(Clone, Debug)]
pub(super) struct Words {
    pub(super) x: f64,
    /// Of the base line.
    pub(super) y: f64,
    pub(super) text: String,
    pub(super) size: f64,
    pub(super) bold: bool,
    pub(super) color: &'static str,
    pub(super) anchor: Anchor,
    /// Reads upwards.
    pub(super) turned: bool,
}

/// Which part of a text stands at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// The paper of a picture, which decides its colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// White, as in print.
    #[default]
    Light,
    /// That of the page at night.
    Dark,
}

impl Theme {
    /// All of them.
    pub const ALL: &[Theme] = &[Theme::Light, Theme::Dark];

    /// The name on a command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Theme::Light => "light",
            Theme::Dark => "dark",
        }
    }

    pub(super) fn colors(self) -> &'static Colors {
        match self {
            Theme::Light => &LIGHT,
            Theme::Dark => &DARK,
        }
    }
}

/// Colours of what is no data, and which of an engine's count.
#[derive(Debug)]
pub(super) struct Colors {
    pub(super) ink: &'static str,
    pub(super) soft: &'static str,
    pub(super) rule: &'static str,
    pub(super) axis: &'static str,
    pub(super) paper: &'static str,
    theme: Theme,
}

// Those of the page.
const LIGHT: Colors = Colors {
    ink: "#1c2330",
    soft: "#5b6472",
    rule: "#e3e6eb",
    axis: "#8b93a1",
    paper: "#ffffff",
    theme: Theme::Light,
};
const DARK: Colors = Colors {
    ink: "#e6e9ef",
    soft: "#9aa4b2",
    rule: "#28303b",
    axis: "#6b7686",
    paper: "#14181f",
    theme: Theme::Dark,
};

impl Colors {
    /// The colour of an engine on this paper.
    pub(super) fn of<'a>(&self, look: &'a Look) -> &'a str {
        match self.theme {
            Theme::Light => &look.light,
            Theme::Dark => &look.dark,
        }
    }
}

/// Width of the outline of a hollow mark.
pub(super) const OUTLINE_PX: f64 = 1.6;

impl Words {
    /// Its width, and how much of that lies before its place.
    pub(super) fn extent(&self) -> (f64, f64) {
        let width = font::width(&self.text, self.size, self.bold);
        let before = match self.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width / 2.0,
            Anchor::End => width,
        };
        (width, before)
    }
}

impl Scene {
    /// A straight line without dashes.
    pub(super) fn rule(&mut self, from: (f64, f64), to: (f64, f64), color: &str, width: f64) {
        let points = vec![from, to];
        self.items.push(Item::Line { points, color: color.to_owned(), width, dash: &[] });
    }

    /// A text in ink, starting at its place.
    pub(super) fn words(
        &mut self,
        x: f64,
        y: f64,
        text: impl Into<String>,
        size: f64,
    ) -> &mut Words {
        self.items.push(Item::Words(Words {
            x,
            y,
            text: text.into(),
            size,
            bold: false,
            color: self.colors.ink,
            anchor: Anchor::Start,
            turned: false,
        }));
        match self.items.last_mut() {
            Some(Item::Words(words)) => words,
            _ => unreachable!("it was pushed just now"),
        }
    }

    /// The mark of a series.
    pub(super) fn mark(&mut self, shape: Shape, (x, y): (f64, f64), color: &str, hollow: bool) {
        let color = color.to_owned();
        if shape == Shape::Circle {
            self.items.push(Item::Disc { x, y, radius: 3.6, color, hollow });
            return;
        }
        let points = corners(shape).iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
        self.items.push(Item::Polygon { points, color, hollow });
    }
}

/// The corners of a mark about its middle, in pixels.
pub(super) fn corners(shape: Shape) -> &'static [(f64, f64)] {
    match shape {
        Shape::Circle => &[],
        Shape::Square => &[(-3.3, -3.3), (3.3, -3.3), (3.3, 3.3), (-3.3, 3.3)],
        Shape::Diamond => &[(0.0, -4.6), (4.6, 0.0), (0.0, 4.6), (-4.6, 0.0)],
        Shape::Up => &[(0.0, -4.4), (4.2, 3.2), (-4.2, 3.2)],
        Shape::Down => &[(0.0, 4.4), (4.2, -3.2), (-4.2, -3.2)],
        Shape::Plus => &[
            (-1.4, -4.4),
            (1.4, -4.4),
            (1.4, -1.4),
            (4.4, -1.4),
            (4.4, 1.4),
            (1.4, 1.4),
            (1.4, 4.4),
            (-1.4, 4.4),
            (-1.4, 1.4),
            (-4.4, 1.4),
            (-4.4, -1.4),
            (-1.4, -1.4),
        ],
        Shape::Cross => &[
            (0.0, -2.0),
            (2.1, -4.1),
            (4.1, -2.1),
            (2.0, 0.0),
            (4.1, 2.1),
            (2.1, 4.1),
            (0.0, 2.0),
            (-2.1, 4.1),
            (-4.1, 2.1),
            (-2.0, 0.0),
            (-4.1, -2.1),
            (-2.1, -4.1),
        ],
        Shape::Hexagon => {
            &[(-4.6, 0.0), (-2.3, -3.6), (2.3, -3.6), (4.6, 0.0), (2.3, 3.6), (-2.3, 3.6)]
        }
        Shape::Left => &[(-4.4, 0.0), (3.2, -4.2), (3.2, 4.2)],
        Shape::Right => &[(4.4, 0.0), (-3.2, 4.2), (-3.2, -4.2)],
        Shape::Star => &[
            (0.0, -5.2),
            (1.3, -1.8),
            (4.9, -1.6),
            (2.1, 0.7),
            (3.1, 4.2),
            (0.0, 2.2),
            (-3.1, 4.2),
            (-2.1, 0.7),
            (-4.9, -1.6),
            (-1.3, -1.8),
        ],
        Shape::Hourglass => {
            &[(-4.0, -4.4), (4.0, -4.4), (0.9, 0.0), (4.0, 4.4), (-4.0, 4.4), (-0.9, 0.0)]
        }
        Shape::Bowtie => {
            &[(-4.4, -4.0), (0.0, -0.9), (4.4, -4.0), (4.4, 4.0), (0.0, 0.9), (-4.4, 4.0)]
        }
        Shape::Bar => &[(-1.7, -4.8), (1.7, -4.8), (1.7, 4.8), (-1.7, 4.8)],
        Shape::Beam => &[(-4.8, -1.7), (4.8, -1.7), (4.8, 1.7), (-4.8, 1.7)],
        Shape::House => &[(0.0, -4.8), (3.8, -1.0), (3.8, 3.6), (-3.8, 3.6), (-3.8, -1.0)],
        Shape::Chevron => {
            &[(0.0, -4.2), (4.6, 1.0), (4.6, 4.4), (0.0, -0.6), (-4.6, 4.4), (-4.6, 1.0)]
        }
    }
}
