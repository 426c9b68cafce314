//! The admin page: a live view for people, the same numbers for Prometheus, over HTTP.
//!
//! | path | |
//! |---|---|
//! | `/` | the page; it asks for nothing but `/stats.json` |
//! | `/stats.json` | all numbers |
//! | `/metrics` | all numbers, as Prometheus reads them |
//!
//! It has an event loop of its own, so that its readers take no time from the server's clients.
//! It changes nothing, and shows no key and no value.

#[cfg(test)]
mod fuzz;
mod http;
mod numbers;
mod render;

use crate::Result;
use crate::state::State;
use http::{Asked, Reply};
use keyrack_measure::{Clock, Histogram};
use keyrack_net::{Handle, Limits, Listener, Peer, Served, Timeouts, Verdict, Waker};
use numbers::Numbers;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The loops of the server, while there are any.
pub(crate) type Loops = Arc<Mutex<Option<Handle>>>;

/// Bytes of a request.
const REQUEST_BYTES_MAX: usize = 16 << 10;

/// The maximum of connections to the page.
const CONNECTIONS_MAX: usize = 64;

/// The time over which the page's percentiles are taken, at least.
const RECENT_NS: u64 = 900_000_000;

/// The admin page.
pub(crate) struct Admin {
    state: Arc<State>,
    loops: Loops,
}

impl Admin {
    /// Starts it at `address`.
    pub(crate) fn start(address: &str, state: Arc<State>, loops: Loops) -> Result<Handle> {
        let minute = Some(Duration::from_secs(60));
        let options = keyrack_net::Options {
            listeners: vec![Listener::stream(address.parse()?)],
            connections_max: CONNECTIONS_MAX,
            limits: Limits { input_bytes_max: REQUEST_BYTES_MAX, output_bytes_max: 4 << 20 },
            timeouts: Timeouts {
                first_request: Some(Duration::from_secs(10)),
                request: Some(Duration::from_secs(10)),
                idle: minute,
                stalled_output: minute,
            },
            memory: Arc::clone(&state.clients_memory),
            ..keyrack_net::Options::default()
        };
        Ok(keyrack_net::Server::start(Admin { state, loops }, options)?)
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").finish_non_exhaustive()
    }
}

impl keyrack_net::Service for Admin {
    type Worker<'a> = Page<'a>;

    fn worker(&self, _: usize, _: Waker) -> Page<'_> {
        let clock = Clock::vdso();
        Page { admin: self, recent: Recent::new(clock.ticks()), clock }
    }
}

/// The page's worker.
pub(crate) struct Page<'a> {
    admin: &'a Admin,
    clock: Clock,
    recent: Recent,
}

/// Iterations since a moment ago: the difference of two snapshots.
struct Recent {
    since: u64,
    before: Histogram,
    shown: Histogram,
}

impl Recent {
    fn new(now: u64) -> Self {
        Recent { since: now, before: Histogram::new(), shown: Histogram::new() }
    }
}

impl Page<'_> {
    fn numbers(&mut self) -> Numbers {
        let loops = self.admin.loops.lock().unwrap_or_else(PoisonError::into_inner);
        let net = loops.as_ref().map(Handle::stats).unwrap_or_default();
        drop(loops);
        let mut iterations = Histogram::new();
        let mut one = Histogram::new();
        for metrics in &self.admin.state.loops {
            metrics.iteration_ns.snapshot_into(&mut one);
            iterations.merge(&one);
        }
        let now = self.clock.ticks();
        if self.clock.ns_between(self.recent.since, now) >= RECENT_NS {
            self.recent.shown = iterations.subtract(&self.recent.before);
            self.recent.before = iterations.clone();
            self.recent.since = now;
        }
        Numbers::collect(&self.admin.state, &net, &iterations, &self.recent.shown)
    }

    fn answer(&mut self, asked: &Asked<'_>) -> Reply {
        match asked {
            Asked::Page => Reply::html(include_str!("page.html")),
            Asked::Json => Reply::json(render::json(&self.numbers())),
            Asked::Metrics => Reply::text(render::prometheus(&self.numbers())),
            Asked::Refused { status, why } => Reply::refusal(status, why),
        }
    }
}

impl keyrack_net::Worker for Page<'_> {
    type Connection = ();

    fn open(&mut self, _: usize, _: &Peer, _: &mut Limits) {}

    fn serve(&mut self, (): &mut (), input: &[u8], output: &mut Vec<u8>, _: &mut Limits) -> Served {
        let Some(asked) = http::read(input) else {
            return Served { consumed: 0, need: input.len() + 1, verdict: Verdict::Continue };
        };
        self.answer(&asked).write(output);
        Served { consumed: input.len(), need: 0, verdict: Verdict::Close }
    }
}
