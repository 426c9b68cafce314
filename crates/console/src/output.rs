//! Standard output and standard error, also while a screen covers the terminal.
//!
//! A message is shown on the screen, and written when the screen is gone. A result that would be
//! drawn over waits until then; a result that goes to a file or a pipe is written at once.

use crate::{DONE, Failure, NO};
use std::fmt::Arguments;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, StdoutLock, Write};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A picture that covers the whole terminal while a run goes on.
pub trait Screen: Sync {
    /// Whether the picture is shown now.
    fn is_up(&self) -> bool;
    /// Shows a message in the picture and keeps it for later; false if there is no picture.
    fn keep(&self, line: &str) -> bool;
    /// Removes the picture and writes the messages that were kept.
    fn restore(&self);
}

static SCREEN: OnceLock<&'static dyn Screen> = OnceLock::new();

/// Results that wait until the screen is gone.
static HELD: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Names the screen that may cover the terminal. The first call counts.
pub fn set_screen(screen: &'static dyn Screen) {
    // A second screen would be a second terminal: a process has one.
    let _ = SCREEN.set(screen);
}

/// Writes a line to standard error; [`say!`](crate::say) calls it. If the reader has gone, the
/// line is lost.
pub fn say_line(text: Arguments<'_>) {
    let line = text.to_string();
    if !SCREEN.get().is_some_and(|screen| screen.keep(&line)) {
        let _ = writeln!(io::stderr(), "{line}");
    }
}

/// Writes `program: message` as one line to standard error, whatever the message holds.
pub fn refuse(program: &str, message: &str) {
    let line: Vec<&str> = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    crate::say!("{program}: {}", line.join(" "));
}

/// Writes a result to standard output and returns the exit status. A reader that has gone, such
/// as `head`, is no error.
pub fn print(text: &str) -> u8 {
    match write_out(text.as_bytes()) {
        Ok(()) => DONE,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => DONE,
        Err(error) => {
            refuse("keyrack", &format!("cannot write standard output: {error}"));
            NO
        }
    }
}

/// Removes the screen, and writes what waited for that.
pub fn release() {
    if let Some(screen) = SCREEN.get() {
        screen.restore();
    }
    // The next write meets the same error and reports it.
    let _ = write_out(b"");
}

/// Writes to standard output, or holds back what would be drawn over.
fn write_out(bytes: &[u8]) -> io::Result<()> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if SCREEN.get().is_some_and(|screen| screen.is_up()) && io::stdout().is_terminal() {
        held.extend_from_slice(bytes);
        return Ok(());
    }
    let mut out = io::stdout().lock();
    out.write_all(&std::mem::take(&mut *held))?;
    out.write_all(bytes)?;
    out.flush()
}

/// Standard output as a writer, without a buffer of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_out(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard output with a buffer, for a command that prints line by line.
#[derive(Debug)]
pub struct Output {
    to: BufWriter<StdoutLock<'static>>,
}

impl Output {
    /// Locks standard output.
    #[must_use]
    pub fn new() -> Self {
        Output { to: BufWriter::with_capacity(1 << 16, io::stdout().lock()) }
    }

    /// Writes; false if the reader has gone.
    ///
    /// # Errors
    /// [`Failure::Failed`] if standard output cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        written(self.to.write_all(bytes))
    }

    /// Writes the rest and returns the exit status.
    ///
    /// # Errors
    /// [`Failure::Failed`] if standard output cannot be written.
    pub fn finish(mut self) -> Result<u8, Failure> {
        written(self.to.flush()).map(|_| DONE)
    }
}

impl Default for Output {
    fn default() -> Self {
        Output::new()
    }
}

/// Whether the reader is still there.
fn written(result: io::Result<()>) -> Result<bool, Failure> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::Failed(format!("cannot write standard output: {error}"))),
    }
}
