//! Jobs that put, and then get all that they have put: `rw1` and its variants, `rw3`, `rw4`.
//!
//! ```text
//!   rw1   seed; draw x, put D(x) -> D(x+1), until limit or time
//!         seed again; draw the same numbers into an array; swap each place with a drawn one;
//!         get them all in that order, and check each
//!   rw3   put 0, 1, 2, .. with 8 digits; then get them in the same order
//! ```
//!
//! Threads whose seeds agree (48 apart) write the same keys with the same values. The array is the
//! only memory that grows: 4 bytes a put.
//!
//! `D(x)` is the decimal text of x. A number is 31 bits, so 95 % of the keys of `rw1` have 9 or 10
//! bytes; those of `rw1fixed` have at most 8.

use super::check;
use super::client::{Client, Halt};
use super::random::Lcg;
use super::row::Row;
use super::timed::{self, Timed, up_to_limit, with_all};
use keyrack_decimal::Decimal;

/// Keys of one call of the batched variants.
const BATCH: usize = 32;
/// The words of `rw1long`; a key is one of them and a number.
const WORDS: [&[u8]; 4] = [b"user", b"machine", b"opening", b"fartparade"];

/// How a variant of `rw1` draws its next number.
type Draw = fn(&mut Lcg) -> u32;

fn any(random: &mut Lcg) -> u32 {
    random.draw()
}

fn eight_digits(random: &mut Lcg) -> u32 {
    random.draw() % 100_000_000
}

/// The value that belongs to the key of `x`.
fn value_of(x: u32) -> Decimal {
    Decimal::new(u64::from(x) + 1)
}

pub(crate) fn rw1(client: &mut dyn Client, random: &mut Lcg) -> Result<(), Halt> {
    one_by_one(client, random, any)
}

pub(crate) fn rw1fixed(client: &mut dyn Client, random: &mut Lcg) -> Result<(), Halt> {
    one_by_one(client, random, eight_digits)
}

pub(crate) fn rw1puts(client: &mut dyn Client, random: &mut Lcg) -> Result<(), Halt> {
    let puts = put_drawn(client, random, any)?;
    timed::report(client, "puts", puts);
    Ok(())
}

pub(crate) fn rw1b(client: &mut dyn Client, random: &mut Lcg) -> Result<(), Halt> {
    in_batches(client, random, any)
}

pub(crate) fn rw1fixedb(client: &mut dyn Client, random: &mut Lcg) -> Result<(), Halt> {
    in_batches(client, random, eight_digits)
}

fn one_by_one(client: &mut dyn Client, random: &mut Lcg, draw: Draw) -> Result<(), Halt> {
    let puts = put_drawn(client, random, draw)?;
    client.notice("now getting");
    let numbers = drawn_again(client, random, puts.0, draw);
    let gets = with_all(client, &numbers, |client, x| {
        check::get(client, &Decimal::new(u64::from(x)), &value_of(x))
    })?;
    report(client, puts, gets);
    Ok(())
}

/// Puts until the limit or the end of the time.
fn put_drawn(client: &mut dyn Client, random: &mut Lcg, draw: Draw) -> Result<Timed, Halt> {
    random.seed(client.random_seed());
    up_to_limit(client, |client, _| {
        let x = draw(random);
        client.put(&Decimal::new(u64::from(x)), &value_of(x))
    })
}

/// What was drawn for the puts, shuffled.
fn drawn_again<T>(
    client: &dyn Client,
    random: &mut Lcg,
    puts: u64,
    draw: impl Fn(&mut Lcg) -> T,
) -> Vec<T> {
    random.seed(client.random_seed());
    let mut numbers: Vec<T> = (0..puts).map(|_| draw(random)).collect();
    random.shuffle(&mut numbers);
    numbers
}

fn in_batches(client: &mut dyn Client, random: &mut Lcg, draw: Draw) -> Result<(), Halt> {
    random.seed(client.random_seed());
    let limit = client.limit();
    let begin = client.seconds();
    let mut puts: u64 = 0;
    let mut numbers = [0; BATCH];
    while !client.expired(0) && puts <= limit {
        let count = (limit - puts).saturating_add(1).min(BATCH as u64) as usize;
        numbers[..count].fill_with(|| draw(random));
        with_texts(&numbers[..count], |keys, values| {
            let pairs: [(&[u8], &[u8]); BATCH] = std::array::from_fn(|i| (keys[i], values[i]));
            client.put_many(&pairs[..count])
        })?;
        puts += count as u64;
    }
    client.wait_all()?;
    let put_s = client.seconds() - begin;
    client.notice("now getting");
    let numbers = drawn_again(client, random, puts, draw);
    let begin = client.seconds();
    let mut gets = 0;
    for batch in numbers.chunks(BATCH) {
        if client.expired(1) {
            break;
        }
        with_texts(batch, |keys, values| {
            check::get_many(client, &keys[..batch.len()], &values[..batch.len()])
        })?;
        gets += batch.len() as u64;
    }
    client.wait_all()?;
    let get_s = client.seconds() - begin;
    report(client, (puts, put_s), (gets, get_s));
    Ok(())
}

/// Calls `with` with the keys and the values of up to [`BATCH`] numbers; the places behind them
/// hold anything.
fn with_texts<R>(numbers: &[u32], with: impl FnOnce(&[&[u8]; BATCH], &[&[u8]; BATCH]) -> R) -> R {
    let number = |i: usize| numbers.get(i).copied().unwrap_or_default();
    let keys: [Decimal; BATCH] = std::array::from_fn(|i| Decimal::new(u64::from(number(i))));
    let values: [Decimal; BATCH] = std::array::from_fn(|i| value_of(number(i)));
    with(&std::array::from_fn(|i| &*keys[i]), &std::array::from_fn(|i| &*values[i]))
}

/// `rw1` with a word in front of each number. A put draws the number, then the word; the array
/// holds both, and both move together when it is shuffled.
pub(crate) fn rw1long(client: &mut dyn Client, random: &mut Lcg) -> Result<(), Halt> {
    let draw = |random: &mut Lcg| {
        let x = random.draw();
        (x, (random.draw() % 4) as u8)
    };
    let mut key = Vec::with_capacity(32);
    let compose = |key: &mut Vec<u8>, (x, word): (u32, u8)| {
        key.clear();
        key.extend_from_slice(WORDS[usize::from(word)]);
        key.extend_from_slice(&Decimal::new(u64::from(x)));
    };
    random.seed(client.random_seed());
    let puts = up_to_limit(client, |client, _| {
        let drawn = draw(random);
        compose(&mut key, drawn);
        client.put(&key, &value_of(drawn.0))
    })?;
    client.notice("now getting");
    let all = drawn_again(client, random, puts.0, draw);
    let gets = with_all(client, &all, |client, drawn| {
        compose(&mut key, drawn);
        check::get(client, &key, &value_of(drawn.0))
    })?;
    report(client, puts, gets);
    Ok(())
}

/// Puts the keys `key_of(0)`, `key_of(1)`, .. with at least 8 digits, and gets them in that order.
/// The gets go on to their end whatever the time. Descending keys go round below 0, to 2^32-1.
pub(crate) fn in_order(client: &mut dyn Client, key_of: fn(u32) -> u32) -> Result<(), Halt> {
    let key_of = |n: u64| Decimal::padded(key_of(n as u32).into(), 8);
    let limit = client.limit();
    let begin = client.seconds();
    let mut puts = 0;
    while !client.expired(0) && puts <= limit {
        client.put(&key_of(puts), &Decimal::new(puts + 1))?;
        puts += 1;
    }
    client.wait_all()?;
    client.notice("now getting");
    let middle = client.seconds();
    for n in 0..puts {
        check::get(client, &key_of(n), &Decimal::new(n + 1))?;
    }
    client.wait_all()?;
    let get_s = client.seconds() - middle;
    report(client, (puts, middle - begin), (puts, get_s));
    Ok(())
}

fn report(client: &mut dyn Client, (puts, put_s): Timed, (gets, get_s): Timed) {
    let mut row = Row::new();
    row.set_rate("puts", puts, put_s);
    row.set_rate("gets", gets, get_s);
    row.set_rate("ops", puts + gets, put_s + get_s);
    client.report(row);
}
