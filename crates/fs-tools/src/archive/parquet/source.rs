//! A local file as the library reads it: in ranges, each held against the length of the file before
//! memory is taken for it.

use crate::local::Stream;
use bytes::Bytes;
use keyrack_vfs::File;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use std::io::{BufReader, Read};
use std::sync::Arc;

/// A file, and how long it is.
#[derive(Clone)]
pub(super) struct Source {
    file: Arc<dyn File>,
    len: u64,
}

impl Source {
    pub(super) fn new(file: Arc<dyn File>) -> keyrack_vfs::Result<Source> {
        let len = file.len()?;
        Ok(Source { file, len })
    }

    /// From a place on.
    pub(super) fn from(&self, offset: u64) -> Stream {
        Stream::at(Arc::clone(&self.file), offset)
    }
}

impl Length for Source {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for Source {
    type T = BufReader<Stream>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(BufReader::new(self.from(start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let end = start.checked_add(length as u64).filter(|end| *end <= self.len);
        if end.is_none() {
            return Err(ParquetError::EOF(format!(
                "it wants {length} bytes from {start} on, and has {}",
                self.len
            )));
        }
        let mut bytes = vec![0; length];
        self.from(start).read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}
