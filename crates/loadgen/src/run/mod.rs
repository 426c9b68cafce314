//! A fleet of threads: connected once, then given one phase after the other.
//!
//! ```text
//!   leader                          each worker
//!     |  -- threads start -->        connect, greet
//!     |  <------- connected --
//!     |  -- load ------------>       its part of the records of its servers
//!     |  <------------ done --
//!     |  -- warm up: start at t -->  wait for t, run, drain
//!     |  <------------ done --
//!     |  -- measure: start at t' --> the same, counted
//!     |     samples once a second
//!     |  <------------ done --       accounts, which are merged
//! ```
//!
//! The answers to one order are the barrier before the next, and a start lies a little in the
//! future, so all threads begin a measurement at one tick, whatever each did before. A thread that
//! panics answers with its panic, which ends the others and goes on in the leader.

mod series;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use keyrack_measure::Clock;
use keyrack_vfs::{Fs, OutputFile};

use crate::account::{Live, Report, Second};
use crate::error::{Error, Result};
use crate::plan::{Loading, Plan};
use crate::worker::{Done, Phase, Sample, Worker};
use series::Series;

/// Starts lie so far in the future that every thread has heard of them.
const START_NS: u64 = 2_000_000;
/// How often the leader looks at the flag that ends a run.
const LOOK: Duration = Duration::from_millis(50);
/// A phase that a number of requests ends may last so long.
const LENGTH_NS_MAX: u64 = 366 * 86_400 * 1_000_000_000;
/// Why there is an answer for every order.
const ANSWERS: &str = "each thread answers each order, and a panic is an answer, too";
/// Batches of samples between the threads and the writer of a file.
const BATCHES_MAX: usize = 64;

/// What somebody who watches may want to show.
#[derive(Debug)]
pub enum Event<'a> {
    /// All connections are made.
    Connected {
        /// How many.
        connections: usize,
        /// What the threads let others see.
        live: &'a [Arc<Live>],
    },
    /// Records are being written.
    Loading {
        /// How many, over all servers.
        records: u64,
    },
    /// They are.
    Loaded {
        /// How many.
        records: u64,
        /// How long it took.
        elapsed_s: f64,
    },
    /// The warm-up begins.
    WarmingUp,
    /// The measurement begins.
    Measuring,
    /// A second of it is over.
    Second(&'a Second),
    /// The measurement is over; for an observer that drew something.
    Finished,
}

/// What a run needs besides its plan.
pub struct Surroundings<'a> {
    /// The clock of all threads.
    pub clock: Clock,
    /// Set from outside to end the run; what was measured is reported.
    pub stop: Arc<AtomicBool>,
    /// Told what happens.
    pub observer: &'a mut dyn FnMut(&Event<'_>),
    /// Where files are.
    pub fs: &'a dyn Fs,
    /// Where samples go, for `--save`; those of several measurements one after the other.
    pub save: Option<OutputFile>,
    /// When the program started, for `--wait`.
    pub began: u64,
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("clock", &self.clock).finish_non_exhaustive()
    }
}

/// One measurement of a fleet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measurement {
    /// Requests a second over all threads; 0 is a closed loop.
    pub rate: f64,
    /// Seconds; 0 where the number of requests ends it.
    pub time_s: f64,
    /// Seconds of the same before, uncounted.
    pub warmup_s: f64,
    /// The tick at which it begins, where others begin with us.
    pub start: Option<u64>,
}

impl Measurement {
    /// The measurement that a plan asks for.
    #[must_use]
    pub fn of(plan: &Plan) -> Measurement {
        let settings = &plan.settings;
        let (rate, time_s, warmup_s) = (settings.rate, settings.time_s, settings.warmup_s);
        Measurement { rate, time_s, warmup_s, start: None }
    }
}

/// Threads with their connections, waiting for a phase. They end when it is dropped.
pub struct Fleet {
    plan: Arc<Plan>,
    stop: Arc<AtomicBool>,
    phase_senders: Vec<Sender<Phase>>,
    answers: Receiver<(usize, Answer)>,
    threads: Vec<JoinHandle<()>>,
    live: Vec<Arc<Live>>,
    phases: u32,
    loaded: u64,
    load_s: f64,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.phase_senders.clear();
        for thread in self.threads.drain(..) {
            // Its panic, if it had one, was its answer.
            let _ = thread.join();
        }
    }
}

/// What a thread says of a phase, or what it panicked with.
type Answer = std::thread::Result<Result<Done>>;

/// Lives a thread's `life`, and answers with its panic where it has one: the leader waits for as
/// many answers as there are threads.
fn answering(thread: usize, answer: &Sender<(usize, Answer)>, body: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
        // A leader that is gone needs no answer.
        let _ = answer.send((thread, Err(panic)));
    }
}

/// A thread's life: connected, then one phase after the other until nobody orders any more.
fn work(
    plan: &Plan,
    thread: usize,
    clock: Clock,
    live: Arc<Live>,
    stop: Arc<AtomicBool>,
    inbox: &Receiver<Phase>,
    answer: &Sender<(usize, Answer)>,
) {
    let mut worker = match Worker::new(plan, thread, clock, live, stop) {
        Ok(worker) => worker,
        Err(error) => {
            // A leader that is gone needs no answer, here and below.
            let _ = answer.send((thread, Ok(Err(error))));
            return;
        }
    };
    let connected = Done { connections: worker.connections(), ..Done::default() };
    let _ = answer.send((thread, Ok(Ok(connected))));
    while let Ok(phase) = inbox.recv() {
        let done = worker.reopen_closed().and_then(|()| worker.run(phase));
        if answer.send((thread, Ok(done))).is_err() {
            return;
        }
    }
}

/// Loads what is to be loaded, warms up, and measures once.
///
/// # Errors
/// A server that does not let us begin, or a file that cannot be written. What happens to
/// connections later is in the report.
pub fn run(plan: &Arc<Plan>, surroundings: &mut Surroundings<'_>) -> Result<Report> {
    let mut fleet = Fleet::start(plan, surroundings)?;
    let loading = fleet.load(surroundings)?;
    if plan.settings.loading == Loading::Only || loading.is_interrupted {
        return Ok(loading);
    }
    let what = Measurement::of(plan);
    fleet.warm_up(&what, surroundings)?;
    let mut report = fleet.measure(&what, surroundings)?;
    report.troubles.splice(0..0, loading.troubles);
    report.account.errors.merge(&loading.account.errors);
    Ok(report)
}

impl Fleet {
    /// Starts the threads and connects them.
    ///
    /// # Errors
    /// A server that does not let us begin.
    pub fn start(plan: &Arc<Plan>, surroundings: &mut Surroundings<'_>) -> Result<Fleet> {
        let (answer, answers) = channel();
        let mut fleet = Fleet {
            plan: Arc::clone(plan),
            stop: Arc::clone(&surroundings.stop),
            phase_senders: Vec::new(),
            answers,
            threads: Vec::new(),
            live: Vec::new(),
            phases: 0,
            loaded: 0,
            load_s: 0.0,
        };
        for thread in 0..plan.settings.threads {
            let (sender, inbox) = channel::<Phase>();
            let (answer, live) = (answer.clone(), Arc::<Live>::default());
            fleet.live.push(Arc::clone(&live));
            let (clock, stop) = (surroundings.clock.clone(), Arc::clone(&surroundings.stop));
            let plan = Arc::clone(plan);
            let body = move || {
                let body = || work(&plan, thread, clock, live, stop, &inbox, &answer);
                answering(thread, &answer, body);
            };
            let started = std::thread::Builder::new().name(format!("load-{thread}")).spawn(body);
            fleet.threads.push(started.map_err(Error::machine("start a thread"))?);
            fleet.phase_senders.push(sender);
        }
        drop(answer);
        let mut connections = 0;
        fleet.collect(&mut |_, done| connections += done.connections)?;
        (surroundings.observer)(&Event::Connected { connections, live: &fleet.live });
        Ok(fleet)
    }

    /// Writes every record once to each server, unless it is there already.
    ///
    /// # Errors
    /// What the machine refuses.
    pub fn load(&mut self, surroundings: &mut Surroundings<'_>) -> Result<Report> {
        let mut report = Report::default();
        if self.plan.settings.loading == Loading::No {
            return Ok(report);
        }
        let records = self.plan.records_total();
        (surroundings.observer)(&Event::Loading { records });
        let began = surroundings.clock.ticks();
        self.send_phase(|_| Phase {
            is_load: true,
            start: began,
            length_ns: LENGTH_NS_MAX,
            rate: 0.0,
            budget: None,
            number: 0,
            samples: None,
            is_ramped: false,
        });
        self.collect(&mut |_, done: Done| {
            report.account.merge(&done.account);
            report.loaded += done.loaded;
            note_all(&mut report.troubles, done.troubles);
        })?;
        let clock = &surroundings.clock;
        report.load_s = clock.ns_between(began, clock.ticks()) as f64 / 1e9;
        (self.loaded, self.load_s) = (report.loaded, report.load_s);
        report.is_interrupted = self.is_stopped();
        if report.loaded < records && !report.is_interrupted {
            let missing = records - report.loaded;
            report.troubles.push(format!("{missing} of {records} records could not be written"));
        }
        let (records, elapsed_s) = (report.loaded, report.load_s);
        (surroundings.observer)(&Event::Loaded { records, elapsed_s });
        Ok(report)
    }

    /// Lets the load run for a while without counting it.
    ///
    /// # Errors
    /// What the machine refuses.
    pub fn warm_up(
        &mut self,
        what: &Measurement,
        surroundings: &mut Surroundings<'_>,
    ) -> Result<()> {
        if what.warmup_s <= 0.0 || self.is_stopped() {
            return Ok(());
        }
        (surroundings.observer)(&Event::WarmingUp);
        let clock = &surroundings.clock;
        let start = clock.ticks() + clock.ticks_of_ns(START_NS);
        let number = self.next_phase() | 1 << 16;
        let length_ns = (what.warmup_s * 1e9) as u64;
        // A ramp warms up at its first rate.
        let ramp = self.plan.ramp();
        let first = ramp.map(|ramp| ramp.rate_at(0.0) * self.share_of(what.rate));
        let rate = first.filter(|rate| *rate > 0.0).unwrap_or(what.rate);
        self.send_phase(|_| Phase {
            is_load: false,
            start,
            length_ns,
            rate,
            budget: None,
            number,
            samples: None,
            is_ramped: false,
        });
        self.collect(&mut |_, _| {})
    }

    /// The part of a ramp that a rate is, of its mean over all processes.
    fn share_of(&self, rate: f64) -> f64 {
        rate / self.plan.settings.rate
    }

    /// Measures.
    ///
    /// # Errors
    /// What the machine refuses: a socket, a file.
    pub fn measure(
        &mut self,
        what: &Measurement,
        surroundings: &mut Surroundings<'_>,
    ) -> Result<Report> {
        let mut saver = surroundings.save.take();
        let (sender, receiver) = sync_channel::<Vec<Sample>>(BATCHES_MAX);
        let start = self.start_of(what, surroundings);
        let origin_s = surroundings.clock.ns_between(surroundings.began, start) as f64 / 1e9;
        let report = std::thread::scope(|scope| {
            let writer = saver
                .as_mut()
                .map(|file| scope.spawn(move || series::write_samples(file, origin_s, &receiver)));
            let sender = writer.is_some().then_some(sender);
            let report = self.measure_into(what, start, sender, surroundings);
            let written = match writer {
                Some(writer) => match writer.join() {
                    Ok(written) => written,
                    Err(panic) => resume_unwind(panic),
                },
                None => Ok(()),
            };
            let report = report?;
            written?;
            Ok(report)
        });
        surroundings.save = saver;
        (surroundings.observer)(&Event::Finished);
        report
    }

    /// The tick at which a measurement begins: soon, but not before `--wait` is over and others
    /// begin.
    fn start_of(&self, what: &Measurement, surroundings: &Surroundings<'_>) -> u64 {
        let clock = &surroundings.clock;
        let wait_ns = (self.plan.settings.wait_s * 1e9) as u64;
        let waited = surroundings.began + clock.ticks_of_ns(wait_ns);
        let soon = clock.ticks() + clock.ticks_of_ns(START_NS);
        waited.max(what.start.unwrap_or(0)).max(soon)
    }

    fn measure_into(
        &mut self,
        what: &Measurement,
        start: u64,
        samples: Option<std::sync::mpsc::SyncSender<Vec<Sample>>>,
        surroundings: &mut Surroundings<'_>,
    ) -> Result<Report> {
        let number = self.next_phase();
        let length_ns = if what.time_s > 0.0 { (what.time_s * 1e9) as u64 } else { LENGTH_NS_MAX };
        let (plan, rate) = (Arc::clone(&self.plan), what.rate);
        (surroundings.observer)(&Event::Measuring);
        let ramp = plan.ramp().map(|ramp| (ramp, self.share_of(rate)));
        let mut series = Series::new(&self.live, start, surroundings.clock.clone(), ramp);
        self.send_phase(|thread| Phase {
            is_load: false,
            start,
            length_ns,
            rate,
            budget: plan.budget_of(thread),
            number,
            samples: samples.clone(),
            is_ramped: plan.ramp().is_some(),
        });
        drop(samples);
        let mut report = Report {
            offered_rate: (rate > 0.0).then_some(rate),
            loaded: self.loaded,
            load_s: self.load_s,
            ..Report::default()
        };
        let mut last_reply = start;
        let mut threads = vec![None; self.phase_senders.len()];
        let mut dead = 0;
        let end = start.saturating_add(surroundings.clock.ticks_of_ns(length_ns));
        let observer = &mut *surroundings.observer;
        self.collect_sampling(&mut series, end, observer, &mut |thread, done: Done| {
            report.account.merge(&done.account);
            note_all(&mut report.troubles, done.troubles);
            report.windows.extend(done.windows);
            if !done.gaps_ns.is_empty() {
                report.send_gaps_ns.push(done.gaps_ns);
            }
            threads[thread] = Some(done.used);
            last_reply = last_reply.max(done.last_reply);
            dead += usize::from(done.is_dead);
        })?;
        report.threads = threads.into_iter().flatten().collect();
        report.windows.sort_by_key(|window| (window.thread, window.connection, window.gets_so_far));
        report.is_interrupted = self.is_stopped();
        let clock = &surroundings.clock;
        // What ended early, or was ended by a number, lasted until its last reply.
        let is_dead = dead > 0 && dead == self.phase_senders.len();
        let is_whole = what.time_s > 0.0 && !report.is_interrupted && !is_dead;
        let is_spent =
            plan.settings.queries > 0 && report.account.counts.offered >= plan.settings.queries;
        report.window_s = if is_whole && !is_spent {
            what.time_s
        } else {
            clock.ns_between(start, last_reply) as f64 / 1e9
        };
        report.series = series.finish(clock.ticks().min(end));
        Ok(report)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn next_phase(&mut self) -> u32 {
        self.phases += 1;
        self.phases - 1
    }

    /// Gives every thread its phase.
    fn send_phase(&self, phase: impl Fn(usize) -> Phase) {
        for (thread, sender) in self.phase_senders.iter().enumerate() {
            // A thread that is gone has left its panic among the answers.
            let _ = sender.send(phase(thread));
        }
    }

    /// Waits for an answer of every thread.
    ///
    /// # Panics
    /// With the panic of a thread.
    fn collect(&mut self, take: &mut dyn FnMut(usize, Done)) -> Result<()> {
        let mut failure = None;
        for _ in 0..self.phase_senders.len() {
            let answered = self.answers.recv().expect(ANSWERS);
            self.collect_answer(answered, &mut failure, take);
        }
        failure.map_or(Ok(()), Err)
    }

    /// Waits for the answers, and takes a sample each second.
    ///
    /// # Panics
    /// With the panic of a thread.
    fn collect_sampling(
        &mut self,
        series: &mut Series<'_>,
        end: u64,
        observer: &mut dyn FnMut(&Event<'_>),
        take: &mut dyn FnMut(usize, Done),
    ) -> Result<()> {
        let mut failure = None;
        let mut missing = self.phase_senders.len();
        while missing > 0 {
            match self.answers.recv_timeout(series.wait().min(LOOK)) {
                Ok(answered) => {
                    missing -= 1;
                    self.collect_answer(answered, &mut failure, take);
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(second) = series.look(end) {
                        observer(&Event::Second(second));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => unreachable!("{ANSWERS}"),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    fn collect_answer(
        &self,
        (thread, answer): (usize, Answer),
        failure: &mut Option<Error>,
        take: &mut dyn FnMut(usize, Done),
    ) {
        match answer {
            Ok(Ok(done)) => take(thread, done),
            Ok(Err(error)) => *failure = failure.take().or(Some(error)),
            Err(panic) => {
                // The others are joined on the way out.
                self.stop.store(true, Ordering::Relaxed);
                resume_unwind(panic);
            }
        }
    }
}

fn note_all(troubles: &mut Vec<String>, more: Vec<String>) {
    for trouble in more {
        if !troubles.contains(&trouble) {
            troubles.push(trouble);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Settings;
    use keyrack_vfs::MemFs;

    /// A fleet whose first thread panics at its first order, and whose others answer.
    fn fleet(threads: usize) -> Fleet {
        let settings = Settings { servers: vec!["127.0.0.1:1".to_owned()], ..Settings::default() };
        let plan = Arc::new(Plan::new(settings, &MemFs::new()).unwrap());
        let (answer, answers) = channel();
        let mut fleet = Fleet {
            plan,
            stop: Arc::default(),
            phase_senders: Vec::new(),
            answers,
            threads: Vec::new(),
            live: vec![Arc::default(); threads],
            phases: 0,
            loaded: 0,
            load_s: 0.0,
        };
        for thread in 0..threads {
            let (sender, inbox) = channel::<Phase>();
            let answer = answer.clone();
            fleet.threads.push(std::thread::spawn(move || {
                answering(thread, &answer, || {
                    while inbox.recv().is_ok() {
                        assert!(thread > 0, "thread 0 found a broken invariant");
                        answer.send((thread, Ok(Ok(Done::default())))).unwrap();
                    }
                });
            }));
            fleet.phase_senders.push(sender);
        }
        fleet
    }

    fn phase() -> Phase {
        Phase {
            is_load: false,
            start: 0,
            length_ns: 1,
            rate: 0.0,
            budget: None,
            number: 0,
            samples: None,
            is_ramped: false,
        }
    }

    /// With one thread the result was one of no requests; with more the leader waited for ever.
    #[test]
    fn a_load_thread_that_panics_is_neither_a_result_nor_a_wait() {
        for threads in [1, 3] {
            for is_sampling in [false, true] {
                let mut fleet = fleet(threads);
                fleet.send_phase(|_| phase());
                let live = fleet.live.clone();
                let panic = catch_unwind(AssertUnwindSafe(|| {
                    if is_sampling {
                        let clock = Clock::calibrated();
                        let mut series = Series::new(&live, clock.ticks(), clock, None);
                        fleet.collect_sampling(&mut series, u64::MAX, &mut |_| {}, &mut |_, _| {})
                    } else {
                        fleet.collect(&mut |_, _| {})
                    }
                }))
                .expect_err("a result without the thread");
                let said = panic.downcast_ref::<&str>().copied().unwrap_or("no text");
                assert_eq!(said, "thread 0 found a broken invariant", "{threads} {is_sampling}");
                assert!(fleet.is_stopped(), "the others go on");
            }
        }
    }
}
