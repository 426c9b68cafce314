//! Declarative workloads: a table instead of a function, with no Lua in the loop.

use crate::support::{Bench, op, repeat};

const SOURCES: &str = "local K, V = kb.keys{n = 200, fmt = 'k%06d'}, kb.values{size = 20}\n";

fn declared(fields: &str) -> Bench {
    Bench::new(&format!("{SOURCES}return {{ name = 'w', {fields} }}"))
}

#[test]
fn operations_come_in_the_proportions_of_their_weights() {
    for threads in ["1", "3"] {
        let record = declared(
            "load = { key = K, value = V },
             mix = { { w = 50, op = 'get', key = K }, { w = 30, op = 'put', key = K, value = V },
                     { w = 15, op = 'del', key = K }, { w = 5, op = 'rmw', key = K, value = V } }",
        )
        .set(&[("ops", "30000"), ("threads", threads)])
        .run_clean();
        let repeat = repeat(&record);
        assert_eq!((repeat.units, repeat.prim_ops), (30_000, 30_000));
        for (verb, p) in [("get", 0.5), ("put", 0.3), ("del", 0.15), ("rmw", 0.05)] {
            let (n, calls) = (30_000.0, op(repeat, verb).calls as f64);
            let sigma = f64::sqrt(n * p * (1.0 - p));
            assert!((calls - n * p).abs() < 3.0 * sigma, "{verb}: {calls}, expected {}", n * p);
        }
        assert!(op(repeat, "get").hits > 0);
    }
}

#[test]
fn a_load_table_writes_every_key_once() {
    for threads in ["1", "3"] {
        let (record, mut stores) =
            declared("load = { key = K, value = V, batch = 7 }, mix = { { op = 'get', key = K } }")
                .set(&[("threads", threads), ("ops", "600")])
                .run_spied();
        assert_eq!(repeat(&record).load.as_ref().unwrap().keys, 200);
        assert_eq!(op(repeat(&record), "get").hits, 600);
        let rows = stores.remove(0);
        assert_eq!(rows.len(), 200);
        assert_eq!(rows[199].0, b"k000199");
        assert!(rows.iter().all(|(_, value)| value.len() == 20));
    }
}

#[test]
fn a_load_function_may_fill_the_store_of_a_mix() {
    let record = declared(
        "load = function(ctx) for i = 0, 199 do kv.put(K:at(i), V) end end,
         mix = { { op = 'get', key = K } }",
    )
    .set(&[("ops", "300")])
    .run_clean();
    assert_eq!(repeat(&record).load.as_ref().unwrap().keys, 200);
    assert_eq!(op(repeat(&record), "get").hits, 300);
}

#[test]
fn a_mix_without_a_load_starts_empty() {
    let record = declared("mix = { { op = 'get', key = K } }").set(&[("ops", "50")]).run_clean();
    assert!(repeat(&record).load.is_none());
    assert_eq!(op(repeat(&record), "get").misses, 50);
}

#[test]
fn ranges_scans_and_batches_do_what_their_fields_say() {
    let record = declared(
        "load = { key = K, value = V },
         mix = { { op = 'range', key = K, limit = 10 }, { op = 'scan', key = K, limit = '1:5' },
                 { op = 'mget', key = K, batch = 4 },
                 { op = 'mput', key = K, value = V, batch = 3 } }",
    )
    .set(&[("ops", "4000")])
    .run_clean();
    let repeat = repeat(&record);
    let (mget, mput, range) = (op(repeat, "mget"), op(repeat, "mput"), op(repeat, "range"));
    assert_eq!(mget.prim_ops, 4 * mget.calls);
    assert_eq!(mget.hits, mget.prim_ops);
    assert_eq!(mput.prim_ops, 3 * mput.calls);
    assert_eq!(range.prim_ops, range.calls);
    assert_eq!(mget.calls + mput.calls + range.calls, 4000);
    assert_eq!(repeat.prim_ops, mget.prim_ops + mput.prim_ops + range.calls);
}

#[test]
fn mdel_removes_its_batch() {
    let (_, mut stores) = Bench::new(
        "local K = kb.sequential{n = 200, fmt = 'k%06d'}
         return { name = 'w', load = { key = K, value = kb.values{size = 4} },
           mix = { { op = 'mdel', key = K, batch = 5 } } }",
    )
    .set(&[("ops", "10")])
    .run_spied();
    let rows = stores.remove(0);
    assert_eq!((rows.len(), rows[0].0.as_slice()), (150, b"k000050".as_slice()));
}

#[test]
fn inserts_take_new_keys_once_over_all_threads() {
    let (_, mut stores) = Bench::new(
        "local C = kb.counter('rows', 100)
         local K = kb.keys{n = 100, fmt = 'k%06d'}
         local I = kb.keys{n = 100, fmt = 'k%06d', dist = 'insert', counter = C}
         return { name = 'w', load = { key = K, value = kb.values{size = 4} },
           mix = { { op = 'insert', key = I, value = kb.values{size = 4} } } }",
    )
    .set(&[("threads", "4"), ("ops", "1000")])
    .run_spied();
    assert_eq!(stores.remove(0).len(), 1100);
}

#[test]
fn a_mix_may_be_a_function_of_ctx() {
    let record = declared(
        "sweep = { param = 'size', values = { 1, 6 } },
         mix = function(ctx) return { { op = 'mget', key = K, batch = ctx.size } } end",
    )
    .set(&[("ops", "10")])
    .run_clean();
    let ops: Vec<u64> = record.points.iter().map(|point| point.repeats[0].prim_ops).collect();
    assert_eq!(ops, [10, 60]);
}

#[test]
fn what_a_table_cannot_mean_is_said_in_one_line() {
    let mut wrong = Vec::new();
    for (fields, words) in [
        ("mix = {}", "no entries"),
        ("mix = { { op = 'gte', key = K } }", "gte"),
        ("mix = { { key = K } }", "no op"),
        ("mix = { { op = 'get' } }", "key"),
        ("mix = { { op = 'get', key = 'k' } }", "key"),
        ("mix = { { op = 'get', key = V } }", "key"),
        ("mix = { { op = 'put', key = K } }", "value"),
        ("mix = { { op = 'put', key = K, value = 'x' } }", "value"),
        ("mix = { { op = 'get', key = K, wieght = 5 } }", "wieght"),
        ("mix = { { op = 'get', key = K, w = -1 } }", "weight"),
        ("mix = { { op = 'get', key = K, w = 0 } }", "weight"),
        ("mix = { { op = 'get', key = K, w = 'x' } }", "w"),
        ("mix = { { op = 'mget', key = K, batch = 0 } }", "batch"),
        ("mix = { { op = 'mget', key = K, batch = -1 } }", "batch"),
        ("mix = { { op = 'range', key = K, limit = 0 } }", "limit"),
        ("mix = { { op = 'range', key = K, limit = {} } }", "limit"),
        ("mix = { 5 }", "table"),
        ("mix = { { op = 'get', key = K } }, load = {}", "key"),
        ("mix = { { op = 'get', key = K } }, load = { key = K }", "value"),
        ("mix = { { op = 'get', key = K } }, load = { keys = K }", "keys"),
        ("mix = { { op = 'get', key = K } }, load = 5", "load"),
        ("mix = function() return 5 end", "table"),
        ("mix = function() error('no mix') end", "no mix"),
    ] {
        let bench = declared(fields);
        let text = match bench.plan() {
            Err(refusal) => refusal.to_string(),
            Ok(_) => bench.run_failing().reason,
        };
        if ![words, "/w.lua"].iter().all(|word| text.contains(word)) || text.lines().count() != 1 {
            wrong.push(format!("{fields}: '{words}' not in: {text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_native_workload_needs_no_file() {
    let bench = Bench::new("").set(&[
        ("workload", "ycsb/a"),
        ("backend", "btree,skiplist"),
        ("items", "500"),
        ("ops", "2000"),
        ("threads", "2"),
    ]);
    let record = bench.run_clean();
    assert_eq!(record.points.len(), 2);
    for point in &record.points {
        assert_eq!(point.repeats[0].units, 2000);
        assert_eq!(point.repeats[0].load.as_ref().unwrap().keys, 500);
    }
    let text = Bench::new("").set(&[("workload", "ycbs/a")]).refusal();
    assert!(text.contains("did you mean 'ycsb/a'"), "{text}");
}

/// A run of a workload `index/...` over 300 keys on two threads.
fn index(workload: &str, settings: &[(&str, &str)]) -> Bench {
    let shared = [("workload", workload), ("items", "300"), ("threads", "2")];
    Bench::new("").set(&shared).set(settings)
}

#[test]
fn a_phase_of_an_index_workload_is_one_verb_over_the_loaded_set() {
    for (phase, verb) in [("", "get"), ("phase=get", "get"), ("phase=scan", "range")] {
        let params: &[(&str, &str)] = if phase.is_empty() { &[] } else { &[("param", phase)] };
        let (record, mut stores) = index("index/url", &[("ops", "1000")]).set(params).run_spied();
        let repeat = repeat(&record);
        assert_eq!(repeat.load.as_ref().unwrap().keys, 300, "{phase}");
        assert_eq!(op(repeat, verb).calls, 1000, "{phase}");
        assert_eq!(repeat.ops.iter().filter(|op| op.calls > 0).count(), 1, "{phase}");
        let rows = stores.remove(0);
        assert_eq!(rows.len(), 300);
        let is_url = |key: &[u8]| key.starts_with(b"https://") || key.starts_with(b"http://");
        assert!(rows.iter().all(|(key, value)| is_url(key) && value.len() == 8));
    }
    let record = index("index/path", &[("ops", "1000"), ("param", "phase=mix")]).run_clean();
    let (get, put) = (op(repeat(&record), "get"), op(repeat(&record), "put"));
    assert_eq!((get.calls + put.calls, get.misses), (1000, 0));
    assert!(get.calls.abs_diff(500) < 80, "{}", get.calls);
}

#[test]
fn the_inserts_of_an_index_workload_are_new_keys() {
    let (record, mut stores) =
        index("index/email", &[("ops", "1001"), ("param", "phase=insert")]).run_spied();
    assert_eq!(op(repeat(&record), "put").calls, 1001);
    assert_eq!(stores.remove(0).len(), 300 + 1001);
}

#[test]
fn the_load_of_an_index_workload_is_measured_and_ends_with_its_keys() {
    let bench = Bench::new("").set(&[("workload", "index/composed"), ("items", "301")]);
    let mut bench = bench.set(&[("param", "phase=load"), ("threads", "2")]);
    bench.settings.bounded = false;
    let (record, mut stores) = bench.run_spied();
    assert!(repeat(&record).load.is_none());
    assert_eq!(op(repeat(&record), "put").calls, 301);
    assert_eq!(stores.remove(0).len(), 301);
}

#[test]
fn every_index_workload_runs_and_an_unknown_phase_is_refused() {
    for set in keyrack_workload::KeySet::ALL {
        let record = index(&format!("index/{set}"), &[("ops", "200")]).run_clean();
        assert_eq!(op(repeat(&record), "get").hits, 200, "{set}");
    }
    let text = index("index/url", &[("param", "phase=sacn")]).refusal();
    assert_eq!(text, "index/url: phase is 'sacn', expected load, get, scan, mix or insert");
    let text = Bench::new("").set(&[("workload", "ycsb/a"), ("param", "phase=get")]).refusal();
    assert!(text.contains("unknown parameter 'phase'"), "{text}");
    let text = index("index/uri", &[]).refusal();
    assert!(text.contains("did you mean 'index/url'"), "{text}");
}
