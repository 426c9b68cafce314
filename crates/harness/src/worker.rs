//! One worker thread of a phase: build its task, wait for the others, loop, report.
//!
//! ```text
//!   spawn | build VM, setup() | ready | ... | go at the start tick | warm-up | timed units | end
//!                                 ^ barrier       ^ barrier
//! ```
//!
//! Everything before the start tick is outside of every number. In clock mode a worker looks at the
//! clock once a unit, and takes the reading from the last timed call where there was one. A unit in
//! flight at the deadline completes and counts. In count mode the units are dealt out beforehand:
//! `ops / threads` each, the first `ops % threads` workers one more.
//!
//! **Open loop.** Unit k of a worker is due at its scheduled tick, however long the one before
//! took. Response time runs from there, service time from the actual start. At the deadline, units
//! that were due and never started enter the response histogram with the time they had waited: left
//! out, the worst delays would be the ones missing.
//!
//! **Fake clock.** Time passes only where a worker reads its own clock, so the leader has none to
//! go by. The first worker then tells the leader before a unit that its clock has come to the next
//! sample, and waits until that has been taken. With one worker, samples are alike in every run. On
//! a real clock nothing of this is in the loop: it is another kind of [`Unit`].

use crate::live::{KINDS, LiveWorker};
use crate::lua::ScriptError;
use crate::program::{Differences, JobContext, JobTask, MixTask, Offsets, PlaybackTask, Task};
use crate::verbs::Verbs;
use crate::worker_message::WorkerMessage;
use keyrack_measure::{Clock, Histogram, usage};
use keyrack_record::ThreadRow;
use keyrack_workload::ArrivalSchedule;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What the workers of a phase and their leader share: nobody starts before all are ready.
#[derive(Debug, Default)]
pub(crate) struct StartBarrier {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Workers that have come, built or not.
    ready: u32,
    /// Whether some worker could not be built.
    abandoned: bool,
    /// What the leader decided: a start tick, or that nobody starts.
    decision: Option<Option<u64>>,
}

/// How often the leader looks up from waiting.
const LOOK: Duration = Duration::from_millis(100);

impl StartBarrier {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The leader's side: waits until `workers` have come, calling `look` now and then, and lets
    /// them start together. Returns the tick; `None` when some worker could not be built.
    pub(crate) fn release_when_ready(
        &self,
        clock: &Clock,
        workers: u32,
        look: &mut dyn FnMut(),
    ) -> Option<u64> {
        let mut state = self.lock();
        while state.ready < workers {
            let waited = self.changed.wait_timeout(state, LOOK);
            let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if timeout.timed_out() {
                drop(state);
                look();
                state = self.lock();
            }
        }
        let tick = (!state.abandoned).then(|| clock.ticks() + clock.ticks_of_ns(200_000));
        state.decision = Some(tick);
        self.changed.notify_all();
        tick
    }

    /// Lets everybody go without a start; workers that were never spawned do not come.
    pub(crate) fn cancel(&self) {
        self.lock().decision = Some(None);
        self.changed.notify_all();
    }

    /// A worker's side. `None` when some worker could not be built: nobody starts.
    fn arrive(&self, clock: &Clock, built: bool) -> Option<u64> {
        let mut state = self.lock();
        state.ready += 1;
        state.abandoned |= !built;
        self.changed.notify_all();
        while state.decision.is_none() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let tick = state.decision.flatten()?;
        drop(state);
        clock.wait_until(tick);
        Some(tick)
    }
}

/// Builds a worker's task; a panic while building is a failure like any other.
pub(crate) fn build<'s>(
    task: impl FnOnce() -> Result<Task<'s>, ScriptError>,
) -> Result<Task<'s>, ScriptError> {
    std::panic::catch_unwind(AssertUnwindSafe(task)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(ScriptError::plain(format!("panicked, which is a bug: {text}")))
    })
}

/// How the first worker of a fake clock keeps its leader informed.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) leader: Sender<WorkerMessage>,
    /// Nanoseconds from one look to the next.
    pub(crate) every_ns: u64,
}

/// When a worker's loop ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// After this worker's share of the units.
    Count(u64),
    /// At so many nanoseconds after the start.
    Ns(u64),
}

/// When the units of an open loop are due.
#[derive(Debug)]
pub(crate) enum Schedule {
    /// By a distribution.
    Drawn(ArrivalSchedule),
    /// As they were recorded.
    Recorded(Box<Offsets>),
}

impl Schedule {
    /// Nanoseconds from the start to the next unit.
    fn next_at_ns(&mut self) -> u64 {
        match self {
            Schedule::Drawn(schedule) => schedule.next_at_ns(),
            Schedule::Recorded(offsets) => offsets.next_at_ns(),
        }
    }

    /// Another walk over the same moments from the first on; nothing was taken off this one yet.
    fn again(&self) -> Option<Schedule> {
        Some(match self {
            Schedule::Drawn(schedule) => Schedule::Drawn(schedule.clone()),
            Schedule::Recorded(offsets) => Schedule::Recorded(Box::new(offsets.again()?)),
        })
    }
}

/// What a worker is to do once it has started.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    /// Nanoseconds of warm-up before the timed part.
    pub(crate) warmup_ns: u64,
    pub(crate) until: Until,
    /// The schedule of an open loop.
    pub(crate) arrivals: Option<Schedule>,
    /// Where the timed part counts; the task's verbs were made for the warm-up's counts.
    pub(crate) live: &'a LiveWorker,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) leader: Sender<WorkerMessage>,
    /// For the first worker on a fake clock.
    pub(crate) watch: Option<Watch>,
}

/// What became of a worker.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Ticks at which the timed part began and ended.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) failure: Option<WorkerFailure>,
    pub(crate) first_errors: [Option<String>; KINDS],
    pub(crate) trace_hash: Option<u64>,
    pub(crate) backlog_max: u64,
    pub(crate) backlog_end: u64,
    /// Units that the schedule started within the phase, served or not.
    pub(crate) due: u64,
    /// Why the run has to end, if the engine said that nothing more fits.
    pub(crate) full: Option<&'static str>,
    /// How the results of a replay differ from those that were recorded.
    pub(crate) differences: Differences,
    /// Processor time of this thread in the timed part, in nanoseconds.
    pub(crate) cpu_ns: u64,
    /// What `kb.time` filed, by label.
    pub(crate) labels: Vec<(String, Histogram)>,
    /// What jobs reported.
    pub(crate) rows: Vec<ThreadRow>,
}

/// A worker's failure in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkerFailure {
    pub(crate) reason: String,
    pub(crate) detail: String,
}

impl WorkerFailure {
    fn of(what: &str, error: ScriptError) -> Self {
        WorkerFailure { reason: format!("{what}: {}", error.message), detail: error.traceback }
    }
}

/// Waits for the others and runs the timed part.
pub(crate) fn run<'s>(
    task: Result<Task<'s>, ScriptError>,
    clock: &Clock,
    barrier: &StartBarrier,
    mut job: Job<'s>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let start = barrier.arrive(clock, task.is_ok());
    let mut task = match task {
        Ok(task) => task,
        Err(error) => {
            outcome.failure = Some(WorkerFailure::of("start", error));
            return outcome;
        }
    };
    let Some(start) = start else { return outcome };
    let result = match &mut task {
        Task::Script(vm) => drive_unit(&mut **vm, clock, start, &mut job, &mut outcome),
        Task::Mix(mix) => drive_unit(&mut **mix, clock, start, &mut job, &mut outcome),
        Task::Playback(trace) => drive_unit(&mut **trace, clock, start, &mut job, &mut outcome),
        Task::Job(jobs) => {
            run_jobs(jobs, clock, start, &job, &mut outcome);
            Ok(())
        }
    };
    if let Err((iter, error)) = result {
        let what = format!("run() error at unit {iter}");
        outcome.failure = Some(WorkerFailure::of(&what, error));
    }
    finish(task, &mut outcome);
    outcome
}

/// Waits for the others and loads this worker's shard.
pub(crate) fn load<'s>(
    task: Result<Task<'s>, ScriptError>,
    clock: &Clock,
    barrier: &StartBarrier,
    stop: &AtomicBool,
    live: &'s LiveWorker,
    leader: &Sender<WorkerMessage>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let start = barrier.arrive(clock, task.is_ok());
    let mut task = match task {
        Ok(task) => task,
        Err(error) => {
            outcome.failure = Some(WorkerFailure::of("load", error));
            return outcome;
        }
    };
    let Some(start) = start else { return outcome };
    outcome.start = start;
    if let Err(error) = task.load(&JobContext { clock, start, stop, live, leader }) {
        let what = if matches!(task, Task::Job(_)) { "load" } else { "load() error" };
        outcome.failure = Some(WorkerFailure::of(what, error));
    }
    outcome.end = clock.ticks();
    finish(task, &mut outcome);
    outcome
}

/// Ends the task and notes what it found.
fn finish(task: Task<'_>, outcome: &mut Outcome) {
    if let Task::Playback(trace) = &task {
        outcome.differences = trace.differences();
    }
    let (verbs, labels) = task.finish();
    outcome.labels = labels;
    if let Some(verbs) = verbs {
        outcome.full = verbs.full();
        (outcome.first_errors, outcome.trace_hash) = verbs.into_findings();
    }
}

/// One call of the workload, generic so that each kind of task gets a loop of its own.
trait Unit<'s> {
    fn unit(&mut self, iter: u64) -> Result<(), ScriptError>;
    fn verbs_of(&mut self) -> Option<&mut Verbs<'s>>;
    /// Counts into `live` from now on: the warm-up is over.
    fn switch(&mut self, live: &'s LiveWorker);
}

impl<'s> Unit<'s> for crate::lua::Vm<'s> {
    #[inline(always)]
    fn unit(&mut self, iter: u64) -> Result<(), ScriptError> {
        crate::lua::Vm::unit(self, iter)
    }

    #[inline(always)]
    fn verbs_of(&mut self) -> Option<&mut Verbs<'s>> {
        self.bridge.sessions.main_mut()
    }

    fn switch(&mut self, live: &'s LiveWorker) {
        self.bridge.sessions.switch(live);
        self.bridge.labels.take();
    }
}

impl<'s> Unit<'s> for MixTask<'s> {
    #[inline(always)]
    fn unit(&mut self, _iter: u64) -> Result<(), ScriptError> {
        MixTask::unit(self);
        Ok(())
    }

    #[inline(always)]
    fn verbs_of(&mut self) -> Option<&mut Verbs<'s>> {
        Some(self.verbs_mut())
    }

    fn switch(&mut self, live: &'s LiveWorker) {
        self.verbs_mut().switch(live);
    }
}

impl<'s> Unit<'s> for PlaybackTask<'s> {
    #[inline(always)]
    fn unit(&mut self, _iter: u64) -> Result<(), ScriptError> {
        PlaybackTask::unit(self)
    }

    #[inline(always)]
    fn verbs_of(&mut self) -> Option<&mut Verbs<'s>> {
        Some(self.verbs_mut())
    }

    fn switch(&mut self, live: &'s LiveWorker) {
        self.verbs_mut().switch(live);
    }
}

/// A unit before which the leader looks, whenever the fake clock has come to the next sample.
struct Watched<'u, 's> {
    unit: &'u mut dyn Unit<'s>,
    clock: &'u Clock,
    watch: Watch,
    /// Tick of the next look.
    next: u64,
}

impl<'s> Unit<'s> for Watched<'_, 's> {
    fn unit(&mut self, iter: u64) -> Result<(), ScriptError> {
        // What the last call read, as a reading of its own would take time.
        let now = self.unit.verbs_of().map_or(0, |verbs| verbs.last_end());
        if now >= self.next {
            let every = self.clock.ticks_of_ns(self.watch.every_ns).max(1);
            self.next += ((now - self.next) / every + 1) * every;
            let (seen, wait) = channel();
            if self.watch.leader.send(WorkerMessage::SampleDue(now, seen)).is_ok() {
                // Nothing comes but the end of the sender.
                let _ = wait.recv();
            }
        }
        self.unit.unit(iter)
    }

    fn verbs_of(&mut self) -> Option<&mut Verbs<'s>> {
        self.unit.verbs_of()
    }

    fn switch(&mut self, live: &'s LiveWorker) {
        self.unit.switch(live);
    }
}

/// As [`drive`]; where somebody samples, with a look at the time after each unit.
fn drive_unit<'s, U: Unit<'s>>(
    unit: &mut U,
    clock: &Clock,
    start: u64,
    job: &mut Job<'s>,
    outcome: &mut Outcome,
) -> Result<(), Failed> {
    let Some(watch) = job.watch.take() else { return drive(unit, clock, start, job, outcome) };
    let next = start + clock.ticks_of_ns(job.warmup_ns.saturating_add(watch.every_ns));
    let mut watched = Watched { unit, clock, watch, next };
    drive(&mut watched, clock, start, job, outcome)
}

/// Runs jobs from the common start to their end: they have no warm-up and no schedule.
fn run_jobs<'s>(
    jobs: &mut JobTask<'s>,
    clock: &Clock,
    start: u64,
    job: &Job<'s>,
    outcome: &mut Outcome,
) {
    let Job { stop, live, leader, .. } = job;
    let cpu_before_ns = usage::thread_cpu_ns();
    let (rows, failure) = jobs.run(&JobContext { clock, start, stop, live, leader });
    outcome.cpu_ns = usage::thread_cpu_ns().saturating_sub(cpu_before_ns);
    (outcome.start, outcome.end, outcome.rows) = (start, clock.ticks(), rows);
    outcome.failure = failure.map(|reason| WorkerFailure { reason, detail: String::new() });
}

type Failed = (u64, ScriptError);

fn drive<'s, U: Unit<'s>>(
    unit: &mut U,
    clock: &Clock,
    start: u64,
    job: &mut Job<'s>,
    outcome: &mut Outcome,
) -> Result<(), Failed> {
    let mut iter = 0;
    let mut begin = start;
    if job.warmup_ns > 0 {
        begin = start + clock.ticks_of_ns(job.warmup_ns);
        closed(unit, clock, Until::Ns(job.warmup_ns), start, job.stop, &mut iter)?;
        // A stop or a full disk ends a warm-up early, and the timed part begins there.
        begin = begin.min(clock.ticks());
    }
    // Setup and warm-up counted elsewhere; the timed part starts with a clean sheet.
    unit.switch(job.live);
    (outcome.start, iter) = (begin, 0);
    let cpu_before_ns = usage::thread_cpu_ns();
    let result = match job.arrivals.take() {
        None => {
            let result = closed(unit, clock, job.until, begin, job.stop, &mut iter);
            outcome.end = clock.ticks();
            result
        }
        Some(schedule) => open(unit, clock, schedule, begin, job, outcome, &mut iter),
    };
    outcome.cpu_ns = usage::thread_cpu_ns().saturating_sub(cpu_before_ns);
    result
}

fn closed<'s, U: Unit<'s>>(
    unit: &mut U,
    clock: &Clock,
    until: Until,
    begin: u64,
    stop: &AtomicBool,
    iter: &mut u64,
) -> Result<(), Failed> {
    let (count, deadline) = match until {
        Until::Count(count) => (count, u64::MAX),
        Until::Ns(ns) => (u64::MAX, begin + clock.ticks_of_ns(ns)),
    };
    let mut last_end = 0;
    while *iter < count && !stop.load(Ordering::Relaxed) {
        *iter += 1;
        unit.unit(*iter).map_err(|error| (*iter, error))?;
        let Some(verbs) = unit.verbs_of() else { break };
        verbs.live().units.add(1);
        if verbs.full().is_some() {
            break;
        }
        if deadline != u64::MAX {
            // A unit that timed nothing leaves no reading behind.
            let end = verbs.last_end();
            let now = if end == last_end { clock.ticks() } else { end };
            last_end = end;
            if now >= deadline {
                break;
            }
        }
    }
    // What is under way is part of the work, and its failures are the work's.
    if let Some(verbs) = unit.verbs_of() {
        verbs.flush();
    }
    Ok(())
}

/// Longest sleep between two looks at the stop flag.
const NAP_NS: u64 = 20_000_000;

/// A second walk over the schedule of an open loop. It counts what is due, so that a backlog is
/// counted exactly.
struct DueCount {
    schedule: Schedule,
    begin: u64,
    /// The tick at which the next unit is due.
    next: u64,
    count: u64,
}

impl DueCount {
    fn new(mut schedule: Schedule, clock: &Clock, begin: u64) -> DueCount {
        let next = begin + clock.ticks_of_ns(schedule.next_at_ns());
        DueCount { schedule, begin, next, count: 0 }
    }

    /// Counts what is due before `tick`.
    #[inline(always)]
    fn advance(&mut self, clock: &Clock, tick: u64) {
        while self.next < tick {
            self.count += 1;
            self.next = self.begin + clock.ticks_of_ns(self.schedule.next_at_ns());
        }
    }
}

fn open<'s, U: Unit<'s>>(
    unit: &mut U,
    clock: &Clock,
    mut schedule: Schedule,
    begin: u64,
    job: &Job<'s>,
    outcome: &mut Outcome,
    iter: &mut u64,
) -> Result<(), Failed> {
    let (count, deadline) = match job.until {
        Until::Count(count) => (count, u64::MAX),
        Until::Ns(ns) => (u64::MAX, begin + clock.ticks_of_ns(ns)),
    };
    let Some(ahead) = schedule.again() else {
        return Err((0, ScriptError::plain("the trace cannot be read again".to_owned())));
    };
    let mut due = DueCount::new(ahead, clock, begin);
    let nap = clock.ticks_of_ns(NAP_NS);
    let mut intended = begin + clock.ticks_of_ns(schedule.next_at_ns());
    let live = job.live;
    while *iter < count && intended < deadline && !job.stop.load(Ordering::Relaxed) {
        let now = clock.ticks();
        if now < intended {
            clock.wait_until(intended.min(now + nap));
            if clock.ticks() < intended {
                continue;
            }
        }
        let actual = clock.ticks();
        if actual >= deadline {
            break;
        }
        due.advance(clock, actual + 1);
        outcome.backlog_max =
            outcome.backlog_max.max(due.count.min(count).saturating_sub(*iter + 1));
        *iter += 1;
        let result = unit.unit(*iter).map_err(|error| (*iter, error));
        let end = clock.ticks();
        outcome.end = end;
        result?;
        live.units.add(1);
        live.unit_response.record(clock.ns_between(intended, end));
        live.unit_service.record(clock.ns_between(actual, end));
        intended = begin + clock.ticks_of_ns(schedule.next_at_ns());
        if unit.verbs_of().is_none_or(|verbs| verbs.full().is_some()) {
            break;
        }
    }
    if let Some(verbs) = unit.verbs_of() {
        verbs.flush();
    }
    let rest = Rest { schedule, intended, deadline, units: *iter, count };
    rest.account(clock, due, live, outcome);
    Ok(())
}

/// What an open loop leaves behind when it ends.
struct Rest {
    schedule: Schedule,
    /// When the next unit would have started.
    intended: u64,
    deadline: u64,
    /// Units that were served, and how many there were to be.
    units: u64,
    count: u64,
}

impl Rest {
    /// Ends the phase, and files units that were due and never started with the time that they had
    /// waited.
    fn account(
        mut self,
        clock: &Clock,
        mut due: DueCount,
        live: &LiveWorker,
        outcome: &mut Outcome,
    ) {
        // The phase ends here, before the bookkeeping of what was not served. When nothing more is
        // due it still lasts to its deadline: ten units a second are ten in one second, not ten in
        // the 0.9 s from the first to the last.
        let now = clock.ticks();
        let is_over = self.deadline != u64::MAX && self.intended >= self.deadline;
        outcome.end = if is_over { self.deadline.max(now) } else { now };
        let last = now.min(self.deadline);
        due.advance(clock, last);
        // In count mode the schedule goes on while late units are worked off, which shows in `due`.
        outcome.due = due.count.max(self.units);
        outcome.backlog_end = due.count.min(self.count).saturating_sub(self.units);
        outcome.backlog_max = outcome.backlog_max.max(outcome.backlog_end);
        for _ in 0..outcome.backlog_end {
            live.unit_response.record(clock.ns_between(self.intended, last));
            self.intended = due.begin + clock.ticks_of_ns(self.schedule.next_at_ns());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each worker gets from a barrier that `release` opens.
    fn meet(built: &[bool], release: impl FnOnce(&StartBarrier)) -> Vec<Option<u64>> {
        let barrier = StartBarrier::default();
        std::thread::scope(|scope| {
            let join = |built: &bool| {
                let (barrier, built) = (&barrier, *built);
                scope.spawn(move || barrier.arrive(&Clock::fake(1), built))
            };
            let handles: Vec<_> = built.iter().map(join).collect();
            release(&barrier);
            handles.into_iter().map(|handle| handle.join().unwrap()).collect()
        })
    }

    #[test]
    fn all_workers_start_at_the_tick_of_their_leader() {
        let clock = Clock::fake(1);
        let mut tick = None;
        let starts =
            meet(&[true; 4], |barrier| tick = barrier.release_when_ready(&clock, 4, &mut || {}));
        assert!(tick.is_some());
        assert_eq!(starts, [tick; 4]);
    }

    #[test]
    fn one_worker_that_could_not_be_built_starts_nobody() {
        let clock = Clock::fake(1);
        let release = |barrier: &StartBarrier| {
            assert_eq!(barrier.release_when_ready(&clock, 3, &mut || {}), None);
        };
        assert_eq!(meet(&[true, false, true], release), [None; 3]);
    }

    #[test]
    fn workers_do_not_wait_for_others_that_never_came() {
        for present in 0..4 {
            let starts = meet(&vec![true; present], StartBarrier::cancel);
            assert_eq!(starts, vec![None; present]);
        }
    }

    #[test]
    fn a_panic_while_a_worker_is_built_is_a_failure_in_words() {
        let error = build(|| panic!("no session {}", 7)).err().unwrap();
        assert_eq!(error.message, "panicked, which is a bug: no session 7");
    }
}
