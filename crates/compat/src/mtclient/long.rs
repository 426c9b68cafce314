//! `long_init`, `long_go`: keys of a length, with a prefix, and of letters that the options name.
//!
//! ```text
//!   | prefixLen times the first letter | letters drawn between the first and the last |
//!   |<------------------------------- keylen ---------------------------------------->|
//! ```
//!
//! The n-th key of a child is drawn from a generator seeded with both numbers, and its value is
//! made of the key: so `long_go` knows each key and what it should find, without a table, whichever
//! child it is, as long as options and the first seed are those of `long_init`.

use super::client::NetClient;
use super::plain::{acts_max, digits, repeat, repeat_for, report_both};
use super::settings::Long;
use keyrack_workload::kvtest::{Client, Halt, Lcg};

/// Spreads numbers that follow each other over the seeds.
const SPREAD: u32 = 0x9e37_79b1;

/// Makes `key` the n-th one of the child with this seed.
fn compose(long: &Long, seed: u32, n: u64, key: &mut Vec<u8>) {
    let (first, last) = long.letters;
    let letters = u64::from(last - first) + 1;
    let mut random = Lcg::default();
    random.seed(seed.wrapping_mul(SPREAD) ^ (n as u32).wrapping_mul(SPREAD).rotate_left(16));
    key.clear();
    key.resize(long.prefix_bytes, first);
    key.extend((long.prefix_bytes..long.key_bytes).map(|_| first + random.below(letters) as u8));
}

/// What is stored under `key`.
fn value_of(key: &[u8]) -> u64 {
    let sum = key.iter().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
    sum.into()
}

pub(super) fn init(client: &mut NetClient<'_>, _random: &mut Lcg) -> Result<(), Halt> {
    let (long, seed) = (client.settings().long.clone(), client.random_seed());
    let (count, mut key) = (client.limit().min(long.keys), Vec::new());
    repeat(client, "puts", count, |client, n| {
        compose(&long, seed, n, &mut key);
        client.put(&key, digits(&mut [0; 20], value_of(&key), 1))
    })
}

pub(super) fn go(client: &mut NetClient<'_>, random: &mut Lcg) -> Result<(), Halt> {
    let (long, seed) = (client.settings().long.clone(), client.random_seed());
    let (keys, most) = (client.limit().min(long.keys), acts_max(client));
    random.seed(seed);
    let (mut key, mut gets) = (Vec::new(), 0);
    let (acts, seconds) = repeat_for(client, 0, most, |client, _| {
        compose(&long, seed, random.below(keys), &mut key);
        let mut buffer = [0; 20];
        let value = digits(&mut buffer, value_of(&key), 1);
        if random.below(100) < long.get_percent {
            gets += 1;
            client.check(&key, value)
        } else {
            client.put(&key, value)
        }
    })?;
    report_both(client, (acts - gets, seconds), (gets, seconds));
    Ok(())
}

#[cfg(test)]
mod unit {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_are_of_their_letters_and_not_the_same() {
        let long = Long {
            key_bytes: 20,
            prefix_bytes: 4,
            keys: 1000,
            get_percent: 0,
            letters: (b'a', b'e'),
        };
        let mut seen = BTreeSet::new();
        for seed in 0..3 {
            for n in 0..1000 {
                let mut key = Vec::new();
                compose(&long, seed, n, &mut key);
                assert_eq!((key.len(), &key[..4]), (20, &b"aaaa"[..]));
                assert!(key.iter().all(|letter| (b'a'..=b'e').contains(letter)));
                seen.insert(key);
            }
        }
        assert!(seen.len() > 2990, "{} of 3000 keys", seen.len());
    }
}
