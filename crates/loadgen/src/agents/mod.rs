//! Load from several processes: a master that says when and how much, agents that do as they are
//! told and send everything that they counted.
//!
//! ```text
//!   master                                   agent
//!     Team::enlist    <-- Greeting, Hello, Welcome -->   serve: listens, one master at a time
//!     Team::prepare   --- Prepare: settings ------->     Runner::prepare
//!     Team::ready     --- Ready: rate ------------->     Runner::ready (connect, load, warm up)
//!     Team::start     --- Start: in so many ms ---->     Runner::run
//!     Team::collect   <-- Done: histograms, counts --
//!         again from Prepare, for the next rate; or Bye
//! ```
//!
//! Both sides say every second that they are alive. A side that hears nothing for five seconds
//! takes the other for dead: the master names it and goes on without it if the run has begun, the
//! agent stops what it does and listens again. Every step has a deadline.
//!
//! A token that both know is proved both ways and never sent. Without a token, agents listen on
//! loopback only, and masters connect to nothing else. The connection is not encrypted: settings
//! may hold passwords of servers, so where others can listen, agents belong behind a tunnel. The
//! messages are described byte by byte in `docs/protocols/load-agents.md`.
//!
//! The clocks of machines mean nothing here: a start is "in 500 ms" from when the message arrives,
//! so runs begin within the time that a message takes.
//!
//! **Invariant:** an agent that was abandoned, at whatever step, listens again. A master never
//! waits without a deadline.

mod agent;
mod deadlines;
mod error;
mod link;
mod message;
mod message_stream;
mod outcome;
mod shares;
mod team;
mod token;

#[cfg(test)]
mod tests;

/// Reads a message that somebody made up. What is one can be sent, and is then the same. Returns
/// its name, or how far it could be read.
#[cfg(test)]
pub(crate) fn fuzzed(bytes: &[u8]) -> String {
    match serde_json::from_slice::<message::Message>(bytes) {
        Ok(message) => {
            let again = serde_json::to_vec(&message).expect("what was read can be written");
            let read: message::Message = serde_json::from_slice(&again).expect("and read again");
            assert_eq!(read, message);
            message.name().to_owned()
        }
        Err(error) => {
            let text = error.to_string();
            text.chars().filter(|c| c.is_ascii_alphabetic() || *c == ' ').take(40).collect()
        }
    }
}

pub use agent::{AgentOptions, Doing, Runner, serve};
pub use deadlines::Deadlines;
pub use error::Error;
pub use link::{FleetRunner, Own, outcome, report};
pub use message::Prepared;
pub use outcome::Outcome;
pub use shares::{Fleet, Member, Rates};
pub use team::{Collected, Lost, Team};

/// The port that agents listen on unless they are told otherwise.
pub const PORT: u16 = 5556;
