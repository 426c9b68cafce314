//! One loop's counters of Masstree's messages. One writer, any number of readers.

use crate::counters::counters;

counters! {
    /// Counters of one loop.
    requests, gets, get_hits, puts, removes, scans, scanned_rows, checkpoints, errors,
}
