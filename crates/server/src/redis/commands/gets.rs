//! GETs and MGETs: many keys looked up side by side, answered in their order.
//!
//! **Invariant:** a large value is looked up and written alone, so what one run adds to the output
//! is bounded by [`RUN_MAX`] small values, or by one large one.

use keyrack_wire::resp::{RequestParser, Writer};

use crate::redis::call::{Call, string_of};
use crate::redis::context::{CommandContext, Context};
use crate::redis::counters::bump;
use crate::redis::fault::{Done, Fault};
use crate::redis::slowlog::of_gets;
use crate::redis::state::State;
use crate::redis::table;

/// Keys that are looked up together.
pub(crate) const RUN_MAX: usize = 64;

/// Keys that are looked up together before anything is known of their values.
pub(crate) const RUN_AT_FIRST: usize = 16;

/// Bytes of a reply above which the next run has one key, and below which it may grow.
const LARGE_REPLY_BYTES: usize = 8 << 10;

/// A value with more bytes than this is answered alone, if connections may hold so much.
const LARGE_VALUE_BYTES: usize = 128 << 10;

/// GETs that stand next to each other in the input.
#[derive(Debug)]
pub(crate) struct Run<'i> {
    keys: [&'i [u8]; RUN_MAX],
    /// The input from the first of these requests on.
    input: &'i [u8],
    count: usize,
}

impl<'i> Run<'i> {
    #[inline]
    pub(crate) fn new() -> Self {
        Run { keys: [&[]; RUN_MAX], input: &[], count: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Adds the key of the request that `input` begins with; there is room for [`RUN_MAX`].
    #[inline]
    pub(crate) fn push(&mut self, key: &'i [u8], input: &'i [u8]) {
        self.keys[self.count] = key;
        if self.count == 0 {
            self.input = input;
        }
        self.count += 1;
    }

    /// Answers the GETs and forgets them. `run_max` follows the size of the values. Where a large
    /// one ends the run early, gives the input from the first GET on that has no answer.
    #[inline]
    pub(crate) fn answer(
        &mut self,
        cx: &mut Context<'_, '_>,
        state: &State,
        output: &mut Vec<u8>,
        run_max: &mut usize,
    ) -> Option<&'i [u8]> {
        if self.count == 0 {
            return None;
        }
        let (_, mut ctx) = cx.split();
        let keys = &self.keys[..self.count];
        let began = ctx.local.clock.ticks();
        let place = output.len();
        let mut reply = Writer::new(output, state.protocol());
        let looked_up = look_up(&mut ctx, keys, &mut reply, OnHash::Error);
        let answered = *looked_up.as_ref().unwrap_or(&keys.len());
        bump(&ctx.counters().calls[usize::from(table::GET)], answered as u64);
        if let Err(fault) = looked_up {
            reply.cut(place);
            bump(&ctx.counters().failed, keys.len() as u64);
            bump(&ctx.counters().failed_calls[usize::from(table::GET)], keys.len() as u64);
            for _ in keys {
                fault.with_line(|line| reply.error(line));
            }
        }
        let taken = ctx.local.spent(ctx.counters(), table::GET, began);
        ctx.counters().took(table::GET, taken / answered as u64, answered as u64);
        if ctx.shared.is_slow(taken) {
            let args = of_gets(&keys[..answered]);
            ctx.shared.note_slow(&state.client, table::GET, taken, ctx.now_ms, args);
        }
        *run_max = next_run_max(*run_max, reply.place() - place, answered);
        let asked = std::mem::take(&mut self.count);
        (answered < asked).then(|| behind(self.input, answered, cx))
    }
}

/// The reply for a key that is not a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnHash {
    Error,
    Null,
}

/// Writes the value of each key, or that there is none, in the order of `keys`, of which there are
/// at most [`RUN_MAX`]. Returns how many were answered: those before the first large value, or that
/// one alone.
#[inline]
fn look_up(
    ctx: &mut CommandContext<'_>,
    keys: &[&[u8]],
    reply: &mut Writer<'_>,
    on_hash: OnHash,
) -> Result<usize, Fault> {
    let memory = &ctx.shared.options.memory;
    let (mut hits, mut misses, mut failed) = (0, 0, 0);
    let mut is_refused = false;
    let mut put = |row: Option<keyrack_rowstore::Row<'_>>, reply: &mut Writer<'_>| {
        match row {
            Some(_) => hits += 1,
            None => misses += 1,
        }
        match (string_of(row.as_ref()), on_hash) {
            (Ok(Some(value)), on_hash)
                if is_large(value) && !memory.has_room(reply.place() + value.len()) =>
            {
                is_refused |= on_hash == OnHash::Null;
                failed += 1;
                Fault::MEMORY.with_line(|line| reply.error(line));
            }
            (Ok(Some(value)), _) => reply.bulk(value),
            (Ok(None), _) | (Err(_), OnHash::Null) => reply.null(),
            (Err(fault), OnHash::Error) => {
                failed += 1;
                fault.with_line(|line| reply.error(line));
            }
        }
    };
    if let [key] = keys {
        if !ctx.rows.get(key, &mut |row| put(Some(row), reply))? {
            put(None, reply);
        }
    } else {
        // Rows may come in any order; where each reply lies says how to put them right.
        let place = reply.place();
        let mut places = [(0, 0); RUN_MAX];
        let (mut next, mut in_order) = (0, true);
        let mut first_large = keys.len();
        ctx.rows.multi_get(keys, &mut |index, row| {
            if string_of(row.as_ref()).is_ok_and(|value| value.is_some_and(is_large)) {
                first_large = first_large.min(index);
                return;
            }
            let start = reply.place();
            put(row, reply);
            in_order &= index == next;
            next += 1;
            places[index] = (start - place, reply.place() - place);
        })?;
        if first_large < keys.len() {
            reply.cut(place);
            return look_up(ctx, &keys[..first_large.max(1)], reply, on_hash);
        }
        if !in_order {
            put_in_order(&places[..keys.len()], &mut ctx.local.bytes, reply, place);
        }
    }
    if is_refused {
        return Err(Fault::MEMORY);
    }
    let counters = ctx.counters();
    bump(&counters.hits, hits);
    bump(&counters.misses, misses);
    bump(&counters.failed, failed);
    // MGET counts no failures.
    bump(&counters.failed_calls[usize::from(table::GET)], failed);
    Ok(keys.len())
}

/// The input behind its first `count` requests, which were read before.
#[cold]
fn behind<'i>(input: &'i [u8], count: usize, cx: &Context<'_, '_>) -> &'i [u8] {
    let limits = cx.shared.settings.limits(&cx.shared.options, true);
    let mut parser = RequestParser::new();
    let mut rest = input;
    for _ in 0..count {
        let read = parser.next(&mut rest, &limits);
        assert!(matches!(read, Ok(Some(_))), "the request was whole");
    }
    rest
}

fn is_large(value: &[u8]) -> bool {
    value.len() > LARGE_VALUE_BYTES
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
    let reply_bytes_max = call.ctx.shared.options.reply_bytes_max;
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
        let keys = &keys[..last - first];
        let answered = look_up(&mut call.ctx, keys, &mut call.reply, OnHash::Null)?;
        if call.reply.place() - start > reply_bytes_max {
            return Err(Fault::REPLY_TOO_LARGE);
        }
        run_max = next_run_max(run_max, call.reply.place() - place, answered);
        first += answered;
    }
    Ok(())
}

/// How many keys are looked up next, after `count` of them made `bytes` of replies.
fn next_run_max(run_max: usize, bytes: usize, count: usize) -> usize {
    if bytes / count > LARGE_REPLY_BYTES { 1 } else { (run_max * 2).min(RUN_MAX) }
}
