//! Finding the sound blocks of a file that does not open as a table: its end is missing, or one of
//! the parts that say where everything is.
//!
//! ```text
//!   | block | block | damaged ...... | block | block | cut
//!   0       ^       ^                ^
//!           a frame: type, codec and checksum end it; the checksum covers its place
//! ```
//!
//! A block says nothing of its length. But its frame ends with a type, a codec and a checksum of
//! everything before, so the end of a block is where the two bytes may be these and the checksum
//! matches. Behind damage, a block begins where another one could have ended. The checksum covers
//! where in the file the block begins, so what passes is a block that was written there.
//!
//! The work is bounded, and so is the length of a block that is found.

use super::format::{BlockType, FOOTER_BYTES, Handle, TRAILER_BYTES, decode_block, read_exact};
use super::inspect::{Entries, Lost, Unsound};
use crate::block::{Block, Damage};
use crate::checksum::Growing;
use crate::compress::Codec;
use crate::error::Result;
use crate::key::{self, Comparator};
use crate::range_tombstones::RangeTombstone;
use crate::table::properties::decode_ranges;
use keyrack_vfs::File;

/// Bytes of the longest block that is found.
const BLOCK_BYTES_MAX: usize = 16 << 20;
/// How many times the bytes of the file are summed up, in all, and so many bytes at least.
const SUMS_MAX: u64 = 64;
const SUM_BYTES_MIN: u64 = 32 << 20;
/// What it costs to compare with a checksum, in bytes summed up.
const END_COST_BYTES: u64 = 64;
/// Bytes of the checksum at the end of a frame.
const CHECKSUM_BYTES: usize = 8;

/// Receives the ranges that a table removes.
pub(crate) type TombstoneVisitor<'a> = dyn FnMut(RangeTombstone) -> Result<()> + 'a;

/// Gives the entries of the sound data blocks of `file` to `entry`, in order, those of its list of
/// range tombstones to `range`, if that is sound, and what is wrong to `unsound`. O(bytes) with a
/// large constant.
///
/// # Errors
/// Those of the file system, of `entry` and of `range`; a codec that is not built in. Damage is
/// none.
pub(crate) fn salvage(
    file: &dyn File,
    order: &Comparator,
    entry: &mut Entries<'_>,
    range: &mut TombstoneVisitor<'_>,
    unsound: &mut dyn FnMut(Unsound),
) -> Result<()> {
    let len = file.len()?;
    let mut salvager = Salvager {
        file,
        order,
        len,
        window: Vec::new(),
        window_at: 0,
        budget: len.saturating_mul(SUMS_MAX).saturating_add(SUM_BYTES_MIN),
        last: None,
    };
    let mut at = 0;
    // Where the bytes begin that belong to no block that was found.
    let mut lost_at = None;
    let (mut is_data_over, mut is_ended) = (false, false);
    while at < len {
        let Some(end) = salvager.end_of(at)? else {
            if salvager.is_footer(at)? {
                is_ended = true;
                break;
            }
            lost_at.get_or_insert(at);
            at = salvager.next_start(at)?;
            continue;
        };
        let after = salvager.last.clone();
        let until = match salvager.give(at, end, entry, range)? {
            Frame::Data(first) => Some(first),
            Frame::Other => None,
            Frame::Unsound => {
                lost_at.get_or_insert(at);
                at = end;
                continue;
            }
        };
        let is_data = until.is_some();
        if let Some(offset) = lost_at.take() {
            let what = format!("no whole block up to byte {at}");
            let lost = (!is_data_over).then_some(Lost { after, until });
            unsound(Unsound { offset, what, lost });
        }
        is_data_over |= !is_data;
        at = end;
    }
    if !is_data_over && !is_ended {
        // It may have been cut between two blocks.
        lost_at.get_or_insert(len);
    }
    if let Some(offset) = lost_at {
        let lost = (!is_data_over).then_some(Lost { after: salvager.last, until: None });
        unsound(Unsound { offset, what: "no whole block from here on".to_owned(), lost });
    }
    Ok(())
}

/// What a frame holds.
enum Frame {
    /// Entries, and this is the first internal key.
    Data(Vec<u8>),
    /// The filter, the index, or another part that follows the data.
    Other,
    /// Nothing that can be used.
    Unsound,
}

struct Salvager<'a> {
    file: &'a dyn File,
    order: &'a Comparator,
    len: u64,
    window: Vec<u8>,
    window_at: u64,
    /// Bytes that may still be summed up.
    budget: u64,
    /// The last key that was given.
    last: Option<Vec<u8>>,
}

impl Salvager<'_> {
    /// The bytes of the file from `at` on, as far as a block may reach.
    fn bytes(&mut self, at: u64) -> Result<&[u8]> {
        let wanted = (self.len - at).min(BLOCK_BYTES_MAX as u64) as usize;
        let skip = at.checked_sub(self.window_at).and_then(|skip| usize::try_from(skip).ok());
        let skip = skip.filter(|skip| self.window.len().saturating_sub(*skip) >= wanted);
        let skip = match skip {
            Some(skip) => skip,
            None => {
                // Twice as much, so that it need not be read again for each block.
                let bytes = (self.len - at).min(2 * BLOCK_BYTES_MAX as u64) as usize;
                self.window.resize(bytes, 0);
                self.window_at = at;
                read_exact(self.file, at, &mut self.window)?;
                0
            }
        };
        Ok(&self.window[skip..skip + wanted])
    }

    /// Where the block ends that begins at `at`.
    fn end_of(&mut self, at: u64) -> Result<Option<u64>> {
        let mut budget = self.budget;
        let bytes = self.bytes(at)?;
        let mut growing = Growing::new(at);
        let mut summed = 0;
        let mut found = None;
        for end in ends(bytes) {
            let covered = end - CHECKSUM_BYTES;
            let cost = (covered - summed) as u64 + END_COST_BYTES;
            let Some(left) = budget.checked_sub(cost) else {
                budget = 0;
                break;
            };
            budget = left;
            growing.add(&bytes[summed..covered]);
            summed = covered;
            if growing.checksum().to_le_bytes() == bytes[covered..end] {
                found = Some(at + end as u64);
                break;
            }
        }
        self.budget = budget;
        Ok(found)
    }

    /// The first place behind `at` where a block may begin.
    fn next_start(&mut self, at: u64) -> Result<u64> {
        let budget = self.budget;
        let bytes = self.bytes(at)?;
        let may_begin = |&end: &usize| begins(&bytes[end..]);
        let next = if budget == 0 { None } else { ends(bytes).find(may_begin) };
        Ok(match next {
            Some(end) => at + end as u64,
            // Frames that begin within the last bytes may end behind them.
            None if budget == 0 => self.len,
            None => at + (bytes.len() as u64).saturating_sub(TRAILER_BYTES as u64).max(1),
        })
    }

    fn is_footer(&mut self, at: u64) -> Result<bool> {
        let (len, bytes) = (self.len, self.bytes(at)?);
        Ok(len - at == FOOTER_BYTES as u64 && bytes.ends_with(b"KRtable\n"))
    }

    /// Gives the entries of a frame, if it is a sound data block behind the last one, or the ranges
    /// of a sound list of them.
    fn give(
        &mut self,
        at: u64,
        end: u64,
        entry: &mut Entries<'_>,
        range: &mut TombstoneVisitor<'_>,
    ) -> Result<Frame> {
        let framed = self.bytes(at)?[..(end - at) as usize].to_vec();
        let (contents, stored) = framed.split_at(framed.len() - TRAILER_BYTES);
        let is_data = stored[0] == BlockType::Data as u8;
        if !is_data && stored[0] != BlockType::RangeDeletes as u8 {
            return Ok(Frame::Other);
        }
        let mut sum = [0; 8];
        sum.copy_from_slice(&stored[2..]);
        let handle =
            Handle { offset: at, bytes: contents.len() as u32, checksum: u64::from_le_bytes(sum) };
        let mut raw = Vec::new();
        let block_type = if is_data { BlockType::Data } else { BlockType::RangeDeletes };
        let decoded = decode_block(self.file.path(), &framed, handle, block_type, true, &mut raw);
        if let Err(error) = decoded {
            // A sound block is not lost because its codec is not built in.
            error.into_damage()?;
            return Ok(Frame::Unsound);
        }
        if !is_data {
            let Some(ranges) = decode_ranges(&raw) else { return Ok(Frame::Unsound) };
            let mut sound = ranges.into_iter().filter(|range| !range.is_empty(self.order));
            sound.try_for_each(range)?;
            return Ok(Frame::Other);
        }
        let Ok(block) = Block::new(raw) else { return Ok(Frame::Unsound) };
        let (mut first, mut last) = (None, Vec::new());
        let checked = block.verify(self.order, |key, _| {
            first.get_or_insert_with(|| key.to_vec());
            last = key.to_vec();
            match key::parse(key) {
                Some(_) => Ok(()),
                None => Err(Damage { at: 0, what: "an entry of an unknown kind" }),
            }
        });
        let begins = |first: &Vec<u8>| match &self.last {
            Some(last) => self.order.internal(last, first).is_lt(),
            None => true,
        };
        let Some(first) = first.filter(|first| checked.is_ok() && begins(first)) else {
            return Ok(Frame::Unsound);
        };
        let mut failed = None;
        let given = block.verify(self.order, |key, value| {
            entry(key, value).map_err(|error| {
                failed = Some(error);
                Damage { at: 0, what: "not wanted" }
            })
        });
        if let (Err(_), Some(error)) = (given, failed) {
            return Err(error);
        }
        self.last = Some(last);
        Ok(Frame::Data(first))
    }
}

/// Where frames may end, in bytes that begin with one.
fn ends(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let types = BlockType::Data as u8..=BlockType::Properties as u8;
    (TRAILER_BYTES + 1..=bytes.len()).filter(move |&end| {
        let (block_type, codec) = (bytes[end - TRAILER_BYTES], bytes[end - TRAILER_BYTES + 1]);
        types.contains(&block_type) && Codec::from_byte(codec).is_some()
    })
}

/// Whether bytes may be the beginning of a data block that is not too long: a raw one begins with
/// an entry that shares nothing, a compressed one with its raw length.
fn begins(bytes: &[u8]) -> bool {
    let is_raw = bytes.first() == Some(&0);
    let is_compressed = bytes
        .first_chunk::<4>()
        .is_some_and(|length| u32::from_le_bytes(*length) as usize <= BLOCK_BYTES_MAX);
    is_raw || is_compressed
}
