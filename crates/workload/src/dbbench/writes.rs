//! Jobs that write, and what is loaded before others.

use super::params::{Draws, Fill, Key, Shape, Tally, loaded_values, stream, value_source};
use crate::kvtest::{Client, Halt, Row, Value};
use crate::scramble::Permutation;
use crate::sizes::SizeDistribution;
use crate::values::ValueSpec;

/// Keys that the load puts at once.
const LOAD_BATCH: usize = 512;
/// Of so many writes one is made by `db/fillsync` and by `db/fill100K`.
const SHARE: u64 = 1000;
/// Bytes of a value of `db/fill100K`.
const LARGE_BYTES: u32 = 100_000;
/// Entries of a batch of `db/fillbatch`.
const BATCH: u64 = 1000;

/// Which keys, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOrder {
    Seq,
    Random,
}

/// Numbers of keys for one thread.
fn numbers(client: &dyn Client, order: WriteOrder, num: u64) -> impl FnMut() -> u64 + use<> {
    let (mut rng, mut next) = (stream(client, Draws::Keys), 0);
    move || match order {
        WriteOrder::Seq => {
            let number = next % num;
            next += 1;
            number
        }
        WriteOrder::Random => rng.below(num),
    }
}

/// Puts `num` entries in batches of `batch`.
pub(super) fn put(client: &mut dyn Client, order: WriteOrder) -> Result<(), Halt> {
    let shape = Shape::of(client)?;
    put_shape(client, &shape, order)
}

/// Puts `num` entries in order, in batches of a thousand.
pub(super) fn put_batches(client: &mut dyn Client) -> Result<(), Halt> {
    let shape = Shape { batch: BATCH, ..Shape::of(client)? };
    put_shape(client, &shape, WriteOrder::Seq)
}

/// Puts a thousandth of the entries, with large values.
pub(super) fn put_large(client: &mut dyn Client) -> Result<(), Halt> {
    let shape = Shape::of(client)?;
    let size = SizeDistribution::Fixed(LARGE_BYTES);
    let num = (shape.num / SHARE).max(1);
    let shape = Shape { num, values: ValueSpec { size, ..shape.values }, ..shape };
    put_shape(client, &shape, WriteOrder::Random)
}

fn put_shape(client: &mut dyn Client, shape: &Shape, order: WriteOrder) -> Result<(), Halt> {
    if shape.batch == 1 {
        return put_each(client, shape, order, shape.num, |client, key, value| {
            client.put(key, value)
        });
    }
    let mut next = numbers(client, order, shape.num);
    let mut values = value_source(client, &shape.values)?;
    let count = shape.num.min(client.limit());
    let (mut tally, mut bytes) = (Tally::begin(client), 0);
    let mut batch: Vec<(Key, Vec<u8>)> = Vec::new();
    while tally.ops < count && !client.expired(0) {
        batch.clear();
        for _ in 0..shape.batch.min(count - tally.ops) {
            batch.push((shape.key_of(next()), values.next_value().to_vec()));
        }
        bytes += put_all(client, &batch, |key| key)?;
        tally.ops += batch.len() as u64;
    }
    Tally { bytes: Some(bytes), ..tally }.report(client)
}

/// Puts a thousandth of the entries, each of them synced.
pub(super) fn put_synced(client: &mut dyn Client) -> Result<(), Halt> {
    let shape = Shape::of(client)?;
    let count = (shape.num / SHARE).max(1);
    put_each(client, &shape, WriteOrder::Random, count, |client, key, value| {
        client.put_synced(key, value)
    })
}

/// Puts `count` entries one by one.
fn put_each(
    client: &mut dyn Client,
    shape: &Shape,
    order: WriteOrder,
    count: u64,
    put: impl Fn(&mut dyn Client, &[u8], &[u8]) -> Result<(), Halt>,
) -> Result<(), Halt> {
    let mut next = numbers(client, order, shape.num);
    let mut values = value_source(client, &shape.values)?;
    let count = count.min(client.limit());
    let (mut tally, mut bytes) = (Tally::begin(client), 0);
    while tally.ops < count && !client.expired(0) {
        let (key, value) = (shape.key_of(next()), values.next_value());
        put(client, &key, value)?;
        bytes += (key.len() + value.len()) as u64;
        tally.ops += 1;
    }
    Tally { bytes: Some(bytes), ..tally }.report(client)
}

/// Puts a batch. Answers its bytes.
fn put_all<K>(
    client: &mut dyn Client,
    batch: &[(K, Vec<u8>)],
    bytes: fn(&K) -> &[u8],
) -> Result<u64, Halt> {
    let pairs: Vec<(&[u8], &[u8])> =
        batch.iter().map(|(key, value)| (bytes(key), value.as_slice())).collect();
    client.put_many(&pairs)?;
    Ok(pairs.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum())
}

/// Removes `num` entries in batches of `batch`.
pub(super) fn remove(client: &mut dyn Client, order: WriteOrder) -> Result<(), Halt> {
    let shape = Shape::of(client)?;
    let mut next = numbers(client, order, shape.num);
    let count = shape.num.min(client.limit());
    let mut tally = Tally::begin(client);
    while tally.ops < count && !client.expired(0) {
        if shape.batch == 1 {
            client.remove(&shape.key_of(next()))?;
            tally.ops += 1;
            continue;
        }
        let left = shape.batch.min(count - tally.ops);
        let keys: Vec<Key> = (0..left).map(|_| shape.key_of(next())).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
        client.remove_many(&keys)?;
        tally.ops += keys.len() as u64;
    }
    tally.report(client)
}

/// The thread beside the readers of `db/readwhilewriting`: puts until they are through.
pub(super) fn put_beside(client: &mut dyn Client, shape: &Shape) -> Result<(), Halt> {
    let mut next = numbers(client, WriteOrder::Random, shape.num);
    let mut values = value_source(client, &shape.values)?;
    let (begin_s, mut puts) = (client.seconds(), 0);
    while !client.is_alone() {
        client.put(&shape.key_of(next()), values.next_value())?;
        puts += 1;
    }
    let mut row = Row::new();
    row.set("writes", Value::Count(puts));
    let seconds = client.seconds() - begin_s;
    if seconds > 0.0 {
        row.set("writes_per_sec", Value::Number(puts as f64 / seconds));
    }
    client.report(row);
    Ok(())
}

/// Puts every key once, this thread its share.
pub(super) fn load(client: &mut dyn Client) -> Result<(), Halt> {
    let shape = Shape::of(client)?;
    let fill = shape.fill.decided(client);
    let permutation = Permutation::new(shape.num);
    match fill {
        Fill::Seq => {
            let key_of = |number| shape.key_of(number);
            load_share(client, shape.num, &shape.values, key_of, |key| key)
        }
        Fill::Random => {
            let key_of = |number| shape.key_of(permutation.apply(number));
            load_share(client, shape.num, &shape.values, key_of, |key| key)
        }
        Fill::Auto | Fill::None => Ok(()),
    }
}

/// Puts this thread's share of `count` entries, whose keys `key_of` makes of their numbers.
pub(super) fn load_share<K>(
    client: &mut dyn Client,
    count: u64,
    values: &ValueSpec,
    key_of: impl Fn(u64) -> K,
    bytes: fn(&K) -> &[u8],
) -> Result<(), Halt> {
    let mut values = loaded_values(client, values)?;
    let mut batch: Vec<(K, Vec<u8>)> = Vec::with_capacity(LOAD_BATCH);
    let (first, step) = (u64::from(client.id()), client.threads() as usize);
    for number in (first..count).step_by(step) {
        batch.push((key_of(number), values.next_value().to_vec()));
        if batch.len() == LOAD_BATCH {
            put_all(client, &batch, bytes)?;
            batch.clear();
        }
    }
    if !batch.is_empty() {
        put_all(client, &batch, bytes)?;
    }
    client.wait_all()
}
