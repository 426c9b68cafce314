//! The threads of a phase: start them, follow them while they work, join them.

use super::progress::Progress;
use super::{Measurement, RowSink};
use crate::observer::Observer;
use crate::pin::{CpuAssignment, Pin};
use crate::worker::{Outcome, StartBarrier, WorkerFailure, WorkerMessage};
use std::sync::PoisonError;
use std::sync::mpsc::{Sender, channel};

impl Measurement<'_> {
    pub(super) fn phase<F>(
        &self,
        threads: u32,
        progress: &mut Progress<'_>,
        observer: &mut dyn Observer,
        rows: RowSink<'_>,
        barrier: &StartBarrier,
        work: F,
    ) -> Vec<Outcome>
    where
        F: Fn(u32, &Sender<WorkerMessage>) -> Outcome + Sync,
    {
        self.phase_started(threads, progress, observer, rows, barrier, &mut || {}, work)
    }

    /// Runs `work` on every worker, calls `begun` when all are about to start and when their
    /// warm-up is over, samples while they work, and joins them.
    #[expect(
        clippy::too_many_arguments,
        reason = "one call site a phase, each argument its own thing"
    )]
    pub(super) fn phase_started<F>(
        &self,
        threads: u32,
        progress: &mut Progress<'_>,
        observer: &mut dyn Observer,
        rows: RowSink<'_>,
        barrier: &StartBarrier,
        begun: &mut dyn FnMut(),
        work: F,
    ) -> Vec<Outcome>
    where
        F: Fn(u32, &Sender<WorkerMessage>) -> Outcome + Sync,
    {
        let (done, finished) = channel();
        let settings = &self.plan.settings;
        let cpus = CpuAssignment::new(match settings.cpus.as_slice() {
            [] => settings.pin.cpus(threads),
            _ if settings.pin == Pin::Never => Vec::new(),
            cpus => cpus.to_vec(),
        });
        std::thread::scope(|scope| {
            let mut handles = Vec::new();
            for thread in 0..threads {
                let (done, work, cpus) = (done.clone(), &work, &cpus);
                let body = move || {
                    // Sent when the thread ends in any way, so that the leader never waits for it.
                    let mut done = Done { leader: done, end: 0 };
                    cpus.pin(thread);
                    let outcome = work(thread, &done.leader);
                    done.end = outcome.end;
                    outcome
                };
                let name = format!("worker-{thread}");
                match std::thread::Builder::new().name(name).spawn_scoped(scope, body) {
                    Ok(handle) => handles.push(handle),
                    Err(error) => return vec![no_thread(&error, barrier, handles, threads)],
                }
            }
            drop(done);
            let mut looks = 0;
            let mut look = || {
                // A top level or a setup() that does not end is broken 2 s after the stop.
                looks += u32::from(self.stop.is_set());
                if looks == 20 {
                    self.breaker.break_all();
                }
            };
            if let Some(start) = barrier.release_when_ready(&self.clock, threads, &mut look) {
                progress.follow(start, threads, &cpus, &finished, observer, rows, begun);
            }
            let panicked = |_| Outcome {
                failure: Some(WorkerFailure {
                    reason: "the worker panicked; this is a bug".to_owned(),
                    detail: String::new(),
                }),
                ..Outcome::default()
            };
            let outcomes =
                handles.into_iter().map(|handle| handle.join().unwrap_or_else(panicked)).collect();
            if let Some(refusal) = cpus.refusal() {
                let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
                findings.push(refusal.to_owned());
            }
            outcomes
        })
    }
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
    handles: Vec<std::thread::ScopedJoinHandle<'_, Outcome>>,
    threads: u32,
) -> Outcome {
    barrier.cancel();
    for handle in handles {
        // Their outcome is that nothing began.
        let _ = handle.join();
    }
    Outcome {
        failure: Some(WorkerFailure {
            reason: format!("cannot start {threads} threads: {error}"),
            detail: String::new(),
        }),
        ..Outcome::default()
    }
}
