//! Large hashes: a hash whose fields are rows of their own, and how a small one becomes large.
//!
//! ```text
//!   small    key --> row: a=1 b=2                a write makes the whole row anew
//!   large    key --> header: id 7
//!            7 + a --> 1                         a write makes one row
//!            7 + b --> 2
//! ```
//!
//! A hash becomes large above `hash-max-listpack-entries` fields or [`SMALL_BYTES_MAX`] bytes, and
//! when a field gets an expiry. It stays large until its last field is removed. The fields are
//! written first, below an id that no key names. Then one write replaces the small row by the
//! header, if the row is still the one that was read. A crash leaves the small row or the header,
//! because the log has them in this order. The header is logged at once: a field that another
//! client writes may be in another log, and nothing would name it without the header.
//!
//! A command that writes a large hash holds its lock, so it is one step for other clients. A write
//! of several fields is one group of the log.

use std::sync::atomic::Ordering::Relaxed;

use keyrack_rowstore::{Collection, CollectionGuard, Row, RowBuf};
use keyrack_store::Update;

use crate::redis::call::{Call, Decided};
use crate::redis::fault::{Done, Fault};
use crate::redis::hash::{Hash, Merged};

/// Bytes of a row above which a hash of several fields becomes large.
pub(crate) const SMALL_BYTES_MAX: usize = 8 << 10;

/// How often a command is begun again because the hash was replaced meanwhile.
const ATTEMPTS_MAX: u32 = 100_000;

/// The change of one field: its name, and its value, or nothing to remove it.
pub(crate) type Change<'n> = (&'n [u8], Option<&'n [u8]>);

/// Runs `small`, and `large` in its place if the hash is large. Both may be called again.
pub(crate) fn read<T>(
    call: &mut Call<'_>,
    mut small: impl FnMut(&mut Call<'_>) -> Result<T, Fault>,
    mut large: impl FnMut(&mut Call<'_>, &Collection) -> Result<T, Fault>,
) -> Result<T, Fault> {
    for _ in 0..ATTEMPTS_MAX {
        match small(call) {
            Err(Fault::Large(id)) => {
                if let Some(collection) = call.ctx.rows.collection(id) {
                    return large(call, &collection);
                }
                std::thread::yield_now();
            }
            done => return done,
        }
    }
    Err(Fault::BUSY_HASH)
}

/// As [`read`], for a write: `large` runs under the lock of the hash. If `small` finds that the
/// hash becomes large, it does, and the write is begun again.
pub(crate) fn write<T>(
    call: &mut Call<'_>,
    small: impl FnMut(&mut Call<'_>) -> Result<T, Fault>,
    mut large: impl FnMut(&mut Call<'_>, &Collection) -> Result<T, Fault>,
) -> Result<T, Fault> {
    locked(call, small, |call, collection, _| large(call, collection))
}

/// As [`write`], and lends the lock to `large`.
pub(crate) fn locked<T>(
    call: &mut Call<'_>,
    mut small: impl FnMut(&mut Call<'_>) -> Result<T, Fault>,
    mut large: impl FnMut(&mut Call<'_>, &Collection, &CollectionGuard<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    for _ in 0..ATTEMPTS_MAX {
        match small(call) {
            Err(Fault::Large(id)) => {
                let collection = call.ctx.rows.collection(id);
                // The client that held the lock may have removed the last field, and the header.
                if let Some(collection) = collection
                    && let Some(guard) = collection.lock()
                    && !collection.is_unlogged()
                    && is_header(call, id)?
                {
                    return large(call, &collection, &guard);
                }
                // The client that replaces the header may be between two steps.
                std::thread::yield_now();
            }
            Err(Fault::Grown) => grow(call)?,
            done => return done,
        }
    }
    Err(Fault::BUSY_HASH)
}

/// Whether the row of argument 1 is the header of this hash.
fn is_header(call: &mut Call<'_>, id: u64) -> Result<bool, Fault> {
    let mut found = None;
    call.ctx.rows.get(call.args.arg(1), &mut |row| found = row.collection())?;
    Ok(found == Some(id))
}

/// Refuses a row of a hash that is to become large.
pub(crate) fn check_size(
    call: &Call<'_>,
) -> impl Fn(&Merged, &RowBuf) -> Result<(), Fault> + use<> {
    let fields_max = call.ctx.shared.settings.small_hash_fields_max.load(Relaxed);
    move |merged, buf| {
        let is_large = merged.left as u64 > fields_max || buf.encoded_bytes() > SMALL_BYTES_MAX;
        // One field takes as much either way.
        if is_large && merged.left > 1 { Err(Fault::Grown) } else { Ok(()) }
    }
}

/// Makes the hash of argument 1 large, unless its row changes meanwhile.
fn grow(call: &mut Call<'_>) -> Done {
    let mut old = Vec::new();
    call.ctx.rows.get(call.args.arg(1), &mut |row| old.extend_from_slice(row.bytes()))?;
    let row = (!old.is_empty()).then(|| Row::of(&old));
    let Ok(Some(hash)) = Hash::of(row) else { return Ok(()) };
    let collection = call.ctx.rows.create_collection()?;
    let _guard = collection.lock();
    in_group(call, |call| {
        hash.fields().try_for_each(|(name, value)| put(call, &collection, &name, value, 0))
    })?;
    put_header(call, &collection, row).map(|_| ())
}

/// Makes a large hash of `count` new fields, whose names differ, where there is no row. They expire
/// at `expires_ms`, or never for 0. Returns
/// whether it did; otherwise there is a row now.
pub(crate) fn create<'n>(
    call: &mut Call<'_>,
    count: usize,
    change: impl Fn(usize) -> Change<'n>,
    expires_ms: u64,
) -> Result<bool, Fault> {
    let collection = call.ctx.rows.create_collection()?;
    let _guard = collection.lock();
    in_group(call, |call| {
        let mut fields = (0..count).map(change).filter_map(|(name, value)| Some((name, value?)));
        fields.try_for_each(|(name, value)| put(call, &collection, name, value, expires_ms))
    })?;
    put_header(call, &collection, None)
}

/// Puts the header in place of `old`, if that is still the row. The caller holds the lock, so the
/// header is in the log before another client writes a field.
fn put_header(
    call: &mut Call<'_>,
    collection: &Collection,
    old: Option<Row<'_>>,
) -> Result<bool, Fault> {
    let mut is_done = false;
    call.ctx.rows.update(call.args.arg(1), &mut |row, new| {
        is_done = row.map(|row| row.version()) == old.map(|row| row.version());
        if !is_done {
            return Update::Keep;
        }
        new.collection(collection.id());
        row.inspect(|row| new.keep_attributes(row));
        Update::Put
    })?;
    call.ctx.rows.flush_headers()?;
    Ok(is_done)
}

fn put(
    call: &mut Call<'_>,
    collection: &Collection,
    name: &[u8],
    value: &[u8],
    expires_ms: u64,
) -> Done {
    call.ctx.rows.update_element(collection.id(), name, &mut |_, new| {
        new.set_value(value);
        new.set_expires_ms(expires_ms);
        Update::Put
    })?;
    Ok(())
}

/// Runs `work` in a group of the log, unless it runs in one.
pub(crate) fn in_group<T>(
    call: &mut Call<'_>,
    work: impl FnOnce(&mut Call<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    if call.is_whole {
        return work(call);
    }
    call.ctx.rows.begin_group()?;
    match work(call) {
        Ok(done) => {
            call.ctx.rows.commit_group()?;
            Ok(done)
        }
        Err(fault) => {
            call.ctx.rows.cancel_group();
            Err(fault)
        }
    }
}

/// Sets and removes fields, whose names differ. The caller holds the lock.
pub(crate) fn change<'n>(
    call: &mut Call<'_>,
    collection: &Collection,
    count: usize,
    change: impl Fn(usize) -> Change<'n>,
) -> Result<Merged, Fault> {
    let one = |call: &mut Call<'_>, index: usize, merged: &mut Merged| {
        let (name, value) = change(index);
        let (mut added, mut removed) = (false, false);
        call.ctx.rows.update_element(collection.id(), name, &mut |old, new| match value {
            Some(value) => {
                added = old.is_none();
                new.set_value(value);
                Update::Put
            }
            None => {
                removed = old.is_some();
                if removed { Update::Remove } else { Update::Keep }
            }
        })?;
        merged.added += usize::from(added);
        merged.removed += usize::from(removed);
        Ok::<(), Fault>(())
    };
    let mut merged = Merged::default();
    if count == 1 {
        one(call, 0, &mut merged)?;
        remove_if_empty(call, collection)?;
        return Ok(merged);
    }
    in_group(call, |call| {
        (0..count).try_for_each(|index| one(call, index, &mut merged))?;
        remove_if_empty(call, collection)?;
        Ok(merged)
    })
}

/// Reads, decides and writes one field; `decide` may be called again.
pub(crate) fn edit(
    call: &mut Call<'_>,
    collection: &Collection,
    name: &[u8],
    mut decide: impl FnMut(Option<Row<'_>>, &mut RowBuf) -> Decided,
) -> Done {
    let mut fault = None;
    call.ctx.rows.update_element(collection.id(), name, &mut |row, buf| {
        fault = None;
        decide(row, buf).unwrap_or_else(|error| {
            fault = Some(error);
            Update::Keep
        })
    })?;
    fault.map_or(Ok(()), Err)
}

/// Removes the header of a hash that has no field left. The caller holds the lock.
pub(crate) fn remove_if_empty(call: &mut Call<'_>, collection: &Collection) -> Done {
    if call.ctx.rows.element_count(collection) > 0 {
        return Ok(());
    }
    let id = collection.id();
    call.ctx.rows.update(
        call.args.arg(1),
        &mut |row, _| match row.and_then(|row| row.collection()) {
            Some(found) if found == id => Update::Remove,
            _ => Update::Keep,
        },
    )?;
    Ok(())
}

/// Lends a field to `visit`. Returns whether there is one.
pub(crate) fn field(
    call: &mut Call<'_>,
    collection: &Collection,
    name: &[u8],
    mut visit: impl FnMut(&[u8], &mut keyrack_wire::resp::Writer<'_>),
) -> Result<bool, Fault> {
    let reply = &mut call.reply;
    let found = call.ctx.rows.get_element(collection.id(), name, &mut |row| {
        visit(row.value(), reply);
    })?;
    Ok(found)
}
