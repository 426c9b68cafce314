//! What a domain knows about one thread: what it has reserved, and what it has retired.
//!
//! ```text
//!   line 0   lower | upper | next | pins | temporary | fences     reserved: read by whoever scans
//!   line 1   owned | objects | bytes              shared: read by whoever counts
//!   line 2   waiting objects, due objects         private to the owner
//! ```
//!
//! Records form a list that only grows. A thread owns one from its first pin to its end; then
//! another thread may take it over. **Owned** decides: whoever turns it from false to true is the
//! owner, and the only one to write anything here but `owned` itself.
//!
//! An idle record has **lower** at [`IDLE`]; upper then says nothing. **Pins** counts the guards of
//! the owner. A **temporary** record was taken by a thread that is being torn down: its last guard
//! gives it back, since nothing else will.

use crate::fence::Fences;
use crate::retired::{Due, Waiting};
use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use crossbeam_utils::CachePadded;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64 as PlainAtomicU64;

/// The lower end of a thread that reserves nothing: above every era.
pub(crate) const IDLE: u64 = u64::MAX;

/// See the file's header.
pub(crate) struct Record {
    pub(crate) reserved: CachePadded<Reserved>,
    pub(crate) shared: CachePadded<Shared>,
    pub(crate) private: CachePadded<Private>,
}

pub(crate) struct Reserved {
    pub(crate) lower: AtomicU64,
    pub(crate) upper: AtomicU64,
    /// The record that was first in the list before this one. Never changes once it is in the list.
    /// Here because a scan reads it; the owner writes the counts with each object that it retires.
    pub(crate) next: AtomicPtr<Record>,
    /// Owner only.
    pub(crate) pins: Cell<usize>,
    /// Owner only.
    pub(crate) temporary: Cell<bool>,
    /// Of the process; here because it is at hand.
    pub(crate) fences: Fences,
}

pub(crate) struct Shared {
    pub(crate) owned: AtomicBool,
    /// What waits here, in objects and in bytes, as the owner saw it last. Nothing but a number.
    objects: PlainAtomicU64,
    bytes: PlainAtomicU64,
}

/// Owner only.
pub(crate) struct Private {
    pub(crate) waiting: RefCell<Waiting>,
    pub(crate) due: RefCell<Due>,
    /// Whether the owner is freeing what is due, further up its stack.
    pub(crate) freeing: Cell<bool>,
    /// Bytes of the object that is being freed. It waits until that is done.
    pub(crate) in_free: Cell<Option<usize>>,
}

// SAFETY: other threads reach a record through the list of its domain, and use its atomics alone.
// The cells are used through a `Member`, which only the owner has. A change of owner goes through
// `owned`, released by the old one and acquired by the new.
unsafe impl Sync for Record {}

impl Record {
    /// A record that is owned already.
    pub(crate) fn new() -> Self {
        Record {
            reserved: CachePadded::new(Reserved {
                lower: AtomicU64::new(IDLE),
                upper: AtomicU64::new(0),
                next: AtomicPtr::new(std::ptr::null_mut()),
                pins: Cell::new(0),
                temporary: Cell::new(false),
                fences: Fences::decide(),
            }),
            shared: CachePadded::new(Shared {
                owned: AtomicBool::new(true),
                objects: PlainAtomicU64::new(0),
                bytes: PlainAtomicU64::new(0),
            }),
            private: CachePadded::new(Private {
                waiting: RefCell::new(Waiting::new()),
                due: RefCell::new(Due::new()),
                freeing: Cell::new(false),
                in_free: Cell::new(None),
            }),
        }
    }

    /// Makes the calling thread the owner if there is none.
    pub(crate) fn try_own(&self) -> bool {
        let owned = &self.shared.owned;
        // Acquire pairs with the Release of `disown`: the cells are as the last owner left them.
        !owned.load(Ordering::Relaxed)
            && owned.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// The object that is being freed waits no more, if there is one. Owner only.
    pub(crate) fn count_freed(&self) {
        if let Some(bytes) = self.private.in_free.take() {
            self.shared.count_freed(bytes);
        }
    }

    /// The last act of an owner.
    pub(crate) fn disown(&self) {
        self.shared.owned.store(false, Ordering::Release);
    }
}

impl Shared {
    /// What waits here: objects and bytes.
    pub(crate) fn waiting(&self) -> (u64, u64) {
        // Acquire pairs with the Release of `set_waiting`: whoever sees that an object waits no
        // more sees what freeing it did.
        (self.objects.load(Ordering::Acquire), self.bytes.load(Ordering::Relaxed))
    }

    /// Owner only, as the next two.
    pub(crate) fn set_waiting(&self, objects: usize, bytes: usize) {
        self.objects.store(objects as u64, Ordering::Release);
        self.bytes.store(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_retired(&self, object_bytes: usize) {
        let (objects, bytes) = self.waiting();
        self.set_waiting(objects as usize + 1, bytes as usize + object_bytes);
    }

    fn count_freed(&self, object_bytes: usize) {
        let (objects, bytes) = self.waiting();
        self.set_waiting(objects as usize - 1, bytes as usize - object_bytes);
    }
}

/// The right to act as the owner of a record. It does not leave the thread that owns it (it is not
/// `Send`), and its copies are forgotten when the thread gives the record back.
#[derive(Clone, Copy)]
pub(crate) struct Member(NonNull<Record>);

impl Member {
    /// # Safety
    /// The calling thread owns the record, which lives as long as any copy of this is used.
    pub(crate) unsafe fn new(record: NonNull<Record>) -> Self {
        Member(record)
    }

    #[inline(always)]
    pub(crate) fn record(&self) -> &Record {
        // SAFETY: who made this promised that the record lives.
        unsafe { self.0.as_ref() }
    }
}
