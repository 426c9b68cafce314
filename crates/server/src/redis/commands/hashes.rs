//! The commands of hashes, but for those that walk or draw (`hash_scan`), and those on expiry
//! (`hash_expiry`).
//!
//! Each has two parts: one for the row of a small hash, and one for the fields of a large one.

use keyrack_store::Update;
use keyrack_wire::resp::Writer;

use crate::redis::call::Call;
use crate::redis::fault::{Done, Fault};
use crate::redis::fields::{Fields, Parts};
use crate::redis::hash::{Hash, Merged, merge};
use crate::redis::large;
use crate::redis::number::{Amount, IntegerText, integer};
use crate::redis::task::Task;

pub(crate) fn hset(call: &mut Call<'_>) -> Done {
    let merged = put_fields(call)?;
    call.reply.integer(merged.added as i64);
    Ok(())
}

pub(crate) fn hmset(call: &mut Call<'_>) -> Done {
    put_fields(call)?;
    call.reply.ok();
    Ok(())
}

fn put_fields(call: &mut Call<'_>) -> Result<Merged, Fault> {
    if !call.count().is_multiple_of(2) {
        return Err(Fault::arity(call.command.name, None));
    }
    change_fields(call, 2)
}

/// Sets (`step` 2) or removes (`step` 1) the fields from argument 2 on. A hash without fields is no
/// row.
fn change_fields(call: &mut Call<'_>, step: usize) -> Result<Merged, Fault> {
    let args = call.args;
    let mut order = std::mem::take(&mut call.ctx.local.order);
    order.clear();
    order.extend((2..u32::try_from(args.len()).unwrap_or(u32::MAX)).step_by(step));
    let name = |&index: &u32| args.arg(index as usize);
    // If a name occurs twice, the later value wins: a stable sort of the reversed order.
    if order.len() > 1 {
        order.reverse();
        order.sort_by(|a, b| name(a).cmp(name(b)));
        order.dedup_by(|a, b| name(a) == name(b));
    }
    let order_of = &order;
    let change = move |index: usize| {
        let at = order_of[index] as usize;
        (args.arg(at), (step == 2).then(|| args.arg(at + 1)))
    };
    let count = order.len();
    let done = loop {
        let changed = large::write(
            call,
            |call| merge_fields(call, count, change),
            |call, collection| large::change(call, collection, count, change).map(Some),
        );
        match changed {
            Ok(Some(merged)) => break Ok(merged),
            Ok(None) => match large::create(call, count, change, 0) {
                Ok(true) => break Ok(Merged { added: count, removed: 0, left: count }),
                Ok(false) => {}
                Err(fault) => break Err(fault),
            },
            Err(fault) => break Err(fault),
        }
    };
    call.ctx.local.order = order;
    done
}

/// Changes the fields of a small hash. Returns nothing if there is no hash and it would be large.
fn merge_fields<'n>(
    call: &mut Call<'_>,
    count: usize,
    change: impl Fn(usize) -> large::Change<'n> + Copy,
) -> Result<Option<Merged>, Fault> {
    let fits = large::check_size(call);
    let mut done = None;
    call.edit(call.arg(1), |row, buf, _| {
        let old = Hash::of(row)?;
        let merged = merge(old, count, change, buf);
        if merged.left == 0 {
            done = Some(merged);
            return Ok(if old.is_some() { Update::Remove } else { Update::Keep });
        }
        done = None;
        match fits(&merged, buf) {
            Err(Fault::Grown) if old.is_none() => return Ok(Update::Keep),
            fitting => fitting?,
        }
        done = Some(merged);
        let is_set = (0..count).any(|index| change(index).1.is_some());
        Ok(if is_set || merged.removed > 0 { Update::Put } else { Update::Keep })
    })?;
    Ok(done)
}

pub(crate) fn hdel(call: &mut Call<'_>) -> Done {
    let merged = change_fields(call, 1)?;
    call.reply.integer(merged.removed as i64);
    Ok(())
}

pub(crate) fn hsetnx(call: &mut Call<'_>) -> Done {
    let (name, value) = (call.arg(2), call.arg(3));
    let is_new = large::write(
        call,
        |call| {
            let fits = large::check_size(call);
            let mut is_new = false;
            call.edit(call.arg(1), |row, buf, _| {
                let old = Hash::of(row)?;
                is_new = old.is_none_or(|old| old.value(name).is_none());
                if !is_new {
                    return Ok(Update::Keep);
                }
                fits(&merge(old, 1, |_| (name, Some(value)), buf), buf)?;
                Ok(Update::Put)
            })?;
            Ok(is_new)
        },
        |call, collection| {
            let mut is_new = false;
            large::edit(call, collection, name, |row, buf| {
                is_new = row.is_none();
                buf.set_value(value);
                Ok(if is_new { Update::Put } else { Update::Keep })
            })?;
            Ok(is_new)
        },
    )?;
    call.reply.integer(is_new.into());
    Ok(())
}

pub(crate) fn hget(call: &mut Call<'_>) -> Done {
    let name = call.arg(2);
    read_field(call, name, put_or_null)
}

pub(crate) fn hmget(call: &mut Call<'_>) -> Done {
    let args = call.args;
    let bytes_max = call.ctx.shared.options.reply_bytes_max;
    large::write(
        call,
        |call| {
            call.row(call.arg(1), |row, reply| {
                let hash = Hash::of(row)?;
                let place = reply.place();
                reply.array(args.len() - 2);
                for name in args.args().skip(2) {
                    put_or_null(hash.and_then(|hash| hash.value(name)), reply);
                    // A name may be asked for a million times.
                    check_reply(reply.place() - place, bytes_max)?;
                }
                Ok(())
            })
        },
        // Under the lock: all fields are of one moment.
        |call, collection| {
            let place = call.reply.place();
            call.reply.array(args.len() - 2);
            for name in args.args().skip(2) {
                if !large::field(call, collection, name, |value, reply| reply.bulk(value))? {
                    call.reply.null();
                }
                check_reply(call.reply.place() - place, bytes_max)?;
            }
            Ok(())
        },
    )
}

pub(super) fn check_reply(bytes: usize, bytes_max: usize) -> Done {
    if bytes > bytes_max { Err(Fault::REPLY_TOO_LARGE) } else { Ok(()) }
}

pub(crate) fn hgetall(call: &mut Call<'_>) -> Done {
    list(call, Parts::Both)
}

pub(crate) fn hkeys(call: &mut Call<'_>) -> Done {
    list(call, Parts::Names)
}

pub(crate) fn hvals(call: &mut Call<'_>) -> Done {
    list(call, Parts::Values)
}

fn list(call: &mut Call<'_>, parts: Parts) -> Done {
    let mut fields = None;
    large::locked(
        call,
        |call| {
            read(call, |hash, reply| {
                parts.begin(hash.map_or(0, |hash| hash.len()), reply);
                for (name, value) in hash.iter().flat_map(Hash::fields) {
                    parts.put(&name, value, reply);
                }
            })
        },
        |call, collection, guard| {
            fields = Some(Fields::new(&call.ctx, collection, parts, call.is_whole, guard));
            Ok(())
        },
    )?;
    // Without the lock: writers need not wait for the first slice.
    fields.map_or(Ok(()), |fields| call.begin(Task::Fields(fields)))
}

pub(crate) fn hexists(call: &mut Call<'_>) -> Done {
    let name = call.arg(2);
    read_field(call, name, |value, reply| reply.integer(value.is_some().into()))
}

pub(crate) fn hlen(call: &mut Call<'_>) -> Done {
    large::read(
        call,
        |call| read(call, |hash, reply| reply.integer(hash.map_or(0, |hash| hash.len() as i64))),
        |call, collection| {
            let count = call.ctx.rows.element_count(collection);
            call.reply.integer(count.cast_signed());
            Ok(())
        },
    )
}

pub(crate) fn hstrlen(call: &mut Call<'_>) -> Done {
    let name = call.arg(2);
    read_field(call, name, |value, reply| {
        reply.integer(value.map_or(0, |value| value.len() as i64));
    })
}

/// Lends the value of a field to `visit`, or nothing.
fn read_field(
    call: &mut Call<'_>,
    name: &[u8],
    visit: impl Fn(Option<&[u8]>, &mut Writer<'_>),
) -> Done {
    large::read(
        call,
        |call| read(call, |hash, reply| visit(hash.and_then(|hash| hash.value(name)), reply)),
        |call, collection| {
            let is_there =
                large::field(call, collection, name, |value, reply| visit(Some(value), reply))?;
            if !is_there {
                visit(None, &mut call.reply);
            }
            Ok(())
        },
    )
}

/// Lends the hash of argument 1 to `visit`, or nothing.
pub(crate) fn read(
    call: &mut Call<'_>,
    mut visit: impl FnMut(Option<Hash<'_>>, &mut Writer<'_>),
) -> Done {
    call.row(call.arg(1), |row, reply| {
        visit(Hash::of(row)?, reply);
        Ok(())
    })
}

pub(super) fn put_or_null(value: Option<&[u8]>, reply: &mut Writer<'_>) {
    match value {
        Some(value) => reply.bulk(value),
        None => reply.null(),
    }
}

pub(crate) fn hincrby(call: &mut Call<'_>) -> Done {
    let by = call.integer(3)?;
    let new = increment(call, |old| {
        let old = match old {
            Some(value) => integer(value).ok_or(Fault::HASH_NOT_AN_INTEGER)?,
            None => 0,
        };
        let new = old.checked_add(by).ok_or(Fault::OVERFLOW)?;
        Ok((new, IntegerText::new(new).to_vec()))
    })?;
    call.reply.integer(new);
    Ok(())
}

pub(crate) fn hincrbyfloat(call: &mut Call<'_>) -> Done {
    let by = Amount::parse(call.arg(3)).ok_or(Fault::NOT_A_FLOAT)?;
    if !by.is_finite() {
        return Err(Fault::INFINITE);
    }
    let text = increment(call, |old| {
        let old = match old {
            Some(value) => Amount::parse(value).ok_or(Fault::HASH_NOT_A_FLOAT)?,
            None => Amount::Exact(0),
        };
        let text = old.plus(by).ok_or(Fault::NOT_FINITE)?.text();
        Ok((text.as_bytes().to_vec(), text.as_bytes().to_vec()))
    })?;
    call.reply.bulk(&text);
    Ok(())
}

/// Replaces the value of the field in argument 2 by what `add` makes of it. Returns the first part
/// of that; the second is the value. The field keeps its expiry.
fn increment<T>(
    call: &mut Call<'_>,
    add: impl Fn(Option<&[u8]>) -> Result<(T, Vec<u8>), Fault>,
) -> Result<T, Fault> {
    let name = call.arg(2);
    let done = large::write(
        call,
        |call| {
            let fits = large::check_size(call);
            let mut done = None;
            call.edit(call.arg(1), |row, buf, _| {
                let hash = Hash::of(row)?;
                let (new, value) = add(hash.and_then(|hash| hash.value(name)))?;
                fits(&merge(hash, 1, |_| (name, Some(&value)), buf), buf)?;
                done = Some(new);
                Ok(Update::Put)
            })?;
            Ok(done)
        },
        |call, collection| {
            let mut done = None;
            large::edit(call, collection, name, |row, buf| {
                let (new, value) = add(row.as_ref().map(|row| row.value()))?;
                buf.set_value(&value);
                row.inspect(|row| buf.keep_attributes(row));
                done = Some(new);
                Ok(Update::Put)
            })?;
            Ok(done)
        },
    )?;
    Ok(done.expect("a write without an error was decided"))
}
