//! Comparisons of runs made by hand, and golden renderings of one of them.
//!
//! With `KEYRACK_REWRITE=1` the files of `golden/` are written instead of compared.

pub(crate) mod sample;
pub(crate) mod shown;

use crate::*;
use keyrack_record::{Aftermath, Footprint, Run, SweepValue};
use sample::{around, closed, draw, open, run};

fn compared(base: &Run, new: &Run) -> Comparison {
    compare(base, new, &mut draw(7))
}

fn throughput<'a>(comparison: &'a Comparison, engine: &str) -> &'a Row {
    let mut rows = comparison.rows.iter();
    rows.find(|row| row.metric == Metric::OpsPerS && row.cell.engine == engine).unwrap()
}

/// Every kind of line at once: faster, slower, the same, an open loop, a swept cell; missing,
/// added and refused cells; warnings of each kind.
fn pair() -> (Run, Run) {
    let mut base = run(vec![
        closed("btree", 1, &around(100_000.0), 500),
        closed("skiplist", 1, &around(140_000.0), 400),
        closed("skiplist", 4, &around(300_000.0), 400),
        closed("redb", 1, &around(1_000.0), 900_000),
        closed("null", 1, &around(9_000_000.0), 20),
        open("skiplist", 2000.0, &around(1.0), 5_000),
    ]);
    let mut new = run(vec![
        closed("skiplist", 1, &around(99_000.0), 600),
        closed("btree", 1, &around(142_000.0), 300),
        closed("skiplist", 4, &around(300_300.0), 400),
        closed("redb", 1, &around(2_000.0), 500_000),
        open("skiplist", 2000.0, &around(1.0), 9_000),
        closed("fjall", 1, &around(50_000.0), 700),
    ]);
    for run in [&mut base, &mut new] {
        run.points[2].cell.sweep = Some(SweepValue { param: "a|b".to_owned(), value: 64 });
    }
    base.points[3].durability = "sync".to_owned();
    new.probes[0].fields[1].1 = "other cpu".to_owned();
    new.header.items = 5;
    new.header.workloads[0].sha256 = "ab".repeat(32);
    new.points[1].flags.push("data directory is in RAM".to_owned());
    (base, new)
}

/// Holds `found` against the file called `name`.
#[expect(clippy::disallowed_methods, reason = "golden files are the test's own")]
pub(crate) fn golden(name: &str, found: &[u8]) {
    let path = format!("{}/src/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("KEYRACK_REWRITE").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let wanted = std::fs::read(&path).unwrap_or_default();
    let lines = wanted.split(|b| *b == b'\n').zip(found.split(|b| *b == b'\n'));
    let line = lines.into_iter().position(|(a, b)| a != b).map(|line| line + 1);
    let shown = String::from_utf8_lossy(found);
    assert!(
        wanted == found,
        "{name} differs from line {line:?} on; KEYRACK_REWRITE=1 writes this:\n{shown}"
    );
}

#[test]
fn text() {
    let (base, new) = pair();
    golden("compare.txt", render_text(&compared(&base, &new)).as_bytes());
}

#[test]
fn markdown() {
    let (base, new) = pair();
    golden("markdown.txt", render_markdown(&compared(&base, &new)).as_bytes());
}

#[test]
fn text_of_single_repeats_asks_for_more() {
    let one = |rate| run(vec![closed("btree", 1, &[rate], 500)]);
    golden("unsure.txt", render_text(&compared(&one(100.0), &one(50.0))).as_bytes());
}

/// A run of three engines, of which one syncs: rates of neighbours differ by the same factor
/// although the machine drifts, and one repeat of one engine has not come to rest.
fn three_engines() -> Run {
    let mut run = run(vec![
        closed("flodb", 1, &[100.0, 200.0, 400.0], 500),
        closed("rocksdb", 1, &[50.0, 104.0, 192.0], 500),
        closed("redb", 1, &[1.0, 1.0, 1.0], 500),
        closed("flodb", 2, &[150.0, 300.0, 600.0], 500),
    ]);
    run.header.backends = vec!["flodb".to_owned(), "rocksdb".to_owned(), "redb".to_owned()];
    run.points[2].durability = "sync".to_owned();
    for (index, repeat) in run.points[1].repeats.iter_mut().enumerate() {
        repeat.aftermath = Some(Aftermath {
            settle_s: 0.5,
            is_settled: index > 0,
            cpu_s: 3.0 + index as f64,
            written_bytes: Some(2_000_000),
            disk_bytes: Some(3 << 20),
        });
        repeat.footprint = Some(Footprint {
            memory_bytes: Some((90 + index as u64) << 20),
            disk_bytes: Some(5 << 20),
            is_idle: true,
        });
    }
    run
}

#[test]
fn engines_of_one_run_are_compared_by_neighbouring_repeats() {
    let engines = compare_engines(&three_engines(), None).unwrap();
    golden("engines.txt", render_engines_text(&engines).as_bytes());
    golden("engines-markdown.txt", render_engines_markdown(&engines).as_bytes());
    let rocksdb = engines.rows.iter().find(|row| row.cell.engine == "rocksdb").unwrap();
    let rate = rocksdb.rate.unwrap();
    assert_eq!((rate.median, rate.low, rate.high), (0.5, 0.48, 0.52));
    // A thousand operations; the process spent one second on the base's and 3, 4, 5 on these.
    assert_eq!((rocksdb.cpu_us_per_op, rocksdb.cpu.unwrap().median), (Some(4000.0), 4.0));
    assert_eq!((rocksdb.written_per_op, rocksdb.disk_bytes), (Some(2000.0), Some(5242880.0)));
    assert_eq!(rocksdb.memory_bytes, Some(91.0 * 1048576.0));
    let redb = engines.rows.iter().find(|row| row.cell.engine == "redb").unwrap();
    assert_eq!((redb.rate, redb.cpu, redb.written_per_op), (None, None, None));
    assert!(engines.refused[0].reason.contains("durability sync, no other"), "{engines:?}");
    assert!(engines.warnings[0].contains("after 1 of 3 repeats"), "{engines:?}");
}

#[test]
fn any_engine_of_the_run_may_be_the_base() {
    let run = three_engines();
    let engines = compare_engines(&run, Some("rocksdb")).unwrap();
    let flodb = engines.rows.iter().find(|row| row.cell.engine == "flodb").unwrap();
    assert!((flodb.rate.unwrap().median - 2.0).abs() < 1e-9);
    // With two threads the base was not measured.
    assert!(engines.refused.iter().any(|refusal| refusal.cell.threads == 2), "{engines:?}");
    assert_eq!(compare_engines(&run, Some("leveldb")), None);
}

#[test]
fn differences_beyond_the_noise_have_a_direction() {
    let (base, new) = pair();
    let comparison = compared(&base, &new);
    let btree = throughput(&comparison, "btree");
    assert_eq!(btree.verdict, Verdict::Faster);
    assert!((btree.ratio - 1.42).abs() < 1e-9);
    let (low, high) = btree.interval.unwrap();
    assert!(1.38 < low && low < 1.42 && 1.42 < high && high < 1.47, "{low} {high}");
    assert!(btree.p.unwrap() < 0.05);
    assert_eq!(throughput(&comparison, "skiplist").verdict, Verdict::Slower);
}

/// Less is better for times: the same ratio means the opposite.
#[test]
fn a_higher_latency_is_slower() {
    let (base, new) = pair();
    let comparison = compared(&base, &new);
    let verdict = |engine: &str| {
        let metric = Metric::ServiceP99 { op: "get".to_owned() };
        let mut rows = comparison.rows.iter();
        rows.find(|row| row.metric == metric && row.cell.engine == engine).unwrap().verdict
    };
    assert_eq!(verdict("btree"), Verdict::Faster);
    assert_eq!(verdict("skiplist"), Verdict::Slower);
}

#[test]
fn a_run_equals_itself() {
    let (base, _) = pair();
    let comparison = compared(&base, &base);
    assert!(comparison.rows.iter().all(|row| row.verdict == Verdict::Same && row.ratio == 1.0));
    assert!(comparison.missing.is_empty() && comparison.added.is_empty());
    assert!(comparison.warnings.is_empty(), "{:?}", comparison.warnings);
    assert!(comparison.regressions(0.0).is_empty());
}

#[test]
fn regressions_are_significant_and_large_enough() {
    let (base, new) = pair();
    let comparison = compared(&base, &new);
    let named = |fail_on: f64| -> Vec<String> {
        let rows = comparison.regressions(fail_on);
        rows.iter().map(|row| format!("{} {}", row.cell, row.metric)).collect()
    };
    let throughput = "mixed skiplist t1 ops/s";
    let response = "paced skiplist t1 rate=2000 response p99";
    assert_eq!(named(0.05), [throughput, response]);
    // Throughput fell by 29 %, the response time rose by 80 %.
    assert_eq!(named(0.5), [response]);
    assert_eq!(named(0.9), [""; 0]);
}

/// In an open loop throughput is what was offered: only the response time can tell.
#[test]
fn an_open_loop_regresses_by_its_response_time() {
    let paced = |response_ns| run(vec![open("btree", 500.0, &around(1.0), response_ns)]);
    let comparison = compared(&paced(1_000), &paced(2_000));
    assert_eq!(throughput(&comparison, "btree").verdict, Verdict::Same);
    let regressions = comparison.regressions(0.1);
    assert_eq!(regressions.len(), 1);
    assert_eq!(regressions[0].metric, Metric::ResponseP99);
    assert!(compared(&paced(2_000), &paced(1_000)).regressions(0.1).is_empty());
}

/// The 99th percentile of one verb may be worse in a run that is better as a whole.
#[test]
fn the_latency_of_a_verb_never_gates() {
    let at = |p99_ns| run(vec![closed("btree", 1, &around(1000.0), p99_ns)]);
    let comparison = compared(&at(1_000), &at(100_000));
    assert!(comparison.rows.iter().any(|row| row.verdict == Verdict::Slower));
    assert!(comparison.regressions(0.0).is_empty());
}

#[test]
fn a_change_within_the_noise_is_no_regression() {
    let noisy = [80.0, 100.0, 120.0, 90.0, 110.0];
    let lower = noisy.map(|rate| rate * 0.93);
    let base = run(vec![closed("btree", 1, &noisy, 500)]);
    let new = run(vec![closed("btree", 1, &lower, 500)]);
    let comparison = compared(&base, &new);
    assert_eq!(throughput(&comparison, "btree").verdict, Verdict::Same);
    assert!(comparison.regressions(0.05).is_empty());
}

#[test]
fn one_repeat_is_unsure_and_never_a_regression() {
    let many = run(vec![closed("btree", 1, &around(100.0), 500)]);
    let one = run(vec![closed("btree", 1, &[1.0], 500)]);
    for (base, new) in [(&many, &one), (&one, &many), (&one, &one)] {
        let comparison = compared(base, new);
        assert!(comparison.rows.iter().all(|row| row.verdict == Verdict::Unsure));
        assert!(comparison.has_unsure());
        assert!(comparison.regressions(0.0).is_empty());
        assert!(render_text(&comparison).contains("--repeat"));
        assert!(render_markdown(&comparison).contains("--repeat"));
    }
}

#[test]
fn cells_are_matched_by_all_that_names_them() {
    let (base, new) = pair();
    let comparison = compared(&base, &new);
    let names = |cells: &[keyrack_record::Cell]| -> Vec<String> {
        cells.iter().map(ToString::to_string).collect()
    };
    assert_eq!(names(&comparison.missing), ["mixed null t1"]);
    assert_eq!(names(&comparison.added), ["mixed fjall t1"]);
    let mut other = base.clone();
    other.points[2].cell.sweep = Some(SweepValue { param: "a|b".to_owned(), value: 128 });
    other.points[5].cell.rate = Some(2001.0);
    let comparison = compared(&base, &other);
    assert_eq!((comparison.missing.len(), comparison.added.len()), (2, 2));
}

#[test]
fn a_cell_that_was_measured_twice_is_matched_in_order() {
    let twice =
        |rates: [f64; 2]| run(rates.map(|rate| closed("btree", 1, &around(rate), 500)).to_vec());
    let comparison = compared(&twice([100.0, 200.0]), &twice([100.0, 400.0]));
    let ratios: Vec<f64> = comparison
        .rows
        .iter()
        .filter(|row| row.metric == Metric::OpsPerS)
        .map(|row| row.ratio)
        .collect();
    assert_eq!(ratios, [1.0, 2.0]);
    let comparison = compared(&twice([1.0, 2.0]), &run(vec![closed("btree", 1, &[1.0], 500)]));
    assert_eq!(comparison.missing.len(), 1);
}

#[test]
fn unequal_durability_is_refused_in_words() {
    let (base, new) = pair();
    let comparison = compared(&base, &new);
    assert_eq!(comparison.refused.len(), 1);
    assert_eq!(comparison.refused[0].cell.engine, "redb");
    assert_eq!(comparison.refused[0].reason, "durability sync vs none");
    assert!(comparison.rows.iter().all(|row| row.cell.engine != "redb"));
}

#[test]
fn what_may_mislead_is_a_warning() {
    let (base, _) = pair();
    type Change = fn(&mut Run);
    let cases: [(Change, &str); 9] = [
        (
            |run| run.probes[0].fields[1].1 = "z80".to_owned(),
            "machine differs: cpu is 'c' vs 'z80'",
        ),
        (|run| run.probes[1].fields[0].1 = "debug".to_owned(), "build differs: std is"),
        (|run| run.header.items = 5, "work differs: items is '100000' vs '5'"),
        (|run| (run.header.secs, run.header.ops) = (Some(2.0), None), "secs is 'none' vs '2'"),
        (|run| run.header.seed = 9, "work differs: seed is '1' vs '9'"),
        (|run| run.header.params.clear(), "params is 'theta=0.99' vs 'none'"),
        (
            |run| run.header.workloads[0].sha256 = "cd".repeat(32),
            "script of mixed differs: mixed.lua is 0f0f0f0f0f0f vs mixed.lua is cdcdcdcdcdcd",
        ),
        (|run| run.points[0].flags.push("slow".to_owned()), "new mixed btree t1: slow"),
        (|run| run.interrupted = Some("SIGINT".to_owned()), "new was interrupted: SIGINT"),
    ];
    for (change, wanted) in cases {
        let mut new = base.clone();
        change(&mut new);
        let warnings = compared(&base, &new).warnings;
        assert!(warnings.iter().any(|warning| warning.contains(wanted)), "{wanted}: {warnings:?}");
    }
}

#[test]
fn what_the_machine_does_by_itself_is_no_warning() {
    let (base, _) = pair();
    let mut new = base.clone();
    new.probes[0].fields.push(("data_fs(/data)".to_owned(), "1 GiB free".to_owned()));
    new.points[0].engine_version = "btree 2".to_owned();
    assert!(compared(&base, &new).warnings.is_empty());
    new.probes.clear();
    assert!(compared(&base, &new).warnings.is_empty());
}

/// Such a cell had no row and no word said of it, as if it had not been asked for.
#[test]
fn a_rate_of_zero_has_no_row_and_is_said() {
    let base = run(vec![closed("btree", 1, &[2.0, 1.0], 500)]);
    let new = run(vec![closed("btree", 1, &[0.0, 1.0], 500)]);
    let comparison = compared(&base, &new);
    assert!(comparison.rows.iter().all(|row| row.metric != Metric::OpsPerS));
    let reasons: Vec<&str> = comparison.refused.iter().map(|r| r.reason.as_str()).collect();
    assert_eq!(reasons, ["ops/s: 1 of 2 repeats of new completed nothing"]);
    assert!(render_text(&comparison).contains(reasons[0]));
    assert!(render_markdown(&comparison).contains(reasons[0]));
}

#[test]
fn the_same_draws_give_the_same_bytes() {
    let twelve: Vec<f64> = (0..12).map(|i| 100.0 + f64::from(i * i)).collect();
    let runs = [&twelve, &around(90.0).repeat(3)].map(|rates| run(vec![closed("b", 1, rates, 9)]));
    let text = |seed| render_text(&compare(&runs[0], &runs[1], &mut draw(seed)));
    assert_eq!(text(3), text(3));
}

#[test]
fn names_cannot_break_a_line_or_a_table() {
    let mut base = run(vec![closed("btree", 1, &around(1000.0), 500)]);
    base.points[0].cell.workload = "a|b\n# c*".to_owned();
    let comparison = compared(&base, &base);
    assert_eq!(render_text(&comparison).lines().count(), 6);
    let markdown = render_markdown(&comparison);
    assert!(markdown.contains("| a\\|b # c\\* btree t1 |"), "{markdown}");
}

#[test]
fn texts_that_are_no_run_are_named() {
    let error = load("old/run.json", "{}").unwrap_err();
    assert!(error.to_string().starts_with("cannot read run 'old/run.json': not a recorded run"));
    let (mut base, _) = pair();
    assert_eq!(load("a", &base.to_json().unwrap()).unwrap().points.len(), base.points.len());
    base.points.clear();
    let error = load("a", &base.to_json().unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "run 'a' holds no measured cell");
}
