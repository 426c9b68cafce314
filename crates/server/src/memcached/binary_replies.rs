//! Replies of the binary protocol that carry a status or a value.

use super::items::Answer;
use keyrack_wire::memcached::binary::{Reply, Request, Status, write_status};

/// Answers a lookup that found nothing.
pub(super) fn missed(request: &Request<'_>, key: &[u8], with_key: bool, out: &mut Vec<u8>) {
    let status = Status::KEY_NOT_FOUND;
    if !with_key || request.silences(status) {
        return failed(request, status, out);
    }
    let (opcode, opaque) = (request.opcode.number(), request.opaque);
    Reply { opcode, status, opaque, cas: 0, extras: b"", key, value: b"" }.write(out);
}

/// How the protocol says an answer.
pub(super) fn status_of(answer: &Answer) -> Status {
    match answer {
        Answer::Done(_) => Status::OK,
        Answer::NotStored => Status::NOT_STORED,
        Answer::Exists => Status::KEY_EXISTS,
        Answer::NotFound => Status::KEY_NOT_FOUND,
        Answer::NotANumber => Status::NOT_A_NUMBER,
        Answer::TooLarge => Status::TOO_LARGE,
        Answer::NoMemory => Status::OUT_OF_MEMORY,
        Answer::Failed(_) => INTERNAL,
    }
}

/// The store failed.
const INTERNAL: Status = Status(0x84);

pub(super) fn done(request: &Request<'_>, cas: u64, value: &[u8], out: &mut Vec<u8>) {
    if request.silences(Status::OK) {
        return;
    }
    let (opcode, opaque) = (request.opcode.number(), request.opaque);
    Reply { opcode, status: Status::OK, opaque, cas, extras: b"", key: b"", value }.write(out);
}

pub(super) fn failed(request: &Request<'_>, status: Status, out: &mut Vec<u8>) {
    if !request.silences(status) {
        write_status(out, request.opcode.number(), request.opaque, status);
    }
}
