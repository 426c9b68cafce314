//! Zeroed memory straight from the system, as an array of one kind of atomic word.
//!
//! A memtable asks for its largest size at once and touches what it needs: pages come to life,
//! all zero, at their first use, so an empty memtable of 64 MiB costs addresses and nothing else.
//! Large mappings begin at a multiple of 2 MiB and ask for huge pages: a random read then misses
//! one level of the address caches less, and 512 page faults become one. Those of small memtables
//! ask for plain pages, because the unused rest of a huge page would be much of their memory.

use rustix::mm::{MapFlags, ProtFlags};
use std::alloc::{Layout, handle_alloc_error};
use std::ffi::c_void;
use std::ptr::{self, NonNull};

/// Bytes of a huge page.
pub(super) const HUGE_BYTES: usize = 2 << 20;

/// Bytes of a plain page, on most systems.
const PAGE_BYTES: usize = 4 << 10;

/// Words of which zero bytes are a value, and which threads may change together.
///
/// # Safety
/// All bytes zero is a value of the type, it is changed through shared references without data
/// races, and dropping it does nothing.
pub(super) unsafe trait Zeroed: Sync {}

// SAFETY: an atomic number; zero is one of its values.
unsafe impl Zeroed for keyrack_concurrent::atomic::AtomicU64 {}

/// An array of `T` that began as zeros.
pub(super) struct Mapping<T> {
    items: NonNull<T>,
    len: usize,
    start: NonNull<c_void>,
    bytes: usize,
    is_huge: bool,
    /// Bytes of memory that it has at least: they were touched in an earlier use, or made ahead.
    touched_before: usize,
}

// SAFETY: it owns the memory, and the words in it may be used from any thread.
unsafe impl<T: Zeroed> Send for Mapping<T> {}
// SAFETY: as above; what is shared are references to words that are `Sync`.
unsafe impl<T: Zeroed> Sync for Mapping<T> {}

impl<T: Zeroed> Mapping<T> {
    /// `len` zeros, in huge pages if there is at least one and they are wanted. Where the system
    /// refuses so many addresses, the process ends as after any failed allocation.
    pub(super) fn new(len: usize, wants_huge: bool) -> Self {
        let Ok(layout) = Layout::array::<T>(len.max(1)) else { out_of_memory() };
        let huge = wants_huge && layout.size() >= HUGE_BYTES;
        // The system gives multiples of a page; a multiple of a huge one lies within one more.
        let Some(bytes) = layout.size().checked_add(if huge { HUGE_BYTES } else { 0 }) else {
            out_of_memory()
        };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a null address without MAP_FIXED lets the system choose free addresses, so no
        // memory that anybody uses is replaced.
        let mapped =
            unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, access, lazily()) };
        let Some(start) = mapped.ok().and_then(NonNull::new) else { handle_alloc_error(layout) };
        let ahead = if huge { start.as_ptr().cast::<u8>().align_offset(HUGE_BYTES) } else { 0 };
        let items = start.as_ptr().wrapping_byte_add(ahead).cast::<T>();
        if layout.size() >= HUGE_BYTES {
            advise(items.cast(), layout.size(), huge);
        }
        // The mapping ends well below the last address, so the sum is not null.
        let Some(items) = NonNull::new(items) else { out_of_memory() };
        Mapping { items, len: len.max(1), start, bytes, is_huge: huge, touched_before: 0 }
    }

    /// The words.
    #[inline]
    pub(super) fn items(&self) -> &[T] {
        // SAFETY: `len` words lie mapped from `items` on for as long as `self` lives; zero bytes
        // are words, and they change only as `Zeroed` permits.
        unsafe { std::slice::from_raw_parts(self.items.as_ptr(), self.len) }
    }

    /// Has the system make the huge page that begins at word `index`, if there is one, and nobody
    /// has yet. A refusal changes nothing: it is made when somebody writes to it.
    #[cold]
    pub(super) fn populate(&self, index: u64) {
        #[cfg(target_os = "linux")]
        if self.is_huge && index < self.len as u64 {
            let advice = rustix::mm::Advice::LinuxPopulateWrite;
            let word = self.items.as_ptr().wrapping_add(index as usize);
            debug_assert!(word.addr().is_multiple_of(HUGE_BYTES), "words {index} and on");
            // SAFETY: the page lies in the mapping, which is aligned and ends no sooner than its
            // last word; the advice does not change what is stored there.
            let _ = unsafe { rustix::mm::madvise(word.cast(), size_of::<T>(), advice) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = index;
    }

    /// Has the system make all huge pages that nobody has made yet.
    pub(super) fn populate_all(&mut self) {
        self.populate_first(self.len as u64);
    }

    /// The same of those that the first `len` words lie in.
    pub(super) fn populate_first(&mut self, len: u64) {
        if self.is_huge {
            let len = len.min(self.len as u64);
            let words_of_page = HUGE_BYTES / size_of::<T>();
            (0..len).step_by(words_of_page).for_each(|index| self.populate(index));
            self.note_touched(len as usize);
        }
    }

    /// Makes the first `len` words zero again.
    pub(super) fn clear(&mut self, len: usize) {
        assert!(len <= self.len, "{len} words of {}", self.len);
        // SAFETY: so many words lie mapped from there on, nobody else has them, and zero bytes are
        // words.
        unsafe { self.items.as_ptr().write_bytes(0, len) };
        self.note_touched(len);
    }

    /// Remembers that the first `len` words were written to, whatever they are used for next.
    pub(super) fn note_touched(&mut self, len: usize) {
        self.touched_before = self.touched_bytes(len);
    }

    /// Bytes of memory behind the first `len` words, once all of them were written to, and of what
    /// was touched in an earlier use.
    pub(super) fn touched_bytes(&self, len: usize) -> usize {
        let whole = self.len * size_of::<T>();
        let now = len.saturating_mul(size_of::<T>()).next_multiple_of(self.page_bytes());
        now.min(whole).max(self.touched_before)
    }

    /// Bytes of memory once `count` words anywhere were written to, or a bit less, and of what was
    /// touched in an earlier use.
    pub(super) fn scattered_bytes(&self, count: usize) -> usize {
        let whole = self.len * size_of::<T>();
        count.saturating_mul(self.page_bytes()).min(whole).max(self.touched_before)
    }

    /// Whether it asks for huge pages.
    pub(super) fn is_huge(&self) -> bool {
        self.is_huge
    }

    /// Bytes of the pages that it is made of, if the system grants what was asked for.
    fn page_bytes(&self) -> usize {
        if self.is_huge { HUGE_BYTES } else { PAGE_BYTES }
    }

    /// The address of the first word, good for all of them.
    #[inline]
    pub(super) fn base(&self) -> *mut T {
        self.items.as_ptr()
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: this is the mapping as it was made, and nobody holds a reference into it. A
        // refusal would leave it mapped, which harms nobody.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr(), self.bytes) };
    }
}

/// Asks for the cache line at an address. Any address will do: a prefetch neither reads nor faults.
#[inline]
pub(crate) fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing, and of a bad address nothing comes.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for huge pages, or for plain ones where the system would take huge ones by itself. A
/// refusal changes nothing that is stored.
fn advise(start: *mut c_void, bytes: usize, huge: bool) {
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::Advice::{LinuxHugepage, LinuxNoHugepage};
        let advice = if huge { LinuxHugepage } else { LinuxNoHugepage };
        // SAFETY: the range is mapped; the advice does not change what it holds.
        let _ = unsafe { rustix::mm::madvise(start, bytes, advice) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes, huge);
}

/// Flags of a mapping that has no memory set aside for it.
fn lazily() -> MapFlags {
    #[cfg(any(target_os = "freebsd", target_os = "dragonfly"))]
    return MapFlags::PRIVATE;
    #[cfg(not(any(target_os = "freebsd", target_os = "dragonfly")))]
    MapFlags::PRIVATE.union(MapFlags::NORESERVE)
}

fn out_of_memory() -> ! {
    handle_alloc_error(Layout::new::<[u8; HUGE_BYTES]>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_concurrent::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_mapping_is_zero_and_keeps_what_is_stored() {
        for len in [0, 1, 7, 4096, HUGE_BYTES / 8 - 1, HUGE_BYTES / 8, 3 * HUGE_BYTES / 8 + 5] {
            let mapping = Mapping::<AtomicU64>::new(len, true);
            assert_eq!(mapping.items().len(), len.max(1));
            assert!(mapping.items().iter().all(|word| word.load(Ordering::Relaxed) == 0));
            for (word, at) in mapping.items().iter().zip(1..) {
                word.store(at, Ordering::Relaxed);
            }
            let sum: u64 = mapping.items().iter().map(|word| word.load(Ordering::Relaxed)).sum();
            let len = mapping.items().len() as u64;
            assert_eq!(sum, len * (len + 1) / 2);
        }
    }

    #[test]
    fn a_large_mapping_begins_at_a_huge_page() {
        let mapping = Mapping::<AtomicU64>::new(HUGE_BYTES / 8, true);
        assert!(mapping.base().addr().is_multiple_of(HUGE_BYTES));
    }
}
