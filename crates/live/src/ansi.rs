//! Cells as bytes for a terminal: the few sequences that every terminal of today knows.
//!
//! A picture is gathered and written at once, so that it does not flicker. What cannot be written
//! is dropped: a terminal that is gone needs no picture, and the run goes on.

use std::io::{self, Write};

use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::{Color, Modifier};

/// Room where the terminal does not say how much there is.
const UNKNOWN: Size = Size { width: 80, height: 24 };

/// A terminal on standard error.
#[derive(Debug)]
pub(crate) struct Ansi {
    out: Vec<u8>,
    has_colour: bool,
}

impl Ansi {
    pub(crate) fn new(has_colour: bool) -> Ansi {
        Ansi { out: Vec::new(), has_colour }
    }

    fn add(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// The look of the cells that follow.
    fn style(&mut self, fg: Color, modifier: Modifier) {
        self.add("\x1b[0");
        for (bit, code) in [(Modifier::BOLD, ";1"), (Modifier::DIM, ";2")] {
            if modifier.contains(bit) {
                self.add(code);
            }
        }
        let colour = match fg {
            Color::Red => ";31",
            Color::Green => ";32",
            Color::Yellow => ";33",
            Color::Cyan => ";36",
            _ => "",
        };
        if self.has_colour {
            self.add(colour);
        }
        self.add("m");
    }
}

impl Backend for Ansi {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut at = None;
        let mut look = None;
        for (x, y, cell) in content {
            if at != Some((x, y)) {
                self.add(&format!("\x1b[{};{}H", y + 1, x + 1));
            }
            if look != Some((cell.fg, cell.modifier)) {
                look = Some((cell.fg, cell.modifier));
                self.style(cell.fg, cell.modifier);
            }
            self.add(cell.symbol());
            at = Some((x + 1, y));
        }
        self.add("\x1b[0m");
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.add("\x1b[?25l");
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.add("\x1b[?25h");
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        // Nobody asks on a screen that is drawn whole.
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        self.add(&format!("\x1b[{};{}H", y + 1, x + 1));
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.add(match region {
            ClearType::All => "\x1b[2J",
            ClearType::AfterCursor => "\x1b[J",
            ClearType::BeforeCursor => "\x1b[1J",
            ClearType::CurrentLine => "\x1b[2K",
            ClearType::UntilNewLine => "\x1b[K",
        });
        Ok(())
    }

    fn size(&self) -> io::Result<Size> {
        let found = rustix::termios::tcgetwinsize(io::stderr()).ok();
        let size = found.map(|size| Size { width: size.ws_col, height: size.ws_row });
        Ok(size.filter(|size| size.width > 0 && size.height > 0).unwrap_or(UNKNOWN))
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        // See the head of this file.
        let _ = io::stderr().write_all(&self.out);
        self.out.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui_core::style::Style;

    #[test]
    fn neighbours_need_one_place_and_one_look() {
        let bytes = |has_colour| {
            let red = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
            let mut cells = [Cell::new("a"), Cell::new("b"), Cell::new("c")];
            cells[0].set_style(red);
            cells[1].set_style(red);
            let mut ansi = Ansi::new(has_colour);
            let places = [(0, 0), (1, 0), (7, 3)].into_iter().zip(&cells);
            ansi.draw(places.map(|((x, y), cell)| (x, y, cell))).unwrap();
            String::from_utf8(ansi.out).unwrap()
        };
        assert_eq!(bytes(true), "\x1b[1;1H\x1b[0;1;31mab\x1b[4;8H\x1b[0mc\x1b[0m");
        assert_eq!(bytes(false), "\x1b[1;1H\x1b[0;1mab\x1b[4;8H\x1b[0mc\x1b[0m");
    }
}
