//! `flodb/mixed`: the test of FloDB, as its `db_test` makes it.
//!
//! ```text
//!   keys      1 .. range, 8 bytes, the larger number behind the smaller; values of 256 bytes
//!   before    those above the middle of the range: initial - 1 keys when range is twice initial,
//!             from the last one downwards, or in random order; then a wait
//!   an operation, until the time is over
//!             the key: uniform; with skew=x, in 100-x of 100 draws one of the x % in the middle
//!             updates/2 of 100 a put, updates/2 a removal, else a get;
//!             with scans, instead of the get a scan of 100 keys, which counts as 100 operations
//!             with one_writer, thread 0 only puts and the others only read
//!             with bursts, updates are 100 in the last of every ten seconds, and 0 in the others
//!             with latency, reports the seconds of reads that found and missed, puts, removals
//! ```
//!
//! Where it differs: keys are drawn from the whole range, where the original draws from 32 bits;
//! a scan has found the rows that it saw, where the original always says 100; with `one_writer` the
//! readers scan if they are told to; half of a value compresses away, where the original's are all
//! alike.

use super::params::{Draws, Fill, Tally, flag, refused, stream, value_source, values, whole};
use super::writes::load_share;
use crate::kvtest::{Client, Halt, Value};
use crate::rng::Rng;
use crate::scramble::Permutation;
use crate::values::ValueSpec;

const INITIAL: u64 = 1024;
const VALUE_BYTES: u32 = 256;
/// The largest power of two of which there is still a double.
const INITIAL_MAX: u64 = 1 << 62;
const WAIT_MAX_S: f64 = 1e6;
/// Keys of a scan.
const SCAN_KEYS: u64 = 100;
/// Seconds from one burst of updates to the next. A burst takes one.
const BURST_PERIOD_S: u64 = 10;

struct Shape {
    range: u64,
    /// In percent, as all shares here.
    updates: u64,
    /// The share of the range that is hot; `None` where all keys are alike.
    skew: Option<f64>,
    has_one_writer: bool,
    scans: bool,
    /// Whether the last of every ten seconds has updates alone, and the others none.
    has_bursts: bool,
    /// Whether the time of each operation is taken.
    is_timed: bool,
    fill: Fill,
    wait_s: f64,
    values: ValueSpec,
}

impl Shape {
    fn of(client: &dyn Client) -> Result<Shape, Halt> {
        let initial = whole(client, "initial", INITIAL, 1, INITIAL_MAX)?.next_power_of_two();
        let range = whole(client, "range", 2 * initial, 1, 2 * INITIAL_MAX)?;
        // As the original: a range that has no room for the initial keys is twice as many.
        let range = if range < initial { 2 * initial } else { range.next_power_of_two() };
        let number = |name: &str, most: f64, wanted: &str| -> Result<Option<f64>, Halt> {
            let Some(text) = client.param(name) else { return Ok(None) };
            let number = text.parse().ok().filter(|number| (0.0..=most).contains(number));
            number.map(Some).ok_or_else(|| refused(name, text, wanted))
        };
        let skew = number("skew", 100.0, "a percentage above 0, at most 100")?;
        if skew == Some(0.0) {
            return Err(refused("skew", "0", "a percentage above 0, at most 100"));
        }
        Ok(Shape {
            range,
            updates: whole(client, "updates", 0, 0, 100)?,
            skew,
            has_one_writer: flag(client, "one_writer")?,
            scans: flag(client, "scans")?,
            has_bursts: flag(client, "bursts")?,
            is_timed: flag(client, "latency")?,
            fill: Fill::of(client)?,
            wait_s: number("wait", WAIT_MAX_S, "a number of seconds up to 1000000")?.unwrap_or(0.0),
            values: values(client, VALUE_BYTES)?,
        })
    }

    /// Updates of a hundred operations that are made now.
    fn updates_at(&self, client: &dyn Client) -> u64 {
        if !self.has_bursts {
            return self.updates;
        }
        let is_burst = client.seconds() as u64 % BURST_PERIOD_S == BURST_PERIOD_S - 1;
        if is_burst { 100 } else { 0 }
    }

    /// A key to work on: 1 to the range.
    fn draw(&self, rng: &mut Rng) -> u64 {
        if let Some(skew) = self.skew
            && (rng.below(1 << 32) as f64) < (100.0 - skew) / 100.0 * (1u64 << 32) as f64
        {
            let range = self.range as f64;
            let hot = (range * skew / 100.0).ceil() as u64;
            let first = (range * (0.5 - skew / 200.0)) as u64;
            return (1 + first + rng.below(hot.max(1))).min(self.range);
        }
        1 + rng.below(self.range)
    }
}

/// Numbers of keys that are put before the run: those above the middle, without the last.
fn filled(range: u64) -> std::ops::Range<u64> {
    range / 2 + 1..range
}

pub(super) fn load(client: &mut dyn Client) -> Result<(), Halt> {
    let shape = Shape::of(client)?;
    let fill = shape.fill.decided(client);
    if matches!(fill, Fill::Seq | Fill::Random) {
        let filled = filled(shape.range);
        let count = filled.end.saturating_sub(filled.start);
        let permutation = Permutation::new(count);
        let key_of = |number| match fill {
            Fill::Random => filled.start + permutation.apply(number),
            _ => filled.end - 1 - number,
        };
        let key_of = |number| key_of(number).to_be_bytes();
        load_share(client, count, &shape.values, key_of, |key| key)?;
    }
    if shape.wait_s > 0.0 {
        client.pause(shape.wait_s)?;
    }
    Ok(())
}

/// What an operation is.
enum Choice {
    Put,
    Remove,
    Read,
}

/// What a thread has done.
#[derive(Default)]
struct Counts {
    searches: u64,
    found: u64,
    inserts: u64,
    removes: u64,
    /// Seconds of reads that found something, of those that did not, of puts and of removals.
    spent_s: [f64; 4],
}

/// What [`Counts::spent_s`] is reported as.
const SPENT: [&str; 4] = ["found_s", "missed_s", "inserts_s", "removes_s"];

pub(super) fn run(client: &mut dyn Client) -> Result<(), Halt> {
    let shape = Shape::of(client)?;
    let (mut rng, mut dice) = (stream(client, Draws::Keys), stream(client, Draws::Operations));
    let mut source = value_source(client, &shape.values)?;
    let limit = client.limit();
    let (mut counts, mut calls) = (Counts::default(), 0);
    let mut tally = Tally::begin(client);
    while calls < limit && !client.expired(0) {
        let number = shape.draw(&mut rng);
        let key = number.to_be_bytes();
        // Of 200: an odd percentage has halves too.
        let (dice, updates) = (dice.below(200), shape.updates_at(client));
        let choice = if shape.has_one_writer && client.id() == 0 {
            Choice::Put
        } else if shape.has_one_writer {
            Choice::Read
        } else if dice < updates {
            Choice::Put
        } else if dice < 2 * updates {
            Choice::Remove
        } else {
            Choice::Read
        };
        let begun = shape.is_timed.then(|| client.seconds());
        let spent = match choice {
            Choice::Put => {
                client.put(&key, source.next_value())?;
                counts.inserts += 1;
                2
            }
            Choice::Remove => {
                client.remove(&key)?;
                counts.removes += 1;
                3
            }
            Choice::Read if shape.scans => {
                let end = number.saturating_add(SCAN_KEYS).to_be_bytes();
                let found = client.range(&key, &end, &mut |_, _| {})?;
                counts.found += found;
                counts.searches += SCAN_KEYS;
                usize::from(found == 0)
            }
            Choice::Read => {
                let is_found = client.get(&key, &mut |_| {})?;
                counts.found += u64::from(is_found);
                counts.searches += 1;
                usize::from(!is_found)
            }
        };
        if let Some(begun) = begun {
            counts.spent_s[spent] += client.seconds() - begun;
        }
        calls += 1;
    }
    client.wait_all()?;
    tally.ops = counts.searches + counts.inserts + counts.removes;
    tally.found = Some((counts.searches, counts.found));
    let mut row = tally.row(client);
    row.set("inserts", Value::Count(counts.inserts));
    row.set("removes", Value::Count(counts.removes));
    if shape.is_timed {
        for (name, seconds) in SPENT.iter().zip(counts.spent_s) {
            row.set(name, Value::Number(seconds));
        }
    }
    client.report(row);
    Ok(())
}
