//! Checksums of the bytes of a large file: one for each block of 64 KiB, in the log beside the
//! records.
//!
//! ```text
//!   key   0: 16 bytes | "sum" | number: 16        header: version, length
//!   key   0: 16 bytes | "sum" | number: 16 | row  (index: u8, CRC-32C: u32) of up to 256 blocks
//! ```
//!
//! A block without a checksum holds zeros: a file with holes has as many checksums as it has bytes.
//! The header is written with the last row and deleted before the first byte changes, so a header
//! says that every checksum is right.
//!
//! **Invariant:** `blocks` covers `size` bytes. A block that a write covers whole, or extends, has
//! a checksum at no cost; one that a write changes in part has none until the file is sealed.

use crate::error::{Error, Result};
use crate::id::{DirId, Inode};
use crate::record::Key;
use crc_fast::{CrcAlgorithm, checksum_combine, crc32_iscsi};
use keyrack_flodb::{Batch, Db};
use std::collections::BTreeMap;

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: u64 = 64 << 10;
/// Blocks of a row.
const ROW_BLOCKS: u64 = 256;
const VERSION: u8 = 1;
const PREFIX: &[u8] = b"sum";

/// What a block without a checksum holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Zeros,
    /// Nobody knows: the file was written by an older program, or a crash took its checksums.
    Unknown,
}

/// The checksums of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sums {
    size: u64,
    /// `None`: it has changed, and its checksum is still to be computed.
    blocks: BTreeMap<u64, Option<u32>>,
    rest: Rest,
}

impl Sums {
    /// Of an empty file.
    pub(crate) fn empty() -> Sums {
        Sums { size: 0, blocks: BTreeMap::new(), rest: Rest::Zeros }
    }

    /// Of a file of which nothing is known but its length.
    pub(crate) fn unknown(size: u64) -> Sums {
        Sums { size, blocks: BTreeMap::new(), rest: Rest::Unknown }
    }

    /// Bytes that are covered.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of a block that are part of the file.
    pub(crate) fn covered(&self, block: u64) -> u64 {
        self.size.saturating_sub(block * BLOCK_BYTES).min(BLOCK_BYTES)
    }

    /// Whether [`Sums::fits`] says anything about a block.
    pub(crate) fn is_known(&self, block: u64) -> bool {
        match self.blocks.get(&block) {
            Some(sum) => sum.is_some(),
            None => self.rest == Rest::Zeros,
        }
    }

    /// Whether a block, whole as far as it is covered, has its checksum.
    pub(crate) fn fits(&self, block: u64, bytes: &[u8]) -> bool {
        match (self.blocks.get(&block), self.rest) {
            (Some(Some(sum)), _) => crc32_iscsi(bytes) == *sum,
            (None, Rest::Zeros) => bytes.iter().all(|byte| *byte == 0),
            (Some(None), _) | (None, Rest::Unknown) => true,
        }
    }

    /// The blocks of which a write of `len` bytes at `offset` replaces a part: the last two at
    /// most. One that is extended is not among them.
    pub(crate) fn partly(&self, offset: u64, len: u64) -> Vec<u64> {
        let is_partly = |piece: &Piece| {
            let covered = self.covered(piece.block);
            piece.from < covered && (piece.from > 0 || piece.to < covered)
        };
        let edges = [pieces(offset, len).next(), pieces(offset, len).last()];
        let mut found: Vec<u64> =
            edges.into_iter().flatten().filter(is_partly).map(|piece| piece.block).collect();
        found.dedup();
        found
    }

    /// A block changes in a way that is not followed.
    pub(crate) fn forget(&mut self, block: u64) {
        if self.covered(block) > 0 && (self.rest == Rest::Zeros || self.blocks.contains_key(&block))
        {
            self.blocks.insert(block, None);
        }
    }

    /// A write failed: nobody knows what of it has come.
    pub(crate) fn spoil(&mut self, offset: u64, len: u64) {
        pieces(offset, len).for_each(|piece| self.forget(piece.block));
    }

    /// Bytes were written.
    pub(crate) fn wrote(&mut self, offset: u64, bytes: &[u8]) {
        if offset > self.size && !bytes.is_empty() {
            self.extend(offset);
        }
        for piece in pieces(offset, bytes.len() as u64) {
            let covered = self.covered(piece.block);
            let start = (piece.block * BLOCK_BYTES + piece.from - offset) as usize;
            let data = &bytes[start..start + (piece.to - piece.from) as usize];
            if piece.from == 0 && piece.to >= covered {
                self.blocks.insert(piece.block, Some(crc32_iscsi(data)));
            } else if piece.from == covered {
                self.append(piece.block, covered, data);
            } else {
                self.forget(piece.block);
            }
        }
        self.size = self.size.max(offset + bytes.len() as u64);
    }

    /// The file was cut, or extended by zeros.
    pub(crate) fn resize(&mut self, size: u64) {
        if size >= self.size {
            return self.extend(size);
        }
        let last = size / BLOCK_BYTES;
        drop(self.blocks.split_off(&(last + u64::from(!size.is_multiple_of(BLOCK_BYTES)))));
        self.size = size;
        if self.blocks.contains_key(&last) {
            self.forget(last);
        }
    }

    fn extend(&mut self, size: u64) {
        let block = self.size / BLOCK_BYTES;
        let covered = self.covered(block);
        let end = size.min((block + 1).saturating_mul(BLOCK_BYTES));
        if covered > 0 && self.blocks.contains_key(&block) {
            self.append(block, covered, &vec![0; (end - self.size) as usize]);
        }
        self.size = size;
    }

    fn append(&mut self, block: u64, covered: u64, data: &[u8]) {
        let before = match (self.blocks.get(&block), self.rest) {
            (Some(Some(sum)), _) => *sum,
            (None, Rest::Zeros) => crc32_iscsi(&vec![0; covered as usize]),
            (Some(None), _) | (None, Rest::Unknown) => return,
        };
        let (before, added) = (u64::from(before), u64::from(crc32_iscsi(data)));
        let both = checksum_combine(CrcAlgorithm::Crc32Iscsi, before, added, data.len() as u64);
        self.blocks.insert(block, Some(both as u32));
    }

    /// The blocks that have changed and have no checksum yet. Of a file of which nothing was known
    /// these are all.
    pub(crate) fn changed(&self) -> Vec<u64> {
        let all = match self.rest {
            Rest::Zeros => 0,
            Rest::Unknown => self.size.div_ceil(BLOCK_BYTES),
        };
        let unknown = (0..all).filter(|block| !self.blocks.contains_key(block));
        let changed = self.blocks.iter().filter(|(_, sum)| sum.is_none()).map(|(block, _)| *block);
        changed.chain(unknown).collect()
    }

    /// Whether a look at all bytes is needed before there are checksums.
    pub(crate) fn is_unknown(&self) -> bool {
        self.rest == Rest::Unknown
    }

    /// A block was read, as far as it is covered.
    pub(crate) fn computed(&mut self, block: u64, bytes: &[u8]) {
        self.blocks.insert(block, Some(crc32_iscsi(bytes)));
    }

    /// What [`Sums::changed`] named has been computed.
    pub(crate) fn complete(&mut self) {
        self.rest = Rest::Zeros;
    }

    /// Puts the rows and the header of a file into `batch`. `write` may write the batch, and clear
    /// it, after each row.
    ///
    /// # Errors
    /// Those of `write`.
    ///
    /// # Panics
    /// If a block that [`Sums::changed`] named was not computed.
    pub(crate) fn store(
        &self,
        inode: Inode,
        batch: &mut Batch,
        mut write: impl FnMut(&mut Batch) -> Result<()>,
    ) -> Result<()> {
        let mut row: Option<(u64, Vec<u8>)> = None;
        for (block, sum) in &self.blocks {
            let sum = sum.expect("every block was computed before the file is sealed");
            let number = block / ROW_BLOCKS;
            if let Some((at, bytes)) = row.take_if(|(at, _)| *at != number) {
                batch.put(&row_key(inode, at), &bytes);
                write(batch)?;
            }
            let (_, bytes) = row.get_or_insert_with(|| (number, Vec::new()));
            bytes.push((block % ROW_BLOCKS) as u8);
            bytes.extend_from_slice(&sum.to_be_bytes());
        }
        if let Some((at, bytes)) = row {
            batch.put(&row_key(inode, at), &bytes);
        }
        let size = self.size.to_be_bytes();
        batch.put(&header_key(inode), &[&[VERSION], &size[..]].concat());
        write(batch)
    }

    /// The checksums of the blocks from `first` to `last`, if the log says that the file is sealed.
    ///
    /// # Errors
    /// [`Error::Corruption`] if a row is none; those of the store.
    pub(crate) fn load(db: &Db, inode: Inode, (first, last): (u64, u64)) -> Result<Option<Sums>> {
        let Some(header) = db.get(&header_key(inode))? else { return Ok(None) };
        let damaged = || Error::Corruption {
            path: db.dir().to_owned(),
            what: format!("the checksums of the large file {inode} are damaged"),
        };
        let size = header.split_first().filter(|(version, _)| **version == VERSION);
        let size = size.and_then(|(_, size)| size.try_into().ok()).map(u64::from_be_bytes);
        let size = size.ok_or_else(damaged)?;
        let mut sums = Sums { size, blocks: BTreeMap::new(), rest: Rest::Zeros };
        let (first, last) = (first / ROW_BLOCKS, last / ROW_BLOCKS);
        if first == last {
            // A row that is not there: 16 MiB of zeros.
            let row = db.get_with(&row_key(inode, first), |row| sums.add_row(first, row))?;
            return if row.unwrap_or(true) { Ok(Some(sums)) } else { Err(damaged()) };
        }
        let mut iter = db.iter()?;
        iter.seek(&row_key(inode, first))?;
        let prefix = header_key(inode);
        while let Some((key, row)) = iter.entry() {
            let Some(number) = key.strip_prefix(&prefix[..]) else { break };
            let number = u64::from_be_bytes(number.try_into().map_err(|_| damaged())?);
            if number > last {
                break;
            }
            if !sums.add_row(number, row) {
                return Err(damaged());
            }
            iter.next()?;
        }
        Ok(Some(sums))
    }

    /// Whether it is a row.
    fn add_row(&mut self, number: u64, row: &[u8]) -> bool {
        let (sums, rest) = row.as_chunks::<5>();
        for [index, sum @ ..] in sums {
            let block = number * ROW_BLOCKS + u64::from(*index);
            self.blocks.insert(block, Some(u32::from_be_bytes(*sum)));
        }
        rest.is_empty()
    }
}

/// The key whose record says that a file is sealed.
pub(crate) fn header_key(inode: Inode) -> Key {
    Key::entry(DirId::SYSTEM, &[PREFIX, &inode.to_u128().to_be_bytes()].concat())
}

fn row_key(inode: Inode, row: u64) -> Key {
    let number = inode.to_u128().to_be_bytes();
    Key::entry(DirId::SYSTEM, &[PREFIX, &number, &row.to_be_bytes()].concat())
}

/// Deletes what [`Sums::store`] has put.
pub(crate) fn delete(inode: Inode, batch: &mut Batch) {
    batch.delete(&header_key(inode));
    // One byte more than the largest row has.
    let number = inode.to_u128().to_be_bytes();
    let end = Key::entry(DirId::SYSTEM, &[PREFIX, &number, &[0xff; 9]].concat());
    batch.delete_range(&row_key(inode, 0), &end);
}

/// The part of a write that concerns one block.
struct Piece {
    block: u64,
    from: u64,
    to: u64,
}

fn pieces(offset: u64, len: u64) -> impl DoubleEndedIterator<Item = Piece> {
    let end = offset + len;
    (offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)).filter(move |_| len > 0).map(move |block| {
        let start = block * BLOCK_BYTES;
        Piece { block, from: offset.max(start) - start, to: end.min(start + BLOCK_BYTES) - start }
    })
}

/// The blocks of `len` bytes at `offset`.
pub(crate) fn blocks_of(offset: u64, len: u64) -> (u64, u64) {
    (offset / BLOCK_BYTES, (offset + len).saturating_sub(1) / BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::LogId;
    use keyrack_flodb::{Options, WriteOptions};
    use keyrack_vfs::MemFs;
    use keyrack_workload::Rng;
    use std::path::Path;
    use std::sync::Arc;

    /// Fills in what is missing, as sealing does.
    fn seal(sums: &mut Sums, model: &[u8]) {
        for block in sums.changed() {
            let start = (block * BLOCK_BYTES) as usize;
            let end = start + sums.covered(block) as usize;
            sums.computed(block, &model[start..end]);
        }
    }

    fn assert_fits(sums: &Sums, model: &[u8], step: u32) {
        assert_eq!(sums.size(), model.len() as u64, "step {step}");
        for (block, bytes) in model.chunks(BLOCK_BYTES as usize).enumerate() {
            assert!(sums.fits(block as u64, bytes), "step {step}, block {block}");
        }
    }

    #[test]
    fn checksums_follow_every_write_and_cut() {
        let seed = 20_261_124;
        println!("SEED={seed}");
        let mut rng = Rng::from_seed(seed);
        let (mut sums, mut model) = (Sums::empty(), Vec::new());
        for step in 0..2_000_u32 {
            let max = 5 * BLOCK_BYTES;
            // Often at an edge of a block or at the end.
            let at = match rng.below(3) {
                0 => rng.below(max),
                1 => rng.below(5) * BLOCK_BYTES,
                _ => model.len() as u64,
            };
            if rng.below(4) == 0 {
                sums.resize(at);
                model.resize(at as usize, 0);
            } else {
                let bytes = vec![step as u8 | 1; rng.below(3 * BLOCK_BYTES) as usize];
                sums.wrote(at, &bytes);
                if !bytes.is_empty() {
                    let (at, end) = (at as usize, at as usize + bytes.len());
                    model.resize(model.len().max(end), 0);
                    model[at..end].copy_from_slice(&bytes);
                }
            }
            assert_fits(&sums, &model, step);
            if step % 10 == 0 {
                seal(&mut sums, &model);
                assert!(sums.changed().is_empty());
                assert_fits(&sums, &model, step);
            }
        }
    }

    #[test]
    fn a_hole_of_an_exabyte_has_no_checksums_and_is_zeros() {
        let mut sums = Sums::empty();
        sums.resize(1 << 60);
        sums.wrote((1 << 60) - 5, b"end");
        assert_eq!(sums.size(), 1 << 60);
        assert_eq!(sums.blocks.len(), 1);
        assert!(sums.fits(77, &[0; 9]) && !sums.fits(77, &[0, 1]));
    }

    #[test]
    fn what_is_stored_is_loaded() {
        let fs = Arc::new(MemFs::new());
        let db = Db::open_in(fs, Path::new("/db"), Options::default()).unwrap();
        let inode = Inode::file(LogId(9), 77);
        let all = (0, u64::MAX);
        let mut sums = Sums::empty();
        for block in [0, 1, 255, 256, 100_000, 1 << 44] {
            sums.wrote(block * BLOCK_BYTES, &[block as u8 | 1; 10]);
        }
        assert_eq!(Sums::load(&db, inode, all).unwrap(), None);
        let mut batch = Batch::new();
        let stored = sums.store(inode, &mut batch, |batch| {
            db.write(batch, WriteOptions::default())?;
            batch.clear();
            Ok(())
        });
        stored.unwrap();
        assert_eq!(Sums::load(&db, inode, all).unwrap().as_ref(), Some(&sums));
        let some = Sums::load(&db, inode, (256, 300)).unwrap().unwrap();
        assert_eq!((some.size, some.blocks.len()), (sums.size, 1));
        let other = Inode::file(LogId(9), 78);
        assert_eq!(Sums::load(&db, other, all).unwrap(), None);
        db.put(&row_key(inode, 0), &[1, 2]).unwrap();
        assert!(Sums::load(&db, inode, all).is_err());
        assert!(Sums::load(&db, inode, (0, 1)).is_err());
        delete(inode, &mut batch);
        db.write(&batch, WriteOptions::default()).unwrap();
        assert_eq!(Sums::load(&db, inode, all).unwrap(), None);
        let mut iter = db.iter().unwrap();
        iter.seek_first().unwrap();
        assert!(!iter.is_valid(), "no row stays");
    }
}
