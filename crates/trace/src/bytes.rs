//! The bytes of a file, one after the other, decompressed where they are compressed.
//!
//! A file is compressed where its name ends in `.zst` or where it begins as a frame of Zstandard;
//! any number of frames may stand behind each other. In a plain file bytes are passed over without
//! being read.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use keyrack_vfs::{File, Fs, OpenOptions};

use crate::error::{Error, Result};

/// How a frame of Zstandard begins.
const ZSTD_MARK: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A file to be read from its beginning.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    file: Arc<dyn File>,
    pub(crate) path: PathBuf,
    is_compressed: bool,
}

impl Input {
    pub(crate) fn open(fs: &dyn Fs, path: &Path) -> std::result::Result<Input, keyrack_vfs::Error> {
        let file = fs.open(path, &OpenOptions::new().read(true))?;
        let mut mark = [0; ZSTD_MARK.len()];
        let has_mark = file.read_at(0, &mut mark)? == mark.len() && mark == ZSTD_MARK;
        let is_compressed = has_mark || path.extension().is_some_and(|name| name == "zst");
        Ok(Input { file, path: path.to_owned(), is_compressed })
    }

    /// What the file has, from its first byte on.
    pub(crate) fn source(&self) -> Source {
        let plain = Plain { file: Arc::clone(&self.file), offset: 0 };
        if !self.is_compressed {
            return Source::Plain(BufReader::with_capacity(READ_BYTES, plain));
        }
        // A decoder takes nothing but memory, so it fails for that alone; then reading does.
        Source::Compressed(match zstd::stream::read::Decoder::with_buffer(BufReader::new(plain)) {
            Ok(decoder) => Box::new(BufReader::with_capacity(READ_BYTES, decoder)),
            Err(error) => Box::new(Broken(Some(error))),
        })
    }
}

/// Bytes of one read.
const READ_BYTES: usize = 256 << 10;

/// Where bytes come from.
pub(crate) enum Source {
    Plain(BufReader<Plain>),
    Compressed(Box<dyn Read + Send>),
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Source::Plain(plain) => plain.read(buffer),
            Source::Compressed(source) => source.read(buffer),
        }
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_compressed = matches!(self, Source::Compressed(_));
        f.debug_struct("Source").field("is_compressed", &is_compressed).finish_non_exhaustive()
    }
}

/// The bytes of a file as they are.
#[derive(Debug)]
pub(crate) struct Plain {
    file: Arc<dyn File>,
    offset: u64,
}

impl Read for Plain {
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

/// Bytes with their place, for formats that are not lines.
#[derive(Debug)]
pub(crate) struct Bytes {
    path: PathBuf,
    source: Source,
    offset: u64,
}

impl Bytes {
    pub(crate) fn new(input: &Input) -> Bytes {
        Bytes { path: input.path.clone(), source: input.source(), offset: 0 }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that were taken so far.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Fills `buffer`, or as much of it as the file still has; returns how much that is.
    pub(crate) fn take(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.source.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => {
                    let offset = self.offset + filled as u64;
                    return Err(Error::Read { path: self.path.clone(), offset, cause });
                }
            }
        }
        self.offset += filled as u64;
        Ok(filled)
    }

    /// Fills `buffer`, or says that `what` is cut.
    pub(crate) fn fill(&mut self, buffer: &mut [u8], what: &str) -> Result<()> {
        let start = self.offset;
        if self.take(buffer)? == buffer.len() {
            Ok(())
        } else {
            Err(self.fault(start, format!("the file ends within {what}")))
        }
    }

    /// Passes over `count` bytes, all of which must be there.
    pub(crate) fn skip(&mut self, count: u64, what: &str) -> Result<()> {
        let start = self.offset;
        let short = |bytes: &Self| bytes.fault(start, format!("the file ends within {what}"));
        if let Source::Plain(plain) = &mut self.source {
            let buffered = count.min(plain.buffer().len() as u64);
            plain.consume(buffered as usize);
            let file = plain.get_mut();
            file.offset = file.offset.saturating_add(count - buffered);
            self.offset = self.offset.saturating_add(count);
            return if self.offset <= file.file.len()? { Ok(()) } else { Err(short(self)) };
        }
        let mut left = count;
        let mut buffer = [0; 8192];
        while left > 0 {
            let part = left.min(buffer.len() as u64) as usize;
            if self.take(&mut buffer[..part])? < part {
                return Err(short(self));
            }
            left -= part as u64;
        }
        Ok(())
    }

    pub(crate) fn fault(&self, offset: u64, why: impl Into<String>) -> Error {
        Error::bytes(&self.path, offset, why)
    }
}
