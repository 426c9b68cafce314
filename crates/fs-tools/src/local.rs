//! Files of the machine as streams: a local file, or standard input.

use keyrack_console::Failure;
use keyrack_vfs::{File, Fs, OpenOptions, RealFs};
use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Reads a local file from its beginning on.
pub(crate) struct Stream {
    file: Arc<dyn File>,
    offset: u64,
}

impl Stream {
    pub(crate) fn new(file: Arc<dyn File>) -> Stream {
        Stream::at(file, 0)
    }

    /// From a place on.
    pub(crate) fn at(file: Arc<dyn File>, offset: u64) -> Stream {
        Stream { file, offset }
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read_at(self.offset, buf).map_err(std::io::Error::other)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// A local file; `-` is standard input.
pub(crate) fn read_local(name: &OsStr) -> Result<Box<dyn Read>, Failure> {
    if name == "-" {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    let file = RealFs.open(Path::new(name), &OpenOptions::new().read(true))?;
    Ok(Box::new(Stream::new(file)))
}
