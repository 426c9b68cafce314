//! Things that go wrong: each fails its cell or ends the run early, is said in words, and leaves
//! nothing behind.

use crate::support::{Bench, only, op, repeat};
use keyrack_vfs::{Fault, FaultFs, FaultPlan, Fs, Operation, RealFs};
use std::path::Path;
use std::sync::Arc;

/// A script that breaks in the unit `body` when it runs for longer than its phase.
fn overlong(body: &str) -> Bench {
    Bench::unit(body).set(&[("secs", "0.02"), ("unit-timeout", "0.05")])
}

#[test]
fn a_unit_that_does_not_end_is_broken() {
    for body in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do pcall(error) end",
        "repeat local ok = xpcall(function() while true do end end,
          function(m) return m end) until false",
        "while true do kv.get('k') end",
        "local function f() return f() end f()",
        "while true do kv.scan('', nil, function() while true do end end) kv.put('k', 'v') end",
    ] {
        let failure = overlong(body).run_failing();
        assert!(failure.reason.contains("--unit-timeout"), "{body}: {failure:?}");
        assert!(failure.reason.contains("run() error at unit"), "{body}: {failure:?}");
    }
}

#[test]
fn every_worker_is_broken_and_the_next_cell_runs() {
    let record = overlong("if ctx.threads > 1 then while true do end end kv.get('k')")
        .set(&[("threads", "3,1")])
        .run();
    assert_eq!(record.failures.len(), 1);
    assert_eq!(only(&record).cell.threads, 1);
    assert!(repeat(&record).units > 0);
}

#[test]
fn a_stop_keeps_what_was_measured_and_says_that_it_is_partial() {
    let record = Bench::unit(
        "kv.put('k', 'v') if ctx.threads == 2 and iter == 100 then print('enough') end",
    )
    .set(&[("threads", "1,2,3"), ("ops", "100000")])
    .stop_when_printed("enough", "the test has seen enough")
    .run();
    assert_eq!(record.interrupted.as_deref(), Some("the test has seen enough"));
    assert!(record.failures.is_empty());
    let threads: Vec<u32> = record.points.iter().map(|point| point.cell.threads).collect();
    assert_eq!(threads, [1, 2]);
    assert_eq!(record.points[0].repeats[0].units, 100_000);
    assert!(record.points[0].flags.is_empty(), "{:?}", record.points[0].flags);
    let cut = &record.points[1];
    assert!(cut.repeats[0].units >= 100 && cut.repeats[0].units < 100_000);
    assert_eq!(op(&cut.repeats[0], "put").calls, cut.repeats[0].units);
    assert!(cut.flags.iter().any(|flag| flag.starts_with("PARTIAL")), "{:?}", cut.flags);
}

#[test]
fn repeats_that_are_missing_are_counted_in_the_flag() {
    let record = Bench::unit("if R == nil then R = true print('repeat') end kv.put('k', 'v')")
        .set(&[("repeat", "5"), ("ops", "50000")])
        .stop_when_printed("repeat", "the test has seen enough")
        .run();
    let point = only(&record);
    assert_eq!(point.repeats.len(), 1);
    assert!(point.flags.iter().any(|flag| flag == "PARTIAL: 1 of 5 repeats"), "{:?}", point.flags);
}

#[test]
fn a_stop_during_the_load_leaves_no_point() {
    let script = "return { name = 'w',
        load = function(ctx) print('loading') kv.put('k', 'v') end,
        run = function() kv.get('k') end }";
    let record = Bench::new(script).stop_when_printed("loading", "enough").run();
    assert_eq!(record.interrupted.as_deref(), Some("enough"));
    assert!(record.points.is_empty() && record.failures.is_empty());
}

#[test]
fn an_endless_load_or_setup_is_broken_by_a_stop() {
    for field in ["load", "setup"] {
        let script = format!(
            "return {{ name = 'w', {field} = function() print('busy') while true do end end,
               run = function() end }}"
        );
        let record = Bench::new(&script)
            .set(&[("unit-timeout", "0.05")])
            .stop_when_printed("busy", "enough")
            .run();
        assert_eq!(record.interrupted.as_deref(), Some("enough"), "{field}");
        assert!(record.points.is_empty(), "{field}");
    }
}

#[test]
fn a_panic_in_an_engine_fails_the_cell_and_not_the_process() {
    for (script, ops) in [
        ("return { name = 'w', run = function() kv.put('k', 'v') end }", "200"),
        ("return { name = 'w', run = function() pcall(kv.get, 'k') end }", "200"),
        ("return { name = 'w', run = function() kv.scan('', nil, function() end) end }", "200"),
        ("return { name = 'w', run = function() kb.time('x', kv.put, 'k', 'v') end }", "200"),
        ("return { name = 'w', run = function() coroutine.wrap(kv.put)('k', 'v') end }", "200"),
        ("return { name = 'w', mix = { { op = 'get', key = kb.keys{} } } }", "200"),
        (
            "return { name = 'w', load = function() for i = 1, 60 do kv.put(i, 'v') end end,
           run = function() end }",
            "1",
        ),
        (
            "return { name = 'w', load = { key = kb.keys{n = 1000}, value = kb.values{} },
           mix = { { op = 'get', key = kb.keys{} } } }",
            "1",
        ),
    ] {
        for threads in ["1", "3"] {
            let record = Bench::new(script)
                .set(&[("backend", "odd,btree"), ("threads", threads), ("ops", ops)])
                .engine("odd", &[("fault", "panic later")])
                .run();
            assert_eq!(record.failures.len(), 1, "{script}");
            assert_eq!(record.failures[0].cell.engine, "odd");
            assert!(record.failures[0].reason.contains("panicked"), "{:?}", record.failures);
            assert_eq!(only(&record).cell.engine, "btree");
        }
    }
}

#[test]
fn a_panic_before_the_start_does_not_leave_the_others_waiting() {
    let script = "return { name = 'w', setup = function() kv.put('k', 'v') end,
                    run = function() kv.get('k') end }";
    for fault in ["panic", "session panics"] {
        for threads in ["1", "3"] {
            let failure = Bench::new(script).set(&[("threads", threads)]).odd(fault).run_failing();
            assert!(failure.reason.contains("panicked"), "{fault}: {failure:?}");
        }
    }
}

#[test]
fn an_engine_that_gives_no_session_fails_the_cell() {
    for script in [
        "return { name = 'w', run = function() end }",
        "return { name = 'w', load = function() end, run = function() end }",
        "return { name = 'w', mix = { { op = 'get', key = kb.keys{} } } }",
    ] {
        let failure = Bench::new(script).set(&[("threads", "2")]).odd("session").run_failing();
        assert!(failure.reason.contains("no session today"), "{failure:?}");
    }
}

#[test]
fn an_engine_that_fails_its_load_fails_the_cell() {
    for script in [
        "return { name = 'w', load = function() kv.put('k', 'v') end, run = function() end }",
        "return { name = 'w', load = function() kv.mput{{key = 'k', val = 'v'}} end,
          run = function() end }",
        "local K, V = kb.keys{n = 10}, kb.values{}
         return { name = 'w', load = { key = K, value = V }, mix = { { op = 'get', key = K } } }",
    ] {
        let failure = Bench::new(script).set(&[("items", "10")]).odd("write").run_failing();
        assert!(failure.reason.contains("while loading"), "{failure:?}");
        assert!(failure.reason.contains("this engine does not write"), "{failure:?}");
    }
}

#[test]
fn a_full_disk_ends_the_run() {
    let record = Bench::unit("kv.put('k', 'v')")
        .set(&[("backend", "null,btree"), ("ops", "1000")])
        .engine("null", &[("full_after", "100")])
        .run();
    assert_eq!(record.interrupted.as_deref(), Some("the disk is full"));
    assert_eq!(record.points.len(), 1);
    let point = &record.points[0];
    assert_eq!((point.repeats[0].units, op(&point.repeats[0], "put").errors), (101, 1));
    let flags = point.flags.join("\n");
    assert!(flags.contains("PARTIAL") && flags.contains("ERRORS"), "{flags}");
}

#[test]
fn more_threads_than_work_is_no_failure() {
    let record = Bench::unit("kv.get('k')").set(&[("threads", "8"), ("ops", "3")]).run_clean();
    assert_eq!(repeat(&record).units, 3);
}

/// Names under `dir`, which must be empty when no store lives in it.
fn names(fs: &dyn Fs, dir: &Path) -> Vec<String> {
    fs.list(dir).unwrap().iter().map(|e| e.name.to_string_lossy().into_owned()).collect()
}

#[test]
fn the_directory_of_a_store_is_removed_in_every_case() {
    let dir = Path::new("/data");
    for (fault, script) in [
        ("", "run = function() kv.put('k', 'v') end"),
        ("", "run = function() error('x') end"),
        ("", "load = function() error('x') end, run = function() end"),
        ("", "setup = function() error('x') end, run = function() end"),
        ("", "run = function() print('stop') kv.put('k', 'v') end"),
        ("write", "load = function() kv.put('k', 'v') end, run = function() end"),
        ("session", "run = function() end"),
        ("session panics", "run = function() end"),
        ("panic", "run = function() kv.put('k', 'v') end"),
        ("panic", "load = function() kv.put('k', 'v') end, run = function() end"),
        ("close", "run = function() kv.put('k', 'v') end"),
    ] {
        for once in ["no", "yes"] {
            let bench = Bench::new(&format!("return {{ name = 'w', {script} }}"))
                .set(&[
                    ("backend", "odd-on-disk"),
                    ("data-dir", "/data"),
                    ("threads", "1,2"),
                    ("ops", "10"),
                    ("seed-once", once),
                ])
                .engine("odd-on-disk", &[("fault", fault)])
                .stop_when_printed("stop", "enough");
            bench.fs.create_dir_all(dir).unwrap();
            // Some of these end in an error of the run as a whole; what is left behind counts here.
            let (result, _) = bench.run_outputs();
            assert_eq!(names(&*bench.fs, dir), Vec::<String>::new(), "{fault} {script}");
            if fault.is_empty() && script.contains("put") && !script.contains("stop") {
                assert_eq!(result.unwrap().points.len(), 2);
            }
        }
    }
    let bench = Bench::unit("kv.get('k')")
        .set(&[("backend", "odd-on-disk"), ("data-dir", "/data")])
        .engine("odd-on-disk", &[("fault", "open")]);
    bench.fs.create_dir_all(dir).unwrap();
    assert!(bench.refusal().contains("this engine does not open"));
    assert_eq!(names(&*bench.fs, dir), Vec::<String>::new());
}

#[test]
fn a_store_that_does_not_close_fails_its_cell_and_the_others_go_on() {
    let record = Bench::unit("kv.put('k', 'v')")
        .set(&[("backend", "odd,btree"), ("ops", "10")])
        .engine("odd", &[("fault", "close")])
        .run();
    assert_eq!(only(&record).cell.engine, "btree");
    assert_eq!(record.failures.len(), 1);
    assert!(record.failures[0].reason.contains("this engine does not close"));
}

#[test]
fn a_store_on_a_real_disk_is_removed_too() {
    let dir = tempfile::tempdir().unwrap();
    let (script, data) = (dir.path().join("w.lua"), dir.path().join("data"));
    let text = "return { name = 'w', run = function(ctx, iter)
        kv.put('k' .. iter, 'v')
        if ctx.threads == 2 then error('x') end
      end }";
    RealFs.write_atomic(&script, text.as_bytes()).unwrap();
    RealFs.create_dir_all(&data).unwrap();
    let mut bench = Bench::new(text);
    bench.fs = Arc::new(RealFs);
    let record = bench
        .set(&[
            ("workload", script.to_str().unwrap()),
            ("backend", "redb"),
            ("data-dir", data.to_str().unwrap()),
            ("threads", "1,2"),
            ("ops", "20"),
        ])
        .run();
    assert_eq!((record.points.len(), record.failures.len()), (1, 1));
    assert_eq!(names(&RealFs, &data), Vec::<String>::new());
}

#[test]
fn a_wait_that_does_not_end_is_broken() {
    let failure = overlong("kb.sleep_until(80000)").run_failing();
    assert!(failure.reason.contains("run() error at unit"), "{failure:?}");
}

#[test]
fn a_kept_store_that_does_not_close_fails_the_cell_it_served() {
    let record = Bench::unit("kv.put('k', 'v')")
        .set(&[("backend", "odd,btree"), ("ops", "10"), ("seed-once", "yes")])
        .engine("odd", &[("fault", "close")])
        .run();
    let failed: Vec<&str> = record.failures.iter().map(|f| f.cell.engine.as_str()).collect();
    assert_eq!(failed, ["odd"]);
    assert!(record.points.iter().any(|point| point.cell.engine == "btree"));
}

#[test]
fn a_server_out_of_memory_was_said_to_have_a_full_disk() {
    let record = Bench::unit("kv.put('k', 'v')").set(&[("ops", "1000")]).odd("memory").run();
    assert_eq!(record.interrupted.as_deref(), Some("the store is out of memory"));
    let repeat = &record.points[0].repeats[0];
    assert_eq!((repeat.units, op(repeat, "put").errors), (101, 1));
}

#[test]
fn a_full_disk_in_the_warm_up_makes_no_rate_out_of_nothing() {
    let record = Bench::unit("kv.put('k', 'v')")
        .set(&[("backend", "null"), ("secs", "0.1"), ("warmup", "60")])
        .engine("null", &[("full_after", "100")])
        .run();
    assert_eq!(record.interrupted.as_deref(), Some("the disk is full"));
    // The timed part began where the warm-up ended, not at an end of it that never came.
    assert!(record.points.iter().all(|point| point.repeats[0].wall_s > 1e-9));
}

/// Where the free space could not be measured, the guard of `--min-free` guarded nothing.
#[test]
fn a_guard_of_the_space_that_cannot_measure_it_ends_the_run() {
    let mut bench = Bench::unit("kv.put('k', 'v')").set(&[
        ("backend", "odd-on-disk"),
        ("data-dir", "/data"),
        ("min-free", "1"),
        ("secs", "600"),
    ]);
    bench.fs.create_dir_all(Path::new("/data")).unwrap();
    let fs = FaultFs::new(Arc::clone(&bench.fs));
    bench.fs = Arc::new(fs.clone());
    // The first looks are those of the plan.
    let after =
        |looks: u64| FaultPlan::from_then_on(looks + 1, Fault::Io).only(&[Operation::Space]);
    let looks = (0..100_u64).find(|looks| {
        fs.arm(after(*looks));
        bench.plan().is_ok()
    });
    fs.arm(after(looks.unwrap()));
    let record = bench.run();
    let why = record.interrupted.unwrap_or_default();
    assert!(why.starts_with("--min-free: cannot measure the file system of '/data"), "{why}");
}
