//! What a run leaves: one account, and what is not a sum.

use keyrack_measure::Histogram;

use super::Account;

/// One second of a run.
#[derive(Debug, Clone)]
pub struct Second {
    /// Its end, in seconds from the start of the measurement.
    pub end_s: f64,
    /// Its length.
    pub length_s: f64,
    /// Requests a second that were due in it, under a ramp.
    pub offered_per_s: Option<f64>,
    /// Replies.
    pub ops: u64,
    /// Lookups that missed.
    pub misses: u64,
    /// Failures.
    pub errors: u64,
    /// The headline latency.
    pub latency: Histogram,
}

/// What a thread used.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ThreadUse {
    /// Processor time.
    pub cpu_s: f64,
    /// Time that passed.
    pub wall_s: f64,
}

/// A window of lookups on one connection, for `--misswindow`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The thread.
    pub thread: usize,
    /// Its connection.
    pub connection: usize,
    /// Lookups of this connection so far.
    pub gets_so_far: u64,
    /// Lookups in the window.
    pub gets: u64,
    /// Of those, the ones that missed.
    pub misses: u64,
}

/// The outcome of a measurement.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Everything that adds up.
    pub account: Account,
    /// The length of the measurement: from the common start to its end, or to the last reply where
    /// a number of requests ended it.
    pub window_s: f64,
    /// The rate that was asked for; `None` in a closed loop.
    pub offered_rate: Option<f64>,
    /// The one-second series.
    pub series: Vec<Second>,
    /// One for each thread.
    pub threads: Vec<ThreadUse>,
    /// Windows of `--misswindow`, by thread and connection.
    pub windows: Vec<Window>,
    /// Gaps between sends of single threads, in nanoseconds, where a rate was asked for.
    pub send_gaps_ns: Vec<Vec<u64>>,
    /// What a person has to know: connections that broke, servers that are gone.
    pub troubles: Vec<String>,
    /// Ended by an interruption; the figures are partial.
    pub is_interrupted: bool,
    /// Records that were loaded before.
    pub loaded: u64,
    /// How long that took.
    pub load_s: f64,
    /// What the master alone counted, where there are agents.
    pub master: Option<Box<Account>>,
    /// What each agent was to do and did.
    pub agents: Vec<AgentRate>,
}

/// What an agent was to do and did.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentRate {
    /// Its address.
    pub name: String,
    /// Requests a second that it was to offer; `None` where as many as are answered.
    pub offered_per_s: Option<f64>,
    /// Replies a second.
    pub achieved_per_s: f64,
}

impl Report {
    /// Replies a second, within the time of the measurement. Without any time there is no rate, and
    /// this is 0.
    #[must_use]
    pub fn rate(&self) -> f64 {
        if self.window_s > 0.0 {
            self.account.counts.ops_in_time as f64 / self.window_s
        } else {
            0.0
        }
    }

    /// Adds what an agent counted in the same time.
    pub fn join(&mut self, agent: AgentRate, other: Report) {
        if self.master.is_none() {
            self.master = Some(Box::new(self.account.clone()));
        }
        self.agents.push(agent);
        self.account.merge(&other.account);
        self.window_s = self.window_s.max(other.window_s);
        self.threads.extend(other.threads);
        self.troubles.extend(other.troubles);
        self.is_interrupted |= other.is_interrupted;
    }

    /// Adds a further measurement of the same: counts and times add up, its seconds follow.
    pub fn absorb(&mut self, other: Report) {
        self.account.merge(&other.account);
        let before_s = self.window_s;
        self.series.extend(other.series.into_iter().map(|mut second| {
            second.end_s += before_s;
            second
        }));
        self.window_s += other.window_s;
        self.offered_rate = other.offered_rate.or(self.offered_rate);
        self.threads = if self.threads.len() == other.threads.len() {
            let pairs = self.threads.iter().zip(&other.threads);
            let sum = |(a, b): (&ThreadUse, &ThreadUse)| ThreadUse {
                cpu_s: a.cpu_s + b.cpu_s,
                wall_s: a.wall_s + b.wall_s,
            };
            pairs.map(sum).collect()
        } else {
            other.threads
        };
        self.windows.extend(other.windows);
        self.send_gaps_ns.extend(other.send_gaps_ns);
        for trouble in other.troubles {
            if !self.troubles.contains(&trouble) {
                self.troubles.push(trouble);
            }
        }
        self.is_interrupted |= other.is_interrupted;
        match (&mut self.master, other.master) {
            (Some(mine), Some(theirs)) => mine.merge(&theirs),
            (mine, theirs) => *mine = mine.take().or(theirs),
        }
        self.agents = other.agents;
        (self.loaded, self.load_s) = (other.loaded, other.load_s);
    }

    /// The share of lookups that missed; 0 where there was none.
    #[must_use]
    pub fn miss_ratio(&self) -> f64 {
        let counts = &self.account.counts;
        if counts.gets > 0 { counts.misses as f64 / counts.gets as f64 } else { 0.0 }
    }
}
