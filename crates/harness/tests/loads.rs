//! Loads: their durability, what is known of their length, and what the engine holds after them.

use crate::support::{Bench, lock, op, repeat};
use keyrack_harness::{Event, Observer, Outputs, run, sink::Dialect};
use std::path::Path;
use std::sync::{Arc, Mutex};

const HUNDRED: &str = "return { name = 'w', load_keys = 'items',\n\
    load = function(ctx)\n\
      for i = ctx.thread, ctx.items - 1, ctx.threads do kv.put('k' .. i, 'v') end\n\
    end,\n\
    run = function(ctx, iter) assert(kv.get('k' .. iter % ctx.items) == 'v') end }";

/// A store whose writes are synced one by one, and 100 rows to load.
fn synced(level: &str) -> Bench {
    let bench = Bench::new(HUNDRED).set(&[
        ("backend", "shelf"),
        ("data-dir", "/data"),
        ("durability", "sync"),
        ("items", "100"),
        ("ops", "200"),
        ("load-durability", level),
    ]);
    bench.fs.create_dir_all(Path::new("/data")).unwrap();
    bench
}

#[test]
fn a_load_into_a_store_that_syncs_each_write_is_not_synced_write_by_write() {
    for (level, told) in [("none", Some("none")), ("os", Some("os")), ("sync", None)] {
        let record = synced(level).run_clean();
        assert_eq!(record.points[0].durability, "sync", "the measurement itself");
        let repeat = repeat(&record);
        let load = repeat.load.as_ref().unwrap();
        assert_eq!((load.keys, load.durability.as_deref()), (100, told), "{level}");
        // Every row of the load is there after the store was opened again.
        assert_eq!((op(repeat, "get").hits, op(repeat, "get").errors), (200, 0), "{level}");
    }
}

#[test]
fn a_load_says_with_which_durability_it_was_made() {
    let (record, text) = synced("none").run_outputs();
    assert!(record.unwrap().failures.is_empty());
    let line = text.lines().find(|line| line.starts_with("load: 100 keys in "));
    assert!(
        line.is_some_and(|line| line.ends_with(" s with durability none, then one sync")),
        "{text}"
    );
    let (_, text) = synced("sync").run_outputs();
    assert!(!text.contains("\nload: "), "{text}");
}

#[test]
fn a_load_that_is_checked_or_kept_has_the_durability_of_the_store() {
    let checked = synced("none").set(&[("verify", "yes")]).run_clean();
    assert_eq!(repeat(&checked).load.as_ref().unwrap().durability, None);
    let bench = synced("none").set(&[("store", "/kept-with-its-durability")]);
    let mut bench = bench;
    bench.settings.data_dir = None;
    assert_eq!(repeat(&bench.run_clean()).load.as_ref().unwrap().durability, None);
}

#[test]
fn a_result_has_memory_and_disk_of_the_engine_and_not_the_peak_of_the_group() {
    let bench = Bench::new(HUNDRED).set(&[("backend", "odd-on-disk"), ("data-dir", "/data")]);
    bench.fs.create_dir_all(Path::new("/data")).unwrap();
    let (record, text) = bench.run_outputs();
    let held = repeat(&record.unwrap()).footprint.unwrap();
    assert_eq!((held.disk_bytes, held.is_idle), (Some(4), true));
    assert!(held.memory_bytes.is_some(), "{held:?}");
    let line = text.lines().find(|line| line.starts_with("engine holds: memory ")).unwrap();
    assert!(line.ends_with(" MiB, disk 0.0 MiB"), "{line}");
    assert!(!text.contains("peak"), "{text}");
    // In memory there is nothing to say of a disk.
    let (record, text) = Bench::new(HUNDRED).run_outputs();
    assert_eq!(repeat(&record.unwrap()).footprint.unwrap().disk_bytes, None);
    let line = text.lines().find(|line| line.starts_with("engine holds: memory ")).unwrap();
    assert!(!line.contains("disk"), "{line}");
}

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
        "return {{ name = 'w', {load_keys}\n\
         load = function() kb.sleep_until(1.2) kv.put('k', 'v') end,\n\
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
