//! Jobs whose puts and gets are mixed: `rw2` and its variants, and those on a few hot keys.
//!
//! ```text
//!   rw2        k-th put: key D(x), x = (offset + k) * 2654435761 mod 2^32, value D(x+1 mod 2^32)
//!              a get takes a k that was put, drawn uniformly, and checks its value
//!   rw2fixed   the same with x mod 10^8
//!   rwsmall24  draw below 192: the low 3 bits say get (7 of 8) or put, the rest which of 24 keys
//! ```
//!
//! The factor is odd, so the keys of one `rw2` thread are distinct until 2^32 of them.

use super::check;
use super::client::{Client, Halt};
use super::random::Lcg;
use super::row::{Row, Value};
use super::timed::{report, up_to_limit};
use keyrack_decimal::Decimal;

/// Keys of the `fixed` variants are below this.
pub(crate) const FIXED: u32 = 100_000_000;
const FACTOR: u32 = 2_654_435_761;
/// Hot keys of `rwsmall24` and `rwsep24`.
const HOT_KEYS: u64 = 24;

/// `gets` is the share of the gets; keys are taken modulo `modulus`, where `u32::MAX` means not at
/// all.
pub(crate) fn rw2(
    client: &mut dyn Client,
    random: &mut Lcg,
    get_share: f64,
    modulus: u32,
) -> Result<(), Halt> {
    random.seed(client.random_seed());
    let offset = random.draw();
    let key_of = |k: u64| {
        let x = offset.wrapping_add(k as u32).wrapping_mul(FACTOR);
        if modulus == u32::MAX { x } else { x % modulus }
    };
    let mut puts = 0;
    let (ops, seconds) = up_to_limit(client, |client, _| {
        // The first operation draws nothing: there is nothing to get yet.
        let is_put = puts == 0 || !random.chance(get_share);
        let x = key_of(if is_put { puts } else { random.below(puts) });
        let (key, value) = (Decimal::new(x.into()), Decimal::new(x.wrapping_add(1).into()));
        if is_put {
            puts += 1;
            client.put(&key, &value)
        } else {
            check::get(client, &key, &value)
        }
    })?;
    let mut row = Row::new();
    row.set("puts", Value::Count(puts));
    row.set("gets", Value::Count(ops - puts));
    row.set_rate("ops", ops, seconds);
    client.report(row);
    Ok(())
}

/// All threads put the keys 0 to 9.
pub(crate) fn same(client: &mut dyn Client, random: &mut Lcg) -> Result<(), Halt> {
    random.seed(client.random_seed());
    let puts = up_to_limit(client, |client, _| {
        let x = random.below(10);
        client.put(&Decimal::new(x), &Decimal::new(x + 1))
    })?;
    report(client, "puts", puts);
    Ok(())
}

/// All threads share the 24 keys.
pub(crate) fn rwsmall24(client: &mut dyn Client, random: &mut Lcg) -> Result<(), Halt> {
    hot_keys(client, random, 0)
}

/// Each thread has 24 keys of its own, which it puts first, together with 32 more that keep those
/// of two threads off one cache line.
pub(crate) fn rwsep24(client: &mut dyn Client, random: &mut Lcg) -> Result<(), Halt> {
    let span = 32 + HOT_KEYS;
    let first = u64::from(client.id()) * span;
    for n in first..first + span {
        client.put(&Decimal::new(1_000_000 + n), &Decimal::new(n))?;
    }
    hot_keys(client, random, 1_000_000 + first)
}

fn hot_keys(client: &mut dyn Client, random: &mut Lcg, first: u64) -> Result<(), Halt> {
    random.seed(client.random_seed());
    let ops = up_to_limit(client, |client, number| {
        let x = random.below(HOT_KEYS << 3);
        let key = Decimal::new(first + (x >> 3));
        if x & 7 == 0 {
            client.put(&key, &Decimal::new(number))
        } else {
            client.get(&key, &mut |_| {}).map(|_| ())
        }
    })?;
    report(client, "ops", ops);
    Ok(())
}
