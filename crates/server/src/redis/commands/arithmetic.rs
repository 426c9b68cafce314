//! Strings that are numbers: INCR and its relatives.

use keyrack_store::Update;

use crate::redis::call::{Call, keep_attributes, string_of};
use crate::redis::fault::{Done, Fault};
use crate::redis::number::{Amount, IntegerText, integer};

pub(crate) fn incr(call: &mut Call<'_>) -> Done {
    add(call, 1)
}

pub(crate) fn decr(call: &mut Call<'_>) -> Done {
    add(call, -1)
}

pub(crate) fn incrby(call: &mut Call<'_>) -> Done {
    add(call, call.integer(2)?)
}

pub(crate) fn decrby(call: &mut Call<'_>) -> Done {
    let by = call.integer(2)?;
    add(call, by.checked_neg().ok_or(Fault::Text("ERR decrement would overflow"))?)
}

fn add(call: &mut Call<'_>, by: i64) -> Done {
    call.edit(call.arg(1), |row, buf, reply| {
        let old = match string_of(row.as_ref())? {
            Some(value) => integer(value).ok_or(Fault::NOT_AN_INTEGER)?,
            None => 0,
        };
        let new = old.checked_add(by).ok_or(Fault::OVERFLOW)?;
        keep_attributes(row.as_ref(), buf);
        buf.set_value(&IntegerText::new(new));
        reply.integer(new);
        Ok(Update::Put)
    })
}

pub(crate) fn incrbyfloat(call: &mut Call<'_>) -> Done {
    let by = call.arg(2);
    call.edit(call.arg(1), |row, buf, reply| {
        let old = match string_of(row.as_ref())? {
            Some(value) => Amount::parse(value).ok_or(Fault::NOT_A_FLOAT)?,
            None => Amount::Exact(0),
        };
        // As in Redis, the stored value is checked first.
        let by = Amount::parse(by).ok_or(Fault::NOT_A_FLOAT)?;
        let text = old.plus(by).ok_or(Fault::NOT_FINITE)?.text();
        keep_attributes(row.as_ref(), buf);
        buf.set_value(text.as_bytes());
        reply.bulk(text.as_bytes());
        Ok(Update::Put)
    })
}
