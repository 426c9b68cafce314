//! A part of the log of a store, as an object of a repository.
//!
//! ```text
//!   name      logs/ID-FIRST-END          the identity of the log, and the positions around it
//!   header    magic | version | continues | log id | first | end | bytes of the entries
//!   entries   kind: u8 | position: u64 | length: u32 | bytes
//!   SHA-256 of all before
//! ```
//!
//! Numbers are little-endian. `docs/formats/backup.md` has the rules.
//!
//! **Invariant:** a decoded object has entries with growing positions, all after its first
//! position, and the last one is at its end. Its header says what its name says.

use crate::digest::Digest;
use crate::error::{Error, Result, name};
use crate::manifest::{log_id, number};
use crate::repository::{LOGS, Repository};
use keyrack_store::LogEntry;
use keyrack_vfs::RelativePath;
use std::collections::BTreeMap;
use std::fmt;

const MAGIC: [u8; 8] = *b"KEYRLOGS";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 48;
const ENTRY_HEADER_BYTES: usize = 13;
const CHECKSUM_BYTES: usize = 32;
/// Bytes of the entries of an object, at most, unless one batch alone has more.
pub(crate) const ENTRIES_BYTES_MAX: usize = 16 << 20;
/// Bytes of an object, at most: one batch of any length.
const OBJECT_BYTES_MAX: usize = HEADER_BYTES + (2 << 32) + CHECKSUM_BYTES;

const BATCH: u8 = 1;
const TIME: u8 = 2;
const BREAK: u8 = 3;

/// The name of an object. They are ordered by their logs and positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogName {
    pub(crate) log_id: u64,
    /// What it has comes after this position.
    pub(crate) first: u64,
    /// Behind its last entry.
    pub(crate) end: u64,
}

impl LogName {
    pub(crate) fn parse(text: &str) -> Option<LogName> {
        let mut parts = text.split('-');
        let id = log_id(parts.next()?)?;
        let mut position = || number(parts.next()?.trim_start_matches('0')).or(Some(0));
        let parsed = LogName { log_id: id, first: position()?, end: position()? };
        (parsed.first < parsed.end && parsed.to_string() == text).then_some(parsed)
    }

    pub(crate) fn object(&self) -> RelativePath {
        name(&format!("{LOGS}/{self}"))
    }
}

impl fmt::Display for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LogName { log_id, first, end } = self;
        write!(f, "{log_id:016x}-{first:020}-{end:020}")
    }
}

/// Collects the entries of an object.
#[derive(Debug)]
pub(crate) struct LogWriter {
    name: LogName,
    continues: bool,
    bytes: Vec<u8>,
}

impl LogWriter {
    /// An object whose entries come after `first`. `continues`: an object that ends there was
    /// written before.
    pub(crate) fn new(log_id: u64, first: u64, continues: bool) -> LogWriter {
        let name = LogName { log_id, first, end: first };
        LogWriter { name, continues, bytes: vec![0; HEADER_BYTES] }
    }

    /// Behind the last entry.
    pub(crate) fn end(&self) -> u64 {
        self.name.end
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.len() == HEADER_BYTES
    }

    /// Whether the object may take the entry as well.
    pub(crate) fn takes(&self, entry: &LogEntry) -> bool {
        let bytes = match entry {
            LogEntry::Batch { payload, .. } => payload.len(),
            LogEntry::Time { .. } | LogEntry::Break { .. } => 8,
        };
        self.is_empty() || self.bytes.len() + ENTRY_HEADER_BYTES + bytes <= ENTRIES_BYTES_MAX
    }

    /// Adds an entry.
    ///
    /// # Panics
    /// The positions do not grow.
    pub(crate) fn push(&mut self, entry: &LogEntry) {
        let position = entry.position();
        assert!(position > self.name.end, "the positions of a feed grow");
        let time;
        let (kind, body) = match entry {
            LogEntry::Batch { payload, .. } => (BATCH, &payload[..]),
            LogEntry::Time { unix_ms, .. } => {
                time = unix_ms.to_le_bytes();
                (TIME, &time[..])
            }
            LogEntry::Break { .. } => (BREAK, &[][..]),
        };
        let length = u32::try_from(body.len()).expect("a record of a log has at most 4 GiB");
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&position.to_le_bytes());
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(body);
        self.name.end = position;
    }

    /// The object.
    pub(crate) fn seal(self) -> (LogName, Vec<u8>) {
        let LogWriter { name, continues, mut bytes } = self;
        let entries = (bytes.len() - HEADER_BYTES) as u64;
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&u32::from(continues).to_le_bytes());
        for (at, number) in [(16, name.log_id), (24, name.first), (32, name.end), (40, entries)] {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let sum = Digest::of(&bytes);
        bytes.extend_from_slice(sum.bytes());
        (name, bytes)
    }
}

/// An object that was read.
#[derive(Debug)]
pub(crate) struct LogObject {
    pub(crate) continues: bool,
    bytes: Vec<u8>,
}

/// An entry, with the payload where it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shipped<'a> {
    Batch(&'a [u8]),
    Time(u64),
    Break,
}

impl LogObject {
    /// Checks the object `name` that was found at `place`.
    ///
    /// # Errors
    /// [`Error::Corruption`]; [`Error::Usage`] if a later program wrote it.
    pub(crate) fn decode(place: &str, name: &LogName, bytes: Vec<u8>) -> Result<LogObject> {
        let wrong = |what: &str| Err(Error::corruption(place, what));
        let Some((body, sum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
            return wrong("too short for a part of a log");
        };
        if Digest::of(body).bytes() != sum {
            return wrong("the part of a log has another checksum than it states");
        }
        if body.len() < HEADER_BYTES || body[..8] != MAGIC {
            return wrong("no part of a log");
        }
        let version = u32_at(body, 8);
        if version > VERSION {
            let what = format!("has the later format version {version}; use a later keyrack");
            return Err(Error::Usage(format!("{place}: {what}")));
        }
        if version != VERSION || u32_at(body, 12) > 1 {
            return wrong("a part of a log with a version or a flag that there is not");
        }
        let [log_id, first, end, entries] = [16, 24, 32, 40].map(|at| u64_at(body, at));
        if (LogName { log_id, first, end }) != *name {
            return wrong("its header has another log or other positions than its name");
        }
        if entries != (body.len() - HEADER_BYTES) as u64 {
            return wrong("it does not have the bytes that it states");
        }
        let continues = u32_at(body, 12) == 1;
        let (mut rest, mut at) = (&body[HEADER_BYTES..], first);
        while !rest.is_empty() {
            let offset = body.len() - rest.len();
            match take_entry(&mut rest) {
                Some((position, _)) if at < position && position <= end => at = position,
                Some(_) => return wrong(&format!("byte {offset}: a position out of order")),
                None => return wrong(&format!("byte {offset}: no entry of a log")),
            }
        }
        if at != end {
            return wrong("its last entry is not at its end");
        }
        Ok(LogObject { continues, bytes })
    }

    /// The entries, with the positions behind them.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, Shipped<'_>)> {
        let mut rest = &self.bytes[HEADER_BYTES..self.bytes.len() - CHECKSUM_BYTES];
        std::iter::from_fn(move || take_entry(&mut rest))
    }
}

fn take_entry<'a>(rest: &mut &'a [u8]) -> Option<(u64, Shipped<'a>)> {
    let (head, after) = rest.split_at_checked(ENTRY_HEADER_BYTES)?;
    let length = usize::try_from(u32_at(head, 9)).ok()?;
    let (body, after) = after.split_at_checked(length)?;
    let entry = match head[0] {
        BATCH => Shipped::Batch(body),
        TIME => Shipped::Time(u64::from_le_bytes(body.try_into().ok()?)),
        BREAK if body.is_empty() => Shipped::Break,
        _ => return None,
    };
    *rest = after;
    Some((u64_at(head, 1), entry))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl Repository {
    /// The parts of all logs, ordered, with their bytes. Other names beside them are not ours.
    pub(crate) fn log_names(&self) -> Result<BTreeMap<LogName, u64>> {
        let listed = self.target.list(&name(LOGS))?;
        let parsed = |object: &crate::Listed| Some((LogName::parse(&object.name)?, object.bytes));
        Ok(listed.iter().filter_map(parsed).collect())
    }

    /// Reads a part of a log.
    ///
    /// # Errors
    /// [`Error::Corruption`] if it is damaged or missing; [`Error::Usage`] if it is of a later
    /// version; the machine's.
    pub(crate) fn log_object(&self, name: &LogName) -> Result<LogObject> {
        let place = self.target.place(Some(&name.object()));
        match self.read_small(&name.object(), OBJECT_BYTES_MAX)? {
            Some(bytes) => LogObject::decode(&place, name, bytes),
            None => Err(Error::corruption(place, "it is missing")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: [(u64, Shipped<'_>); 4] = [
        (120, Shipped::Batch(b"writes")),
        (140, Shipped::Time(1_700_000_000_123)),
        (150, Shipped::Break),
        (u64::MAX, Shipped::Batch(b"")),
    ];

    fn sample() -> (LogName, Vec<u8>) {
        let mut writer = LogWriter::new(7, 100, true);
        for (position, entry) in ENTRIES {
            writer.push(&match entry {
                Shipped::Batch(payload) => LogEntry::Batch { position, payload: payload.to_vec() },
                Shipped::Time(unix_ms) => LogEntry::Time { position, unix_ms },
                Shipped::Break => LogEntry::Break { position },
            });
        }
        writer.seal()
    }

    /// The sample with other bytes at `at`, and a right checksum.
    fn resealed(at: usize, bytes: &[u8]) -> Vec<u8> {
        let (_, mut object) = sample();
        object.truncate(object.len() - CHECKSUM_BYTES);
        object[at..at + bytes.len()].copy_from_slice(bytes);
        let sum = Digest::of(&object);
        object.extend_from_slice(sum.bytes());
        object
    }

    #[test]
    fn an_object_comes_back() {
        let (name, bytes) = sample();
        assert_eq!(name.to_string(), "0000000000000007-00000000000000000100-18446744073709551615");
        assert_eq!(LogName::parse(&name.to_string()), Some(name));
        let object = LogObject::decode("/o", &name, bytes).unwrap();
        assert!(object.continues);
        assert!(object.entries().eq(ENTRIES));
    }

    #[test]
    fn every_changed_or_missing_byte_is_found() {
        let (name, bytes) = sample();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            for bad in [changed, bytes[..at].to_vec()] {
                let error = LogObject::decode("/o", &name, bad).unwrap_err();
                assert!(matches!(&error, Error::Corruption { place, .. } if place == "/o"), "{at}");
            }
        }
    }

    #[test]
    fn contents_that_contradict_the_format_are_refused() {
        let (name, _) = sample();
        let at = |entry: usize| HEADER_BYTES + [0, 19, 40, 53][entry];
        for (offset, bytes, what) in [
            (0, &b"X"[..], "no part of a log"),
            (8, &[0], "a version or a flag"),
            (12, &[2], "a version or a flag"),
            (16, &[8], "another log or other positions"),
            (24, &[99], "another log or other positions"),
            (32, &[0], "another log or other positions"),
            (40, &[255], "the bytes that it states"),
            (at(0), &[9], "byte 48: no entry"),
            (at(0) + 1, &[100], "byte 48: a position out of order"),
            (at(1) + 1, &[120], "byte 67: a position out of order"),
            (at(1) + 9, &[7], "byte 67: no entry"),
            (at(0) + 9, &[255; 4], "byte 48: no entry"),
            (at(2) + 9, &[1], "byte 88: no entry"),
            (at(3) + 1, &[254], "its last entry"),
        ] {
            let error = LogObject::decode("/o", &name, resealed(offset, bytes)).unwrap_err();
            assert!(matches!(error, Error::Corruption { .. }), "{what}: {error}");
            assert!(error.to_string().contains(what), "{what}: {error}");
        }
        let error = LogObject::decode("/o", &name, resealed(8, &[2])).unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{error}");
    }

    #[test]
    fn other_names_are_no_parts_of_logs() {
        let (name, _) = sample();
        let text = name.to_string();
        for bad in [
            "",
            "notes",
            &text[1..],
            &format!("{text}-"),
            &text.replace("0100", "01e0"),
            &text.replace('7', "G"),
            &text.replace("18446744073709551615", "18446744073709551616"),
            &text.replace("18446744073709551615", "00000000000000000100"),
            &text.replace("18446744073709551615", "00000000000000000099"),
        ] {
            assert_eq!(LogName::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_object_takes_a_limited_number_of_bytes_but_any_one_batch() {
        let large = |position, bytes| LogEntry::Batch { position, payload: vec![0; bytes] };
        let mut writer = LogWriter::new(1, 0, false);
        assert!(writer.takes(&large(1, ENTRIES_BYTES_MAX * 2)));
        writer.push(&large(1, 10));
        let room = ENTRIES_BYTES_MAX - writer.bytes.len() - ENTRY_HEADER_BYTES;
        assert!(writer.takes(&large(2, room)));
        assert!(!writer.takes(&large(2, room + 1)));
    }
}
