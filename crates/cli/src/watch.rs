//! `keyrack bench --watch`: the figures of a run for Prometheus while it goes on.
//!
//! Counters grow from the start of the program, with labels for the cell that they are of; a page
//! is as old as the last second that was over. It is served as those of `keyrack load` are.

use keyrack_console::say;
use keyrack_harness::{At, Event, Second};
use keyrack_loadgen::export::{Page, Text, page_endpoint};
use keyrack_measure::Histogram;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What a run may be doing.
const STAGES: [&str; 3] = ["loading", "running", "between"];

/// The page and what it shows.
#[derive(Debug)]
pub(crate) struct Watch {
    shown: Arc<Mutex<Shown>>,
    // Ends with the run.
    _page: Page,
}

/// What is known of the run.
#[derive(Debug, Default)]
struct Shown {
    stage: Option<&'static str>,
    /// Which measurement of its workload, and of how many.
    step: (usize, usize),
    phases: BTreeMap<Phase, Counts>,
    cpu_pct: Option<f64>,
    resident_bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Phase {
    workload: String,
    engine: String,
    threads: String,
    stage: &'static str,
}

#[derive(Debug, Default)]
struct Counts {
    units: u64,
    ops: BTreeMap<&'static str, OpCounts>,
}

#[derive(Debug, Default)]
struct OpCounts {
    prim_ops: u64,
    errors: u64,
    latency: Histogram,
}

impl Watch {
    /// Listens at an address, and says where.
    ///
    /// # Errors
    /// One line: an address that is none, or that cannot be listened on.
    pub(crate) fn start(text: &str) -> Result<Watch, String> {
        let failed = |error: keyrack_net::Error| format!("--watch: {error}");
        let shown = Arc::<Mutex<Shown>>::default();
        let theirs = Arc::clone(&shown);
        let endpoint = page_endpoint(text).map_err(failed)?;
        let page = Page::start(endpoint, move || {
            theirs.lock().unwrap_or_else(PoisonError::into_inner).text()
        });
        let page = page.map_err(failed)?;
        if let Some(place) = page.endpoint() {
            say!("figures at http://{place}/metrics");
        }
        Ok(Watch { shown, _page: page })
    }

    fn change(&self, change: impl FnOnce(&mut Shown)) {
        change(&mut self.shown.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Another measurement begins.
    pub(crate) fn step(&self, number: usize, count: usize) {
        self.change(|shown| shown.step = (number, count));
    }

    /// Takes note of what the run does.
    pub(crate) fn event(&self, event: &Event<'_>) {
        let stage = match event {
            Event::Seeding { .. } => STAGES[0],
            Event::Running { .. } => STAGES[1],
            Event::Finished => STAGES[2],
            _ => return,
        };
        self.change(|shown| shown.stage = Some(stage));
    }

    /// A second is over.
    pub(crate) fn second(&self, at: &At<'_>, second: &Second) {
        self.change(|shown| shown.add(at, second));
    }
}

impl Shown {
    fn add(&mut self, at: &At<'_>, second: &Second) {
        let phase = Phase {
            workload: at.workload.to_owned(),
            engine: at.engine.to_owned(),
            threads: at.threads.to_string(),
            stage: self.stage.unwrap_or(STAGES[2]),
        };
        let counts = self.phases.entry(phase).or_default();
        counts.units += second.units;
        for op in &second.ops {
            let known = counts.ops.entry(op.kind.name()).or_default();
            known.prim_ops += op.prim_ops;
            known.errors += op.errors;
            known.latency.merge(&op.service);
        }
        (self.cpu_pct, self.resident_bytes) = (second.cpu_pct, second.resident_bytes);
    }

    /// The figures as Prometheus reads them.
    fn text(&self) -> String {
        let mut text = Text::default();
        let name = "keyrack_bench_stage";
        text.metric(name, "gauge", "What the run is doing: 1 at one of them.");
        for stage in STAGES {
            let is_here = u8::from(self.stage.unwrap_or(STAGES[2]) == stage);
            text.value(name, &[("stage", stage)], is_here);
        }
        for (name, value, help) in [
            ("number", self.step.0, "The measurement that runs, of its workload."),
            ("count", self.step.1, "How many measurements the workload has."),
        ] {
            let name = format!("keyrack_bench_measurement_{name}");
            text.metric(&name, "gauge", help);
            text.value(&name, &[], value);
        }
        let name = "keyrack_bench_units_total";
        text.metric(name, "counter", "Units of the workload.");
        for (phase, counts) in &self.phases {
            text.value(name, &phase.labels(), counts.units);
        }
        let name = "keyrack_bench_operations_total";
        text.metric(name, "counter", "Primitive operations: calls, or keys of batches.");
        self.each_op(|labels, op| text.value(name, labels, op.prim_ops));
        let name = "keyrack_bench_errors_total";
        text.metric(name, "counter", "Calls that the engine failed.");
        self.each_op(|labels, op| text.value(name, labels, op.errors));
        let name = "keyrack_bench_latency_seconds";
        text.metric(name, "histogram", "Service time of calls.");
        self.each_op(|labels, op| text.histogram(name, labels, &op.latency));
        if let Some(pct) = self.cpu_pct {
            let name = "keyrack_bench_cpus";
            text.metric(name, "gauge", "CPUs that the process kept busy in the last second.");
            text.value(name, &[], pct / 100.0);
        }
        if let Some(bytes) = self.resident_bytes {
            let name = "keyrack_bench_resident_bytes";
            text.metric(name, "gauge", "Memory of the process.");
            text.value(name, &[], bytes);
        }
        text.finish()
    }

    fn each_op(&self, mut show: impl FnMut(&[(&str, &str)], &OpCounts)) {
        for (phase, counts) in &self.phases {
            for (name, op) in &counts.ops {
                let labels: Vec<(&str, &str)> =
                    phase.labels().into_iter().chain([("op", *name)]).collect();
                show(&labels, op);
            }
        }
    }
}

impl Phase {
    fn labels(&self) -> [(&str, &str); 4] {
        [
            ("phase", self.stage),
            ("workload", &self.workload),
            ("engine", &self.engine),
            ("threads", &self.threads),
        ]
    }
}
