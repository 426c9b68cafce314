//! Commands on keys of any type: DEL, EXISTS, TYPE, RENAME, COPY, OBJECT and the like.

use keyrack_rowstore::{Kind, Row};
use std::sync::atomic::Ordering::Relaxed;

use crate::redis::call::{Call, copy_row, type_name};
use crate::redis::copy::Copying;
use crate::redis::fault::{Done, Fault};
use crate::redis::hash::Hash;
use crate::redis::number::integer;
use crate::redis::task::Task;
use keyrack_store::Update;

pub(crate) fn del(call: &mut Call<'_>) -> Done {
    let mut removed = 0;
    for key in call.args.args().skip(1) {
        removed += i64::from(call.ctx.rows.remove(key)?);
    }
    call.reply.integer(removed);
    Ok(())
}

pub(crate) fn exists(call: &mut Call<'_>) -> Done {
    let mut found = 0;
    for key in call.args.args().skip(1) {
        let is_there = call.ctx.rows.get(key, &mut |_| {})?;
        call.looked_up(is_there);
        found += i64::from(is_there);
    }
    call.reply.integer(found);
    Ok(())
}

pub(crate) fn type_of(call: &mut Call<'_>) -> Done {
    call.row(call.arg(1), |row, reply| {
        reply.simple(row.map_or("none", |row| type_name(&row)));
        Ok(())
    })
}

pub(crate) fn dbsize(call: &mut Call<'_>) -> Done {
    let keys = i64::try_from(call.ctx.rows.count()).unwrap_or(i64::MAX);
    call.reply.integer(keys);
    Ok(())
}

/// FLUSHALL and FLUSHDB, of which there is one.
pub(crate) fn flush(call: &mut Call<'_>) -> Done {
    if call.count() > 2 || (call.count() == 2 && !call.is(1, "async") && !call.is(1, "sync")) {
        return Err(Fault::SYNTAX);
    }
    call.ctx.rows.clear()?;
    call.reply.ok();
    Ok(())
}

pub(crate) fn rename(call: &mut Call<'_>) -> Done {
    let (from, to) = (call.arg(1), call.arg(2));
    if !load_copy(call, from)? {
        return Err(Fault::NO_SUCH_KEY);
    }
    if from != to {
        move_copy(call, from, to)?;
    }
    call.reply.ok();
    Ok(())
}

pub(crate) fn renamenx(call: &mut Call<'_>) -> Done {
    let (from, to) = (call.arg(1), call.arg(2));
    if !load_copy(call, from)? {
        return Err(Fault::NO_SUCH_KEY);
    }
    let is_free = from != to && !call.ctx.rows.get(to, &mut |_| {})?;
    if is_free {
        move_copy(call, from, to)?;
    }
    call.reply.integer(is_free.into());
    Ok(())
}

pub(crate) fn copy(call: &mut Call<'_>) -> Done {
    let (from, to) = (call.arg(1), call.arg(2));
    let mut replaces = false;
    let mut index = 3;
    while index < call.count() {
        if call.is(index, "replace") {
            replaces = true;
        } else if call.is(index, "db") && index + 1 < call.count() {
            index += 1;
            if call.integer(index)? != 0 {
                return Err(Fault::DB_INDEX);
            }
        } else {
            return Err(Fault::SYNTAX);
        }
        index += 1;
    }
    if from == to {
        return Err(Fault::Text("ERR source and destination objects are the same"));
    }
    let is_there = load_copy(call, from)?;
    let is_free = replaces || !call.ctx.rows.get(to, &mut |_| {})?;
    let row = is_there.then(|| Row::of(&call.ctx.local.bytes));
    if let Some((row, id)) = row.and_then(|row| Some((row, row.collection()?)))
        && is_free
    {
        return copy_large(call, id, to, replaces, row.expires_ms());
    }
    if is_there && is_free {
        store_copy(call, to)?;
    }
    call.reply.integer((is_there && is_free).into());
    Ok(())
}

/// COPY of the large hash `id`.
fn copy_large(call: &mut Call<'_>, id: u64, to: &[u8], replaces: bool, expires_ms: u64) -> Done {
    if call.is_whole && !call.state.is_executing {
        // Not while other loops wait.
        return Err(Fault::Large(id));
    }
    let collection = call.ctx.rows.collection(id);
    let Some(guard) = collection.as_ref().and_then(|collection| collection.lock()) else {
        // It was removed since it was found.
        call.reply.integer(0);
        return Ok(());
    };
    let copying = Copying::new(&mut call.ctx, &guard, to, replaces, expires_ms)?;
    drop(guard);
    call.begin(Task::Copy(copying))
}

/// Copies the bytes of a row aside. Whether there is one.
fn load_copy(call: &mut Call<'_>, key: &[u8]) -> Result<bool, Fault> {
    let bytes = &mut call.ctx.local.bytes;
    bytes.clear();
    Ok(call.ctx.rows.get(key, &mut |row| bytes.extend_from_slice(row.bytes()))?)
}

/// Moves the row that [`load_copy`] copied.
fn move_copy(call: &mut Call<'_>, from: &[u8], to: &[u8]) -> Done {
    let id = Row::of(&call.ctx.local.bytes).collection();
    let collection = id.and_then(|id| call.ctx.rows.collection(id));
    if id.is_some() {
        // While it is held, a sweep or an eviction leaves its fields.
        let mut found = None;
        call.ctx.rows.get(from, &mut |row| found = row.collection())?;
        if found != id || collection.as_ref().is_none_or(|collection| collection.is_unlogged()) {
            return Err(Fault::BUSY_HASH);
        }
    }
    store_copy(call, to)?;
    call.ctx.rows.remove(from)?;
    Ok(())
}

/// Stores what [`load_copy`] copied.
fn store_copy(call: &mut Call<'_>, key: &[u8]) -> Done {
    let bytes = &call.ctx.local.bytes;
    let row = Row::of(bytes);
    call.ctx.rows.update(key, &mut |_, buf| {
        copy_row(&row, buf);
        Update::Put
    })?;
    Ok(())
}

pub(crate) fn object_encoding(call: &mut Call<'_>) -> Done {
    let settings = &call.ctx.shared.settings;
    let fields_max = settings.small_hash_fields_max.load(Relaxed);
    let bytes_max = settings.small_hash_bytes_max.load(Relaxed);
    call.row(call.arg(2), |row, reply| {
        let Some(row) = row else {
            reply.null();
            return Ok(());
        };
        reply.bulk(match row.kind() {
            Kind::Value if integer(row.value()).is_some() => b"int",
            Kind::Value if row.value().len() <= 44 => b"embstr",
            Kind::Value => b"raw",
            Kind::Collection => b"hashtable",
            Kind::Columns | Kind::Fields => {
                let hash = Hash::of(Some(row))?;
                let mut fields = hash.iter().flat_map(Hash::fields);
                let is_small = row.columns() as u64 <= fields_max
                    && fields.all(|(name, value)| name.len().max(value.len()) as u64 <= bytes_max);
                if is_small { b"listpack" } else { b"hashtable" }
            }
        });
        Ok(())
    })
}

pub(crate) fn object_freq(call: &mut Call<'_>) -> Done {
    call.row(call.arg(2), |row, reply| {
        if row.is_some() {
            return Err(Fault::Text(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. \
                 Please note that when switching between policies at runtime LRU and LFU data will \
                 take some time to adjust.",
            ));
        }
        reply.null();
        Ok(())
    })
}

/// Reads are not noted in rows, so a key counts as used just now.
pub(crate) fn object_idletime(call: &mut Call<'_>) -> Done {
    number_if_there(call, 0)
}

pub(crate) fn object_refcount(call: &mut Call<'_>) -> Done {
    number_if_there(call, 1)
}

fn number_if_there(call: &mut Call<'_>, number: i64) -> Done {
    call.row(call.arg(2), |row, reply| {
        match row {
            Some(_) => reply.integer(number),
            None => reply.null(),
        }
        Ok(())
    })
}

/// Bytes of an index entry beside key and row: two words, and its share of nodes that are half
/// to wholly full.
const ENTRY_BYTES: usize = 24;

pub(crate) fn memory_usage(call: &mut Call<'_>) -> Done {
    let is_sampled = call.count() == 5 && call.is(3, "samples");
    if call.count() != 3 && !is_sampled {
        return Err(Fault::SYNTAX);
    }
    if is_sampled {
        call.natural(4)?;
    }
    let key = call.arg(2);
    let mut found = None;
    call.row(key, |row, _| {
        found = row.map(|row| (row.bytes().len(), row.collection()));
        Ok(())
    })?;
    let Some((row_bytes, id)) = found else {
        call.reply.null();
        return Ok(());
    };
    let fields = id.and_then(|id| call.ctx.rows.collection(id));
    let fields_bytes = fields.map_or(0, |fields| fields.bytes());
    let bytes = (key.len() + row_bytes + ENTRY_BYTES) as u64 + fields_bytes;
    call.reply.integer(bytes.cast_signed());
    Ok(())
}
