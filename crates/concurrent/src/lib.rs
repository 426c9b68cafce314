//! # keyrack-concurrent: what structures with readers that take no locks are made of
//!
//! | part | what it is |
//! |---|---|
//! | [`VersionLock`] | one word that is a lock for writers and a sequence counter for readers |
//! | [`Guard`] | a pinned thread: what it has read under protection is not freed while it lives |
//! | [`Arena`] | memory in blocks of a few kinds, named by 32 bits, that stay what they are |
//! | [`Swap`] | a value that is read all the time and exchanged now and then |
//! | [`Backoff`] | waiting for another thread, first by spinning, then by giving up the processor |
//! | [`Change`] | what the closure of an atomic update decides |
//! | [`KeyLocks`] | locks on keys by their hashes, several at once without deadlocks |
//! | [`Counter`] | a sum that many threads add to without sharing a cache line |
//!
//! An object that a structure no longer links is handed to [`Guard::retire`] and freed when no
//! thread can have found it:
//!
//! ```
//! use keyrack_concurrent::{Retired, birth, pin};
//! use std::sync::atomic::{AtomicPtr, Ordering};
//!
//! unsafe fn free(word: u64) {
//!     drop(unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<u64>(word as usize)) });
//! }
//!
//! let born = birth();
//! let slot = AtomicPtr::new(Box::into_raw(Box::new(7)));
//!
//! // A reader.
//! let guard = pin();
//! let seven = guard.protect(|| slot.load(Ordering::Acquire));
//! assert_eq!(unsafe { *seven }, 7);
//!
//! // A writer takes it away; the reader's reference stays good until its guard is dropped.
//! let old = slot.swap(std::ptr::null_mut(), Ordering::AcqRel);
//! let word = old.expose_provenance() as u64;
//! unsafe { pin().retire(Retired { word, bytes: 8, birth: born, free }) };
//! assert_eq!(unsafe { *seven }, 7);
//! ```
//!
//! Unsafe code of this crate is in the range of addresses behind the arenas, and in the records and
//! domains behind the guards. With `--cfg loom` the atomics of locks and domains are those of the
//! loom model checker, which explores the interleavings of both. With `--cfg shuttle` they are
//! those of [`atomic`], between which shuttle changes threads.

pub mod atomic;
#[cfg(shuttle)]
pub mod schedules;

mod arena;
mod backoff;
mod change;
mod counter;
mod domain;
mod epoch;
mod fence;
mod key_locks;
mod part;
mod range;
mod record;
mod retired;
mod stripe;
mod swap;
mod sync;
mod version;

pub use arena::Arena;
pub use backoff::Backoff;
pub use change::Change;
pub use counter::Counter;
pub use domain::Pressure;
pub use epoch::{Guard, birth, free_or_hand_over, parts, pin, pressure};
pub use fence::fence_all_threads;
pub use key_locks::{KeyGuards, KeyLocks};
pub use part::Part;
pub use range::UNIT_BYTES;
pub use retired::{Era, Retired};
pub use swap::{Exchanged, Swap};
pub use version::{Locked, Version, VersionLock};
