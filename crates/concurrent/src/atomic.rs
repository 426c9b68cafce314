//! The atomics of structures whose nodes lie in memory of their own: the standard ones, and under
//! `--cfg shuttle` the same words with a place to change threads in front of each operation.
//!
//! Shuttle's own atomics are larger than a word and not made of zeros, so no node in an
//! [`Arena`](crate::Arena) can have them. These here can stand wherever the standard ones do. What
//! is lost is nothing: shuttle runs one thread at a time and knows sequential consistency alone.
//! The locks of such structures are shuttle's own, since who holds one may be put aside.

#[cfg(shuttle)]
pub use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(shuttle))]
pub use std::sync::{Mutex, MutexGuard};

#[cfg(not(shuttle))]
pub use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    AtomicUsize, Ordering, fence,
};

#[cfg(shuttle)]
pub use words::{
    AtomicBool, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    AtomicUsize, Ordering, fence, point,
};

#[cfg(shuttle)]
mod words {
    use std::sync::atomic as plain;

    pub use std::sync::atomic::{Ordering, fence};

    /// Another thread may go on from here.
    #[inline]
    pub fn point() {
        // A load changes threads, and does not say that this one waits for another. It is of a word
        // of its own: tests beside this one have schedules of theirs.
        shuttle::sync::atomic::AtomicBool::new(false).load(Ordering::SeqCst);
    }

    macro_rules! word {
        ($name:ident, $of:ty $(, $generic:ident)?) => {
            /// As the standard one.
            #[repr(transparent)]
            #[derive(Debug, Default)]
            pub struct $name$(<$generic>)?(plain::$name$(<$generic>)?);

            impl$(<$generic>)? $name$(<$generic>)? {
                /// As the standard one, and so are all that follow.
                pub const fn new(value: $of) -> Self {
                    Self(plain::$name::new(value))
                }

                #[allow(missing_docs, reason = "see `new`")]
                pub fn load(&self, order: Ordering) -> $of {
                    point();
                    self.0.load(order)
                }

                #[allow(missing_docs, reason = "see `new`")]
                pub fn store(&self, value: $of, order: Ordering) {
                    point();
                    self.0.store(value, order);
                }

                #[allow(missing_docs, reason = "see `new`")]
                pub fn swap(&self, value: $of, order: Ordering) -> $of {
                    point();
                    self.0.swap(value, order)
                }

                #[allow(missing_docs, reason = "see `new`")]
                #[allow(clippy::missing_errors_doc, reason = "see `new`")]
                pub fn compare_exchange(
                    &self,
                    old: $of,
                    new: $of,
                    well: Ordering,
                    ill: Ordering,
                ) -> Result<$of, $of> {
                    point();
                    self.0.compare_exchange(old, new, well, ill)
                }

                #[allow(missing_docs, reason = "see `new`")]
                #[allow(clippy::missing_errors_doc, reason = "see `new`")]
                pub fn compare_exchange_weak(
                    &self,
                    old: $of,
                    new: $of,
                    well: Ordering,
                    ill: Ordering,
                ) -> Result<$of, $of> {
                    self.compare_exchange(old, new, well, ill)
                }

                #[allow(missing_docs, reason = "see `new`")]
                pub const fn as_ptr(&self) -> *mut $of {
                    self.0.as_ptr()
                }

                #[allow(missing_docs, reason = "see `new`")]
                pub fn get_mut(&mut self) -> &mut $of {
                    self.0.get_mut()
                }

                #[allow(missing_docs, reason = "see `new`")]
                pub fn into_inner(self) -> $of {
                    self.0.into_inner()
                }
            }
        };
    }

    macro_rules! number {
        ($name:ident, $of:ty) => {
            word!($name, $of);
            number!(@ $name, $of, fetch_add, fetch_sub, fetch_or, fetch_and, fetch_max, fetch_min);
        };
        (@ $name:ident, $of:ty, $($verb:ident),*) => {
            impl $name {
                $(
                    #[allow(missing_docs, reason = "see `new`")]
                    pub fn $verb(&self, value: $of, order: Ordering) -> $of {
                        point();
                        self.0.$verb(value, order)
                    }
                )*

                #[allow(missing_docs, reason = "see `new`")]
                #[allow(clippy::missing_errors_doc, reason = "see `new`")]
                pub fn fetch_update(
                    &self,
                    well: Ordering,
                    ill: Ordering,
                    change: impl FnMut($of) -> Option<$of>,
                ) -> Result<$of, $of> {
                    point();
                    self.0.fetch_update(well, ill, change)
                }
            }
        };
    }

    word!(AtomicBool, bool);
    word!(AtomicPtr, *mut T, T);
    number!(AtomicI64, i64);
    number!(AtomicIsize, isize);
    number!(AtomicU8, u8);
    number!(AtomicU16, u16);
    number!(AtomicU32, u32);
    number!(AtomicU64, u64);
    number!(AtomicUsize, usize);
}
