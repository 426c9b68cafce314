//! The keys that a run issues follow from the seed alone: not from the engine, the number of
//! threads or the repeat. Load and run draw from different streams, and so do threads.

use crate::support::Bench;
use keyrack_record::Run;
use std::collections::BTreeSet;

const SCRIPT: &str = "
local K, V = kb.zipf{n = 10000, scramble = true}, kb.values{size = '1:50'}
local M = kb.mix{get = 5, put = 3, del = 1}
return { name = 'w', run = function()
  local verb = M()
  if verb == 'get' then kv.get(K) elseif verb == 'put' then kv.put(K, V) else kv.del(K) end
  if math.random(4) == 1 then kv.get('m' .. math.random(1000)) end
end }";

const MIX: &str = "
local K, V = kb.zipf{n = 10000, scramble = true}, kb.values{size = '1:50'}
return { name = 'w', mix = {
  { w = 5, op = 'get', key = K }, { w = 3, op = 'put', key = K, value = V },
    { op = 'del', key = K },
  { op = 'mget', key = K, batch = 3 }, { op = 'mput', key = K, value = V, batch = 2 },
} }";

fn run(script: &str, pairs: &[(&str, &str)]) -> Run {
    Bench::new(script).set(&[("trace-hash", "yes")]).set(pairs).run_clean()
}

/// The trace of each thread, for each repeat of each point.
fn traces(record: &Run) -> Vec<Vec<u64>> {
    let repeats = record.points.iter().flat_map(|point| &point.repeats);
    repeats.map(|repeat| repeat.trace_hashes.clone()).collect()
}

#[test]
fn one_seed_issues_the_same_keys_on_every_engine_in_every_repeat() {
    for script in [SCRIPT, MIX] {
        let record = run(
            script,
            &[
                ("backend", "btree,skiplist,null"),
                ("threads", "3"),
                ("ops", "3000"),
                ("repeat", "2"),
            ],
        );
        let all = traces(&record);
        assert_eq!(all.len(), 6);
        assert_eq!(all[0].len(), 3);
        assert!(all.iter().all(|trace| *trace == all[0]), "{all:x?}");
        let threads: BTreeSet<u64> = all[0].iter().copied().collect();
        assert_eq!(threads.len(), 3, "threads draw from streams of their own");
    }
}

#[test]
fn a_threads_keys_do_not_depend_on_how_many_threads_there_are() {
    for script in [SCRIPT, MIX] {
        let of = |threads: &str, ops: &str| {
            traces(&run(script, &[("threads", threads), ("ops", ops)])).remove(0)
        };
        let (one, two, four) = (of("1", "1000"), of("2", "2000"), of("4", "4000"));
        assert_eq!(one[..], four[..1]);
        assert_eq!(two[..], four[..2]);
    }
}

#[test]
fn seeds_differ_and_no_thread_of_one_is_a_thread_of_another() {
    for script in [SCRIPT, MIX] {
        let mut all = BTreeSet::new();
        for seed in ["0", "1", "2", "3"] {
            all.extend(traces(&run(script, &[("seed", seed), ("threads", "4")]))[0].clone());
        }
        // With one unit for four threads, three issue nothing and share the empty trace.
        assert!(all.len() <= 5);
        let mut all = BTreeSet::new();
        for seed in ["0", "1", "2", "3"] {
            let pairs = [("seed", seed), ("threads", "4"), ("ops", "400")];
            all.extend(traces(&run(script, &pairs))[0].clone());
        }
        assert_eq!(all.len(), 16);
    }
}

#[test]
fn load_and_run_draw_from_different_streams() {
    let script = "
        local K, R = kb.uniform{n = 1 << 40}, kb.rng()
        local function draw(mark)
          for i = 1, 20 do kv.put(mark .. 'k' .. K(), 'v') end
          for i = 1, 20 do kv.put(mark .. 'r' .. R(1 << 50), 'v') end
          for i = 1, 20 do kv.put(mark .. 'm' .. math.random(1 << 50), 'v') end
        end
        return { name = 'w', load = function() draw('l') end, run = function() draw('r') end }";
    let rows = Bench::new(script).run_spied().1.remove(0);
    let of = |phase: u8| -> BTreeSet<Vec<u8>> {
        rows.iter().filter(|(key, _)| key[0] == phase).map(|(key, _)| key[1..].to_vec()).collect()
    };
    let (load, run) = (of(b'l'), of(b'r'));
    assert_eq!((load.len(), run.len()), (60, 60));
    assert_eq!(load.intersection(&run).count(), 0);
}

#[test]
fn no_trace_is_kept_unless_it_is_asked_for() {
    let record = Bench::new(SCRIPT).set(&[("ops", "10")]).run_clean();
    assert_eq!(traces(&record), [Vec::<u64>::new()]);
}
