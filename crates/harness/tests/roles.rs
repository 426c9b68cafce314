//! Scripts that declare phases and roles: what runs when, on which threads, and what of it has
//! results.

use crate::support::{Bench, op};
use keyrack_record::{Point, Run};

/// The point of a phase, or of a role in it.
fn part<'r>(record: &'r Run, phase: &str, role: Option<&str>) -> &'r Point {
    let is_it = |point: &&Point| {
        point.cell.part.as_ref().is_some_and(|p| p.phase == phase && p.role.as_deref() == role)
    };
    let found = record.points.iter().find(is_it);
    found.unwrap_or_else(|| panic!("no {phase} {role:?}: {:?}", names(record)))
}

fn names(record: &Run) -> Vec<String> {
    record.points.iter().map(|point| point.cell.to_string()).collect()
}

/// One role that writes beside two that read.
const THREE: &str = "
local K = kb.keys { fmt = 'k%04d', n = 100 }
local V = kb.values { size = 10 }
local S = kb.sequential { fmt = 'k%04d', n = 100 }
return { name = 'w', load = { key = S, value = V },
  phases = {
    { name = 'fill', ops = 50, run = function(ctx, iter)
        assert(ctx.phase == 'fill' and ctx.role == nil and ctx.ops == 50)
        kv.put(string.format('f%d-%04d', ctx.thread, iter), 'v') end },
    { name = 'both', roles = {
        { name = 'writer', threads = 1, background = true,
            mix = { { op = 'put', key = K, value = V } } },
        { name = 'reader', threads = 2, ops = 4000, run = function(ctx)
            assert(ctx.phase == 'both' and ctx.role == 'reader' and ctx.threads == 2)
            kv.get(K) end } } },
    { name = 'scan', threads = 1, ops = 5, run = function() assert(kv.count('f', 'g') == 50) end },
  } }";

#[test]
fn phases_run_one_after_the_other_on_one_store_and_have_results_by_role() {
    let (record, stores) = Bench::new(THREE)
        .set(&[("threads", "2"), ("timeline", "0.05"), ("repeat", "2")])
        .run_spied();
    assert_eq!(
        names(&record),
        [
            "w spy t2 phase=fill workers=2",
            "w spy t2 phase=both workers=3",
            "w spy t2 phase=both role=writer workers=1",
            "w spy t2 phase=both role=reader workers=2",
            "w spy t2 phase=scan workers=1",
        ]
    );
    assert_eq!(stores.iter().map(Vec::len).collect::<Vec<_>>(), [150, 150]);
    for repeat in 0..2 {
        let of = |phase, role| &part(&record, phase, role).repeats[repeat];
        assert_eq!(of("fill", None).units, 50);
        let (all, writer, reader) =
            (of("both", None), of("both", Some("writer")), of("both", Some("reader")));
        assert_eq!((reader.units, op(reader, "get").calls, reader.ops.len()), (4000, 4000, 1));
        // The readers may be through before the writer has its first turn on a busy machine.
        assert_eq!(writer.ops.len(), usize::from(writer.units > 0));
        assert_eq!(all.units, writer.units + reader.units);
        if writer.units > 0 {
            assert_eq!(op(all, "put").service.count(), op(writer, "put").service.count());
        }
        // The writer went on until the readers were through.
        assert!(writer.started_s + writer.wall_s >= reader.started_s + reader.wall_s);
        assert_eq!(op(of("scan", None), "range").calls, 5);
        // What was loaded belongs to the first phase.
        assert_eq!(of("fill", None).load.as_ref().map(|load| load.keys), Some(100));
        assert!(all.load.is_none() && reader.load.is_none());
    }
}

#[test]
fn a_role_with_a_rate_is_an_open_loop_beside_closed_ones() {
    let record = Bench::new(
        "return { name = 'w', phases = { { name = 'p', secs = 0.2, roles = {
            { name = 'paced', threads = 2, rate = 500, run = function() kv.put('a', 'b') end },
            { name = 'free', threads = 1, run = function() kv.get('a') end } } } } }",
    )
    .run_clean();
    let paced = part(&record, "p", Some("paced"));
    assert_eq!(paced.cell.rate, Some(500.0));
    let unit = paced.repeats[0].unit.as_ref().unwrap();
    // As many as the schedule has, whatever the machine made of them.
    assert_eq!((unit.due, unit.response.count()), (100, 100));
    let free = part(&record, "p", Some("free"));
    assert!(free.cell.rate.is_none() && free.repeats[0].unit.is_none());
    assert!(part(&record, "p", None).repeats[0].unit.is_none());
}

#[test]
fn streams_of_phases_and_roles_are_their_own_and_the_same_for_every_engine() {
    let script = "
        local function draw() kv.put('k' .. math.random(1000000), 'v') end
        return { name = 'w', phases = {
          { name = 'a', ops = 20, run = draw }, { name = 'b', ops = 20, run = draw },
          { name = 'c', ops = 20, roles = {
              { name = 'x', run = draw }, { name = 'y', run = draw } } } } }";
    let record =
        Bench::new(script).set(&[("backend", "btree,skiplist"), ("trace-hash", "yes")]).run_clean();
    let hashes = |engine: &str| -> Vec<u64> {
        let mine = record.points.iter().filter(|point| point.cell.engine == engine);
        mine.filter(|p| p.cell.to_string().contains("workers=1"))
            .flat_map(|point| point.repeats[0].trace_hashes.clone())
            .collect()
    };
    let of_btree = hashes("btree");
    assert_eq!(of_btree, hashes("skiplist"));
    let mut distinct = of_btree.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!((of_btree.len(), distinct.len()), (4, 4));
}

#[test]
fn a_script_that_says_all_threads_has_one_cell_whatever_the_grid() {
    let script = "return { name = 'w', phases = { { name = 'p', threads = 3, ops = 9,
        run = function(ctx) kv.put('k' .. ctx.thread, 'v') end } } }";
    let bench = Bench::new(script).set(&[("threads", "1,2")]);
    assert!(bench.plan().unwrap().notes.iter().any(|note| note.contains("--threads is not used")));
    let record = bench.run_clean();
    assert_eq!(names(&record), ["w btree t3 phase=p workers=3"]);
    let open = "return { name = 'w', phases = { { name = 'p', ops = 4,
        run = function() kv.get('k') end } } }";
    let record = Bench::new(open).set(&[("threads", "1,2")]).run_clean();
    assert_eq!(names(&record), ["w btree t1 phase=p workers=1", "w btree t2 phase=p workers=2"]);
}

#[test]
fn warm_up_is_a_phases_own() {
    let bench = Bench::new(
        "return { name = 'w', phases = {
           { name = 'cold', ops = 5, run = function(_, i) if i == 1 then print('cold') end end },
           { name = 'warm', ops = 5, warmup = 0.02,
             run = function(_, i) if i == 1 then print('warm') end end } } }",
    );
    let record = bench.run_clean();
    assert_eq!(bench.lines(), ["cold", "warm", "warm"]);
    assert_eq!(part(&record, "warm", None).repeats[0].units, 5);
    assert!((part(&record, "warm", None).repeats[0].warmup_s - 0.02).abs() < 1e-9);
}

#[test]
fn a_failure_in_one_role_ends_the_others_and_is_that_of_the_cell() {
    let failure = Bench::new(
        "return { name = 'w', phases = { { name = 'p', roles = {
           { name = 'bad', ops = 1, run = function() error('on purpose') end },
           { name = 'beside', background = true, run = function() kv.get('k') end } } } } }",
    )
    .run_failing();
    assert!(failure.reason.contains("on purpose"), "{}", failure.reason);
}

#[test]
fn a_stop_reports_the_phases_that_were_reached() {
    let record = Bench::new(
        "return { name = 'w', phases = {
           { name = 'a', ops = 10, run = function() kv.get('k') end },
           { name = 'b', secs = 30, run = function(_, i) if i == 5 then print('now') end end },
           { name = 'c', ops = 10, run = function() error('was reached') end } } }",
    )
    .stop_when_printed("now", "enough")
    .run_clean();
    let phases: Vec<&str> =
        record.points.iter().map(|p| p.cell.part.as_ref().unwrap().phase.as_str()).collect();
    assert_eq!(phases, ["a", "b"]);
    assert!(record.points.iter().all(|point| point.flags[0].starts_with("PARTIAL")));
}

#[test]
fn reports_tell_phases_and_roles_apart() {
    let bench = Bench::new(THREE).set(&[
        ("report", "console,tsv:/p.tsv,timeline:/t.tsv,json:/r.json,hdr:/h.hlog"),
        ("timeline", "0.01"),
    ]);
    let (record, console) = bench.run_outputs();
    let record = record.unwrap();
    assert!(console.contains("phase=both  role=writer  workers=1"), "{console}");
    let row = |line: &&str| line.starts_with("btree") && line.contains(" both ");
    assert_eq!(console.lines().filter(row).count(), 3, "{console}");
    let read =
        |path: &str| String::from_utf8(bench.fs.read(std::path::Path::new(path)).unwrap()).unwrap();
    let points = read("/p.tsv");
    let head: Vec<&str> = points.lines().next().unwrap().split('\t').collect();
    let place = ["script_phase", "role", "workers"]
        .map(|name| head.iter().position(|column| *column == name).unwrap());
    let of_reader = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        place.map(|at| fields[at]) == ["both", "reader", "2"]
    };
    assert!(points.lines().any(of_reader), "{points}");
    let timeline = read("/t.tsv");
    assert!(timeline.lines().next().unwrap().ends_with("\tscript_phase\trole"));
    assert!(timeline.lines().any(|line| line.ends_with("\tboth\twriter")), "{timeline}");
    // The machine is that of the whole phase.
    let of_role = |line: &&str| line.ends_with("\twriter") && line.contains("\tthreads\t");
    assert_eq!(timeline.lines().filter(of_role).count(), 0);
    assert!(read("/h.hlog").contains("/t1/both/reader/get"), "{}", read("/h.hlog"));
    let again = Run::from_json(&read("/r.json")).unwrap();
    assert_eq!(names(&again), names(&record));
}

#[test]
fn declarations_that_do_not_hold_are_refused_with_field_and_remedy() {
    let run = "run = function() end";
    let refusal = |phases: &str| {
        let script = format!("return {{ name = 'w', phases = {phases} }}");
        Bench::new(&script).refusal()
    };
    for (phases, words) in [
        ("{}".to_owned(), "phases: 1 to 64 phases can be declared, there are 0"),
        ("3".to_owned(), "phases: must be a list of tables"),
        (format!("{{ {{ {run} }} }}"), "phase 1: it needs name = \"text\""),
        (format!("{{ {{ name = 'a', {run} }}, {{ name = 'a', {run} }} }}"), "stands twice"),
        (
            format!("{{ {{ name = 'a', {run} }}, nil, {{ name = 'b', {run} }} }}"),
            "phase 2 is nil, and what follows it would never run",
        ),
        ("{ { name = 'a' } }".to_owned(), "phase 'a': it needs run = function or mix = table"),
        (format!("{{ {{ name = 'a', sec = 3, {run} }} }}"), "did you mean 'secs'?"),
        (format!("{{ {{ name = 'a', ops = 3, secs = 1, {run} }} }}"), "ops and secs contradict"),
        (format!("{{ {{ name = 'a', ops = 0, {run} }} }}"), "ops must be 1 to"),
        (format!("{{ {{ name = 'a', threads = 1.5, {run} }} }}"), "threads must be a whole number"),
        (format!("{{ {{ name = 'a', rate = 'x', {run} }} }}"), "rate must be a number, it is 'x'"),
        (format!("{{ {{ name = 'a', arrivals = 'poisson', {run} }} }}"), "arrivals needs rate"),
        (format!("{{ {{ name = 'a', background = true, {run} }} }}"), "unknown field 'background'"),
        (
            format!("{{ {{ name = 'a', rate = 5, roles = {{ {{ name = 'r', {run} }} }} }} }}"),
            "phase 'a': rate belongs into each of its roles",
        ),
        (
            format!(
                "{{ {{ name = 'a', roles = {{ {{ name = 'r', background = true, {run} }} }} }} }}"
            ),
            "every role is in the background",
        ),
        (
            format!(
                "{{ {{ name = 'a', roles = {{ {{ name = 'r', background = true, ops = 3, {run} }},
                   {{ name = 's', {run} }} }} }} }}"
            ),
            "role 'r': background = true ends with the other roles",
        ),
        (
            "{ { name = 'a', roles = { { name = 'r', mix = { { op = 'get' } } } } } }".to_owned(),
            "phase 'a': role 'r': mix: entry 1: every entry needs key",
        ),
    ] {
        let line = refusal(&phases);
        assert!(line.contains(words), "{phases}: {line}");
        assert!(line.starts_with("/w.lua: phase"), "{line}");
    }
    let both = Bench::new(&format!("return {{ {run}, phases = {{ {{ name = 'a', {run} }} }} }}"));
    assert!(both.refusal().contains("not beside them"));
    for key in ["rate", "rate-search", "record"] {
        let value = if key == "rate-search" { "p99<1ms" } else { "100" };
        let script = format!("return {{ phases = {{ {{ name = 'a', {run} }} }} }}");
        let line = Bench::new(&script).set(&[("secs", "1"), (key, value)]).refusal();
        assert!(line.contains(&format!("--{key} is not for phases")), "{line}");
    }
}

/// The sample runs as it is, with less of everything.
#[test]
fn the_sample_of_readers_beside_a_writer_runs() {
    let script = include_str!("../../../samples/readwhilewriting.lua");
    let record = Bench::new(script)
        .set(&[("param", "num=500"), ("param", "readers=3"), ("param", "write_rate=2000")])
        .run_clean();
    let all: Vec<u64> = record.points.iter().map(|point| point.repeats[0].units).collect();
    let writer = part(&record, "run", Some("writer"));
    assert_eq!(writer.cell.rate, Some(2000.0));
    assert_eq!(part(&record, "run", Some("reader")).repeats[0].units, 1500);
    assert_eq!((all[0], all[1], all[5]), (500, 50, 5), "{:?}", names(&record));
    // Every key was put, so every lookup finds its own.
    let reads = op(&part(&record, "run", Some("reader")).repeats[0], "get");
    assert_eq!((reads.hits, reads.misses), (1500, 0));
}
