//! How many requests a second each process sends.
//!
//! The rate of `-q` is that of everybody together. It is dealt out by weights: a process weighs as
//! much as it has connections, times its `--lambda_mul`. The master may be taken out of this:
//!
//! | flags | master | each agent |
//! |---|---|---|
//! | `-q 0` | as fast as it is answered | the same |
//! | `-q N` | N by its weight | N by its weight |
//! | `-q N -Q M` | M | N - M by its weight |
//! | `-q 0 -Q M` | M | as fast as it is answered |
//! | `-T 0` | nothing | N by its weight |
//!
//! `-C` and `-D` give the master connections and a depth of its own; agents keep `-c` and `-d`.
//!
//! Where this differs from mutilate: with `--roundrobin` a process weighs its connections, there it
//! is `max(servers, threads * lambda_mul)`, which counts the multiplier once too little for few
//! threads.

use super::error::Error;
use super::message::Prepared;

/// A process that sends.
pub type Member = Prepared;

/// Everybody who sends.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// `-q`: requests a second of all together; 0 for as many as are answered.
    pub rate_per_s: f64,
    /// `-Q`: the master's own rate.
    pub measure_rate_per_s: Option<f64>,
    /// The master. With `-T 0` it has no connections.
    pub master: Member,
    /// The agents.
    pub agents: Vec<Member>,
}

/// Rates of everybody; `None` is as many as are answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// The master's. With `-T 0` it means nothing.
    pub master_per_s: Option<f64>,
    /// The agents', in their order.
    pub agents_per_s: Vec<Option<f64>>,
}

impl Fleet {
    /// Deals the rate out.
    ///
    /// # Errors
    /// `-Q` without a master that sends, or not below `-q`; nobody who sends.
    pub fn rates(&self) -> Result<Rates, Error> {
        let usage = |text: &str| Err(Error::Usage(text.to_owned()));
        let weigh =
            |member: &Member| f64::from(member.connections) * f64::from(member.lambda_mul.max(1));
        let (master, agents) = (weigh(&self.master), self.agents.iter().map(weigh));
        let agents: Vec<f64> = agents.collect();
        let agents_sum: f64 = agents.iter().sum();
        if master + agents_sum == 0.0 {
            return usage(
                "nobody sends: the master has no threads (-T 0) and there are no agents (-a)",
            );
        }
        let measure_rate = self.measure_rate_per_s.filter(|rate| *rate > 0.0);
        if measure_rate.is_some() && master == 0.0 {
            return usage("a master without threads (-T 0) cannot have a rate of its own (-Q)");
        }
        let peak = self.rate_per_s == 0.0;
        let (left_per_s, sum) = match measure_rate {
            Some(own) if !peak && own >= self.rate_per_s && agents_sum > 0.0 => {
                return usage("the master's rate (-Q) must be below that of all together (-q)");
            }
            Some(own) => (self.rate_per_s - own, agents_sum),
            None => (self.rate_per_s, master + agents_sum),
        };
        let share = |weight: &f64| (!peak).then_some(left_per_s * weight / sum);
        let master_per_s = measure_rate.or_else(|| share(&master));
        Ok(Rates { master_per_s, agents_per_s: agents.iter().map(share).collect() })
    }
}
