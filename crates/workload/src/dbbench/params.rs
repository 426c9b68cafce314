//! Parameters, keys, values and rows of results: what all these jobs share.

use crate::error::Error;
use crate::kvtest::{Client, Halt, Row, Value};
use crate::rng::{Phase, Rng};
use crate::sizes::SizeDistribution;
use crate::values::{ValueSource, ValueSpec};
use keyrack_decimal::Decimal;
use std::ops::Deref;
use std::str::FromStr;

/// Entries of a store, where nobody says how many.
pub(super) const NUM: u64 = 1_000_000;
const VALUE_BYTES: u32 = 100;
const RATIO: f64 = 0.5;
const NEXTS: u64 = 10;
const WRITES_PERCENT: u64 = 50;
/// More entries than that need more than the digits of a key.
const NUM_MAX: u64 = 10_000_000_000_000_000;
const KEY_DIGITS: usize = 16;
/// Keys of less than 1 KiB, as those of `db_bench`.
const KEY_PREFIX_MAX: u64 = 1007;
const KEY_PREFIX_BYTE: u8 = b'a';
const BATCH_MAX: u64 = 1 << 20;
/// Bytes of all values are seeded alike, as those of the other workloads.
const VALUE_SEED: u64 = 1;

/// What is loaded before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// In random order where the store has no rows, else nothing.
    Auto,
    Seq,
    Random,
    None,
}

impl Fill {
    pub(super) fn of(client: &dyn Client) -> Result<Fill, Halt> {
        match client.param("fill") {
            None | Some("auto") => Ok(Fill::Auto),
            Some("seq") => Ok(Fill::Seq),
            Some("random") => Ok(Fill::Random),
            Some("none") => Ok(Fill::None),
            Some(other) => Err(refused("fill", other, "auto, seq, random or none")),
        }
    }

    /// What there is to do on the store of `client`.
    pub(super) fn decided(self, client: &dyn Client) -> Fill {
        match self {
            Fill::Auto if client.is_first() => Fill::Random,
            Fill::Auto => Fill::None,
            given => given,
        }
    }
}

/// The parameters of `db/...`, all of them checked by every job.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) num: u64,
    /// Bytes in front of the digits of each key.
    pub(super) key_prefix: usize,
    pub(super) reads: u64,
    pub(super) batch: u64,
    pub(super) nexts: u64,
    /// Of a hundred operations of `db/mixed`.
    pub(super) writes: u64,
    pub(super) fill: Fill,
    pub(super) values: ValueSpec,
}

impl Shape {
    pub(super) fn of(client: &dyn Client) -> Result<Shape, Halt> {
        let num = whole(client, "num", NUM, 1, NUM_MAX)?;
        Ok(Shape {
            num,
            key_prefix: whole(client, "key_prefix", 0, 0, KEY_PREFIX_MAX)? as usize,
            reads: whole(client, "reads", num, 1, u64::MAX)?,
            batch: whole(client, "batch", 1, 1, BATCH_MAX)?,
            nexts: whole(client, "nexts", NEXTS, 0, u64::MAX - 1)?,
            writes: whole(client, "writes", WRITES_PERCENT, 0, 100)?,
            fill: Fill::of(client)?,
            values: values(client, VALUE_BYTES)?,
        })
    }

    /// The key with that number.
    #[inline]
    pub(super) fn key_of(&self, number: u64) -> Key {
        let digits = Decimal::padded(number, KEY_DIGITS);
        if self.key_prefix == 0 {
            return Key::Digits(digits);
        }
        let mut key = Vec::with_capacity(self.key_prefix + KEY_DIGITS);
        key.resize(self.key_prefix, KEY_PREFIX_BYTE);
        key.extend_from_slice(&digits);
        Key::Prefixed(key)
    }
}

/// A key of `db/...`: sixteen digits, perhaps behind a prefix.
pub(super) enum Key {
    Digits(Decimal),
    Prefixed(Vec<u8>),
}

impl Deref for Key {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Key::Digits(digits) => digits,
            Key::Prefixed(key) => key,
        }
    }
}

/// The values of the parameters `value_size` and `compression_ratio`.
pub(super) fn values(client: &dyn Client, bytes: u32) -> Result<ValueSpec, Halt> {
    let bytes = whole(client, "value_size", bytes.into(), 0, 64 << 20)?;
    let name = "compression_ratio";
    let ratio = match client.param(name) {
        None => RATIO,
        Some(text) => {
            let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
            ratio.ok_or_else(|| refused(name, text, "a number from 0 to 1"))?
        }
    };
    let size = SizeDistribution::Fixed(u32::try_from(bytes).unwrap_or(u32::MAX));
    Ok(ValueSpec { size, compress: 1.0 - ratio, seed: VALUE_SEED })
}

/// What a thread draws, each from a stream of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Draws {
    Keys = 0,
    Values = 1,
    Operations = 2,
}

/// A stream of this thread in this job of a sequence.
pub(super) fn stream(client: &dyn Client, draws: Draws) -> Rng {
    let index = 4 * client.place() + draws as u32;
    Rng::stream(client.seed(), Phase::Run, client.id(), index)
}

/// The values that this thread writes.
pub(super) fn value_source(client: &dyn Client, spec: &ValueSpec) -> Result<ValueSource, Halt> {
    made(ValueSource::new(spec, stream(client, Draws::Values)))
}

/// The values that this thread loads.
pub(super) fn loaded_values(client: &dyn Client, spec: &ValueSpec) -> Result<ValueSource, Halt> {
    made(ValueSource::new(spec, Rng::stream(client.seed(), Phase::Load, client.id(), 1)))
}

fn made(source: Result<ValueSource, Error>) -> Result<ValueSource, Halt> {
    source.map_err(|error| Halt::failed(error.to_string()))
}

pub(super) fn refused(name: &str, text: &str, wanted: &str) -> Halt {
    Halt::failed(format!("parameter {name}: '{text}' is not {wanted}"))
}

/// The whole number that the parameter `name` has, or `default`.
pub(super) fn whole(
    client: &dyn Client,
    name: &str,
    default: u64,
    least: u64,
    most: u64,
) -> Result<u64, Halt> {
    let Some(text) = client.param(name) else { return Ok(default) };
    let number = u64::from_str(text).ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| refused(name, text, &format!("a whole number from {least} to {most}")))
}

/// Whether the parameter `name` says yes.
pub(super) fn flag(client: &dyn Client, name: &str) -> Result<bool, Halt> {
    match client.param(name) {
        None | Some("no" | "0" | "false") => Ok(false),
        Some("yes" | "1" | "true") => Ok(true),
        Some(other) => Err(refused(name, other, "yes or no")),
    }
}

/// What a thread has done, for its row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) begin_s: f64,
    pub(super) ops: u64,
    pub(super) bytes: Option<u64>,
    /// Reads, and those that found a row.
    pub(super) found: Option<(u64, u64)>,
}

impl Tally {
    /// Starts the time.
    pub(super) fn begin(client: &dyn Client) -> Tally {
        Tally { begin_s: client.seconds(), ..Tally::default() }
    }

    /// Waits for what is under way, stops the time, and reports what was done.
    pub(super) fn report(self, client: &mut dyn Client) -> Result<(), Halt> {
        client.wait_all()?;
        let row = self.row(client);
        client.report(row);
        Ok(())
    }

    /// Stops the time. The row of what was done.
    pub(super) fn row(self, client: &dyn Client) -> Row {
        let end_s = client.seconds();
        let mut row = Row::new();
        row.set_rate("ops", self.ops, end_s - self.begin_s);
        row.set("begin_s", Value::Number(self.begin_s));
        row.set("end_s", Value::Number(end_s));
        if let Some(bytes) = self.bytes {
            row.set("bytes", Value::Count(bytes));
        }
        if let Some((reads, found)) = self.found {
            row.set("reads", Value::Count(reads));
            row.set("found", Value::Count(found));
        }
        row
    }
}
