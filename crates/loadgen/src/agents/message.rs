//! What master and agent say to each other. `docs/protocols/load-agents.md` is the same for people.

use serde::{Deserialize, Serialize};

use super::outcome::Outcome;

/// The version of this language. Both sides must speak the same one.
pub(super) const VERSION: u32 = 3;
/// What an agent begins with, so that a master knows whom it has reached.
pub(super) const NAME: &str = "keyrack-load-agent";

/// What an agent is, as far as shares of the rate need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// Its threads.
    pub threads: u32,
    /// Its connections, of all threads to all servers.
    pub connections: u32,
    /// Its `--lambda_mul`.
    pub lambda_mul: u32,
}

/// A message, of either side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Message {
    /// Agent: the first message.
    Greeting { name: String, version: u32, nonce: String, wants_token: bool },
    /// Master: who it is.
    Hello { version: u32, nonce: String, proof: Option<String> },
    /// Agent: come in.
    Welcome { proof: Option<String> },
    /// Agent: go away, and why.
    Refused { reason: String },
    /// Master: what is to be done. `agent` is the number of the agent, from 1.
    Prepare { agent: u32, settings: serde_json::Value },
    /// Agent: it can be done.
    Prepared(Prepared),
    /// Master: connect, load, warm up; then there will be so many requests a second, or as many as
    /// are answered.
    Ready { rate_per_s: Option<f64> },
    /// Agent: waits for the start.
    IsReady,
    /// Master: begin, so many milliseconds from now.
    Start { in_ms: u64 },
    /// Agent: what came of it.
    Done { outcome: Box<Outcome> },
    /// Agent: it cannot be done, and why.
    Failed { reason: String },
    /// Master: stop what you do; the answer to it is still wanted.
    Abort,
    /// Either: I am alive. An agent adds how many requests were answered.
    Beat { ops: u64 },
    /// Master: that was all.
    Bye,
}

impl Message {
    /// Its name, for complaints.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Message::Greeting { .. } => "greeting",
            Message::Hello { .. } => "hello",
            Message::Welcome { .. } => "welcome",
            Message::Refused { .. } => "refused",
            Message::Prepare { .. } => "prepare",
            Message::Prepared(_) => "prepared",
            Message::Ready { .. } => "ready",
            Message::IsReady => "is_ready",
            Message::Start { .. } => "start",
            Message::Done { .. } => "done",
            Message::Failed { .. } => "failed",
            Message::Abort => "abort",
            Message::Beat { .. } => "beat",
            Message::Bye => "bye",
        }
    }
}
