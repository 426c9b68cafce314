//! Jobs that read, and the one that does both.

use super::params::{Draws, Shape, Tally, stream, value_source};
use super::writes::put_beside;
use crate::kvtest::{Client, Halt, Value};

/// Which keys are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// Any of them.
    All,
    /// The first hundredth.
    Hot,
    /// Any, without its last digit, so that none is there.
    Missing,
}

/// Gets `reads` drawn keys.
pub(super) fn get(client: &mut dyn Client, keys: Keys) -> Result<(), Halt> {
    let shape = Shape::of(client)?;
    get_as(client, &shape, keys)
}

/// Gets `reads`/1000 drawn keys, and at least one.
pub(super) fn get_few(client: &mut dyn Client) -> Result<(), Halt> {
    let shape = Shape::of(client)?;
    let reads = (shape.reads / 1000).max(1);
    get_as(client, &Shape { reads, ..shape }, Keys::All)
}

fn get_as(client: &mut dyn Client, shape: &Shape, keys: Keys) -> Result<(), Halt> {
    let mut rng = stream(client, Draws::Keys);
    let numbers = if keys == Keys::Hot { shape.num.div_ceil(100) } else { shape.num };
    let count = shape.reads.min(client.limit());
    let (mut tally, mut found) = (Tally::begin(client), 0);
    while tally.ops < count && !client.expired(0) {
        let key = shape.key_of(rng.below(numbers));
        let key = if keys == Keys::Missing { &key[..key.len() - 1] } else { &key[..] };
        found += u64::from(client.get(key, &mut |_| {})?);
        tally.ops += 1;
    }
    Tally { found: Some((tally.ops, found)), ..tally }.report(client)
}

/// Readers as `db/readrandom`; the thread beside them writes.
pub(super) fn read_while_writing(client: &mut dyn Client) -> Result<(), Halt> {
    let shape = Shape::of(client)?;
    if client.id() < client.threads() {
        get_as(client, &shape, Keys::All)
    } else {
        put_beside(client, &shape)
    }
}

/// Walks over `reads` rows.
pub(super) fn walk(client: &mut dyn Client, is_reverse: bool) -> Result<(), Halt> {
    let shape = Shape::of(client)?;
    let count = shape.reads.min(client.limit());
    let (mut tally, mut bytes) = (Tally::begin(client), 0);
    let mut visit = |key: &[u8], value: &[u8]| bytes += (key.len() + value.len()) as u64;
    tally.ops = if is_reverse {
        client.walk_rev(count, &mut visit)?
    } else {
        client.walk(count, &mut visit)?
    };
    Tally { bytes: Some(bytes), ..tally }.report(client)
}

/// The steps of ascending seeks are drawn below this.
const SEEK_STEP: u64 = 100;

/// Looks for keys and reads on: for drawn ones, or each a drawn step above the one before.
pub(super) fn seek(client: &mut dyn Client, is_ascending: bool) -> Result<(), Halt> {
    let shape = Shape::of(client)?;
    let mut rng = stream(client, Draws::Keys);
    let count = shape.reads.min(client.limit());
    let (mut tally, mut found, mut last) = (Tally::begin(client), 0, 0);
    while tally.ops < count && !client.expired(0) {
        last = if is_ascending {
            (last + rng.below(SEEK_STEP)) % shape.num
        } else {
            rng.below(shape.num)
        };
        let wanted = shape.key_of(last);
        let (mut is_found, mut is_first) = (false, true);
        client.scan(&wanted, shape.nexts + 1, &mut |key, _| {
            is_found |= is_first && key == &*wanted;
            is_first = false;
        })?;
        found += u64::from(is_found);
        tally.ops += 1;
    }
    Tally { found: Some((tally.ops, found)), ..tally }.report(client)
}

/// Puts and gets drawn keys.
pub(super) fn mixed(client: &mut dyn Client) -> Result<(), Halt> {
    let shape = Shape::of(client)?;
    let (mut rng, mut dice) = (stream(client, Draws::Keys), stream(client, Draws::Operations));
    let mut values = value_source(client, &shape.values)?;
    let count = shape.num.min(client.limit());
    let (mut tally, mut reads, mut found) = (Tally::begin(client), 0, 0);
    while tally.ops < count && !client.expired(0) {
        let key = shape.key_of(rng.below(shape.num));
        if dice.below(100) < shape.writes {
            client.put(&key, values.next_value())?;
        } else {
            reads += 1;
            found += u64::from(client.get(&key, &mut |_| {})?);
        }
        tally.ops += 1;
    }
    client.wait_all()?;
    tally.found = Some((reads, found));
    let mut row = tally.row(client);
    row.set("writes", Value::Count(tally.ops - reads));
    client.report(row);
    Ok(())
}
