//! Runs of binary gets, looked up together: what a client of the binary protocol sends for many
//! keys is `GETQ a, GETQ b, .. GETQ z, NOOP`, or `GET` at the end.
//!
//! ```text
//!   GETQ a | GETQ b | GETKQ c | NOOP        waiting  a, b, c       the request behind them ends
//!                                              multi_get           the run
//!                                    output   a, c                 b is a miss, and quiet
//! ```
//!
//! **Invariant:** as for text: one call fills the output to its limit and one value at most, and
//! what is left is read from the input again.

use super::binary_replies::{failed, missed, status_of};
use super::cx::Cx;
use super::detail::Event;
use super::items::{self, visible};
use super::output::Output;
use crate::durations::Kind;
use crate::ordered::{Ordered, TOGETHER_MAX};
use keyrack_rowstore::Row;
use keyrack_wire::memcached::binary::{Command, Request, write_value};

#[derive(Clone, Copy)]
struct Waiting<'i> {
    request: Request<'i>,
    key: &'i [u8],
    with_key: bool,
    /// Where it begins in the input.
    at: usize,
}

/// Gets that wait for each other.
pub(super) struct Run<'i> {
    waiting: [Option<Waiting<'i>>; TOGETHER_MAX],
    count: usize,
}

impl<'i> Run<'i> {
    pub(super) fn new() -> Self {
        Run { waiting: [None; TOGETHER_MAX], count: 0 }
    }

    pub(super) fn is_full(&self) -> bool {
        self.count == TOGETHER_MAX
    }

    /// Takes a request that stands at `at`, if it is a get that writes nothing.
    pub(super) fn push(&mut self, request: &Request<'i>, at: usize) -> bool {
        let Command::Get { key, with_key, exptime: None } = request.command else { return false };
        if self.is_full() {
            return false;
        }
        self.waiting[self.count] = Some(Waiting { request: *request, key, with_key, at });
        self.count += 1;
        true
    }

    /// Looks up what waits. Where the output is full before the end, says where the first get that
    /// was left begins.
    pub(super) fn finish(&mut self, cx: &mut Cx<'_>, out: &mut Output<'_>) -> Option<usize> {
        let count = std::mem::take(&mut self.count);
        if count == 0 {
            return None;
        }
        let waiting = &self.waiting[..count];
        let begun = out.bytes.len();
        let mut keys: [&[u8]; TOGETHER_MAX] = [&[]; TOGETHER_MAX];
        for (key, get) in keys.iter_mut().zip(waiting.iter().flatten()) {
            *key = get.key;
        }
        let mut hits = 0;
        let (shared, now_ms) = (cx.shared, cx.now_ms);
        let mut ordered = Ordered::new(out.bytes, out.full_at, cx.scratch);
        let mut add = |index: usize, row: Option<Row<'_>>| {
            let Some(Some(get)) = waiting.get(index) else { return };
            ordered.add(index, |out| {
                let row = visible(row);
                let event = if row.is_some() { Event::Hit } else { Event::Miss };
                shared.detail.note(get.key, event);
                if row.is_some() {
                    hits += 1;
                    shared.reads.read(get.key, now_ms);
                }
                reply(get, row, out);
            });
        };
        let found = match count {
            1 => cx.rows.get(keys[0], &mut |row| add(0, Some(row))).map(|hit| {
                if !hit {
                    add(0, None);
                }
            }),
            _ => cx.rows.multi_get(&keys[..count], &mut add),
        };
        let written = match found {
            Ok(()) => ordered.written(),
            Err(error) => {
                out.bytes.truncate(begun);
                hits = 0;
                let status = status_of(&items::failure(error));
                let requests = waiting.iter().flatten();
                requests.for_each(|get| failed(&get.request, status, out.bytes));
                count
            }
        };
        cx.requested(Kind::Get, written as u32);
        cx.counts.cmd_get.add(written as u64);
        cx.counts.get_hits.add(hits);
        cx.counts.get_misses.add((written as u64).saturating_sub(hits));
        waiting.get(written).copied().flatten().map(|left| left.at)
    }
}

fn reply(get: &Waiting<'_>, row: Option<Row<'_>>, out: &mut Vec<u8>) {
    let Some(row) = row else { return missed(&get.request, get.key, get.with_key, out) };
    let about = (get.request.opcode.number(), get.request.opaque);
    let key = if get.with_key { get.key } else { b"" };
    write_value(out, about, key, row.flags(), row.cas(), row.value());
}
