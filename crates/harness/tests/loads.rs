//! Loads: what is known of their length.

use crate::support::{Bench, lock};
use keyrack_harness::{Event, Observer, Outputs, run, sink::Dialect};
use std::sync::{Arc, Mutex};

/// Totals of the ticks of a load.
#[derive(Default)]
struct Totals(Arc<Mutex<Vec<Option<u64>>>>);

impl Observer for Totals {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::SeedTick { total, .. } = event {
            lock(&self.0).push(*total);
        }
    }
}

/// The totals that ticks of a load of more than a second have.
fn totals(load_keys: &str) -> Vec<Option<u64>> {
    let script = format!(
        "return {{ name = 'w', {load_keys} load = function() kb.sleep_until(1.2) kv.put('k', 'v') end,\n\
         run = function() kv.get('k') end }}"
    );
    let bench = Bench::new(&script).set(&[("items", "70"), ("users", "8")]);
    let plan = bench.plan().unwrap();
    let stdout = || -> Box<dyn std::io::Write> { Box::new(std::io::sink()) };
    let mut outputs = Outputs::open(&plan.sinks, &bench.fs, &stdout, Dialect::Keyrack, 1).unwrap();
    let mut observer = Totals::default();
    let seen = Arc::clone(&observer.0);
    let record = run(&plan, &mut outputs, &mut observer, &bench.stop).unwrap();
    assert!(record.failures.is_empty(), "{:?}", record.failures);
    lock(&seen).clone()
}

#[test]
fn a_load_of_a_script_has_a_total() {
    for (given, total) in [
        ("load_keys = 'items',", Some(70)),
        ("load_keys = 'users',", Some(8)),
        ("load_keys = 12,", Some(12)),
        ("", None),
    ] {
        let seen = totals(given);
        assert!(!seen.is_empty() && seen.iter().all(|found| *found == total), "{given} {seen:?}");
    }
}

#[test]
fn a_total_that_is_no_number_is_refused() {
    for given in ["'rows'", "-1", "1.5", "{}", "true"] {
        let script = format!("return {{ name = 'w', load_keys = {given}, run = function() end }}");
        let text = Bench::new(&script).refusal();
        assert!(text.contains("load_keys must be a number of keys, 'items' or 'users'"), "{text}");
    }
}
