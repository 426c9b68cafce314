//! The threads of a phase: start them, follow them while they work, join them.

use super::monitor::Monitor;
use super::running::{Reports, RunningPhase};
use crate::pin::{CpuAssignment, Pin};
use crate::worker::{Outcome, StartBarrier, WorkerFailure};
use crate::worker_message::WorkerMessage;
use keyrack_record::Pace;
use std::sync::mpsc::{Sender, channel};
use std::thread::ScopedJoinHandle;

/// Looks at a stop, 100 ms apart, after which a top level or a `setup()` that does not end is
/// broken.
const BREAK_LOOKS: u32 = 20;

/// A phase that is over.
pub(super) struct Ended {
    /// What became of each worker.
    pub(super) outcomes: Vec<Outcome>,
    /// How evenly the phase went: one entry for each cell with results, or none.
    pub(super) paces: Vec<Option<Pace>>,
}

/// Runs `work` on every worker, follows them while they work, and joins them.
pub(super) fn run_workers<F>(
    phase: RunningPhase<'_>,
    reports: Reports<'_>,
    barrier: &StartBarrier,
    work: F,
) -> Ended
where
    F: Fn(u32, &Sender<WorkerMessage>) -> Outcome + Sync,
{
    let (measurement, workers) = (phase.measurement, phase.workers());
    let (leader, messages) = channel();
    let cpus = assign_cpus(phase);
    std::thread::scope(|scope| {
        let mut handles = Vec::new();
        for thread in 0..workers {
            let (leader, work, cpus) = (leader.clone(), &work, &cpus);
            let body = move || {
                // Sent when the thread ends in any way, so that the leader never waits for it.
                let mut done = Done { leader, end: 0 };
                cpus.pin(thread);
                let outcome = work(thread, &done.leader);
                done.end = outcome.end;
                outcome
            };
            let name = format!("worker-{thread}");
            match std::thread::Builder::new().name(name).spawn_scoped(scope, body) {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    let outcomes = vec![no_thread(&error, barrier, handles, workers)];
                    return Ended { outcomes, paces: Vec::new() };
                }
            }
        }
        drop(leader);
        let mut looks = 0;
        let mut look = || {
            looks += u32::from(measurement.stop.is_set());
            if looks == BREAK_LOOKS {
                measurement.breaker.break_all();
            }
        };
        let start = barrier.release_when_ready(&measurement.clock, workers, &mut look);
        let paces = start.map(|start| Monitor::new(phase, reports, start).follow(&cpus, &messages));
        let outcomes = handles.into_iter().map(joined).collect();
        if let Some(refusal) = cpus.refusal() {
            measurement.note(refusal.to_owned());
        }
        Ended { outcomes, paces: paces.unwrap_or_default() }
    })
}

fn assign_cpus(phase: RunningPhase<'_>) -> CpuAssignment {
    let settings = &phase.measurement.plan.settings;
    CpuAssignment::new(match settings.cpus.as_slice() {
        [] => settings.pin.cpus(phase.workers()),
        _ if settings.pin == Pin::Never => Vec::new(),
        cpus => cpus.to_vec(),
    })
}

fn joined(handle: ScopedJoinHandle<'_, Outcome>) -> Outcome {
    handle.join().unwrap_or_else(|_| failed("the worker panicked; this is a bug".to_owned()))
}

/// Says when it is dropped that the worker has ended.
struct Done {
    leader: Sender<WorkerMessage>,
    /// The tick of the end.
    end: u64,
}

impl Drop for Done {
    fn drop(&mut self) {
        // The leader may have stopped listening.
        let _ = self.leader.send(WorkerMessage::Ended(self.end));
    }
}

/// A thread could not be started: those that were must not wait for it for ever.
fn no_thread(
    error: &std::io::Error,
    barrier: &StartBarrier,
    handles: Vec<ScopedJoinHandle<'_, Outcome>>,
    workers: u32,
) -> Outcome {
    barrier.cancel();
    for handle in handles {
        // Their outcome is that nothing began.
        let _ = handle.join();
    }
    failed(format!("cannot start {workers} threads: {error}"))
}

fn failed(reason: String) -> Outcome {
    let failure = WorkerFailure { reason, detail: String::new() };
    Outcome { failure: Some(failure), ..Outcome::default() }
}
