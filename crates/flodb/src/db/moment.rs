//! What iterators of one moment are made from.
//!
//! An iterator over a range of keys looks at the memtables, at the tables of level 0 that may have
//! such a key, and on each level below at those tables that may. Others are not opened, and a level
//! without any is no child of the merged cursor. What they remove of ranges cannot touch the range
//! either: the bounds of a table hold its range tombstones as well.
//!
//! Nor are tables read whose filter of prefixes says that they have no key of the range. In a level
//! these are at the ends: a table between two with keys of a prefix has keys of no other. Their
//! range tombstones count, since they may hide keys of tables below.

use super::{Inner, Snapshot};
use crate::error::Result;
use crate::iterator::{
    Bounds, Child, Iter, LevelCursor, Merge, TombstoneSource, VisibleTombstones,
};
use crate::key::Comparator;
use crate::merge::Merges;
use crate::open_table::OpenTable;
use crate::prefix_filter::PrefixReads;
use crate::read_state::ReadState;
use crate::table::ReadOptions;
use crate::version::LEVELS;
use keyrack_concurrent::pin;
use std::sync::Arc;

/// A moment of the store, kept for iterators.
#[derive(Clone)]
pub(crate) struct Moment {
    read_state: Arc<ReadState>,
    sequence: u64,
    /// What has expired by this time is not shown.
    time_ms: u64,
    order: Comparator,
    options: ReadOptions,
    prefixes: Option<Arc<PrefixReads>>,
    /// A reference of the store's count of iterators.
    iterators: Arc<Merges>,
}

impl Inner {
    /// The moment of a snapshot, or this one, for iterators that read tables as `options` say.
    pub(crate) fn moment(&self, snapshot: Option<&Snapshot>, options: ReadOptions) -> Moment {
        let (read_state, sequence) = self.read_point(&pin(), snapshot).to_keep();
        let order = self.options.comparator.clone();
        Moment {
            read_state,
            sequence,
            time_ms: self.time_ms(snapshot),
            order,
            options,
            prefixes: self.tables.reader.prefixes.clone(),
            iterators: Arc::clone(&self.tables.iterators),
        }
    }

    pub(crate) fn iter(&self, snapshot: Option<&Snapshot>, options: ReadOptions) -> Result<Iter> {
        Ok(self.moment(snapshot, options).into_iter(Bounds::default()))
    }
}

impl Moment {
    /// An iterator over the keys within `bounds`.
    pub(crate) fn iter(&self, bounds: Bounds) -> Iter {
        self.clone().into_iter(bounds)
    }

    fn into_iter(self, bounds: Bounds) -> Iter {
        let (children, sources) = self.children(&bounds);
        let Moment { read_state, sequence, time_ms, order, options, iterators, .. } = self;
        let merge = Merge::new(children, order.clone());
        let tombstones = VisibleTombstones::new(sources, order.clone(), sequence);
        let point = (sequence, time_ms, options.verify_checksums);
        Iter::new(merge, tombstones, (order, bounds), point, (read_state, iterators))
    }

    /// Cursors over everything that the read state has within `bounds` up to the sequence number,
    /// newest first, and the ranges that are removed there.
    fn children(&self, bounds: &Bounds) -> (Vec<Child>, Vec<TombstoneSource>) {
        let Moment { read_state, sequence, order, options, prefixes, .. } = self;
        let question = prefixes.as_ref().zip(bounds.low_key()).and_then(|(prefixes, low)| {
            prefixes.question(low, |prefix| bounds.end_within_prefix(prefix))
        });
        let is_refused =
            |table: &OpenTable| question.is_some_and(|question| table.table().refuses(question));
        let children_max = read_state.memtables.len() + read_state.levels[0].len() + LEVELS - 1;
        let (mut children, mut sources) = (Vec::with_capacity(children_max), Vec::new());
        for memtable in read_state.memtables.iter().filter(|g| !g.is_empty()) {
            if memtable.has_range_tombstones() {
                let indexes = memtable.range_indexes();
                sources.extend(
                    indexes.iter().map(|index| TombstoneSource::one(children.len() + 1, index)),
                );
            }
            children.push(Child::Memtable(memtable.cursor(*sequence)));
        }
        let may_hold = |table: &&Arc<OpenTable>| {
            let file = table.file();
            !bounds.end_before(file.first(), order)
                && bounds.low_key().is_none_or(|low| !file.ends_before(low, order))
        };
        for open in read_state.levels[0].iter().filter(may_hold) {
            let table = open.table();
            if !is_refused(open) {
                children.push(Child::Table(table.cursor(*options)));
            }
            sources.extend(
                table.range_tombstones().map(|it| TombstoneSource::one(children.len(), it)),
            );
        }
        for level in 1..LEVELS {
            let mut span = read_state.version.within(level, bounds);
            if span.is_empty() {
                continue;
            }
            let (tables, indexes) =
                (&read_state.levels[level], &read_state.range_tombstones[level]);
            let is_outside = |at: Option<usize>| at.is_some_and(|at| is_refused(&tables[at]));
            while is_outside(span.clone().next()) {
                span.start += 1;
            }
            while is_outside(span.clone().next_back()) {
                span.end -= 1;
            }
            if !span.is_empty() {
                let tables = Arc::clone(tables);
                let cursor = LevelCursor::within(tables, span, order.clone(), *options);
                children.push(Child::Level(cursor));
            }
            if !indexes.is_empty() {
                let (below, indexes) = (children.len(), Arc::clone(indexes));
                sources.push(TombstoneSource { below, indexes });
            }
        }
        (children, sources)
    }
}
