//! What is inside a measurement and what is not: warm-up, set-up, the barrier; and one load that
//! serves many cells.

use crate::support::{Bench, kept, new_id, op, repeat};
use std::collections::BTreeSet;

#[test]
fn the_warm_up_is_not_counted() {
    let bench = Bench::new(
        "local warm
         return { name = 'w', run = function(ctx, iter)
           kv.put('k', 'v')
           kb.time('label', kv.get, 'k')
           if iter == 1 then print('first') end
         end }",
    )
    .set(&[("warmup", "0.03"), ("ops", "50"), ("threads", "2"), ("trace-hash", "yes")]);
    let record = bench.run_clean();
    let repeat = repeat(&record);
    assert_eq!((repeat.units, repeat.prim_ops), (50, 100));
    assert_eq!(op(repeat, "put").service.count(), 50);
    assert_eq!(op(repeat, "label").calls, 50);
    assert!((repeat.warmup_s - 0.03).abs() < 1e-9);
    // The units of the warm-up ran: the first unit came twice, once in each part.
    assert_eq!(bench.lines(), ["first", "first"]);
}

#[test]
fn reads_inside_a_scan_count_after_a_warm_up_too() {
    let record = Bench::new(
        "return { name = 'w',
          load = function() for i = 1, 5 do kv.put('k' .. i, 'v') end end,
          run = function() kv.scan('', nil, function(k) kv.get(k) end) end }",
    )
    .set(&[("warmup", "0.02"), ("ops", "40")])
    .run_clean();
    let repeat = repeat(&record);
    assert_eq!(op(repeat, "range").calls, 40);
    assert_eq!(op(repeat, "get").calls, 200);
    assert_eq!(repeat.prim_ops, 240);
}

#[test]
fn making_machines_and_setup_are_outside_of_the_measured_time() {
    // Both burn 100 ms of processor time for each worker; the units do next to nothing.
    let record = Bench::new(
        "local function burn(seconds)
           local start = os.clock()
           while os.clock() - start < seconds do end
         end
         burn(0.1)
         return { name = 'w', setup = function(ctx) burn(0.1) end,
           run = function() kv.get('k') end }",
    )
    .set(&[("threads", "2"), ("ops", "20")])
    .run_clean();
    let repeat = repeat(&record);
    assert!(repeat.wall_s < 0.15, "{}", repeat.wall_s);
}

#[test]
fn setup_runs_once_a_worker_before_its_first_unit() {
    Bench::new(
        "local ready, units = 0, 0
         return { name = 'w',
           setup = function(ctx) assert(ctx.iter == 0)
             ready = ready + 1 kv.put('s' .. ctx.thread, 'x') end,
           load = function() assert(ready == 0) end,
           run = function(ctx, iter)
             assert(ready == 1 and kv.get('s' .. ctx.thread) == 'x')
             -- All workers are ready before any begins.
             assert(kv.count('s', nil) == 4)
           end }",
    )
    .set(&[("threads", "4"), ("ops", "40")])
    .run_clean();
}

#[test]
fn what_setup_calls_is_not_counted() {
    let record = Bench::new(
        "return { name = 'w', setup = function() kv.put('a', 'b') kb.time('l', math.abs, 1) end,
           run = function() kv.get('a') end }",
    )
    .set(&[("ops", "10")])
    .run_clean();
    assert_eq!((repeat(&record).prim_ops, repeat(&record).ops.len()), (10, 1));
}

#[test]
fn a_slow_worker_shows_as_straggle() {
    let record = Bench::unit("if ctx.thread == 1 then kb.sleep_until(kb.now() + 0.05) end")
        .set(&[("threads", "2"), ("ops", "2")])
        .run_clean();
    let repeat = repeat(&record);
    assert!(repeat.straggle_s >= 0.04, "{}", repeat.straggle_s);
    assert!(repeat.wall_s >= repeat.straggle_s);
}

const SHARED: &str = "
return { name = 'w',
  load = function(ctx)
    for i = ctx.thread, 99, ctx.threads do kv.put(string.format('l%03d', i), 'v') end
  end,
  run = function(ctx) kv.put(string.format('r%d-%d', ctx.threads, ctx.thread), 'v') end }";

#[test]
fn one_load_serves_all_threads_and_repeats() {
    let (record, stores) = Bench::new(SHARED)
        .set(&[("threads", "1,3"), ("repeat", "2"), ("ops", "3"), ("seed-once", "yes")])
        .run_spied();
    let loads: Vec<(u64, u32, bool)> = record
        .points
        .iter()
        .flat_map(|point| &point.repeats)
        .map(|repeat| repeat.load.as_ref().unwrap())
        .map(|load| (load.keys, load.threads, load.reused))
        .collect();
    assert_eq!(loads, [(100, 3, false), (100, 3, true), (100, 3, true), (100, 3, true)]);
    assert_eq!(stores.len(), 1);
    // The one store saw the load and the runs of both thread counts.
    assert_eq!(stores[0].len(), 100 + 1 + 3);
}

#[test]
fn without_it_every_repeat_gets_a_store_of_its_own() {
    let (record, stores) =
        Bench::new(SHARED).set(&[("threads", "1,3"), ("repeat", "2"), ("ops", "3")]).run_spied();
    let reused = record.points.iter().flat_map(|p| &p.repeats).filter_map(|r| r.load.as_ref());
    assert_eq!(reused.filter(|load| !load.reused).count(), 4);
    let sizes: BTreeSet<usize> = stores.iter().map(Vec::len).collect();
    assert_eq!((stores.len(), sizes), (4, BTreeSet::from([101, 103])));
}

#[test]
fn a_load_that_depends_on_the_swept_value_is_done_for_each() {
    for (per_value, stores) in [("true", 2), ("false", 1)] {
        let id = new_id();
        let record = Bench::new(&format!(
            "return {{ name = 'w', sweep = {{ param = 'n', values = {{ 5, 9 }},
              seed_per_value = {per_value} }},
               load = function(ctx)
                 for i = 1 + ctx.thread, ctx.n, ctx.threads do kv.put('k' .. i, 'v') end
               end,
               run = function(ctx) kv.get('k1') end }}"
        ))
        .set(&[("backend", "spy"), ("threads", "1,2"), ("seed-once", "yes")])
        .engine("spy", &[("id", &id)])
        .run_clean();
        assert_eq!(record.points.len(), 4);
        assert_eq!(kept(&id).len(), stores, "seed_per_value = {per_value}");
        for point in &record.points {
            let keys = point.repeats[0].load.as_ref().unwrap().keys;
            let value = point.cell.sweep.as_ref().unwrap().value as u64;
            assert_eq!(keys, if per_value == "true" { value } else { 5 });
        }
    }
}

#[test]
fn the_order_changes_when_and_not_what() {
    let cells = |order: &str| -> BTreeSet<String> {
        let record = Bench::unit("kv.put('k' .. math.random(1000), 'v') kv.get('k1')")
            .set(&[
                ("backend", "btree,skiplist"),
                ("threads", "1,2"),
                ("repeat", "3"),
                ("ops", "100"),
                ("order", order),
                ("trace-hash", "yes"),
            ])
            .run_clean();
        let row = |p: &keyrack_record::Point| {
            let repeats: Vec<_> =
                p.repeats.iter().map(|r| (r.index, r.units, r.trace_hashes.clone())).collect();
            format!("{} {repeats:?}", p.cell)
        };
        record.points.iter().map(row).collect()
    };
    let engine = cells("engine");
    assert_eq!(engine.len(), 4);
    assert_eq!(engine, cells("interleave"));
    assert_eq!(engine, cells("shuffle"));
}

#[test]
fn ctx_is_kept_between_units_and_new_in_every_phase() {
    Bench::new(
        "return { name = 'w',
          load = function(ctx) ctx.mine = 'load' end,
          run = function(ctx, iter)
            assert(ctx.mine == (iter > 1 and iter - 1 or nil))
            ctx.mine = iter
            assert(ctx.users == 3 and ctx.items == 4 and ctx.seed == 9 and ctx.threads == 1)
          end }",
    )
    .set(&[("users", "3"), ("items", "4"), ("seed", "9"), ("ops", "5")])
    .run_clean();
}
