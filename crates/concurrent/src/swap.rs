//! A value that is read all the time and exchanged now and then.
//!
//! Readers take no lock and count nothing: they load a pointer under a guard. A writer stores a new
//! value and retires the old one, which lives until the last reader has unpinned. The thread
//! that retires it also has to free it: [`Swap::exchange`] is for threads that come back to do so.

use crate::atomic::{AtomicPtr, Ordering};
use crate::{Era, Guard, Retired, birth, pin};
use std::fmt;
use std::marker::PhantomData;

struct Held<T> {
    birth: Era,
    value: T,
}

/// A place for one value.
pub struct Swap<T: Send + Sync + 'static> {
    pointer: AtomicPtr<Held<T>>,
    owns: PhantomData<T>,
}

impl<T: Send + Sync + 'static> Swap<T> {
    /// A place with `value`.
    #[must_use]
    pub fn new(value: T) -> Self {
        Swap { pointer: AtomicPtr::new(hold(value)), owns: PhantomData }
    }

    /// The value of now, for as long as the guard is pinned.
    #[inline]
    pub fn load<'g>(&'g self, guard: &'g Guard) -> &'g T {
        let pointer = guard.protect(|| self.pointer.load(Ordering::Acquire));
        // SAFETY: it was in its place while the guard covered it, and is retired, not freed, when
        // it is exchanged.
        let held = unsafe { &*pointer };
        &held.value
    }

    /// Puts another value there.
    pub fn store(&self, value: T, guard: &Guard) {
        let old = self.swap(value);
        // SAFETY: this thread alone has unlinked it.
        unsafe { retire(old, guard) };
    }

    /// Puts another value there, and returns the old one, which readers may still have. It is
    /// retired by the thread that drops it.
    #[must_use = "the thread that drops it retires it"]
    pub fn exchange(&self, value: T) -> Exchanged<T> {
        Exchanged { pointer: self.swap(value), owns: PhantomData }
    }

    fn swap(&self, value: T) -> *mut Held<T> {
        // Release pairs with the Acquire of `load`: the value was made before.
        self.pointer.swap(hold(value), Ordering::AcqRel)
    }

    /// Puts another value there and returns the old one, which no reader has any more.
    pub fn replace(&mut self, value: T) -> T {
        let old = std::mem::replace(self.pointer.get_mut(), hold(value));
        // SAFETY: it came from `hold`. Loads borrow the place, so that there are none.
        unsafe { Box::from_raw(old) }.value
    }
}

/// A value that was exchanged for another one, and is not yet retired.
pub struct Exchanged<T: Send + Sync + 'static> {
    /// From `hold`. Nobody else retires or frees it.
    pointer: *mut Held<T>,
    owns: PhantomData<T>,
}

// SAFETY: whoever has it may free the value, which may be sent, while readers look at it, which may
// be shared.
unsafe impl<T: Send + Sync + 'static> Send for Exchanged<T> {}

impl<T: Send + Sync + 'static> Drop for Exchanged<T> {
    fn drop(&mut self) {
        // SAFETY: an exchange has unlinked it, and this alone has it.
        unsafe { retire(self.pointer, &pin()) };
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for Exchanged<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exchanged")
    }
}

fn hold<T>(value: T) -> *mut Held<T> {
    Box::into_raw(Box::new(Held { birth: birth(), value }))
}

/// # Safety
/// It came from [`hold`], was unlinked, and is retired once.
unsafe fn retire<T: Send + Sync + 'static>(old: *mut Held<T>, guard: &Guard) {
    // SAFETY: nobody has freed it, since nobody has retired it.
    let birth = unsafe { &*old }.birth;
    let word = old.expose_provenance() as u64;
    let retired = Retired { word, bytes: size_of::<Held<T>>(), birth, free: free::<T> };
    // SAFETY: as the caller promises; and it may be sent.
    unsafe { guard.retire(retired) };
}

/// # Safety
/// The word is a pointer of [`hold`], exposed, that nobody uses any more.
unsafe fn free<T>(word: u64) {
    let pointer = std::ptr::with_exposed_provenance_mut::<Held<T>>(word as usize);
    // SAFETY: as the caller promises.
    drop(unsafe { Box::from_raw(pointer) });
}

impl<T: Send + Sync + 'static> Drop for Swap<T> {
    fn drop(&mut self) {
        // SAFETY: it came from `hold`, and the place is nobody else's.
        drop(unsafe { Box::from_raw(*self.pointer.get_mut()) });
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for Swap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Swap")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::pin;
    use std::sync::Arc;

    /// Readers see whole values, never older than what they have seen, while a writer exchanges.
    #[test]
    fn readers_see_whole_values_in_order() {
        let place = Swap::new(Arc::new((0u64, !0u64)));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    while last < 5000 {
                        let guard = pin();
                        let (number, inverse) = **place.load(&guard);
                        assert_eq!(number, !inverse);
                        assert!(number >= last);
                        last = number;
                    }
                });
            }
            for number in 1..=5000 {
                place.store(Arc::new((number, !number)), &pin());
            }
        });
    }

    #[test]
    fn whoever_has_the_place_alone_gets_the_value_back_at_once() {
        let value = Arc::new(7);
        let mut place = Swap::new(Arc::clone(&value));
        drop(place.replace(Arc::new(8)));
        assert_eq!((Arc::strong_count(&value), **place.load(&pin())), (1, 8));
    }

    /// The thread that exchanged it never looks at it again.
    #[test]
    fn another_thread_may_retire_what_was_exchanged() {
        let value = Arc::new(7);
        let place = Swap::new(Arc::clone(&value));
        let guard = pin();
        let seen = place.load(&guard);
        let old = place.exchange(Arc::new(8));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                drop(old);
                pin().flush();
            });
        });
        assert_eq!((**seen, **place.load(&guard)), (7, 8));
        drop(guard);
        while Arc::strong_count(&value) > 1 {
            pin().flush();
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_was_loaded_outlives_its_exchange() {
        let value = Arc::new(7);
        let place = Swap::new(Arc::clone(&value));
        let guard = pin();
        let seen = place.load(&guard);
        place.store(Arc::new(8), &guard);
        assert_eq!((**seen, **place.load(&guard)), (7, 8));
        drop(guard);
        drop(place);
        // Other tests pin too; what is due is freed when they unpin.
        while Arc::strong_count(&value) > 1 {
            pin().flush();
            std::thread::yield_now();
        }
    }
}
