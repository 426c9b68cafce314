//! GETs and MGETs: many keys looked up side by side, answered in their order.

use keyrack_wire::resp::Writer;

use crate::redis::call::{Call, string_of};
use crate::redis::context::{Context, Desk};
use crate::redis::fault::{Done, Fault};
use crate::redis::shared::bump;
use crate::redis::state::State;
use crate::redis::table;

/// Keys that are looked up together.
pub(crate) const RUN_MAX: usize = 64;

/// Keys that are looked up together before anything is known of their values.
pub(crate) const RUN_AT_FIRST: usize = 16;

/// Bytes of a reply above which the next run has one key, and below which it may grow.
const LARGE_REPLY_BYTES: usize = 8 << 10;

/// GETs that stand next to each other in the input.
#[derive(Debug)]
pub(crate) struct Run<'i> {
    keys: [&'i [u8]; RUN_MAX],
    count: usize,
}

impl<'i> Run<'i> {
    #[inline]
    pub(crate) fn new() -> Self {
        Run { keys: [&[]; RUN_MAX], count: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Adds a key; there is room for [`RUN_MAX`].
    #[inline]
    pub(crate) fn push(&mut self, key: &'i [u8]) {
        self.keys[self.count] = key;
        self.count += 1;
    }

    /// Answers the GETs and forgets them. `run_max` follows the size of the values.
    #[inline]
    pub(crate) fn answer(
        &mut self,
        cx: &mut Context<'_, '_>,
        state: &State,
        output: &mut Vec<u8>,
        run_max: &mut usize,
    ) {
        if self.count == 0 {
            return;
        }
        let (_, mut desk) = cx.split();
        let keys = &self.keys[..self.count];
        let began = desk.local.clock.ticks();
        bump(&desk.counters().calls[usize::from(table::GET)], keys.len() as u64);
        let place = output.len();
        let mut reply = Writer::new(output, state.protocol());
        if let Err(fault) = look_up(&mut desk, keys, &mut reply, OnHash::Error) {
            reply.cut(place);
            bump(&desk.counters().failed, keys.len() as u64);
            bump(&desk.counters().failed_calls[usize::from(table::GET)], keys.len() as u64);
            for _ in keys {
                fault.with_line(|line| reply.error(line));
            }
        }
        desk.local.spent(desk.counters(), table::GET, began);
        *run_max = next_run_max(*run_max, reply.place() - place, keys.len());
        self.count = 0;
    }
}

/// What stands in the reply for a key that is not a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnHash {
    Error,
    Null,
}

/// Writes the value of each key, or that there is none, in the order of `keys`, of which there are
/// at most [`RUN_MAX`].
#[inline]
fn look_up(
    desk: &mut Desk<'_>,
    keys: &[&[u8]],
    reply: &mut Writer<'_>,
    on_hash: OnHash,
) -> Result<(), Fault> {
    let (mut hits, mut misses, mut failed) = (0, 0, 0);
    let mut put = |row: Option<keyrack_rowstore::Row<'_>>, reply: &mut Writer<'_>| {
        match row {
            Some(_) => hits += 1,
            None => misses += 1,
        }
        match (string_of(row.as_ref()), on_hash) {
            (Ok(Some(value)), _) => reply.bulk(value),
            (Ok(None), _) | (Err(_), OnHash::Null) => reply.null(),
            (Err(fault), OnHash::Error) => {
                failed += 1;
                fault.with_line(|line| reply.error(line));
            }
        }
    };
    if let [key] = keys {
        if !desk.rows.get(key, &mut |row| put(Some(row), reply))? {
            put(None, reply);
        }
    } else {
        // Rows may come in any order; where each reply lies says how to put them right.
        let place = reply.place();
        let mut places = [(0, 0); RUN_MAX];
        let (mut next, mut in_order) = (0, true);
        desk.rows.multi_get(keys, &mut |index, row| {
            let start = reply.place();
            put(row, reply);
            in_order &= index == next;
            next += 1;
            places[index] = (start - place, reply.place() - place);
        })?;
        if !in_order {
            put_in_order(&places[..keys.len()], &mut desk.local.bytes, reply, place);
        }
    }
    let counters = desk.counters();
    bump(&counters.hits, hits);
    bump(&counters.misses, misses);
    bump(&counters.failed, failed);
    // Of MGET nothing fails.
    bump(&counters.failed_calls[usize::from(table::GET)], failed);
    Ok(())
}

/// Sorts the replies written since `place` as `places` lists them.
#[cold]
fn put_in_order(
    places: &[(usize, usize)],
    scratch: &mut Vec<u8>,
    reply: &mut Writer<'_>,
    place: usize,
) {
    scratch.clear();
    scratch.extend_from_slice(reply.since(place));
    reply.cut(place);
    for &(start, end) in places {
        reply.append(&scratch[start..end]);
    }
}

pub(crate) fn get(call: &mut Call<'_>) -> Done {
    call.string(call.arg(1), |value, reply| match value {
        Some(value) => reply.bulk(value),
        None => reply.null(),
    })
}

pub(crate) fn mget(call: &mut Call<'_>) -> Done {
    let count = call.count();
    let reply_bytes_max = call.desk.shared.options.reply_bytes_max;
    let start = call.reply.place();
    call.reply.array(count - 1);
    let mut keys: [&[u8]; RUN_MAX] = [&[]; RUN_MAX];
    let (mut first, mut run_max) = (1, RUN_AT_FIRST);
    while first < count {
        let last = (first + run_max).min(count);
        for (slot, index) in keys.iter_mut().zip(first..last) {
            *slot = call.arg(index);
        }
        let place = call.reply.place();
        look_up(&mut call.desk, &keys[..last - first], &mut call.reply, OnHash::Null)?;
        if call.reply.place() - start > reply_bytes_max {
            return Err(Fault::REPLY_TOO_LARGE);
        }
        run_max = next_run_max(run_max, call.reply.place() - place, last - first);
        first = last;
    }
    Ok(())
}

/// How many keys are looked up next, after `count` of them made `bytes` of replies.
fn next_run_max(run_max: usize, bytes: usize, count: usize) -> usize {
    if bytes / count > LARGE_REPLY_BYTES { 1 } else { (run_max * 2).min(RUN_MAX) }
}
