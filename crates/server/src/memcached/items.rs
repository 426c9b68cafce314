//! The meaning of memcached's commands, as steps on rows. The three protocols of memcached (text,
//! meta, binary) differ in how they say it; each of their commands is one call of this file.
//!
//! ```text
//!   row                      seen as
//!   Value                    an item
//!   Columns                  an item whose value is column 0; the other columns stay when the
//!                            value is changed (append, incr, touch), and go when it is replaced
//!   Fields                   nothing; a write that makes an item replaces the row
//!   version                  cas unique, unless the row has a number of its own (`Marks::cas`)
//! ```
//!
//! A write that only changes when an item expires, or notes something on it, keeps its cas unique:
//! the row's version grows, and the old number is written into the row.
//!
//! **Invariants.** A step reads, decides and writes under one [`RowSession::update`]: nobody comes
//! between. The closure may run again, so it leaves nothing behind but what it assigns.
//!
//! The public source is memcached's `doc/protocol.txt`.

use crate::store_failures;
use keyrack_rowstore::{Kind, Marks, Row, RowBuf, RowSession};
use keyrack_store::{Error, Update};

/// Seconds up to which a time of expiry counts from now: 30 days. Above it is a date.
const RELATIVE_S_MAX: i64 = 60 * 60 * 24 * 30;

/// A date that has always passed.
const PAST_MS: u64 = 1;

/// Digits of the largest number that is counted with.
const DIGITS_MAX: usize = 20;

/// When an item expires, in milliseconds since 1970, whose command said `exptime`; 0 is never.
pub(crate) fn expires_ms(exptime: i64, now_ms: u64) -> u64 {
    let ms = exptime.unsigned_abs().saturating_mul(1000);
    match exptime {
        0 => 0,
        i64::MIN..0 => PAST_MS,
        1..=RELATIVE_S_MAX => now_ms.saturating_add(ms),
        _ => ms,
    }
}

/// Seconds until `expires_ms`, a begun one counted; nothing when it never comes.
pub(crate) fn ttl_s(expires_ms: u64, now_ms: u64) -> Option<u64> {
    (expires_ms != 0).then(|| expires_ms.saturating_sub(now_ms).div_ceil(1000))
}

/// How a step ended.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Done; the item's cas unique, 0 when nothing is left of it.
    Done(u64),
    /// A condition of the command did not hold.
    NotStored,
    /// Another client changed the item.
    Exists,
    /// There is no item.
    NotFound,
    /// The value is not a number.
    NotANumber,
    /// The value is larger than a value may be.
    TooLarge,
    /// There is no memory for it.
    NoMemory,
    /// The store failed or refused; after a failure what was written may not survive.
    Failed(Error),
}

/// On what a storing command insists, and what it does with a value that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
}

/// A storing command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) mode: Mode,
    pub(crate) flags: u32,
    pub(crate) expires_ms: u64,
    /// Store only over an item of this cas unique.
    pub(crate) compare: Option<u64>,
    /// Store over a newer item as well, which is stale then.
    pub(crate) or_stale: bool,
    /// The cas unique of the new item; 0 to give it one.
    pub(crate) cas: u64,
    /// For append and prepend: when a new item expires, if there is none.
    pub(crate) vivify_ms: Option<u64>,
}

impl<'a> Put<'a> {
    /// A plain `set`.
    pub(crate) fn set(key: &'a [u8], value: &'a [u8], flags: u32, expires_ms: u64) -> Self {
        Put {
            key,
            value,
            mode: Mode::Set,
            flags,
            expires_ms,
            compare: None,
            or_stale: false,
            cas: 0,
            vivify_ms: None,
        }
    }
}

/// A command that counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delta<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) by: u64,
    /// Up and round past 2^64, or down to 0.
    pub(crate) up: bool,
    pub(crate) compare: Option<u64>,
    pub(crate) cas: u64,
    /// The number and the expiry of a new item, if there is none.
    pub(crate) initial: Option<(u64, u64)>,
    /// A new time of expiry.
    pub(crate) touch_ms: Option<u64>,
}

/// The item that a [`Delta`] left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) number: u64,
    pub(crate) cas: u64,
    pub(crate) expires_ms: u64,
    pub(crate) created: bool,
}

/// A command that takes something away.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delete<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) compare: Option<u64>,
    /// Leave the item, and mark it stale.
    pub(crate) invalidate: bool,
    /// Leave the item, without value and flags.
    pub(crate) empty: bool,
    /// When what is left expires.
    pub(crate) touch_ms: Option<u64>,
    /// The cas unique of what is left; 0 to give it one.
    pub(crate) cas: u64,
}

/// The side effects of a read on the item.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    /// A new time of expiry.
    pub(crate) touch_ms: Option<u64>,
    /// Without an item: make an empty one that expires then, and promise a value to nobody else.
    pub(crate) vivify_ms: Option<u64>,
    /// Ask for a new value when fewer milliseconds than this are left.
    pub(crate) recache_ms: Option<u64>,
}

/// An item as a read found it, or left it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) value: &'a [u8],
    pub(crate) flags: u32,
    pub(crate) cas: u64,
    pub(crate) expires_ms: u64,
    pub(crate) stale: bool,
    /// Another client was asked for a new value.
    pub(crate) promised: bool,
    /// The reader is asked for a new value.
    pub(crate) won: bool,
}

impl<'a> Item<'a> {
    fn of(row: Row<'a>) -> Self {
        let marks = row.marks();
        Item {
            value: row.value(),
            flags: row.flags(),
            cas: row.cas(),
            expires_ms: row.expires_ms(),
            stale: marks.stale,
            promised: marks.promised,
            won: false,
        }
    }
}

/// The row as an item, if it is one.
pub(crate) fn visible(row: Option<Row<'_>>) -> Option<Row<'_>> {
    row.filter(|row| !matches!(row.kind(), Kind::Fields | Kind::Collection))
}

/// Stores, a value of at most `value_bytes_max`.
pub(crate) fn store(
    rows: &mut dyn RowSession,
    put: &Put<'_>,
    value_bytes_max: usize,
    now_ms: u64,
) -> Answer {
    if put.value.len() > value_bytes_max {
        return Answer::TooLarge;
    }
    let plain = put.mode == Mode::Set && put.compare.is_none() && put.cas == 0;
    if plain && !is_past(put.expires_ms, now_ms) {
        let written = rows.put(put.key, put.value, put.flags, put.expires_ms);
        return written.map_or_else(failure, Answer::Done);
    }
    let mut answer = Answer::NotStored;
    let written = rows.update(put.key, &mut |row, new| {
        let (decided, change) = decide_put(put, value_bytes_max, visible(row), new, now_ms);
        answer = decided;
        change
    });
    with_cas(answer, written, put.cas)
}

fn decide_put(
    put: &Put<'_>,
    value_bytes_max: usize,
    row: Option<Row<'_>>,
    new: &mut RowBuf,
    now_ms: u64,
) -> (Answer, Update) {
    let Some(old) = row else {
        let expires_ms = match put.mode {
            _ if put.compare.is_some() => return (Answer::NotFound, Update::Keep),
            Mode::Set | Mode::Add => put.expires_ms,
            Mode::Append | Mode::Prepend if put.vivify_ms.is_some() => {
                put.vivify_ms.unwrap_or_default()
            }
            _ => return (Answer::NotStored, Update::Keep),
        };
        new.set_value(put.value);
        new.set_flags(put.flags);
        new.set_expires_ms(expires_ms);
        new.set_marks(Marks { cas: put.cas, ..Marks::default() });
        return (Answer::Done(0), unless_past(expires_ms, now_ms));
    };
    let mut expires_ms = put.expires_ms;
    let mut marks = Marks { cas: put.cas, ..Marks::default() };
    match put.compare {
        Some(cas) if cas == old.cas() => {}
        Some(cas) if put.or_stale && cas < old.cas() => {
            expires_ms = old.expires_ms();
            marks.stale = true;
            marks.promised = old.marks().promised;
        }
        Some(_) => return (Answer::Exists, Update::Keep),
        None => {}
    }
    match put.mode {
        Mode::Add => return (Answer::NotStored, Update::Keep),
        Mode::Set | Mode::Replace => {
            new.set_value(put.value);
            new.set_flags(put.flags);
            new.set_expires_ms(expires_ms);
        }
        Mode::Append | Mode::Prepend => {
            if old.value().len().saturating_add(put.value.len()) > value_bytes_max {
                return (Answer::TooLarge, Update::Keep);
            }
            let (first, second) = match put.mode {
                Mode::Append => (old.value(), put.value),
                _ => (put.value, old.value()),
            };
            change_value(&old, new, &[first, second]);
            expires_ms = old.expires_ms();
        }
    }
    new.set_marks(marks);
    (Answer::Done(0), unless_past(expires_ms, now_ms))
}

/// Counts. The number keeps the length of the text before it where it is shorter: blanks follow.
pub(crate) fn count(
    rows: &mut dyn RowSession,
    delta: &Delta<'_>,
    now_ms: u64,
) -> (Answer, Counted) {
    let mut answer = Answer::NotFound;
    let mut counted = Counted::default();
    let written = rows.update(delta.key, &mut |row, new| {
        let (decided, change) = decide_count(delta, visible(row), new, now_ms, &mut counted);
        answer = decided;
        change
    });
    let answer = with_cas(answer, written, delta.cas);
    if let Answer::Done(cas) = answer {
        counted.cas = cas;
    }
    (answer, counted)
}

fn decide_count(
    delta: &Delta<'_>,
    row: Option<Row<'_>>,
    new: &mut RowBuf,
    now_ms: u64,
    counted: &mut Counted,
) -> (Answer, Update) {
    let marks = Marks { cas: delta.cas, ..Marks::default() };
    let Some(old) = row else {
        let Some((number, expires_ms)) = delta.initial else {
            return (Answer::NotFound, Update::Keep);
        };
        *counted = Counted { number, cas: 0, expires_ms, created: true };
        new.set_value(&keyrack_decimal::Decimal::new(number));
        new.set_expires_ms(expires_ms);
        new.set_marks(marks);
        return (Answer::Done(0), unless_past(expires_ms, now_ms));
    };
    if delta.compare.is_some_and(|cas| cas != old.cas()) {
        return (Answer::Exists, Update::Keep);
    }
    let Some(before) = number(old.value()) else { return (Answer::NotANumber, Update::Keep) };
    let number =
        if delta.up { before.wrapping_add(delta.by) } else { before.saturating_sub(delta.by) };
    let digits = keyrack_decimal::Decimal::new(number);
    const BLANKS: [u8; DIGITS_MAX] = [b' '; DIGITS_MAX];
    let blanks = old.value().len().saturating_sub(digits.len()).min(DIGITS_MAX);
    change_value(&old, new, &[&digits, &BLANKS[..blanks]]);
    let expires_ms = delta.touch_ms.unwrap_or(old.expires_ms());
    new.set_expires_ms(expires_ms);
    new.set_marks(marks);
    *counted = Counted { number, cas: 0, expires_ms, created: false };
    (Answer::Done(0), unless_past(expires_ms, now_ms))
}

/// Deletes an item, or leaves of it what the command says.
pub(crate) fn delete(rows: &mut dyn RowSession, delete: &Delete<'_>, now_ms: u64) -> Answer {
    let mut answer = Answer::NotFound;
    let written = rows.update(delete.key, &mut |row, new| {
        let (decided, change) = decide_delete(delete, visible(row), new, now_ms);
        answer = decided;
        change
    });
    with_cas(answer, written, delete.cas)
}

fn decide_delete(
    delete: &Delete<'_>,
    row: Option<Row<'_>>,
    new: &mut RowBuf,
    now_ms: u64,
) -> (Answer, Update) {
    let Some(old) = row else { return (Answer::NotFound, Update::Keep) };
    if delete.compare.is_some_and(|cas| cas != old.cas()) {
        return (Answer::Exists, Update::Keep);
    }
    if !delete.invalidate && !delete.empty {
        return (Answer::Done(0), Update::Remove);
    }
    if delete.empty {
        new.set_value(b"");
        new.set_expires_ms(old.expires_ms());
    } else {
        change_value(&old, new, &[old.value()]);
    }
    let expires_ms = delete.touch_ms.unwrap_or(old.expires_ms());
    new.set_expires_ms(expires_ms);
    let stale = delete.invalidate || old.marks().stale;
    let promised = !delete.invalidate && old.marks().promised;
    new.set_marks(Marks { stale, promised, cas: delete.cas });
    (Answer::Done(0), unless_past(expires_ms, now_ms))
}

/// Reads an item and does to it what `reading` says; lends the item to `visit`, which may be called
/// again: the last call counts. Nothing is written where nothing changes. Returns whether there
/// was an item, one just made included.
///
/// # Errors
/// Any kind.
pub(crate) fn read(
    rows: &mut dyn RowSession,
    key: &[u8],
    reading: Reading,
    now_ms: u64,
    visit: &mut dyn FnMut(Item<'_>),
) -> Result<bool, Error> {
    let mut writes = false;
    let mut seen = false;
    rows.get(key, &mut |row| {
        let Some(row) = visible(Some(row)) else { return };
        seen = true;
        let (item, changes) = look(row, reading, now_ms);
        writes = changes;
        if !changes {
            visit(item);
        }
    })?;
    if !writes && (seen || reading.vivify_ms.is_none()) {
        return Ok(seen);
    }
    let mut created = None;
    let version = rows.update(key, &mut |row, new| {
        created = None;
        seen = false;
        let Some(old) = visible(row) else {
            let Some(expires_ms) = reading.vivify_ms else { return Update::Keep };
            created = Some(expires_ms);
            new.set_value(b"");
            new.set_expires_ms(expires_ms);
            new.set_marks(Marks { promised: true, ..Marks::default() });
            return unless_past(expires_ms, now_ms);
        };
        seen = true;
        let (item, changes) = look(old, reading, now_ms);
        visit(item);
        if !changes {
            return Update::Keep;
        }
        change_value(&old, new, &[old.value()]);
        new.set_expires_ms(item.expires_ms);
        let promised = item.won || item.promised;
        new.set_marks(Marks { stale: item.stale, promised, cas: item.cas });
        unless_past(item.expires_ms, now_ms)
    })?;
    if let Some(expires_ms) = created {
        seen = true;
        visit(Item {
            value: b"",
            flags: 0,
            cas: version,
            expires_ms,
            stale: false,
            promised: false,
            won: true,
        });
    }
    Ok(seen)
}

/// The item as a reader sees it, and whether its row has to be written for that.
fn look<'a>(row: Row<'a>, reading: Reading, now_ms: u64) -> (Item<'a>, bool) {
    let mut item = Item::of(row);
    let soon =
        |within_ms: u64| item.expires_ms != 0 && item.expires_ms.saturating_sub(now_ms) < within_ms;
    item.won = !item.promised && (item.stale || reading.recache_ms.is_some_and(soon));
    item.expires_ms = reading.touch_ms.unwrap_or(item.expires_ms);
    (item, item.won || item.expires_ms != row.expires_ms())
}

/// The number that a value is: digits, which blanks may follow.
fn number(value: &[u8]) -> Option<u64> {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let blank = value[digits..].iter().all(u8::is_ascii_whitespace);
    if digits == 0 || !blank {
        return None;
    }
    value[..digits].iter().try_fold(0u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

/// Copies a row with another value: of columns, the first one changes.
fn change_value(old: &Row<'_>, new: &mut RowBuf, value: &[&[u8]]) {
    if old.kind() == Kind::Columns && old.columns() > 1 {
        new.columns();
        new.push(&value.concat());
        for index in 1..old.columns() {
            new.push(old.column(index).unwrap_or_default());
        }
    } else {
        let data = new.value_mut();
        for part in value {
            data.extend_from_slice(part);
        }
    }
    new.keep_attributes(old);
}

fn is_past(expires_ms: u64, now_ms: u64) -> bool {
    expires_ms != 0 && expires_ms <= now_ms
}

fn unless_past(expires_ms: u64, now_ms: u64) -> Update {
    if is_past(expires_ms, now_ms) { Update::Remove } else { Update::Put }
}

/// The answer with the cas unique that came of it.
fn with_cas(answer: Answer, written: Result<u64, Error>, own: u64) -> Answer {
    match (answer, written) {
        (_, Err(error)) => failure(error),
        (Answer::Done(_), Ok(version)) => Answer::Done(if own == 0 { version } else { own }),
        (answer, Ok(_)) => answer,
    }
}

pub(crate) fn failure(error: Error) -> Answer {
    match error {
        Error::OutOfMemory { .. } => Answer::NoMemory,
        error => {
            store_failures::log(&error);
            Answer::Failed(error)
        }
    }
}
