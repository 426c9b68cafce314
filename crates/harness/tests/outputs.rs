//! Sinks that fail: the others get everything, and the error names the file.

use crate::support::{Bench, only};
use keyrack_harness::sink::{Dialect, SinkSpec};
use keyrack_harness::{Outputs, Silent, run};
use keyrack_record::Run;
use keyrack_vfs::{Fault, FaultFs, FaultPlan, Fs, Operation};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// A writer that fails after so many bytes.
struct Pipe(usize);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.checked_sub(bytes.len()) {
            Some(left) => {
                self.0 = left;
                Ok(bytes.len())
            }
            None => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_sink_that_fails_does_not_lose_the_others() {
    for room in [0, 10, 700] {
        let bench = Bench::unit("kv.get('k')")
            .set(&[("threads", "1,2,3"), ("report", "console,tsv:/points.tsv,json:/run.json")]);
        let plan = bench.plan().unwrap();
        let stdout = move || -> Box<dyn Write> { Box::new(Pipe(room)) };
        let mut outputs =
            Outputs::open(&plan.sinks, &bench.fs, &stdout, Dialect::Keyrack, 1).unwrap();
        let error = run(&plan, &mut outputs, &mut Silent, &bench.stop).unwrap_err();
        assert!(error.starts_with("cannot write standard output: "), "{error}");
        let json = bench.fs.read_to_string(Path::new("/run.json")).unwrap();
        assert_eq!(Run::from_json(&json).unwrap().points.len(), 3);
        let tsv = bench.fs.read_to_string(Path::new("/points.tsv")).unwrap();
        assert!(tsv.lines().count() > 3, "{tsv}");
    }
}

#[test]
fn when_all_sinks_have_failed_the_run_ends_and_says_why() {
    let bench = Bench::unit("print('ran') kv.get('k')").set(&[("threads", "1,2,3")]);
    let plan = bench.plan().unwrap();
    let stdout = || -> Box<dyn Write> { Box::new(Pipe(0)) };
    let mut outputs = Outputs::open(&plan.sinks, &bench.fs, &stdout, Dialect::Keyrack, 1).unwrap();
    let error = run(&plan, &mut outputs, &mut Silent, &bench.stop).unwrap_err();
    assert!(error.contains("standard output"), "{error}");
    assert!(outputs.is_reader_gone());
    assert!(bench.lines().len() <= 1, "nobody reads the rest: {:?}", bench.lines());
}

/// The reader of the console goes away first, and the report after it cannot be written.
#[test]
fn a_reader_that_went_away_hid_a_report_that_was_lost() {
    let bench = Bench::unit("kv.get('k')").set(&[("report", "console,json:/run.json")]);
    bench.mem.set_capacity(4096);
    let plan = bench.plan().unwrap();
    let stdout = || -> Box<dyn Write> { Box::new(Pipe(0)) };
    let mut outputs = Outputs::open(&plan.sinks, &bench.fs, &stdout, Dialect::Keyrack, 1).unwrap();
    let error = run(&plan, &mut outputs, &mut Silent, &bench.stop).unwrap_err();
    assert!(error.starts_with("cannot write /run.json: "), "{error}");
    assert!(!outputs.is_reader_gone());
}

#[test]
fn a_full_disk_under_a_report_is_named() {
    let bench = Bench::unit("kv.get('k')").set(&[("report", "console,json:/run.json")]);
    bench.mem.set_capacity(4096);
    let (result, console) = bench.run_outputs();
    let error = result.unwrap_err();
    assert!(error.starts_with("cannot write /run.json: "), "{error}");
    assert!(console.contains("=== w ==="), "{console}");
}

#[test]
fn a_device_error_under_one_file_is_named_and_the_rest_is_written() {
    let mut bench = Bench::unit("kv.get('k')").set(&[("report", "tsv:/points.tsv,json:/run.json")]);
    let faults = Arc::new(FaultFs::new(Arc::new(bench.mem.clone())));
    bench.fs = Arc::clone(&faults) as Arc<dyn Fs>;
    let plan = bench.plan().unwrap();
    let stdout = || -> Box<dyn Write> { Box::new(Pipe(usize::MAX)) };
    let mut outputs = Outputs::open(&plan.sinks, &bench.fs, &stdout, Dialect::Keyrack, 1).unwrap();
    faults.arm(FaultPlan::once(1, Fault::Io).only(&[Operation::Write]));
    let error = run(&plan, &mut outputs, &mut Silent, &bench.stop).unwrap_err();
    assert_eq!(faults.injected(), 1);
    assert!(error.starts_with("cannot write /points.tsv: "), "{error}");
    let json = bench.fs.read_to_string(Path::new("/run.json")).unwrap();
    assert_eq!(Run::from_json(&json).unwrap().points.len(), 1);
}

#[test]
fn a_file_that_cannot_be_opened_is_refused_before_anything_runs() {
    let bench = Bench::unit("kv.get('k')");
    let specs = SinkSpec::parse("console,tsv:/no/such/dir/points.tsv").unwrap();
    let stdout = || -> Box<dyn Write> { Box::new(Pipe(usize::MAX)) };
    let error = Outputs::open(&specs, &bench.fs, &stdout, Dialect::Keyrack, 1).unwrap_err();
    assert!(error.contains("/no/such/dir/points.tsv"), "{error}");
    assert_eq!(error.lines().count(), 1);
}

#[test]
fn the_files_of_a_report_directory_hold_the_same_run() {
    let bench = Bench::unit("kv.put('k', 'v')").set(&[("ops", "10"), ("timeline", "0.001")]);
    bench.fs.create_dir_all(Path::new("/reports/one")).unwrap();
    let plan = bench.plan().unwrap();
    let mut specs = plan.sinks.clone();
    specs.extend(Outputs::report_files(Path::new("/reports/one")));
    let stdout = || -> Box<dyn Write> { Box::new(Pipe(usize::MAX)) };
    let mut outputs = Outputs::open(&specs, &bench.fs, &stdout, Dialect::Keyrack, 1).unwrap();
    let record = run(&plan, &mut outputs, &mut Silent, &bench.stop).unwrap();
    let read = |name: &str| bench.fs.read_to_string(&Path::new("/reports/one").join(name)).unwrap();
    assert!(read("report.txt").contains("=== w ==="));
    assert!(read("points.tsv").contains("put"));
    assert!(read("timeline.tsv").lines().count() > 1);
    assert_eq!(read("run.json"), record.to_json().unwrap());
}

/// What the probes say can be counted is counted, and the rest is missing.
#[test]
fn counters_are_there_where_the_probe_says_so_and_missing_where_not() {
    let bench = Bench::unit("for i = 1, 50 do kv.put('k' .. i, 'v') end").set(&[
        ("probe", "perf,cgroup"),
        ("ops", "200"),
        ("threads", "2"),
        ("repeat", "2"),
    ]);
    let (record, console) = bench.run_outputs();
    let record = record.unwrap();
    let fact = |probe: &str, name: &str| {
        let probe = record.probes.iter().find(|found| found.name == probe).unwrap();
        probe.fields.iter().find(|(key, _)| key == name).unwrap().1.clone()
    };
    for repeat in &only(&record).repeats {
        let values = repeat.counters.map(|counters| counters.values()).unwrap_or_default();
        for (name, value) in keyrack_record::Counters::NAMES.into_iter().zip(values) {
            let how = fact("perf", name);
            // A counter may get no turn on a busy processor, but none comes from nowhere.
            assert!(value.is_none() || how.starts_with("counted"), "{name}: {how}: {value:?}");
            assert!(how.starts_with("counted") || how.starts_with("n/a: "), "{name}: {how}");
        }
        let told = |name: &str| fact("cgroup", name) == "told";
        let group = repeat.cgroup.unwrap_or_default();
        assert_eq!(group.cpu_s.is_some(), told("cpu"), "{group:?}");
        assert_eq!(group.memory_bytes.is_some(), told("memory"), "{group:?}");
        assert_eq!(group.read_bytes.is_some(), told("devices"), "{group:?}");
    }
    let is_counted = only(&record).repeats.iter().any(|repeat| repeat.counters.is_some());
    assert_eq!(console.contains("\nper op: "), is_counted, "{console}");
    assert!(console.contains("[probe: perf]") && console.contains("[probe: cgroup]"), "{console}");
    let without = Bench::unit("kv.get('k')").run_clean();
    let repeat = &only(&without).repeats[0];
    assert!(repeat.counters.is_none() && repeat.cgroup.is_none());
}
