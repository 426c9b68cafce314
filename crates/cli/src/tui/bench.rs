//! A run of `keyrack bench` on the screen.

use keyrack_console::say;
use keyrack_harness::{At, Event, Stop};
use keyrack_live::{Operation, Screen, View};
use keyrack_measure::Histogram;

const MIB: f64 = 1_048_576.0;

#[derive(Debug)]
pub(crate) struct BenchScreen {
    screen: Screen,
    view: View,
    /// Which measurement of its workload, and of how many.
    step: (usize, usize),
    /// The cell of the phase.
    cell: String,
    is_timed: bool,
    /// What the phase has had so far.
    ops: u64,
    errors: u64,
    elapsed_s: f64,
    latency: Histogram,
}

impl BenchScreen {
    /// Takes the terminal; `q` ends the run.
    ///
    /// # Errors
    /// One line when there is no terminal.
    pub(crate) fn start(stop: &Stop) -> Result<BenchScreen, String> {
        let stop = stop.clone();
        let screen = super::screen(move || stop.set("q was pressed"))?;
        let view = View::new("keyrack bench", "ops/s");
        let mut screen = BenchScreen {
            screen,
            view,
            step: (0, 0),
            cell: String::new(),
            is_timed: false,
            ops: 0,
            errors: 0,
            elapsed_s: 0.0,
            latency: Histogram::new(),
        };
        screen.screen.show(&screen.view);
        Ok(screen)
    }

    /// Another measurement begins.
    pub(crate) fn step(&mut self, number: usize, count: usize) {
        self.step = (number, count);
    }

    /// Takes note of an event, and draws. `tag` tells cells of one workload and engine apart.
    pub(crate) fn event(&mut self, event: &Event<'_>, tag: &dyn Fn(&At<'_>) -> String) {
        match event {
            Event::Seeding { at, .. } => self.enter("loading", at, tag(at), false),
            Event::Running { at, repeat, repeats } => {
                let tag = format!("{} run {repeat}/{repeats}", tag(at));
                self.enter("running", at, tag, true);
            }
            Event::Seeded { elapsed_s, keys, .. } => {
                self.view.finish(format!("{}  {keys} keys in {elapsed_s:.1} s", self.cell));
            }
            Event::Tick { elapsed_s, .. } | Event::SeedTick { elapsed_s, .. } => {
                self.view.elapsed_s = *elapsed_s;
                self.view.share = share(event);
            }
            Event::Notice { at, thread, text } => {
                self.view
                    .finish(format!("{} on {}: thread {thread} {text}", at.workload, at.engine));
            }
            Event::Finished if self.is_timed => {
                let rate = self.ops as f64 / self.elapsed_s.max(1e-9);
                let us = |p| self.latency.percentile(p).unwrap_or(0) as f64 / 1e3;
                let (p50, p99, errors) = (us(50.0), us(99.0), self.errors);
                let figures = format!("{rate:10.0} ops/s  p50 {p50:.1} us  p99 {p99:.1} us");
                let failed = if errors > 0 { format!("  {errors} ERRORS") } else { String::new() };
                self.view.finish(format!("{:<44}{figures}{failed}", self.cell));
            }
            Event::Finished => {}
            // It comes back among what was said.
            Event::Note(note) => say!("{note}"),
        }
        self.screen.show(&self.view);
    }

    /// A second is over.
    pub(crate) fn second(&mut self, second: &keyrack_harness::Second) {
        self.ops += second.prim_ops();
        self.errors += second.errors();
        self.elapsed_s = second.end_s;
        let latency = second.service();
        self.latency.merge(&latency);
        let per_s = |count: u64| count as f64 / second.length_s.max(1e-9);
        self.view.push(&keyrack_live::Second { rate_per_s: per_s(second.prim_ops()), latency });
        self.view.operations = second
            .ops
            .iter()
            .map(|op| Operation {
                name: op.kind.name().to_owned(),
                rate_per_s: per_s(op.prim_ops),
                latency: op.service.clone(),
                errors: Some(op.errors),
            })
            .collect();
        let known = |value: Option<String>| value.unwrap_or_else(|| "n/a".to_owned());
        let errors = self.errors;
        self.view.facts = vec![
            ("errors".to_owned(), if errors > 0 { format!("!{errors}") } else { "0".to_owned() }),
            (
                "memory".to_owned(),
                known(second.resident_bytes.map(|b| format!("{:.0} MiB", b as f64 / MIB))),
            ),
            ("CPU".to_owned(), known(second.cpu_pct.map(|pct| format!("{pct:.0} %")))),
        ];
        self.view.elapsed_s = second.end_s;
        self.screen.show(&self.view);
    }

    fn enter(&mut self, stage: &str, at: &At<'_>, tag: String, is_timed: bool) {
        let (number, count) = self.step;
        self.cell = format!("{} on {} {tag}", at.workload, at.engine);
        self.view.title = format!("keyrack bench  {number} of {count}: {}", self.cell);
        self.view.enter(stage);
        self.view.facts.clear();
        self.is_timed = is_timed;
        (self.ops, self.errors, self.elapsed_s) = (0, 0, 0.0);
        self.latency = Histogram::new();
    }
}

/// How much of a phase is done, of 1; `None` where nobody knows how much there is.
fn share(tick: &Event<'_>) -> Option<f64> {
    let of = |done: u64, total: u64| (done as f64 / total.max(1) as f64).min(1.0);
    match tick {
        Event::Tick { elapsed_s, budget_s: Some(budget), .. } => Some(elapsed_s / budget),
        Event::Tick { units, total, .. } => total.map(|total| of(*units, total)),
        Event::SeedTick { keys, total, .. } => total.map(|total| of(*keys, total)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bar of a load stayed empty until its end.
    #[test]
    fn a_load_fills_its_bar() {
        let tick = |total| {
            let (workload, engine, threads) = ("w", "e", 1);
            let at = At { workload, engine, phase: None, threads, sweep: None, rate: None };
            share(&Event::SeedTick { at, elapsed_s: 2.0, keys: 25, keys_per_s: 1.0, total })
        };
        assert_eq!(tick(Some(100)), Some(0.25));
        assert_eq!(tick(None), None);
    }
}
