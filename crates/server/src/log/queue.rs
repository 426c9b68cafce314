//! The lines that wait for the thread that writes them.
//!
//! **Invariants:** [`Queue::push`] never waits for the sink. A line is in the queue, written,
//! dropped by a sink that fails, or counted as lost.

use keyrack_measure::Clock;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of lines that wait.
pub(super) const BYTES_MAX: usize = 1 << 20;

/// Bytes beyond [`BYTES_MAX`] for lines about lines that were not written: each kind of event once
/// an interval, and one for each write.
const REPORT_BYTES_MAX: usize = 64 << 10;

/// What the thread tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tick {
    /// An interval has passed.
    Interval,
    /// So many lines found no room since the last time.
    Lost(u64),
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Lines have come, or were written.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: Vec<u8>,
    /// Whether the thread writes lines that it has taken.
    is_writing: bool,
    /// Lines that there was no room for.
    lost: u64,
}

impl Queue {
    /// Appends whole lines, if there is room for all of them.
    pub(super) fn push(&self, lines: &str) {
        self.push_within(BYTES_MAX, lines);
    }

    /// Appends a line about lines that were not written. It has room of its own, or it would be
    /// lost with the others.
    pub(super) fn push_report(&self, line: &str) {
        self.push_within(BYTES_MAX + REPORT_BYTES_MAX, line);
    }

    fn push_within(&self, bytes_max: usize, lines: &str) {
        let mut state = self.state();
        if state.lines.len() + lines.len() > bytes_max {
            state.lost += 1;
            return;
        }
        state.lines.extend_from_slice(lines.as_bytes());
        drop(state);
        self.changed.notify_all();
    }

    /// Writes lines to `sink` as they come, for ever. Calls `tick` after each interval, and after
    /// lines were lost. A sink that fails loses what it was given.
    pub(super) fn write_to(
        &self,
        mut sink: impl Write,
        interval: Duration,
        tick: &dyn Fn(Tick),
    ) -> ! {
        let clock = Clock::vdso();
        let mut began = clock.ticks();
        loop {
            let passed = Duration::from_nanos(clock.ns_between(began, clock.ticks()));
            let Some(left) = interval.checked_sub(passed) else {
                tick(Tick::Interval);
                began = clock.ticks();
                continue;
            };
            let lost = self.write_once(&mut sink, left);
            if lost > 0 {
                tick(Tick::Lost(lost));
            }
        }
    }

    /// Waits for lines for at most `patience`, and writes them. Returns how many were lost so far,
    /// and forgets them.
    fn write_once(&self, sink: &mut impl Write, patience: Duration) -> u64 {
        let is_empty = |state: &mut State| state.lines.is_empty();
        let waited = self.changed.wait_timeout_while(self.state(), patience, is_empty);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let lines = std::mem::take(&mut state.lines);
        state.is_writing = true;
        drop(state);
        // A pipe without a reader: there is nobody to tell.
        let _ = sink.write_all(&lines).and_then(|()| sink.flush());
        let mut state = self.state();
        state.is_writing = false;
        let lost = std::mem::take(&mut state.lost);
        drop(state);
        self.changed.notify_all();
        lost
    }

    /// Waits until everything is written, for at most `patience`.
    pub(super) fn wait_until_written(&self, patience: Duration) {
        let is_busy = |state: &mut State| state.is_writing || !state.lines.is_empty();
        // Lines that are not written by then are lost with the process.
        let _ = self.changed.wait_timeout_while(self.state(), patience, is_busy);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A pipe that takes what it is given when it is told to.
    struct Pipe {
        arrived: Sender<Vec<u8>>,
        opened: Receiver<io::Result<()>>,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.arrived.send(bytes.to_vec()).unwrap();
            self.opened.recv().unwrap().map(|()| bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn pipe() -> (Pipe, Receiver<Vec<u8>>, Sender<io::Result<()>>) {
        let ((arrived, arrivals), (open, opened)) = (channel(), channel());
        (Pipe { arrived, opened }, arrivals, open)
    }

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn a_full_pipe_holds_nobody_up_and_what_is_lost_is_counted() {
        let queue = Queue::default();
        let (mut pipe, arrivals, open) = pipe();
        queue.push("first\n");
        std::thread::scope(|threads| {
            let writer = threads.spawn(|| queue.write_once(&mut pipe, LONG));
            assert_eq!(arrivals.recv().unwrap(), b"first\n");
            // The thread is in the write. A line of 1 KiB fits as often as the limit says.
            let line = "x".repeat(1023) + "\n";
            for _ in 0..BYTES_MAX / 1024 + 7 {
                queue.push(&line);
            }
            assert_eq!(queue.state().lines.len(), BYTES_MAX);
            open.send(Ok(())).unwrap();
            assert_eq!(writer.join().unwrap(), 7);
        });
        // The queue is still full, and has room for the line that tells it.
        queue.push_report("lost 7\n");
        open.send(Ok(())).unwrap();
        assert_eq!(queue.write_once(&mut pipe, LONG), 0);
        let written = arrivals.recv().unwrap();
        assert_eq!(written.len(), BYTES_MAX + 7);
        assert!(written.ends_with(b"\nlost 7\n"));
        queue.wait_until_written(LONG);
        // That room has a limit too.
        let line = "x".repeat(1023) + "\n";
        for _ in 0..(BYTES_MAX + REPORT_BYTES_MAX) / 1024 + 3 {
            queue.push_report(&line);
        }
        assert_eq!(queue.state().lines.len(), BYTES_MAX + REPORT_BYTES_MAX);
        assert_eq!(queue.state().lost, 3);
    }

    #[test]
    fn a_closed_pipe_drops_lines_and_the_next_are_tried() {
        let queue = Queue::default();
        let (mut pipe, arrivals, open) = pipe();
        for line in ["a\n", "b\n"] {
            queue.push(line);
            open.send(Err(io::ErrorKind::BrokenPipe.into())).unwrap();
            assert_eq!(queue.write_once(&mut pipe, LONG), 0);
            assert_eq!(arrivals.recv().unwrap(), line.as_bytes());
        }
        queue.wait_until_written(LONG);
    }
}
