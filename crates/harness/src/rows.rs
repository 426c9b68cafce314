//! Timeline rows: what a sample of the counters, the engine and the machine turns into.
//!
//! Order in each sample: rates, percentiles of each verb over the interval, the engine's
//! statistics, the machine's, and the bytes of the data directory. Percentiles are of the interval
//! alone: the difference of two snapshots of the live histograms.

use crate::live::{Kind, Totals};
use keyrack_record::{Cell, Phase, TimelineRow};
use keyrack_store::Store;
use keyrack_vfs::Fs;
use std::path::Path;

/// Engine statistics of one sample; more are dropped.
const ENGINE_METRICS_MAX: usize = 256;

/// The samples of one phase.
pub(crate) struct Timeline {
    template: TimelineRow,
    last_s: f64,
    last: Option<Totals>,
}

/// What is sampled beside the workers.
pub(crate) struct SampleContext<'a> {
    pub(crate) store: &'a dyn Store,
    /// Metrics of the machine.
    pub(crate) system: &'a [(&'static str, Option<f64>)],
    pub(crate) dir: Option<(&'a dyn Fs, &'a Path)>,
}

impl Timeline {
    pub(crate) fn new(cell: &Cell, version: &str, repeat: u32, phase: Phase) -> Self {
        let template = TimelineRow {
            cell: cell.clone(),
            engine_version: version.to_owned(),
            repeat,
            phase,
            elapsed_s: 0.0,
            metric: String::new(),
            value: 0.0,
        };
        Timeline { template, last_s: 0.0, last: None }
    }

    /// Turns one sample into rows; of a role alone there is nothing around it.
    pub(crate) fn sample(
        &mut self,
        elapsed_s: f64,
        totals: Totals,
        context: Option<&SampleContext<'_>>,
        rows: &mut dyn FnMut(TimelineRow),
    ) {
        let span_s = elapsed_s - self.last_s;
        if span_s <= 0.0 {
            return;
        }
        self.template.elapsed_s = elapsed_s;
        let template = self.template.clone();
        let mut row = |metric: &str, value: f64| {
            if value.is_finite() {
                rows(TimelineRow { metric: metric.to_owned(), value, ..template.clone() });
            }
        };
        let before = self.last.as_ref();
        let since = |now: u64, then: Option<u64>| (now - then.unwrap_or(0)) as f64;
        let ops = since(totals.prim_ops(), before.map(Totals::prim_ops));
        if self.template.phase == Phase::Seed {
            row("keys_per_s", ops / span_s);
            row("seed_keys", totals.prim_ops() as f64);
        } else {
            row("wu_per_s", since(totals.units, before.map(|b| b.units)) / span_s);
            row("ops_per_s", ops / span_s);
            percentiles(&totals, before, &mut row);
            if let Some(context) = context {
                context.rows(&mut row);
            }
        }
        (self.last_s, self.last) = (elapsed_s, Some(totals));
    }
}

impl SampleContext<'_> {
    fn rows(&self, row: &mut dyn FnMut(&str, f64)) {
        let mut left = ENGINE_METRICS_MAX;
        self.store.stats(&mut |name, value| {
            if left > 0 {
                left -= 1;
                row(name, value);
            }
        });
        for (name, value) in self.system {
            if let Some(value) = value {
                row(name, *value);
            }
        }
        if let Some((fs, dir)) = self.dir
            && let Ok(bytes) = fs.size_recursive(dir)
        {
            row("disk_bytes", bytes as f64);
        }
    }
}

fn percentiles(totals: &Totals, before: Option<&Totals>, row: &mut dyn FnMut(&str, f64)) {
    for kind in Kind::ALL {
        let now = &totals.ops[kind as usize].service;
        let interval = match before {
            Some(before) => now.subtract(&before.ops[kind as usize].service),
            None => now.clone(),
        };
        for (suffix, value) in [
            ("p50_ns", interval.percentile(50.0)),
            ("p99_ns", interval.percentile(99.0)),
            ("p999_ns", interval.percentile(99.9)),
            ("max_ns", interval.max()),
        ] {
            if let Some(value) = value {
                row(&format!("{}_{suffix}", kind.name()), value as f64);
            }
        }
    }
}
