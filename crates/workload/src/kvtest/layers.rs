//! `splitremove1`: splits of nodes against the removal of the layers above them.
//!
//! The keys have 16 digits, so that a trie of 8-byte slices keeps most of them in a second layer.
//! The counts belong to trees of 15 keys a node: 241 keys fill one inner node and one more.
//!
//! ```text
//!   thread 0, each round:  put 100 .. 340     (226, the trigger, is among them)
//!                          remove 327 .. 350
//!                          put 0 .. 224
//!                          put the short keys threads, 1, 2, ..  -- each other thread's sign
//!                          wait until the signs 1, 2, .. are gone
//!                          remove the trigger and the key threads; then all others
//!   thread i, each round:  wait for the trigger
//!                          until its own sign is there, the trigger must be: else an error
//!                          remove its sign; wait until the key threads is gone,
//!                          or its sign is there again
//! ```
//!
//! A thread that is late finds the key threads of the next round, whose leader waits for its sign.
//! Its sign tells it so. The original does not look, and with three threads or more both wait until
//! the time is over.
//!
//! Values are the number of the key plus 1. Every wait ends with the time. A row whose `ok` is
//! false is a failed check.

use super::client::{Client, Halt};
use super::row::{Row, Value};
use super::scans::Errors;
use keyrack_decimal::Decimal;

const LEAF_KEYS: u64 = 15;
const INNER_KEYS: u64 = 15;
const KEYS: u64 = LEAF_KEYS * (INNER_KEYS + 1) + 1;
const TRIGGER: u64 = KEYS - 15;
/// Errors that are listed; one more says that there were more.
const LISTED_MAX: usize = 100;

fn long(number: u64) -> Decimal {
    Decimal::padded(number, 16)
}

fn is_there(client: &mut dyn Client, key: &[u8]) -> Result<bool, Halt> {
    client.get(key, &mut |_| {})
}

pub(crate) fn splitremove1(client: &mut dyn Client) -> Result<(), Halt> {
    let mut errors = Errors::default();
    let rounds = match client.id() {
        0 => lead(client)?,
        _ => follow(client, &mut errors)?,
    };
    let mut row = Row::new();
    errors.verdict(&mut row);
    row.set("rounds", Value::Count(rounds));
    errors.list(&mut row);
    client.report(row);
    Ok(())
}

fn lead(client: &mut dyn Client) -> Result<u64, Halt> {
    let threads = u64::from(client.threads());
    let mut rounds = 0;
    loop {
        for i in 100..100 + KEYS {
            client.put(&long(i), &Decimal::new(i + 1))?;
        }
        for i in TRIGGER + 1..KEYS + 10 {
            client.remove(&long(i + 100))?;
        }
        for i in 0..LEAF_KEYS * INNER_KEYS {
            client.put(&long(i), &Decimal::new(i + 1))?;
        }
        client.put(&Decimal::new(threads), &Decimal::new(threads + 1))?;
        for i in 1..threads {
            client.put(&Decimal::new(i), &Decimal::new(i + 1))?;
        }
        for i in 1..threads {
            while !client.expired(0) && is_there(client, &Decimal::new(i))? {}
        }
        client.remove(&long(TRIGGER))?;
        client.remove(&Decimal::new(threads))?;
        if client.expired(0) {
            return Ok(rounds);
        }
        for i in 0..KEYS {
            client.remove(&long(i))?;
            client.remove(&long(i + 100))?;
        }
        rounds += 1;
    }
}

fn follow(client: &mut dyn Client, errors: &mut Errors) -> Result<u64, Halt> {
    let (own, trigger) = (Decimal::new(client.id().into()), long(TRIGGER));
    let threads = Decimal::new(client.threads().into());
    let (mut rounds, mut listed) = (0, 0);
    loop {
        while !client.expired(0) && !is_there(client, &trigger)? {}
        if client.expired(0) {
            return Ok(rounds);
        }
        let mut looks = 0;
        while !is_there(client, &own)? {
            // The leader removes the trigger at the end of the time without further ado; whoever
            // misses it then sees the end of the time too.
            if !is_there(client, &trigger)? && !client.expired(0) {
                if listed < LISTED_MAX {
                    let trigger = trigger.escape_ascii();
                    errors.push(format!(
                        "key {trigger} missing after {rounds} rounds, counter {looks}"
                    ));
                } else if listed == LISTED_MAX {
                    errors.push("more errors".to_owned());
                }
                listed += 1;
                break;
            }
            looks += 1;
        }
        while !client.expired(0) && !is_there(client, &own)? {}
        client.remove(&own)?;
        while !client.expired(0) && is_there(client, &threads)? {
            if is_there(client, &own)? {
                break;
            }
        }
        if client.expired(0) {
            return Ok(rounds);
        }
        rounds += 1;
    }
}
