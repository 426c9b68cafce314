//! `null`: an engine that holds nothing and answers from a constant. What is measured over it is
//! the cost of measuring: the harness, the clock, the keys.
//!
//! Two kinds of session, chosen once when the store is opened, so that the answer to "is any
//! misbehaviour configured?" costs nothing per operation:
//!
//! ```text
//!   plain    get: one virtual call, the visitor's call, no memory touched but the constant value
//!   faulty   the same answers, after errors, a full disk or stalls on purpose (module `faulty`)
//! ```
//!
//! Every key is present (with `miss = true`: absent) and has the same value of `value_bytes` bytes.
//! Writes are accepted and forgotten. A scan visits `rows_per_scan` rows with the keys
//! `k:000000000000`, `k:000000000001` and so on, whatever its bounds, but none when the range is
//! empty. All of this departs from the contract on purpose; nothing here can be compared with an
//! engine, only subtracted from it.

mod faulty;

use self::faulty::{Faults, FaultySession};
use crate::check_in_memory;
use crate::contract::{Decide, RowVisitor, ValueVisitor, option};
use keyrack_store::{
    Batch, Durability, Engine, Error, OpenOptions, Removed, Result, Session, Store, StoreInfo,
};
use std::sync::atomic::AtomicU64;

pub(crate) const ENGINE: Engine = Engine {
    name: "null",
    about: "holds nothing and answers at once: measures the harness, or misbehaves on purpose",
    persistent: false,
    stores: false,
    options: &[
        option("value_bytes", "100", "length of the value that every lookup finds, in bytes"),
        option("miss", "no", "lookups find nothing instead"),
        option("rows_per_scan", "0", "rows that a scan visits, at most 1000000000"),
        option("fail_every", "0", "every so-manieth write of a session fails with EIO; 0 never"),
        option(
            "fail_get_every",
            "0",
            "every so-manieth key looked up in a session fails with EIO; 0 never",
        ),
        option(
            "full_after",
            "0",
            "writes that the store accepts before each fails with ENOSPC; 0 no limit",
        ),
        option(
            "stall_every_ms",
            "0",
            "time from one stall of the whole store to the next, in ms; 0 never",
        ),
        option("stall_ms", "0", "length of a stall, in ms, less than stall_every_ms"),
    ],
    open,
};

const VALUE_BYTES_DEFAULT: u64 = 100;
const VALUE_BYTES_MAX: u64 = 1 << 30;
const ROWS_MAX: u64 = 1_000_000_000;

fn open(options: &OpenOptions) -> Result<Box<dyn Store>> {
    check_in_memory(ENGINE.name, options)?;
    let value_bytes = options.size("value_bytes", VALUE_BYTES_DEFAULT)?;
    check_max("value_bytes", value_bytes, VALUE_BYTES_MAX)?;
    let rows_per_scan = count(options, "rows_per_scan")?;
    check_max("rows_per_scan", rows_per_scan, ROWS_MAX)?;
    Ok(Box::new(NullStore {
        value: vec![b'v'; value_bytes as usize].into(),
        miss: options.flag("miss", false)?,
        rows_per_scan,
        faults: Faults::parse(options)?,
        writes: AtomicU64::new(0),
    }))
}

fn check_max(key: &str, value: u64, max: u64) -> Result<()> {
    if value <= max {
        return Ok(());
    }
    Err(Error::usage(format!("{key}: {value} is more than {max}")))
}

/// The value of `key` as a whole number, 0 where it is not given.
fn count(options: &OpenOptions, key: &str) -> Result<u64> {
    let text = options.text(key).unwrap_or("0");
    text.trim()
        .parse()
        .map_err(|_| Error::usage(format!("{key}: '{text}' is not a whole number from 0")))
}

struct NullStore {
    value: Box<[u8]>,
    miss: bool,
    rows_per_scan: u64,
    /// What goes wrong on purpose, if anything does.
    faults: Option<Faults>,
    /// Writes that were accepted; counted only where a fault needs it.
    writes: AtomicU64,
}

impl NullStore {
    fn plain(&self) -> PlainSession<'_> {
        PlainSession {
            value: (!self.miss).then_some(&*self.value),
            row_value: &self.value,
            rows_per_scan: self.rows_per_scan,
            buffer: Vec::new(),
        }
    }
}

impl Store for NullStore {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(match &self.faults {
            None => Box::new(self.plain()),
            Some(faults) => Box::new(FaultySession::new(self.plain(), faults, &self.writes)),
        })
    }

    fn info(&self) -> StoreInfo {
        StoreInfo::new(ENGINE.name, Durability::None)
    }
}

struct PlainSession<'a> {
    /// What a lookup finds.
    value: Option<&'a [u8]>,
    /// The value of a row of a scan.
    row_value: &'a [u8],
    rows_per_scan: u64,
    /// For [`Session::update`].
    buffer: Vec<u8>,
}

impl PlainSession<'_> {
    fn scan_rows(
        &self,
        range: (&[u8], Option<&[u8]>),
        mut key: RowKey,
        step: impl Fn(&mut RowKey),
        visit: &mut RowVisitor<'_>,
    ) -> u64 {
        if self.rows_per_scan == 0 || range.1.is_some_and(|high| high <= range.0) {
            return 0;
        }
        for row in 1..self.rows_per_scan {
            if visit(&key.0, self.row_value).is_break() {
                return row;
            }
            step(&mut key);
        }
        // Whether the visitor breaks off at the last row makes no difference.
        let _ = visit(&key.0, self.row_value);
        self.rows_per_scan
    }
}

impl Session for PlainSession<'_> {
    #[inline]
    fn get(&mut self, _key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if let Some(value) = self.value {
            visit(value);
        }
        Ok(self.value.is_some())
    }

    fn multi_get(&mut self, keys: &[&[u8]], visit: &mut ValueVisitor<'_>) -> Result<()> {
        for index in 0..keys.len() {
            visit(index, self.value);
        }
        Ok(())
    }

    fn put(&mut self, _key: &[u8], _value: &[u8]) -> Result<()> {
        Ok(())
    }

    fn remove(&mut self, _key: &[u8]) -> Result<Removed> {
        Ok(if self.value.is_some() { Removed::Existed } else { Removed::Absent })
    }

    fn update(&mut self, _key: &[u8], decide: &mut Decide<'_>) -> Result<()> {
        self.buffer.clear();
        // There is nothing to change, whatever is decided.
        let _ = decide(self.value, &mut self.buffer);
        Ok(())
    }

    fn scan(&mut self, low: &[u8], high: Option<&[u8]>, visit: &mut RowVisitor<'_>) -> Result<u64> {
        Ok(self.scan_rows((low, high), RowKey::new(0), RowKey::increment, visit))
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut RowVisitor<'_>,
    ) -> Result<u64> {
        let last = RowKey::new(self.rows_per_scan.saturating_sub(1));
        Ok(self.scan_rows((low, high), last, RowKey::decrement, visit))
    }

    fn apply(&mut self, _batch: &Batch) -> Result<()> {
        Ok(())
    }
}

/// The key of a row, counted in place: nine steps of ten touch one digit.
struct RowKey([u8; 14]);

impl RowKey {
    fn new(mut number: u64) -> Self {
        let mut key = *b"k:000000000000";
        for digit in key[2..].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        RowKey(key)
    }

    fn increment(&mut self) {
        for digit in self.0[2..].iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
    }

    fn decrement(&mut self) {
        for digit in self.0[2..].iter_mut().rev() {
            if *digit > b'0' {
                *digit -= 1;
                return;
            }
            *digit = b'9';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_store::Update;
    use keyrack_vfs::RealFs;
    use std::ops::ControlFlow;
    use std::sync::Arc;

    fn options(pairs: &[(&str, &str)]) -> OpenOptions {
        let mut options = OpenOptions::in_memory(Arc::new(RealFs));
        let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        options.options = pairs.iter().map(owned).collect();
        options
    }

    fn rows(session: &mut dyn Session, reverse: bool, stop: usize) -> (u64, Vec<String>) {
        let mut keys = Vec::new();
        let mut visit = |key: &[u8], value: &[u8]| {
            assert_eq!(value, b"vvv");
            keys.push(String::from_utf8_lossy(key).into_owned());
            if keys.len() == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let visited = if reverse {
            session.scan_rev(b"", None, &mut visit)
        } else {
            session.scan(b"", None, &mut visit)
        };
        (visited.unwrap(), keys)
    }

    #[test]
    fn every_key_is_there_with_the_same_value() {
        let store = open(&options(&[("value_bytes", "1K")])).unwrap();
        let mut session = store.session().unwrap();
        let mut lent = 0;
        assert!(session.get(b"any", &mut |value| lent = value.len()).unwrap());
        assert_eq!(lent, 1024);
        let mut seen = Vec::new();
        session.multi_get(&[b"a", b"b"], &mut |i, v| seen.push((i, v.map(<[u8]>::len)))).unwrap();
        assert_eq!(seen, [(0, Some(1024)), (1, Some(1024))]);
        for _ in 0..2 {
            let update = session.update(b"a", &mut |current, buffer| {
                assert_eq!((current.map(<[u8]>::len), buffer.len()), (Some(1024), 0));
                buffer.push(1);
                Update::Put
            });
            update.unwrap();
        }
        session.put(b"a", b"b").unwrap();
        assert_eq!(session.remove(b"a").unwrap(), Removed::Existed);
        assert_eq!(rows(session.as_mut(), false, 0), (0, vec![]));
    }

    #[test]
    fn with_miss_no_key_is_there() {
        let store = open(&options(&[("miss", "yes")])).unwrap();
        let mut session = store.session().unwrap();
        assert!(!session.get(b"any", &mut |_| panic!("lent a value")).unwrap());
        session.multi_get(&[b"a"], &mut |_, value| assert_eq!(value, None)).unwrap();
        assert_eq!(session.remove(b"a").unwrap(), Removed::Absent);
        let mut saw = Some(0);
        session
            .update(b"a", &mut |current, _| {
                saw = current.map(<[u8]>::len);
                Update::Keep
            })
            .unwrap();
        assert_eq!(saw, None);
    }

    #[test]
    fn scans_visit_the_configured_rows_in_order() {
        let store = open(&options(&[("rows_per_scan", "12"), ("value_bytes", "3")])).unwrap();
        let mut session = store.session().unwrap();
        let (visited, up) = rows(session.as_mut(), false, 0);
        assert_eq!((visited, up.len()), (12, 12));
        assert_eq!((&*up[0], &*up[11]), ("k:000000000000", "k:000000000011"));
        assert!(up.is_sorted());
        let (visited, mut down) = rows(session.as_mut(), true, 0);
        down.reverse();
        assert_eq!((visited, down), (12, up));
        for stop in [1, 5, 12] {
            assert_eq!(rows(session.as_mut(), false, stop).0, stop as u64);
            assert_eq!(rows(session.as_mut(), true, stop).0, stop as u64);
        }
        let mut none = |_: &[u8], _: &[u8]| panic!("an empty range has no rows");
        assert_eq!(session.scan(b"b", Some(b"a"), &mut none).unwrap(), 0);
        assert_eq!(session.scan_rev(b"a", Some(b"a"), &mut none).unwrap(), 0);
    }

    #[test]
    fn values_of_options_that_make_no_sense_are_refused_by_name() {
        let table: &[(&[(&str, &str)], &str)] = &[
            (&[("value_bytes", "big")], "value_bytes: 'big'"),
            (&[("value_bytes", "2G")], "value_bytes: 2147483648 is more than"),
            (&[("miss", "perhaps")], "miss: 'perhaps'"),
            (&[("rows_per_scan", "1K")], "rows_per_scan: '1K'"),
            (&[("rows_per_scan", "1000000001")], "rows_per_scan: 1000000001 is more than"),
            (&[("fail_every", "-1")], "fail_every: '-1'"),
            (&[("stall_ms", "5")], "stall_every_ms"),
            (&[("stall_every_ms", "5")], "stall_ms"),
            (&[("stall_every_ms", "5"), ("stall_ms", "5")], "stall_ms: 5 is not less"),
        ];
        for (pairs, part) in table {
            let error = open(&options(pairs)).err().unwrap();
            assert!(matches!(error, Error::Usage { .. }), "{error:?}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn every_option_is_listed_with_the_default_that_holds() {
        for option in ENGINE.options {
            let store = open(&options(&[(option.key, option.default)]));
            assert!(store.is_ok(), "{} = {}", option.key, option.default);
        }
    }
}
