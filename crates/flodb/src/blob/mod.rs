//! Blob files: large values outside of the tables.
//!
//! ```text
//!   table    key @ sequence, kind blob --> blob index: file 7, offset 4136, 4096 bytes
//!                                                         |
//!   000007.blob   header | record | record | ... | record <-+ | footer
//!                          checksum, lengths, sequence, key, value
//! ```
//!
//! Values of at least `blob_bytes_min` bytes leave the entries when a flush or a compaction writes
//! tables. A compaction then moves the blob index of 10 bytes, and not the value: this is the
//! separation of WiscKey (Lu et al., FAST 2016), in files that never change and with the garbage
//! collection inside the compactions, as RocksDB's integrated BlobDB has it.
//!
//! **Accounts are derived.** A table counts how many records of which blob file it refers to, in
//! its properties and in the manifest. The live bytes of a blob file are the sum over the tables of
//! a version, so the dead bytes need no counter of their own that could be wrong. A blob file that
//! no table of a version refers to is in no version, and is removed as a table is.
//!
//! **Each record has its key and sequence number.** So a reader knows that it has the value that it
//! asked for, and a check or a repair needs no table to say what a file holds.
//!
//! * `format`: the bytes, and what the manifest and the tables know of them.
//! * `writer`: makes a blob file.
//! * `reader`: one value, or all records with what is wrong.
//! * `copied`: the check of its bytes while somebody copies them.
//! * `gc`: which files a compaction should empty.
//!
//! The bytes are described in `docs/formats/blob.md`.

mod copied;
mod format;
mod gc;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use copied::BlobCheck;
pub(crate) use format::{
    BLOB_INDEX_BYTES_MAX, BlobIndex, BlobMeta, BlobShare, add_share, put_shares, take_shares,
};
pub(crate) use gc::{BlobUse, DEAD_PERCENT_MAX, DEAD_PERCENT_SLOW, Due};
pub(crate) use reader::BlobReader;
pub(crate) use writer::BlobWriter;
