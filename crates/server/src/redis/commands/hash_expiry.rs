//! Times at which fields expire: the HEXPIRE and HTTL families, HGETDEL, HGETEX and HSETEX.
//!
//! The row of a small hash has no times for its fields. So the first time makes a hash large, where
//! a field is a row, which has one. A field whose time has come is absent, and is removed later; a
//! time that has come already removes the field at once. The last field takes the key with it.

use keyrack_rowstore::{Collection, Row, RowBuf};
use keyrack_store::Update;

use crate::redis::call::{Call, copy_row};
use crate::redis::commands::expiry::{
    Condition, MILLISECONDS, SECONDS, UNIX_MILLISECONDS, UNIX_SECONDS, Unit, expires_ms,
};
use crate::redis::commands::hashes::{check_reply, put_or_null};
use crate::redis::fault::{Done, Fault};
use crate::redis::hash::{Hash, Merged, merge};
use crate::redis::large;

/// The reply for a field that is not there.
const NO_FIELD: i64 = -2;
/// The reply for a field that has no time.
const NO_TIME: i64 = -1;

/// The arguments that `FIELDS count` announces from argument `at` on, `step` to a field: the first,
/// and how many fields.
fn fields(call: &Call<'_>, at: usize, step: usize) -> Result<(usize, usize), Fault> {
    if !call.is(at, "fields") {
        return Err(Fault::Text(
            "ERR Mandatory argument FIELDS is missing or not at the right position",
        ));
    }
    let count = call.args.get(at + 1).and_then(crate::redis::number::integer);
    let count = count.and_then(|count| usize::try_from(count).ok()).filter(|&count| count > 0);
    let count = count.ok_or(Fault::Text("ERR Parameter `numFields` should be greater than 0"))?;
    if count.checked_mul(step) != Some(call.count().saturating_sub(at + 2)) {
        return Err(Fault::Text(
            "ERR The `numfields` parameter must match the number of arguments",
        ));
    }
    Ok((at + 2, count))
}

/// Replies with one number for each field.
fn reply_numbers(call: &mut Call<'_>, numbers: &[i64]) -> Done {
    call.reply.array(numbers.len());
    numbers.iter().for_each(|&number| call.reply.integer(number));
    Ok(())
}

/// Whether the small hash of argument 1 has each of `count` fields from argument `first` on.
fn has_fields(call: &mut Call<'_>, first: usize, count: usize) -> Result<Vec<bool>, Fault> {
    let (args, mut found) = (call.args, Vec::new());
    call.row(call.arg(1), |row, _| {
        let hash = Hash::of(row)?;
        let has = |index| hash.is_some_and(|hash| hash.value(args.arg(index)).is_some());
        found = (first..first + count).map(has).collect();
        Ok(())
    })?;
    Ok(found)
}

pub(crate) fn hexpire(call: &mut Call<'_>) -> Done {
    set_times(call, SECONDS)
}

pub(crate) fn hpexpire(call: &mut Call<'_>) -> Done {
    set_times(call, MILLISECONDS)
}

pub(crate) fn hexpireat(call: &mut Call<'_>) -> Done {
    set_times(call, UNIX_SECONDS)
}

pub(crate) fn hpexpireat(call: &mut Call<'_>) -> Done {
    set_times(call, UNIX_MILLISECONDS)
}

fn set_times(call: &mut Call<'_>, unit: Unit) -> Done {
    let time = call.integer(2)?;
    if time < 0 {
        return Err(Fault::Text("ERR invalid expire time, must be >= 0"));
    }
    let at = unit.at(time, call.ctx.now_ms);
    let at = at.ok_or_else(|| Fault::expire_time(call.command.name))?;
    let condition = Condition::word(call, 3);
    let (first, count) = fields(call, 3 + usize::from(condition.is_some()), 1)?;
    let (args, now_ms) = (call.args, call.ctx.now_ms);
    let condition = condition.unwrap_or_default();
    let numbers = large::write(
        call,
        |call| {
            let found = has_fields(call, first, count)?;
            if condition.holds(0, at) && found.contains(&true) {
                return Err(Fault::Grown);
            }
            Ok(found.iter().map(|&found| if found { 0 } else { NO_FIELD }).collect::<Vec<i64>>())
        },
        |call, collection| {
            edit_fields(call, collection, |call, numbers: &mut Vec<i64>| {
                for index in first..first + count {
                    let mut number = NO_FIELD;
                    large::edit(call, collection, args.arg(index), |row, new| {
                        let change = match row {
                            None => (NO_FIELD, Update::Keep),
                            Some(row) if !condition.holds(row.expires_ms(), at) => {
                                (0, Update::Keep)
                            }
                            Some(row) => set_time(&row, at, now_ms, new),
                        };
                        number = change.0;
                        Ok(change.1)
                    })?;
                    numbers.push(number);
                }
                Ok(())
            })
        },
    )?;
    reply_numbers(call, &numbers)
}

/// Gives a field a time, or removes it if the time has come: the reply and the change.
fn set_time(row: &Row<'_>, at: i64, now_ms: u64, new: &mut RowBuf) -> (i64, Update) {
    match u64::try_from(at).ok().filter(|&at| at > now_ms) {
        None => (2, Update::Remove),
        Some(expires_ms) => {
            copy_row(row, new);
            new.set_expires_ms(expires_ms);
            (1, Update::Put)
        }
    }
}

/// Runs `work` as one group, and removes the key of a hash that has no field left.
fn edit_fields<T: Default>(
    call: &mut Call<'_>,
    collection: &Collection,
    work: impl FnOnce(&mut Call<'_>, &mut T) -> Done,
) -> Result<T, Fault> {
    large::in_group(call, |call| {
        let mut done = T::default();
        work(call, &mut done)?;
        large::remove_if_empty(call, collection)?;
        Ok(done)
    })
}

pub(crate) fn hpersist(call: &mut Call<'_>) -> Done {
    let (first, count) = fields(call, 2, 1)?;
    let args = call.args;
    let numbers = large::write(
        call,
        |call| {
            let found = has_fields(call, first, count)?;
            let number = |&found: &bool| if found { NO_TIME } else { NO_FIELD };
            Ok(found.iter().map(number).collect::<Vec<i64>>())
        },
        |call, collection| {
            edit_fields(call, collection, |call, numbers: &mut Vec<i64>| {
                for index in first..first + count {
                    let mut number = NO_FIELD;
                    large::edit(call, collection, args.arg(index), |row, new| {
                        number = match &row {
                            None => NO_FIELD,
                            Some(row) if row.expires_ms() == 0 => NO_TIME,
                            Some(row) => {
                                copy_row(row, new);
                                new.set_expires_ms(0);
                                1
                            }
                        };
                        Ok(if number == 1 { Update::Put } else { Update::Keep })
                    })?;
                    numbers.push(number);
                }
                Ok(())
            })
        },
    )?;
    reply_numbers(call, &numbers)
}

pub(crate) fn httl(call: &mut Call<'_>) -> Done {
    reply_times(call, |at, now_ms| (at - now_ms).saturating_add(999) / 1000)
}

pub(crate) fn hpttl(call: &mut Call<'_>) -> Done {
    reply_times(call, |at, now_ms| at - now_ms)
}

pub(crate) fn hexpiretime(call: &mut Call<'_>) -> Done {
    reply_times(call, |at, _| at.saturating_add(999) / 1000)
}

pub(crate) fn hpexpiretime(call: &mut Call<'_>) -> Done {
    reply_times(call, |at, _| at)
}

fn reply_times(call: &mut Call<'_>, convert: fn(i64, i64) -> i64) -> Done {
    let (first, count) = fields(call, 2, 1)?;
    let (args, now_ms) = (call.args, i64::try_from(call.ctx.now_ms).unwrap_or(i64::MAX));
    let numbers = large::write(
        call,
        |call| {
            let found = has_fields(call, first, count)?;
            let number = |&found: &bool| if found { NO_TIME } else { NO_FIELD };
            Ok(found.iter().map(number).collect::<Vec<i64>>())
        },
        |call, collection| {
            let mut numbers = Vec::new();
            for index in first..first + count {
                let mut number = NO_FIELD;
                let id = collection.id();
                call.ctx.rows.get_element(id, args.arg(index), &mut |row| {
                    number = match i64::try_from(row.expires_ms()).unwrap_or(i64::MAX) {
                        0 => NO_TIME,
                        at => convert(at, now_ms),
                    };
                })?;
                numbers.push(number);
            }
            Ok(numbers)
        },
    )?;
    reply_numbers(call, &numbers)
}

/// Values that a command returns, up to its limit.
#[derive(Debug, Default)]
struct Values {
    values: Vec<Option<Vec<u8>>>,
    bytes: usize,
}

impl Values {
    fn push(&mut self, value: Option<&[u8]>, bytes_max: usize) -> Done {
        self.bytes += value.map_or(8, <[u8]>::len);
        self.values.push(value.map(<[u8]>::to_vec));
        check_reply(self.bytes, bytes_max)
    }

    fn reply(&self, call: &mut Call<'_>) -> Done {
        call.reply.array(self.values.len());
        self.values.iter().for_each(|value| put_or_null(value.as_deref(), &mut call.reply));
        Ok(())
    }
}

pub(crate) fn hgetdel(call: &mut Call<'_>) -> Done {
    let (first, count) = fields(call, 2, 1)?;
    let (args, bytes_max) = (call.args, call.ctx.shared.options.reply_bytes_max);
    let mut names: Vec<&[u8]> = (first..first + count).map(|index| args.arg(index)).collect();
    let asked = names.clone();
    names.sort_unstable();
    names.dedup();
    let values = large::write(
        call,
        |call| {
            let mut values = Values::default();
            call.edit(call.arg(1), |row, buf, _| {
                values = Values::default();
                let old = Hash::of(row)?;
                let mut gone: Vec<&[u8]> = Vec::new();
                for name in &asked {
                    // A name that comes again finds nothing.
                    let value =
                        old.and_then(|old| old.value(name)).filter(|_| !gone.contains(name));
                    gone.extend(value.map(|_| *name));
                    values.push(value, bytes_max)?;
                }
                Ok(match merge(old, names.len(), |index| (names[index], None), buf) {
                    Merged { removed: 0, .. } => Update::Keep,
                    Merged { left: 0, .. } => Update::Remove,
                    _ => Update::Put,
                })
            })?;
            Ok(values)
        },
        |call, collection| {
            edit_fields(call, collection, |call, values: &mut Values| {
                for name in &asked {
                    edit_value(call, collection, name, values, bytes_max, |_, _| Update::Remove)?;
                }
                Ok(())
            })
        },
    )?;
    values.reply(call)
}

/// Returns the value of a field and changes it as `change` decides, if there is one.
fn edit_value(
    call: &mut Call<'_>,
    collection: &Collection,
    name: &[u8],
    values: &mut Values,
    bytes_max: usize,
    change: impl Fn(&Row<'_>, &mut RowBuf) -> Update,
) -> Done {
    let mut value = None;
    large::edit(call, collection, name, |row, new| {
        value = row.map(|row| row.value().to_vec());
        Ok(row.map_or(Update::Keep, |row| change(&row, new)))
    })?;
    values.push(value.as_deref(), bytes_max)
}

/// What a command does with the times of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    Keep,
    Never,
    At(u64),
}

/// The option on time in argument `at`, and the number of its words.
fn time_option(
    call: &Call<'_>,
    at: usize,
    word: &str,
    named: Time,
) -> Result<(Time, usize), Fault> {
    if call.is(at, word) {
        return Ok((named, 1));
    }
    match call.args.get(at).and_then(Unit::of) {
        Some(unit) if at + 1 < call.count() => Ok((Time::At(expires_ms(call, at + 1, unit)?), 2)),
        _ => Ok((if word == "persist" { Time::Keep } else { Time::Never }, 0)),
    }
}

pub(crate) fn hgetex(call: &mut Call<'_>) -> Done {
    let (time, words) = time_option(call, 2, "persist", Time::Never)?;
    let (first, count) = fields(call, 2 + words, 1)?;
    let (args, now_ms) = (call.args, call.ctx.now_ms);
    let bytes_max = call.ctx.shared.options.reply_bytes_max;
    let values = large::write(
        call,
        |call| {
            let mut values = Values::default();
            call.row(call.arg(1), |row, _| {
                let hash = Hash::of(row)?;
                for index in first..first + count {
                    let value = hash.and_then(|hash| hash.value(args.arg(index)));
                    if value.is_some() && matches!(time, Time::At(_)) {
                        return Err(Fault::Grown);
                    }
                    values.push(value, bytes_max)?;
                }
                Ok(())
            })?;
            Ok(values)
        },
        |call, collection| {
            edit_fields(call, collection, |call, values: &mut Values| {
                for index in first..first + count {
                    let name = args.arg(index);
                    edit_value(call, collection, name, values, bytes_max, |row, new| match time {
                        Time::Keep => Update::Keep,
                        Time::Never if row.expires_ms() == 0 => Update::Keep,
                        Time::Never => {
                            copy_row(row, new);
                            new.set_expires_ms(0);
                            Update::Put
                        }
                        Time::At(at) => {
                            set_time(row, i64::try_from(at).unwrap_or(i64::MAX), now_ms, new).1
                        }
                    })?;
                }
                Ok(())
            })
        },
    )?;
    values.reply(call)
}

/// What HSETEX is to do.
struct SetFields<'a> {
    only_new: bool,
    only_old: bool,
    /// Names and values, in the order of names.
    fields: Vec<(&'a [u8], &'a [u8])>,
    keeps_time: bool,
    /// When the fields expire; 0 for never.
    expires_ms: u64,
    /// Whether that time has come.
    is_past: bool,
}

impl<'a> SetFields<'a> {
    fn parse(call: &Call<'a>) -> Result<Self, Fault> {
        let (only_new, only_old) = (call.is(2, "fnx"), call.is(2, "fxx"));
        let at = 2 + usize::from(only_new || only_old);
        let (time, words) = time_option(call, at, "keepttl", Time::Keep)?;
        let (first, count) = fields(call, at + words, 2)?;
        let field = |index: usize| (call.arg(first + 2 * index), call.arg(first + 2 * index + 1));
        // If a name occurs twice, the later value wins.
        let mut fields: Vec<_> = (0..count).rev().map(field).collect();
        fields.sort_by(|a, b| a.0.cmp(b.0));
        fields.dedup_by(|a, b| a.0 == b.0);
        let expires_ms = if let Time::At(at) = time { at } else { 0 };
        let is_past = expires_ms != 0 && expires_ms <= call.ctx.now_ms;
        let keeps_time = time == Time::Keep;
        Ok(SetFields { only_new, only_old, fields, keeps_time, expires_ms, is_past })
    }

    /// A field to set, or to remove if its time has come.
    fn change(&self, index: usize) -> large::Change<'a> {
        let (name, value) = self.fields[index];
        (name, (!self.is_past).then_some(value))
    }

    /// Whether the fields that are there allow it.
    fn is_met(&self, mut has: impl FnMut(&[u8]) -> Result<bool, Fault>) -> Result<bool, Fault> {
        for (name, _) in &self.fields {
            if (self.only_new || self.only_old) && has(name)? != self.only_old {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Changes a small hash. Returns whether it did; nothing if a large one has to be made first.
    fn set_small(&self, call: &mut Call<'_>) -> Result<Option<bool>, Fault> {
        let fits = large::check_size(call);
        let mut done = None;
        call.edit(call.arg(1), |row, buf, _| {
            let old = Hash::of(row)?;
            done = Some(false);
            if !self.is_met(|name| Ok(old.is_some_and(|old| old.value(name).is_some())))? {
                return Ok(Update::Keep);
            }
            done = None;
            if self.expires_ms != 0 && !self.is_past {
                return if old.is_some() { Err(Fault::Grown) } else { Ok(Update::Keep) };
            }
            let merged = merge(old, self.fields.len(), |index| self.change(index), buf);
            match fits(&merged, buf) {
                Err(Fault::Grown) if old.is_none() => return Ok(Update::Keep),
                fitting => fitting?,
            }
            done = Some(true);
            Ok(match merged.left {
                0 if old.is_none() => Update::Keep,
                0 => Update::Remove,
                _ => Update::Put,
            })
        })?;
        Ok(done)
    }

    fn set_large(&self, call: &mut Call<'_>, hash: &Collection) -> Result<bool, Fault> {
        let rows = &mut *call.ctx.rows;
        if !self.is_met(|name| Ok(rows.get_element(hash.id(), name, &mut |_| {})?))? {
            return Ok(false);
        }
        edit_fields(call, hash, |call, _: &mut ()| {
            for (name, value) in (0..self.fields.len()).map(|index| self.change(index)) {
                large::edit(call, hash, name, |row, new| {
                    let Some(value) = value else {
                        return Ok(row.map_or(Update::Keep, |_| Update::Remove));
                    };
                    new.set_value(value);
                    let kept = row.map_or(0, |row| row.expires_ms());
                    new.set_expires_ms(if self.keeps_time { kept } else { self.expires_ms });
                    Ok(Update::Put)
                })?;
            }
            Ok(())
        })?;
        Ok(true)
    }
}

pub(crate) fn hsetex(call: &mut Call<'_>) -> Done {
    let set = SetFields::parse(call)?;
    let is_set = loop {
        let done = large::write(
            call,
            |call| set.set_small(call),
            |call, hash| set.set_large(call, hash).map(Some),
        )?;
        if let Some(is_set) = done {
            break is_set;
        }
        if large::create(call, set.fields.len(), |index| set.change(index), set.expires_ms)? {
            break true;
        }
    };
    call.reply.integer(is_set.into());
    Ok(())
}
