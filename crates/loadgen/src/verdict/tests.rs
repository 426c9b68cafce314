//! Evidence that is well, and each way in which it is not.

use keyrack_workload::Rng;

use super::*;

const SEED: u64 = 20_261_122;

fn histogram(values: &[(u64, u64)]) -> Histogram {
    let mut histogram = Histogram::new();
    for (value, count) in values {
        histogram.record_n(*value, *count);
    }
    histogram
}

fn poisson(rate: f64, count: usize, seed: u64) -> Vec<u64> {
    let mut rng = Rng::from_seed(seed);
    (0..count).map(|_| (rng.exponential() / rate * 1e9) as u64).collect()
}

struct Case {
    delay: Histogram,
    response: Histogram,
    threads: Vec<ThreadUse>,
    gaps_ns: Vec<Vec<u64>>,
    agents: Vec<AgentShare>,
}

impl Case {
    fn well() -> Case {
        Case {
            delay: histogram(&[(5_000, 990), (11_000, 100)]),
            response: histogram(&[(300_000, 900), (400_000, 100)]),
            threads: vec![ThreadUse { cpu_s: 3.0, wall_s: 10.0 }; 2],
            gaps_ns: vec![poisson(50_000.0, 200_000, SEED), poisson(50_000.0, 200_000, SEED + 1)],
            agents: Vec::new(),
        }
    }

    fn evidence(&self) -> Evidence<'_> {
        Evidence {
            offered_per_s: Some(100_000.0),
            variation: 1.0,
            drawn: 999_900,
            completed: 999_870,
            elapsed_s: 10.0,
            backlog: 3,
            lost: 0,
            delay: &self.delay,
            response: &self.response,
            threads: &self.threads,
            steal_pct: Some(0.04),
            gaps_ns: &self.gaps_ns,
            agents: &self.agents,
        }
    }
}

/// The checks that warn.
fn warnings(evidence: &Evidence<'_>) -> Vec<String> {
    let verdict = Verdict::of(evidence);
    let failed = verdict.checks.iter().filter(|check| check.grade == Grade::Warn);
    let lines: Vec<String> =
        failed.map(|check| format!("{}: {}", check.name, check.text)).collect();
    assert_eq!(verdict.is_clean(), lines.is_empty());
    lines
}

#[test]
fn a_good_run_passes_line_by_line() {
    let case = Case::well();
    let text = Verdict::of(&case.evidence()).to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "PASS rate: 99987 of 100000 requests/s (100.0 %)");
    assert_eq!(lines[1], "PASS client delay: p99 11.0 us of a response p99 of 400 us");
    assert_eq!(lines[2], "PASS cpu: thread 1 was busiest: 30 % of the time");
    assert_eq!(lines[3], "PASS steal: 0.0 % of the machine's time went to other guests");
    assert!(lines[4].starts_with("PASS gaps: exponential (p 0."), "{}; SEED={SEED}", lines[4]);
    assert_eq!(lines.len(), 5);
}

#[test]
fn a_rate_that_was_not_served_is_said() {
    let case = Case::well();
    let evidence = Evidence { completed: 800_000, backlog: 200_000, ..case.evidence() };
    let lines = warnings(&evidence);
    assert_eq!(lines[0], "rate: 80000 of 100000 requests/s (80.0 %): offered load not sustained");
    assert_eq!(lines[1], "backlog: 200000 requests were due and not sent in the end, 2 s of them");
    // Under it by a fiftieth, by a distribution that leaves nothing to chance: the same.
    let fixed = Evidence { variation: 0.0, completed: 980_000, ..case.evidence() };
    assert!(warnings(&fixed)[0].starts_with("rate: 98000 of 100000 requests/s (98.0 %): offered"));
    // One request a second, none of them by chance in this one: nobody can tell.
    let slow = Evidence {
        offered_per_s: Some(1.0),
        drawn: 1,
        completed: 0,
        elapsed_s: 1.0,
        backlog: 1,
        ..case.evidence()
    };
    assert!(warnings(&slow).is_empty());
}

#[test]
fn a_rate_that_is_off_by_more_than_a_hundredth_does_not_pass() {
    let case = Case::well();
    let rate = |variation, drawn, completed| {
        let offered_per_s = Some(1000.0);
        let evidence = Evidence {
            offered_per_s,
            variation,
            drawn,
            completed,
            elapsed_s: 1.0,
            backlog: 0,
            ..case.evidence()
        };
        let check = Verdict::of(&evidence).checks.swap_remove(0);
        (check.grade, check.text)
    };
    // More than was asked for.
    let (grade, text) = rate(1.0, 1815, 1815);
    assert_eq!(grade, Grade::Warn);
    assert_eq!(text, "1815 of 1000 requests/s (181.5 %): more was sent than asked for");
    // Stores that fill misses are answered as well, and were not asked for.
    assert_eq!(rate(1.0, 1000, 1500).0, Grade::Pass);
    for (variation, count, grade) in [
        (0.0, 990, Grade::Pass),
        (0.0, 1010, Grade::Pass),
        (0.0, 989, Grade::Warn),
        (0.0, 1011, Grade::Warn),
        (1.0, 989, Grade::Open),
        (1.0, 1011, Grade::Open),
        (1.0, 906, Grade::Open),
        (1.0, 905, Grade::Warn),
        (0.2, 906, Grade::Warn),
        (f64::INFINITY, 100, Grade::Open),
    ] {
        assert_eq!(rate(variation, count, count).0, grade, "{count} with {variation}");
    }
    let (_, text) = rate(1.0, 950, 950);
    let expected = "chance moves it by up to 9.5 %, measure longer";
    assert_eq!(text, format!("950 of 1000 requests/s (95.0 %): {expected}"));
    assert!(Verdict { checks: vec![] }.is_clean());
}

#[test]
fn a_late_client_is_told_from_a_slow_server() {
    let mut case = Case::well();
    case.delay = histogram(&[(5_000, 900), (100_000, 100)]);
    let lines = warnings(&case.evidence());
    assert!(lines[0].starts_with("client delay: p99 100 us of a response p99 of 400 us"));
    case.response = histogram(&[(3_000_000, 100)]);
    assert!(warnings(&case.evidence()).is_empty(), "below 5 % of it");
    case.delay = histogram(&[(19_000, 100)]);
    case.response = histogram(&[(50_000, 100)]);
    assert!(warnings(&case.evidence()).is_empty(), "below 20 us");
}

#[test]
fn busy_threads_and_stolen_time_are_named() {
    let mut case = Case::well();
    case.threads[1].cpu_s = 9.7;
    let evidence = Evidence { steal_pct: Some(4.2), ..case.evidence() };
    let lines = warnings(&evidence);
    assert!(lines[0].starts_with("cpu: thread 1 was busy for 97 % of the time: give it"));
    assert_eq!(lines[1], "steal: 4.2 % of the machine's time went to other guests");
    case.threads.clear();
    let evidence = Evidence { steal_pct: None, ..case.evidence() };
    let names: Vec<&str> = Verdict::of(&evidence).checks.iter().map(|check| check.name).collect();
    assert_eq!(names, ["rate", "client delay", "gaps"], "what is not known is not said");
}

#[test]
fn sends_without_a_schedule_are_found() {
    // A client that stands still for 50 ms ten times, and then catches up at once.
    let mut gaps = poisson(50_000.0, 200_000, SEED);
    for stall in 0..10 {
        let start = stall * 20_000;
        gaps[start] = 50_000_000;
        gaps[start + 1..start + 2500].fill(0);
    }
    let mut case = Case::well();
    case.gaps_ns[1] = gaps;
    let lines = warnings(&case.evidence());
    assert!(lines[0].starts_with("gaps: not exponential (p "), "{lines:?}; SEED={SEED}");

    // Sends of one batch that share a moment do not matter.
    let mut gaps = poisson(50_000.0, 200_000, SEED);
    for pair in gaps.chunks_mut(2) {
        let sum = pair.iter().sum();
        pair.copy_from_slice(&[sum, 0]);
    }
    assert!(test_gaps(&[gaps]).unwrap().p_value > 1e-3, "SEED={SEED}");
    // Equal gaps are no Poisson process, if there are few enough to see it.
    assert!(test_gaps(&[vec![1_000_000; 500]]).unwrap().p_value < 1e-3);
    assert_eq!(test_gaps(&[vec![5; 10]]), None);
    assert_eq!(test_gaps(&[]), None);
}

#[test]
fn slow_agents_and_lost_requests_are_named() {
    let mut case = Case::well();
    let agent = |name: &str, achieved_per_s| AgentShare {
        name: name.to_owned(),
        offered_per_s: 1000.0,
        achieved_per_s,
    };
    case.agents = vec![agent("a:5556", 1001.0), agent("b:5556", 700.0)];
    let evidence = Evidence { lost: 130, ..case.evidence() };
    let lines = warnings(&evidence);
    assert_eq!(lines[0], "agents: b:5556 served 700 of its 1000 requests/s");
    assert_eq!(lines[1], "lost: 130 of 1000000 requests failed or had no answer (0.01 %)");
    case.agents.truncate(1);
    assert!(warnings(&case.evidence()).is_empty());
}

#[test]
fn a_closed_loop_has_no_rate_to_keep() {
    let case = Case::well();
    let evidence = Evidence { offered_per_s: None, gaps_ns: &[], ..case.evidence() };
    let names: Vec<&str> = Verdict::of(&evidence).checks.iter().map(|check| check.name).collect();
    assert_eq!(names, ["cpu", "steal"]);
    let nothing = Evidence {
        completed: 0,
        elapsed_s: 0.0,
        steal_pct: None,
        threads: &[ThreadUse { cpu_s: 0.0, wall_s: 0.0 }],
        ..evidence
    };
    let text = Verdict::of(&nothing).to_string();
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
}
