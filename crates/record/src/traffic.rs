//! Bytes that a repeat moved: what the workload asked for, what the machine did for it, and the
//! three amplifications, which are ratios of the two.

use serde::{Deserialize, Serialize};

/// Bytes of the timed phase of one repeat, and of the wait after it, by where they were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Keys and values that the workload wrote, and keys that it removed. Counted by the harness at
    /// calls that succeeded; those of the engine's `update` count with the value that was stored.
    pub user_written_bytes: u64,
    /// Values that lookups found, keys and values that ranges visited. Counted by the harness.
    pub user_read_bytes: u64,
    /// Bytes that the process sent on their way to storage: `write_bytes` of `/proc/self/io`.
    pub written_bytes: Option<u64>,
    /// Bytes that the process fetched from storage, which leaves out what the page cache had:
    /// `read_bytes` of `/proc/self/io`.
    pub read_bytes: Option<u64>,
    /// Lengths of the files in the data directory in the end.
    pub disk_bytes: Option<u64>,
    /// Keys and values of all rows in the end, by a walk over them; `None` where nobody walked.
    pub live_bytes: Option<u64>,
}

impl Traffic {
    /// Bytes sent to storage for each byte that the workload wrote.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        ratio(self.written_bytes?, self.user_written_bytes)
    }

    /// Bytes fetched from storage for each byte that the workload read.
    #[must_use]
    pub fn read_amplification(&self) -> Option<f64> {
        ratio(self.read_bytes?, self.user_read_bytes)
    }

    /// Bytes of files for each byte of rows.
    #[must_use]
    pub fn space_amplification(&self) -> Option<f64> {
        ratio(self.disk_bytes?, self.live_bytes?)
    }
}

fn ratio(of: u64, to: u64) -> Option<f64> {
    (to > 0).then(|| of as f64 / to as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_to_nothing_is_none() {
        let traffic = Traffic {
            user_written_bytes: 100,
            written_bytes: Some(250),
            read_bytes: Some(7),
            disk_bytes: Some(300),
            ..Traffic::default()
        };
        assert_eq!(traffic.write_amplification(), Some(2.5));
        assert_eq!(traffic.read_amplification(), None, "nothing was read");
        assert_eq!(traffic.space_amplification(), None, "nobody walked");
        let walked = Traffic { live_bytes: Some(200), ..traffic };
        assert_eq!(walked.space_amplification(), Some(1.5));
    }
}
