//! Entries to a file of Parquet: rows are gathered by columns, and written group by group.

use super::{BYTES_KEY, DIGEST_KEY, SCHEMA, places};
use crate::archive::item::{Facts, Item, ItemSource, end_output};
use keyrack_console::{Failure, Outcome};
use keyrack_deltafs::Kind;
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType, Int32Type,
    Int64Type,
};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use std::io::Write;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3Default;

/// Rows of a group, at most.
const GROUP_ROWS_MAX: usize = 64 << 10;
/// Bytes of a group's names, targets and files before it is written.
const GROUP_BYTES_MAX: usize = 16 << 20;

/// Writes all entries; in memory is a group of rows.
pub(crate) fn write(to: impl Write + Send, items: &mut ItemSource<'_>) -> Outcome {
    let mut file = match begin(to) {
        Ok(file) => file,
        Err(error) => return end_output(Err(io(error))),
    };
    let mut rows = Rows::default();
    while let Some((item, _)) = items()? {
        rows.push(&item)?;
        let is_full = rows.path.len() >= GROUP_ROWS_MAX || rows.bytes >= GROUP_BYTES_MAX;
        if is_full && let Err(error) = rows.write(&mut file) {
            return end_output(Err(io(error)));
        }
    }
    end_output(end(file, &mut rows).map_err(io))
}

fn begin<W: Write + Send>(to: W) -> Result<SerializedFileWriter<Digested<W>>> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    // Names and bytes are hardly ever said twice, and the next path begins as the last did.
    let column = |name: &str| ColumnPath::from(name);
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("keyrack {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_column_encoding(column("path"), Encoding::DELTA_BYTE_ARRAY)
        .set_column_encoding(column("mtime"), Encoding::DELTA_BINARY_PACKED)
        .set_column_encoding(column("ctime"), Encoding::DELTA_BINARY_PACKED);
    for name in ["path", "name", "inode", "mtime", "ctime", "target", "data"] {
        properties = properties.set_column_dictionary_enabled(column(name), false);
    }
    let to = Digested { to, digest: Xxh3Default::new(), bytes: 0 };
    SerializedFileWriter::new(to, schema, Arc::new(properties.build()))
}

fn end<W: Write + Send>(
    mut file: SerializedFileWriter<Digested<W>>,
    rows: &mut Rows,
) -> Result<()> {
    rows.write(&mut file)?;
    file.flush()?;
    let places = places(file.flushed_row_groups());
    let Digested { bytes, digest, .. } = file.inner_mut();
    digest.update(&places);
    let (bytes, digest) = (*bytes, digest.digest());
    file.append_key_value_metadata(KeyValue::new(BYTES_KEY.to_owned(), bytes.to_string()));
    file.append_key_value_metadata(KeyValue::new(DIGEST_KEY.to_owned(), format!("{digest:016x}")));
    file.finish()?;
    Ok(file.inner_mut().flush()?)
}

/// The cause, where the library only passed it on: a reader that went away is no failure.
fn io(error: ParquetError) -> std::io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(error) => *error,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    }
}

/// Passes bytes on, and keeps their digest.
struct Digested<W> {
    to: W,
    digest: Xxh3Default,
    bytes: u64,
}

impl<W: Write> Write for Digested<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.to.write(bytes)?;
        self.digest.update(&bytes[..count]);
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

/// Values of an optional column, and for each row whether it has one.
#[derive(Default)]
struct Optional {
    values: Vec<ByteArray>,
    levels: Vec<i16>,
}

impl Optional {
    fn push(&mut self, value: Option<&[u8]>) {
        self.levels.push(i16::from(value.is_some()));
        self.values.extend(value.map(|bytes| ByteArray::from(bytes.to_vec())));
    }
}

/// Rows that are not written yet, column by column.
#[derive(Default)]
struct Rows {
    path: Vec<ByteArray>,
    name: Vec<ByteArray>,
    kind: Vec<ByteArray>,
    inode: Vec<FixedLenByteArray>,
    mode: Vec<i32>,
    nlink: Vec<i64>,
    uid: Vec<i32>,
    gid: Vec<i32>,
    size: Vec<i64>,
    mtime: Vec<i64>,
    ctime: Vec<i64>,
    target: Optional,
    data: Optional,
    /// Of names, targets and files.
    bytes: usize,
}

impl Rows {
    fn push(&mut self, item: &Item) -> std::result::Result<(), Failure> {
        let time = |ns: u64, what: &str| {
            i64::try_from(ns).map_err(|_| {
                Failure::Failed(format!(
                    "{}: its {what} is after the year 2262, where times of Parquet end; export it \
                     as jsonl or tar",
                    crate::paths::shown(&item.path)
                ))
            })
        };
        let facts = item.facts.unwrap_or(Facts { inode: 0, nlink: 1, ctime_ns: item.mtime_ns });
        self.mtime.push(time(item.mtime_ns, "mtime")?);
        self.ctime.push(time(facts.ctime_ns, "ctime")?);
        let name = item.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        self.path.push(ByteArray::from(item.path.clone()));
        self.name.push(ByteArray::from(name.to_vec()));
        self.kind.push(ByteArray::from(item.kind.letter().to_string().into_bytes()));
        self.inode.push(ByteArray::from(facts.inode.to_be_bytes().to_vec()).into());
        self.mode.push(item.mode.cast_signed());
        self.nlink.push(facts.nlink.cast_signed());
        self.uid.push(item.uid.cast_signed());
        self.gid.push(item.gid.cast_signed());
        self.size.push(item.size.cast_signed());
        let bytes = item.data.as_deref();
        self.target.push(bytes.filter(|_| item.kind == Kind::Symlink));
        self.data.push(bytes.filter(|_| item.kind == Kind::File));
        self.bytes += item.path.len() + name.len() + bytes.map_or(0, <[u8]>::len);
        Ok(())
    }

    /// Writes the rows as a group, in the order of the schema, and forgets them.
    fn write<W: Write + Send>(&mut self, file: &mut SerializedFileWriter<W>) -> Result<()> {
        let rows = std::mem::take(self);
        if rows.path.is_empty() {
            return Ok(());
        }
        let mut group = file.next_row_group()?;
        column::<ByteArrayType, W>(&mut group, &rows.path, None)?;
        column::<ByteArrayType, W>(&mut group, &rows.name, None)?;
        column::<ByteArrayType, W>(&mut group, &rows.kind, None)?;
        column::<FixedLenByteArrayType, W>(&mut group, &rows.inode, None)?;
        column::<Int32Type, W>(&mut group, &rows.mode, None)?;
        column::<Int64Type, W>(&mut group, &rows.nlink, None)?;
        column::<Int32Type, W>(&mut group, &rows.uid, None)?;
        column::<Int32Type, W>(&mut group, &rows.gid, None)?;
        column::<Int64Type, W>(&mut group, &rows.size, None)?;
        column::<Int64Type, W>(&mut group, &rows.mtime, None)?;
        column::<Int64Type, W>(&mut group, &rows.ctime, None)?;
        for optional in [&rows.target, &rows.data] {
            column::<ByteArrayType, W>(&mut group, &optional.values, Some(&optional.levels))?;
        }
        group.close().map(|_| ())
    }
}

fn column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<()> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("the schema has too few columns".to_owned()));
    };
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}
