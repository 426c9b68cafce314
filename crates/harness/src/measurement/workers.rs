//! The threads of a phase: start them, follow them while they work, join them.

use super::progress::Progress;
use super::{Measurement, RowSink};
use crate::observer::Observer;
use crate::pin::{Dealt, Pin};
use crate::worker::{Outcome, Rendezvous, Word, WorkerFailure};
use std::sync::PoisonError;
use std::sync::mpsc::{Sender, channel};

impl Measurement<'_> {
    pub(super) fn phase<F>(
        &self,
        threads: u32,
        progress: &mut Progress<'_>,
        observer: &mut dyn Observer,
        rows: RowSink<'_>,
        rendezvous: &Rendezvous,
        work: F,
    ) -> Vec<Outcome>
    where
        F: Fn(u32, &Sender<Word>) -> Outcome + Sync,
    {
        self.phase_started(threads, progress, observer, rows, rendezvous, &mut || {}, work)
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
        rendezvous: &Rendezvous,
        begun: &mut dyn FnMut(),
        work: F,
    ) -> Vec<Outcome>
    where
        F: Fn(u32, &Sender<Word>) -> Outcome + Sync,
    {
        let (done, finished) = channel();
        let settings = &self.plan.settings;
        let dealt = Dealt::new(match settings.cpus.as_slice() {
            [] => settings.pin.cpus(threads),
            _ if settings.pin == Pin::Never => Vec::new(),
            cpus => cpus.to_vec(),
        });
        std::thread::scope(|scope| {
            let mut handles = Vec::new();
            for thread in 0..threads {
                let (done, work, dealt) = (done.clone(), &work, &dealt);
                let body = move || {
                    // Sent when the thread ends in any way, so that the leader never waits for it.
                    let mut done = Done { leader: done, end: 0 };
                    dealt.pin(thread);
                    let outcome = work(thread, &done.leader);
                    done.end = outcome.end;
                    outcome
                };
                let name = format!("worker-{thread}");
                match std::thread::Builder::new().name(name).spawn_scoped(scope, body) {
                    Ok(handle) => handles.push(handle),
                    Err(error) => return vec![no_thread(&error, rendezvous, handles, threads)],
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
            if let Some(start) = rendezvous.lead(&self.clock, threads, &mut look) {
                progress.follow(start, threads, &dealt, &finished, observer, rows, begun);
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
            if let Some(refusal) = dealt.refusal() {
                let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
                findings.push(refusal.to_owned());
            }
            outcomes
        })
    }
}

/// Says when it is dropped that the worker has ended.
struct Done {
    leader: Sender<Word>,
    /// The tick of the end.
    end: u64,
}

impl Drop for Done {
    fn drop(&mut self) {
        // The leader may have stopped listening.
        let _ = self.leader.send(Word::Ended(self.end));
    }
}

/// A thread could not be started: those that were must not wait for it for ever.
fn no_thread(
    error: &std::io::Error,
    rendezvous: &Rendezvous,
    handles: Vec<std::thread::ScopedJoinHandle<'_, Outcome>>,
    threads: u32,
) -> Outcome {
    rendezvous.dissolve();
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
