//! RDB files: the snapshots of Redis (versions 1 to 12) and of Valkey (up to 80).
//!
//! ```text
//!   "REDIS0011"  { aux | select | resize | [expiry] [idle | freq] type key value }*  EOF crc64
//!   "VALKEY080"
//! ```
//!
//! Strings and hashes become events. A hash is handed on field by field: memory is that of its
//! largest field, or of the whole value where the file has it in one piece (list packs, which
//! servers keep small). Values of other types are passed over by their structure and named.
//!
//! | version | writer |
//! |---|---|
//! | 9 | Redis 5 to 6.2 |
//! | 10, 11 | Redis 7.0; Redis 7.2, Valkey 7.2 and 8 |
//! | 12 | Redis 7.4 and 8 |
//! | 80 | Valkey 9 |
//!
//! **Invariant:** the checksum covers all that was reported, but it comes last. Whoever must not
//! keep rows of a damaged file waits for the end.

mod element;
mod hash;
mod listpack;
mod lzf;
mod skip;
mod string;
mod ziplist;

use crate::error::Result;
use crate::event::{Entry, Event, Phase, Progress, Visit};
use crate::input::Input;
use string::{plain_length, string};

/// The newest version of each writer.
const REDIS_VERSION_MAX: u32 = 12;
const VALKEY_VERSION_MAX: u32 = 80;
/// The first version with a checksum.
const CHECKSUM_VERSION: u32 = 5;

const SLOT_INFO: u8 = 244;
const FUNCTION: u8 = 245;
const MODULE_AUX: u8 = 247;
const IDLE: u8 = 248;
const FREQ: u8 = 249;
const AUX: u8 = 250;
const RESIZE: u8 = 251;
const EXPIRES_MS: u8 = 252;
const EXPIRES_S: u8 = 253;
const SELECT: u8 = 254;
const EOF: u8 = 255;

/// Who wrote a file: the same number means different types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    Redis,
    Valkey,
}

/// Reads a snapshot up to its checksum. What follows it stays in `input`.
pub(crate) fn read(input: &mut Input<'_>, visit: Visit<'_>) -> Result<()> {
    input.begin_checksum();
    let (writer, version) = header(input)?;
    let mut reader = Reader { writer, db: 0, expires_ms: None, key: Vec::new() };
    while reader.next(input, visit)? {
        let (done, total) = (input.offset(), input.bytes_total());
        visit(Event::Progress(Progress { phase: Phase::Bytes, done, total }))?;
    }
    let computed = input.end_checksum();
    if version >= CHECKSUM_VERSION {
        let at = input.offset();
        let stored = u64::from_le_bytes(input.array()?);
        // A server that was told to compute none writes 0.
        if stored != 0 && stored != computed {
            return Err(input.damage(at, "the checksum does not match"));
        }
    }
    Ok(())
}

/// The first nine bytes.
fn header(input: &mut Input<'_>) -> Result<(Writer, u32)> {
    let at = input.offset();
    let head: [u8; 9] = input.array()?;
    let (writer, digits, version_max) = if let Some(digits) = head.strip_prefix(b"REDIS") {
        (Writer::Redis, digits, REDIS_VERSION_MAX)
    } else if let Some(digits) = head.strip_prefix(b"VALKEY") {
        (Writer::Valkey, digits, VALKEY_VERSION_MAX)
    } else {
        return Err(input.damage(at, "this is no RDB file"));
    };
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u32>().ok());
    match number.filter(|_| digits.iter().all(u8::is_ascii_digit)) {
        Some(version) if (1..=version_max).contains(&version) => Ok((writer, version)),
        _ => {
            let shown = digits.escape_ascii();
            let what = format!("RDB version {shown}; 1 to {version_max} can be read");
            Err(input.damage(at, what))
        }
    }
}

struct Reader {
    writer: Writer,
    db: u32,
    /// Of the key that follows.
    expires_ms: Option<u64>,
    key: Vec<u8>,
}

impl Reader {
    /// One opcode with what belongs to it. False at the end.
    fn next(&mut self, input: &mut Input<'_>, visit: Visit<'_>) -> Result<bool> {
        let at = input.offset();
        match input.byte()? {
            EOF => return Ok(false),
            SELECT => {
                let db = plain_length(input)?;
                self.db = u32::try_from(db).map_err(|_| input.damage(at, "no such database"))?;
            }
            EXPIRES_MS => self.expires_ms = Some(u64::from_le_bytes(input.array()?)),
            EXPIRES_S => {
                let seconds = u32::from_le_bytes(input.array()?);
                self.expires_ms = Some(u64::from(seconds) * 1000);
            }
            IDLE => {
                plain_length(input)?;
            }
            FREQ => {
                input.byte()?;
            }
            AUX => {
                skip::string(input)?;
                skip::string(input)?;
            }
            RESIZE => skip::lengths(input, 2)?,
            SLOT_INFO => skip::lengths(input, 3)?,
            FUNCTION => {
                skip::string(input)?;
                visit(Event::LeftOut { db: self.db, kind: "function library", key: b"" })?;
            }
            MODULE_AUX => {
                skip::module_aux(input)?;
                visit(Event::LeftOut { db: self.db, kind: "module data", key: b"" })?;
            }
            kind => self.row(kind, at, input, visit)?,
        }
        Ok(true)
    }

    fn row(&mut self, kind: u8, at: u64, input: &mut Input<'_>, visit: Visit<'_>) -> Result<()> {
        let expires_ms = self.expires_ms.take();
        let mut key = std::mem::take(&mut self.key);
        let Some(form) = Form::of(kind, self.writer) else {
            return Err(input.damage(at, format!("{kind} is no opcode or type that is known")));
        };
        string(input, &mut key)?;
        let entry = Entry { db: self.db, key: &key, expires_ms, flags: 0 };
        match form {
            Form::String => {
                let mut value = Vec::new();
                string(input, &mut value)?;
                visit(Event::String { entry, value: &value })?;
            }
            Form::Hash(form) => {
                visit(Event::Hash(entry))?;
                hash::fields(form, input, visit)?;
                visit(Event::EndHash)?;
            }
            Form::Other(form, kind) => {
                skip::value(form, input)?;
                visit(Event::LeftOut { db: self.db, kind, key: &key })?;
            }
        }
        self.key = key;
        Ok(())
    }
}

/// How a value is written.
enum Form {
    String,
    Hash(hash::Form),
    /// With the name of its type.
    Other(skip::Form, &'static str),
}

impl Form {
    fn of(kind: u8, writer: Writer) -> Option<Form> {
        use skip::Form as Skip;
        Some(match kind {
            0 => Form::String,
            1 => Form::Other(Skip::Strings(1), "list"),
            2 => Form::Other(Skip::Strings(1), "set"),
            3 => Form::Other(Skip::TextScores, "sorted set"),
            4 => Form::Hash(hash::Form::Pairs),
            5 => Form::Other(Skip::Scores, "sorted set"),
            7 => Form::Other(Skip::Module, "module type"),
            9 => Form::Hash(hash::Form::ZipMap),
            10 => Form::Other(Skip::String, "list"),
            11 => Form::Other(Skip::String, "set"),
            12 => Form::Other(Skip::String, "sorted set"),
            13 => Form::Hash(hash::Form::ZipList),
            14 => Form::Other(Skip::Strings(1), "list"),
            15 => Form::Other(Skip::Stream(1), "stream"),
            16 => Form::Hash(hash::Form::ListPack),
            17 => Form::Other(Skip::String, "sorted set"),
            18 => Form::Other(Skip::QuickList, "list"),
            19 => Form::Other(Skip::Stream(2), "stream"),
            20 => Form::Other(Skip::String, "set"),
            21 => Form::Other(Skip::Stream(3), "stream"),
            22 if writer == Writer::Valkey => Form::Hash(hash::Form::PairsExpiry),
            24 if writer == Writer::Redis => Form::Hash(hash::Form::ExpiryPairs),
            25 if writer == Writer::Redis => Form::Hash(hash::Form::ListPackExpiry),
            _ => return None,
        })
    }
}
