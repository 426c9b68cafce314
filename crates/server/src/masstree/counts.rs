//! One loop's counters of Masstree's messages. One writer, any number of readers.

use keyrack_measure::LiveCounter;

/// Counters of one loop.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: LiveCounter,
    pub(crate) gets: LiveCounter,
    pub(crate) get_hits: LiveCounter,
    pub(crate) puts: LiveCounter,
    pub(crate) removes: LiveCounter,
    pub(crate) scans: LiveCounter,
    pub(crate) scanned_rows: LiveCounter,
    pub(crate) checkpoints: LiveCounter,
    pub(crate) errors: LiveCounter,
}

impl Counts {
    /// Names, in the order of [`Counts::values`].
    pub(crate) const NAMES: [&'static str; 9] = [
        "requests",
        "gets",
        "get_hits",
        "puts",
        "removes",
        "scans",
        "scanned_rows",
        "checkpoints",
        "errors",
    ];

    pub(crate) fn values(&self) -> [u64; 9] {
        [
            self.requests.get(),
            self.gets.get(),
            self.get_hits.get(),
            self.puts.get(),
            self.removes.get(),
            self.scans.get(),
            self.scanned_rows.get(),
            self.checkpoints.get(),
            self.errors.get(),
        ]
    }
}
