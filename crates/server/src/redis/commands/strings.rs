//! Strings: SET with its options, and what reads, replaces and extends a value.
//!
//! A string is a row of one value, the same that memcached's clients see.

use keyrack_store::Update;

use crate::redis::call::{Call, keep_attributes, string_of};
use crate::redis::commands::expiry::{MILLISECONDS, SECONDS, Unit, expires_ms};
use crate::redis::commands::gets;
use crate::redis::commands::hashes::put_or_null;
use crate::redis::fault::{Done, Fault};

/// The options of SET.
#[derive(Clone, Copy, Debug, Default)]
struct SetOptions {
    nx: bool,
    xx: bool,
    get: bool,
    keep_ttl: bool,
    expires_ms: u64,
}

impl SetOptions {
    fn parse(call: &Call<'_>) -> Result<Self, Fault> {
        let mut options = SetOptions::default();
        let mut time = None;
        let mut index = 3;
        while index < call.count() {
            match () {
                () if call.is(index, "nx") && !options.xx => options.nx = true,
                () if call.is(index, "xx") && !options.nx => options.xx = true,
                () if call.is(index, "get") => options.get = true,
                () if call.is(index, "keepttl") && time.is_none() => options.keep_ttl = true,
                () => {
                    let unit = Unit::of(call.arg(index)).ok_or(Fault::SYNTAX)?;
                    index += 1;
                    if index == call.count() || time.is_some() || options.keep_ttl {
                        return Err(Fault::SYNTAX);
                    }
                    time = Some((index, unit));
                }
            }
            index += 1;
        }
        if let Some((index, unit)) = time {
            options.expires_ms = expires_ms(call, index, unit)?;
        }
        Ok(options)
    }
}

pub(crate) fn set(call: &mut Call<'_>) -> Done {
    if call.count() == 3 {
        call.ctx.rows.put(call.arg(1), call.arg(2), 0, 0)?;
        call.reply.ok();
        return Ok(());
    }
    let options = SetOptions::parse(call)?;
    let (value, now_ms) = (call.arg(2), call.ctx.now_ms);
    call.edit(call.arg(1), |row, buf, reply| {
        let old = if options.get { string_of(row.as_ref())? } else { None };
        let is_set = !(options.nx && row.is_some() || options.xx && row.is_none());
        match (options.get, old) {
            (true, Some(old)) => reply.bulk(old),
            (false, _) if is_set => reply.ok(),
            (true, None) | (false, _) => reply.null(),
        }
        if !is_set {
            return Ok(Update::Keep);
        }
        if options.expires_ms != 0 && options.expires_ms <= now_ms {
            return Ok(Update::Remove);
        }
        buf.set_value(value);
        match row {
            Some(row) if options.keep_ttl => buf.set_expires_ms(row.expires_ms()),
            _ => buf.set_expires_ms(options.expires_ms),
        }
        Ok(Update::Put)
    })
}

pub(crate) fn setex(call: &mut Call<'_>) -> Done {
    set_until(call, SECONDS)
}

pub(crate) fn psetex(call: &mut Call<'_>) -> Done {
    set_until(call, MILLISECONDS)
}

fn set_until(call: &mut Call<'_>, unit: Unit) -> Done {
    let expires_ms = expires_ms(call, 2, unit)?;
    call.ctx.rows.put(call.arg(1), call.arg(3), 0, expires_ms)?;
    call.reply.ok();
    Ok(())
}

pub(crate) fn setnx(call: &mut Call<'_>) -> Done {
    let value = call.arg(2);
    call.edit(call.arg(1), |row, buf, reply| {
        reply.integer(i64::from(row.is_none()));
        buf.set_value(value);
        Ok(if row.is_none() { Update::Put } else { Update::Keep })
    })
}

pub(crate) fn getset(call: &mut Call<'_>) -> Done {
    let value = call.arg(2);
    call.edit(call.arg(1), |row, buf, reply| {
        put_or_null(string_of(row.as_ref())?, reply);
        buf.set_value(value);
        Ok(Update::Put)
    })
}

pub(crate) fn getdel(call: &mut Call<'_>) -> Done {
    call.edit(call.arg(1), |row, _, reply| {
        let value = string_of(row.as_ref())?;
        put_or_null(value, reply);
        Ok(if value.is_some() { Update::Remove } else { Update::Keep })
    })
}

pub(crate) fn getex(call: &mut Call<'_>) -> Done {
    // Nothing to change, 0 for never, or a time.
    let time = match call.count() {
        2 => None,
        3 if call.is(2, "persist") => Some(0),
        4 => {
            let unit = Unit::of(call.arg(2)).ok_or(Fault::SYNTAX)?;
            Some(expires_ms(call, 3, unit)?)
        }
        _ => return Err(Fault::SYNTAX),
    };
    let Some(time) = time else { return gets::get(call) };
    let now_ms = call.ctx.now_ms;
    call.edit(call.arg(1), |row, buf, reply| {
        put_or_null(string_of(row.as_ref())?, reply);
        let Some(row) = row.filter(|row| row.expires_ms() != time) else {
            return Ok(Update::Keep);
        };
        if time != 0 && time <= now_ms {
            return Ok(Update::Remove);
        }
        buf.set_value(row.value());
        buf.set_flags(row.flags());
        buf.set_expires_ms(time);
        Ok(Update::Put)
    })
}

pub(crate) fn mset(call: &mut Call<'_>) -> Done {
    in_pairs(call)?;
    for index in (1..call.count()).step_by(2) {
        call.ctx.rows.put(call.arg(index), call.arg(index + 1), 0, 0)?;
    }
    call.reply.ok();
    Ok(())
}

pub(crate) fn msetnx(call: &mut Call<'_>) -> Done {
    in_pairs(call)?;
    for index in (1..call.count()).step_by(2) {
        if call.ctx.rows.get(call.arg(index), &mut |_| {})? {
            call.reply.integer(0);
            return Ok(());
        }
    }
    for index in (1..call.count()).step_by(2) {
        call.ctx.rows.put(call.arg(index), call.arg(index + 1), 0, 0)?;
    }
    call.reply.integer(1);
    Ok(())
}

fn in_pairs(call: &Call<'_>) -> Done {
    if call.count().is_multiple_of(2) { Err(Fault::arity(call.command.name, None)) } else { Ok(()) }
}

pub(crate) fn append(call: &mut Call<'_>) -> Done {
    let (more, bytes_max) = (call.arg(2), call.value_bytes_max());
    call.edit(call.arg(1), |row, buf, reply| {
        let value = string_of(row.as_ref())?.unwrap_or_default();
        let bytes = value.len() as u64 + more.len() as u64;
        if bytes > bytes_max {
            return Err(Fault::TOO_LONG);
        }
        keep_attributes(row.as_ref(), buf);
        let whole = buf.value_mut();
        whole.extend_from_slice(value);
        whole.extend_from_slice(more);
        reply.integer(bytes.cast_signed());
        Ok(Update::Put)
    })
}

pub(crate) fn strlen(call: &mut Call<'_>) -> Done {
    call.string(call.arg(1), |value, reply| {
        reply.integer(value.map_or(0, |value| value.len() as i64));
    })
}

pub(crate) fn getrange(call: &mut Call<'_>) -> Done {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    call.string(call.arg(1), |value, reply| {
        let value = value.unwrap_or_default();
        reply.bulk(&value[range(start, end, value.len())]);
    })
}

/// The bytes from `start` to `end`, that one included, of `length`; below 0 is counted from behind.
fn range(start: i64, end: i64, length: usize) -> std::ops::Range<usize> {
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let length_signed = i64::try_from(length).unwrap_or(i64::MAX);
    let place = |at: i64| {
        let at = if at < 0 { at.saturating_add(length_signed) } else { at };
        usize::try_from(at.max(0)).unwrap_or(usize::MAX)
    };
    let (start, end) = (place(start), place(end).min(length.saturating_sub(1)));
    if start > end || length == 0 { 0..0 } else { start..end + 1 }
}

pub(crate) fn setrange(call: &mut Call<'_>) -> Done {
    let offset = call.integer(2)?;
    let offset = u64::try_from(offset).map_err(|_| Fault::OFFSET)?;
    let (part, bytes_max) = (call.arg(3), call.value_bytes_max());
    call.edit(call.arg(1), |row, buf, reply| {
        let value = string_of(row.as_ref())?.unwrap_or_default();
        if part.is_empty() {
            reply.integer(value.len() as i64);
            return Ok(Update::Keep);
        }
        let end = offset.checked_add(part.len() as u64).filter(|&end| end <= bytes_max);
        let (Some(end), Ok(start)) = (end, usize::try_from(offset)) else {
            return Err(Fault::TOO_LONG);
        };
        let end = usize::try_from(end).map_err(|_| Fault::TOO_LONG)?;
        keep_attributes(row.as_ref(), buf);
        let whole = buf.value_mut();
        whole.extend_from_slice(value);
        whole.resize(value.len().max(end), 0);
        whole[start..end].copy_from_slice(part);
        reply.integer(whole.len() as i64);
        Ok(Update::Put)
    })
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn ranges_are_cut_to_the_value() {
        assert_eq!(range(0, 3, 10), 0..4);
        assert_eq!(range(-3, -1, 10), 7..10);
        assert_eq!(range(0, -1, 10), 0..10);
        assert_eq!(range(5, 3, 10), 0..0);
        assert_eq!(range(-1, -3, 10), 0..0);
        assert_eq!(range(i64::MIN, i64::MAX, 10), 0..10);
        assert_eq!(range(10, 20, 10), 0..0);
        assert_eq!(range(0, 0, 0), 0..0);
        assert_eq!(range(0, -100, 10), 0..1);
    }
}
