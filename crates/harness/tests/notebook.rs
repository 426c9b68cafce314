//! The sinks that add to what is there, and what the program around a run can see of it.

use crate::support::Bench;
use keyrack_harness::sink::{Dialect, Notebook, Value};
use keyrack_harness::{Event, Observer, Outputs, Silent, run};
use keyrack_store::Store;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

const BOOK: &str = "/book.json";

fn nowhere() -> Box<dyn Write> {
    Box::new(std::io::sink())
}

fn put_bench() -> Bench {
    Bench::unit("kv.put('k', 'v')").set(&[
        ("threads", "1,2"),
        ("repeat", "2"),
        ("report", "notebook:/book.json,gnuplot:/plot.gp"),
    ])
}

/// Runs and returns what the sinks said.
fn said(bench: &Bench) -> Vec<String> {
    let plan = bench.plan().unwrap();
    let mut outputs = Outputs::open(&plan.sinks, &bench.fs, &nowhere, Dialect::Keyrack, 1).unwrap();
    run(&plan, &mut outputs, &mut Silent, &bench.stop).unwrap();
    outputs.said()
}

#[test]
fn every_run_adds_an_experiment() {
    let bench = put_bench();
    assert_eq!(said(&bench), ["EXPERIMENT x0"]);
    assert_eq!(said(&bench), ["EXPERIMENT x1"]);
    let text = bench.fs.read_to_string(Path::new(BOOK)).unwrap();
    let notebook = Notebook::parse(&text).unwrap();
    // Two thread counts of two repeats, in each of two experiments.
    let trials: Vec<(&str, &[Value])> = notebook.data().collect();
    assert_eq!(trials.len(), 2 * 2 * 2);
    for (key, rows) in trials {
        assert!(key.contains(" t1/") || key.contains(" t2/"), "{key}");
        assert_eq!(rows.len(), 1, "{key}");
        let rate = rows[0].get("ops_per_sec").and_then(Value::as_f64);
        assert!(rate.is_some_and(|rate| rate > 0.0), "{key}");
    }
    let script = bench.fs.read_to_string(Path::new("/plot.gp")).unwrap();
    assert!(script.contains("title 'ops_per_sec'"), "{script}");
    assert_eq!(script.matches("\ne\n").count(), 2, "{script}");
    assert!(!script.contains("x0/"), "older experiments are not asked for: {script}");
}

#[test]
fn a_file_that_is_no_notebook_stops_the_run_before_it_begins() {
    let bench = put_bench();
    bench.fs.write_atomic(Path::new(BOOK), b"{\"mine\": 1}").unwrap();
    let plan = bench.plan().unwrap();
    let error = Outputs::open(&plan.sinks, &bench.fs, &nowhere, Dialect::Keyrack, 1).unwrap_err();
    assert!(error.starts_with("/book.json: not a notebook, left as it is: "), "{error}");
    assert_eq!(bench.fs.read(Path::new(BOOK)).unwrap(), b"{\"mine\": 1}");
}

/// The other sinks got theirs, and the error names the file.
#[test]
fn a_notebook_that_was_spoilt_meanwhile_is_left_alone() {
    let bench = put_bench();
    let plan = bench.plan().unwrap();
    let mut outputs = Outputs::open(&plan.sinks, &bench.fs, &nowhere, Dialect::Keyrack, 1).unwrap();
    bench.fs.write_atomic(Path::new(BOOK), b"mine").unwrap();
    let error = run(&plan, &mut outputs, &mut Silent, &bench.stop).unwrap_err();
    assert!(error.starts_with("cannot write /book.json: not a notebook"), "{error}");
    assert!(outputs.said().is_empty());
    assert_eq!(bench.fs.read(Path::new(BOOK)).unwrap(), b"mine");
    assert!(bench.fs.read_to_string(Path::new("/plot.gp")).unwrap().contains("plot"));
}

/// Counts the keys of every store that a measurement has left.
#[derive(Default)]
struct Look(Vec<u64>);

impl Observer for Look {
    fn event(&mut self, _: &Event<'_>) {}

    fn measured(&mut self, store: &dyn Store) {
        let mut session = store.session().unwrap();
        let keys = session.scan(b"", None, &mut |_, _| ControlFlow::Continue(()));
        self.0.push(keys.unwrap());
    }
}

#[test]
fn the_store_can_be_looked_at_when_it_has_been_measured() {
    let bench = put_bench().set(&[("backend", "skiplist")]);
    let plan = bench.plan().unwrap();
    // A run without any sink is returned all the same.
    let mut outputs = Outputs::open(&[], &bench.fs, &nowhere, Dialect::Keyrack, 1).unwrap();
    let mut look = Look::default();
    let record = run(&plan, &mut outputs, &mut look, &bench.stop).unwrap();
    assert_eq!(record.points.len(), 2);
    assert_eq!(look.0, [1; 4], "one key after each of four measurements");
}
