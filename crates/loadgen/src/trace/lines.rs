//! Lines out of a file that may be compressed, one buffer for all of them.
//!
//! **Invariant:** memory is bounded by the longest line that is allowed, whatever is in the file.

use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use keyrack_vfs::{File, Fs, OpenOptions};
use memchr::memchr;

/// Bytes of one read.
const READ_BYTES: usize = 256 << 10;
/// The longest line, its end not counted.
const LINE_BYTES_MAX: usize = 64 << 10;
/// How a frame of Zstandard begins.
const ZSTD_MARK: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The bytes from here to there, without the end.
    Whole(usize, usize),
    /// Too long; it was passed over.
    TooLong,
}

/// The lines of a file.
pub(super) struct Lines {
    file: Arc<dyn File>,
    is_compressed: bool,
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were handed out, and that are filled.
    taken: usize,
    filled: usize,
    /// No end of a line is in front of this place.
    searched: usize,
    is_ended: bool,
}

impl Lines {
    pub(super) fn open(fs: &dyn Fs, path: &Path) -> Result<Lines, keyrack_vfs::Error> {
        let file = fs.open(path, &OpenOptions::new().read(true))?;
        let mut mark = [0; ZSTD_MARK.len()];
        let has_mark = file.read_at(0, &mut mark)? == mark.len() && mark == ZSTD_MARK;
        let is_compressed = has_mark || path.extension().is_some_and(|name| name == "zst");
        let source: Box<dyn Read + Send> = Box::new(io::empty());
        let mut lines = Lines {
            file,
            is_compressed,
            source,
            buffer: vec![0; READ_BYTES],
            taken: 0,
            filled: 0,
            searched: 0,
            is_ended: true,
        };
        lines.rewind();
        Ok(lines)
    }

    /// Begins at the first line again.
    pub(super) fn rewind(&mut self) {
        let bytes = FileBytes { file: Arc::clone(&self.file), offset: 0 };
        (self.taken, self.filled, self.searched, self.is_ended) = (0, 0, 0, false);
        self.source = match self.is_compressed {
            false => Box::new(bytes),
            // A decoder takes nothing but memory, so it fails for that alone; then reading does.
            true => match zstd::stream::read::Decoder::with_buffer(BufReader::new(bytes)) {
                Ok(decoder) => Box::new(decoder),
                Err(error) => Box::new(Broken(Some(error))),
            },
        };
    }

    /// The next line; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
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
    pub(super) fn bytes(&self, start: usize, end: usize) -> &[u8] {
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

/// The bytes of a file, one after the other.
struct FileBytes {
    file: Arc<dyn File>,
    offset: u64,
}

impl Read for FileBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read_at(self.offset, buffer).map_err(io::Error::other)?;
        self.offset += bytes as u64;
        Ok(bytes)
    }
}

/// A source that fails.
struct Broken(Option<io::Error>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(self.0.take().unwrap_or_else(|| io::ErrorKind::OutOfMemory.into()))
    }
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("file", &self.file).finish_non_exhaustive()
    }
}
