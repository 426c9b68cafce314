//! A window of requests over a connection.
//!
//! ```text
//!   seq:   done ------------------ sent          slot of a request: seq & (window - 1)
//!          | answers missing, at most `window` |
//!                        | unsent | written with one call when they are half a window
//! ```
//!
//! **Invariant:** answers come in the order of the requests, and each echoes the number of its
//! request; anything else is a failure.

use super::slot::{ANSWER_BYTES_MAX, LIMITS, Slot, Wanted};
use keyrack_net::{ConnectOptions, Endpoint, Link};
use keyrack_wire::masstree::{Command, Reply, ReplyParser};
use keyrack_wire::msgpack::Int;
use keyrack_workload::kvtest::Halt;

/// What the handshake says, and every server takes.
const KEY_BYTES_MAX: u32 = 255;
/// Requests are sent when they have so many bytes, however few they are.
const UNSENT_BYTES_MAX: usize = 64 << 10;

/// See the module.
#[derive(Debug)]
pub(super) struct StreamWindow {
    link: Link,
    replies: ReplyParser,
    slots: Vec<Slot>,
    mask: u64,
    half: u64,
    sent: u64,
    done: u64,
    unsent: u64,
    /// Whether the server went away.
    is_lost: bool,
}

impl StreamWindow {
    /// Connects and says hello. `size` is a power of two.
    pub(super) fn connect(
        endpoint: &Endpoint,
        options: &ConnectOptions,
        size: u32,
    ) -> Result<StreamWindow, String> {
        let link = Link::connect(endpoint, options, ANSWER_BYTES_MAX);
        let link = link.map_err(|error| error.to_string())?;
        let size = u64::from(size);
        let mut window = StreamWindow {
            link,
            replies: ReplyParser::new(),
            slots: vec![Slot::default(); size as usize],
            mask: size - 1,
            half: (size / 2).max(1),
            sent: 0,
            done: 0,
            unsent: 0,
            is_lost: false,
        };
        let hello = Command::Handshake { core: None, max_key_bytes: KEY_BYTES_MAX };
        let refused = window.ask(&hello, |reply| match *reply {
            Reply::Handshake { .. } => Ok(()),
            Reply::Refused { why, .. } => Err(format!("refused: {}", why.escape_ascii())),
            _ => Err("no answer to the handshake".to_owned()),
        });
        let refused = refused.map_err(|halt| halt.to_string())?;
        refused.map(|()| window).map_err(|why| format!("{endpoint}: {why}"))
    }

    /// Whether the server went away: what it had acknowledged before is what it has to have kept.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Requests whose answers have come.
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// Sends a request whose answer is checked later; `expected` counts for [`Wanted::Value`].
    #[inline]
    pub(super) fn send(
        &mut self,
        command: &Command<'_>,
        wanted: Wanted,
        key: &[u8],
        expected: &[u8],
    ) -> Result<(), Halt> {
        if self.sent - self.done > self.mask {
            self.drain(self.half.min(self.mask))?;
        }
        self.slots[(self.sent & self.mask) as usize].set(wanted, key, expected);
        self.append(command);
        if self.unsent >= self.half || self.link.output().len() >= UNSENT_BYTES_MAX {
            self.flush()?;
        }
        Ok(())
    }

    /// Sends a request and waits for its answer, behind those of all requests before it.
    pub(super) fn ask<R>(
        &mut self,
        command: &Command<'_>,
        read: impl FnOnce(&Reply<'_>) -> R,
    ) -> Result<R, Halt> {
        if self.sent - self.done > self.mask {
            self.drain(self.half.min(self.mask))?;
        }
        self.append(command);
        self.flush()?;
        let last = self.sent - 1;
        loop {
            self.check_answers(last)?;
            if self.done == last {
                let input = self.link.input();
                let mut rest = input;
                if let Some(reply) = next(&mut self.replies, &mut rest)? {
                    in_turn(&reply, last)?;
                    let answer = read(&reply);
                    let bytes = input.len() - rest.len();
                    self.link.consume(bytes);
                    self.done += 1;
                    return Ok(answer);
                }
            }
            self.fill()?;
        }
    }

    /// Waits until at most `left` answers are missing.
    pub(super) fn drain(&mut self, left: u64) -> Result<(), Halt> {
        self.flush()?;
        loop {
            self.check_answers(self.sent)?;
            if self.sent - self.done <= left {
                return Ok(());
            }
            self.fill()?;
        }
    }

    #[inline]
    fn append(&mut self, command: &Command<'_>) {
        command.write(self.link.output(), Int::from(self.sent));
        self.sent += 1;
        self.unsent += 1;
    }

    fn flush(&mut self) -> Result<(), Halt> {
        self.unsent = 0;
        self.link.flush().map_err(|error| self.lost(&error))
    }

    fn fill(&mut self) -> Result<(), Halt> {
        self.link.fill().map_err(|error| self.lost(&error))
    }

    #[cold]
    fn lost(&mut self, error: &std::io::Error) -> Halt {
        self.is_lost = error.kind() != std::io::ErrorKind::TimedOut;
        Halt::failed(format!("server: {error}"))
    }

    /// Checks the answers that are there, up to that of the request before number `end`.
    #[inline]
    fn check_answers(&mut self, end: u64) -> Result<(), Halt> {
        let input = self.link.input();
        let mut rest = input;
        let mut result = Ok(());
        while self.done < end && result.is_ok() {
            match next(&mut self.replies, &mut rest) {
                Ok(Some(reply)) => {
                    let slot = &self.slots[(self.done & self.mask) as usize];
                    result = in_turn(&reply, self.done).and_then(|()| slot.check(&reply));
                    self.done += 1;
                }
                Ok(None) => break,
                Err(halt) => result = Err(halt),
            }
        }
        let bytes = input.len() - rest.len();
        self.link.consume(bytes);
        result
    }
}

#[inline]
fn next<'a>(replies: &mut ReplyParser, input: &mut &'a [u8]) -> Result<Option<Reply<'a>>, Halt> {
    replies.next(input, &LIMITS).map_err(|error| Halt::failed(format!("server: {error}")))
}

/// Insists that `reply` answers the request of number `seq`.
#[inline]
fn in_turn(reply: &Reply<'_>, seq: u64) -> Result<(), Halt> {
    if reply.seq() == Int::from(seq) {
        return Ok(());
    }
    Err(Halt::failed(format!("server: answers request {} instead of {seq}", reply.seq())))
}
