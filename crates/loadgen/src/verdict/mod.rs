//! Is the measurement worth its name? Checks on the generator itself, one line each.
//!
//! ```text
//!   PASS rate: 99987 of 100000 requests/s (100.0 %)
//!   OPEN rate: 967 of 1000 requests/s (96.7 %): chance moves it by up to 9.5 %, measure longer
//!   PASS client delay: p99 11.0 us of a response p99 of 412 us
//!   WARN cpu: thread 1 was busy for 97 % of the time: give it fewer connections (-T, agents)
//!   PASS steal: 0.0 % of the machine's time went to other guests
//!   PASS gaps: exponential (p 0.41, 1000 of them)
//! ```
//!
//! | check | warns when | applies to |
//! |---|---|---|
//! | rate | it is off by more than 1 %, and by more than chance explains | open loop |
//! | backlog | requests that were due were not sent in the end, more than a fiftieth of a second's | open loop |
//! | client delay | its p99 is above 20 us and above 5 % of the response p99 | open loop |
//! | cpu | a thread that may sleep was busy for more than 90 % of the time | threads that block |
//! | steal | more than 1 % of the machine's time went to other guests | where the kernel tells |
//! | gaps | they are not exponential, at one in a thousand | Poisson arrivals |
//! | agents | one served less than 99 % of its share | agents |
//! | lost | requests failed, or had no answer in the end | all |
//!
//! A rate that is off by more than 1 %, as chance may have it, is `OPEN`: neither good nor bad.
//! What does not apply is not printed. Arithmetic alone: whoever measured hands in the evidence.

mod gaps;

#[cfg(test)]
mod tests;

use std::fmt;

use keyrack_measure::Histogram;

use crate::account::ThreadUse;
use crate::durations::words;

pub use gaps::{GapTest, test_gaps};

/// Delays below are not worth a word.
const DELAY_NS_MIN: u64 = 20_000;
/// What share of the response p99 may be our own delay.
const DELAY_SHARE_MAX: f64 = 0.05;
/// How busy a thread may be.
const BUSY_MAX: f64 = 0.90;
/// How much of the machine's time may be stolen, in per cent.
const STEAL_PCT_MAX: f64 = 1.0;
/// How improbable gaps may be.
const P_VALUE_MIN: f64 = 1e-3;
/// A queue of more seconds of arrivals than this is a backlog.
const BACKLOG_S_MAX: f64 = 0.02;
/// By what share a rate may be off.
const RATE_SHARE_MAX: f64 = 0.01;
/// Standard deviations of the number of arrivals that are chance.
const CHANCE_DEVIATIONS: f64 = 3.0;

/// What an agent did of what it was to do.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentShare {
    /// Its address.
    pub name: String,
    /// The rate that it was to offer.
    pub offered_per_s: f64,
    /// The rate that it served.
    pub achieved_per_s: f64,
}

/// Everything that is looked at.
#[derive(Clone, Debug)]
pub struct Evidence<'a> {
    /// The rate that was asked for; `None` in a closed loop.
    pub offered_per_s: Option<f64>,
    /// The deviation of the gaps between arrivals, divided by their mean.
    pub variation: f64,
    /// Requests that were sent, or were to be.
    pub drawn: u64,
    /// Requests answered within the measurement.
    pub completed: u64,
    /// The length of the measurement.
    pub elapsed_s: f64,
    /// Requests that were due and not sent at the end.
    pub backlog: u64,
    /// Requests that failed or were not answered.
    pub lost: u64,
    /// From the intended start to the send.
    pub delay: &'a Histogram,
    /// From the intended start to the reply.
    pub response: &'a Histogram,
    /// The threads, unless they spin, when being busy means nothing.
    pub threads: &'a [ThreadUse],
    /// The share of the machine's time that went to other guests, in per cent.
    pub steal_pct: Option<f64>,
    /// Gaps between sends, a list for each thread, where arrivals were to be a Poisson process.
    pub gaps_ns: &'a [Vec<u64>],
    /// The agents.
    pub agents: &'a [AgentShare],
}

/// What came of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// It is as it should be.
    Pass,
    /// Too little was measured to tell.
    Open,
    /// It is not.
    Warn,
}

/// One line of the verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// Whether it is as it should be.
    pub grade: Grade,
    /// What was found, and when it is not well, what to do.
    pub text: String,
}

/// The lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What applied, in the order of the table.
    pub checks: Vec<Check>,
}

impl Verdict {
    /// Looks at the evidence.
    #[must_use]
    pub fn of(evidence: &Evidence<'_>) -> Verdict {
        let mut verdict = Verdict::default();
        verdict.rate(evidence);
        verdict.delay(evidence);
        verdict.cpu(evidence.threads);
        if let Some(steal_pct) = evidence.steal_pct {
            let text = format!("{steal_pct:.1} % of the machine's time went to other guests");
            verdict.add("steal", steal_pct <= STEAL_PCT_MAX, text);
        }
        if let Some(test) = test_gaps(evidence.gaps_ns) {
            let is_passed = test.p_value >= P_VALUE_MIN;
            let distribution = if is_passed { "exponential" } else { "not exponential" };
            let GapTest { p_value, gaps } = test;
            let text = if is_passed {
                format!("{distribution} (p {p_value:.2}, {gaps} of them)")
            } else {
                format!("{distribution} (p {p_value:.1e}, {gaps} of them): sends kept no schedule")
            };
            verdict.add("gaps", is_passed, text);
        }
        verdict.agents(evidence.agents);
        verdict.lost(evidence);
        verdict
    }

    /// Whether no check warns.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.checks.iter().all(|check| check.grade != Grade::Warn)
    }

    fn add(&mut self, name: &'static str, is_passed: bool, text: String) {
        let grade = if is_passed { Grade::Pass } else { Grade::Warn };
        self.checks.push(Check { name, grade, text });
    }

    fn rate(&mut self, evidence: &Evidence<'_>) {
        let Some(offered_per_s) = evidence.offered_per_s.filter(|rate| *rate > 0.0) else { return };
        let due = (offered_per_s * evidence.elapsed_s).max(f64::MIN_POSITIVE);
        let (completed, drawn) = (evidence.completed as f64, evidence.drawn as f64);
        let is_above = drawn - due > due - completed;
        let found = if is_above { drawn } else { completed };
        let off = (found - due).abs();
        // Also an even schedule has a request at its edge.
        let chance = (CHANCE_DEVIATIONS * evidence.variation * due.sqrt()).max(1.0);
        let mut text = format!(
            "{:.0} of {offered_per_s:.0} requests/s ({:.1} %)",
            found / evidence.elapsed_s.max(f64::MIN_POSITIVE),
            100.0 * found / due
        );
        let grade = if off <= due * RATE_SHARE_MAX {
            Grade::Pass
        } else if off > chance {
            text.push_str(if is_above {
                ": more was sent than asked for"
            } else {
                ": offered load not sustained"
            });
            Grade::Warn
        } else {
            text.push_str(&if chance < due {
                format!(": chance moves it by up to {:.1} %, measure longer", 100.0 * chance / due)
            } else {
                ": chance moves it by as much, measure longer".to_owned()
            });
            Grade::Open
        };
        self.checks.push(Check { name: "rate", grade, text });
        if evidence.backlog as f64 > (offered_per_s * BACKLOG_S_MAX).max(1.0) {
            let behind_s = evidence.backlog as f64 / offered_per_s;
            let (backlog, behind) = (evidence.backlog, words(behind_s * 1e9));
            let text =
                format!("{backlog} requests were due and not sent in the end, {behind} of them");
            self.add("backlog", false, text);
        }
    }

    fn delay(&mut self, evidence: &Evidence<'_>) {
        if evidence.offered_per_s.is_none() {
            return;
        }
        let p99 = |histogram: &Histogram| histogram.percentile(99.0);
        let (Some(delay), Some(response)) = (p99(evidence.delay), p99(evidence.response)) else {
            return;
        };
        let limit = (response as f64 * DELAY_SHARE_MAX).max(DELAY_NS_MIN as f64);
        let is_passed = delay as f64 <= limit;
        let found =
            format!("p99 {} of a response p99 of {}", words(delay as f64), words(response as f64));
        let text = if is_passed {
            found
        } else {
            format!("{found}: this program was late, or the queue was full (-c, -d, -T)")
        };
        self.add("client delay", is_passed, text);
    }

    fn cpu(&mut self, threads: &[ThreadUse]) {
        let busy = |thread: &ThreadUse| {
            if thread.wall_s > 0.0 { thread.cpu_s / thread.wall_s } else { 0.0 }
        };
        let worst = threads.iter().map(busy).enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((index, share)) = worst else { return };
        let (is_passed, percent) = (share <= BUSY_MAX, share * 100.0);
        let text = if is_passed {
            format!("thread {index} was busiest: {percent:.0} % of the time")
        } else {
            format!(
                "thread {index} was busy for {percent:.0} % of the time: give it fewer connections \
                 (-T, agents)"
            )
        };
        self.add("cpu", is_passed, text);
    }

    fn agents(&mut self, agents: &[AgentShare]) {
        if agents.is_empty() {
            return;
        }
        let slow: Vec<String> = agents
            .iter()
            .filter(|agent| agent.achieved_per_s < agent.offered_per_s * 0.99)
            .map(|agent| {
                let AgentShare { name, offered_per_s, achieved_per_s } = agent;
                format!("{name} served {achieved_per_s:.0} of its {offered_per_s:.0} requests/s")
            })
            .collect();
        let text = if slow.is_empty() {
            format!("all {} served their shares", agents.len())
        } else {
            slow.join(", ")
        };
        self.add("agents", slow.is_empty(), text);
    }

    fn lost(&mut self, evidence: &Evidence<'_>) {
        if evidence.lost > 0 {
            let all = evidence.completed + evidence.lost;
            let share = 100.0 * evidence.lost as f64 / all as f64;
            let text = format!(
                "{} of {all} requests failed or had no answer ({share:.2} %)",
                evidence.lost
            );
            self.add("lost", false, text);
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for check in &self.checks {
            let word = match check.grade {
                Grade::Pass => "PASS",
                Grade::Open => "OPEN",
                Grade::Warn => "WARN",
            };
            writeln!(f, "{word} {}: {}", check.name, check.text)?;
        }
        Ok(())
    }
}
