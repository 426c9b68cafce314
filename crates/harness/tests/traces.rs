//! Recording a run and running the recording: the same operations, the same store at the end.

use crate::support::{Bench, Rows, kept, new_id, only, op, repeat};
use keyrack_record::Run;
use keyrack_trace::{Format, Record, Trace, Which};
use keyrack_vfs::{Fs, MemFs};
use std::path::Path;

const TRACE: &str = "/t.trace";

/// Two threads with keys of their own: a load in batches, then every verb but the synced put.
const SCRIPT: &str = r#"
local function key(t, i) return string.format("k:%d:%05d", t, i) end
return {
  name = "w",
  load = function(ctx)
    for i = 1, 200, 10 do
      local pairs = {}
      for j = i, i + 9 do
        pairs[#pairs + 1] = { key = key(ctx.thread, j), val = string.rep("v", j) }
      end
      kv.mput(pairs)
    end
  end,
  run = function(ctx, iter)
    local random, mine = math.random, function() return key(ctx.thread, math.random(250)) end
    local roll = random(8)
    if roll == 1 then kv.put(mine(), string.rep("x", random(0, 300)))
    elseif roll == 2 then kv.get(mine())
    elseif roll == 3 then kv.del(mine())
    elseif roll == 4 then kv.rmw(mine(), string.rep("y", random(0, 50)))
    elseif roll == 5 then kv.range(mine(), key(ctx.thread, 99999), random(20))
    elseif roll == 6 then
      kv.scan(mine(), key(ctx.thread, 99999), function() return random(3) == 1 end)
    elseif roll == 7 then kv.mget({ mine(), mine() })
    else kv.mdel({ mine() }) end
  end,
}"#;

/// A run that is recorded, the trace, and what its store held at the end.
fn recorded() -> (Run, Vec<u8>, Rows) {
    let id = new_id();
    let bench = Bench::new(SCRIPT).engine("spy", &[("id", &id)]).set(&[
        ("backend", "spy"),
        ("threads", "2"),
        ("ops", "1500"),
        ("record", TRACE),
    ]);
    let run = bench.run_clean();
    let rows = kept(&id).remove(0);
    (run, bench.mem.read(Path::new(TRACE)).unwrap(), rows)
}

/// A bench over a file that is replayed.
fn replay(bytes: &[u8]) -> Bench {
    let mut bench = Bench::new("return {}").file(TRACE, bytes);
    bench.settings.workloads.clear();
    (bench.settings.bounded, bench.settings.threads) = (false, vec![1]);
    bench.set(&[("replay", TRACE)])
}

fn replayed(bytes: &[u8], pairs: &[(&str, &str)]) -> (Run, Rows) {
    let id = new_id();
    let bench = replay(bytes).engine("spy", &[("id", &id)]).set(&[("backend", "spy")]).set(pairs);
    let run = bench.run_clean();
    (run, kept(&id).remove(0))
}

fn sizes(rows: &Rows) -> Vec<(&[u8], usize)> {
    rows.iter().map(|(key, value)| (&key[..], value.len())).collect()
}

#[test]
fn a_replay_issues_the_recorded_calls_and_leaves_the_same_store() {
    let (before, trace, rows) = recorded();
    let note = &only(&before).notes;
    assert!(note.iter().any(|note| note.starts_with("recorded 1540 operations in ")), "{note:?}");
    let (after, again) = replayed(&trace, &[]);
    assert_eq!(sizes(&rows), sizes(&again));
    assert_eq!(only(&after).cell.threads, 2);
    assert_eq!(only(&after).cell.workload, "replay t.trace");
    assert_eq!(repeat(&before).units, repeat(&after).units);
    for verb in ["put", "get", "del", "rmw", "range", "mget", "mdel"] {
        let (before, after) = (op(repeat(&before), verb), op(repeat(&after), verb));
        let seen = |op: &keyrack_record::OpStats| (op.calls, op.prim_ops, op.hits, op.misses);
        assert_eq!(seen(before), seen(after), "{verb}");
    }
    let notes = &only(&after).notes;
    assert!(
        notes.iter().any(|note| note.contains("results compared, all as recorded")),
        "{notes:?}"
    );
    // What the first run asked of its store in bytes, the second does too.
    let traffic = |run: &Run| repeat(run).traffic;
    assert_eq!(traffic(&before), traffic(&after));
}

#[test]
fn values_of_a_replay_do_not_depend_on_engine_or_threads() {
    let (_, trace, _) = recorded();
    let (_, two) = replayed(&trace, &[]);
    let (run, one) = replayed(&trace, &[("threads", "1")]);
    assert!(two == one, "values differ with the number of threads");
    assert_eq!(repeat(&run).units, 1500);
    let share = ("param", "compress=0.3");
    let (_, third) = replayed(&trace, &[share]);
    let (_, other) = replayed(&trace, &[share, ("seed", "2")]);
    assert_eq!(sizes(&third), sizes(&other));
    assert!(third != other && third != two, "one seed's values, or one share's, are another's");
    // All that was recorded were runs of one byte, and so are these.
    let value = two.iter().map(|(_, value)| value).max_by_key(|value| value.len()).unwrap();
    let first = value[0];
    let run = value.iter().filter(|byte| **byte == first).count();
    assert!(run * 10 > value.len() * 8, "{run} of {}", value.len());
    // A replay may be recorded in its turn.
    let bench = replay(&trace).set(&[("record", "/u.trace"), ("threads", "1")]);
    bench.run_clean();
    let (_, copy) = replayed(&bench.mem.read(Path::new("/u.trace")).unwrap(), &[]);
    assert_eq!(sizes(&copy), sizes(&one));
}

#[test]
fn a_replay_at_recorded_times_is_an_open_loop() {
    let (_, trace, rows) = recorded();
    let (run, again) = replayed(&trace, &[("speed", "0.5")]);
    assert_eq!(sizes(&rows), sizes(&again));
    let unit = repeat(&run).unit.as_ref().unwrap();
    assert_eq!((unit.due, unit.backlog_end), (1500, 0));
    assert_eq!((unit.response.count(), unit.service.count()), (1500, 1500));
    // Half as fast as recorded: the last call does not begin before twice its time is over.
    let times = recorded_times(&trace);
    let (first, last) = (times.iter().min().unwrap(), times.iter().max().unwrap());
    let least_s = 2.0 * (last - first) as f64 / 1e9;
    assert!(repeat(&run).wall_s >= least_s, "{} {least_s}", repeat(&run).wall_s);
}

/// When the calls of the timed part began, in nanoseconds.
fn recorded_times(trace: &[u8]) -> Vec<u64> {
    let disk = MemFs::new();
    disk.write_atomic(Path::new(TRACE), trace).unwrap();
    let which = Which { timed: true, thread: None };
    let mut trace = Trace::open(&disk, Path::new(TRACE), Format::Keyrack, which).unwrap();
    let (mut record, mut times) = (Record::default(), Vec::new());
    while trace.next(&mut record).unwrap() {
        times.push(record.at_ns);
    }
    times
}

#[test]
fn a_count_takes_the_beginning_of_each_thread() {
    let (_, trace, _) = recorded();
    let (run, _) = replayed(&trace, &[("ops", "100")]);
    assert_eq!(repeat(&run).units, 100);
}

#[test]
fn traces_of_others_run_on_any_number_of_threads() {
    let mut text = String::from("key,op,size,op_count,key_size\n");
    for i in 0..300 {
        text += &format!("{},SET,{},1,12\n{},GET,0,2,12\n", 1000 + i % 50, i, 1000 + i % 70);
    }
    let (one, expected) = replayed(text.as_bytes(), &[]);
    assert_eq!(op(repeat(&one), "get").calls, 600);
    let (three, rows) = replayed(text.as_bytes(), &[("threads", "3"), ("format", "cachelib")]);
    assert_eq!(repeat(&three).units, 900);
    assert_eq!(sizes(&rows), sizes(&expected));
    assert_eq!(rows.iter().map(|(key, _)| key.len()).collect::<Vec<_>>(), [12; 50]);
    // Column families keep apart what has one key.
    let text = "0x6b 1 0 10 1\n0x6b 1 3 20 2\n0x6b 6 3 0 3\n0x6b 2 0 0 4\n";
    let (run, rows) = replayed(text.as_bytes(), &[]);
    assert_eq!(sizes(&rows), [(&b"\xff\0\0\0\x03k"[..], 20)]);
    assert_eq!(op(repeat(&run), "range").calls, 1);
}

#[test]
fn what_cannot_be_replayed_is_refused_before_the_run() {
    let (_, trace, _) = recorded();
    let table: &[(&[u8], &[(&str, &str)], &str)] = &[
        (&trace, &[("threads", "3")], "the trace is of 2"),
        (&trace, &[("workload", "ycsb/a")], "leave ycsb/a out"),
        (&trace, &[("rate", "10")], "say --speed X"),
        (&trace, &[("param", "compress=2")], "compress=2"),
        (&trace[..trace.len() - 1], &[], "cut short"),
        (b"17,SET,1,1,1\n", &[], "say --format"),
        (b"key,op,size,op_count,key_size\n1,SET,1\n", &[], "/t.trace:2: 3 columns, expected 5"),
        (b"0x6b 1 0 10 1\n0x6b 1 0\n", &[], "/t.trace:2: expected 0xKEY"),
        (b"key,op,size,op_count,key_size\n1,SET,1,1,1\n", &[("speed", "1")], "no times"),
    ];
    for (bytes, pairs, why) in table {
        let refusal = replay(bytes).set(pairs).refusal();
        assert!(refusal.contains(why), "{refusal}");
    }
    let refusal = Bench::unit("kv.get('a')").set(&[("speed", "2")]).refusal();
    assert!(refusal.contains("--speed is of --replay"), "{refusal}");
}

#[test]
fn a_trace_is_of_one_measurement() {
    for (key, value) in [("threads", "1,2"), ("repeat", "2"), ("backend", "btree,spy")] {
        let bench = Bench::unit("kv.get('a')").set(&[("record", TRACE), (key, value)]);
        let refusal = bench.refusal();
        assert!(refusal.contains("a trace is of one measurement"), "{refusal}");
        assert!(refusal.contains(&format!("--{key}")), "{refusal}");
    }
}

#[test]
fn a_replay_file_names_its_trace() {
    let (_, trace, _) = recorded();
    let bench = replay(&trace).set(&[("speed", "2"), ("format", "keyrack")]);
    let text = keyrack_harness::render_replay(&bench.plan().unwrap());
    let mut settings = keyrack_harness::Settings::default();
    keyrack_harness::apply_config(&mut settings, "replay.cnf", &text).unwrap();
    assert_eq!(settings.replay.as_deref(), Some(Path::new(TRACE)));
    assert_eq!((settings.speed, settings.threads), (Some(2.0), vec![2]));
    assert!(settings.workloads.is_empty() && settings.rate.is_empty());
}
