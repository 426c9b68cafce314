//! Times at which keys expire: the words for them, the EXPIRE family, the TTL family.
//!
//! A row has its time in milliseconds since 1970, 0 for never. A time that has come is not stored:
//! the key is removed.

use keyrack_rowstore::Row;

use crate::redis::call::{Call, copy_row};
use crate::redis::fault::{Done, Fault};
use keyrack_store::Update;

/// How a time is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    is_seconds: bool,
    /// Counted from 1970, and not from now.
    is_absolute: bool,
}

pub(crate) const SECONDS: Unit = Unit { is_seconds: true, is_absolute: false };
pub(crate) const MILLISECONDS: Unit = Unit { is_seconds: false, is_absolute: false };
pub(crate) const UNIX_SECONDS: Unit = Unit { is_seconds: true, is_absolute: true };
pub(crate) const UNIX_MILLISECONDS: Unit = Unit { is_seconds: false, is_absolute: true };

impl Unit {
    /// The unit that an option of SET or GETEX stands for.
    pub(crate) fn of(option: &[u8]) -> Option<Unit> {
        [("ex", SECONDS), ("px", MILLISECONDS), ("exat", UNIX_SECONDS), ("pxat", UNIX_MILLISECONDS)]
            .into_iter()
            .find(|(name, _)| option.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, unit)| unit)
    }

    /// `time` as milliseconds since 1970, which may be in the past; nothing when that is too far.
    pub(crate) fn at(self, time: i64, now_ms: u64) -> Option<i64> {
        let ms = if self.is_seconds { time.checked_mul(1000)? } else { time };
        let base = if self.is_absolute { 0 } else { i64::try_from(now_ms).ok()? };
        ms.checked_add(base)
    }
}

/// The time in argument `index`, for a command that sets a value with a time: above 0.
pub(crate) fn expires_ms(call: &Call<'_>, index: usize, unit: Unit) -> Result<u64, Fault> {
    let time = call.integer(index)?;
    let at = if time > 0 { unit.at(time, call.ctx.now_ms) } else { None };
    at.and_then(|at| u64::try_from(at).ok()).ok_or_else(|| Fault::expire_time(call.command.name))
}

pub(crate) fn expire(call: &mut Call<'_>) -> Done {
    set_time(call, SECONDS)
}

pub(crate) fn pexpire(call: &mut Call<'_>) -> Done {
    set_time(call, MILLISECONDS)
}

pub(crate) fn expireat(call: &mut Call<'_>) -> Done {
    set_time(call, UNIX_SECONDS)
}

pub(crate) fn pexpireat(call: &mut Call<'_>) -> Done {
    set_time(call, UNIX_MILLISECONDS)
}

/// Under which condition EXPIRE sets a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Condition {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Condition {
    /// The one word in argument `index`, if it is a condition.
    pub(crate) fn word(call: &Call<'_>, index: usize) -> Option<Self> {
        let [nx, xx, gt, lt] = ["nx", "xx", "gt", "lt"].map(|word| call.is(index, word));
        (nx || xx || gt || lt).then_some(Condition { nx, xx, gt, lt })
    }

    fn parse(call: &Call<'_>) -> Result<Self, Fault> {
        let mut condition = Condition::default();
        for index in 3..call.count() {
            match () {
                () if call.is(index, "nx") => condition.nx = true,
                () if call.is(index, "xx") => condition.xx = true,
                () if call.is(index, "gt") => condition.gt = true,
                () if call.is(index, "lt") => condition.lt = true,
                () => {
                    let option = String::from_utf8_lossy(call.arg(index)).into_owned();
                    return Err(Fault::Made(format!("ERR Unsupported option {option}")));
                }
            }
        }
        let Condition { nx, xx, gt, lt } = condition;
        if nx && (xx || gt || lt) {
            return Err(Fault::Text(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if gt && lt {
            return Err(Fault::Text("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(condition)
    }

    /// Whether a row that expires at `old_ms` may get the time `new_ms`. Never is later than any.
    pub(crate) fn holds(self, old_ms: u64, new_ms: i64) -> bool {
        let old = if old_ms == 0 { i64::MAX } else { i64::try_from(old_ms).unwrap_or(i64::MAX) };
        !(self.nx && old_ms != 0
            || self.xx && old_ms == 0
            || self.gt && new_ms <= old
            || self.lt && new_ms >= old)
    }
}

fn set_time(call: &mut Call<'_>, unit: Unit) -> Done {
    let time = call.integer(2)?;
    let now_ms = call.ctx.now_ms;
    let at = unit.at(time, now_ms).ok_or_else(|| Fault::expire_time(call.command.name))?;
    let condition = Condition::parse(call)?;
    call.edit(call.arg(1), |row, buf, reply| {
        let Some(row) = row.filter(|row| condition.holds(row.expires_ms(), at)) else {
            reply.integer(0);
            return Ok(Update::Keep);
        };
        reply.integer(1);
        let Some(expires_ms) = u64::try_from(at).ok().filter(|&at| at > now_ms) else {
            return Ok(Update::Remove);
        };
        copy_row(&row, buf);
        buf.set_expires_ms(expires_ms);
        Ok(Update::Put)
    })
}

pub(crate) fn persist(call: &mut Call<'_>) -> Done {
    call.edit(call.arg(1), |row, buf, reply| {
        let Some(row) = row.filter(|row| row.expires_ms() != 0) else {
            reply.integer(0);
            return Ok(Update::Keep);
        };
        copy_row(&row, buf);
        buf.set_expires_ms(0);
        reply.integer(1);
        Ok(Update::Put)
    })
}

pub(crate) fn ttl(call: &mut Call<'_>) -> Done {
    reply_time(call, |expires_ms, now_ms| (expires_ms - now_ms).saturating_add(500) / 1000)
}

pub(crate) fn pttl(call: &mut Call<'_>) -> Done {
    reply_time(call, |expires_ms, now_ms| expires_ms - now_ms)
}

pub(crate) fn expiretime(call: &mut Call<'_>) -> Done {
    reply_time(call, |expires_ms, _| expires_ms.saturating_add(500) / 1000)
}

pub(crate) fn pexpiretime(call: &mut Call<'_>) -> Done {
    reply_time(call, |expires_ms, _| expires_ms)
}

/// Replies with `convert` of the time a row expires at and of now: -2 without a row, -1 for never.
fn reply_time(call: &mut Call<'_>, convert: fn(i64, i64) -> i64) -> Done {
    let now_ms = i64::try_from(call.ctx.now_ms).unwrap_or(i64::MAX);
    call.row(call.arg(1), |row, reply| {
        let expires_ms = row.map(|row: Row<'_>| row.expires_ms());
        reply.integer(match expires_ms {
            None => -2,
            Some(0) => -1,
            Some(at) => convert(i64::try_from(at).unwrap_or(i64::MAX), now_ms),
        });
        Ok(())
    })
}
