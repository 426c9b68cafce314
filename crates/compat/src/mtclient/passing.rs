//! Tests whose keys go again, and what may be left of them when the server was killed meanwhile.
//!
//! ```text
//!   wd1       pairs of children: one puts ascending keys, the other removes them behind it
//!   wd1check  what a pair has left is one run of keys, with their values
//!
//!   wd2       each child, round r: put keys 0..1000 with value r, then remove them in this order
//!   wd2check  keys up to some n are there and none behind, or none up to n and all behind; all
//!             with the same r
//!
//!   tri1      three children: the first puts keys at stage 0, the second takes each away and puts
//!             it at stage 1, the third from there at stage 2
//!   tri1check stages hold runs, one behind the other; at most one key is missing between two
//! ```
//!
//! A hand-over is a removal and a put by one child of what another one has put: over several logs,
//! a recovery that confuses their order shows.

use super::client::NetClient;
use super::crash::acts_until_lost;
use super::plain::{digits, reported};
use keyrack_workload::kvtest::{Client, Halt, Lcg, mismatch};
use std::ops::Range;

/// Rows that one scan of a check asks for.
const SCAN_ROWS: u64 = 1024;
const WD2_KEYS: u64 = 1000;
const TRI1_STAGES: u64 = 3;

/// Visits all rows from `first` on whose keys begin with `prefix`.
fn walk(
    client: &mut NetClient<'_>,
    first: &[u8],
    prefix: &[u8],
    visit: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<u64, Halt> {
    let (mut from, mut last, mut all) = (first.to_vec(), Vec::new(), 0);
    loop {
        let (mut rows, mut is_inside) = (0, true);
        client.scan(&from, SCAN_ROWS, &mut |key, value| {
            rows += 1;
            is_inside &= key.starts_with(prefix);
            if is_inside {
                all += 1;
                visit(key, value);
                last.clear();
                last.extend_from_slice(key);
            }
        })?;
        if rows < SCAN_ROWS || !is_inside {
            return Ok(all);
        }
        from.clone_from(&last);
        from.push(0);
    }
}

fn number_of(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Numbers that should follow each other.
struct Numbers {
    step: u64,
    seen: Option<Range<u64>>,
    fault: Option<Halt>,
}

impl Numbers {
    fn new(step: u64) -> Self {
        Numbers { step, seen: None, fault: None }
    }

    /// The next one, with its key, its value and the value that it should have.
    fn add(&mut self, number: u64, key: &[u8], value: &[u8], expected: u64) {
        let mut buffer = [0; 20];
        let expected = digits(&mut buffer, expected, 1);
        let fault = match &self.seen {
            _ if value != expected => Some(mismatch(None, key, expected, Some(value))),
            Some(seen) if seen.end != number => Some(Halt::failed(format!(
                "number {} is missing in front of key {}",
                seen.end,
                key.escape_ascii()
            ))),
            _ => None,
        };
        self.fault = self.fault.take().or(fault);
        let start = self.seen.as_ref().map_or(number, |seen| seen.start);
        self.seen = Some(start..number + self.step);
    }

    fn end(self) -> Result<Range<u64>, Halt> {
        self.fault.map_or(Ok(self.seen.unwrap_or_default()), Err)
    }
}

/// Both children of a pair look. There must be as many children as there were, and no other keys
/// that are numbers of as many digits.
pub(super) fn wd1_check(client: &mut NetClient<'_>, first: u64, step: u64) -> Result<(), Halt> {
    let step = step.max(u64::from(client.threads()) / 2);
    let own = u64::from(client.id()) / 2 % step;
    let mut numbers = Numbers::new(step);
    let low = first.to_string().into_bytes();
    let digits = low.len();
    let begin = client.seconds();
    let looked_at = walk(client, &low, b"", &mut |key, value| {
        let number = number_of(key).filter(|_| key.len() == digits);
        if let Some(number) = number.filter(|n| *n >= first && (n - first) % step == own) {
            numbers.add(number, key, value, number + 1);
        }
    })?;
    numbers.end()?;
    reported(client, looked_at, begin);
    Ok(())
}

fn wd2_key(key: &mut Vec<u8>, child: u32, n: u64) {
    key.clear();
    key.extend_from_slice(b"wd2-");
    key.extend_from_slice(digits(&mut [0; 20], child.into(), 1));
    key.push(b'-');
    key.extend_from_slice(digits(&mut [0; 20], n, 4));
}

pub(super) fn wd2(client: &mut NetClient<'_>, _random: &mut Lcg) -> Result<(), Halt> {
    let mut key = Vec::new();
    acts_until_lost(client, "ops", |client, act| {
        let (round, place) = (act / (2 * WD2_KEYS), act % (2 * WD2_KEYS));
        wd2_key(&mut key, client.id(), place % WD2_KEYS);
        if place < WD2_KEYS {
            client.put(&key, digits(&mut [0; 20], round, 1))
        } else {
            client.remove(&key)
        }
    })
}

pub(super) fn wd2_check(client: &mut NetClient<'_>) -> Result<(), Halt> {
    let begin = client.seconds();
    let (mut key, mut rounds) = (Vec::new(), Vec::new());
    for n in 0..WD2_KEYS {
        wd2_key(&mut key, client.id(), n);
        let mut round = None;
        client.get(&key, &mut |value| round = Some(number_of(value)))?;
        rounds.push(match round {
            Some(None) => return Err(Halt::failed("a value of wd2 is no number")),
            round => round.flatten(),
        });
    }
    // One change of state at most, between a round's keys and none.
    let changes: Vec<usize> = (1..rounds.len()).filter(|n| rounds[*n] != rounds[n - 1]).collect();
    let is_whole = match changes[..] {
        [] => true,
        [at] => rounds[at].is_none() || rounds[at - 1].is_none(),
        _ => false,
    };
    if !is_whole {
        let child = client.id();
        return Err(Halt::failed(format!(
            "keys of wd2 of child {child} are of several rounds, or have gaps, at {changes:?}"
        )));
    }
    reported(client, WD2_KEYS, begin);
    Ok(())
}

fn tri1_prefix(client: &NetClient<'_>, stage: u64) -> Vec<u8> {
    let group = u64::from(client.id()) / TRI1_STAGES;
    format!("tri1-{group}-{stage}-").into_bytes()
}

fn tri1_key(key: &mut Vec<u8>, prefix: &[u8], n: u64) {
    key.clear();
    key.extend_from_slice(prefix);
    key.extend_from_slice(digits(&mut [0; 20], n, 10));
}

pub(super) fn tri1(client: &mut NetClient<'_>, _random: &mut Lcg) -> Result<(), Halt> {
    let stage = u64::from(client.id()) % TRI1_STAGES;
    if client.threads() < 3 && client.id() == 0 {
        client.warn("fewer than three children do not hand on keys to each other");
    }
    let to = tri1_prefix(client, stage);
    let from = stage.checked_sub(1).map(|before| tri1_prefix(client, before));
    let mut key = Vec::new();
    acts_until_lost(client, "ops", |client, n| {
        if let Some(from) = &from {
            tri1_key(&mut key, from, n);
            while !client.delete_existing(&key)? {
                if client.expired(0) {
                    return Ok(());
                }
            }
        }
        tri1_key(&mut key, &to, n);
        client.put(&key, digits(&mut [0; 20], n + 1, 1))
    })
}

pub(super) fn tri1_check(client: &mut NetClient<'_>) -> Result<(), Halt> {
    let begin = client.seconds();
    let (mut looked_at, mut reached) = (0, 0);
    for stage in (0..TRI1_STAGES).rev() {
        let prefix = tri1_prefix(client, stage);
        let mut numbers = Numbers::new(1);
        looked_at += walk(client, &prefix, &prefix, &mut |key, value| match number_of(
            &key[prefix.len()..],
        ) {
            Some(number) => numbers.add(number, key, value, number + 1),
            None => numbers.fault = Some(Halt::failed("a key of tri1 is no number")),
        })?;
        let run = numbers.end()?;
        if run.is_empty() {
            continue;
        }
        // Between two stages one key may have been taken away and not put yet.
        let (first, last) = (run.start, reached);
        let is_behind = first >= last && first - last <= TRI1_STAGES - 1 - stage;
        if !is_behind {
            return Err(Halt::failed(format!(
                "stage {stage} of tri1 begins with number {first}; {last} would be next"
            )));
        }
        reached = run.end;
    }
    reported(client, looked_at, begin);
    Ok(())
}
