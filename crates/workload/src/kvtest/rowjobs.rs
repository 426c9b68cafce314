//! Jobs on rows of columns: `wcol1` and `rcol1`, and those with the next columns.
//!
//! Thread t draws keys below 5 million, 10 digits each, and puts or gets column `(t + shift) % 24`
//! of their rows; the value is that of `rw1`. A reader draws what the writer of the same thread has
//! drawn, in the same order. 4 million operations, or the limit: here exactly so many, where other
//! jobs do one more.
//!
//! A reader that is the first job on its store first puts what it is going to get, outside of its
//! time. After `wcol1`, as in `wcol1,rcol1`, it gets alone and finds what got lost.

use super::check;
use super::client::{Client, Halt};
use super::random::Lcg;
use super::row::{Row, Value};
use keyrack_decimal::Decimal;

const OPERATIONS: u64 = 4_000_000;
const OPERATIONS_MAX: u64 = 0x7fff_ffff;
const KEYS: u64 = 5_000_000;
const COLUMNS: u32 = 24;

fn operations(client: &dyn Client) -> u64 {
    match client.limit() {
        u64::MAX => OPERATIONS,
        limit => limit.min(OPERATIONS_MAX),
    }
}

fn column(client: &dyn Client, shift: u32) -> u16 {
    (client.id().wrapping_add(shift) % COLUMNS) as u16
}

pub(crate) fn put_columns(
    client: &mut dyn Client,
    random: &mut Lcg,
    shift: u32,
) -> Result<(), Halt> {
    let (count, column) = (operations(client), column(client, shift));
    random.seed(client.random_seed());
    let begin = client.seconds();
    for _ in 0..count {
        put(client, column, random.below(KEYS))?;
    }
    client.wait_all()?;
    let seconds = client.seconds() - begin;
    report(client, "puts", count, seconds);
    Ok(())
}

fn put(client: &mut dyn Client, column: u16, x: u64) -> Result<(), Halt> {
    client.put_column(&Decimal::padded(x, 10), column, &Decimal::new(x + 1))
}

pub(crate) fn get_columns(
    client: &mut dyn Client,
    random: &mut Lcg,
    shift: u32,
) -> Result<(), Halt> {
    let (count, column) = (operations(client), column(client, shift));
    random.seed(client.random_seed());
    let numbers: Vec<u32> = (0..count).map(|_| random.below(KEYS) as u32).collect();
    if client.is_first() {
        if client.id() == 0 {
            client.warn("nothing has been put yet: what is read is put first");
        }
        for &x in &numbers {
            put(client, column, x.into())?;
        }
        client.wait_all()?;
        client.notice("now getting");
    }
    let begin = client.seconds();
    for &x in &numbers {
        let (key, value) = (Decimal::padded(x.into(), 10), Decimal::new(u64::from(x) + 1));
        check::get_column(client, &key, column, &value)?;
    }
    client.wait_all()?;
    let seconds = client.seconds() - begin;
    report(client, "gets", count, seconds);
    Ok(())
}

fn report(client: &mut dyn Client, name: &str, count: u64, seconds: f64) {
    let mut row = Row::new();
    if seconds > 0.0 {
        row.set("total", Value::Count((count as f64 / seconds) as u64));
    }
    row.set_rate(name, count, seconds);
    client.report(row);
}
