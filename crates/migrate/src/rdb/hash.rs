//! The forms of a hash.
//!
//! | form | bytes |
//! |---|---|
//! | pairs | count, then name and value |
//! | pairs with expiry (Valkey 9) | count, then name, value, time in ms or -1 |
//! | expiry and pairs (Redis 7.4) | earliest time in ms, count, then time, name, value; a time is 0 for none, or counted from the earliest, which is 1 |
//! | list pack, zip list, zip map | a string with names and values |
//! | list pack with expiry (Redis 7.4) | earliest time, then a string with names, values, times in ms or 0 |

use super::listpack::ListPack;
use super::string::{count, plain_length, string};
use super::ziplist::{ZipList, ZipMap};
use crate::error::Result;
use crate::event::{Event, Visit};
use crate::input::Input;
use keyrack_wire::parse_u64;

/// How a hash is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    Pairs,
    PairsExpiry,
    ExpiryPairs,
    ListPack,
    ListPackExpiry,
    ZipList,
    ZipMap,
}

/// Reports the fields of the hash that comes.
pub(super) fn fields(form: Form, input: &mut Input<'_>, visit: Visit<'_>) -> Result<()> {
    match form {
        Form::Pairs | Form::PairsExpiry | Form::ExpiryPairs => pairs(form, input, visit),
        _ => packed(form, input, visit),
    }
}

fn pairs(form: Form, input: &mut Input<'_>, visit: Visit<'_>) -> Result<()> {
    let earliest_ms = match form {
        Form::ExpiryPairs => u64::from_le_bytes(input.array()?),
        _ => 0,
    };
    let (mut name, mut value) = (Vec::new(), Vec::new());
    for _ in 0..count(input)? {
        let at = input.offset();
        let mut expires_ms = None;
        if let Form::ExpiryPairs = form {
            let later_ms = plain_length(input)?;
            if let Some(later_ms) = later_ms.checked_sub(1) {
                let sum = earliest_ms.checked_add(later_ms);
                expires_ms = Some(sum.ok_or_else(|| input.damage(at, "no such time"))?);
            }
        }
        string(input, &mut name)?;
        string(input, &mut value)?;
        if let Form::PairsExpiry = form {
            let time_ms = i64::from_le_bytes(input.array()?);
            expires_ms = u64::try_from(time_ms).ok();
            if expires_ms.is_none() && time_ms != -1 {
                return Err(input.damage(at, "no such time"));
            }
        }
        visit(Event::Field { name: &name, value: &value, expires_ms })?;
    }
    Ok(())
}

fn packed(form: Form, input: &mut Input<'_>, visit: Visit<'_>) -> Result<()> {
    let at = input.offset();
    if let Form::ListPackExpiry = form {
        // The earliest time, which the list has too.
        let _: [u8; 8] = input.array()?;
    }
    let mut bytes = Vec::new();
    string(input, &mut bytes)?;
    let damage = || input.damage(at, "a packed hash that cannot be read");
    let mut list = Packed::new(form, &bytes).ok_or_else(damage)?;
    let (mut name, mut value, mut time) = (Vec::new(), Vec::new(), Vec::new());
    while list.read(&mut name).ok_or_else(damage)? {
        let mut more = |into: &mut Vec<u8>| list.read(into).filter(|is_there| *is_there);
        more(&mut value).ok_or_else(damage)?;
        let mut expires_ms = None;
        if let Form::ListPackExpiry = form {
            more(&mut time).ok_or_else(damage)?;
            expires_ms = Some(parse_u64(&time).ok_or_else(damage)?).filter(|time| *time > 0);
        }
        visit(Event::Field { name: &name, value: &value, expires_ms })?;
    }
    Ok(())
}

/// A list in one piece of memory.
enum Packed<'a> {
    ListPack(ListPack<'a>),
    ZipList(ZipList<'a>),
    ZipMap(ZipMap<'a>),
}

impl<'a> Packed<'a> {
    fn new(form: Form, bytes: &'a [u8]) -> Option<Self> {
        match form {
            Form::ZipList => ZipList::new(bytes).map(Packed::ZipList),
            Form::ZipMap => ZipMap::new(bytes).map(Packed::ZipMap),
            _ => ListPack::new(bytes).map(Packed::ListPack),
        }
    }

    /// Replaces `into` by the next element. `Some(false)` is the end, `None` is damage.
    fn read(&mut self, into: &mut Vec<u8>) -> Option<bool> {
        let element = match self {
            Packed::ListPack(list) => list.next()?,
            Packed::ZipList(list) => list.next()?,
            Packed::ZipMap(map) => map.next()?,
        };
        Some(element.map(|element| element.write(into)).is_some())
    }
}
