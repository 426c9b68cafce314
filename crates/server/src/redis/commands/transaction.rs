//! MULTI, DISCARD, WATCH, UNWATCH, and the queue of a transaction. EXEC is in `exec`.
//!
//! ```text
//!   WATCH k    remember the version of k's row, 0 for none
//!   MULTI      from here on commands are checked, and kept as requests
//!   EXEC       exclusive section: are the versions the same? then all, in one group of the log
//! ```
//!
//! * No other connection's command runs between those of a transaction, and after a crash all of
//!   its writes are there or none.
//! * A version grows with each write, that of a large hash with each write of a field. A row that
//!   has expired is none. So a watched key counts as touched when it was written, removed, or has
//!   expired. One that was not there, was made and was removed again counts as untouched, unlike in
//!   Redis: nothing is remembered of a row that is gone.
//! * As in Redis, a command that fails does not undo the others. Writes that come to more than one
//!   record of the log takes, and work that would stop the others for too long, refuse the whole
//!   transaction: EXEC answers one error, and nothing is changed.
//! * What is watched and queued counts as memory of connections. WATCH watches all its keys or
//!   none. A transaction for which there is no memory is broken, and keeps nothing.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use keyrack_wire::resp::{Request, Writer, command};

use crate::redis::call::Call;
use crate::redis::context::CommandContext;
use crate::redis::fault::{Done, Fault};
use crate::redis::shared::Shared;
use crate::redis::state::{Queue, State, Version, WATCHED_BYTES};

/// Commands that a transaction queues.
const QUEUE_COUNT_MAX: usize = 1 << 20;

pub(crate) fn multi(call: &mut Call<'_>) -> Done {
    if call.state.queue.is_some() {
        return Err(Fault::Text("ERR MULTI calls can not be nested"));
    }
    call.state.queue = Some(Queue::default());
    call.state.client.queued.store(1, Relaxed);
    call.reply.ok();
    Ok(())
}

pub(crate) fn discard(call: &mut Call<'_>) -> Done {
    if call.state.queue.is_none() {
        return Err(Fault::Text("ERR DISCARD without MULTI"));
    }
    call.state.end_transaction();
    call.reply.ok();
    Ok(())
}

pub(crate) fn watch(call: &mut Call<'_>) -> Done {
    if call.state.queue.is_some() {
        return Err(Fault::Text("ERR WATCH inside MULTI is not allowed"));
    }
    let mut versions = BTreeMap::new();
    let mut bytes = 0;
    for key in call.args.args().skip(1) {
        let watched = &call.state.watched.versions;
        if watched.contains_key(key) || versions.contains_key(key) {
            continue;
        }
        if watched.len() + versions.len() >= call.ctx.shared.options.watched_max {
            return Err(Fault::Text("ERR too many watched keys"));
        }
        bytes += key.len() + WATCHED_BYTES;
        if !call.state.count_memory(bytes) {
            return Err(Fault::MEMORY);
        }
        versions.insert(key.into(), version_of(&mut call.ctx, key)?);
    }
    let watched = &mut call.state.watched;
    watched.versions.append(&mut versions);
    watched.bytes += bytes;
    let count = u32::try_from(watched.versions.len()).unwrap_or(u32::MAX);
    call.state.client.watched.store(count, Relaxed);
    call.reply.ok();
    Ok(())
}

pub(crate) fn unwatch(call: &mut Call<'_>) -> Done {
    call.state.unwatch();
    call.reply.ok();
    Ok(())
}

/// The version of a key's row.
pub(crate) fn version_of(ctx: &mut CommandContext<'_>, key: &[u8]) -> Result<Version, Fault> {
    let (mut version, mut id) = (0, None);
    ctx.rows.get(key, &mut |row| (version, id) = (row.version(), row.collection()))?;
    let collection = id.and_then(|id| ctx.rows.collection(id));
    Ok((version, collection.map_or(0, |collection| collection.changes())))
}

/// Keeps a request that was checked for EXEC.
pub(crate) fn queue(
    state: &mut State,
    shared: &Shared,
    request: &Request<'_, '_>,
    output: &mut Vec<u8>,
) -> Done {
    let protocol = state.protocol();
    if state.queue.as_ref().is_none_or(|queue| queue.is_broken) {
        // EXEC will be refused: nothing is kept.
        Writer::new(output, protocol).simple("QUEUED");
        return Ok(());
    }
    if let Err(fault) = make_room(state, shared, request) {
        state.break_queue();
        return Err(fault);
    }
    let Some(queue) = &mut state.queue else { return Ok(()) };
    let args: Vec<&[u8]> = request.args().collect();
    command(&mut queue.requests, &args);
    queue.count += 1;
    let count = u32::try_from(queue.count + 1).unwrap_or(u32::MAX);
    state.client.queued.store(count, Relaxed);
    state.client.queued_bytes.store(queue.requests.len(), Relaxed);
    Writer::new(output, protocol).simple("QUEUED");
    Ok(())
}

/// Makes room in the queue for one more request.
fn make_room(state: &mut State, shared: &Shared, request: &Request<'_, '_>) -> Done {
    let Some(queue) = &state.queue else { return Ok(()) };
    let (length, capacity) = (queue.requests.len(), queue.requests.capacity());
    // The framing adds a header, and one for each argument.
    let bytes = 32 + request.args().map(|arg| arg.len() + 32).sum::<usize>();
    let (needed, bytes_max) = (length + bytes, shared.options.queue_bytes_max);
    if needed > bytes_max || queue.count >= QUEUE_COUNT_MAX {
        return Err(Fault::Text("ERR the transaction is too large"));
    }
    if needed <= capacity {
        return Ok(());
    }
    // At least twice as much, so that no request is copied often.
    let wanted = needed.max((2 * capacity).min(bytes_max));
    if !state.count_memory(wanted - capacity) {
        return Err(Fault::MEMORY);
    }
    if let Some(queue) = &mut state.queue {
        queue.requests.reserve_exact(wanted - length);
    }
    Ok(())
}
