//! What is counted: units, calls, primitive operations, hits and misses; exactly, for any number of
//! threads.

use crate::support::{Bench, op, repeat};

#[test]
fn units_and_operations_add_up_for_any_number_of_threads() {
    for threads in ["1", "2", "3", "4"] {
        for ops in ["1", "3", "1000", "1003"] {
            let record = Bench::unit(
                "kv.put('k' .. iter % 7, 'v')
                 kv.get('k' .. iter % 14)
                 kv.del('k' .. iter % 7)
                 kv.count('a', nil)
                 kv.rmw('r', 'v')",
            )
            .set(&[("threads", threads), ("ops", ops)])
            .run_clean();
            let repeat = repeat(&record);
            let units: u64 = ops.parse().unwrap();
            assert_eq!((repeat.units, repeat.prim_ops), (units, 5 * units), "{threads} {ops}");
            for verb in ["put", "get", "del", "range", "rmw"] {
                let row = op(repeat, verb);
                assert_eq!((row.calls, row.prim_ops, row.errors), (units, units, 0), "{verb}");
                assert_eq!(row.service.count(), units);
            }
            for verb in ["get", "rmw"] {
                let row = op(repeat, verb);
                assert_eq!(row.hits + row.misses, units, "{verb}");
            }
            assert_eq!(repeat.ops.len(), 5);
            let rate = repeat.ops_per_s / repeat.wu_per_s;
            assert!((rate - 5.0).abs() < 1e-9, "{rate}");
        }
    }
}

#[test]
fn units_are_dealt_out_evenly_and_iter_counts_from_one() {
    let bench = Bench::unit(
        "assert(iter >= 1 and iter <= (ctx.thread < 2 and 4 or 3), 'too many units')
         assert(ctx.iter == iter and ctx.threads == 4 and ctx.ops == 14)",
    );
    let record = bench.set(&[("threads", "4"), ("ops", "14")]).run_clean();
    assert_eq!(repeat(&record).units, 14);
}

#[test]
fn batched_verbs_count_their_keys() {
    for batch in ["1", "8", "64"] {
        let record = Bench::new(
            "
            local K, V = kb.keys{n = 1000}, kb.values{size = 10}
            return { name = 'w', batched = true, run = function(ctx)
              kv.mput(K, V, ctx.batch) kv.mget(K, ctx.batch) kv.mdel(K, ctx.batch)
            end }",
        )
        .set(&[("batch", batch), ("threads", "2"), ("ops", "501")])
        .run_clean();
        let repeat = repeat(&record);
        let keys = batch.parse::<u64>().unwrap() * 501;
        assert_eq!((repeat.units, repeat.prim_ops), (501, 3 * keys));
        for verb in ["mput", "mget", "mdel"] {
            assert_eq!((op(repeat, verb).calls, op(repeat, verb).prim_ops), (501, keys), "{verb}");
        }
        let mget = op(repeat, "mget");
        assert_eq!(mget.hits + mget.misses, keys);
        let expected = 3.0 * batch.parse::<f64>().unwrap();
        assert!((repeat.ops_per_s / repeat.wu_per_s - expected).abs() < 1e-6);
    }
}

#[test]
fn the_load_counts_its_keys_and_not_in_the_run() {
    for (threads, seed_threads, loaders) in [("1", "0", 1), ("3", "0", 3), ("2", "4", 4)] {
        let record = Bench::new(
            "return { name = 'w',
              load = function(ctx)
                assert(ctx.iter == 0)
                for i = ctx.thread, 99, ctx.threads do kv.put('k' .. i, 'v') end
              end,
              run = function(ctx) assert(kv.count('', nil) == 100) end }",
        )
        .set(&[("threads", threads), ("seed-threads", seed_threads), ("ops", "6")])
        .run_clean();
        let repeat = repeat(&record);
        let load = repeat.load.as_ref().unwrap();
        assert_eq!((load.keys, load.threads, load.reused), (100, loaders, false));
        assert!(load.wall_s > 0.0);
        assert_eq!((repeat.units, repeat.prim_ops), (6, 6));
    }
}

#[test]
fn no_load_is_no_load() {
    assert!(repeat(&Bench::unit("kv.get('a')").run_clean()).load.is_none());
}

#[test]
fn failed_calls_are_counted_apart_and_flagged() {
    let record = Bench::unit("kv.put('a', 'b') kv.get('a')")
        .set(&[("backend", "null"), ("ops", "100")])
        .engine("null", &[("fail_every", "10"), ("fail_get_every", "4")])
        .run_clean();
    let repeat = repeat(&record);
    assert_eq!((op(repeat, "put").calls, op(repeat, "put").errors), (100, 10));
    let get = op(repeat, "get");
    assert_eq!((get.calls, get.errors, get.hits, get.misses), (100, 25, 75, 0));
    assert!(get.first_error.is_some());
    let flags = record.points[0].flags.join("\n");
    assert!(flags.contains("ERRORS: 10 of put failed"), "{flags}");
    assert!(flags.contains("ERRORS: 25 of get failed"), "{flags}");
}

#[test]
fn errors_inside_a_scan_callback_are_flagged_with_their_text() {
    // The second session that serves a callback's reads is a session like any other.
    let record = Bench::unit("kv.scan('', nil, function(k) kv.get(k) end)")
        .set(&[("backend", "null"), ("ops", "10")])
        .engine("null", &[("rows_per_scan", "5"), ("fail_get_every", "10")])
        .run_clean();
    let get = op(repeat(&record), "get");
    assert_eq!((get.calls, get.errors), (50, 5));
    assert!(get.first_error.is_some(), "{:?}", record.points[0].flags);
}

#[test]
fn clock_mode_counts_whole_units_and_ends() {
    let record = Bench::unit("assert(ctx.ops == 0) kv.put('k', 'v')")
        .set(&[("secs", "0.05"), ("threads", "2")])
        .run_clean();
    let repeat = repeat(&record);
    assert!(repeat.units > 0);
    assert_eq!(repeat.units, op(repeat, "put").calls);
    assert!(repeat.wall_s >= 0.05, "{}", repeat.wall_s);
    // Units that touch no engine leave no clock reading behind, and still end in time.
    let record = Bench::unit("local x = 1").set(&[("secs", "0.05")]).run_clean();
    assert!(record.points[0].repeats[0].units > 0);
}
