//! Tests of what a server keeps when it is killed: one half writes until the server goes away, the
//! other half looks at what is there after its restart.
//!
//! ```text
//!   rec1   child c puts c-00000000, c-00000001, ..           kill -9
//!   rec2   child c gets from c-00000000 on: up to some n all are there with their values, and
//!          behind n none is: what survived is a prefix
//!
//!   over1  every child puts the same 1000 keys over and over, each with its own number as value
//!   over2  every child sees one and the same written value under each key, twice
//! ```
//!
//! The end of the time, a limit, or the server's going away end the first halves; all three are a
//! good end. `acknowledged` says how many puts were answered by then.

use super::client::NetClient;
use super::plain::{digits, own_key, reported};
use keyrack_workload::kvtest::{Client, Halt, Lcg, Row, Value};
use std::sync::PoisonError;

const OVER_KEYS: u64 = 1000;
/// Keys behind the last one that `rec2` insists are absent.
const REC_ABSENT: u64 = 10_000;

/// A failure of the server's connection is the end that these tests wait for.
fn unless_lost(client: &mut NetClient<'_>, result: Result<(), Halt>) -> Result<(), Halt> {
    if client.window().is_lost() { Ok(()) } else { result }
}

/// Does act 0, 1, .. until the end, and reports what was answered as so many of `name`.
pub(super) fn acts_until_lost(
    client: &mut NetClient<'_>,
    name: &str,
    mut act: impl FnMut(&mut NetClient<'_>, u64) -> Result<(), Halt>,
) -> Result<(), Halt> {
    let limit = client.limit();
    let greeted = client.window().done();
    let begin = client.seconds();
    let mut acts = 0;
    while !client.expired(0) && acts <= limit && !client.window().is_lost() {
        let result = act(client, acts);
        unless_lost(client, result)?;
        acts += 1;
    }
    if !client.window().is_lost() {
        let result = client.wait_all();
        unless_lost(client, result)?;
    }
    let acknowledged = client.window().done() - greeted;
    let mut row = Row::new();
    row.set_rate(name, acknowledged, client.seconds() - begin);
    row.set("acknowledged", Value::Count(acknowledged));
    row.set("count", Value::Count(acknowledged));
    client.report(row);
    Ok(())
}

/// Puts what `compose` makes of 0, 1, .. until the end.
fn put_until_lost(
    client: &mut NetClient<'_>,
    mut compose: impl FnMut(u64, &mut Vec<u8>, &mut Vec<u8>),
) -> Result<(), Halt> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    acts_until_lost(client, "puts", |client, n| {
        compose(n, &mut key, &mut value);
        client.put(&key, &value)
    })
}

pub(super) fn rec1(client: &mut NetClient<'_>, _random: &mut Lcg) -> Result<(), Halt> {
    let id = client.id();
    put_until_lost(client, |n, key, value| {
        own_key(key, id, n);
        value.clear();
        value.extend_from_slice(digits(&mut [0; 20], n + 1, 1));
    })
}

pub(super) fn rec2(client: &mut NetClient<'_>, _random: &mut Lcg) -> Result<(), Halt> {
    let id = client.id();
    let (mut key, mut found) = (Vec::new(), Vec::new());
    let begin = client.seconds();
    let mut present = 0;
    loop {
        own_key(&mut key, id, present);
        found.clear();
        if !client.get(&key, &mut |value| found.extend_from_slice(value))? {
            break;
        }
        let mut buffer = [0; 20];
        let expected = digits(&mut buffer, present + 1, 1);
        if found != expected {
            return Err(keyrack_workload::kvtest::mismatch(None, &key, expected, Some(&found)));
        }
        present += 1;
    }
    for n in present + 1..present + 1 + REC_ABSENT {
        own_key(&mut key, id, n);
        if client.get(&key, &mut |_| {})? {
            let key = key.escape_ascii();
            return Err(Halt::failed(format!(
                "key {key} is there, but the put before number {present} is lost"
            )));
        }
    }
    let mut row = Row::new();
    row.set_rate("gets", present + 1 + REC_ABSENT, client.seconds() - begin);
    row.set("count", Value::Count(present));
    client.report(row);
    Ok(())
}

pub(super) fn over1(client: &mut NetClient<'_>, _random: &mut Lcg) -> Result<(), Halt> {
    let id = client.id();
    put_until_lost(client, |n, key, value| {
        key.clear();
        key.extend_from_slice(b"over-");
        key.extend_from_slice(digits(&mut [0; 20], n % OVER_KEYS, 3));
        value.clear();
        value.extend_from_slice(digits(&mut [0; 20], id.into(), 1));
    })
}

pub(super) fn over2(client: &mut NetClient<'_>, _random: &mut Lcg) -> Result<(), Halt> {
    let begin = client.seconds();
    let mut gets = 0;
    for _ in 0..2 {
        for n in 0..OVER_KEYS {
            let mut key = b"over-".to_vec();
            key.extend_from_slice(digits(&mut [0; 20], n, 3));
            let mut value = Vec::new();
            let is_there = client.get(&key, &mut |found| value = found.to_vec())?;
            gets += 1;
            let writer = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
            if is_there && writer.is_none_or(|writer: u32| writer >= client.threads()) {
                let (key, value) = (key.escape_ascii(), value.escape_ascii());
                return Err(Halt::failed(format!("key {key}: found {value}, which no child put")));
            }
            agree(client, n, is_there.then_some(value))?;
        }
    }
    reported(client, gets, begin);
    Ok(())
}

/// Insists that all children have seen the same under the n-th key.
fn agree(client: &NetClient<'_>, n: u64, value: Option<Vec<u8>>) -> Result<(), Halt> {
    let mut seen = client.seen().lock().unwrap_or_else(PoisonError::into_inner);
    let first = seen.entry(n).or_insert_with(|| value.clone());
    if *first == value {
        return Ok(());
    }
    let text = |value: &Option<Vec<u8>>| match value {
        Some(value) => value.escape_ascii().to_string(),
        None => "nothing".to_owned(),
    };
    let (one, other) = (text(first), text(&value));
    Err(Halt::failed(format!("key {n} of over1: one child found {one}, another {other}")))
}
