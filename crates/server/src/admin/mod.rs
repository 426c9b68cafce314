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
//!
//! A foreign web page can make a browser send requests here, but not read the answers, unless the
//! name it was loaded from comes to mean this address. So the header `Host` must be an address or
//! `localhost`, which no such name is.

#[cfg(test)]
mod fuzz;
mod numbers;
mod render;

use crate::Result;
use crate::state::State;
use keyrack_measure::{Clock, Histogram};
use keyrack_net::Handle;
use keyrack_net::http::{Get, Reply, serve};
use numbers::Numbers;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The loops of the server, while there are any.
pub(crate) type Loops = Arc<Mutex<Option<Handle>>>;

/// The time over which the page's percentiles are taken, at least.
const RECENT_NS: u64 = 900_000_000;

pub(crate) fn start(address: &str, state: Arc<State>, loops: Loops) -> Result<Handle> {
    let clock = Clock::vdso();
    let recent = Mutex::new(Recent::new(clock.ticks()));
    let memory = Arc::clone(&state.clients_memory);
    let page = Page { state, loops, clock, recent };
    Ok(serve(address.parse()?, memory, move |get| page.answer(get))?)
}

/// What is shown.
struct Page {
    state: Arc<State>,
    loops: Loops,
    clock: Clock,
    recent: Mutex<Recent>,
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

impl Page {
    fn numbers(&self) -> Numbers {
        let loops = self.loops.lock().unwrap_or_else(PoisonError::into_inner);
        let net = loops.as_ref().map(Handle::stats).unwrap_or_default();
        drop(loops);
        let mut iterations = Histogram::new();
        let mut one = Histogram::new();
        for metrics in &self.state.loops {
            metrics.iteration_ns.snapshot_into(&mut one);
            iterations.merge(&one);
        }
        let now = self.clock.ticks();
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if self.clock.ns_between(recent.since, now) >= RECENT_NS {
            recent.shown = iterations.subtract(&recent.before);
            recent.before = iterations.clone();
            recent.since = now;
        }
        Numbers::collect(&self.state, &net, &iterations, &recent.shown)
    }

    fn answer(&self, get: &Get<'_>) -> Reply {
        if !get.host.is_some_and(is_own_host) {
            return Reply::refusal("403 Forbidden", "use the address in the URL, or localhost");
        }
        match get.path {
            "/" => Reply::html(include_str!("page.html")),
            "/stats.json" => Reply::json(render::json(&self.numbers())),
            "/metrics" => Reply::metrics(render::prometheus(&self.numbers())),
            _ => Reply::refusal("404 Not Found", "there are /, /stats.json and /metrics"),
        }
    }
}

fn is_own_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(address, _)| address),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::is_own_host;

    #[test]
    fn a_host_is_an_address_or_localhost() {
        for own in ["127.0.0.1:9", "10.0.0.1", "localhost", "localhost:80", "[::1]:9"] {
            assert!(is_own_host(own), "{own}");
        }
        for other in ["attacker.example", "localhost.example", "[attacker.example]:80", ""] {
            assert!(!is_own_host(other), "{other}");
        }
    }
}
