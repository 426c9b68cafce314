//! Standard output and standard error, while a screen may have the terminal.
//!
//! A line for a person is shown on the screen and written when it is gone; a result that would land
//! on the screen waits until then. A result that goes to a file or a pipe goes there at once.

use crate::tui;
use std::fmt::Arguments;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

/// Results that wait for the screen to go.
static HELD: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Says a line on standard error. A reader that went away misses it.
pub(crate) fn say(text: Arguments<'_>) {
    let line = text.to_string();
    if !tui::keep(&line) {
        let _ = writeln!(io::stderr(), "{line}");
    }
}

/// Writes to standard output, or holds back what would be drawn over.
///
/// # Errors
/// What standard output answers.
pub(crate) fn write_out(bytes: &[u8]) -> io::Result<()> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if tui::is_up() && io::stdout().is_terminal() {
        held.extend_from_slice(bytes);
        return Ok(());
    }
    let mut out = io::stdout().lock();
    out.write_all(&std::mem::take(&mut *held))?;
    out.write_all(bytes)?;
    out.flush()
}

/// Gives the terminal back, and writes what was held.
pub(crate) fn release() {
    tui::restore();
    // Whoever has more to write meets the error again.
    let _ = write_out(b"");
}

/// Standard output for whoever takes a writer.
#[derive(Debug)]
pub(crate) struct Out;

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_out(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
