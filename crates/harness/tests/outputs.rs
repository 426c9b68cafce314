//! Sinks that fail: the others get everything, and the error names the file.

use crate::support::Bench;
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
    assert!(bench.lines().len() <= 1, "nobody reads the rest: {:?}", bench.lines());
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
