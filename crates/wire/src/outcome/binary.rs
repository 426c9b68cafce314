//! Replies in memcached's binary messages: a header, then a body whose length the header has.

use super::result::{Failure, Outcome};
use super::state::{Malformed, Phase, ReplyState, Step};
use crate::memcached::binary::header::{HEADER_BYTES, Header, REPLY};
use crate::memcached::binary::{Opcode, Status};

const GET: u8 = Opcode::Get.number();
const GETQ: u8 = Opcode::Getq.number();
const NOOP: u8 = Opcode::Noop.number();

#[inline]
pub(super) fn step(state: &mut ReplyState, buffer: &[u8]) -> Result<Step, Malformed> {
    let Some(header) = buffer.first_chunk() else {
        return match buffer.first() {
            Some(&magic) if magic != REPLY => Err(Malformed("a first byte")),
            _ => Ok(Step::More),
        };
    };
    let header = Header::read(header);
    if header.magic != REPLY {
        return Err(Malformed("a first byte"));
    }
    let body_bytes = header.body_bytes as usize;
    let front = usize::from(header.extras_bytes) + usize::from(header.key_bytes);
    if front > body_bytes {
        return Err(Malformed("a body shorter than its parts"));
    }
    let whole = HEADER_BYTES + body_bytes;
    let Header { opcode, cas, .. } = header;
    let status = Status(header.status);
    state.opaque = Some(header.opaque);
    let is_value = status == Status::OK && matches!(opcode, GET | GETQ);
    if buffer.len() < whole && (!is_value || state.keeps_values) {
        return Ok(Step::More);
    }
    let outcome = outcome(opcode, status, cas);
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

#[inline]
fn outcome(opcode: u8, status: Status, token: u64) -> Outcome {
    Outcome::Failed(match status {
        Status::OK if matches!(opcode, GET | GETQ) => return Outcome::Hit { token },
        Status::OK => return Outcome::Stored,
        Status::KEY_NOT_FOUND => return Outcome::Miss,
        Status::KEY_EXISTS | Status::NOT_STORED => return Outcome::NotStored,
        Status::TOO_LARGE => Failure::TooLarge,
        Status::INVALID | Status::NOT_A_NUMBER => Failure::Client,
        Status::AUTH_ERROR | Status::AUTH_CONTINUE => Failure::Auth,
        Status::UNKNOWN_COMMAND => Failure::UnknownCommand,
        Status::OUT_OF_MEMORY => Failure::OutOfMemory,
        Status::BUSY | Status::TEMPORARY_FAILURE => Failure::Busy,
        _ => Failure::Server,
    })
}
