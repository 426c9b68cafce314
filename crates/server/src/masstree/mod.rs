//! Masstree's messages on rows.
//!
//! ```text
//!   get             all columns, or those asked for; the fields of a hash are columns in the order
//!                   of their names
//!   put columns     one step; what was a value or a hash has columns from then on
//!   replace         a value, which is a row of one column
//!   scan            in slices, so that a long one delays no other client
//! ```
//!
//! Rows that only have column 0 are kept as values, so that the other protocols see them as such.

mod connection;
mod counts;
mod datagram;
mod execute;
mod scan;

#[cfg(test)]
mod tests;

pub(crate) use connection::Connection;
pub(crate) use counts::Counts;
pub(crate) use datagram::{REPLY_BYTES_MAX, datagram};

use crate::work::Work;
use keyrack_rowstore::RowSession;
use keyrack_wire::masstree::Limits;

/// The context that a connection works with during an iteration.
pub(crate) struct Cx<'a> {
    pub(crate) rows: &'a mut (dyn RowSession + 'a),
    pub(crate) work: &'a Work,
    pub(crate) limits: &'a Limits,
    pub(crate) counts: &'a Counts,
    /// Which loop this is.
    pub(crate) thread: u32,
    /// Begins a checkpoint, on another thread.
    pub(crate) checkpoint: &'a dyn Fn(),
    /// Memory for answers that come out of order.
    pub(crate) scratch: &'a mut Vec<u8>,
}
