//! The deadlines of a session between master and agent.

use std::time::Duration;

/// How long each step may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// For a connection.
    pub connect: Duration,
    /// For the answer to what needs no work: who one is, whether settings make sense.
    pub answer: Duration,
    /// For connecting to servers, loading and warming up.
    pub ready: Duration,
    /// For results, beyond the length of the run.
    pub finish: Duration,
    /// Between signs of life that are sent.
    pub beat: Duration,
    /// Without a sign of life, after which the other side is dead.
    pub silence: Duration,
}

impl Default for Deadlines {
    fn default() -> Deadlines {
        Deadlines {
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(10),
            ready: Duration::from_secs(3600),
            finish: Duration::from_secs(60),
            beat: Duration::from_secs(1),
            silence: Duration::from_secs(5),
        }
    }
}
