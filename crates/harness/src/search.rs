//! The highest offered rate whose response time meets a goal.
//!
//! Response time grows without bound where the offered rate reaches what the store can do, so the
//! answer lies below the closed loop's rate. From there: probe at 90 %, halve until a rate meets
//! the goal, then bisect on a logarithmic scale until the two sides are within 5 %. Each probe runs
//! for the whole `--secs` on the same store, and once more before it counts as failed. A probe that
//! missed its rate does not meet the goal.

use crate::interrupt::Breaker;
use crate::measurement::Measurement;
use crate::observer::Observer;
use crate::outputs::Outputs;
use crate::settings::Goal;
use crate::sink::fmt_latency;
use crate::stage::Stage;
use crate::stop::Failed;
use keyrack_record::{Cell, Load, Repeat};

/// Probes of one search: enough for a range of 2^8 and 5 %.
const PROBES_MAX: u32 = 16;
const CLOSE_ENOUGH: f64 = 1.05;

/// Searches and returns the best passing probe, with the finding in words.
pub(crate) fn run(
    measurement: &Measurement<'_>,
    stage: &Stage,
    goal: Goal,
    load: Option<Load>,
    observer: &mut dyn Observer,
    outputs: &mut Outputs,
) -> Result<(Repeat, String), Failed> {
    let mut probe = |rate: Option<f64>| {
        let cell = Cell { rate, ..measurement.cell.clone() };
        let probing = Measurement {
            cell: &cell,
            clock: measurement.clock.clone(),
            breaker: Breaker::default(),
            ..*measurement
        };
        probing.run_only(stage, load.clone(), observer, &mut |row| outputs.row(&row))
    };
    let ceiling = probe(None)?.wu_per_s;
    let meets = |repeat: &Repeat| {
        repeat.unit.as_ref().is_some_and(|unit| {
            let response = unit.response.percentile(goal.percentile).unwrap_or(u64::MAX);
            response < goal.limit_ns && !unit.missed()
        })
    };
    let mut best: Option<Repeat> = None;
    let (mut passed, mut missed) = (0.0, ceiling);
    let mut has_missed = false;
    let mut rate = ceiling * 0.9;
    for _ in 0..PROBES_MAX {
        if rate < 1.0 || measurement.stop.is_set() {
            break;
        }
        let mut repeat = probe(Some(rate))?;
        if !meets(&repeat) && !measurement.stop.is_set() {
            // One disturbed probe would halve the answer: a rate fails when it fails twice.
            repeat = probe(Some(rate))?;
        }
        if meets(&repeat) {
            passed = rate;
            best = Some(repeat);
        } else {
            (missed, has_missed) = (rate, true);
        }
        if passed > 0.0 && missed / passed <= CLOSE_ENOUGH {
            break;
        }
        rate = if passed > 0.0 { (passed * missed).sqrt() } else { missed / 2.0 };
    }
    let goal_text = format!("p{} < {}", goal.percentile, fmt_latency(goal.limit_ns as f64));
    match best {
        Some(repeat) => {
            let beyond = if has_missed { format!(", {missed:.0} do not") } else { String::new() };
            let text = format!(
                "search: {passed:.0} units/s meet {goal_text}{beyond} (closed loop: {ceiling:.0})"
            );
            Ok((repeat, text))
        }
        None => Err(Failed::new(format!(
            "no rate meets {goal_text}: {missed:.0} units/s do not, the closed loop reaches \
             {ceiling:.0}"
        ))),
    }
}
