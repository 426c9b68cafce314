//! The commands of hashes, but for those that walk or draw (`hash_scan`).

use keyrack_store::Update;
use keyrack_wire::resp::Writer;

use crate::redis::call::Call;
use crate::redis::fault::{Done, Fault};
use crate::redis::hash::{Hash, Merged, merge};
use crate::redis::number::{Amount, IntegerText, integer};

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
    let (key, args) = (call.arg(1), call.args);
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
    let change = |index: usize| {
        let at = order[index] as usize;
        (args.arg(at), (step == 2).then(|| args.arg(at + 1)))
    };
    let mut merged = Merged::default();
    let edited = call.edit(key, |row, buf, _| {
        let old = Hash::of(row)?;
        if step == 1 && old.is_none() {
            merged = Merged::default();
            return Ok(Update::Keep);
        }
        merged = merge(old, order.len(), change, buf);
        Ok(match merged {
            Merged { left: 0, .. } => Update::Remove,
            Merged { removed: 0, .. } if step == 1 => Update::Keep,
            _ => Update::Put,
        })
    });
    call.ctx.local.order = order;
    edited.map(|()| merged)
}

pub(crate) fn hdel(call: &mut Call<'_>) -> Done {
    let merged = change_fields(call, 1)?;
    call.reply.integer(merged.removed as i64);
    Ok(())
}

pub(crate) fn hsetnx(call: &mut Call<'_>) -> Done {
    let (name, value) = (call.arg(2), call.arg(3));
    call.edit(call.arg(1), |row, buf, reply| {
        let old = Hash::of(row)?;
        if old.is_some_and(|old| old.value(name).is_some()) {
            reply.integer(0);
            return Ok(Update::Keep);
        }
        merge(old, 1, |_| (name, Some(value)), buf);
        reply.integer(1);
        Ok(Update::Put)
    })
}

pub(crate) fn hget(call: &mut Call<'_>) -> Done {
    let name = call.arg(2);
    read(call, |hash, reply| put_or_null(hash.and_then(|hash| hash.value(name)), reply))
}

pub(crate) fn hmget(call: &mut Call<'_>) -> Done {
    let args = call.args;
    let reply_bytes_max = call.ctx.shared.options.reply_bytes_max;
    call.row(call.arg(1), |row, reply| {
        let hash = Hash::of(row)?;
        let place = reply.place();
        reply.array(args.len() - 2);
        for name in args.args().skip(2) {
            put_or_null(hash.and_then(|hash| hash.value(name)), reply);
            // A name may be asked for a million times.
            if reply.place() - place > reply_bytes_max {
                return Err(Fault::REPLY_TOO_LARGE);
            }
        }
        Ok(())
    })
}

pub(crate) fn hgetall(call: &mut Call<'_>) -> Done {
    read(call, |hash, reply| {
        reply.map(hash.map_or(0, |hash| hash.len()));
        for (name, value) in hash.iter().flat_map(Hash::fields) {
            reply.bulk(&name);
            reply.bulk(value);
        }
    })
}

pub(crate) fn hkeys(call: &mut Call<'_>) -> Done {
    read(call, |hash, reply| {
        reply.array(hash.map_or(0, |hash| hash.len()));
        hash.iter().flat_map(Hash::fields).for_each(|(name, _)| reply.bulk(&name));
    })
}

pub(crate) fn hvals(call: &mut Call<'_>) -> Done {
    read(call, |hash, reply| {
        reply.array(hash.map_or(0, |hash| hash.len()));
        hash.iter().flat_map(Hash::fields).for_each(|(_, value)| reply.bulk(value));
    })
}

pub(crate) fn hexists(call: &mut Call<'_>) -> Done {
    let name = call.arg(2);
    read(call, |hash, reply| {
        reply.integer(hash.is_some_and(|hash| hash.value(name).is_some()).into());
    })
}

pub(crate) fn hlen(call: &mut Call<'_>) -> Done {
    read(call, |hash, reply| reply.integer(hash.map_or(0, |hash| hash.len() as i64)))
}

pub(crate) fn hstrlen(call: &mut Call<'_>) -> Done {
    let name = call.arg(2);
    read(call, |hash, reply| {
        let value = hash.and_then(|hash| hash.value(name));
        reply.integer(value.map_or(0, |value| value.len() as i64));
    })
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
    let (name, by) = (call.arg(2), call.integer(3)?);
    call.edit(call.arg(1), |row, buf, reply| {
        let hash = Hash::of(row)?;
        let old = match hash.and_then(|hash| hash.value(name)) {
            Some(value) => integer(value).ok_or(Fault::HASH_NOT_AN_INTEGER)?,
            None => 0,
        };
        let new = old.checked_add(by).ok_or(Fault::OVERFLOW)?;
        let text = IntegerText::new(new);
        merge(hash, 1, |_| (name, Some(&text)), buf);
        reply.integer(new);
        Ok(Update::Put)
    })
}

pub(crate) fn hincrbyfloat(call: &mut Call<'_>) -> Done {
    let name = call.arg(2);
    let by = Amount::parse(call.arg(3)).ok_or(Fault::NOT_A_FLOAT)?;
    if !by.is_finite() {
        return Err(Fault::INFINITE);
    }
    call.edit(call.arg(1), |row, buf, reply| {
        let hash = Hash::of(row)?;
        let old = match hash.and_then(|hash| hash.value(name)) {
            Some(value) => Amount::parse(value).ok_or(Fault::HASH_NOT_A_FLOAT)?,
            None => Amount::Exact(0),
        };
        let text = old.plus(by).ok_or(Fault::NOT_FINITE)?.text();
        merge(hash, 1, |_| (name, Some(text.as_bytes())), buf);
        reply.bulk(text.as_bytes());
        Ok(Update::Put)
    })
}
