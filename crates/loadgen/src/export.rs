//! The figures of a run while it goes on, for Prometheus: text over HTTP, on an event loop of its
//! own, so that whoever looks takes no time from the threads that send.
//!
//! ```text
//!   threads --Live--> Exporter <--GET /metrics-- Prometheus
//!   leader --follow, enter-->
//! ```
//!
//! Counters grow from the start of the program over warm-up and all measurements of a search or a
//! scan, as Prometheus wants them; rates and percentiles are its own to compute. What the loader
//! writes is in none. The histogram has bounds from 10 us to 10 s, at which the counts of our
//! finer one are summed up: a bucket that a bound falls into counts as above it.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use keyrack_measure::Histogram;
use keyrack_net::{
    Endpoint, Handle, Limits, Listener, Options, Peer, Served, Server, Service, Timeouts, Verdict,
    Waker, Worker,
};

use crate::account::{Live, Sampled};

/// Upper ends of the histogram: 1, 2, 5 and so on, from 10 us to 10 s.
const BOUNDS_NS: [u64; 19] = [
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
];
/// Bytes of a request at most.
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// Those who look at once, at most.
const CONNECTIONS_MAX: usize = 16;

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    /// It connects.
    #[default]
    Connecting,
    /// It writes the records.
    Loading,
    /// It sends without counting.
    WarmingUp,
    /// It measures.
    Measuring,
    /// It is between two measurements, or done.
    Resting,
}

impl Stage {
    const ALL: [Stage; 5] =
        [Stage::Connecting, Stage::Loading, Stage::WarmingUp, Stage::Measuring, Stage::Resting];

    fn name(self) -> &'static str {
        match self {
            Stage::Connecting => "connecting",
            Stage::Loading => "loading",
            Stage::WarmingUp => "warming_up",
            Stage::Measuring => "measuring",
            Stage::Resting => "resting",
        }
    }
}

/// What is shown.
#[derive(Debug, Default)]
struct Shown {
    stage: Stage,
    connections: usize,
    live: Vec<Arc<Live>>,
}

/// The page of figures. It ends when it is dropped.
#[derive(Debug)]
pub struct Exporter {
    shown: Arc<Mutex<Shown>>,
    handle: Handle,
}

impl Exporter {
    /// Listens at `endpoint`.
    ///
    /// # Errors
    /// An address that cannot be listened on.
    pub fn start(endpoint: Endpoint) -> keyrack_net::Result<Exporter> {
        let shown = Arc::<Mutex<Shown>>::default();
        let patience = Some(Duration::from_secs(10));
        let options = Options {
            listeners: vec![Listener::stream(endpoint)],
            connections_max: CONNECTIONS_MAX,
            limits: Limits { input_bytes_max: REQUEST_BYTES_MAX, output_bytes_max: 1 << 20 },
            timeouts: Timeouts {
                first_request: patience,
                request: patience,
                idle: patience,
                stalled_output: patience,
            },
            ..Options::default()
        };
        let handle = Server::start(Page(Arc::clone(&shown)), options)?;
        Ok(Exporter { shown, handle })
    }

    /// Where it listens.
    #[must_use]
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.handle.local_addrs().first().and_then(|places| places.first())
    }

    /// The threads of a run are these, with so many connections.
    pub fn follow(&self, live: &[Arc<Live>], connections: usize) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        (shown.live, shown.connections) = (live.to_vec(), connections);
    }

    /// The run is at this stage.
    pub fn enter(&self, stage: Stage) {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).stage = stage;
    }
}

/// Answers one GET a connection.
struct Page(Arc<Mutex<Shown>>);

impl Service for Page {
    type Worker<'a> = &'a Page;

    fn worker(&self, _: usize, _: Waker) -> &Page {
        self
    }
}

impl Worker for &Page {
    type Connection = ();

    fn open(&mut self, _: usize, _: &Peer, _: &mut Limits) {}

    fn serve(&mut self, (): &mut (), input: &[u8], output: &mut Vec<u8>, _: &mut Limits) -> Served {
        if memchr::memmem::find(input, b"\r\n\r\n").is_none() {
            return Served { consumed: 0, need: input.len() + 1, verdict: Verdict::Continue };
        }
        let (status, body) = match target(input) {
            Some("/" | "/metrics") => {
                let shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                ("200 OK", text(&shown))
            }
            Some(_) => ("404 Not Found", "there is /metrics\n".to_owned()),
            None => ("400 Bad Request", "GET is all there is\n".to_owned()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        output.extend_from_slice(head.as_bytes());
        output.extend_from_slice(body.as_bytes());
        Served { consumed: input.len(), need: 0, verdict: Verdict::Close }
    }
}

/// What a GET asks for, without what is behind `?`.
fn target(request: &[u8]) -> Option<&str> {
    let line = request.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let is_known = method == "GET" && version.starts_with("HTTP/1.");
    is_known.then(|| target.split_once('?').map_or(target, |(path, _)| path))
}

/// The figures as Prometheus reads them.
fn text(shown: &Shown) -> String {
    let sampled = Sampled::of(shown.live.iter().map(|live| &**live));
    let mut out = String::new();
    for (name, help, count) in [
        ("replies", "Replies that are no errors.", sampled.ops),
        ("misses", "Keys that were looked up and not found.", sampled.misses),
        ("errors", "Requests that failed.", sampled.errors),
    ] {
        let name = format!("keyrack_load_{name}_total");
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {count}");
    }
    let name = "keyrack_load_connections";
    let _ = writeln!(out, "# HELP {name} Connections made at the start.\n# TYPE {name} gauge");
    let _ = writeln!(out, "{name} {}", shown.connections);
    let name = "keyrack_load_stage";
    let _ = writeln!(out, "# HELP {name} What the run is doing: 1 at one of them.");
    let _ = writeln!(out, "# TYPE {name} gauge");
    for stage in Stage::ALL {
        let is_here = u8::from(stage == shown.stage);
        let _ = writeln!(out, "{name}{{stage=\"{}\"}} {is_here}", stage.name());
    }
    latency(&mut out, &sampled.latency);
    out
}

/// The headline latency as a histogram with cumulative counts.
fn latency(out: &mut String, latency: &Histogram) {
    let name = "keyrack_load_latency_seconds";
    let _ = writeln!(out, "# HELP {name} The headline latency.\n# TYPE {name} histogram");
    let mut buckets = latency.buckets().peekable();
    let mut count = 0;
    for bound in BOUNDS_NS {
        while let Some((_, _, more)) = buckets.next_if(|(_, high, _)| *high <= bound) {
            count += more;
        }
        let _ = writeln!(out, "{name}_bucket{{le=\"{}\"}} {count}", bound as f64 / 1e9);
    }
    let (sum_s, all) = (latency.sum() as f64 / 1e9, latency.count());
    let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {all}");
    let _ = writeln!(out, "{name}_sum {sum_s}\n{name}_count {all}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_net::{ConnectOptions, Stream};
    use std::io::{Read, Write};

    fn ask(exporter: &Exporter, request: &str) -> String {
        let patience = ConnectOptions::with_timeout(Duration::from_secs(60));
        let mut stream = Stream::connect(exporter.endpoint().unwrap(), &patience).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    #[test]
    fn counts_and_cumulative_buckets_are_served() {
        let exporter = Exporter::start("127.0.0.1:0".parse().unwrap()).unwrap();
        let live = [Arc::<Live>::default(), Arc::default()];
        exporter.follow(&live, 7);
        exporter.enter(Stage::Measuring);
        live[0].ops.add(3);
        live[1].ops.add(4);
        live[1].misses.add(1);
        for ns in [9_000, 15_000, 3_000_000_000, 30_000_000_000] {
            live[0].latency.record(ns);
        }
        let reply = ask(&exporter, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        for line in [
            "keyrack_load_replies_total 7",
            "keyrack_load_misses_total 1",
            "keyrack_load_errors_total 0",
            "keyrack_load_connections 7",
            "keyrack_load_stage{stage=\"measuring\"} 1",
            "keyrack_load_stage{stage=\"loading\"} 0",
            "keyrack_load_latency_seconds_bucket{le=\"0.00001\"} 1",
            "keyrack_load_latency_seconds_bucket{le=\"0.00002\"} 2",
            "keyrack_load_latency_seconds_bucket{le=\"2\"} 2",
            "keyrack_load_latency_seconds_bucket{le=\"5\"} 3",
            "keyrack_load_latency_seconds_bucket{le=\"10\"} 3",
            "keyrack_load_latency_seconds_bucket{le=\"+Inf\"} 4",
            "keyrack_load_latency_seconds_count 4",
        ] {
            assert!(body.lines().any(|other| other == line), "no {line:?} in:\n{body}");
        }
        live[0].ops.add(1);
        let again = ask(&exporter, "GET /metrics?x=1 HTTP/1.0\r\n\r\n");
        assert!(again.contains("keyrack_load_replies_total 8\n"), "{again}");
    }

    #[test]
    fn other_requests_are_refused() {
        let exporter = Exporter::start("127.0.0.1:0".parse().unwrap()).unwrap();
        for (request, status) in [
            ("GET /other HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "400"),
            ("hello\r\n\r\n", "400"),
        ] {
            let reply = ask(&exporter, request);
            assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {reply}");
        }
    }
}
