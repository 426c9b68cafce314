//! The picture of a run, in as much room as there is.
//!
//! ```text
//!   title                                     stage, elapsed
//!   bar of what is done
//!
//!   rate   now  sparkline, three rows where there is room
//!   p50    now  sparkline
//!   p99    ...
//!
//!   facts
//!
//!   operation    a second     p50     p99     max  errors
//!   ...
//!
//!   what is done, the newest last
//!   what was said
//!   keys
//! ```
//!
//! What does not fit is left out from the bottom up, but for the line of keys. A sparkline is
//! scaled to the largest value that can be seen, so its height compares seconds of one line, not
//! lines with each other.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::symbols::bar;

use crate::units;
use crate::view::{PERCENTILES, Point, View};

/// Columns before a sparkline: its name and the present value.
const LEFT: u16 = 20;
/// Rows of a screen that has room for the tall sparkline.
const ROWS_TALL: u16 = 22;
/// Rows of the tall sparkline.
const TALL: u16 = 3;
/// Lines of what was said, at most.
const SAID_MAX: usize = 4;
/// Eighths of a cell, from empty to full.
const LEVELS: [&str; 9] = [
    " ",
    bar::ONE_EIGHTH,
    bar::ONE_QUARTER,
    bar::THREE_EIGHTHS,
    bar::HALF,
    bar::FIVE_EIGHTHS,
    bar::THREE_QUARTERS,
    bar::SEVEN_EIGHTHS,
    bar::FULL,
];

const PLAIN: Style = Style::new();
const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
const FAINT: Style = Style::new().add_modifier(Modifier::DIM);
const CURVE: Style = Style::new().fg(Color::Cyan);
const TAIL: Style = Style::new().fg(Color::Yellow);
const DONE: Style = Style::new().fg(Color::Green);
const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// Draws `view` over the whole of `area`, with the newest of `said` and the line of `keys`.
pub fn draw(view: &View, said: &[String], keys: &str, area: Rect, buffer: &mut Buffer) {
    let mut page = Page { buffer, area, row: 0 };
    page.head(view);
    page.curves(view);
    page.facts(view);
    page.operations(view);
    page.lines(view, said);
    if area.height > 1 {
        page.put(area.height - 1, 0, keys, FAINT);
    }
}

/// Where the next line goes.
struct Page<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    row: u16,
}

impl Page<'_> {
    /// Rows that are left above the line of keys.
    fn left(&self) -> u16 {
        self.area.height.saturating_sub(1).saturating_sub(self.row)
    }

    /// Writes text, cut at the right edge.
    fn put(&mut self, row: u16, column: u16, text: &str, style: Style) {
        if row < self.area.height && column < self.area.width {
            let (x, y) = (self.area.x + column, self.area.y + row);
            let room = usize::from(self.area.width - column);
            self.buffer.set_stringn(x, y, text, room, style);
        }
    }

    /// Writes text that ends at `column`.
    fn put_right(&mut self, row: u16, column: u16, text: &str, style: Style) {
        let start = column.saturating_sub(text.chars().count() as u16);
        self.put(row, start, text, style);
    }

    fn head(&mut self, view: &View) {
        let width = self.area.width;
        let state = if view.stage.is_empty() {
            String::new()
        } else {
            format!("{}  {}", view.stage, units::clock(view.elapsed_s))
        };
        self.put(0, 0, &view.title, STRONG);
        self.put_right(0, width, &format!("  {state}"), PLAIN);
        if let Some(share) = view.share {
            let room = f64::from(width.saturating_sub(6)) * share.clamp(0.0, 1.0);
            let text = format!("{:3.0} %", 100.0 * share.clamp(0.0, 1.0));
            self.put(1, 0, &cells(room, room.ceil() as usize), DONE);
            self.put_right(1, width, &text, PLAIN);
        }
        self.row = 3;
    }

    fn curves(&mut self, view: &View) {
        let tall = if self.area.height >= ROWS_TALL { TALL } else { 1 };
        let rates: Vec<f64> = view.points.iter().map(|point| point.rate_per_s).collect();
        let now = rates.last().map_or("-".to_owned(), |rate| units::rate(*rate));
        let name = if view.unit.is_empty() { "rate" } else { &view.unit };
        self.curve(name, &now, &rates, tall, CURVE);
        for (index, (name, _)) in PERCENTILES.into_iter().enumerate() {
            let ns = |point: &Point| point.latency_ns[index];
            let heights: Vec<f64> =
                view.points.iter().map(|point| ns(point).unwrap_or(0) as f64).collect();
            let now = units::time(view.points.back().and_then(ns));
            self.curve(name, &now, &heights, 1, if index == 0 { CURVE } else { TAIL });
        }
        self.row += 1;
    }

    /// A name, a value, and the newest of `heights` from right to left over `tall` rows.
    fn curve(&mut self, name: &str, now: &str, heights: &[f64], tall: u16, style: Style) {
        if self.left() < tall {
            return;
        }
        let (top, bottom) = (self.row, self.row + tall - 1);
        self.put(bottom, 0, name, PLAIN);
        self.put_right(bottom, LEFT - 2, now, STRONG);
        let room = usize::from(self.area.width.saturating_sub(LEFT));
        let seen = &heights[heights.len().saturating_sub(room)..];
        let most = seen.iter().copied().fold(0.0, f64::max);
        let first = self.area.width.saturating_sub(seen.len() as u16);
        for (place, height) in seen.iter().enumerate() {
            let share = if most > 0.0 { height / most } else { 0.0 };
            // A value that is there has a mark, however small it is beside the others.
            let eighths = (share * f64::from(tall) * 8.0).round().max(f64::from(*height > 0.0));
            for row in top..=bottom {
                let below = f64::from(bottom - row) * 8.0;
                let level = (eighths - below).clamp(0.0, 8.0) as usize;
                self.put(row, first + place as u16, LEVELS[level], style);
            }
        }
        self.row += tall;
    }

    fn facts(&mut self, view: &View) {
        if view.facts.is_empty() || self.left() == 0 {
            return;
        }
        let mut column = 0;
        for (name, value) in &view.facts {
            let (value, style) = match value.strip_prefix('!') {
                Some(value) => (value, BAD),
                None => (value.as_str(), STRONG),
            };
            let width = (name.chars().count() + 1 + value.chars().count()) as u16;
            if column > 0 && column + width > self.area.width && self.left() > 1 {
                (self.row, column) = (self.row + 1, 0);
            }
            self.put(self.row, column, name, PLAIN);
            self.put(self.row, column + name.chars().count() as u16 + 1, value, style);
            column += width + 3;
        }
        self.row += 2;
    }

    fn operations(&mut self, view: &View) {
        if view.operations.is_empty() || self.left() < 2 {
            return;
        }
        const ENDS: [u16; 5] = [24, 36, 48, 60, 70];
        self.put(self.row, 0, "operation", FAINT);
        for (end, name) in ENDS.into_iter().zip(["a second", "p50", "p99", "max", "errors"]) {
            self.put_right(self.row, end, name, FAINT);
        }
        self.row += 1;
        for operation in &view.operations {
            if self.left() == 0 {
                return;
            }
            let latency = &operation.latency;
            let figures = [
                units::rate(operation.rate_per_s),
                units::time(latency.percentile(50.0)),
                units::time(latency.percentile(99.0)),
                units::time(latency.max()),
                operation.errors.map_or_else(|| "-".to_owned(), |count| count.to_string()),
            ];
            self.put(self.row, 0, &operation.name, PLAIN);
            for (place, (end, figure)) in ENDS.into_iter().zip(figures).enumerate() {
                let is_bad = place == 4 && operation.errors.is_some_and(|count| count > 0);
                self.put_right(self.row, end, &figure, if is_bad { BAD } else { PLAIN });
            }
            self.row += 1;
        }
        self.row += 1;
    }

    /// What is done and what was said, as much of the end of each as there is room for.
    fn lines(&mut self, view: &View, said: &[String]) {
        let room = usize::from(self.left());
        let said = &said[said.len().saturating_sub(SAID_MAX.min(room))..];
        let room = room - said.len();
        let done = view.done.iter().skip(view.done.len().saturating_sub(room));
        for line in done {
            self.put(self.row, 0, line, PLAIN);
            self.row += 1;
        }
        let first = self.area.height.saturating_sub(1).saturating_sub(said.len() as u16);
        for (place, line) in said.iter().enumerate() {
            self.put(first + place as u16, 0, line, FAINT);
        }
    }
}

/// A bar of `length` cells, the last one in eighths, at most `count` of them.
fn cells(length: f64, count: usize) -> String {
    (0..count)
        .map(|cell| LEVELS_ACROSS[((length - cell as f64).clamp(0.0, 1.0) * 8.0).round() as usize])
        .collect()
}

/// Eighths of a cell from the left.
const LEVELS_ACROSS: [&str; 9] = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];

#[cfg(test)]
mod tests;
