//! Replies in memcached's binary messages: 24 bytes of header, then a body whose length the header
//! tells.

use super::result::{Failure, Outcome};
use super::state::{Malformed, Phase, ReplyState, Step};

const HEADER_BYTES: usize = 24;
const REPLY: u8 = 0x81;

const GET: u8 = 0x00;
const GETQ: u8 = 0x09;
const NOOP: u8 = 0x0a;

pub(super) fn step(state: &mut ReplyState, buffer: &[u8]) -> Result<Step, Malformed> {
    let Some(header) = buffer.first_chunk::<HEADER_BYTES>() else {
        return match buffer.first() {
            Some(&magic) if magic != REPLY => Err(Malformed("a first byte")),
            _ => Ok(Step::More),
        };
    };
    let [magic, opcode, key0, key1, extras_bytes, _, status0, status1, rest @ ..] = *header;
    let [b0, b1, b2, b3, o0, o1, o2, o3, token @ ..] = rest;
    if magic != REPLY {
        return Err(Malformed("a first byte"));
    }
    let body_bytes = u32::from_be_bytes([b0, b1, b2, b3]) as usize;
    let front = usize::from(extras_bytes) + usize::from(u16::from_be_bytes([key0, key1]));
    if front > body_bytes {
        return Err(Malformed("a body shorter than its parts"));
    }
    let whole = HEADER_BYTES + body_bytes;
    let status = u16::from_be_bytes([status0, status1]);
    state.opaque = Some(u32::from_be_bytes([o0, o1, o2, o3]));
    let is_value = status == 0 && matches!(opcode, GET | GETQ);
    if buffer.len() < whole && (!is_value || state.keeps_values) {
        return Ok(Step::More);
    }
    let outcome = outcome(opcode, status, u64::from_be_bytes(token));
    if let Outcome::Failed(_) = outcome {
        state.note_failure(outcome, &buffer[HEADER_BYTES + front..whole]);
    }
    if is_value && buffer.len() >= whole {
        state.value = Some(HEADER_BYTES + front..whole);
    }
    // Of several keys the hits alone answer; the no-operation ends them.
    let finished = match (opcode, outcome) {
        (GETQ, Outcome::Hit { .. }) => {
            state.hits += 1;
            None
        }
        (GETQ, failed) => {
            state.failed = Some(failed);
            None
        }
        (NOOP, _) => {
            let hits = std::mem::take(&mut state.hits);
            Some(state.failed.take().unwrap_or(Outcome::Hits(hits)))
        }
        (_, outcome) => Some(outcome),
    };
    if buffer.len() >= whole {
        return Ok(match finished {
            Some(outcome) => Step::Done(whole, outcome),
            None => Step::Eaten(whole),
        });
    }
    state.phase = Phase::Body { left: (whole - buffer.len()) as u64, outcome: finished };
    Ok(Step::Eaten(buffer.len()))
}

fn outcome(opcode: u8, status: u16, token: u64) -> Outcome {
    match (status, opcode) {
        (0, GET | GETQ) => Outcome::Hit { token },
        (0, _) => Outcome::Stored,
        (1, _) => Outcome::Miss,
        (2 | 5, _) => Outcome::NotStored,
        (3, _) => Outcome::Failed(Failure::TooLarge),
        (4 | 6, _) => Outcome::Failed(Failure::Client),
        (0x20 | 0x21, _) => Outcome::Failed(Failure::Auth),
        (0x81, _) => Outcome::Failed(Failure::UnknownCommand),
        (0x82, _) => Outcome::Failed(Failure::OutOfMemory),
        (0x85 | 0x86, _) => Outcome::Failed(Failure::Busy),
        _ => Outcome::Failed(Failure::Server),
    }
}
