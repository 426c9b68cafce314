//! The block of data after a line that stores: how long it is said to be, and where it ends.

use super::refusal::{Fault, Refusal};
use crate::memcached::limits::Limits;
use crate::memcached::parsed::Parsed;
use crate::number::parse_u64;

/// A block that a line has announced and that can be read or read over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// Bytes of the line before it.
    line_bytes: usize,
    /// Bytes of the value, without the line's end after it.
    value_bytes: u64,
}

impl Block {
    /// The block of the length that `word` says. Whoever says no length, or one that nothing will
    /// wait for, sends bytes that could be taken for commands: such a connection is closed.
    pub(crate) fn announced(
        word: Option<&[u8]>,
        line_bytes: usize,
        limits: &Limits,
    ) -> Result<Block, Refusal> {
        let closed =
            |fault| Err(Refusal { fault, noreply: false, skip: line_bytes as u64, close: true });
        let Some(word) = word else { return closed(Fault::Unknown) };
        let Some(value_bytes) = parse_u64(word) else { return closed(Fault::Format) };
        if value_bytes > limits.skip_bytes_max.max(limits.value_bytes_max as u64) {
            return closed(Fault::TooLarge);
        }
        Ok(Block { line_bytes, value_bytes })
    }

    /// Where the next command begins.
    fn end(&self) -> u64 {
        (self.line_bytes as u64).saturating_add(self.value_bytes).saturating_add(2)
    }

    /// Refuses the command and reads over the block.
    pub(crate) fn refuse(&self, fault: Fault, noreply: bool) -> Refusal {
        Refusal { fault, noreply, skip: self.end(), close: false }
    }

    /// The value, and the bytes of line and block together.
    pub(crate) fn read<'a>(
        &self,
        buffer: &'a [u8],
        noreply: bool,
        limits: &Limits,
    ) -> Result<Parsed<&'a [u8]>, Refusal> {
        let end = match usize::try_from(self.end()) {
            Ok(end) if self.value_bytes <= limits.value_bytes_max as u64 => end,
            _ => return Err(self.refuse(Fault::TooLarge, noreply)),
        };
        let Some(block) = buffer.get(self.line_bytes..end) else {
            return Ok(Parsed::Incomplete(end));
        };
        match block.strip_suffix(b"\r\n") {
            Some(value) => Ok(Parsed::Complete(value, end)),
            None => Err(self.refuse(Fault::DataChunk, noreply)),
        }
    }
}
