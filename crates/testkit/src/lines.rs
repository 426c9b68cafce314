//! Which cache lines an operation reads and writes, as an emulator sees them.
//!
//! ```text
//!   test                                       valgrind --tool=lackey, the program again
//!   record --- starts, with TRACED set ------> perform(phase): threads take turns
//!          <-- one line for each access -----     mark thread, mark kind, operation, mark end
//!   Recording: for each operation its accesses, in order
//! ```
//!
//! The program that is recorded needs no code for it: the emulator reports each load and store of
//! each instruction, whatever structure, allocator or library it belongs to. So nothing is missed,
//! and an ordinary build pays nothing. Not seen are prefetches and what the kernel does.
//!
//! **Turns.** The emulator does not say which thread an access is of. So threads perform operations
//! in turns, and mark them by stores to `MARKS`, which the recording recognises. Waiting threads
//! touch nothing but that memory and their stacks, and both are left out of the recording. A stack
//! belongs to one thread. The first turn is not recorded: in it a thread joins what it has to join.
//!
//! Only Linux has the emulator. [`record`] says if it cannot be started.

mod account;
mod model;
mod recording;

pub use account::Account;
pub use model::{Costs, Outcome, Traffic, replay};
pub use recording::{Access, Kind, Operation, Phase, Recording, has_emulator, record};

use std::io::Write;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering, compiler_fence};
use std::{env, io, thread};

/// Bytes of a cache line.
pub const LINE_BYTES: u64 = 64;
/// Threads of a phase: as many as the model has bits for.
pub const THREADS_MAX: usize = 64;
/// Kinds of operations in a phase.
pub const KINDS_MAX: usize = 16;

/// Set in the environment of a program that is recorded.
const TRACED: &str = "KEYRACK_TRACED";

const BEGIN: usize = KINDS_MAX;
const END: usize = BEGIN + THREADS_MAX;
const MARKS_BYTES: usize = 4096;
/// What a pipe takes in one piece.
const PIPE_BYTES: usize = 4096;

/// A store to a byte of `codes` is a mark. Below [`BEGIN`] it is a kind, then a thread, then the
/// end of an operation.
#[repr(C, align(4096))]
struct Marks {
    codes: [AtomicU8; MARKS_BYTES / 2],
    /// The turn that a thread may take now.
    turn: AtomicUsize,
}

static MARKS: Marks =
    Marks { codes: [const { AtomicU8::new(0) }; MARKS_BYTES / 2], turn: AtomicUsize::new(0) };

/// Whether [`record`] has started this program.
#[must_use]
pub fn is_traced() -> bool {
    env::var_os(TRACED).is_some()
}

/// A thread of a phase.
#[derive(Debug)]
pub struct Performer {
    thread: usize,
    is_recorded: bool,
}

impl Performer {
    /// The number of the thread in its phase, from 0 on.
    #[must_use]
    pub fn thread(&self) -> usize {
        self.thread
    }

    /// Performs an operation, which is recorded with its kind.
    ///
    /// # Panics
    /// If `kind` is not below [`KINDS_MAX`].
    pub fn operation<T>(&self, kind: usize, run: impl FnOnce() -> T) -> T {
        assert!(kind < KINDS_MAX, "a kind is below {KINDS_MAX} (got {kind})");
        if !self.is_recorded {
            return run();
        }
        mark(BEGIN + self.thread);
        mark(kind);
        let result = run();
        mark(END);
        result
    }
}

#[inline(always)]
fn mark(code: usize) {
    // The order of instructions is the order of the trace.
    compiler_fence(Ordering::SeqCst);
    MARKS.codes[code].store(1, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
}

/// Has `threads` threads call `body` with the number of each turn, from 0 to `turns`, one after the
/// other. Turn 0 is not recorded.
///
/// # Panics
/// If there are more than [`THREADS_MAX`] threads, or a body panics.
pub fn perform(phase: &str, threads: usize, turns: usize, body: impl Fn(&Performer, usize) + Sync) {
    assert!((1..=THREADS_MAX).contains(&threads), "1 to {THREADS_MAX} threads (got {threads})");
    announce(&format!("marks {:x} {MARKS_BYTES:x}", (&raw const MARKS).addr()));
    announce(&format!("phase {threads} {phase}"));
    announce_stack();
    // Nobody's turn, until all threads are there.
    MARKS.turn.store(usize::MAX, Ordering::Release);
    thread::scope(|scope| {
        for thread in 0..threads {
            let body = &body;
            scope.spawn(move || {
                announce_stack();
                for turn in 0..=turns {
                    wait_for(turn * threads + thread);
                    let turn_ends = PassTurn;
                    body(&Performer { thread, is_recorded: turn > 0 }, turn);
                    drop(turn_ends);
                }
                // What ends with the thread is no part of the operations of others.
                wait_for((turns + 1) * threads);
            });
        }
        MARKS.turn.store(0, Ordering::Release);
        wait_for((turns + 1) * threads);
    });
    announce("end");
}

/// Ends a turn, also when its body panics.
struct PassTurn;

impl Drop for PassTurn {
    fn drop(&mut self) {
        MARKS.turn.fetch_add(1, Ordering::AcqRel);
    }
}

/// Waits. It touches the turn and the stack of this thread, and nothing else.
#[inline(never)]
fn wait_for(turn: usize) {
    while MARKS.turn.load(Ordering::Acquire) != turn {
        thread::yield_now();
    }
}

/// Says what lies where, for the phase that was performed last: names, addresses and bytes. A line
/// may have several names.
pub fn name_parts<'n>(parts: impl IntoIterator<Item = (&'n str, usize, usize)>) {
    // There may be thousands, and each instruction here is a line of the trace: no formatting.
    let mut lines = String::new();
    for (name, address, bytes) in parts {
        lines.push_str("@part ");
        push_hexadecimal(&mut lines, address);
        lines.push(' ');
        push_hexadecimal(&mut lines, bytes);
        lines.push(' ');
        lines.push_str(name);
        lines.push('\n');
        if lines.len() > PIPE_BYTES / 2 {
            write(&lines);
            lines.clear();
        }
    }
    write(&lines);
}

fn push_hexadecimal(text: &mut String, number: usize) {
    let digits = (usize::BITS - number.leading_zeros()).div_ceil(4).max(1);
    for at in (0..digits).rev() {
        let digit = (number >> (4 * at)) as u8 & 15;
        text.push(char::from(digit + if digit < 10 { b'0' } else { b'a' - 10 }));
    }
}

/// Says where the stack of this thread is. Inlined, so that it is the frame of the caller.
#[inline(always)]
fn announce_stack() {
    let here = 0_u8;
    announce(&format!("stack {:x}", (&raw const here).addr()));
}

/// Writes a line into the trace. The emulator writes there as well, a line at a time.
fn announce(words: &str) {
    write(&format!("@{words}\n"));
}

fn write(lines: &str) {
    if is_traced() {
        // Nothing else tells the recording, which then misses the end of a phase and says so.
        let _ = io::stderr().lock().write_all(lines.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_numbers_are_those_of_the_standard_library() {
        for number in [0, 1, 9, 10, 15, 16, 0x1234_abcd, usize::MAX] {
            let mut text = String::new();
            push_hexadecimal(&mut text, number);
            assert_eq!(text, format!("{number:x}"));
        }
    }

    #[test]
    fn threads_take_their_turns_in_order() {
        let turns = std::sync::Mutex::new(Vec::new());
        perform("phase", 3, 2, |performer, turn| {
            turns.lock().unwrap().push((turn, performer.operation(0, || performer.thread())));
        });
        let expected = (0..=2).flat_map(|turn| (0..3).map(move |thread| (turn, thread)));
        assert_eq!(*turns.lock().unwrap(), expected.collect::<Vec<_>>());
    }
}
