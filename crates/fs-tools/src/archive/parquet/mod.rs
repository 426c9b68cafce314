//! Trees as files of Parquet: a row for each entry, a column for each fact.
//!
//! ```text
//!   entries --> rows, 65,536 or 16 MiB of them --> a row group --> footer
//!                                                     with an XXH3 of all that was said before
//! ```
//!
//! The schema is [`SCHEMA`]; docs/formats/parquet.md says what each column is. What is taken in
//! need not be of ours: columns are found by name, and only `path` and `kind` have to be there.
//!
//! **Invariant:** of a file of ours nothing is taken in before all its bytes were held against the
//! digest.

mod read;
mod source;
mod write;

pub(super) use read::read;
pub(super) use write::write;

use parquet::file::metadata::RowGroupMetaData;

/// What is written, as Parquet's own tools print it.
const SCHEMA: &str = "\
message entries {
  REQUIRED BYTE_ARRAY path;
  REQUIRED BYTE_ARRAY name;
  REQUIRED BYTE_ARRAY kind (STRING);
  REQUIRED FIXED_LEN_BYTE_ARRAY (16) inode;
  REQUIRED INT32 mode (INTEGER(32,false));
  REQUIRED INT64 nlink (INTEGER(64,false));
  REQUIRED INT32 uid (INTEGER(32,false));
  REQUIRED INT32 gid (INTEGER(32,false));
  REQUIRED INT64 size (INTEGER(64,false));
  REQUIRED INT64 mtime (TIMESTAMP(NANOS,true));
  REQUIRED INT64 ctime (TIMESTAMP(NANOS,true));
  OPTIONAL BYTE_ARRAY target;
  OPTIONAL BYTE_ARRAY data;
}
";

/// Keys of the footer: the bytes from the beginning of the file that the digest is of, in decimal,
/// and the XXH3 of 64 bits of them and of [`places`], in sixteen digits.
const BYTES_KEY: &str = "keyrack.bytes";
const DIGEST_KEY: &str = "keyrack.xxh3";

/// Where the footer says that everything is: of each group its rows, and of each of its columns
/// five numbers, all with eight bytes, the lowest first. A place that is not there is the highest
/// number.
fn places(groups: &[RowGroupMetaData]) -> Vec<u8> {
    let mut numbers = Vec::new();
    for group in groups {
        numbers.push(group.num_rows());
        for column in group.columns() {
            numbers.extend([
                column.data_page_offset(),
                column.dictionary_page_offset().unwrap_or(-1),
                column.num_values(),
                column.compressed_size(),
                column.uncompressed_size(),
            ]);
        }
    }
    numbers.into_iter().flat_map(i64::to_le_bytes).collect()
}

#[cfg(test)]
mod tests;
