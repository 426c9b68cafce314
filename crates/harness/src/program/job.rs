//! A job: a workload that is a program of its own, which each worker runs once.
//!
//! ```text
//!   common start --> job 0 --> barrier --> job 1 --> ... --> rows
//!                     |          all workers wait, the time starts again
//!                     +-- JobClient: operations --> Verbs --> session
//! ```
//!
//! `A,B` is a sequence: its jobs run one after the other on one store, and each worker keeps its
//! generator from one to the next. Rows of a sequence carry its whole name with `@` and the place.
//!
//! **Load.** Where the first job of a sequence has a load, all workers make it first, in a phase of
//! its own that counts for nothing, and a store that has rows already may be left as it is.
//!
//! **Beside.** A job may have workers beside those that were asked for. Their numbers follow, their
//! operations are not units, and jobs that have none of them pass them by.
//!
//! **Time.** A duration ends stage 0 of a job, in which it writes; a worker that has seen its end
//! raises a flag that all share, so that the end is seen in the order in which the store shows
//! writes. Nothing else stops a worker: what was written is read to its end. The clock is looked at
//! every so many operations, up to 64, as long as those take less than 50 us together.
//!
//! **Ends.** A worker whose job fails halts the others at their next operation, and so does a stop
//! of the run. A barrier that waits for a worker that has halted lets everybody go.
//!
//! A job counts one unit per operation, and one per key in batches.

mod client;

use crate::live::LiveWorker;
use crate::params::Params;
use crate::settings::Bound;
use crate::verbs::Verbs;
use crate::worker_message::WorkerMessage;
use keyrack_measure::Clock;
use keyrack_record::{FieldValue, ThreadRow};
use keyrack_workload::kvtest::{End, GlibcRandom, Halt, Job, Lcg, Value};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Seconds of a job where nothing else ends it.
pub(crate) const JOB_SECONDS: f64 = 10.0;

/// A sequence of jobs, as a workload.
#[derive(Clone, Debug)]
pub(crate) struct JobPlan {
    /// The name of the workload: `rw1`, or `wcol1,rcol1`.
    pub(crate) name: String,
    pub(crate) jobs: Vec<&'static Job>,
    /// Contents of the files that parameters name, by parameter.
    pub(crate) files: Vec<(&'static str, Arc<[u8]>)>,
    /// Operations of each thread; `None` takes the bound's.
    pub(crate) limit: Option<u64>,
}

impl JobPlan {
    /// The jobs that `source` names, with commas between them; `None` where the first of them is
    /// none.
    ///
    /// # Errors
    /// The first name that is none.
    pub(crate) fn jobs_of(source: &str) -> Option<Result<Vec<&'static Job>, &str>> {
        let find = |name| keyrack_workload::job(name).ok_or(name);
        find(source.split(',').next()?).ok()?;
        Some(source.split(',').map(find).collect())
    }

    /// Workers beside those that are asked for.
    pub(crate) fn beside(&self) -> u32 {
        self.jobs.iter().map(|job| job.beside).max().unwrap_or(0)
    }

    /// Whether the first job loads a store before it.
    pub(crate) fn has_load(&self) -> bool {
        self.jobs.first().is_some_and(|job| job.has_load())
    }

    /// The first job, where it wants a store without rows.
    pub(crate) fn wants_fresh(&self) -> Option<&'static str> {
        self.jobs.first().filter(|job| job.wants_fresh).map(|job| job.name)
    }

    /// The name under which the job at `place` reports.
    fn test(&self, place: usize) -> String {
        match self.jobs.len() {
            1 => self.name.clone(),
            _ => format!("{}@{place}", self.name),
        }
    }

    /// Nanoseconds of stage 0 of `job`.
    fn duration_ns(job: &Job, bound: Bound) -> Option<u64> {
        let secs = match bound {
            Bound::Secs(secs) => secs,
            Bound::Ops(_) if job.end == End::Time => JOB_SECONDS,
            Bound::Ops(_) => return None,
        };
        secs.is_finite().then_some((secs * 1e9) as u64)
    }

    fn limit(&self, bound: Bound) -> u64 {
        match (self.limit, bound) {
            (Some(limit), _) | (None, Bound::Ops(limit)) => limit,
            (None, Bound::Secs(_)) => u64::MAX,
        }
    }
}

/// What the workers of one measurement share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Whether stage 0 of the present job is over. Set by the first worker that sees it, before
    /// anything that it writes from then on.
    expired: AtomicBool,
    /// Whether some worker has failed.
    halted: AtomicBool,
    /// Workers that were asked for and are through with the present job.
    through: AtomicU32,
    /// Whether the store had rows before it was loaded.
    has_rows: AtomicBool,
    random: Mutex<GlibcRandom>,
    barrier: Mutex<JobBarrier>,
    opened: Condvar,
}

/// Where workers wait for each other between two jobs.
#[derive(Debug, Default)]
struct JobBarrier {
    waiting: u32,
    /// How often it has opened, and the tick of the last time.
    opened: u32,
    tick: u64,
}

/// How often a waiting worker looks for a stop, which wakes nobody.
const LOOK: Duration = Duration::from_millis(50);

impl Shared {
    fn barrier(&self) -> MutexGuard<'_, JobBarrier> {
        self.barrier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the store has rows already.
    pub(crate) fn note_rows(&self, has_rows: bool) {
        self.has_rows.store(has_rows, Ordering::Relaxed);
    }

    fn halt(&self) {
        let _barrier = self.barrier();
        self.halted.store(true, Ordering::Relaxed);
        self.opened.notify_all();
    }

    /// Waits for all `workers`; the last one starts the time again. Returns the tick of the start.
    fn wait_for_all(&self, workers: u32, clock: &Clock, stop: &AtomicBool) -> Result<u64, Halt> {
        let mut barrier = self.barrier();
        let round = barrier.opened;
        barrier.waiting += 1;
        if barrier.waiting == workers {
            *barrier = JobBarrier { waiting: 0, opened: round + 1, tick: clock.ticks() };
            self.expired.store(false, Ordering::Relaxed);
            self.through.store(0, Ordering::Relaxed);
            self.opened.notify_all();
        }
        while barrier.opened == round {
            if stop.load(Ordering::Relaxed) || self.halted.load(Ordering::Relaxed) {
                return Err(Halt::Stopped);
            }
            let waited = self.opened.wait_timeout(barrier, LOOK);
            barrier = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(barrier.tick)
    }
}

/// Halts the other workers when it is dropped, unless the job is through.
struct HaltOthers<'a>(Option<&'a Shared>);

impl Drop for HaltOthers<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.0 {
            shared.halt();
        }
    }
}

/// One worker's share of a sequence of jobs.
pub(crate) struct JobTask<'s> {
    pub(crate) plan: Arc<JobPlan>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) verbs: Verbs<'s>,
    pub(crate) params: Params,
    pub(crate) bound: Bound,
    pub(crate) seed: u64,
    /// Which worker this is, and how many were asked for.
    pub(crate) who: (u32, u32),
}

/// What a worker has around it while its jobs run.
pub(crate) struct JobContext<'a, 's> {
    pub(crate) clock: &'a Clock,
    /// The tick of the common start.
    pub(crate) start: u64,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) live: &'s LiveWorker,
    pub(crate) leader: &'a Sender<WorkerMessage>,
}

impl<'s> JobTask<'s> {
    /// Runs the jobs. Returns the rows of those that came to their end, and the failure in words
    /// where there was one.
    pub(crate) fn run(&mut self, context: &JobContext<'_, 's>) -> (Vec<ThreadRow>, Option<String>) {
        self.verbs.switch(context.live);
        let (plan, shared) = (Arc::clone(&self.plan), Arc::clone(&self.shared));
        let mut others = HaltOthers(Some(&shared));
        let (mut rows, mut random, mut start) = (Vec::new(), Lcg::default(), context.start);
        for (place, job) in plan.jobs.iter().enumerate() {
            let test = plan.test(place);
            let mut result = Ok(());
            if self.who.0 < self.who.1 + job.beside {
                let mut client = self.client(context, &shared, job, place, start);
                result = job.run(&mut client, &mut random);
                let fields = client.row.into_fields().into_iter();
                if result.is_ok() {
                    let fields = fields.map(|(name, value)| (name, field(value))).collect();
                    rows.push(ThreadRow { test: test.clone(), thread: self.who.0, fields });
                    if self.who.0 < self.who.1 {
                        shared.through.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            if result.is_ok() && place + 1 < plan.jobs.len() {
                let workers = self.who.1 + plan.beside();
                let met = shared.wait_for_all(workers, context.clock, context.stop);
                result = met.map(|tick| start = tick);
            }
            match result {
                Ok(()) => {}
                Err(Halt::Stopped) => return (rows, None),
                Err(why) => {
                    return (rows, Some(format!("{test} on thread {}: {why}", self.who.0)));
                }
            }
        }
        others.0 = None;
        (rows, None)
    }

    /// Loads this worker's share of what the first job works on. The failure in words.
    pub(crate) fn load(&mut self, context: &JobContext<'_, 's>) -> Result<(), String> {
        let (plan, shared) = (Arc::clone(&self.plan), Arc::clone(&self.shared));
        let Some(job) = plan.jobs.first() else { return Ok(()) };
        let mut others = HaltOthers(Some(&shared));
        let mut client = self.loader(context, &shared, job);
        match job.load(&mut client) {
            Ok(()) => others.0 = None,
            Err(Halt::Stopped) => {}
            Err(why) => return Err(format!("{} on thread {}: {why}", job.name, self.who.0)),
        }
        Ok(())
    }
}

fn field(value: Value) -> FieldValue {
    match value {
        Value::Flag(flag) => FieldValue::Flag(flag),
        Value::Count(count) => FieldValue::Count(count),
        Value::Number(number) => FieldValue::Number(number),
        Value::Text(text) => FieldValue::Text(text),
        Value::List(lines) => FieldValue::List(lines),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_opens_for_all_or_lets_all_go() {
        let run = |threads: u32, fails: bool| {
            let (shared, clock, stop) = (Shared::default(), Clock::fake(1), AtomicBool::new(false));
            shared.expired.store(true, Ordering::Relaxed);
            let ticks: Vec<Result<u64, Halt>> = std::thread::scope(|scope| {
                let wait_for_all = |id: u32| {
                    let (shared, clock, stop) = (&shared, clock.share(), &stop);
                    scope.spawn(move || {
                        let _others = HaltOthers((fails && id == 0).then_some(shared));
                        if fails && id == 0 {
                            return Err(Halt::Stopped);
                        }
                        shared.wait_for_all(threads, &clock, stop)
                    })
                };
                let handles: Vec<_> = (0..threads).map(wait_for_all).collect();
                handles.into_iter().map(|handle| handle.join().unwrap()).collect()
            });
            (ticks, shared.expired.load(Ordering::Relaxed))
        };
        for threads in 1..5 {
            let (ticks, expired) = run(threads, false);
            assert!(ticks.iter().all(|tick| *tick == ticks[0] && tick.is_ok()), "{ticks:?}");
            assert!(!expired, "the time starts again");
            let (ticks, _) = run(threads, true);
            assert!(ticks.iter().all(Result::is_err), "{ticks:?}");
        }
    }

    #[test]
    fn a_stop_opens_the_gate() {
        let (shared, clock, stop) = (Shared::default(), Clock::fake(1), AtomicBool::new(true));
        assert_eq!(shared.wait_for_all(2, &clock, &stop), Err(Halt::Stopped));
    }

    #[test]
    fn a_sequence_is_jobs_with_commas_between_them() {
        let names = |source| {
            let jobs = JobPlan::jobs_of(source)?;
            Some(jobs.map(|jobs| jobs.iter().map(|job| job.name).collect::<Vec<_>>()))
        };
        assert_eq!(names("rw1"), Some(Ok(vec!["rw1"])));
        assert_eq!(names("wcol1,rcol1,rw1"), Some(Ok(vec!["wcol1", "rcol1", "rw1"])));
        assert_eq!(names("wcol1,rcolx"), Some(Err("rcolx")));
        assert_eq!(names("wcol1,"), Some(Err("")));
        assert_eq!(names("mixed"), None);
        assert_eq!(names(""), None);
    }

    #[test]
    fn a_bound_is_a_duration_a_limit_or_both() {
        let job = |name| keyrack_workload::job(name).unwrap();
        let plan = |limit| JobPlan { name: String::new(), jobs: vec![], files: vec![], limit };
        let (ops, secs) = (Bound::Ops(7), Bound::Secs(2.5));
        assert_eq!((plan(None).limit(ops), plan(None).limit(secs)), (7, u64::MAX));
        assert_eq!((plan(Some(9)).limit(ops), plan(Some(9)).limit(secs)), (9, 9));
        assert_eq!(JobPlan::duration_ns(job("rw1"), ops), None);
        assert_eq!(JobPlan::duration_ns(job("scan1"), ops), Some(10_000_000_000));
        assert_eq!(JobPlan::duration_ns(job("rw1"), secs), Some(2_500_000_000));
        assert_eq!(JobPlan::duration_ns(job("scan1"), Bound::Secs(f64::INFINITY)), None);
    }
}
