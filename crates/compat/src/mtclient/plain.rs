//! The client's own tests on a server that stays up.
//!
//! | test | keys | values |
//! |---|---|---|
//! | `rw16` | drawn as in `rw1`, 16 digits | D(x+1) |
//! | `w1`, `r1` | drawn below 2^31, 10 digits | D(x+1) |
//! | `w1b` | drawn below 10 million, 10 digits | D(x+1) |
//! | `u1` | drawn below a million, 10 digits | D(n) of the n-th put |
//! | `scantest` | `scan-CHILD-100` to `scan-CHILD-299` | D(key + 1) |
//! | `udp1` | `CHILD-` and 8 digits | D(n+1) |
//!
//! D(x) is the decimal text of x. Counts are the original's, of which `-l` may leave less.

use super::client::NetClient;
use keyrack_workload::kvtest::{Client, Halt, Lcg, Row, Value};

const W1_KEYS: u64 = 4_000_000;
const W1B_KEYS: u64 = 10_000_000;
const U1_PUTS: u64 = 10_000_000;
const U1_KEYS: u64 = 1_000_000;
const SCAN_FIRST: u64 = 100;
const SCAN_ROWS: u64 = 200;

/// Decimal text with at least so many digits, in a buffer of the caller.
pub(super) fn digits(buffer: &mut [u8; 20], number: u64, digits: usize) -> &[u8] {
    let (mut left, mut start) = (number, buffer.len());
    while start > 0 && (left > 0 || buffer.len() - start < digits.max(1)) {
        start -= 1;
        buffer[start] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    &buffer[start..]
}

fn put(client: &mut NetClient<'_>, key: u64, key_digits: usize, value: u64) -> Result<(), Halt> {
    let (mut k, mut v) = ([0; 20], [0; 20]);
    client.put(digits(&mut k, key, key_digits), digits(&mut v, value, 1))
}

fn check(client: &mut NetClient<'_>, key: u64, key_digits: usize, value: u64) -> Result<(), Halt> {
    let (mut k, mut v) = ([0; 20], [0; 20]);
    client.check(digits(&mut k, key, key_digits), digits(&mut v, value, 1))
}

/// Does act 0, 1, .. of `count` and waits for all answers; reports so many of `name`.
pub(super) fn repeat(
    client: &mut NetClient<'_>,
    name: &str,
    count: u64,
    mut act: impl FnMut(&mut NetClient<'_>, u64) -> Result<(), Halt>,
) -> Result<(), Halt> {
    let begin = client.seconds();
    (0..count).try_for_each(|n| act(client, n))?;
    client.wait_all()?;
    let seconds = client.seconds() - begin;
    report(client, name, count, seconds);
    Ok(())
}

/// Does act 0, 1, .. until there were `count` or the time of `stage` is over, and waits for all
/// answers. Returns how many acts there were, and the seconds.
pub(super) fn repeat_for(
    client: &mut NetClient<'_>,
    stage: u32,
    count: u64,
    mut act: impl FnMut(&mut NetClient<'_>, u64) -> Result<(), Halt>,
) -> Result<(u64, f64), Halt> {
    let begin = client.seconds();
    let mut acts = 0;
    while acts < count && !client.expired(stage) {
        act(client, acts)?;
        acts += 1;
    }
    client.wait_all()?;
    Ok((acts, client.seconds() - begin))
}

/// The most acts of a test that ends behind its limit.
pub(super) fn acts_max(client: &NetClient<'_>) -> u64 {
    client.limit().saturating_add(1)
}

/// Reports one kind of operation.
pub(super) fn report(client: &mut NetClient<'_>, name: &str, count: u64, seconds: f64) {
    let mut row = Row::new();
    row.set_rate(name, count, seconds);
    row.set_rate("ops", count, seconds);
    client.report(row);
}

/// Reports puts and gets, each with its seconds.
pub(super) fn report_both(client: &mut NetClient<'_>, puts: (u64, f64), gets: (u64, f64)) {
    let mut row = Row::new();
    row.set_rate("puts", puts.0, puts.1);
    row.set_rate("gets", gets.0, gets.1);
    row.set_rate("ops", puts.0 + gets.0, puts.1 + gets.1);
    client.report(row);
}

/// Reports gets since `begin`, of which each counted.
pub(super) fn reported(client: &mut NetClient<'_>, gets: u64, begin: f64) {
    let mut row = Row::new();
    row.set_rate("gets", gets, client.seconds() - begin);
    row.set("count", Value::Count(gets));
    client.report(row);
}

pub(super) fn rw16(client: &mut NetClient<'_>, random: &mut Lcg) -> Result<(), Halt> {
    random.seed(client.random_seed());
    let most = acts_max(client);
    let puts = repeat_for(client, 0, most, |client, _| {
        let x = u64::from(random.draw());
        put(client, x, 16, x + 1)
    })?;
    client.notice("now getting");
    let numbers = drawn_again(client, random, puts.0);
    let gets = repeat_for(client, 1, puts.0, |client, n| {
        let x = u64::from(numbers[n as usize]);
        check(client, x, 16, x + 1)
    })?;
    report_both(client, puts, gets);
    Ok(())
}

/// The first `count` numbers of the child's generator, in random order.
fn drawn_again(client: &NetClient<'_>, random: &mut Lcg, count: u64) -> Vec<u32> {
    random.seed(client.random_seed());
    let mut numbers: Vec<u32> = (0..count).map(|_| random.draw()).collect();
    random.shuffle(&mut numbers);
    numbers
}

pub(super) fn w1(client: &mut NetClient<'_>, random: &mut Lcg) -> Result<(), Halt> {
    random.seed(client.random_seed());
    let count = client.limit().min(W1_KEYS);
    repeat(client, "puts", count, |client, _| {
        let x = u64::from(random.draw());
        put(client, x, 10, x + 1)
    })
}

pub(super) fn r1(client: &mut NetClient<'_>, random: &mut Lcg) -> Result<(), Halt> {
    let count = client.limit().min(W1_KEYS);
    let numbers = drawn_again(client, random, count);
    repeat(client, "gets", count, |client, n| {
        let x = u64::from(numbers[n as usize]);
        check(client, x, 10, x + 1)
    })
}

pub(super) fn w1b(client: &mut NetClient<'_>, random: &mut Lcg) -> Result<(), Halt> {
    random.seed(client.random_seed());
    let limit = client.limit();
    let (puts, seconds) = repeat_for(client, 0, limit, |client, _| {
        let x = random.below(W1B_KEYS);
        put(client, x, 10, x + 1)
    })?;
    report(client, "puts", puts, seconds);
    Ok(())
}

pub(super) fn u1(client: &mut NetClient<'_>, random: &mut Lcg) -> Result<(), Halt> {
    random.seed(client.random_seed());
    let count = client.limit().min(U1_PUTS);
    repeat(client, "puts", count, |client, n| put(client, random.below(U1_KEYS), 10, n))
}

/// Scans from keys that are there and from those between, for no row, one, some and more than
/// there are.
pub(super) fn scantest(client: &mut NetClient<'_>, _random: &mut Lcg) -> Result<(), Halt> {
    let prefix = format!("scan-{}-", client.id()).into_bytes();
    let key_of = |n: u64| [&prefix[..], n.to_string().as_bytes()].concat();
    let end = SCAN_FIRST + SCAN_ROWS;
    for n in SCAN_FIRST..end {
        client.put(&key_of(n), (n + 1).to_string().as_bytes())?;
    }
    client.wait_all()?;
    let begin = client.seconds();
    let mut scans = 0;
    for first in SCAN_FIRST - 1..end {
        for rows in [0, 1, 10, SCAN_ROWS] {
            for between in [false, true] {
                let mut low = key_of(first);
                let mut expected = first.max(SCAN_FIRST);
                if between {
                    // Behind the key, before the next one.
                    low.push(b'!');
                    expected = first + 1;
                }
                if first < SCAN_FIRST {
                    // `99` sorts behind all of them: begin in front of them instead.
                    low = prefix.clone();
                    expected = SCAN_FIRST;
                }
                let last = expected.saturating_add(rows).min(end);
                scan(client, &low, rows, &prefix, expected..last)?;
                scans += 1;
            }
        }
    }
    let seconds = client.seconds() - begin;
    report(client, "scans", scans, seconds);
    Ok(())
}

/// One scan, of which the rows that have the prefix are the `expected` ones.
fn scan(
    client: &mut NetClient<'_>,
    low: &[u8],
    rows: u64,
    prefix: &[u8],
    mut expected: std::ops::Range<u64>,
) -> Result<(), Halt> {
    let (mut wrong, mut seen) = (None, 0);
    client.scan(low, rows, &mut |key, value| {
        seen += 1;
        let Some(number) = key.strip_prefix(prefix) else { return };
        let n = expected.next();
        let is_right = n.is_some_and(|n| {
            number == n.to_string().as_bytes() && value == (n + 1).to_string().as_bytes()
        });
        if !is_right && wrong.is_none() {
            wrong = Some(format!("{} -> {}", key.escape_ascii(), value.escape_ascii()));
        }
    })?;
    let low = low.escape_ascii();
    match (wrong, expected.next()) {
        _ if seen > rows => Err(Halt::failed(format!("scan {low} for {rows}: {seen} rows"))),
        (Some(row), _) => Err(Halt::failed(format!("scan {low} for {rows}: found {row}"))),
        (None, Some(n)) => Err(Halt::failed(format!("scan {low} for {rows}: {n} is missing"))),
        (None, None) => Ok(()),
    }
}

/// The key of a child's n-th put: children do not touch each other's.
pub(super) fn own_key(key: &mut Vec<u8>, child: u32, n: u64) {
    let mut buffer = [0; 20];
    key.clear();
    key.extend_from_slice(digits(&mut buffer, child.into(), 1));
    key.push(b'-');
    key.extend_from_slice(digits(&mut buffer, n, 8));
}

/// Puts until the first time is over, then gets all of it, until the second one is.
pub(super) fn udp1(client: &mut NetClient<'_>, _random: &mut Lcg) -> Result<(), Halt> {
    let (most, id) = (acts_max(client), client.id());
    let (mut key, mut value) = (Vec::new(), [0; 20]);
    let puts = repeat_for(client, 0, most, |client, n| {
        own_key(&mut key, id, n);
        client.put(&key, digits(&mut value, n + 1, 1))
    })?;
    client.notice("now getting");
    let gets = repeat_for(client, 1, puts.0, |client, n| {
        own_key(&mut key, id, n);
        client.check(&key, digits(&mut value, n + 1, 1))
    })?;
    report_both(client, puts, gets);
    Ok(())
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn digits_are_decimal_text() {
        for (number, width, text) in [
            (0, 1, "0"),
            (0, 0, "0"),
            (42, 1, "42"),
            (42, 5, "00042"),
            (u64::MAX, 1, "18446744073709551615"),
            (7, 99, "00000000000000000007"),
        ] {
            assert_eq!(digits(&mut [0; 20], number, width), text.as_bytes());
        }
    }
}
