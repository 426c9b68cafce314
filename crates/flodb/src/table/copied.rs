//! The check of a table while it is copied: every block against the checksum that points to it.
//!
//! ```text
//!   data block, its checksum | .. | filter | range deletes | index | properties | footer
//!        as the index in memory says        as the properties say                as it must be
//! ```
//!
//! The chain of checksums begins in the manifest of the store, so bytes that pass are those that
//! were written. Blocks follow each other without a gap. No entry is parsed: what is wrong with
//! correct bytes is found by [`Table::verify`](super::Table).
//!
//! **Account.** A hash of each byte, at some gigabytes a second. No block is held.

use super::format::{FOOTER_BYTES, Handle};
use crate::checksum::Growing;
use crate::open_table::OpenTable;
use keyrack_store::{ContentCheck, Unsound};
use std::sync::Arc;

/// Bytes of the checksum after a block.
const SUM_BYTES: u64 = 8;

/// Takes the bytes of a table in order.
pub(crate) struct TableCheck {
    table: Arc<OpenTable>,
    /// Bytes that were taken.
    at: u64,
    index: usize,
    /// The block that comes; `None` before the footer.
    block: Option<Handle>,
    sum: Growing,
}

impl TableCheck {
    pub(crate) fn new(table: Arc<OpenTable>) -> Self {
        let block = table.table().stored_block(0);
        let sum = Growing::new(0);
        TableCheck { table, at: 0, index: 0, block, sum }
    }

    /// Takes bytes of a block. Returns how many.
    fn take_block(&mut self, block: Handle, bytes: &[u8]) -> Result<usize, Unsound> {
        let wrong = |what: &str| Err(Unsound { offset: block.offset, what: what.to_owned() });
        if self.at < block.offset {
            return wrong("a block that is not in its place");
        }
        let covered_end = block.end() - SUM_BYTES;
        let end = if self.at < covered_end { covered_end } else { block.end() };
        let count = usize::try_from(end - self.at).unwrap_or(usize::MAX).min(bytes.len());
        if self.at < covered_end {
            self.sum.add(&bytes[..count]);
        } else {
            let from = (self.at - covered_end) as usize;
            if bytes[..count] != block.checksum.to_le_bytes()[from..from + count] {
                return wrong("a block that is not the one expected here");
            }
        }
        self.at += count as u64;
        if self.at == covered_end && self.sum.checksum() != block.checksum {
            return wrong("a block with a wrong checksum");
        }
        if self.at == block.end() {
            self.index += 1;
            self.block = self.table.table().stored_block(self.index);
            self.sum = Growing::new(self.at);
        }
        Ok(count)
    }
}

impl ContentCheck for TableCheck {
    fn take(&mut self, mut bytes: &[u8]) -> Result<(), Unsound> {
        while let Some(block) = self.block
            && !bytes.is_empty()
        {
            let count = self.take_block(block, bytes)?;
            bytes = &bytes[count..];
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let (footer, offset) = self.table.table().stored_footer();
        let from = usize::try_from(self.at - offset).unwrap_or(FOOTER_BYTES);
        if !footer.get(from..).is_some_and(|rest| rest.starts_with(bytes)) {
            return Err(Unsound { offset, what: "a footer with a wrong checksum".to_owned() });
        }
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn end(&mut self) -> Result<(), Unsound> {
        let (footer, offset) = self.table.table().stored_footer();
        if self.at == offset + footer.len() as u64 {
            return Ok(());
        }
        Err(Unsound { offset: self.at, what: "the file does not end as a table".to_owned() })
    }
}
