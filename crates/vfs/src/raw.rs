//! Shared memory mappings at their lowest: the only unsafe code of the crate.
//!
//! A [`Region`] is a run of mapped bytes seen as 64-bit atomic words. Other threads, and other
//! processes that map the same file, may write them at any time, so plain loads and stores would be
//! data races. Every access is therefore a relaxed atomic access of a whole aligned word:
//!
//! ```text
//!   words      |........|........|........|........|
//!   copy_in        ^--------------------^
//!                head: merge   body: store   tail: merge
//! ```
//!
//! A body word is one store. A head or tail word is merged with compare-and-swap, so that two
//! threads that write neighbouring bytes of one word never undo each other. Relaxed is enough: the
//! copies publish nothing, see [`Mapping`](crate::Mapping).
//!
//! **Invariant:** `base` is the page-aligned start of a live mapping of at least `words * 8` bytes,
//! readable and writable, that only `Drop` removes. Pages are a multiple of 8 bytes, so the last
//! word lies in a mapped page even where `len` is not a multiple of 8.

#![expect(unsafe_code, reason = "mapping memory and reaching into it cannot be said safely")]

use std::ffi::c_void;
use std::fs;
use std::io;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

/// Offsets of mappings and of flushes are rounded down to this: a multiple of every page size in
/// use.
pub(crate) const ALIGN: u64 = 65_536;

const WORD: usize = size_of::<u64>();

/// A shared, writable mapping of part of a file, or of memory alone.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<AtomicU64>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; any thread may use and unmap it.
unsafe impl Send for Region {}
// SAFETY: all access through `&Region` is atomic or a system call on whole pages.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `len > 0` bytes of `file` at `offset`, a multiple of [`ALIGN`].
    ///
    /// The caller has checked that the file has these bytes with space reserved, and keeps it from
    /// being cut while the region lives; else an access may raise SIGBUS (which is no memory error,
    /// but ends the process).
    pub(crate) fn map(file: &fs::File, offset: u64, len: usize) -> io::Result<Self> {
        assert!(offset.is_multiple_of(ALIGN), "mapping offset {offset} is not aligned");
        // SAFETY: a null address without MAP_FIXED lets the kernel choose free addresses, so no
        // memory that anybody uses is replaced.
        let address = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                offset,
            )
        }?;
        let base = NonNull::new(address.cast()).expect("the kernel maps nothing at address zero");
        Ok(Self { base, len })
    }

    /// Maps `len > 0` zero bytes of memory that no file has.
    #[cfg(target_os = "linux")]
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a null address without MAP_FIXED lets the kernel choose free addresses, so no
        // memory that anybody uses is replaced.
        let address = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), len, access, flags) }?;
        let base = NonNull::new(address.cast()).expect("the kernel maps nothing at address zero");
        Ok(Self { base, len })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: by the type's invariant these words are mapped, aligned and live as long as
        // `self`; all bit patterns are valid and all access to them is atomic.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.len.div_ceil(WORD)) }
    }

    /// Copies `bytes` to `offset`. O(bytes); one store for each full word.
    pub(crate) fn copy_in(&self, offset: usize, bytes: &[u8]) {
        assert!(offset <= self.len && bytes.len() <= self.len - offset, "copy outside the region");
        copy_in(self.words(), offset, bytes);
    }

    /// Copies from `offset` into `buf`. O(bytes).
    pub(crate) fn copy_out(&self, offset: usize, buf: &mut [u8]) {
        assert!(offset <= self.len && buf.len() <= self.len - offset, "copy outside the region");
        copy_out(self.words(), offset, buf);
    }

    /// Stores the word at `offset` as it is, so that its page is there to be written.
    pub(crate) fn touch(&self, offset: usize) {
        let word = &self.words()[offset / WORD];
        let seen = word.load(Ordering::Relaxed);
        // Not an addition of nothing: of that, compilers make a load. That somebody else has
        // written meanwhile is as good.
        let _ = word.compare_exchange(seen, seen, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Writes the pages that hold `len` bytes at `offset` to the file's device and waits for it.
    pub(crate) fn sync(&self, offset: usize, len: usize) -> io::Result<()> {
        assert!(offset <= self.len && len <= self.len - offset, "sync outside the region");
        let start = offset - offset % ALIGN as usize;
        let address: *mut c_void = self.base.as_ptr().cast::<u8>().wrapping_add(start).cast();
        rustix::io::retry_on_intr(|| {
            // SAFETY: `address..` is page-aligned and inside the live mapping; syncing changes no
            // memory.
            unsafe { rustix::mm::msync(address, offset - start + len, MsyncFlags::SYNC) }
        })?;
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `base` and `len` are what `mmap` returned and was given, and no reference into
        // the region outlives `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "unmapping a whole mapping cannot fail");
    }
}

#[expect(clippy::host_endian_bytes, reason = "words are moved as they lie in memory")]
fn copy_in(words: &[AtomicU64], offset: usize, bytes: &[u8]) {
    let mut index = offset / WORD;
    let skip = offset % WORD;
    let mut rest = bytes;
    if skip != 0 {
        let (head, tail) = rest.split_at(rest.len().min(WORD - skip));
        merge(&words[index], skip, head);
        index += 1;
        rest = tail;
    }
    let (body, tail) = rest.as_chunks::<WORD>();
    // An empty body may start one past the last word, which slicing allows.
    let tail_index = index + body.len();
    if !body.is_empty() {
        for (word, chunk) in words[index..tail_index].iter().zip(body) {
            word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
        }
    }
    if !tail.is_empty() {
        merge(&words[tail_index], 0, tail);
    }
}

/// Replaces the bytes of one word that start at `skip`, and no others.
#[expect(clippy::host_endian_bytes, reason = "words are moved as they lie in memory")]
fn merge(word: &AtomicU64, skip: usize, bytes: &[u8]) {
    let mut current = word.load(Ordering::Relaxed);
    loop {
        let mut image = current.to_ne_bytes();
        image[skip..skip + bytes.len()].copy_from_slice(bytes);
        let wanted = u64::from_ne_bytes(image);
        match word.compare_exchange_weak(current, wanted, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return,
            Err(seen) => current = seen,
        }
    }
}

#[expect(clippy::host_endian_bytes, reason = "words are moved as they lie in memory")]
fn copy_out(words: &[AtomicU64], offset: usize, buf: &mut [u8]) {
    let mut index = offset / WORD;
    let mut skip = offset % WORD;
    let mut rest = buf;
    while !rest.is_empty() {
        let image = words[index].load(Ordering::Relaxed).to_ne_bytes();
        let count = rest.len().min(WORD - skip);
        let (now, later) = rest.split_at_mut(count);
        now.copy_from_slice(&image[skip..skip + count]);
        rest = later;
        index += 1;
        skip = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(count: usize) -> Vec<AtomicU64> {
        (0..count).map(|_| AtomicU64::new(u64::MAX)).collect()
    }

    #[test]
    fn every_offset_and_length_copies_exactly_its_bytes() {
        for offset in 0..17 {
            for len in 0..=(32 - offset) {
                let memory = words(4);
                let data: Vec<u8> = (1..=len).map(|byte| byte as u8).collect();
                copy_in(&memory, offset, &data);
                let mut expected = [0xff; 32];
                expected[offset..offset + len].copy_from_slice(&data);
                let mut all = [0; 32];
                copy_out(&memory, 0, &mut all);
                assert_eq!(all, expected, "offset {offset} len {len}");
                let mut part = vec![0; len];
                copy_out(&memory, offset, &mut part);
                assert_eq!(part, data, "offset {offset} len {len}");
            }
        }
    }

    #[test]
    fn neighbours_in_one_word_do_not_undo_each_other() {
        const LANES: usize = 4;
        let memory = words(1);
        let start = std::sync::Barrier::new(LANES);
        std::thread::scope(|scope| {
            for lane in 0..LANES {
                let (memory, start) = (&memory, &start);
                scope.spawn(move || {
                    start.wait();
                    for round in 0..100_000_u32 {
                        copy_in(memory, lane * 2, &[round as u8, lane as u8]);
                        let mut seen = [0; 2];
                        copy_out(memory, lane * 2, &mut seen);
                        assert_eq!(seen, [round as u8, lane as u8]);
                    }
                });
            }
        });
    }
}
