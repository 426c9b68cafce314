//! What goes wrong, how often, and by how much.
//!
//! ```text
//!   delay=5ms@0.1     the reply waits
//!   partial=3ms@0.01  the reply is cut at a random place; the rest waits
//!   drip=1ms@0.01     the reply comes byte by byte, one each millisecond
//!   error@0.01        an error instead of the reply: SERVER_ERROR, -ERR, status 0x84
//!   garbage@0.01      random bytes instead of the reply
//!   cut@0.01          a part of the reply, then the end of the connection
//!   close@0.01        the end of the connection instead of the reply
//!   reset@0.01        the same as a reset
//!   swallow@0.01      no reply at all
//!   freeze=1s/10s     every ten seconds the whole server stands still for one
//! ```
//!
//! They are joined by commas. A request meets one of them at most: probabilities add up to 1 or
//! less. How long waits are may be a distribution, such as `delay=exponential:0.2@0.5`, in
//! milliseconds.

use keyrack_workload::{Distribution, Rng};

use super::error::Error;
use super::timed_reply::{AfterSend, TimedReply};
use crate::durations::parse_ns;

const GARBAGE_BYTES_MAX: u64 = 64;

/// What can go wrong, by the names of the text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Delay,
    Partial,
    Drip,
    Error,
    Garbage,
    Cut,
    Close,
    Reset,
    Swallow,
}

const NAMES: [(&str, Fault, bool); 9] = [
    ("delay", Fault::Delay, true),
    ("partial", Fault::Partial, true),
    ("drip", Fault::Drip, true),
    ("error", Fault::Error, false),
    ("garbage", Fault::Garbage, false),
    ("cut", Fault::Cut, false),
    ("close", Fault::Close, false),
    ("reset", Fault::Reset, false),
    ("swallow", Fault::Swallow, false),
];

/// A list of faults with their probabilities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    list: Vec<(Fault, Distribution, f64)>,
    /// Length and period.
    freeze_ns: Option<(u64, u64)>,
}

impl Faults {
    /// Reads the text form.
    ///
    /// # Errors
    /// What cannot be read, and why.
    pub fn parse(text: &str) -> Result<Faults, Error> {
        let mut faults = Faults::default();
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let usage = |problem: &str| Error::Usage { text: item.into(), problem: problem.into() };
            if let Some(times) = item.strip_prefix("freeze=") {
                faults.freeze_ns = Some(freeze(times).ok_or_else(|| {
                    usage("expected LENGTH/PERIOD, the length shorter, such as freeze=1s/10s")
                })?);
                continue;
            }
            let (what, share) =
                item.rsplit_once('@').ok_or_else(|| usage("say how often, such as close@0.01"))?;
            let share: f64 = share.parse().map_err(|_| usage("the share is no number"))?;
            let (name, amount) = what.split_once('=').unwrap_or((what, ""));
            let known = NAMES.iter().find(|(known, _, _)| *known == name);
            let (_, fault, waits) = *known.ok_or_else(|| {
                let names: Vec<&str> = NAMES.iter().map(|(name, _, _)| *name).collect();
                usage(&format!("expected one of {} freeze", names.join(" ")))
            })?;
            if waits == amount.is_empty() {
                return Err(usage(if waits { "say how long" } else { "takes no length" }));
            }
            let distribution = if waits { wait(amount)? } else { Distribution::Fixed(0.0) };
            faults.list.push((fault, distribution, share));
        }
        let sum: f64 = faults.list.iter().map(|(_, _, share)| share).sum();
        if faults.list.iter().any(|(_, _, share)| !(0.0..=1.0).contains(share)) || sum > 1.0 + 1e-9
        {
            let problem = "shares are 0 to 1, and not more than 1 together".to_owned();
            return Err(Error::Usage { text: text.to_owned(), problem });
        }
        Ok(faults)
    }

    /// How long the server stands still, given how long it has been running; `None` while it works.
    pub(super) fn frozen_until_ns(&self, since_start_ns: u64) -> Option<u64> {
        let (length_ns, period_ns) = self.freeze_ns?;
        let into_ns = since_start_ns % period_ns;
        let from_ns = period_ns - length_ns;
        // The end of each period, so that a run begins with a server that works.
        (into_ns >= from_ns).then(|| since_start_ns - into_ns + period_ns)
    }

    /// Turns a reply into what is sent of it and when; true when that is a fault.
    pub(super) fn inject(
        &self,
        now_ns: u64,
        reply: Vec<u8>,
        is_binary: bool,
        is_resp: bool,
        rng: &mut Rng,
        put: &mut dyn FnMut(TimedReply),
    ) -> bool {
        let Some((fault, distribution)) = self.draw(rng) else {
            put(TimedReply::now(reply));
            return false;
        };
        let mut wait_ns = || (distribution.sample(rng) * 1e6) as u64;
        match fault {
            Fault::Delay => put(TimedReply::at(now_ns + wait_ns(), reply)),
            Fault::Partial => {
                let wait_ns = wait_ns();
                let mut first = reply;
                let rest = first.split_off(rng.below(first.len() as u64 + 1) as usize);
                put(TimedReply::now(first));
                put(TimedReply::at(now_ns + wait_ns, rest));
            }
            Fault::Drip => {
                let mut at_ns = now_ns;
                for byte in reply {
                    put(TimedReply::at(at_ns, vec![byte]));
                    at_ns += wait_ns();
                }
            }
            Fault::Error => put(TimedReply::now(error(&reply, is_binary, is_resp))),
            Fault::Garbage => {
                let mut bytes = vec![0; rng.range(1, GARBAGE_BYTES_MAX) as usize];
                rng.fill(&mut bytes);
                put(TimedReply::now(bytes));
            }
            Fault::Cut => {
                let mut first = reply;
                first.truncate(rng.below(first.len() as u64) as usize);
                put(TimedReply { after: AfterSend::Close, ..TimedReply::now(first) });
            }
            Fault::Close => {
                put(TimedReply { after: AfterSend::Close, ..TimedReply::now(Vec::new()) });
            }
            Fault::Reset => {
                put(TimedReply { after: AfterSend::Reset, ..TimedReply::now(Vec::new()) });
            }
            Fault::Swallow => {}
        }
        true
    }

    fn draw(&self, rng: &mut Rng) -> Option<(Fault, &Distribution)> {
        let mut place = rng.unit();
        for (fault, distribution, share) in &self.list {
            if place < *share {
                return Some((*fault, distribution));
            }
            place -= share;
        }
        None
    }
}

/// A length of time, or a distribution of milliseconds.
fn wait(text: &str) -> Result<Distribution, Error> {
    match parse_ns(text, 1e6) {
        Some(ns) => Ok(Distribution::Fixed(ns as f64 / 1e6)),
        None => Ok(Distribution::parse(text)?),
    }
}

fn freeze(text: &str) -> Option<(u64, u64)> {
    let (length, period) = text.split_once('/')?;
    let (length, period) = (parse_ns(length, 1e9)?, parse_ns(period, 1e9)?);
    (length > 0 && length < period).then_some((length, period))
}

/// An error in the words of the protocol. Of the binary one the opaque goes back.
fn error(reply: &[u8], is_binary: bool, is_resp: bool) -> Vec<u8> {
    use keyrack_wire::memcached::binary::{Status, write_status};
    let mut out = Vec::new();
    if is_resp {
        out.extend_from_slice(b"-ERR made to fail\r\n");
    } else if is_binary {
        let opaque = reply.get(12..16).and_then(|bytes| bytes.first_chunk::<4>());
        let opaque = opaque.map_or(0, |bytes| u32::from_be_bytes(*bytes));
        let opcode = reply.get(1).copied().unwrap_or(0);
        write_status(&mut out, opcode, opaque, Status::OUT_OF_MEMORY);
    } else {
        out.extend_from_slice(b"SERVER_ERROR made to fail\r\n");
    }
    out
}
