//! Runs of `get`: the keys of one line and of the lines behind it, looked up together.
//!
//! ```text
//!   get a b\r\n get c\r\n ...      slots   a | b. | c.        (a dot: END follows)
//!                                            \  |  /
//!                                           multi_get          answers in any order
//!                                            /  |  \
//!                                  output  a, b, END, c, END   in the order of the slots
//! ```
//!
//! **Invariant:** one call writes at most [`super::output::ITERATION_OUTPUT_BYTES_MAX`] and one
//! value: a key behind that is left, and the request that it stands in is answered from there the
//! next time.

use super::cx::Cx;
use super::detail::Event;
use super::items::visible;
use super::output::{Cut, Output, server_error};
use crate::ordered::{Ordered, TOGETHER_MAX};
use keyrack_rowstore::Row;
use keyrack_wire::memcached::text::write_value;

/// A key, and where it stands.
#[derive(Clone, Copy, Default)]
struct Slot<'i> {
    key: &'i [u8],
    /// Where its request begins in the input.
    request: usize,
    /// Which key of the request it is.
    index: u32,
    with_cas: bool,
    /// The last key of its request.
    last: bool,
}

/// Why answering stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The output of this iteration is full.
    Full(Cut),
    /// The store could not be read; the client was told, and cannot make sense of what follows.
    Failed,
}

/// Keys waiting to be looked up.
pub(super) struct Run<'i> {
    slots: [Slot<'i>; TOGETHER_MAX],
    count: usize,
}

impl<'i> Run<'i> {
    pub(super) fn new() -> Self {
        Run { slots: [Slot::default(); TOGETHER_MAX], count: 0 }
    }

    /// Adds the keys of the request at `request`, but for the first `answered`, and looks up as
    /// many as make a full run.
    pub(super) fn add(
        &mut self,
        cx: &mut Cx<'_>,
        keys: impl Iterator<Item = &'i [u8]>,
        with_cas: bool,
        from: Cut,
        out: &mut Output<'_>,
    ) -> Result<(), Stop> {
        let mut keys = keys.skip(from.keys as usize).peekable();
        let mut index = from.keys;
        while let Some(key) = keys.next() {
            let last = keys.peek().is_none();
            self.slots[self.count] = Slot { key, request: from.request, index, with_cas, last };
            self.count += 1;
            index += 1;
            if self.count == TOGETHER_MAX {
                self.finish(cx, out)?;
                if !last && cx.work.is_slice_spent() {
                    return Err(Stop::Full(Cut { request: from.request, keys: index }));
                }
            }
        }
        Ok(())
    }

    /// Looks up what waits.
    pub(super) fn finish(&mut self, cx: &mut Cx<'_>, out: &mut Output<'_>) -> Result<(), Stop> {
        let count = std::mem::take(&mut self.count);
        if count == 0 {
            return Ok(());
        }
        let slots = &self.slots[..count];
        let begun = out.bytes.len();
        let keys: [&[u8]; TOGETHER_MAX] = std::array::from_fn(|index| self.slots[index].key);
        let mut ordered = Ordered::new(out.bytes, out.full_at, cx.scratch);
        let mut hits = 0;
        let (shared, now_ms) = (cx.shared, cx.now_ms);
        let mut add = |index: usize, row: Option<Row<'_>>| {
            let row = visible(row);
            let event = if row.is_some() { Event::Hit } else { Event::Miss };
            shared.detail.note(slots[index].key, event);
            if row.is_some() {
                hits += 1;
                shared.reads.read(slots[index].key, now_ms);
            }
            ordered.add(index, |out| reply(&slots[index], row, out));
        };
        let found = match keys[0] {
            key if count == 1 => cx.rows.get(key, &mut |row| add(0, Some(row))).map(|hit| {
                if !hit {
                    add(0, None);
                }
            }),
            _ => cx.rows.multi_get(&keys[..count], &mut add),
        };
        let next = ordered.written();
        if let Err(error) = found {
            out.bytes.truncate(begun);
            server_error(&error, out.bytes);
            return Err(Stop::Failed);
        }
        let counts = cx.counts;
        counts.cmd_get.add(next as u64);
        counts.get_hits.add(hits);
        counts.get_misses.add((next as u64).saturating_sub(hits));
        match slots.get(next) {
            None => Ok(()),
            Some(left) => Err(Stop::Full(Cut { request: left.request, keys: left.index })),
        }
    }
}

fn reply(slot: &Slot<'_>, row: Option<Row<'_>>, out: &mut Vec<u8>) {
    if let Some(row) = row {
        let cas = slot.with_cas.then(|| row.cas());
        write_value(out, slot.key, row.flags(), row.value(), cas);
    }
    if slot.last {
        out.extend_from_slice(b"END\r\n");
    }
}
