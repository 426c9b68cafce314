//! A writer beside a reader, for the tests of engines in memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Runs `write` to its end while `read` is repeated, and `read` once more.
pub(crate) fn race(write: impl FnOnce() + Send, read: impl Fn() + Sync) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            write();
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            read();
        }
        read();
    });
}
