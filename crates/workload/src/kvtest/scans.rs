//! Jobs that scan a store while others write into the gaps: `scan1` and `rscan1`.
//!
//! ```text
//!   key:   0 ........ 1024 ........ 2048 ........        thread t of t % 24 = 0: puts these, then
//!            ^^^^ 31 of thread 1                         scans 100 rows at a time, over and over
//!                ^^^^ 31 of thread 2                     other threads: put or remove 31 keys in
//!                                                        a random gap, or (q80) do nothing
//! ```
//!
//! The multiples of 1024 are there from before the first scan and nobody removes them, so every
//! sweep has to meet each of them once, in order, whatever happens between them. Each row's value
//! is known from its key and is checked. The first 1000 errors are listed in the row; a row whose
//! `ok` is false is a failed check.
//!
//! `scan1` sweeps upwards from 0, `rscan1` downwards to 1024. Writers never seed their generator.
//! The limit is the number of multiples, 10000 without one; the end of the time ends the job.

use super::check::shown;
use super::client::{Client, Halt};
use super::random::Lcg;
use super::row::{Row, Value};
use keyrack_decimal::Decimal;

const FIXED: u64 = 10_000;
const FIXED_MAX: u64 = 97_655;
/// Distance of two keys that stay.
const STRIDE: i64 = 1024;
/// Rows of one scan.
const SCAN_ROWS: u64 = 100;
/// Keys that a writer puts or removes together.
const RUN_KEYS: u64 = 31;
/// Every 24th thread scans.
const SCANNER_EVERY: u32 = 24;
const ERRORS_MAX: usize = 1000;

/// What a check found wrong, up to a limit.
#[derive(Debug, Default)]
pub(crate) struct Errors(Vec<String>);

impl Errors {
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= ERRORS_MAX
    }

    pub(crate) fn push(&mut self, error: String) {
        if !self.is_full() {
            self.0.push(error);
        }
    }

    /// Says in `row` whether all was well; [`Errors::list`] follows behind the other fields.
    pub(crate) fn verdict(&self, row: &mut Row) {
        row.set("ok", Value::Flag(self.0.is_empty()));
    }

    pub(crate) fn list(mut self, row: &mut Row) {
        if self.is_full() {
            self.0.push("too many errors, giving up".to_owned());
        }
        if !self.0.is_empty() {
            row.set("errors", Value::List(self.0));
        }
    }
}

fn fixed_keys(client: &dyn Client) -> u64 {
    match client.limit() {
        u64::MAX => FIXED,
        limit => limit.min(FIXED_MAX),
    }
}

fn key8(number: i64) -> Decimal {
    Decimal::padded(number.max(0).cast_unsigned(), 8)
}

/// The number that a key spells; `None` for what no thread of these jobs has put.
fn number_of(key: &[u8]) -> Option<i64> {
    // Longer ones could overflow where a position is counted on.
    let digits = (1..=18).contains(&key.len()) && key.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(key).ok().filter(|_| digits)?.parse().ok()
}

fn check_value(errors: &mut Errors, key: &[u8], number: i64, value: &[u8]) {
    let is_fixed = number % STRIDE == 0;
    let expected = Decimal::new(if is_fixed { number / STRIDE } else { number }.cast_unsigned());
    if *value != *expected {
        let (key, value, expected) = (shown(key), shown(value), shown(&expected));
        errors.push(format!("got {key} with value {value}, expected {expected}"));
    }
}

pub(crate) fn scan1(client: &mut dyn Client, random: &mut Lcg, idle: f64) -> Result<(), Halt> {
    sweep(client, random, idle, false)
}

pub(crate) fn rscan1(client: &mut dyn Client, random: &mut Lcg, idle: f64) -> Result<(), Halt> {
    sweep(client, random, idle, true)
}

fn sweep(client: &mut dyn Client, random: &mut Lcg, idle: f64, is_down: bool) -> Result<(), Halt> {
    let fixed = fixed_keys(client);
    let shift = u64::from(is_down);
    if !client.id().is_multiple_of(SCANNER_EVERY) {
        return fill_gaps(client, random, fixed, shift, idle);
    }
    for i in shift..fixed + shift {
        client.put(&Decimal::padded(i * STRIDE.cast_unsigned(), 8), &Decimal::new(i))?;
    }
    client.wait_all()?;
    let end = (fixed + shift).cast_signed() * STRIDE;
    let step = if is_down { -1 } else { 1 };
    // The first key that may come next, and the key that stays and has to come next.
    let start = if is_down { (end, end - STRIDE) } else { (0, 0) };
    let ((mut pos, mut due), mut steps) = (start, 0);
    let mut errors = Errors::default();
    while !client.expired(0) && !errors.is_full() {
        let mut rows = 0;
        let first = key8(pos);
        let mut last = if is_down { first.to_vec() } else { Vec::new() };
        let mut visit = |key: &[u8], value: &[u8]| {
            rows += 1;
            let Some(number) = number_of(key) else {
                errors.push(format!("unexpected key {}", shown(key)));
                return;
            };
            if (number - pos) * step < 0 {
                let side = if is_down { "less" } else { "later" };
                errors.push(format!("got {}, expected {pos} or {side}", shown(key)));
            }
            pos = number + step;
            while (number - due) * step > 0 && !errors.is_full() {
                let (row, key) = (rows - 1, shown(key));
                let after =
                    if is_down { format!(", last {}", shown(&last)) } else { String::new() };
                errors.push(format!("got {key}, missing {due} @{steps}+{row}{after}"));
                due += STRIDE * step;
            }
            if number == due {
                due += STRIDE * step;
                steps += 1;
            }
            check_value(&mut errors, key, number, value);
            if is_down {
                last.clear();
                last.extend_from_slice(key);
            }
        };
        if is_down {
            client.scan_rev(&first, SCAN_ROWS, &mut visit)?;
        } else {
            client.scan(&first, SCAN_ROWS, &mut visit)?;
        }
        if rows == 0 {
            if is_down && due > 0 {
                errors.push(format!("missing {STRIDE} through {due} @{steps}"));
            } else if !is_down && due < end {
                errors.push(format!("missing {due} through {}", end - STRIDE));
            }
            (pos, due) = start;
        }
    }
    report(client, errors, steps);
    Ok(())
}

fn report(client: &mut dyn Client, errors: Errors, steps: u64) {
    let mut row = Row::new();
    errors.verdict(&mut row);
    row.set("scansteps", Value::Count(steps));
    errors.list(&mut row);
    client.report(row);
}

/// Puts and removes runs of keys behind multiples of 1024, `shift` strides further up.
fn fill_gaps(
    client: &mut dyn Client,
    random: &mut Lcg,
    fixed: u64,
    shift: u64,
    idle: f64,
) -> Result<(), Halt> {
    let idle_below = (idle * 65_536.0) as u64;
    let delta = 1 + u64::from(client.id() % 30) * 32;
    let mut rounds = 0;
    while !client.expired(0) {
        let gap = random.below(fixed.max(1)) + shift;
        let first = gap * STRIDE.cast_unsigned() + delta;
        let chance = random.below(65_536);
        if chance < idle_below {
            (0..RUN_KEYS).for_each(|_| std::hint::spin_loop());
        } else if rounds > 100 && chance % 2 == 1 {
            for number in first..first + RUN_KEYS {
                client.remove(&Decimal::padded(number, 8))?;
            }
        } else {
            for number in first..first + RUN_KEYS {
                client.put(&Decimal::padded(number, 8), &Decimal::new(number))?;
            }
        }
        rounds += 1;
    }
    // A row without fields: what these threads do is not measured.
    client.report(Row::new());
    Ok(())
}
