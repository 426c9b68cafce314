//! One loop's counters of Masstree's messages. One writer, any number of readers.

use crate::counters::counters;
use crate::durations::Kind;

counters! {
    /// Counters of one loop.
    requests, gets, get_hits, puts, removes, scans, scanned_rows, checkpoints, errors,
}

impl Counts {
    /// Requests so far, by kind. Those of no other kind are the rest of all.
    pub(crate) fn by_kind(&self) -> [u64; Kind::COUNT] {
        let mut counts = [0; Kind::COUNT];
        counts[Kind::Get as usize] = self.gets.get();
        counts[Kind::Set as usize] = self.puts.get();
        counts[Kind::Delete as usize] = self.removes.get();
        counts[Kind::Scan as usize] = self.scans.get();
        let known: u64 = counts.iter().sum();
        counts[Kind::Other as usize] = self.requests.get().saturating_sub(known);
        counts
    }

    /// The requests since `before`.
    pub(crate) fn since(&self, before: [u64; Kind::COUNT]) -> [u32; Kind::COUNT] {
        let now = self.by_kind();
        // One iteration has fewer than 2^32.
        std::array::from_fn(|kind| now[kind].saturating_sub(before[kind]) as u32)
    }
}
