//! The figures of a run while it goes on, for Prometheus: text over HTTP.
//!
//! ```text
//!   threads --Live--> Exporter --text--> page <--GET /metrics-- Prometheus
//!   leader --follow, enter-->
//! ```
//!
//! [`Page`] and [`Text`] know nothing of load: `keyrack bench` shows its figures by them too.
//!
//! Counters grow from the start of the program over warm-up and all measurements of a search or a
//! scan, as Prometheus wants them; rates and percentiles are its own to compute. What the loader
//! writes is in none.

mod page;
mod text;

pub use page::{Page, page_endpoint};
pub use text::{Labels, Text};

use std::sync::{Arc, Mutex, PoisonError};

use keyrack_net::Endpoint;

use crate::account::{Live, Sampled};
use crate::named::named;

named! {
    /// What a run is doing.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Stage {
        /// It connects.
        #[default]
        Connecting = "connecting",
        /// It writes the records.
        Loading = "loading",
        /// It sends without counting.
        WarmingUp = "warming_up",
        /// It measures.
        Measuring = "measuring",
        /// It is between two measurements, or done.
        Resting = "resting",
    }
}

#[derive(Debug, Default)]
struct Shown {
    stage: Stage,
    connections: usize,
    live: Vec<Arc<Live>>,
}

/// The page of a load's figures. It ends when it is dropped.
#[derive(Debug)]
pub struct Exporter {
    shown: Arc<Mutex<Shown>>,
    page: Page,
}

impl Exporter {
    /// Listens at `endpoint`.
    ///
    /// # Errors
    /// An address that cannot be listened on.
    pub fn start(endpoint: Endpoint) -> keyrack_net::Result<Exporter> {
        let shown = Arc::<Mutex<Shown>>::default();
        let theirs = Arc::clone(&shown);
        let page = Page::start(endpoint, move || {
            text(&theirs.lock().unwrap_or_else(PoisonError::into_inner))
        })?;
        Ok(Exporter { shown, page })
    }

    /// Where it listens.
    #[must_use]
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.page.endpoint()
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

/// The figures as Prometheus reads them.
fn text(shown: &Shown) -> String {
    let sampled = Sampled::of(shown.live.iter().map(|live| &**live));
    let mut text = Text::default();
    for (name, help, count) in [
        ("replies", "Replies that are no errors.", sampled.ops),
        ("misses", "Keys that were looked up and not found.", sampled.misses),
        ("errors", "Requests that failed.", sampled.errors),
    ] {
        let name = format!("keyrack_load_{name}_total");
        text.metric(&name, "counter", help);
        text.value(&name, &[], count);
    }
    for (name, help, count) in [
        ("connections", "Connections made at the start.", shown.connections as u64),
        ("outstanding", "Requests under way.", sampled.outstanding),
    ] {
        let name = format!("keyrack_load_{name}");
        text.metric(&name, "gauge", help);
        text.value(&name, &[], count);
    }
    let name = "keyrack_load_stage";
    text.metric(name, "gauge", "What the run is doing: 1 at one of them.");
    for stage in Stage::ALL {
        text.value(name, &[("stage", stage.name())], u8::from(stage == shown.stage));
    }
    let name = "keyrack_load_latency_seconds";
    text.metric(name, "histogram", "The headline latency.");
    text.histogram(name, &[], &sampled.latency);
    text.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_net::{ConnectOptions, Stream};
    use std::io::{Read, Write};
    use std::time::Duration;

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
        live[1].sent.add(9);
        live[1].completed.add(2);
        live[1].ops.add(4);
        live[1].misses.add(1);
        for ns in [9_000, 15_000, 3_000_000_000, 30_000_000_000] {
            live[0].latency[0].record(ns);
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
            "keyrack_load_outstanding 7",
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
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("hello\r\n\r\n", "400"),
        ] {
            let reply = ask(&exporter, request);
            assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {reply}");
        }
    }
}
