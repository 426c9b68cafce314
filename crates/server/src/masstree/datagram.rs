//! Datagrams: one request each, without a handshake, and an answer that is never large.
//!
//! The address that a datagram claims to come from proves nothing, so an answer is at most as long
//! as the wire's rules say (`datagram_reply_bytes_max`: the request's own length, or a few dozen
//! bytes), and never above [`REPLY_BYTES_MAX`]. An answer that would be longer is `[seq, -1]`.

use super::{Cx, execute, scan};
use keyrack_wire::masstree::{
    Columns, ReplyWriter, Request, datagram as parse, datagram_reply_bytes_max,
};
use keyrack_wire::msgpack::Int;

/// Bytes of an answer, whatever the request: what passes every network in one piece.
pub(crate) const REPLY_BYTES_MAX: usize = 1400;

const SCAN_ROWS_MAX: u64 = 64;

/// Carries out the request in `bytes`, and appends its answer to `reply`; nothing to what is no
/// request.
pub(crate) fn datagram(cx: &mut Cx<'_>, bytes: &[u8], reply: &mut Vec<u8>) {
    cx.counts.requests.add(1);
    let Ok(request) = parse(bytes, cx.limits) else {
        cx.counts.errors.add(1);
        return;
    };
    let begun = reply.len();
    match request {
        Request::Scan { seq, first, count, columns } => {
            scan_few(cx, (seq, first, count), columns, reply);
        }
        request => {
            execute::execute(cx, &request, reply);
        }
    }
    let reply_bytes_max = datagram_reply_bytes_max(bytes.len()).min(REPLY_BYTES_MAX);
    if reply.len() - begun > reply_bytes_max {
        reply.truncate(begun);
        ReplyWriter::new(reply).unknown(request.seq());
    }
}

fn scan_few(
    cx: &mut Cx<'_>,
    (seq, first, count): (Int, &[u8], u64),
    columns: Columns<'_>,
    reply: &mut Vec<u8>,
) {
    let begun = reply.len();
    if scan::begin(cx, (seq, first, count.min(SCAN_ROWS_MAX)), columns, reply).is_err() {
        cx.counts.errors.add(1);
        reply.truncate(begun);
        ReplyWriter::new(reply).unknown(seq);
    }
}
