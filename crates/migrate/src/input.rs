//! Bytes from a file or a connection, with their offset, their end and their checksum.
//!
//! ```text
//!   base      at            filled
//!   | taken   | buffered    | room |   <-- read
//!   ^ offset of buffer[0]
//! ```
//!
//! **Invariant:** a length is compared with a limit and with the bytes that are left before memory
//! is taken, and memory is taken for bytes that arrived.

use crate::error::{Error, Result};
use crc_fast::{CrcAlgorithm, Digest};
use keyrack_vfs::File;
use std::io::{self, Read};
use std::sync::Arc;

/// Bytes of the buffer at first. It grows for a message that needs more.
const BUFFER_BYTES: usize = 64 << 10;
/// The largest buffer: the largest message of the protocol.
const BUFFER_BYTES_MAX: usize = 1 << 30;

/// A file as a stream.
pub(crate) struct FileStream {
    file: Arc<dyn File>,
    offset: u64,
}

impl FileStream {
    pub(crate) fn new(file: Arc<dyn File>) -> Self {
        FileStream { file, offset: 0 }
    }
}

impl Read for FileStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(self.offset, buffer).map_err(keyrack_vfs::Error::into_io)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// A stream of bytes that is read by formats.
pub(crate) struct Input<'r> {
    source: Box<dyn Read + 'r>,
    name: String,
    buffer: Vec<u8>,
    at: usize,
    filled: usize,
    base: u64,
    bytes_total: Option<u64>,
    digest: Option<Digest>,
    /// Bytes of the buffer that the digest has.
    digested: usize,
}

impl<'r> Input<'r> {
    /// A stream with a name for errors, and its length where that is known.
    pub(crate) fn new(
        source: impl Read + 'r,
        name: impl Into<String>,
        bytes_total: Option<u64>,
    ) -> Self {
        Input {
            source: Box::new(source),
            name: name.into(),
            buffer: vec![0; BUFFER_BYTES],
            at: 0,
            filled: 0,
            base: 0,
            bytes_total,
            digest: None,
            digested: 0,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Bytes that were taken.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    pub(crate) fn bytes_total(&self) -> Option<u64> {
        self.bytes_total
    }

    /// The offset at which the present part ends, if that is known.
    pub(crate) fn set_end(&mut self, end: Option<u64>) {
        self.bytes_total = end;
    }

    pub(crate) fn damage(&self, offset: u64, what: impl Into<String>) -> Error {
        Error::Damage { name: self.name.clone(), offset, what: what.into() }
    }

    /// Damage at the present offset.
    pub(crate) fn damaged<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(self.damage(self.offset(), what))
    }

    /// What is buffered and not taken.
    pub(crate) fn buffered(&self) -> &[u8] {
        &self.buffer[self.at..self.filled]
    }

    /// Takes `count` buffered bytes.
    pub(crate) fn consume(&mut self, count: usize) {
        assert!(count <= self.filled - self.at, "no more is taken than was read");
        self.at += count;
    }

    /// Reads more behind what is buffered. False at the end.
    ///
    /// # Errors
    /// The read fails; what is buffered stays, and a later call goes on.
    pub(crate) fn fill(&mut self) -> Result<bool> {
        if self.at == self.filled || (self.filled == self.buffer.len() && self.at > 0) {
            self.digest_taken();
            self.buffer.copy_within(self.at..self.filled, 0);
            self.base += self.at as u64;
            self.filled -= self.at;
            (self.at, self.digested) = (0, 0);
        }
        if self.filled == self.buffer.len() {
            if self.filled >= BUFFER_BYTES_MAX {
                return self.damaged(format!("a message of more than {BUFFER_BYTES_MAX} bytes"));
            }
            self.buffer.resize(self.filled * 2, 0);
        }
        loop {
            match self.source.read(&mut self.buffer[self.filled..]) {
                Ok(count) => {
                    self.filled += count;
                    return Ok(count > 0);
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(Error::io(&self.name, cause)),
            }
        }
    }

    /// The next byte, which is not taken.
    pub(crate) fn peek(&mut self) -> Result<Option<u8>> {
        if self.buffered().is_empty() && !self.fill()? {
            return Ok(None);
        }
        Ok(self.buffered().first().copied())
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        let mut done = 0;
        while done < N {
            let buffered = self.buffered();
            let count = buffered.len().min(N - done);
            array[done..done + count].copy_from_slice(&buffered[..count]);
            self.consume(count);
            done += count;
            if done < N && !self.fill()? {
                return self.damaged("the file ends too early");
            }
        }
        Ok(array)
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Refuses a length above `bytes_max` or above what is left.
    pub(crate) fn check_length(&self, bytes: u64, bytes_max: u64) -> Result<()> {
        if bytes > bytes_max {
            return self.damaged(format!("a length of {bytes} bytes, above {bytes_max}"));
        }
        match self.bytes_total {
            Some(total) if bytes > total.saturating_sub(self.offset()) => {
                self.damaged(format!("a length of {bytes} bytes, beyond the end"))
            }
            _ => Ok(()),
        }
    }

    /// Replaces `into` by the next `bytes`, of which there may be at most `bytes_max`.
    pub(crate) fn bytes(&mut self, bytes: u64, bytes_max: u64, into: &mut Vec<u8>) -> Result<()> {
        into.clear();
        self.pieces(bytes, bytes_max, &mut |piece| into.extend_from_slice(piece))
    }

    /// Passes over the next `bytes`.
    pub(crate) fn skip(&mut self, bytes: u64, bytes_max: u64) -> Result<()> {
        self.pieces(bytes, bytes_max, &mut |_| {})
    }

    fn pieces(&mut self, bytes: u64, bytes_max: u64, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.check_length(bytes, bytes_max)?;
        let mut left = bytes;
        while left > 0 {
            let buffered = self.buffered();
            let count = buffered.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            each(&buffered[..count]);
            self.consume(count);
            left -= count as u64;
            if left > 0 && self.buffered().is_empty() && !self.fill()? {
                return self.damaged("the file ends too early");
            }
        }
        Ok(())
    }

    /// Begins the checksum of what is taken from here on.
    pub(crate) fn begin_checksum(&mut self) {
        self.digest = Some(Digest::new(CrcAlgorithm::Crc64Redis));
        self.digested = self.at;
    }

    /// The checksum of what was taken since [`Input::begin_checksum`].
    pub(crate) fn end_checksum(&mut self) -> u64 {
        self.digest_taken();
        self.digest.take().map_or(0, |digest| digest.finalize())
    }

    fn digest_taken(&mut self) {
        if let Some(digest) = &mut self.digest {
            digest.update(&self.buffer[self.digested..self.at]);
            self.digested = self.at;
        }
    }
}
