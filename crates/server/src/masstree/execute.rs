//! Single requests: what a message does to its row.

use super::Cx;
use crate::store_failures;
use keyrack_rowstore::{Row, RowBuf};
use keyrack_store::{Error, Update};
use keyrack_wire::masstree::{Changes, Columns, ReplyWriter, Request};
use keyrack_wire::msgpack::Int;

/// Carries out a request that is neither a handshake nor a scan. False when the client got
/// `[seq, -1]`, after which its connection is closed.
pub(super) fn execute(cx: &mut Cx<'_>, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
    let begun = out.len();
    match one(cx, request, out) {
        Ok(true) => return true,
        Ok(false) => {}
        // The protocol has no other word for it.
        Err(error) => store_failures::log(&error),
    }
    cx.counts.errors.add(1);
    out.truncate(begun);
    ReplyWriter::new(out).unknown(request.seq());
    false
}

/// `Ok(false)` for what is no request.
fn one(cx: &mut Cx<'_>, request: &Request<'_>, out: &mut Vec<u8>) -> Result<bool, Error> {
    let mut reply = ReplyWriter::new(out);
    match *request {
        Request::Get { seq, key, columns } => {
            cx.counts.gets.add(1);
            let hit = cx.rows.get(key, &mut |row| write_row(&mut reply, seq, &row, columns))?;
            cx.counts.get_hits.add(u64::from(hit));
            if !hit {
                reply.miss(seq);
            }
        }
        Request::Put { seq, key, changes } => {
            cx.counts.puts.add(1);
            let mut inserted = false;
            cx.rows.update(key, &mut |old, new| {
                inserted = old.is_none();
                change(old, changes, new);
                Update::Put
            })?;
            reply.put(seq, inserted);
        }
        Request::Replace { seq, key, value } => {
            cx.counts.puts.add(1);
            let mut inserted = false;
            cx.rows.update(key, &mut |old, new| {
                inserted = old.is_none();
                new.set_value(value);
                Update::Put
            })?;
            reply.replace(seq, inserted);
        }
        Request::Remove { seq, key } => {
            cx.counts.removes.add(1);
            let removed = cx.rows.remove(key)?;
            reply.remove(seq, removed);
        }
        Request::Checkpoint { seq } => {
            cx.counts.checkpoints.add(1);
            (cx.checkpoint)();
            reply.checkpoint(seq);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Answers a get whose row is there.
pub(super) fn write_row(
    reply: &mut ReplyWriter<'_>,
    seq: Int,
    row: &Row<'_>,
    columns: Columns<'_>,
) {
    if columns.len() > 0 {
        reply.row(seq, columns.len() as u32);
        columns.for_each(|column| reply.value(row.column(column as usize)));
    } else {
        reply.row(seq, row.columns() as u32);
        (0..row.columns()).for_each(|column| reply.value(row.column(column)));
    }
}

/// Makes `new` the row of `old` with `changes`, whose columns ascend.
fn change(old: Option<Row<'_>>, changes: Changes<'_>, new: &mut RowBuf) {
    let columns_before = old.map_or(0, |row| row.columns());
    let last = changes.last().map_or(0, |(column, _)| column as usize + 1);
    let count = columns_before.max(last);
    if count == 1 {
        new.set_value(changes.last().map_or(&[][..], |(_, value)| value));
    } else {
        new.columns();
        let mut changes = changes.peekable();
        for column in 0..count {
            let changed = changes.next_if(|(changed, _)| *changed as usize == column);
            let kept = || old.and_then(|row| row.column(column)).unwrap_or_default();
            new.push(changed.map_or_else(kept, |(_, value)| value));
        }
    }
    if let Some(old) = &old {
        new.keep_attributes(old);
    }
}
