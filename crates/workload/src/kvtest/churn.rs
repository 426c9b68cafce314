//! Jobs whose keys come and go: `wd1` and its variants, `wd3`.
//!
//! ```text
//!   wd1   thread 2k:    put pos, pos + step, pos + 2 step, ..
//!         thread 2k+1:  wait until the put of pos + 16 step; then remove pos; where it was there,
//!                       go to pos + step
//!   wd3   each thread, its own range, round after round:
//!         insert all, get all, remove all, find all absent; every answer is checked
//! ```
//!
//! The step of `wd1` is at least half the threads, so that each pair has keys of its own. Neither
//! job draws.

use super::check;
use super::client::{Client, Halt};
use super::row::{Row, Value};
use super::scale::number;
use keyrack_decimal::Decimal;

/// How far the remover of `wd1` lets its writer get ahead before it begins, in steps.
const LEAD: u64 = 16;

pub(crate) fn wd1(client: &mut dyn Client, first: u64, step: u64) -> Result<(), Halt> {
    if client.threads() < 2 {
        client.warn("one thread puts and nobody removes; give it two threads or more");
    }
    let step = step.max(u64::from(client.threads()) / 2);
    let mut pos = first + u64::from(client.id()) / 2 % step;
    let limit = client.limit();
    let mut row = Row::new();
    let begin = client.seconds();
    let mut ops = 0;
    if client.id() % 2 == 1 {
        let ahead = Decimal::new(pos + LEAD * step);
        // With a smaller limit the writer never gets there.
        while limit >= LEAD && !client.get(&ahead, &mut |_| {})? && !client.expired(0) {}
        while !client.expired(0) && ops <= limit {
            ops += 1;
            if client.delete_existing(&Decimal::new(pos))? {
                pos += step;
            }
        }
        row.set("removepos", Value::Count(pos));
    } else {
        while !client.expired(0) && ops <= limit {
            ops += 1;
            client.put(&Decimal::new(pos), &Decimal::new(pos + 1))?;
            pos += step;
        }
        row.set("putpos", Value::Count(pos));
    }
    client.wait_all()?;
    row.set_rate("ops", ops, client.seconds() - begin);
    client.report(row);
    Ok(())
}

/// Keys of a thread of `wd3` where no parameter says otherwise.
const RANGE_KEYS: u64 = 70;

/// What a round of `wd3` does with each key and its value.
type Step = fn(&mut dyn Client, &[u8], &[u8]) -> Result<(), Halt>;

/// Parameters: `rangesize` keys a thread, or `nkeys` over all threads; `prefix` in front of each
/// key. The end of the time is looked at before every operation, so a round may stay undone.
pub(crate) fn wd3(client: &mut dyn Client) -> Result<(), Halt> {
    let threads = u64::from(client.threads());
    let keys = match number(client, "rangesize")? {
        Some(keys) => keys,
        None => number(client, "nkeys")?.map_or(RANGE_KEYS, |all| all.div_ceil(threads)),
    };
    let prefix = client.param("prefix").unwrap_or_default().as_bytes().to_vec();
    let first = keys.saturating_mul(u64::from(client.id()));
    let range = first..first.saturating_add(keys);
    // Whether some number has more than 8 digits, so that keys are of several lengths.
    let is_long = range.end > 100_000_000;
    let mut key = [&prefix[..], b"00000000"].concat();
    // The value is the last 8 digits of the key.
    let compose = |key: &mut Vec<u8>, number: u64| {
        let text = Decimal::padded(number, 8);
        match (text.first_chunk::<8>(), key.last_chunk_mut::<8>()) {
            (Some(digits), Some(place)) if text.len() == 8 && !is_long => *place = *digits,
            _ => {
                key.truncate(prefix.len());
                key.extend_from_slice(&text);
            }
        }
        key.len() - 8
    };
    let begin = client.seconds();
    let mut rounds = 0;
    while !client.expired(0) {
        rounds += 1;
        let steps: [Step; 4] = [
            check::insert,
            check::get,
            |client, key, _| check::remove(client, key),
            |client, key, _| check::absent(client, key),
        ];
        for step in steps {
            for n in range.clone() {
                if client.expired(0) {
                    break;
                }
                let value = compose(&mut key, n);
                step(client, &key, &key[value..])?;
            }
        }
    }
    client.wait_all()?;
    let seconds = client.seconds() - begin;
    let mut row = Row::new();
    row.set("rangesize", Value::Count(keys));
    compose(&mut key, first);
    row.set("first", Value::Text(String::from_utf8_lossy(&key).into_owned()));
    row.set_rate("rounds", rounds, seconds);
    // As the original counts: four operations a key and round, those of an undone round too.
    row.set_rate("ops", rounds.saturating_mul(keys).saturating_mul(4), seconds);
    client.report(row);
    Ok(())
}
