//! The way of an event to the listener: a queue, and the thread that tells.
//!
//! ```text
//!   flush, compaction, write controller, ... --tell--> queue --> flodb-events --> listener
//!               under any lock                   EVENTS_MAX        no lock
//! ```
//!
//! The thread that tells an event may hold any lock of the store: that of the queue is a leaf, and
//! no thread waits for anything while it is held. The listener is called with no lock held, so it
//! may use the store.
//!
//! **The limit.** Nobody waits for a listener that is slow. A flush that waited for it could be the
//! one that the listener itself waits for, in a put. So what comes while [`EVENTS_MAX`] events wait
//! is counted, and [`Event::Lost`] says how many, at the place where they are missing.
//!
//! **The end.** The thread tells what is left when the queue closes, unless the listener itself has
//! closed it. What comes later, from readers that outlive the store, is not told.
//!
//! Without a listener there is no queue and no thread, and no event is made.

use super::lock;
use crate::error::{Error, Result};
use crate::event::{Event, EventListener};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};

/// Events that wait for the listener, at most.
const EVENTS_MAX: usize = 1024;

/// Where the parts of a store tell their events. Clones are of the same queue.
#[derive(Clone)]
pub(crate) struct Events(Option<Arc<Queue>>);

struct Queue {
    listener: Arc<dyn EventListener>,
    state: Mutex<State>,
    changed: Condvar,
    /// Jobs that have begun. Relaxed: each has a number of its own.
    jobs: AtomicU64,
    /// Panics of the listener. Relaxed: a statistic.
    panics: AtomicU64,
    /// Held while somebody waits for the end of the thread.
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Set by the thread, before it calls the listener.
    thread_id: OnceLock<ThreadId>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Event>,
    /// How many are missing after those that wait.
    lost: u64,
    /// How many were lost so far.
    lost_in_all: u64,
    is_closed: bool,
}

impl State {
    fn push(&mut self, event: Event) {
        if self.is_closed {
            return;
        }
        // The gap comes first, so there is room for two or for none.
        let needed = 1 + usize::from(self.lost > 0);
        if self.waiting.len() + needed > EVENTS_MAX {
            self.lost += 1;
            self.lost_in_all += 1;
            return;
        }
        let gap = self.take_gap();
        self.waiting.extend(gap.into_iter().chain([event]));
    }

    fn take_gap(&mut self) -> Option<Event> {
        let events = std::mem::take(&mut self.lost);
        (events > 0).then_some(Event::Lost { events })
    }

    fn pop(&mut self) -> Option<Event> {
        self.waiting.pop_front().or_else(|| self.take_gap())
    }
}

impl Events {
    /// For a listener, if there is one.
    pub(crate) fn new(listener: Option<Arc<dyn EventListener>>) -> Self {
        Events(listener.map(|listener| {
            Arc::new(Queue {
                listener,
                state: Mutex::default(),
                changed: Condvar::new(),
                jobs: AtomicU64::new(0),
                panics: AtomicU64::new(0),
                thread: Mutex::default(),
                thread_id: OnceLock::new(),
            })
        }))
    }

    /// The number of a flush or compaction that begins. 0 if nobody listens.
    pub(crate) fn begin_job(&self) -> u64 {
        self.0.as_ref().map_or(0, |queue| queue.jobs.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Tells the event that `make` makes, if anybody listens. Any lock may be held.
    #[inline]
    pub(crate) fn tell(&self, make: impl FnOnce() -> Event) {
        if let Some(queue) = &self.0 {
            let event = make();
            lock(&queue.state).push(event);
            queue.changed.notify_one();
        }
    }

    /// Starts the thread.
    pub(crate) fn start(&self) -> Result<()> {
        // Nobody listens.
        let Some(queue) = self.0.clone() else { return Ok(()) };
        let mut thread = lock(&queue.thread);
        let of_thread = Arc::clone(&queue);
        let started = thread::Builder::new().name("flodb-events".to_owned());
        let started = started.spawn(move || of_thread.run());
        *thread = Some(started.map_err(|error| Error::Thread(Arc::new(error)))?);
        Ok(())
    }

    /// No event is taken any more. Waits until all are told. If the listener calls, it is told
    /// nothing more, and there is nobody to wait for.
    pub(crate) fn end(&self) {
        // Nobody listens.
        let Some(queue) = &self.0 else { return };
        let is_listener = queue.thread_id.get() == Some(&thread::current().id());
        let mut state = lock(&queue.state);
        state.is_closed = true;
        if is_listener {
            state.waiting.clear();
            state.lost = 0;
            return;
        }
        drop(state);
        queue.changed.notify_one();
        let mut thread = lock(&queue.thread);
        if let Some(thread) = thread.take() {
            // It catches the panics of the listener.
            let _ = thread.join();
        }
    }

    /// Panics of the listener, and events that were lost; `None` if nobody listens.
    pub(crate) fn counts(&self) -> Option<(u64, u64)> {
        let queue = self.0.as_ref()?;
        Some((queue.panics.load(Ordering::Relaxed), lock(&queue.state).lost_in_all))
    }
}

impl Queue {
    fn run(&self) {
        let _ = self.thread_id.set(thread::current().id());
        let mut state = lock(&self.state);
        loop {
            if let Some(event) = state.pop() {
                drop(state);
                self.call(&event);
                state = lock(&self.state);
            } else if state.is_closed {
                return;
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn call(&self, event: &Event) {
        // What it leaves half done is its own.
        let called = catch_unwind(AssertUnwindSafe(|| self.listener.event(event)));
        if called.is_err() {
            self.panics.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn job(event: &Event) -> String {
        match event {
            Event::FlushBegun { job, .. } => job.to_string(),
            Event::Lost { events } => format!("{events} lost"),
            other => panic!("{other:?}"),
        }
    }

    /// A listener that waits for a message before it takes an event.
    fn slow() -> (Events, mpsc::Sender<()>, mpsc::Receiver<String>) {
        let ((go, goes), (told, tells)) = (mpsc::channel(), mpsc::channel());
        let (goes, told) = (Mutex::new(goes), Mutex::new(told));
        let listener = move |event: &Event| {
            lock(&told).send(job(event)).unwrap();
            // Without a sender it goes on.
            let _ = lock(&goes).recv();
        };
        (Events::new(Some(Arc::new(listener))), go, tells)
    }

    fn tell(events: &Events, jobs: std::ops::Range<usize>) {
        for job in jobs {
            events.tell(|| Event::FlushBegun { job: job as u64, memtable_bytes: 0 });
        }
    }

    #[test]
    fn what_is_beyond_the_limit_is_counted_where_it_is_missing() {
        let (events, go, tells) = slow();
        events.start().unwrap();
        tell(&events, 0..1);
        assert_eq!(tells.recv().unwrap(), "0");
        // The listener is busy, so all of these wait.
        tell(&events, 1..EVENTS_MAX + 1);
        assert_eq!(events.counts(), Some((0, 0)));
        tell(&events, 0..3);
        assert_eq!(events.counts(), Some((0, 3)));
        go.send(()).unwrap();
        assert_eq!(tells.recv().unwrap(), "1");
        // One place is free, and the gap would take it.
        tell(&events, 0..1);
        go.send(()).unwrap();
        assert_eq!(tells.recv().unwrap(), "2");
        tell(&events, 7777..7778);
        drop(go);
        events.end();
        let rest: Vec<String> = tells.iter().take(EVENTS_MAX).collect();
        let mut expected: Vec<String> = (3..=EVENTS_MAX).map(|job| job.to_string()).collect();
        expected.extend(["4 lost".to_owned(), "7777".to_owned()]);
        assert_eq!(rest, expected);
    }

    #[test]
    fn a_gap_at_the_end_is_told_and_nothing_after_the_end() {
        let (events, go, tells) = slow();
        tell(&events, 0..EVENTS_MAX + 2);
        drop(go);
        events.start().unwrap();
        events.end();
        tell(&events, 0..1);
        events.end();
        let told: Vec<String> = tells.try_iter().collect();
        assert_eq!(told.len(), EVENTS_MAX + 1);
        assert_eq!(told.last().unwrap(), "2 lost");
    }

    /// It was told of what else had waited, after its call had returned.
    #[test]
    fn a_listener_that_ends_the_events_is_told_nothing_more() {
        let (told, tells) = mpsc::channel();
        let (told, own) = (Mutex::new(told), Arc::new(OnceLock::<Events>::new()));
        let ends = Arc::clone(&own);
        let listener = move |event: &Event| {
            lock(&told).send(job(event)).unwrap();
            ends.get().unwrap().end();
        };
        let events = Events::new(Some(Arc::new(listener)));
        assert!(own.set(events.clone()).is_ok());
        tell(&events, 0..EVENTS_MAX + 2);
        events.start().unwrap();
        events.end();
        assert_eq!(tells.try_iter().collect::<Vec<_>>(), ["0"]);
    }
}
