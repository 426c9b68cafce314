//! Tables: immutable files of sorted entries.
//!
//! ```text
//!   data block ... data block | filter | range deletes | index | properties | footer: 48 bytes
//!        ^                       ^          ^             ^        |   ^         |
//!        +-- one entry each ---- | -------- | ----------- +        |   +---------+
//!                                +----------+-------------+--------+
//! ```
//!
//! The footer says where the properties are, the properties where everything else is, and the index
//! where the data blocks are, each together with the checksum that is expected there. So a block
//! that is whole but not the one that was written at this place for this table is found. The bytes
//! are described in `docs/formats/table.md`.
//!
//! * `format`: footer, handles, and how a block is framed.
//! * `calls`: how often files are read, and how much.
//! * `properties`: what is known about a table without its entries.
//! * `index`: which block has a key.
//! * `writer`: makes a table from entries in ascending order.
//! * `reader`: a table in use.
//! * `lookup`: the lookup of one key, and its stages.
//! * `inspect`: the check of a whole table.
//! * `copied`: the check of its bytes while somebody copies them.
//! * `salvage`: finds the sound blocks of a file that does not open as a table.
//! * `cursor`: scans a table, reading ahead.
//!
//! Index, filter and range deletes of an open table are in memory; data blocks come through the
//! cache.

mod calls;
mod copied;
mod cursor;
mod format;
mod index;
mod inspect;
mod lookup;
mod properties;
mod reader;
mod salvage;
#[cfg(test)]
pub(crate) mod tests;
mod writer;

pub(crate) use calls::TableReads;
pub(crate) use copied::TableCheck;
pub use cursor::ReadOptions;
pub(crate) use cursor::TableCursor;
#[cfg(test)]
pub(crate) use index::FINDS;
pub(crate) use inspect::{Lost, Unsound};
pub(crate) use lookup::{Candidate, HeldBlock, Hit};
pub(crate) use properties::TableMeta;
pub(crate) use reader::{ReaderOptions, Table};
pub(crate) use salvage::salvage;
pub(crate) use writer::{TableOptions, TableWriter};
