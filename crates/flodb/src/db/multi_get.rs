//! Many keys at once, with their waits for memory side by side.
//!
//! ```text
//!   for a group of keys     ask for        then read
//!     memtables             slots          slots, ask for entries, entries
//!     tables, newest first  filter lines   filter, index, ask for the block's slot
//!                                          slot, ask for the block's header and its prefix index
//!                                          both, ask for the entry
//!                                          the entry
//! ```
//!
//! A lookup waits for memory about five times, each time for an address that the one before told.
//! The keys of a group do not depend on each other. So each stage is taken for all keys that are
//! still sought, and asks for what the next stage reads; the group waits about as often as one key.
//! This is the batching of interleaved index lookups (Psaropoulos et al., VLDB 2017) without
//! coroutines: all keys are in the same stage.
//!
//! Where there are range tombstones, and for a group that meets an error, keys are looked up one
//! after the other, as `read.rs` does.

use super::read::{ExpiryQuestion, Target, visit_blob};
use super::{Db, Inner, Snapshot};
use crate::checksum::hash;
use crate::error::Result;
use crate::expiry;
use crate::key::Kind;
use crate::read_state::ReadState;
use crate::table::{Candidate, HeldBlock, Hit, ReadOptions, Table};
use crate::version::LEVELS;
use keyrack_concurrent::{Guard, pin};

/// Keys that are looked up side by side. Memory answers about so many requests of a processor core
/// at once.
const GROUP: usize = 16;

/// Where the search for a key is.
enum Place<'g> {
    /// Not in what was searched so far.
    Sought,
    /// Perhaps in this block.
    Maybe(Candidate<'g>, HeldBlock<'g>),
    InMemtable(Kind, &'g [u8]),
    InTable(Hit, HeldBlock<'g>),
}

/// A key of a group.
struct Probe<'a, 'g> {
    key: &'a [u8],
    hash: u64,
    place: Place<'g>,
}

impl Probe<'_, '_> {
    /// Whether the newest entry is an operand.
    fn is_operand(&self) -> bool {
        match &self.place {
            Place::InMemtable(kind, _) => *kind == Kind::Merge,
            Place::InTable(hit, _) => hit.kind == Kind::Merge,
            Place::Sought | Place::Maybe(..) => false,
        }
    }

    fn is_sought(&self) -> bool {
        matches!(self.place, Place::Sought)
    }

    /// Gives the value to `visit`, or that there is none. That of a blob file is read here.
    fn give(
        &self,
        read_state: &ReadState,
        time_ms: u64,
        visit: impl FnOnce(Option<&[u8]>),
    ) -> Result<()> {
        // Tables and the log have checked that the expiry is there.
        let living = |stored| {
            let (expires_ms, value) = expiry::split(stored)?;
            (expires_ms > time_ms).then_some(value)
        };
        match &self.place {
            Place::InMemtable(Kind::Put, value) => visit(Some(value)),
            Place::InTable(hit, block) if hit.kind == Kind::Put => visit(Some(hit.value(block))),
            Place::InMemtable(Kind::PutExpiring, stored) => visit(living(stored)),
            Place::InTable(hit, block) if hit.kind == Kind::PutExpiring => {
                visit(living(hit.value(block)));
            }
            Place::InTable(hit, block) if hit.kind == Kind::Blob => {
                let (index, key) = (hit.value(block), (self.key, hit.sequence));
                let verify = ReadOptions::default().verify_checksums;
                let visit = |value: &[u8]| visit(Some(value));
                visit_blob(read_state, index, key, verify, Some(visit))?;
            }
            Place::Sought | Place::Maybe(..) | Place::InMemtable(..) | Place::InTable(..) => {
                visit(None);
            }
        }
        Ok(())
    }
}

impl Db {
    /// The values of many keys, all of one moment, each given to `visit` with its index, in the
    /// order of `keys`.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"a", b"1")?;
    /// let mut found = Vec::new();
    /// db.multi_get(&[b"a", b"b"], |_, value| found.push(value.map(<[u8]>::to_vec)))?;
    /// assert_eq!(found, [Some(b"1".to_vec()), None]);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::get`]; values before the first failure have been given.
    pub fn multi_get(&self, keys: &[&[u8]], visit: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        self.inner().multi_get(None, keys, visit)
    }
}

/// Whether anything in the read state is under a range tombstone that a reader of now may see.
fn has_range_tombstones(read_state: &ReadState) -> bool {
    read_state.memtables.iter().any(|memtable| memtable.has_range_tombstones())
        || read_state.range_tombstones.iter().any(|level| !level.is_empty())
}

impl Inner {
    /// As [`Db::multi_get`], now or at the moment of a snapshot.
    pub(crate) fn multi_get(
        &self,
        snapshot: Option<&Snapshot>,
        keys: &[&[u8]],
        mut visit: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let (read_state, sequence) = self.read_point(&pin(), snapshot).to_keep();
        let time_ms = self.time_ms(snapshot);
        let one_by_one = keys.len() == 1 || has_range_tombstones(&read_state);
        let question = ExpiryQuestion::new(Some(time_ms));
        let target_of = |key| Target {
            expiry: Some(&question),
            ..Target::new((key, hash(key)), sequence, ReadOptions::default())
        };
        for (group, keys) in keys.chunks(GROUP).enumerate() {
            let first = group * GROUP;
            if !one_by_one {
                let guard = pin();
                let mut probes: Vec<Probe<'_, '_>> = keys
                    .iter()
                    .map(|key| Probe { key, hash: hash(key), place: Place::Sought })
                    .collect();
                if self.look_up(&read_state, sequence, &mut probes, &guard).is_ok() {
                    for (at, probe) in probes.iter().enumerate() {
                        if probe.is_operand() {
                            let value = |value: &[u8]| visit(first + at, Some(value));
                            let target = target_of(probe.key);
                            if self.get_in(&read_state, &target, value)?.is_none() {
                                visit(first + at, None);
                            }
                            continue;
                        }
                        self.count_probe(probe, &read_state);
                        probe.give(&read_state, time_ms, |value| visit(first + at, value))?;
                    }
                    continue;
                }
            }
            // Gives the values before the failure, if there is one.
            for (at, key) in keys.iter().enumerate() {
                let target = target_of(key);
                let give = |value: &[u8]| visit(first + at, Some(value));
                if self.get_in(&read_state, &target, give)?.is_none() {
                    visit(first + at, None);
                }
            }
        }
        Ok(())
    }

    /// Finds the newest entries of the keys up to `sequence`.
    fn look_up<'g>(
        &self,
        read_state: &'g ReadState,
        sequence: u64,
        probes: &mut [Probe<'_, 'g>],
        guard: &'g Guard,
    ) -> Result<()> {
        look_into_memtables(read_state, sequence, probes);
        let order = &self.options.comparator;
        let level0 = &read_state.levels[0];
        for table in level0.iter().map(|table| table.table()) {
            probes.iter().filter(|it| it.is_sought()).for_each(|it| table.prefetch_filter(it.hash));
        }
        for table in level0.iter() {
            let of_key = |key: &[u8]| table.file().spans(key, order).then_some(&**table.table());
            look_into_tables(of_key, sequence, probes, guard)?;
        }
        for level in (1..LEVELS).filter(|level| !read_state.levels[*level].is_empty()) {
            let of_key = |key: &[u8]| {
                let at = read_state.version.find(level, key)?;
                Some(&**read_state.levels[level][at].table())
            };
            look_into_tables(of_key, sequence, probes, guard)?;
        }
        Ok(())
    }

    fn count_probe(&self, probe: &Probe<'_, '_>, read_state: &ReadState) {
        self.count_read(|reads| match probe.place {
            Place::InMemtable(..) if read_state.memtables[0].has_hash_level() => &reads.hash,
            Place::InMemtable(..) => &reads.ordered,
            Place::InTable(..) => &reads.tables,
            Place::Sought | Place::Maybe(..) => &reads.nowhere,
        });
    }
}

fn look_into_memtables<'g>(read_state: &'g ReadState, sequence: u64, probes: &mut [Probe<'_, 'g>]) {
    for memtable in read_state.memtables_at(sequence) {
        probes.iter().for_each(|probe| memtable.prefetch(probe.hash));
    }
    for memtable in read_state.memtables_at(sequence) {
        probes.iter().for_each(|probe| memtable.prefetch_newest(probe.hash));
    }
    for memtable in read_state.memtables_at(sequence) {
        for probe in probes.iter_mut().filter(|probe| probe.is_sought()) {
            if let Some((kind, _, value)) = memtable.find(probe.key, probe.hash, sequence) {
                probe.place = Place::InMemtable(kind, value);
            }
        }
    }
}

/// Looks for each key in the one table of a level that may have it.
fn look_into_tables<'g>(
    of_key: impl Fn(&[u8]) -> Option<&'g Table>,
    sequence: u64,
    probes: &mut [Probe<'_, 'g>],
    guard: &'g Guard,
) -> Result<()> {
    let mut tables = [None; GROUP];
    for (probe, table) in probes.iter().zip(&mut tables).filter(|(probe, _)| probe.is_sought()) {
        *table = of_key(probe.key);
        if let Some(table) = table {
            table.prefetch_filter(probe.hash);
        }
    }
    let mut candidates = [None; GROUP];
    for ((probe, table), candidate) in probes.iter().zip(tables).zip(&mut candidates) {
        *candidate = table.and_then(|it| it.candidate(probe.key, probe.hash, sequence));
        candidate.iter().for_each(Candidate::prefetch);
    }
    for (probe, candidate) in probes.iter_mut().zip(candidates) {
        if let Some(candidate) = candidate {
            let block = candidate.block(&ReadOptions::default(), guard)?;
            probe.place = Place::Maybe(candidate, block);
        }
    }
    for probe in probes.iter() {
        if let Place::Maybe(_, block) = &probe.place {
            block.prefetch_entry(probe.key);
        }
    }
    for probe in probes {
        match std::mem::replace(&mut probe.place, Place::Sought) {
            Place::Maybe(candidate, block) => {
                if let Some(hit) = candidate.find(&block, probe.key)? {
                    probe.place = Place::InTable(hit, block);
                }
            }
            other => probe.place = other,
        }
    }
    Ok(())
}
