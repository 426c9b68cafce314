//! The admin page: a live view for people, the same numbers for Prometheus, over HTTP.
//!
//! | path | |
//! |---|---|
//! | `/` | the page; it asks for nothing but `/stats.json` |
//! | `/stats.json` | all numbers |
//! | `/metrics` | all numbers, as Prometheus reads them |
//! | `/health` | 200: the process answers |
//! | `/ready` | 200 while requests are served and answered, else 503 and why not |
//!
//! It has an event loop of its own, so that its readers take no time from the server's clients.
//! It changes nothing, and shows no key and no value.
//!
//! A foreign web page can make a browser send requests here, but not read the answers, unless the
//! name it was loaded from comes to mean this address. So the header `Host` must be an address or
//! `localhost`, which no such name is.

#[cfg(test)]
mod fuzz;
mod help;
mod numbers;
mod process;
mod render;

use crate::state::State;
use crate::{Control, Options, Result};
use keyrack_measure::{Clock, Histogram};
use keyrack_net::http::{Get, Reply, serve};
use keyrack_net::{ClientMemory, Handle};
use numbers::Numbers;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The loops of the server, while there are any.
pub(crate) type Loops = Arc<Mutex<Option<Handle>>>;

/// The time over which the page's percentiles are taken, at least.
const RECENT_NS: u64 = 900_000_000;

/// The admin page of a server. It answers before the rows are open, so that `/ready` can say how
/// far their recovery is.
pub struct Admin {
    pub(crate) handle: Handle,
    /// The memory of the connections of the whole server.
    pub(crate) memory: Arc<ClientMemory>,
    site: Arc<OnceLock<Site>>,
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").finish_non_exhaustive()
    }
}

impl Admin {
    /// Listens where the options say; `None` if they say nothing.
    ///
    /// # Errors
    /// An address that cannot be listened on.
    pub fn start(options: &Options, control: &Control) -> Result<Option<Admin>> {
        let Some(address) = &options.admin else { return Ok(None) };
        let memory = ClientMemory::new(options.clients_memory_bytes_max());
        let site = Arc::default();
        let page = Page { control: control.clone(), site: Arc::clone(&site) };
        let handle = serve(address.parse()?, Arc::clone(&memory), move |get| page.answer(get))?;
        Ok(Some(Admin { handle, memory, site }))
    }

    /// Where it listens: a port that was 0 is the kernel's choice.
    #[must_use]
    pub fn address(&self) -> String {
        let all = self.handle.local_addrs().concat();
        all.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// Shows this server from now on.
    pub(crate) fn show(&self, state: Arc<State>, loops: Loops) {
        let clock = Clock::vdso();
        let recent = Mutex::new(Recent::new(clock.ticks()));
        let is_first = self.site.set(Site { state, loops, clock, recent }).is_ok();
        assert!(is_first, "a page shows one server");
    }
}

struct Page {
    control: Control,
    /// Nothing while the rows are being opened.
    site: Arc<OnceLock<Site>>,
}

impl Page {
    fn answer(&self, get: &Get<'_>) -> Reply {
        // Probes come with any name, and learn nothing that a stranger may not know.
        match (get.path, self.control.ready()) {
            ("/health", _) => return Reply::text("alive\n"),
            ("/ready", Ok(())) => return Reply::text("ready\n"),
            ("/ready", Err(why)) => return Reply::refusal("503 Service Unavailable", &why),
            _ => {}
        }
        if !get.host.is_some_and(is_own_host) {
            return Reply::refusal("403 Forbidden", "use the address in the URL, or localhost");
        }
        match (self.site.get(), get.path) {
            (Some(site), _) => site.answer(get.path),
            (None, _) => {
                let why = self.control.ready().err().unwrap_or_default();
                Reply::refusal("503 Service Unavailable", &why)
            }
        }
    }
}

/// What is shown.
struct Site {
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

impl Site {
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

    fn answer(&self, path: &str) -> Reply {
        match path {
            "/" => Reply::html(include_str!("page.html")),
            "/stats.json" => Reply::json(render::json(&self.numbers())),
            "/metrics" => Reply::metrics(render::prometheus(&self.numbers())),
            _ => {
                let all = "there are /, /stats.json, /metrics, /health and /ready";
                Reply::refusal("404 Not Found", all)
            }
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
