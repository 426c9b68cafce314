//! What the record promises to every rendering of it.

mod sample;
mod schema;

use crate::*;
use keyrack_measure::Histogram;
use sample::{draw, histogram, op, point, repeat, run, unit};

#[test]
fn a_run_reads_back_as_it_was_written() {
    let run = run();
    let text = run.to_json().unwrap();
    let back = Run::from_json(&text).unwrap();
    assert_eq!(back.to_json().unwrap(), text);
    assert_eq!(back.points[0].cell, run.points[0].cell);
    let (before, after) = (&run.points[0].repeats[0], &back.points[0].repeats[0]);
    assert_eq!(after.trace_hashes, before.trace_hashes);
    let percentile = |h: &Histogram, p| h.percentile(p).unwrap();
    let (before, after) = (&before.ops[0].service, &after.ops[0].service);
    for p in [0.1, 50.0, 90.0, 99.0] {
        assert_eq!(percentile(after, p), percentile(before, p), "{p}");
    }
    // The largest value travels with three digits; the summary keeps it exactly.
    assert!(percentile(after, 100.0).abs_diff(percentile(before, 100.0)) <= 249_001 / 1024);
    assert_eq!(back.points[0].summary.ops[0].max_ns, (100 + 499 * 499) as f64);
    assert_eq!(after.count(), before.count());
    assert!(text.ends_with("}\n"));
}

/// Doubles that a hasty parser would round to a neighbour.
#[test]
fn rates_survive_to_the_last_bit() {
    let mut run = run();
    for rate in [0.1 + 0.2, 1.0 / 3.0, 98_039.215_686_274_5, 5e-324, f64::MAX] {
        run.points[0].repeats[0].wu_per_s = rate;
        let back = Run::from_json(&run.to_json().unwrap()).unwrap();
        assert_eq!(back.points[0].repeats[0].wu_per_s.to_bits(), rate.to_bits());
    }
}

#[test]
fn a_trace_hash_is_text_in_json() {
    let mut run = run();
    run.points[0].repeats[0].trace_hashes = vec![u64::MAX - 1];
    let text = run.to_json().unwrap();
    assert!(text.contains(r#""fffffffffffffffe""#));
    let back = Run::from_json(&text).unwrap();
    assert_eq!(back.points[0].repeats[0].trace_hashes, [u64::MAX - 1]);
    for bad in ["", "fff", "+ffffffffffffffe", "gfffffffffffffff", "0fffffffffffffffe"] {
        let text = text.replace("fffffffffffffffe", bad);
        assert!(matches!(Run::from_json(&text), Err(Error::Malformed(_))), "{bad}");
    }
}

#[test]
fn a_newer_file_is_called_newer_and_not_malformed() {
    let error = Run::from_json(r#"{"schema": 2, "everything": "else"}"#).unwrap_err();
    assert!(matches!(error, Error::Schema { found: 2 }));
    assert_eq!(error.to_string(), "recorded with schema 2, this program reads schema 1");
}

#[test]
fn what_is_not_a_run_is_malformed() {
    let whole = run().to_json().unwrap();
    let cut = &whole[..whole.len() / 2];
    for text in ["", "{", "[]", "{}", r#"{"schema": 1}"#, r#"{"schema": "1"}"#, cut] {
        assert!(matches!(Run::from_json(text), Err(Error::Malformed(_))), "{text}");
    }
}

#[test]
fn a_broken_histogram_is_malformed() {
    let mut value: serde_json::Value = serde_json::from_str(&run().to_json().unwrap()).unwrap();
    for text in ["", "HISTFAAA", "not base64 at all"] {
        value["points"][0]["repeats"][0]["ops"][0]["service"] = text.into();
        let error = Run::from_json(&value.to_string()).unwrap_err();
        assert!(matches!(error, Error::Malformed(_)), "{text}");
    }
}

#[test]
fn unknown_fields_are_passed_over() {
    let text = run().to_json().unwrap().replacen('{', r#"{"colour": [1, {"x": null}],"#, 1);
    assert!(Run::from_json(&text).is_ok());
}

#[test]
fn a_number_that_is_none_is_refused_by_name() {
    type Spoil = fn(&mut Run, f64);
    let spoilers: [(&str, &str, Spoil); 12] = [
        ("warmup", "the header", |r, x| r.header.warmup = x),
        ("secs", "the header", |r, x| r.header.secs = Some(x)),
        ("rate", "mixed btree t1", |r, x| r.failures[0].cell.rate = Some(x)),
        ("wall_s", "mixed skiplist t2", |r, x| r.points[0].repeats[1].wall_s = x),
        ("wall_s", "mixed skiplist t2", |r, x| {
            r.points[0].repeats[0].load.as_mut().unwrap().wall_s = x;
        }),
        ("achieved_per_s", "mixed skiplist t2", |r, x| {
            r.points[0].repeats[0].unit.as_mut().unwrap().achieved_per_s = x;
        }),
        ("ops_per_s", "mixed skiplist t2", |r, x| r.points[0].summary.ops_per_s.low = x),
        ("wu_per_s", "mixed skiplist t2", |r, x| {
            r.points[0].summary.wu_per_s.interval = Some((0.0, x));
        }),
        ("p99_ns", "mixed skiplist t2", |r, x| r.points[0].summary.p99_ns = x),
        ("hit_rate", "mixed skiplist t2", |r, x| r.points[0].summary.ops[0].hit_rate = Some(x)),
        ("response_ns", "mixed skiplist t2", |r, x| {
            r.points[0].summary.response_ns = Some([0.0, 0.0, 0.0, x]);
        }),
        ("unit_service_ns", "mixed skiplist t2", |r, x| {
            r.points[0].summary.unit_service_ns = Some([x, 0.0, 0.0, 0.0]);
        }),
    ];
    for (wanted, where_, spoil) in spoilers {
        for x in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut run = run();
            spoil(&mut run, x);
            match run.to_json() {
                Err(Error::NotFinite { place, field, .. }) => {
                    assert_eq!(field, wanted);
                    assert!(place.starts_with(where_), "{place}");
                }
                other => panic!("{wanted}: {other:?}"),
            }
        }
    }
}

/// Every floating-point number of the JSON form is looked at.
#[test]
fn no_number_escapes_the_check() {
    fn count(value: &serde_json::Value) -> usize {
        match value {
            serde_json::Value::Number(number) => usize::from(number.is_f64()),
            serde_json::Value::Array(items) => items.iter().map(count).sum(),
            serde_json::Value::Object(fields) => fields.values().map(count).sum(),
            _ => 0,
        }
    }
    let run = run();
    let value = serde_json::to_value(&run).unwrap();
    assert_eq!(count(&value), run.numbers().iter().map(|(_, fields)| fields.len()).sum::<usize>());
}

#[test]
fn statistics_are_medians_of_their_own() {
    let repeats =
        [repeat(1, &[10, 20, 30], 100.0), repeat(2, &[70, 80, 90], 400.0), repeat(3, &[40], 200.0)];
    let summary = Summary::of(&repeats, &mut draw(1));
    assert_eq!(summary.wu_per_s.median, 200.0);
    assert_eq!((summary.wu_per_s.low, summary.wu_per_s.high), (100.0, 400.0));
    let (low, high) = summary.wu_per_s.interval.unwrap();
    assert!(low <= 200.0 && 200.0 <= high && low < high);
    let get = &summary.ops[0];
    assert_eq!((get.p50_ns, get.p99_ns, get.max_ns), (40.0, 40.0, 40.0));
    assert_eq!(get.calls, 3);
}

#[test]
fn an_even_number_of_repeats_takes_the_middle_two() {
    let repeats = [repeat(1, &[10], 100.0), repeat(2, &[20], 300.0)];
    let summary = Summary::of(&repeats, &mut draw(1));
    assert_eq!(summary.ops_per_s.median, 200.0);
    assert_eq!(summary.ops[0].p50_ns, 15.0);
}

#[test]
fn one_repeat_has_no_interval() {
    let summary = Summary::of(&[repeat(1, &[10], 100.0)], &mut draw(1));
    assert_eq!(summary.wu_per_s.interval, None);
    assert_eq!(summary.ops_per_s.interval, None);
}

#[test]
fn no_repeat_at_all_is_zeros() {
    let summary = Summary::of(&[], &mut draw(1));
    assert_eq!(summary.wu_per_s.median, 0.0);
    assert!(summary.ops.is_empty());
    assert_eq!(summary.response_ns, None);
}

#[test]
fn the_same_draws_give_the_same_intervals() {
    let repeats: Vec<Repeat> = (1..=12).map(|i| repeat(i, &[10], 100.0 + f64::from(i))).collect();
    let interval = |seed| Summary::of(&repeats, &mut draw(seed)).wu_per_s.interval;
    assert_eq!(interval(3), interval(3));
}

/// A verb that one repeat never called is judged by those that did.
#[test]
fn a_verb_is_reduced_over_the_repeats_that_used_it() {
    let mut second = repeat(2, &[50], 1.0);
    second.ops.insert(0, op("del", &[9, 9, 9]));
    let summary = Summary::of(&[repeat(1, &[30], 1.0), second], &mut draw(1));
    let names: Vec<&str> = summary.ops.iter().map(|op| op.op.as_str()).collect();
    assert_eq!(names, ["get", "del"]);
    assert_eq!((summary.ops[1].calls, summary.ops[1].p50_ns), (3, 9.0));
    assert_eq!(summary.ops[0].p50_ns, 40.0);
}

/// A label of `kb.time` spans verbs: merged with them it would count their time twice.
#[test]
fn labels_are_reported_and_not_merged() {
    let mut one = repeat(1, &[10, 10, 10], 1.0);
    one.ops.push(op("checkout", &[1000, 1000, 1000, 1000, 1000]));
    let summary = Summary::of(&[one], &mut draw(1));
    assert_eq!((summary.p50_ns, summary.p99_ns), (10.0, 10.0));
    assert_eq!(summary.ops[1].op, "checkout");
    assert_eq!(summary.ops[1].p50_ns, 1000.0);
}

#[test]
fn hit_and_error_rates_are_shares() {
    let mut one = repeat(1, &[10, 10, 10, 10], 1.0);
    (one.ops[0].hits, one.ops[0].misses, one.ops[0].errors) = (3, 1, 1);
    one.ops.push(op("put", &[10]));
    let summary = Summary::of(&[one], &mut draw(1));
    assert_eq!((summary.ops[0].hit_rate, summary.ops[0].error_rate), (Some(0.75), 0.25));
    assert_eq!((summary.ops[1].hit_rate, summary.ops[1].error_rate), (None, 0.0));
}

#[test]
fn cpu_is_per_unit_even_without_units() {
    let mut one = repeat(1, &[10], 1.0);
    (one.cpu_s, one.units) = (2.0, 1_000_000);
    assert_eq!(Summary::of(&[one.clone()], &mut draw(1)).cpu_us_per_unit, 2.0);
    one.units = 0;
    assert!(Summary::of(&[one], &mut draw(1)).cpu_us_per_unit.is_finite());
}

#[test]
fn an_open_loop_is_told_by_its_worst_repeat() {
    let mut repeats = vec![repeat(1, &[10], 1.0), repeat(2, &[10], 1.0), repeat(3, &[10], 1.0)];
    for (repeat, achieved) in repeats.iter_mut().zip([1000.0, 980.0, 995.0]) {
        let mut one = unit(1000.0, achieved, &[100, 200, 300]);
        one.due = if achieved < 990.0 { 6 } else { 3 };
        repeat.unit = Some(one);
    }
    let point = point(repeats);
    let open = point.open_loop().unwrap();
    assert_eq!((open.offered_per_s, open.achieved_per_s), (1000.0, 995.0));
    assert_eq!((open.missed, open.worst_per_s, open.units), (1, 980.0, 3));
    assert_eq!(open.missed_text().unwrap(), "RATE MISSED: offered 1000, achieved 980");
    assert_eq!(point.summary.response_ns, Some([200.0, 300.0, 300.0, 300.0]));
}

#[test]
fn ninety_nine_in_a_hundred_keep_up_with_the_schedule() {
    let served = |served: usize, due| {
        let mut one = unit(1000.0, 1000.0, &vec![1; served]);
        one.due = due;
        one
    };
    assert!(!served(990, 1000).missed());
    assert!(served(989, 1000).missed());
    // One unit a thread may be due and not yet started when a short phase ends.
    assert!(!served(3, 5).missed());
    assert!(served(3, 6).missed());
    let mut one = repeat(1, &[1], 1.0);
    one.unit = Some(served(990, 1000));
    assert_eq!(point(vec![one]).open_loop().unwrap().missed_text(), None);
}

/// Random arrivals offer a little more or less than their rate; what was due and served is no miss.
#[test]
fn a_rate_that_chance_kept_low_is_not_missed() {
    let mut one = unit(1000.0, 900.0, &[1; 900]);
    one.due = 900;
    assert!(!one.missed());
}

#[test]
fn a_closed_loop_is_no_open_one() {
    assert_eq!(point(vec![repeat(1, &[10], 1.0)]).open_loop(), None);
}

#[test]
fn the_first_error_is_that_of_the_verb() {
    let mut second = repeat(2, &[10], 1.0);
    second.ops[0].first_error = Some("late".to_owned());
    second.ops.push(op("put", &[1]));
    second.ops[1].first_error = Some("full".to_owned());
    let point = point(vec![repeat(1, &[10], 1.0), second]);
    assert_eq!(point.first_error("get"), Some("late"));
    assert_eq!(point.first_error("put"), Some("full"));
    assert_eq!(point.first_error("del"), None);
}

#[test]
fn ratios_show_what_their_interval_shows() {
    let around = |middle: f64| [0.99, 1.0, 1.01, 1.0, 0.995].map(|x| x * middle);
    let of = |base: &[f64], new: &[f64]| Ratio::of(base, new, &mut draw(1)).unwrap();
    let up = of(&around(100.0), &around(150.0));
    assert_eq!(up.change(), Change::Up);
    assert!((up.ratio - 1.5).abs() < 1e-9);
    let (low, high) = up.interval.unwrap();
    assert!(low < 1.5 && 1.5 < high && low > 1.4 && high < 1.6, "{low} {high}");
    assert!(up.p.unwrap() < 0.05);
    assert_eq!(of(&around(150.0), &around(100.0)).change(), Change::Down);
    assert_eq!(of(&around(100.0), &around(100.1)).change(), Change::Same);
}

#[test]
fn one_sample_on_a_side_shows_nothing() {
    for (base, new) in [(&[1.0][..], &[9.0, 9.1][..]), (&[1.0, 1.1], &[9.0]), (&[1.0], &[9.0])] {
        let ratio = Ratio::of(base, new, &mut draw(1)).unwrap();
        assert_eq!((ratio.change(), ratio.interval, ratio.p), (Change::Unsure, None, None));
    }
}

#[test]
fn there_is_no_ratio_to_nothing() {
    for bad in [&[][..], &[0.0], &[1.0, f64::NAN], &[-1.0], &[f64::INFINITY]] {
        assert_eq!(Ratio::of(bad, &[1.0], &mut draw(1)), None);
        assert_eq!(Ratio::of(&[1.0], bad, &mut draw(1)), None);
    }
}

#[test]
fn a_clean_run_has_nothing_to_tell() {
    let mut run = run();
    run.failures.clear();
    run.interrupted = None;
    run.points[0].flags.clear();
    assert!(run.is_clean());
    let spoilers: [fn(&mut Run); 3] = [
        |run| run.points[0].flags.push("1 error".to_owned()),
        |run| run.interrupted = Some("SIGINT".to_owned()),
        |run| run.failures = sample::run().failures,
    ];
    for spoil in spoilers {
        let mut run = run.clone();
        spoil(&mut run);
        assert!(!run.is_clean());
    }
}

#[test]
fn cells_name_only_what_they_have() {
    let mut cell = run().failures[0].cell.clone();
    assert_eq!(cell.to_string(), "mixed btree t1");
    cell.sweep = Some(SweepValue { param: "batch".to_owned(), value: 64 });
    cell.rate = Some(1000.0);
    assert_eq!(cell.to_string(), "mixed btree t1 batch=64 rate=1000");
    cell.rate = Some(0.5);
    assert_eq!(cell.to_string(), "mixed btree t1 batch=64 rate=0.5");
}

#[test]
fn a_phase_is_one_word_in_text_and_in_json() {
    for phase in [Phase::Seed, Phase::Run] {
        assert_eq!(serde_json::to_string(&phase).unwrap(), format!("\"{phase}\""));
    }
    assert_eq!(histogram(&[5, 5]).count(), 2);
}

/// A row with a field of each kind, in no order but its own.
fn row() -> ThreadRow {
    let fields = [
        ("puts", FieldValue::Count(1001)),
        ("puts_per_sec", FieldValue::Number(0.1 + 0.2)),
        ("ok", FieldValue::Flag(false)),
        ("first", FieldValue::Text("00000070".to_owned())),
        ("errors", FieldValue::List(vec!["b".to_owned(), "a".to_owned()])),
        ("a_per_sec", FieldValue::Number(5.0)),
    ];
    let fields = fields.map(|(name, value)| (name.to_owned(), value)).to_vec();
    ThreadRow { test: "wcol1,rcol1@1".to_owned(), thread: 3, fields }
}

#[test]
fn rows_read_back_in_their_order() {
    let mut run = run();
    run.points[0].repeats[0].rows = vec![row(), ThreadRow { thread: 4, fields: vec![], ..row() }];
    let text = run.to_json().unwrap();
    let back = Run::from_json(&text).unwrap();
    assert_eq!(back.points[0].repeats[0].rows, run.points[0].repeats[0].rows);
    assert_eq!(back.to_json().unwrap(), text);
    assert_eq!(row().get("puts").and_then(FieldValue::as_f64), Some(1001.0));
    assert_eq!(row().get("ok").and_then(FieldValue::as_f64), None);
    assert_eq!(row().get("gets"), None);
    let compact: String = text.split_whitespace().collect();
    let fields = r#""fields":{"puts":1001,"puts_per_sec":0.30000000000000004,"ok":false,"#;
    assert!(compact.contains(fields), "{text}");
}

#[test]
fn what_came_after_a_phase_reads_back_and_is_absent_without() {
    let mut run = run();
    assert!(!run.to_json().unwrap().contains("aftermath"));
    let aftermath = Aftermath {
        settle_s: 0.25,
        is_settled: true,
        cpu_s: 1.5,
        written_bytes: Some(u64::from(u32::MAX) + 1),
        disk_bytes: None,
    };
    run.points[0].repeats[0].aftermath = Some(aftermath.clone());
    let back = Run::from_json(&run.to_json().unwrap()).unwrap();
    assert_eq!(back.points[0].repeats[0].aftermath, Some(aftermath));
    assert_eq!(back.points[0].repeats[1].aftermath, None);
    run.points[0].repeats[0].aftermath.as_mut().unwrap().settle_s = f64::NAN;
    assert!(matches!(run.to_json(), Err(Error::NotFinite { field: "settle_s", .. })));
}

/// A record of before has neither what the engine held nor how it was loaded.
#[test]
fn a_record_without_a_footprint_still_opens() {
    let mut run = run();
    let before = run.to_json().unwrap();
    assert!(!before.contains("footprint") && !before.contains("\"durability\": null"), "{before}");
    let held = Footprint { memory_bytes: Some(7 << 20), disk_bytes: None, is_idle: false };
    run.points[0].repeats[0].footprint = Some(held);
    run.points[0].repeats[0].load.as_mut().unwrap().durability = Some("none".to_owned());
    let back = Run::from_json(&run.to_json().unwrap()).unwrap();
    assert_eq!(back.points[0].repeats[0].footprint, Some(held));
    assert_eq!(
        back.points[0].footprint(|held| held.memory_bytes.map(|n| n as f64)),
        Some(7340032.0)
    );
    let load = back.points[0].repeats[0].load.clone().unwrap();
    assert_eq!(load.durability.as_deref(), Some("none"));
    let old = Run::from_json(&before).unwrap();
    assert_eq!(old.points[0].repeats[0].footprint, None);
    assert_eq!(old.points[0].repeats[0].load.clone().unwrap().durability, None);
}

#[test]
fn what_was_not_counted_is_missing_and_not_zero() {
    let mut run = run();
    let text = run.to_json().unwrap();
    assert!(!text.contains("counters") && !text.contains("cgroup"));
    let counters = Counters { instructions: Some(1000), with_kernel: true, ..Counters::default() };
    let cgroup = CgroupUse { throttled_s: Some(0.25), reads: Some(3), ..CgroupUse::default() };
    let repeat = &mut run.points[0].repeats[0];
    (repeat.counters, repeat.cgroup) = (Some(counters), Some(cgroup));
    let prim_ops = repeat.prim_ops as f64;
    let text = run.to_json().unwrap();
    assert!(text.contains("\"cycles\": null"), "{text}");
    let back = Run::from_json(&text).unwrap();
    let repeat = &back.points[0].repeats[0];
    assert_eq!((repeat.counters, repeat.cgroup), (Some(counters), Some(cgroup)));
    let per_op = back.points[0].counters_per_op();
    assert_eq!(per_op, [None, Some(1000.0 / prim_ops), None, None, None, None]);
    assert_eq!(back.points[0].cgroup(|group| group.throttled_s), Some(0.25));
    assert_eq!(back.points[0].cgroup(|group| group.cpu_s), None);
    run.points[0].repeats[0].cgroup.as_mut().unwrap().throttled_s = Some(f64::NAN);
    assert!(matches!(run.to_json(), Err(Error::NotFinite { field: "throttled_s", .. })));
}

#[test]
fn cells_of_phases_and_roles_read_back_and_are_told_apart() {
    let mut run = run();
    let cell = &mut run.points[0].cell;
    cell.part = Some(Part { phase: "run".into(), role: Some("writer".into()), workers: 1 });
    assert_eq!(
        cell.to_string(),
        "mixed skiplist t2 phase=run role=writer workers=1 batch=-8 rate=1000.5"
    );
    assert_eq!((cell.title().as_str(), cell.role()), ("mixed run", Some("writer")));
    let back = Run::from_json(&run.to_json().unwrap()).unwrap();
    assert_eq!(back.points[0].cell, run.points[0].cell);
    let mut whole = back.points[0].cell.clone();
    whole.part.as_mut().unwrap().role = None;
    assert_ne!(whole, back.points[0].cell);
    assert_eq!(whole.role(), None);
}

#[test]
fn a_run_without_rows_does_not_mention_them() {
    let text = run().to_json().unwrap();
    assert!(!text.contains("\"rows\""), "{text}");
    assert!(Run::from_json(&text).unwrap().points[0].repeats[0].rows.is_empty());
}

#[test]
fn a_field_that_is_reported_twice_is_malformed() {
    let text = r#"{"test": "rw1", "thread": 0, "fields": {"puts": 1, "gets": 2, "puts": 3}}"#;
    let error = serde_json::from_str::<ThreadRow>(text).unwrap_err();
    assert!(error.to_string().contains("'puts' is reported twice"), "{error}");
}

#[test]
fn a_reported_rate_is_finite() {
    let mut run = run();
    let mut row = row();
    row.fields[1].1 = FieldValue::Number(f64::NAN);
    run.points[0].repeats[0].rows = vec![row];
    assert!(matches!(run.to_json(), Err(Error::NotFinite { field: "rows", .. })));
}
