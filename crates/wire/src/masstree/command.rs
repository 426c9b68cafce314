//! Requests, as a client writes them.

use super::op;
use crate::msgpack::{Int, put_array, put_int, put_map, put_str};

/// A request to be written. `write` appends its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// The first message of a connection.
    Handshake {
        /// By which thread to be served; `None`: any.
        core: Option<u32>,
        /// The longest key that will be sent.
        max_key_bytes: u32,
    },
    /// Columns of one row; none: all of them.
    Get {
        /// Which row.
        key: &'a [u8],
        /// Which columns, in the order of the answer.
        columns: &'a [u32],
    },
    /// Sets columns of one row at once.
    Put {
        /// Which row.
        key: &'a [u8],
        /// Columns, ascending, with their values; at least one.
        changes: &'a [(u32, &'a [u8])],
    },
    /// Sets a row to one column.
    Replace {
        /// Which row.
        key: &'a [u8],
        /// Its only column.
        value: &'a [u8],
    },
    /// Removes a row.
    Remove {
        /// Which row.
        key: &'a [u8],
    },
    /// Rows from a key on.
    Scan {
        /// Where to begin, included.
        first: &'a [u8],
        /// At most so many rows.
        count: u64,
        /// Which columns of each; none: all of them.
        columns: &'a [u32],
    },
    /// Begins a checkpoint.
    Checkpoint,
}

impl Command<'_> {
    /// Appends the request; its answer will echo `seq`.
    ///
    /// # Panics
    /// When there are 2^31 columns or changes.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>, seq: Int) {
        match *self {
            Command::Handshake { core, max_key_bytes } => {
                head(out, 3, seq, op::HANDSHAKE);
                put_map(out, 2);
                put_str(out, b"core");
                put_int(out, core.map_or(-1, i64::from));
                put_str(out, b"maxkeylen");
                put_int(out, u64::from(max_key_bytes));
            }
            Command::Get { key, columns } => {
                head(out, 3 + count(columns.len()), seq, op::GET);
                put_str(out, key);
                put_columns(out, columns);
            }
            Command::Put { key, changes } => {
                head(out, 3 + 2 * count(changes.len()), seq, op::PUT);
                put_str(out, key);
                for &(column, value) in changes {
                    put_int(out, u64::from(column));
                    put_str(out, value);
                }
            }
            Command::Replace { key, value } => {
                head(out, 4, seq, op::REPLACE);
                put_str(out, key);
                put_str(out, value);
            }
            Command::Remove { key } => {
                head(out, 3, seq, op::REMOVE);
                put_str(out, key);
            }
            Command::Scan { first, count: rows, columns } => {
                head(out, 4 + count(columns.len()), seq, op::SCAN);
                put_str(out, first);
                put_int(out, rows);
                put_columns(out, columns);
            }
            Command::Checkpoint => head(out, 2, seq, op::CHECKPOINT),
        }
    }
}

fn count(elements: usize) -> u32 {
    let count = u32::try_from(elements).ok().filter(|&count| count < (1 << 31) - 4);
    count.expect("a request has fewer than 2^32 elements")
}

#[inline]
fn head(out: &mut Vec<u8>, count: u32, seq: Int, operation: u64) {
    put_array(out, count);
    put_int(out, seq);
    put_int(out, operation);
}

fn put_columns(out: &mut Vec<u8>, columns: &[u32]) {
    for &column in columns {
        put_int(out, u64::from(column));
    }
}
