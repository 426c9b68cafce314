//! A sorted run: an order of entries, made once and never changed.
//!
//! ```text
//!   keys     user00001234567   user00001234999   user00001300000    shared: "user00001"
//!   prefixes        "234567.."        "234999.."        "300000.."   the eight bytes behind it
//!   handles          h7                h2                h9          the entries in the arena
//! ```
//!
//! 12 bytes an entry. A search begins with every 64th prefix, an array that stays in the cache,
//! goes on among the prefixes between two of those, and looks at whole keys only where prefixes are
//! equal. Sorting compares numbers first, without a branch that depends on keys in the arena; then
//! each group of equal numbers goes by the next eight bytes in which it differs, or by whole keys
//! where that does not help.

use super::arena::Handle;
use super::mapping::prefetch;
use super::rank::{Rank, prefix};
use std::cmp::Ordering;
use std::ops::Range;

/// Groups of equal prefixes up to this size are sorted by whole keys.
const GROUP_ENTRIES_MAX: usize = 12;

/// Every so many prefixes, one is repeated in an array of their own.
const SAMPLE_ENTRIES: usize = 64;

/// How often a group is sorted by further prefixes before whole keys decide.
const DEPTH_MAX: u32 = 8;

pub(super) struct Run {
    /// Bytes that all keys begin with alike; the prefixes lie behind them.
    shared: usize,
    prefixes: Box<[u64]>,
    samples: Box<[u64]>,
    handles: Box<[Handle]>,
}

type Pair = (u64, Handle);

impl Run {
    /// Sorts some entries. O(n log n).
    pub(super) fn sorted(rank: Rank<'_>, handles: &[Handle]) -> Run {
        let shared = rank.shared(handles.iter().copied());
        let mut pairs: Vec<Pair> =
            handles.iter().map(|handle| (rank.prefix(*handle, shared), *handle)).collect();
        sort(rank, &mut pairs, 0);
        let (prefixes, handles): (Vec<u64>, Vec<Handle>) = pairs.into_iter().unzip();
        Run {
            shared,
            samples: samples(&prefixes),
            prefixes: prefixes.into(),
            handles: handles.into(),
        }
    }

    /// One run of the entries of two. O(n).
    pub(super) fn merged(rank: Rank<'_>, a: &Run, b: &Run) -> Run {
        let shared = shared_by(rank, [a, b].into_iter());
        let entries = a.len() + b.len();
        let mut prefixes = Vec::with_capacity(entries);
        let mut handles = Vec::with_capacity(entries);
        let (mut at_a, mut at_b) = (0, 0);
        while at_a < a.len() && at_b < b.len() {
            let first = (a.prefix(rank, at_a, shared), a.handles[at_a]);
            let second = (b.prefix(rank, at_b, shared), b.handles[at_b]);
            let is_first = compare(rank, first, second) == Ordering::Less;
            let (prefix, handle) = if is_first { first } else { second };
            prefixes.push(prefix);
            handles.push(handle);
            at_a += usize::from(is_first);
            at_b += usize::from(!is_first);
        }
        for (run, from) in [(a, at_a), (b, at_b)] {
            prefixes.extend((from..run.len()).map(|at| run.prefix(rank, at, shared)));
            handles.extend_from_slice(&run.handles[from..]);
        }
        Run {
            shared,
            samples: samples(&prefixes),
            prefixes: prefixes.into(),
            handles: handles.into(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.handles.len()
    }

    /// The entry at a place.
    #[inline]
    pub(super) fn handle(&self, at: usize) -> Option<Handle> {
        self.handles.get(at).copied()
    }

    /// The prefix of the entry at a place, behind `shared` bytes, which are at most this run's own.
    #[inline]
    pub(super) fn prefix(&self, rank: Rank<'_>, at: usize, shared: usize) -> u64 {
        if shared == self.shared {
            self.prefixes[at]
        } else {
            rank.prefix(self.handles[at], shared)
        }
    }

    /// The place of the first entry that is not before this key and trailer. O(log n).
    pub(super) fn lower_bound(&self, rank: Rank<'_>, user: &[u8], trailer: u64) -> usize {
        let (mut low, mut high) = (0, self.len());
        if rank.has_prefixes() {
            let Some(first) = self.handles.first() else { return 0 };
            let shared = &rank.entry(*first).key()[..self.shared];
            // A key that ends within what all keys share is before them.
            match user[..self.shared.min(user.len())].cmp(shared) {
                Ordering::Less => return 0,
                Ordering::Greater => return high,
                Ordering::Equal => {}
            }
            let wanted = prefix(user, self.shared);
            low = self.first_prefix(wanted);
            let rest = &self.prefixes[low..];
            high = low
                + match rest.first() {
                    Some(first) if *first == wanted => {
                        rest.partition_point(|prefix| *prefix == wanted)
                    }
                    _ => 0,
                };
        }
        let is_before =
            |handle: &Handle| rank.compare_with(*handle, user, trailer) == Ordering::Less;
        low + self.handles[low..high].partition_point(is_before)
    }

    /// Asks for the prefixes that a search for the key looks at.
    pub(super) fn prefetch_prefixes(&self, user: &[u8]) {
        let between = self.between_samples(prefix(user, self.shared));
        self.prefixes[between].chunks(8).for_each(|line| prefetch(line.as_ptr().cast()));
    }

    /// Asks for the handle of [`Self::near`].
    pub(super) fn prefetch_near(&self, user: &[u8]) {
        let at = self.first_prefix(prefix(user, self.shared));
        prefetch(self.handles.as_ptr().wrapping_add(at).cast());
    }

    /// An entry that a search for the key comes to, or nearly.
    pub(super) fn near(&self, user: &[u8]) -> Option<Handle> {
        self.handle(self.first_prefix(prefix(user, self.shared)))
    }

    /// The place of the first prefix that is not less.
    fn first_prefix(&self, wanted: u64) -> usize {
        let between = self.between_samples(wanted);
        between.start + self.prefixes[between].partition_point(|prefix| *prefix < wanted)
    }

    /// From the last sample that is less up to the next one, where the first prefix that is not
    /// less lies.
    fn between_samples(&self, wanted: u64) -> Range<usize> {
        let behind = self.samples.partition_point(|sample| *sample < wanted);
        behind.saturating_sub(1) * SAMPLE_ENTRIES..(behind * SAMPLE_ENTRIES).min(self.len())
    }
}

fn samples(prefixes: &[u64]) -> Box<[u64]> {
    prefixes.iter().step_by(SAMPLE_ENTRIES).copied().collect()
}

/// How many bytes the keys of all these runs begin with alike. O(runs).
pub(super) fn shared_by<'r>(rank: Rank<'_>, runs: impl Iterator<Item = &'r Run> + Clone) -> usize {
    // What the first keys share, and each run by itself, all of them share.
    let firsts = rank.shared(runs.clone().filter_map(|run| run.handle(0)));
    runs.map(|run| run.shared).fold(firsts, usize::min)
}

fn compare(rank: Rank<'_>, a: Pair, b: Pair) -> Ordering {
    a.0.cmp(&b.0).then_with(|| rank.compare(a.1, b.1))
}

/// Sorts pairs whose keys are alike up to their prefixes.
fn sort(rank: Rank<'_>, pairs: &mut [Pair], depth: u32) {
    pairs.sort_unstable_by_key(|pair| pair.0);
    for group in pairs.chunk_by_mut(|a, b| a.0 == b.0).filter(|group| group.len() > 1) {
        if group.len() <= GROUP_ENTRIES_MAX || depth == DEPTH_MAX || !rank.has_prefixes() {
            sort_whole(rank, group);
            continue;
        }
        let own = group[0].0;
        let shared = rank.shared(group.iter().map(|pair| pair.1));
        group.iter_mut().for_each(|pair| pair.0 = rank.prefix(pair.1, shared));
        if group.iter().all(|pair| pair.0 == group[0].0) {
            // Versions of one key, or keys that are others with zeros behind them.
            sort_whole(rank, group);
        } else {
            sort(rank, group, depth + 1);
        }
        group.iter_mut().for_each(|pair| pair.0 = own);
    }
}

fn sort_whole(rank: Rank<'_>, pairs: &mut [Pair]) {
    pairs.sort_unstable_by(|a, b| rank.compare(a.1, b.1));
}
