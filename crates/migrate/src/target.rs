//! Commands that go to a server, many at once, and what became of them.
//!
//! ```text
//!   command --> unsent --flush--> in flight (at most IN_FLIGHT_MAX) --reply--> outcome
//! ```
//!
//! **Invariant:** outcomes come in the order of the commands, and none is left when
//! [`Target::drain`] returns.

use crate::client::Client;
use crate::encode::{Commands, Role};
use crate::error::{Error, Result};
use crate::url::Url;
use keyrack_wire::resp::{Reply, Token};
use std::collections::VecDeque;

/// Commands whose replies have not come.
const IN_FLIGHT_MAX: usize = 4096;
/// Bytes after which commands are sent.
const SEND_BYTES: usize = 64 << 10;
/// Errors after which no other command would do better.
const FATAL: [&str; 7] =
    ["OOM", "NOAUTH", "NOPERM", "READONLY", "MISCONF", "LOADING", "MASTERDOWN"];

/// A command in flight.
struct InFlight {
    role: Role,
    key: Vec<u8>,
    /// Of a change: its other keys.
    more_keys: Vec<Vec<u8>>,
    /// It gives its other key the value of the first.
    is_copy: bool,
    /// Of a change: the reply that says that it changed nothing here, though it did at the source.
    unchanged: Option<Kind>,
}

/// What a reply says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The string is stored.
    String,
    /// The hash is stored.
    Hash,
    /// The key exists already, and was kept.
    Exists,
    /// The destination refuses the row.
    Refused(String),
    /// The change cannot be repeated here.
    Unclear,
    /// This key has now what the other one had.
    Follows(Vec<u8>),
}

/// A server that gets rows and changes.
pub(crate) struct Target {
    client: Client,
    in_flight: VecDeque<InFlight>,
    outcomes: Vec<(Vec<u8>, Outcome)>,
    /// The first error of the row at hand.
    refused: Option<String>,
}

impl Target {
    pub(crate) fn connect(url: &Url) -> Result<Target> {
        let mut client = Client::connect(url)?;
        if let Some(db) = url.db {
            let reply = client.ask(&[b"SELECT", db.to_string().as_bytes()])?;
            client.expect_no_error(reply)?;
        }
        Ok(Target { client, in_flight: VecDeque::new(), outcomes: Vec::new(), refused: None })
    }

    /// Sends a command after all others, and waits for its reply.
    pub(crate) fn ask(&mut self, args: &[&[u8]]) -> Result<crate::client::Value> {
        self.drain()?;
        let reply = self.client.ask(args)?;
        self.client.expect_no_error(reply)
    }

    /// Waits for all replies.
    pub(crate) fn drain(&mut self) -> Result<()> {
        self.client.flush()?;
        self.wait_until(0)
    }

    /// The outcomes that have come.
    pub(crate) fn take_outcomes(&mut self) -> Vec<(Vec<u8>, Outcome)> {
        std::mem::take(&mut self.outcomes)
    }

    fn wait_until(&mut self, left: usize) -> Result<()> {
        while self.in_flight.len() > left {
            let command = self.in_flight.pop_front().expect("one is in flight");
            let (error, kind) = self.client.receive(|reply| (first_error(reply), kind(reply)))?;
            let error = error.map(|error| String::from_utf8_lossy(&error).into_owned());
            if let Some(error) = error.as_ref().filter(|error| is_fatal(error)) {
                return Err(Error::server(self.client.name(), error));
            }
            self.judge(command, error, kind);
        }
        Ok(())
    }

    /// What the reply to a command means. Of a row of several commands the first error counts.
    fn judge(&mut self, command: InFlight, error: Option<String>, kind: Kind) {
        let is_unclear = error.is_some() || command.unchanged == Some(kind);
        let outcome = match (command.role, error) {
            (Role::Change, _) => {
                if is_unclear {
                    let keys = std::iter::once(command.key).chain(command.more_keys);
                    self.outcomes.extend(keys.map(|key| (key, Outcome::Unclear)));
                } else if let ([target], true) = (&command.more_keys[..], command.is_copy) {
                    self.outcomes.push((target.clone(), Outcome::Follows(command.key)));
                }
                return;
            }
            (Role::Part, error) => {
                self.refused = self.refused.take().or(error);
                return;
            }
            (role, error) => match self.refused.take().or(error) {
                Some(error) => Outcome::Refused(error),
                None if role == Role::Hash => Outcome::Hash,
                None if role == Role::StringIfAbsent && kind == Kind::Null => Outcome::Exists,
                None => Outcome::String,
            },
        };
        self.outcomes.push((command.key, outcome));
    }
}

impl Commands for Target {
    fn command(&mut self, role: Role, key: &[u8], args: &[&[u8]]) -> Result<()> {
        let more_keys = if role == Role::Change { more_keys(args) } else { Vec::new() };
        let is_copy = is_copy(args[0]);
        let unchanged = unchanged(args);
        self.client.send(args);
        let key = key.to_vec();
        self.in_flight.push_back(InFlight { role, key, more_keys, is_copy, unchanged });
        if self.client.unsent_bytes() >= SEND_BYTES || self.in_flight.len() >= IN_FLIGHT_MAX {
            self.client.flush()?;
            self.wait_until(IN_FLIGHT_MAX / 2)?;
        }
        Ok(())
    }
}

fn is_fatal(error: &str) -> bool {
    FATAL.iter().any(|fatal| error.starts_with(fatal))
}

/// Whether a change gives its second key what the first one has.
fn is_copy(name: &[u8]) -> bool {
    [&b"RENAME"[..], b"RENAMENX", b"COPY"].iter().any(|copy| name.eq_ignore_ascii_case(copy))
}

/// The reply that says that a change was none. At the source it was one, or it would not be in
/// its history.
fn unchanged(args: &[&[u8]]) -> Option<Kind> {
    let has = |option: &[u8]| args.iter().skip(3).any(|arg| arg.eq_ignore_ascii_case(option));
    match args[0].to_ascii_uppercase().as_slice() {
        b"COPY" | b"RENAMENX" | b"SETNX" | b"MSETNX" | b"HSETNX" => Some(Kind::Zero),
        b"SET" if (has(b"NX") || has(b"XX")) && !has(b"GET") => Some(Kind::Null),
        _ => None,
    }
}

/// The keys of a change behind the first one.
fn more_keys(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let step = match args[0].to_ascii_uppercase().as_slice() {
        name if is_copy(name) => {
            return args.get(2).map(|key| key.to_vec()).into_iter().collect();
        }
        b"DEL" | b"UNLINK" => 1,
        b"MSET" | b"MSETNX" => 2,
        _ => return Vec::new(),
    };
    args.iter().skip(1 + step).step_by(step).map(|key| key.to_vec()).collect()
}

/// The shape of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Null,
    Zero,
    Other,
}

fn kind(reply: Reply<'_>) -> Kind {
    match reply.head() {
        Token::Null => Kind::Null,
        Token::Integer(0) => Kind::Zero,
        _ => Kind::Other,
    }
}

/// The first error in a reply, also within that of a transaction.
fn first_error(reply: Reply<'_>) -> Option<Vec<u8>> {
    reply.tokens().find_map(|token| match token {
        Token::Error(text) => Some(text.to_vec()),
        _ => None,
    })
}
