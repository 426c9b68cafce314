//! Open loop: response time counts from the intended start, what never started counts too, and a
//! rate that was not reached is said.

use crate::support::{Bench, only, repeat};
use keyrack_record::UnitStats;

fn unit(record: &keyrack_record::Run) -> &UnitStats {
    repeat(record).unit.as_ref().unwrap()
}

#[test]
fn a_count_of_units_is_started_at_the_rate() {
    for arrivals in ["constant", "poisson", "fb_ia"] {
        let record = Bench::unit("kv.get('k')")
            .set(&[
                ("backend", "null"),
                ("ops", "201"),
                ("threads", "2"),
                ("rate", "2000"),
                ("arrivals", arrivals),
            ])
            .run_clean();
        let (repeat, unit) = (repeat(&record), unit(&record));
        assert_eq!((repeat.units, unit.response.count(), unit.service.count()), (201, 201, 201));
        assert_eq!(only(&record).cell.rate, Some(2000.0));
        assert_eq!(unit.backlog_end, 0);
        assert!(unit.response.sum() >= unit.service.sum(), "{arrivals}");
    }
    // Constant gaps: 201 units at 2,000 a second take at least 99 gaps of 1 ms.
    let record = Bench::unit("kv.get('k')")
        .set(&[("backend", "null"), ("ops", "201"), ("rate", "2000")])
        .run_clean();
    assert!(repeat(&record).wall_s >= 0.0995, "{}", repeat(&record).wall_s);
}

#[test]
fn a_stall_shows_in_response_time_and_not_in_service_time() {
    // Stalls of 200 ms in every 500: of 600 ms at least 200 are stalled, in one piece or two. One
    // unit meets each piece; the hundreds that are due meanwhile wait.
    let record = Bench::unit("kv.put('k', 'v')")
        .set(&[("backend", "null"), ("secs", "0.6"), ("rate", "2000")])
        .engine("null", &[("stall_every_ms", "500"), ("stall_ms", "200")])
        .run_clean();
    let unit = unit(&record);
    let response = unit.response.percentile(95.0).unwrap();
    assert!(response >= 40_000_000, "{response}");
    let service = unit.service.percentile(95.0).unwrap();
    assert!(service < 20_000_000, "{service}");
    assert!(unit.service.max().unwrap() >= 80_000_000);
    assert!(unit.backlog_max >= 100, "{}", unit.backlog_max);
}

#[test]
fn units_that_were_due_and_never_started_are_in_the_response_histogram() {
    // Each unit takes 20 ms; at 1,000 a second only a few of the 200 that are due start.
    let record = Bench::unit("kb.sleep_until(kb.now() + 0.02)")
        .set(&[("backend", "null"), ("secs", "0.2"), ("rate", "1000")])
        .run_clean();
    let (repeat, unit) = (repeat(&record), unit(&record));
    assert!(repeat.units <= 11, "{}", repeat.units);
    assert_eq!(unit.service.count(), repeat.units);
    assert_eq!(unit.response.count(), repeat.units + unit.backlog_end);
    assert!(unit.response.count() >= 150, "{}", unit.response.count());
    assert!(unit.backlog_max >= 100, "{}", unit.backlog_max);
    // The median unit waited a good part of the phase.
    assert!(unit.response.percentile(50.0).unwrap() >= 40_000_000);
    assert!(unit.missed());
    let flags = only(&record).flags.join("\n");
    assert!(flags.contains("RATE MISSED: offered 1000, achieved"), "{flags}");
}

#[test]
fn a_missed_rate_is_said_in_count_mode_too() {
    let record = Bench::unit("kb.sleep_until(kb.now() + 0.005)")
        .set(&[("backend", "null"), ("ops", "20"), ("rate", "10000")])
        .run_clean();
    assert_eq!(repeat(&record).units, 20);
    assert_eq!(unit(&record).response.count(), 20);
    assert!(unit(&record).missed());
    // All twenty were due long before the last began.
    assert!(unit(&record).backlog_max >= 15 && unit(&record).backlog_end == 0);
}

#[test]
fn random_arrivals_that_were_all_served_are_not_a_missed_rate() {
    // 40 arrivals of a Poisson process are rarely 40 in the time of 40; nothing was late.
    for seed in 1..=12 {
        let record = Bench::unit("kv.get('k')")
            .set(&[
                ("backend", "null"),
                ("secs", "0.02"),
                ("rate", "2000"),
                ("arrivals", "poisson"),
                ("seed", &seed.to_string()),
            ])
            .run_clean();
        let unit = unit(&record);
        if unit.backlog_end == 0 {
            let flags = &only(&record).flags;
            assert!(flags.is_empty(), "SEED={seed}: {flags:?}");
        }
    }
}

#[test]
fn a_closed_loop_has_no_units_of_its_own() {
    assert!(repeat(&Bench::unit("kv.get('k')").run_clean()).unit.is_none());
}

#[test]
fn several_rates_are_several_cells() {
    let record = Bench::unit("kv.get('k')")
        .set(&[("backend", "null"), ("ops", "10"), ("rate", "1k,2k")])
        .run_clean();
    let rates: Vec<_> = record.points.iter().map(|point| point.cell.rate).collect();
    assert_eq!(rates, [Some(1000.0), Some(2000.0)]);
}

#[test]
fn a_goal_that_is_easy_is_met_and_one_that_is_impossible_is_said() {
    let bench = Bench::unit("kv.get('k')").set(&[
        ("backend", "null"),
        ("secs", "0.02"),
        ("rate-search", "p50<1s"),
    ]);
    let record = bench.run_clean();
    let notes = only(&record).notes.join("\n");
    assert!(notes.contains("search: ") && notes.contains("units/s meet p50 < "), "{notes}");
    let failure = Bench::unit("kb.sleep_until(kb.now() + 0.002)")
        .set(&[("backend", "null"), ("secs", "0.02"), ("rate-search", "p50<1us")])
        .run_failing();
    assert!(failure.reason.contains("no rate meets p50 < "), "{failure:?}");
}

#[test]
fn the_achieved_rate_is_of_the_whole_phase() {
    // Ten units at 0, 20, .. 180 ms of 200 ms: 50 a second, not 10 in the 180 ms between them.
    let record = Bench::unit("kv.get('k')")
        .set(&[("backend", "null"), ("secs", "0.2"), ("rate", "50")])
        .run_clean();
    let (repeat, unit) = (repeat(&record), unit(&record));
    assert!(repeat.wall_s >= 0.199, "{}", repeat.wall_s);
    assert!(unit.achieved_per_s <= 50.3, "{}", unit.achieved_per_s);
}
