//! Lines out of a file that may be compressed, one buffer for all of them.
//!
//! **Invariant:** memory is bounded by the longest line that is allowed, whatever is in the file.

use std::io::{self, Read};
use std::path::Path;

use keyrack_vfs::Fs;
use memchr::memchr;

use crate::bytes::{Input, Source};

/// Bytes of one read.
const READ_BYTES: usize = 256 << 10;
/// The longest line, its end not counted.
const LINE_BYTES_MAX: usize = 64 << 10;

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// The bytes from here to there, without the end.
    Whole(usize, usize),
    /// Too long; it was passed over.
    TooLong,
}

/// The lines of a file.
#[derive(Debug)]
pub struct Lines {
    input: Input,
    source: Source,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were handed out, and that are filled.
    taken: usize,
    filled: usize,
    /// No end of a line is in front of this place.
    searched: usize,
    is_ended: bool,
}

impl Lines {
    /// Opens a file, compressed or not.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn open(fs: &dyn Fs, path: &Path) -> Result<Lines, keyrack_vfs::Error> {
        Ok(Lines::of(Input::open(fs, path)?))
    }

    pub(crate) fn of(input: Input) -> Lines {
        let source = input.source();
        let buffer = vec![0; READ_BYTES];
        Lines { input, source, buffer, taken: 0, filled: 0, searched: 0, is_ended: false }
    }

    /// Begins at the first line again.
    pub fn rewind(&mut self) {
        (self.taken, self.filled, self.searched, self.is_ended) = (0, 0, 0, false);
        self.source = self.input.source();
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read on, or is cut within a compressed frame.
    #[expect(clippy::should_implement_trait, reason = "a line is read off the buffer by `bytes`")]
    pub fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(length) = memchr(b'\n', &self.buffer[self.searched..self.filled]) {
                let end = self.searched + length;
                return Ok(Some(self.hand_out(end, end + 1)));
            }
            self.searched = self.filled;
            if self.is_ended {
                let end = self.filled;
                return Ok((end > self.taken).then(|| self.hand_out(end, end)));
            }
            if self.filled - self.taken > LINE_BYTES_MAX {
                // Of a line that is too long the beginning is enough to know it by.
                self.taken = self.filled - LINE_BYTES_MAX - 1;
            }
            self.fill()?;
        }
    }

    fn hand_out(&mut self, end: usize, next: usize) -> Line {
        let start = std::mem::replace(&mut self.taken, next);
        self.searched = next;
        if end - start > LINE_BYTES_MAX {
            return Line::TooLong;
        }
        let end = if self.buffer[start..end].last() == Some(&b'\r') { end - 1 } else { end };
        Line::Whole(start, end)
    }

    /// The bytes of a line that was handed out last.
    #[must_use]
    pub fn bytes(&self, start: usize, end: usize) -> &[u8] {
        &self.buffer[start..end]
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.searched -= self.taken;
        self.taken = 0;
        loop {
            match self.source.read(&mut self.buffer[self.filled..]) {
                Ok(0) => self.is_ended = true,
                Ok(bytes) => self.filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}
