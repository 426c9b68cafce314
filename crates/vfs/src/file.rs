//! An open file, a mapping of one, and a held lock: the three things that [`Fs`](crate::Fs) hands
//! out.
//!
//! A file system implements the *primitive* calls, which may do less than asked: `read_some_at` and
//! `write_some_at` move some bytes, or fail with "interrupted". Callers use the *full* calls built
//! on them here: `read_at`, `write_at`, `append`. Those loop until all is done, the file ends, or a
//! real error comes. Because the loops sit above the primitives, a fault injected below tests the
//! loops as well.
//!
//! Files have no cursor. Every read and write names its offset, so one handle serves many threads.

use std::fmt::Debug;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;

use crate::error::{Error, Operation, Result};

/// Interruptions in a row, with no byte moved between them, after which a full call gives up and
/// reports the interruption. A signal storm ends long before; a broken device does not hang us.
pub const INTERRUPTS_MAX: u32 = 1_000;

/// An open file. All methods take `&self` and may be called from many threads at once.
///
/// Writes of overlapping ranges at the same time leave an unspecified mixture; other writes are
/// independent.
pub trait File: Send + Sync + Debug {
    /// The path that this file was opened by. A later rename does not change it.
    fn path(&self) -> &Path;

    /// Primitive: reads up to `buf.len()` bytes at `offset`. `Ok(0)` means end of file or an empty
    /// `buf`.
    ///
    /// # Errors
    /// Fails when the system does, "interrupted" included.
    fn read_some_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// Primitive: writes a first part of `bytes` at `offset` and returns its length. Writing past
    /// the end extends the file; a gap reads as zeros.
    ///
    /// # Errors
    /// Fails when the system does, "interrupted" included.
    fn write_some_at(&self, offset: u64, bytes: &[u8]) -> Result<usize>;

    /// The lock that [`File::append`] holds, so that appends through one handle do not interleave.
    fn append_turn(&self) -> &Mutex<()>;

    /// Length in bytes.
    ///
    /// # Errors
    /// Fails when the system does.
    fn len(&self) -> Result<u64>;

    /// Cuts the file to `len` bytes, or extends it with a hole that reads as zeros and has no space
    /// reserved. The new length is durable after the next sync.
    ///
    /// # Errors
    /// Refuses ([`Error::Mapped`]) to cut below the end of a live mapping of this file made in this
    /// process through this crate. Fails when the system does.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Reserves real space for `len` bytes at `offset` and extends the file to the end of the range
    /// if it was shorter. New bytes read as zeros; bytes already there keep their value. A full
    /// disk is reported here, and later writes into the range do not meet it (but copy-on-write
    /// file systems, such as btrfs, do not promise that for a second overwrite). Where the file
    /// system cannot reserve, zeros are written instead, so nobody else may write the range during
    /// the call. After an error the length is unspecified between the old one and the end of the
    /// range.
    ///
    /// Cost: one system call where the file system can reserve, else O(`len`).
    ///
    /// # Errors
    /// Fails with "no space" when the disk is full, and when the system does.
    fn allocate(&self, offset: u64, len: u64) -> Result<()>;

    /// Makes all bytes written so far durable, together with the length needed to read them. The
    /// name of the file is not included: see [`Fs::sync_dir`](crate::Fs::sync_dir). Times may be
    /// left behind.
    ///
    /// # Errors
    /// **Final**: after a failure the bytes written since the last good sync may be lost, and a
    /// later sync that succeeds does not bring them back. Stop using the file for writing.
    fn sync_data(&self) -> Result<()>;

    /// As [`File::sync_data`], and all metadata of the file as well (times, mode). Still not its
    /// name.
    ///
    /// # Errors
    /// As for [`File::sync_data`].
    fn sync_all(&self) -> Result<()>;

    /// Maps `len` bytes at `offset`, for reading and writing, shared with all other users of the
    /// file.
    ///
    /// A mapping must never fault. So the range has to lie within the file, and its space is
    /// reserved here as by [`File::allocate`] if it is not reserved yet. While the mapping lives,
    /// cutting the file below its end is refused to everybody who comes through this crate in this
    /// process. Another process that cuts the file could still make it fault: take
    /// [`Fs::lock`](crate::Fs::lock) first.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] when the range is empty or reaches beyond the end of the file; "no
    /// space" when it cannot be reserved; otherwise when the system does. The file must be open for
    /// reading and writing.
    fn map(&self, offset: u64, len: u64) -> Result<Box<dyn Mapping>>;

    /// As [`File::map`] of the first `len` bytes, for a log that flushes all that it writes:
    /// [`Mapping::flush`] writes past the page cache. `None` where that is not to be had.
    ///
    /// - The memory begins as zeros, whatever the file holds. A flush writes multiples of 4 KiB
    ///   around its range.
    /// - What is not flushed is lost with the process, and not seen by readers of the file.
    /// - No space is reserved. Call [`File::allocate`] before a flush; otherwise that may find the
    ///   disk full.
    ///
    /// # Errors
    /// Fails when the system does.
    fn map_direct(&self, len: u64) -> Result<Option<Box<dyn Mapping>>> {
        let _ = len;
        Ok(None)
    }

    /// Plays what a kernel does after a failed sync: marks the unsynced bytes of the range clean,
    /// so that they never reach the disk. Simulated files implement it and a fault injector calls
    /// it. On a real file it does nothing.
    fn lose_unsynced(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Is the length zero?
    ///
    /// # Errors
    /// As for [`File::len`].
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Full read: fills `buf` from `offset`, stopping only at the end of the file. Returns the
    /// bytes read.
    ///
    /// # Errors
    /// Fails when the system does. Short reads and interruptions are absorbed, up to
    /// [`INTERRUPTS_MAX`] interruptions in a row.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        let mut interrupts = 0;
        while done < buf.len() {
            match self.read_some_at(offset.saturating_add(done as u64), &mut buf[done..]) {
                Ok(0) => break,
                Ok(moved) => {
                    done += moved;
                    interrupts = 0;
                }
                Err(error) if error.is_interrupted() && interrupts < INTERRUPTS_MAX => {
                    interrupts += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Full read that treats the end of the file as an error.
    ///
    /// # Errors
    /// [`Error::UnexpectedEnd`] when the file has fewer bytes; otherwise as for [`File::read_at`].
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let found = self.read_at(offset, buf)?;
        if found == buf.len() {
            return Ok(());
        }
        Err(Error::UnexpectedEnd {
            path: self.path().to_owned(),
            offset,
            wanted: buf.len() as u64,
            found: found as u64,
        })
    }

    /// Full write of `bytes` at `offset`.
    ///
    /// # Errors
    /// Fails when the system does; a first part of the bytes may have been written by then. Short
    /// writes and interruptions are absorbed, up to [`INTERRUPTS_MAX`] interruptions in a row.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        let mut interrupts = 0;
        while done < bytes.len() {
            match self.write_some_at(offset.saturating_add(done as u64), &bytes[done..]) {
                // A write that accepts nothing and names no reason would loop for ever.
                Ok(0) => return Err(Error::io(Operation::Write, self.path(), Errno::IO)),
                Ok(moved) => {
                    done += moved;
                    interrupts = 0;
                }
                Err(error) if error.is_interrupted() && interrupts < INTERRUPTS_MAX => {
                    interrupts += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Full write at the end of the file. Returns the offset where the bytes were put. Appends
    /// through one handle come one after another; two handles on one file must not append at the
    /// same time.
    ///
    /// # Errors
    /// As for [`File::write_at`]. After a failure the file may end with a first part of `bytes`:
    /// cut it or stop using it before appending again.
    fn append(&self, bytes: &[u8]) -> Result<u64> {
        let _turn = self.append_turn().lock().unwrap_or_else(PoisonError::into_inner);
        let offset = self.len()?;
        self.write_at(offset, bytes)?;
        Ok(offset)
    }
}

/// A range of a file as memory. Dropping it unmaps; unflushed bytes stay in the page cache.
///
/// Offsets count from the start of the mapping. Bytes are copied in and out, so no reference to
/// memory that others may change ever leaves. Threads may write disjoint ranges at once without
/// tearing each other's bytes. A reader learns *when* bytes are there by other means (a lock, an
/// acquire load): the copies themselves order nothing.
#[expect(clippy::len_without_is_empty, reason = "an empty range is refused at map")]
pub trait Mapping: Send + Sync + Debug {
    /// Bytes mapped; at least one.
    fn len(&self) -> u64;

    /// Copies `bytes` in at `offset`. They survive a process crash at once and a power loss after
    /// [`Mapping::flush`] or a sync of the file. Those of [`File::map_direct`] survive either after
    /// a flush.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] when the range ends beyond the mapping; nothing is written then.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Copies `buf.len()` bytes out from `offset`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] when the range ends beyond the mapping; `buf` is unchanged then.
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()>;

    /// Makes the bytes of the range durable: as [`File::sync_data`], but for `len` bytes at
    /// `offset` alone.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] when the range ends beyond the mapping. A failure of the system is
    /// final, as for [`File::sync_data`].
    fn flush(&self, offset: u64, len: u64) -> Result<()>;

    /// Says that the page of `offset` is written to soon, so that its page fault comes now and is
    /// this thread's alone: threads that meet at a page for the first time wait for each other, and
    /// are woken, for longer than the fault takes. Changes no byte; beyond the end it does nothing.
    fn touch(&self, offset: u64) {
        let _ = offset;
    }

    /// Plays the first half of a flush of [`File::map_direct`]: the bytes are in the file, and a
    /// power loss may lose or tear them. Simulated mappings implement it and a fault injector calls
    /// it before each flush. Other mappings have nothing to do.
    fn begin_flush(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
}

/// A held lock file. Dropping it releases the lock and leaves the file in place, because removing
/// it would let two later openers lock two different files of the same name.
pub trait Lock: Send + Sync + Debug {
    /// The lock file.
    fn path(&self) -> &Path;
}

/// Checks that `len` bytes at `offset` end at or before `end`.
pub(crate) fn check_range(
    operation: Operation,
    path: &Path,
    offset: u64,
    len: u64,
    end: u64,
) -> Result<()> {
    match offset.checked_add(len) {
        Some(range_end) if range_end <= end => Ok(()),
        _ => Err(Error::OutOfRange { operation, path: path.to_owned(), offset, len, end }),
    }
}
