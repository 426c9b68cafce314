//! Which files make up the store: what `CURRENT` names, and the edits in it.
//!
//! ```text
//!   CURRENT  = name of the manifest | line feed
//!   manifest = records, see `log`; each is an edit
//!   edit     = fields of tag: varint and what follows it
//!     1 order of keys: string        4 last sequence: varint
//!     2 number of the log: varint    5 level, internal key (where compactions go on)
//!     3 next file number: varint     6 level, table: is no longer there
//!     9 log before that one: varint  7 level, table, bytes, smallest, largest: is there
//! ```
//!
//! Replayed in order they give the tables of each level; logs from the named number on hold what is
//! in no table.

use crate::coding::Bytes;
use crate::error::{Error, Lost, Result};
use crate::key;
use crate::log::LogReader;
use keyrack_vfs::Fs;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) const LEVELS: usize = 7;

/// The order of keys that is read here.
const BYTEWISE: &str = "leveldb.BytewiseComparator";

/// What the manifest says of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableMeta {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// Internal keys.
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
}

/// The state after all edits.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Of level 0 by number, of the others by key.
    pub(crate) levels: [Vec<TableMeta>; LEVELS],
    pub(crate) log_number: u64,
    pub(crate) prev_log_number: u64,
    pub(crate) last_sequence: u64,
}

#[derive(Default)]
struct Edits {
    comparator: Option<String>,
    log_number: Option<u64>,
    prev_log_number: Option<u64>,
    next_file: Option<u64>,
    last_sequence: Option<u64>,
    levels: [BTreeMap<u64, TableMeta>; LEVELS],
}

/// Reads the manifest that `CURRENT` names, and what was cut off its end.
pub(crate) fn read(fs: &dyn Fs, dir: &Path) -> Result<(State, Vec<Lost>)> {
    let path = current(fs, dir)?;
    let mut log = LogReader::open(fs, &path)?;
    let mut edits = Edits::default();
    while let Some((at, record)) = log.next()? {
        edits.apply(record).map_err(|what| Error::corruption(&path, at, what))?;
    }
    let lost = log.take_lost();
    if let Some(damage) = lost.iter().find(|lost| !lost.is_cut_tail) {
        return Err(damage.clone().into());
    }
    Ok((edits.finish(dir, &path)?, lost))
}

/// The path of the manifest.
fn current(fs: &dyn Fs, dir: &Path) -> Result<PathBuf> {
    let path = dir.join("CURRENT");
    let bytes = match fs.read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => {
            return Err(Error::Usage(format!(
                "{}: no store of LevelDB: there is no file CURRENT",
                dir.display()
            )));
        }
        Err(error) => return Err(error.into()),
    };
    let name = bytes.strip_suffix(b"\n").and_then(|name| std::str::from_utf8(name).ok());
    let digits = name.and_then(|name| name.strip_prefix("MANIFEST-")).unwrap_or_default();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let Some(name) = name.filter(|_| is_number) else {
        return Err(Error::corruption(&path, 0, "it does not name a manifest"));
    };
    let manifest = dir.join(name);
    if !fs.exists(&manifest)? {
        return Err(Error::corruption(&path, 0, format!("there is no {name}, which it names")));
    }
    Ok(manifest)
}

impl Edits {
    fn apply(&mut self, record: &[u8]) -> Result<(), String> {
        let mut bytes = Bytes::new(record);
        let mut added = Vec::new();
        while !bytes.is_empty() {
            let tag = bytes.varint_u32().ok_or("an edit that ends within a tag")?;
            let cut = || format!("an edit that ends within a field of tag {tag}");
            match tag {
                1 => {
                    let name = bytes.string().ok_or_else(cut)?;
                    self.comparator = Some(String::from_utf8_lossy(name).into_owned());
                }
                2 => self.log_number = Some(bytes.varint().ok_or_else(cut)?),
                3 => self.next_file = Some(bytes.varint().ok_or_else(cut)?),
                4 => {
                    let sequence = bytes.varint().ok_or_else(cut)?;
                    if sequence > key::SEQUENCE_MAX {
                        return Err("a sequence number beyond the last".to_owned());
                    }
                    self.last_sequence = Some(sequence);
                }
                5 => {
                    level(&mut bytes)?;
                    bytes.string().ok_or_else(cut)?;
                }
                6 => {
                    let level = level(&mut bytes)?;
                    self.levels[level].remove(&bytes.varint().ok_or_else(cut)?);
                }
                7 => added.push((level(&mut bytes)?, table(&mut bytes).ok_or_else(cut)?)),
                9 => self.prev_log_number = Some(bytes.varint().ok_or_else(cut)?),
                _ => {
                    return Err(format!(
                        "a field of tag {tag}, which LevelDB does not write; \
                         is it a store of another system?"
                    ));
                }
            }
        }
        for (level, table) in added {
            if key::parse(&table.smallest).is_none() || key::parse(&table.largest).is_none() {
                return Err(format!("table {} has bounds that are no keys", table.number));
            }
            self.levels[level].insert(table.number, table);
        }
        Ok(())
    }

    fn finish(self, dir: &Path, path: &Path) -> Result<State> {
        let missing = |what| Error::corruption(path, 0, format!("no edit says {what}"));
        let comparator = self.comparator.ok_or_else(|| missing("how keys are ordered"))?;
        if comparator != BYTEWISE {
            return Err(Error::Usage(format!(
                "{}: its keys are in the order '{comparator}', which is not known here; \
                 only {BYTEWISE} can be read",
                dir.display()
            )));
        }
        self.next_file.ok_or_else(|| missing("which number the next file has"))?;
        let mut state = State {
            log_number: self.log_number.ok_or_else(|| missing("which log is in use"))?,
            prev_log_number: self.prev_log_number.unwrap_or(0),
            last_sequence: self
                .last_sequence
                .ok_or_else(|| missing("which sequence number was the last"))?,
            ..State::default()
        };
        for (level, tables) in self.levels.into_iter().enumerate() {
            let mut tables: Vec<TableMeta> = tables.into_values().collect();
            let ordered = |a: &[u8], b: &[u8]| key::compare(a, b);
            if level > 0 {
                tables.sort_by(|a, b| ordered(&a.smallest, &b.smallest));
            }
            let wrong = tables.iter().find(|t| ordered(&t.smallest, &t.largest).is_gt());
            let pairs = tables.windows(2).filter(|_| level > 0);
            let mut overlap =
                pairs.filter(|pair| ordered(&pair[0].largest, &pair[1].smallest) != Ordering::Less);
            if let Some(table) = wrong.or(overlap.next().map(|pair| &pair[1])) {
                let what = format!("table {} of level {level} is out of order", table.number);
                return Err(Error::corruption(path, 0, what));
            }
            state.levels[level] = tables;
        }
        Ok(state)
    }
}

fn level(bytes: &mut Bytes<'_>) -> Result<usize, String> {
    let level = bytes.varint_u32().ok_or("an edit that ends within a level")? as usize;
    if level < LEVELS { Ok(level) } else { Err(format!("a level {level}, of {LEVELS} in all")) }
}

fn table(bytes: &mut Bytes<'_>) -> Option<TableMeta> {
    Some(TableMeta {
        number: bytes.varint()?,
        bytes: bytes.varint()?,
        smallest: bytes.string()?.to_vec(),
        largest: bytes.string()?.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(records: &[&[u8]]) -> Result<Edits, String> {
        let mut edits = Edits::default();
        records.iter().try_for_each(|record| edits.apply(record))?;
        Ok(edits)
    }

    fn finished(records: &[&[u8]]) -> Result<State> {
        applied(records).unwrap().finish(Path::new("dir"), Path::new("dir/MANIFEST-000001"))
    }

    /// `level, number, 100 bytes, smallest, largest`, the keys of one letter.
    fn added(level: u8, number: u8, smallest: u8, largest: u8) -> Vec<u8> {
        let key = |letter: u8| [&[9, letter, 1][..], &[0; 7]].concat();
        [&[7, level, number, 100][..], &key(smallest), &key(largest)].concat()
    }

    const BASE: &[u8] = b"\x01\x1aleveldb.BytewiseComparator\x02\x05\x03\x09\x04\x07";

    #[test]
    fn edits_add_up() {
        let removed = [&added(2, 12, b'c', b'd')[..], &[6, 1, 11]].concat();
        let records =
            [BASE, &added(1, 11, b'a', b'b'), &added(1, 10, b'e', b'f'), &removed, b"\x04\x08"];
        let state = finished(&records).unwrap();
        assert_eq!((state.log_number, state.last_sequence), (5, 8));
        let numbers = |level: usize| -> Vec<u64> {
            state.levels[level].iter().map(|table| table.number).collect()
        };
        assert_eq!((numbers(1), numbers(2)), (vec![10], vec![12]));
    }

    #[test]
    fn an_edit_may_move_a_table_to_where_it_was() {
        let moved = [&[6, 1, 11][..], &added(1, 11, b'a', b'c')].concat();
        let state = finished(&[BASE, &added(1, 11, b'a', b'b'), &moved]).unwrap();
        assert_eq!(state.levels[1].len(), 1);
        assert_eq!(state.levels[1][0].largest[0], b'c');
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for bad in [&[7, 7, 1][..], &[6, 9, 1], &[8, 1], &[2], &[1, 50, 1], &[7, 1, 1, 1, 2, 1, 1]]
        {
            assert!(applied(&[bad]).is_err(), "{bad:?}");
        }
        let overlapping = [BASE, &added(1, 10, b'a', b'c'), &added(1, 11, b'b', b'd')];
        assert!(matches!(finished(&overlapping), Err(Error::Corruption { .. })));
        assert!(finished(&[BASE, &added(0, 10, b'a', b'c'), &added(0, 11, b'b', b'd')]).is_ok());
        assert!(matches!(
            finished(&[BASE, &added(3, 10, b'c', b'a')]),
            Err(Error::Corruption { .. })
        ));
        assert!(matches!(finished(&[&BASE[..28]]), Err(Error::Corruption { .. })));
        let reverse = [BASE, b"\x01\x07reverse"];
        assert!(matches!(finished(&reverse), Err(Error::Usage(what)) if what.contains("reverse")));
    }
}
