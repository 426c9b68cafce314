//! SIGINT and SIGTERM: the first one ends the work in order, a later one ends the process.
//!
//! A shell and `timeout` send a signal to a process and again to its group. Signals within a second
//! of the first are therefore the same request.

use crate::{Failure, INTERRUPTED};
use keyrack_measure::Clock;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long after the first signal others are the same request.
const SAME_REQUEST_NS: u64 = 1_000_000_000;

/// Calls `end` for each signal. One that comes more than a second after the first ends the
/// process.
///
/// # Errors
/// One line if signals cannot be watched.
pub fn on_signals(mut end: impl FnMut() + Send + 'static) -> Result<(), String> {
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| format!("cannot handle signals: {error}"))?;
    let watch = move || {
        let clock = Clock::vdso();
        let mut first = None;
        for _ in signals.forever() {
            end();
            let now = clock.ticks();
            if clock.ns_between(*first.get_or_insert(now), now) > SAME_REQUEST_NS {
                crate::release();
                std::process::exit(i32::from(INTERRUPTED));
            }
        }
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(watch)
        .map(drop)
        .map_err(|error| format!("cannot start a thread for signals: {error}"))
}

/// Sets a flag at the first signal.
///
/// # Errors
/// As [`on_signals`].
pub fn set_on_signals(flag: &Arc<AtomicBool>) -> Result<(), String> {
    let flag = Arc::clone(flag);
    on_signals(move || flag.store(true, Ordering::Relaxed))
}

/// A flag that the first signal sets; the second ends the process, however soon it comes.
///
/// # Errors
/// [`Failure::Failed`] if signals cannot be watched.
pub fn flag() -> Result<Arc<AtomicBool>, Failure> {
    use signal_hook::flag;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order, so that the first signal does not end the process.
        flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::Failed(format!("cannot handle signals: {error}")))?;
    }
    Ok(stop)
}

/// Ends a loop after a signal.
///
/// # Errors
/// [`Failure::Interrupted`] once the flag is set.
pub fn check(stop: &AtomicBool) -> Result<(), Failure> {
    if stop.load(Ordering::Relaxed) { Err(Failure::Interrupted) } else { Ok(()) }
}
