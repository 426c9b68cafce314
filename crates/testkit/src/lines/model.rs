//! A model of processors that take cache lines from each other.
//!
//! ```text
//!   a line      one holder that may write it, or any number of holders that read it
//!   a read      by a thread that does not hold the line: a transfer
//!   a write     by a thread that is not the only holder: a transfer, and the only holder
//! ```
//!
//! It is MESI with caches that lose nothing, so what is counted are transfers between processors,
//! not misses of a small cache. Each thread replays its operations, one access after the other. A
//! transfer takes a fixed time. A line makes its transfers one after the other; if
//! [`Costs::reads_in_turn`] is false, copies of a line that nobody has modified since are made side
//! by side. A prefetch begins a transfer, and the access that needs the line waits for its end.
//!
//! A lock is a line that the caller names as one. Its thread has it from the first write of an
//! operation to the last, and others that write it wait meanwhile. What waits spins on no line, and
//! no reader has to read again, so the times are bounds: a machine with these costs is slower.
//! The replay has operations in another order than the recording. If they then wait for each other
//! in a circle, the one that closes it goes on without the lock.
//!
//! All lines are with all threads at first, except those that are written before they are read.
//! Those are new memory each time: their first write is no transfer.

use super::{Access, Kind, Phase, THREADS_MAX};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::mem;

/// What accesses cost.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// An access to a line that the thread holds, with the instructions around it.
    pub access_ns: u64,
    /// A transfer.
    pub transfer_ns: u64,
    /// Whether copies of an unmodified line are also made one after the other.
    pub reads_in_turn: bool,
}

/// What a line cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Transfers.
    pub transfers: u64,
    /// What threads waited for it, in sum: for its transfers and for its lock.
    pub waits_ns: u64,
}

/// The outcome of a replay.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Operations of all threads.
    pub operations: u64,
    /// Operations of all threads together, in a second.
    pub rate: f64,
    /// Of the lines that were transferred or waited for.
    pub lines: HashMap<u64, Traffic>,
}

impl Outcome {
    /// Transfers for each operation.
    #[must_use]
    pub fn transfers(&self) -> f64 {
        let transfers: u64 = self.lines.values().map(|traffic| traffic.transfers).sum();
        transfers as f64 / self.operations.max(1) as f64
    }
}

/// A line at one moment.
struct Line {
    /// One bit a thread.
    holders: u64,
    /// Whether its one holder has written it and nobody has read it since.
    is_modified: bool,
    /// When its last transfer ends.
    busy_until: u64,
    /// The thread that has it as a lock.
    locked_by: Option<usize>,
    /// Threads that wait for the lock, and since when.
    waiters: Vec<(usize, u64)>,
}

/// A thread at one moment.
#[derive(Default)]
struct Thread<'p> {
    operations: Vec<&'p [Access]>,
    /// The operation and the access in it that come next.
    next: (usize, usize),
    /// Prefetches of the current operation, and when they end.
    prefetched: Vec<(u64, u64)>,
    /// The lock that it waits for.
    waits_for: Option<u64>,
    done_ns: u64,
}

struct Machine<'p> {
    costs: Costs,
    is_lock: &'p dyn Fn(u64) -> bool,
    everyone: u64,
    lines: HashMap<u64, Line>,
    traffic: HashMap<u64, Traffic>,
    threads: Vec<Thread<'p>>,
    /// Threads that can go on, by the time at which they do, and in the order of their numbers
    /// here: whoever waits for a lock comes before its last owner.
    ready: BinaryHeap<Reverse<(u64, u64, usize)>>,
    numbers: u64,
    /// Lines that were written before they were read.
    new_memory: HashSet<u64>,
}

/// Lines that are written before anybody of the first `threads` threads reads them.
fn new_memory(phase: &Phase, threads: usize) -> HashSet<u64> {
    let mut is_new = HashMap::new();
    let operations = phase.operations.iter().filter(|operation| operation.thread < threads);
    for access in operations.flat_map(|operation| &operation.accesses) {
        is_new.entry(access.line).or_insert(access.is_write());
    }
    is_new.into_iter().filter(|(_, is_new)| *is_new).map(|(line, _)| line).collect()
}

/// Replays the operations of the first `threads` threads of a phase, twice. The second time is
/// counted: lines are then where earlier operations have left them.
///
/// # Panics
/// If the phase has fewer threads.
#[must_use]
pub fn replay(
    phase: &Phase,
    threads: usize,
    costs: Costs,
    is_lock: &dyn Fn(u64) -> bool,
) -> Outcome {
    assert!((1..=phase.threads).contains(&threads), "1 to {} threads", phase.threads);
    let everyone = u64::MAX >> (THREADS_MAX - threads);
    let mut machine = Machine {
        costs,
        is_lock,
        everyone,
        lines: HashMap::new(),
        traffic: HashMap::new(),
        threads: (0..threads).map(|_| Thread::default()).collect(),
        ready: BinaryHeap::new(),
        numbers: 0,
        new_memory: new_memory(phase, threads),
    };
    for operation in &phase.operations {
        if let Some(thread) = machine.threads.get_mut(operation.thread) {
            thread.operations.push(&operation.accesses);
        }
    }
    machine.run();
    machine.run();
    let done = machine.threads.iter();
    let operations = done.clone().map(|thread| thread.operations.len() as u64).sum();
    let mean_ns = done.map(|thread| thread.done_ns).sum::<u64>() as f64 / threads as f64;
    Outcome { operations, rate: operations as f64 * 1e9 / mean_ns, lines: machine.traffic }
}

impl Machine<'_> {
    /// All operations, from time 0 on. Lines are where they were.
    fn run(&mut self) {
        self.traffic.clear();
        self.lines.values_mut().for_each(|line| line.busy_until = 0);
        self.lines.retain(|line, _| !self.new_memory.contains(line));
        self.threads.iter_mut().for_each(|thread| thread.next = (0, 0));
        (0..self.threads.len()).for_each(|at| self.go_on(at, 0));
        while let Some(Reverse((now, _, thread))) = self.ready.pop() {
            self.step(thread, now);
        }
    }

    /// Whether `owner` waits, maybe through others, for a lock that `thread` has.
    fn waits_for(&self, mut owner: usize, thread: usize) -> bool {
        while let Some(line) = self.threads[owner].waits_for {
            match self.lines[&line].locked_by {
                Some(next) if next == thread => return true,
                Some(next) => owner = next,
                None => return false,
            }
        }
        false
    }

    /// Has a thread go on at a time.
    fn go_on(&mut self, at: usize, when: u64) {
        self.numbers += 1;
        self.ready.push(Reverse((when, self.numbers, at)));
    }

    /// The next access of a thread.
    fn step(&mut self, at: usize, now: u64) {
        let thread = &mut self.threads[at];
        let Some(&accesses) = thread.operations.get(thread.next.0) else {
            thread.done_ns = now;
            return;
        };
        let Some(&access) = accesses.get(thread.next.1) else {
            thread.next = (thread.next.0 + 1, 0);
            thread.prefetched.clear();
            self.go_on(at, now);
            return;
        };
        let later = &accesses[thread.next.1 + 1..];
        let Some(then) = self.access(at, access, later, now) else { return };
        self.threads[at].next.1 += 1;
        self.go_on(at, then);
    }

    /// When the access is done, if `later` ones follow in the operation. `None` if it waits for a
    /// lock: it then comes again.
    fn access(&mut self, at: usize, access: Access, later: &[Access], now: u64) -> Option<u64> {
        let Access { line: number, kind } = access;
        let first = if self.new_memory.contains(&number) { 0 } else { self.everyone };
        let is_lock = kind == Kind::Write && (self.is_lock)(number);
        let owner = self.lines.get(&number).and_then(|line| line.locked_by);
        let other = owner.filter(|owner| is_lock && *owner != at);
        let is_blocked = other.is_some_and(|owner| !self.waits_for(owner, at));
        let line = self.lines.entry(number).or_insert_with(|| Line {
            holders: first,
            is_modified: false,
            busy_until: 0,
            locked_by: None,
            waiters: Vec::new(),
        });
        let me = 1 << at;
        self.threads[at].waits_for = is_blocked.then_some(number);
        if is_blocked {
            line.waiters.push((at, now));
            return None;
        }
        let held = match kind {
            Kind::Write => line.holders & !me == 0,
            _ => line.holders & me != 0,
        };
        let mut then = now + self.costs.access_ns;
        let mut end = now;
        if !held {
            let start = now.max(line.busy_until);
            end = start + self.costs.transfer_ns;
            if kind == Kind::Write || line.is_modified || self.costs.reads_in_turn {
                line.busy_until = end;
            }
        }
        match kind {
            Kind::Write => (line.holders, line.is_modified) = (me, true),
            _ if !held => (line.holders, line.is_modified) = (line.holders | me, false),
            _ => {}
        }
        let prefetched = &mut self.threads[at].prefetched;
        if kind == Kind::Prefetch {
            // It is on its way, and nobody waits for it yet.
            if !held {
                self.traffic.entry(number).or_default().transfers += 1;
                prefetched.push((number, end));
            }
            return Some(now);
        }
        let arrives = prefetched.iter().find(|(line, _)| *line == number).map(|(_, end)| *end);
        let end = end.max(arrives.unwrap_or(0));
        if end > now {
            let traffic = self.traffic.entry(number).or_default();
            traffic.transfers += u64::from(!held);
            traffic.waits_ns += end - now;
            then += end - now;
        }
        if is_lock {
            let again = later.iter().any(|later| later.line == number && later.is_write());
            line.locked_by = again.then_some(at);
            if !again {
                for (waiter, since) in mem::take(&mut line.waiters) {
                    let waited = then.saturating_sub(since);
                    self.traffic.entry(number).or_default().waits_ns += waited;
                    self.go_on(waiter, then.max(since));
                }
            }
        }
        Some(then)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Operation;
    use super::*;

    const COSTS: Costs = Costs { access_ns: 1, transfer_ns: 100, reads_in_turn: false };

    fn phase(threads: usize, rounds: usize, accesses: &dyn Fn(usize) -> Vec<Access>) -> Phase {
        let operation = |thread| Operation { thread, kind: 0, accesses: accesses(thread) };
        let operations = (0..rounds).flat_map(|_| (0..threads).map(operation)).collect();
        Phase { name: "phase".to_owned(), threads, operations, ..Phase::default() }
    }

    fn read(line: u64) -> Access {
        Access { line, kind: Kind::Read }
    }

    fn write(line: u64) -> Access {
        Access { line, kind: Kind::Write }
    }

    fn run(phase: &Phase, threads: usize) -> Outcome {
        replay(phase, threads, COSTS, &|_| false)
    }

    #[test]
    fn what_nobody_writes_is_never_transferred() {
        let phase = phase(64, 10, &|thread| vec![read(1), read(2), write(100 + thread as u64)]);
        for threads in [1, 2, 64] {
            let outcome = run(&phase, threads);
            assert_eq!((outcome.transfers(), outcome.operations), (0.0, 10 * threads as u64));
            assert!((outcome.rate / threads as f64 * 3e-9 - 1.0).abs() < 1e-9, "{}", outcome.rate);
        }
    }

    /// However many threads there are, one transfer is made at a time.
    #[test]
    fn a_line_that_all_write_bounds_them_all() {
        let phase = phase(64, 100, &|_| vec![write(1)]);
        assert_eq!(run(&phase, 1).transfers(), 0.0);
        for threads in [2, 64] {
            let outcome = run(&phase, threads);
            assert!(outcome.transfers() > 0.98, "{}", outcome.transfers());
            assert!((0.9e7..1.1e7).contains(&outcome.rate), "{}", outcome.rate);
        }
    }

    #[test]
    fn readers_of_a_modified_line_fetch_it_once() {
        // Thread 0 writes, the others read.
        let access = |thread| if thread == 0 { write(1) } else { read(1) };
        let phase = phase(4, 100, &|thread| vec![access(thread)]);
        let outcome = run(&phase, 4);
        let expected = Traffic { transfers: outcome.lines[&1].transfers, ..outcome.lines[&1] };
        assert_eq!(outcome.lines[&1], expected);
        assert!(expected.transfers > 300, "{expected:?}");
        let slower = replay(&phase, 4, Costs { reads_in_turn: true, ..COSTS }, &|_| false);
        assert!(slower.rate < outcome.rate, "{} {}", slower.rate, outcome.rate);
    }

    #[test]
    fn a_lock_is_held_from_its_first_write_to_its_last() {
        // 20 accesses under the lock.
        let accesses = |thread: usize| {
            let mut accesses = vec![write(1)];
            accesses.extend((0..20).map(|at| read(1000 * (1 + thread as u64) + at)));
            accesses.push(write(1));
            accesses
        };
        let phase = phase(8, 100, &accesses);
        let free = replay(&phase, 8, COSTS, &|_| false);
        let locked = replay(&phase, 8, COSTS, &|line| line == 1);
        // Each operation takes a transfer and its 22 accesses, one after the other.
        assert!((0.9e9 / 122.0..1.1e9 / 122.0).contains(&locked.rate), "{}", locked.rate);
        assert!(free.rate != locked.rate && locked.lines[&1].waits_ns > 0);
    }

    #[test]
    fn a_circle_of_locks_is_broken() {
        let lines = |thread: u64| [1 + thread, 2 - thread, 2 - thread, 1 + thread].map(write);
        let phase = phase(2, 10, &|thread| lines(thread as u64).into());
        let outcome = replay(&phase, 2, COSTS, &|_| true);
        assert_eq!(outcome.operations, 20);
        assert!(outcome.rate.is_finite() && outcome.transfers() > 0.0);
    }

    #[test]
    fn prefetched_lines_arrive_side_by_side() {
        let lines = [1, 2, 3, 4];
        let prefetch = lines.map(|line| Access { line, kind: Kind::Prefetch });
        // Thread 1 modifies what thread 0 reads, and then does something else.
        let mut writes = lines.map(write).to_vec();
        writes.extend((0..1000).map(|at| read(1000 + at)));
        let with = |first: &[Access]| {
            let reads = [first, &lines.map(read)].concat();
            phase(2, 100, &|thread| if thread == 0 { reads.clone() } else { writes.clone() })
        };
        let waits = |outcome: Outcome| lines.map(|line| outcome.lines[&line].waits_ns);
        let (apart, together) = (waits(run(&with(&[]), 2)), waits(run(&with(&prefetch), 2)));
        assert!(together.iter().sum::<u64>() < apart.iter().sum(), "{together:?} {apart:?}");
    }

    #[test]
    fn the_first_write_of_new_memory_is_no_transfer() {
        // Thread 0 makes what thread 1 reads.
        let access = |thread| if thread == 0 { write(1) } else { read(1) };
        let outcome = run(&phase(2, 1, &|thread| vec![access(thread)]), 2);
        assert_eq!(outcome.lines[&1].transfers, 1);
        // To a thread that does not see it made, it is like other memory.
        let outcome = run(&phase(2, 1, &|thread| vec![access(1 - thread)]), 1);
        assert_eq!(outcome.transfers(), 0.0);
    }
}
