//! Operations that a job expects one answer of; any other answer ends the job with a failure that
//! names the key, what was expected and what was found.
//!
//! The right answer costs a comparison. What a message needs is copied only for a wrong one.

use super::client::{Client, Halt};

/// Bytes of a key or a value that a message shows.
const SHOWN_BYTES_MAX: usize = 40;

/// Text of bytes for a message: quoted, escaped, cut.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
    let dots = if cut.len() < bytes.len() { ".." } else { "" };
    format!("\"{}\"{dots}", cut.escape_ascii())
}

/// Looks `key` up and insists on `expected`.
#[inline]
pub(crate) fn get(client: &mut dyn Client, key: &[u8], expected: &[u8]) -> Result<(), Halt> {
    client.check(key, expected)
}

/// Looks one column of the row under `key` up and insists on `expected`.
#[inline]
pub(crate) fn get_column(
    client: &mut dyn Client,
    key: &[u8],
    column: u16,
    expected: &[u8],
) -> Result<(), Halt> {
    client.check_column(key, column, expected)
}

/// [`Client::check`] of a client whose answers come at once.
#[inline]
pub(crate) fn now<C: Client + ?Sized>(
    client: &mut C,
    key: &[u8],
    expected: &[u8],
) -> Result<(), Halt> {
    let (mut right, mut wrong) = (false, None);
    let found = client.get(key, &mut |value| note(value, expected, &mut right, &mut wrong))?;
    if found && right && wrong.is_none() {
        return Ok(());
    }
    Err(mismatch(None, key, expected, wrong.as_deref()))
}

/// [`Client::check_column`] of a client whose answers come at once.
#[inline]
pub(crate) fn column_now<C: Client + ?Sized>(
    client: &mut C,
    key: &[u8],
    column: u16,
    expected: &[u8],
) -> Result<(), Halt> {
    let (mut right, mut wrong) = (false, None);
    let mut visit = |value: &[u8]| note(value, expected, &mut right, &mut wrong);
    let found = client.get_column(key, column, &mut visit)?;
    if found && right && wrong.is_none() {
        return Ok(());
    }
    Err(mismatch(Some(column), key, expected, wrong.as_deref()))
}

#[inline]
fn note(value: &[u8], expected: &[u8], right: &mut bool, wrong: &mut Option<Vec<u8>>) {
    if same(value, expected) {
        *right = true;
    } else {
        *wrong = Some(value.to_vec());
    }
}

/// Whether the texts are the same. Most have 8 to 16 bytes: two words each, which may overlap.
#[inline]
fn same(value: &[u8], expected: &[u8]) -> bool {
    let words = |text: &[u8]| {
        let (first, last) = (text.first_chunk::<8>()?, text.last_chunk::<8>()?);
        Some((u64::from_le_bytes(*first), u64::from_le_bytes(*last)))
    };
    match (words(value), words(expected)) {
        (Some(value_words), Some(expected_words)) if value.len() <= 16 => {
            value.len() == expected.len() && value_words == expected_words
        }
        _ => value == expected,
    }
}

/// Looks `key` up and insists that it is not there.
pub(crate) fn absent(client: &mut dyn Client, key: &[u8]) -> Result<(), Halt> {
    let mut value = Vec::new();
    if client.get(key, &mut |found| value = found.to_vec())? {
        let (key, value) = (shown(key), shown(&value));
        return Err(Halt::failed(format!("key {key}: expected nothing, found {value}")));
    }
    Ok(())
}

/// Stores `value` under `key`, which must not be there.
pub(crate) fn insert(client: &mut dyn Client, key: &[u8], value: &[u8]) -> Result<(), Halt> {
    if client.insert_new(key, value)? {
        return Ok(());
    }
    let key = shown(key);
    Err(Halt::failed(format!("insert of key {key}: expected to insert, found the key there")))
}

/// Removes `key`, which must be there.
pub(crate) fn remove(client: &mut dyn Client, key: &[u8]) -> Result<(), Halt> {
    if client.delete_existing(key)? {
        return Ok(());
    }
    let key = shown(key);
    Err(Halt::failed(format!("removal of key {key}: expected to remove it, found it gone")))
}

/// Looks all `keys` up as one call and insists on one answer each: the value of the same place in
/// `expected`. At most 64 keys.
pub(crate) fn get_many(
    client: &mut dyn Client,
    keys: &[&[u8]],
    expected: &[&[u8]],
) -> Result<(), Halt> {
    let (mut answered, mut fault) = (0u64, None);
    client.get_many(keys, &mut |index, value| {
        let twice = index >= keys.len() || answered & 1 << index != 0;
        if !twice && value == Some(expected[index]) {
            answered |= 1 << index;
        } else if fault.is_none() {
            fault = Some((index, value.map(<[u8]>::to_vec), twice));
        }
    })?;
    if let Some((index, value, twice)) = fault {
        return Err(match keys.get(index) {
            Some(key) if twice => {
                let key = shown(key);
                Halt::failed(format!("key {key} of a batch: expected one answer, found two"))
            }
            Some(key) => mismatch(None, key, expected[index], value.as_deref()),
            None => Halt::failed(format!("an answer for place {index} of {} keys", keys.len())),
        });
    }
    match (0..keys.len()).find(|index| answered & 1 << index == 0) {
        Some(index) => Err(mismatch(None, keys[index], expected[index], None)),
        None => Ok(()),
    }
}

/// The failure of a lookup of `key`, or of one column of it, that found something else than
/// `expected`: another value, or nothing.
#[cold]
#[must_use]
pub fn mismatch(column: Option<u16>, key: &[u8], expected: &[u8], found: Option<&[u8]>) -> Halt {
    let what = column.map_or_else(String::new, |column| format!("column {column} of "));
    let (key, expected) = (shown(key), shown(expected));
    let found = found.map_or_else(|| "nothing".to_owned(), shown);
    Halt::failed(format!("{what}key {key}: expected {expected}, found {found}"))
}
