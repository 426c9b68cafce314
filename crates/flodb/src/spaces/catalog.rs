//! The catalog of a store's key spaces: space 0, in the order of bytes.
//!
//! | key, behind the prefix | value | |
//! |---|---|---|
//! | `f` | varint | the version of this format, 1 |
//! | `i` | varint | all ids given out are smaller |
//! | `n` name | varint id, string name of the order | a space |
//! | `o` name of an order | | it has been used, and keys in it may be in the tables |
//! | `d` id, 4 bytes, big-endian | string name of the order | a space that was dropped, whose keys may not all be gone |
//!
//! Varints and strings are as everywhere. A value may go on behind what is known of it.

use super::order::{IDS_MAX, Prefix};
use crate::batch::{Batch, BatchWrite};
use crate::checksum::hash;
use crate::coding::{Reader, put_string, put_varint};
use crate::db::Inner;
use crate::error::{Error, Result};
use crate::table::ReadOptions;
use std::collections::{BTreeMap, BTreeSet};

const VERSION: u64 = 1;

const TAG_VERSION: u8 = b'f';
const TAG_NEXT_ID: u8 = b'i';
const TAG_NAME: u8 = b'n';
const TAG_ORDER: u8 = b'o';
const TAG_DROPPED: u8 = b'd';

/// Bytes of the longest name of a space.
pub(super) const NAME_BYTES_MAX: usize = 255;

/// A space, in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: u32,
    /// The name of its order.
    pub(super) order: String,
}

/// What the catalog says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Catalog {
    pub(super) spaces: BTreeMap<String, Entry>,
    pub(super) orders: BTreeSet<String>,
    pub(super) dropped: Vec<Entry>,
    /// 0 in a new store.
    pub(super) next_id: u32,
}

fn key(tag: u8, rest: &[u8]) -> Vec<u8> {
    [Prefix::CATALOG.bytes(), &[tag], rest].concat()
}

/// Adds the writes that make a space known.
pub(super) fn create(batch: &mut Batch, name: &str, entry: &Entry) {
    let varint = |number: u64| {
        let mut value = Vec::new();
        put_varint(&mut value, number);
        value
    };
    let mut value = varint(entry.id.into());
    put_string(&mut value, entry.order.as_bytes());
    batch.put(&key(TAG_VERSION, &[]), &varint(VERSION));
    batch.put(&key(TAG_NEXT_ID, &[]), &varint(u64::from(entry.id) + 1));
    batch.put(&key(TAG_ORDER, entry.order.as_bytes()), &[]);
    batch.put(&key(TAG_NAME, name.as_bytes()), &value);
}

/// Adds the writes that make a space a dropped one.
pub(super) fn drop_space(batch: &mut Batch, name: &str, entry: &Entry) {
    let mut value = Vec::new();
    put_string(&mut value, entry.order.as_bytes());
    batch.delete(&key(TAG_NAME, name.as_bytes()));
    batch.put(&key(TAG_DROPPED, &entry.id.to_be_bytes()), &value);
}

/// Adds the write that forgets a dropped space.
pub(super) fn forget(batch: &mut Batch, id: u32) {
    batch.delete(&key(TAG_DROPPED, &id.to_be_bytes()));
}

/// The space that a put of a batch makes known, with its name.
pub(super) fn created(key: &[u8], value: &[u8]) -> Option<(String, Entry)> {
    let name = name_of(key)?;
    let mut fields = Reader::new(value);
    let id = id(fields.varint()?)?;
    let order = String::from_utf8(fields.string()?.to_vec()).ok()?;
    Some((name, Entry { id, order }))
}

/// The name of the space, if the key is that of one in the catalog.
pub(super) fn name_of(key: &[u8]) -> Option<String> {
    let (tag, name) = key.strip_prefix(Prefix::CATALOG.bytes())?.split_first()?;
    String::from_utf8(name.to_vec()).ok().filter(|_| *tag == TAG_NAME)
}

/// The space that a batch drops, with its name.
pub(super) fn dropped_in<'a>(
    writes: impl Iterator<Item = BatchWrite<'a>>,
) -> Option<(u32, String)> {
    let (mut dropped, mut name) = (None, None);
    for write in writes {
        match write {
            BatchWrite::Delete { key } => name = name.or_else(|| name_of(key)),
            BatchWrite::Put { key, .. } => {
                let rest = key.strip_prefix(Prefix::CATALOG.bytes());
                let id = rest.and_then(|rest| rest.strip_prefix(&[TAG_DROPPED]));
                let id = id.and_then(|id| Some(u32::from_be_bytes(id.try_into().ok()?)));
                dropped = dropped.or(id);
            }
            // The catalog has none of these.
            BatchWrite::PutUntil { .. }
            | BatchWrite::Merge { .. }
            | BatchWrite::DeleteRange { .. } => {}
        }
    }
    dropped.zip(name)
}

impl Catalog {
    /// Reads the catalog of a store. O(spaces).
    ///
    /// # Errors
    /// Corruption: it holds what nobody writes there. Usage: a later program wrote it. Those of
    /// walking.
    pub(super) fn read(inner: &Inner) -> Result<Catalog> {
        let damaged = |what: &str| {
            Error::corruption(&inner.dir, 0, format!("the catalog of the key spaces: {what}"))
        };
        let version = key(TAG_VERSION, &[]);
        let version = inner.get(&version, hash(&version), None, ReadOptions::default(), number)?;
        match version {
            None | Some(Some(VERSION)) => {}
            Some(None) => return Err(damaged("a version that is no number")),
            Some(Some(later)) => {
                return Err(Error::Usage(format!(
                    "the key spaces of {} have format version {later}, this program reads version \
                     {VERSION}",
                    inner.dir.display()
                )));
            }
        }
        let mut catalog = Catalog::default();
        let mut iter = inner.iter(None, ReadOptions::default())?;
        iter.seek(Prefix::CATALOG.low())?;
        while let Some((key, value)) = iter.entry() {
            let Some(key) = key.strip_prefix(Prefix::CATALOG.bytes()) else { break };
            catalog.take(key, value).ok_or_else(|| damaged("an entry that nobody writes"))?;
            iter.next()?;
        }
        let ids = catalog.spaces.values().chain(&catalog.dropped).map(|entry| entry.id);
        let distinct: BTreeSet<u32> = ids.clone().collect();
        if distinct.len() != ids.count() || distinct.last().is_some_and(|id| *id >= catalog.next_id)
        {
            return Err(damaged("an id that was never given out, or twice"));
        }
        Ok(catalog)
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let (tag, rest) = key.split_first()?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let mut fields = Reader::new(value);
        match *tag {
            TAG_VERSION => {}
            TAG_NEXT_ID => self.next_id = id(fields.varint()?)?,
            TAG_ORDER => {
                self.orders.insert(text(rest)?);
            }
            TAG_NAME => {
                let entry = Entry { id: id(fields.varint()?)?, order: text(fields.string()?)? };
                self.spaces.insert(text(rest)?, entry);
            }
            TAG_DROPPED => {
                let number = u32::from_be_bytes(rest.try_into().ok()?);
                let entry = Entry { id: id(number.into())?, order: text(fields.string()?)? };
                self.dropped.push(entry);
            }
            _ => return None,
        }
        Some(())
    }
}

fn number(value: &[u8]) -> Option<u64> {
    Reader::new(value).varint()
}

/// An id of a space, or the one behind the last.
fn id(number: u64) -> Option<u32> {
    u32::try_from(number).ok().filter(|id| (1..=IDS_MAX).contains(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::decode;
    use crate::key::Kind;

    fn entry(id: u32, order: &str) -> Entry {
        Entry { id, order: order.to_owned() }
    }

    /// What the writes of a batch leave of the entries there were.
    fn apply(entries: &mut BTreeMap<Vec<u8>, Vec<u8>>, batch: &Batch) {
        let payload = [batch.head().as_slice(), batch.entries()].concat();
        for write in decode(&payload).unwrap() {
            match write.kind {
                Kind::Put => entries.insert(write.key.to_vec(), write.value.to_vec()),
                _ => entries.remove(write.key),
            };
        }
    }

    fn read(entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> Option<Catalog> {
        let mut catalog = Catalog::default();
        for (key, value) in entries {
            catalog.take(key.strip_prefix(Prefix::CATALOG.bytes())?, value)?;
        }
        Some(catalog)
    }

    #[test]
    fn spaces_come_and_go() {
        let mut entries = BTreeMap::new();
        let mut batch = Batch::new();
        create(&mut batch, "users", &entry(1, "keyrack.bytewise"));
        create(&mut batch, "times", &entry(300, "test.backwards"));
        apply(&mut entries, &batch);
        let catalog = read(&entries).unwrap();
        let names: Vec<_> = catalog.spaces.iter().map(|(name, entry)| (&name[..], entry)).collect();
        let users = entry(1, "keyrack.bytewise");
        let times = entry(300, "test.backwards");
        assert_eq!(names, [("times", &times), ("users", &users)]);
        assert_eq!((catalog.next_id, catalog.orders.len()), (301, 2));

        batch.clear();
        drop_space(&mut batch, "times", &times);
        apply(&mut entries, &batch);
        let catalog = read(&entries).unwrap();
        assert_eq!((catalog.spaces.len(), &catalog.dropped[..]), (1, &[times][..]));
        batch.clear();
        forget(&mut batch, 300);
        apply(&mut entries, &batch);
        let catalog = read(&entries).unwrap();
        assert!(catalog.dropped.is_empty());
        assert_eq!((catalog.next_id, catalog.orders.len()), (301, 2));
    }

    #[test]
    fn what_nobody_writes_is_refused() {
        for (key, value) in [
            (&b""[..], &b""[..]),
            (b"x", b""),
            (b"i", b""),
            (b"i", b"\x80"),
            (b"i", b"\0"),
            (b"i", b"\xff\xff\xff\xff\x7f"),
            (b"nname", b"\x01"),
            (b"nname", b"\x01\x05abc"),
            (b"nname", b"\x01\x02\xff\xff"),
            (b"n\xff", b"\x01\x01a"),
            (b"o\xff", b""),
            (b"dabc", b"\x01a"),
            (b"dabcde", b"\x01a"),
        ] {
            assert_eq!(Catalog::default().take(key, value), None, "{key:?} {value:?}");
        }
    }
}
