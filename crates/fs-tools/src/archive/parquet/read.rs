//! A file of Parquet to entries: columns by name, read side by side some rows at a time.

use super::source::Source;
use super::{BYTES_KEY, DIGEST_KEY, SCHEMA, places};
use crate::archive::item::{Item, ItemSink, entry_path, local};
use keyrack_console::Failure;
use keyrack_deltafs::Kind;
use keyrack_vfs::File;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType, FixedLenByteArray};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::schema::printer::print_schema;
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};
use std::io::Read;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3Default;

/// Rows that are in memory at a time.
const ROWS: usize = 1024;

/// What is read, in the order of [`Row`]; the others are numbers that nobody can set.
const COLUMNS: [&str; 9] =
    ["path", "kind", "mode", "uid", "gid", "size", "mtime", "target", "data"];

/// Takes in all rows. What is wrong with the file is told with its name; what is damaged, or no
/// such file, before the first row.
pub(crate) fn read(file: Arc<dyn File>, sink: &mut ItemSink<'_>) -> Result<(), Failure> {
    let name = file.path().display().to_string();
    let mut is_taken = true;
    let read = rows(file, &mut |item, bytes| {
        let taken = sink(item, bytes);
        is_taken = taken.is_ok();
        taken
    });
    read.map_err(|failure| {
        if is_taken {
            failure.named(&name)
        } else {
            // What is wrong with an entry has the entry's name.
            failure
        }
    })
}

fn rows(file: Arc<dyn File>, sink: &mut ItemSink<'_>) -> Result<(), Failure> {
    let source = Source::new(file).map_err(|error| Failure::Failed(error.to_string()))?;
    let reader = SerializedFileReader::new(source.clone()).map_err(broken)?;
    verify(&source, &reader)?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let wanted = find(schema)?;
    let mut number = 0;
    for index in 0..reader.num_row_groups() {
        let group = reader.get_row_group(index).map_err(broken)?;
        let mut left = usize::try_from(group.metadata().num_rows())
            .map_err(|_| damaged(&format!("group {index} has a negative number of rows")))?;
        let mut columns = Vec::new();
        for found in &wanted {
            columns.push(match found {
                Some(found) => Some(Column::open(found, &*group)?),
                None => None,
            });
        }
        while left > 0 {
            let rows = left.min(ROWS);
            for (column, name) in columns.iter_mut().zip(COLUMNS) {
                if let Some(column) = column {
                    column.fill(rows, name)?;
                }
            }
            for row in 0..rows {
                number += 1;
                let item = item(&columns, row)
                    .map_err(|what| Failure::Usage(format!("row {number}: {what}")))?;
                sink(item, None)?;
            }
            left -= rows;
        }
    }
    Ok(())
}

/// What the library says: what the machine said, or what the file looks like.
fn broken(error: ParquetError) -> Failure {
    if let ParquetError::External(inner) = &error
        && let Some(error) = inner.downcast_ref::<std::io::Error>()
        && error.get_ref().is_some_and(|inner| inner.is::<keyrack_vfs::Error>())
    {
        return local("cannot read the file", error);
    }
    damaged(&error.to_string())
}

fn damaged(what: &str) -> Failure {
    Failure::Usage(format!("this is no file of Parquet, or a damaged one: {what}"))
}

/// Holds the bytes before the footer, and where it says that they are, against the digest in it, if
/// there is one.
fn verify(source: &Source, reader: &SerializedFileReader<Source>) -> Result<(), Failure> {
    let groups = reader.metadata().row_groups();
    let rows = reader.metadata().file_metadata().num_rows();
    if groups.iter().try_fold(0_i64, |all, group| all.checked_add(group.num_rows())) != Some(rows) {
        return Err(damaged(&format!("its groups do not have the {rows} rows that it says")));
    }
    let notes = reader.metadata().file_metadata().key_value_metadata();
    let note = |key: &str| {
        notes?.iter().find(|note| note.key == key).and_then(|note| note.value.as_deref())
    };
    let (Some(bytes), Some(expected)) = (note(BYTES_KEY), note(DIGEST_KEY)) else {
        return Ok(());
    };
    let wrong = || damaged(&format!("{BYTES_KEY} or {DIGEST_KEY} in it is no number"));
    let mut left: u64 = bytes.parse().map_err(|_| wrong())?;
    let expected = u64::from_str_radix(expected, 16).map_err(|_| wrong())?;
    let (mut stream, mut digest) = (source.from(0), Xxh3Default::new());
    let mut piece = vec![0; 1 << 18];
    while left > 0 {
        let room = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = stream
            .read(&mut piece[..room])
            .map_err(|error| local("cannot read the file", &error))?;
        if count == 0 {
            return Err(damaged(&format!("it ends {left} bytes before its footer says")));
        }
        digest.update(&piece[..count]);
        left -= count as u64;
    }
    digest.update(&places(groups));
    let found = digest.digest();
    let mut schema = Vec::new();
    print_schema(&mut schema, reader.metadata().file_metadata().schema());
    if schema != SCHEMA.as_bytes() {
        return Err(damaged("its columns are not those that it was written with"));
    }
    if found == expected {
        Ok(())
    } else {
        Err(Failure::Damaged(format!(
            "the file is damaged: the digest of its first {bytes} bytes and their places is \
             {found:016x}, its footer says {expected:016x}; nothing was taken in"
        )))
    }
}

/// A column that is there.
struct Found {
    index: usize,
    is_optional: bool,
    /// Whether the sign of its numbers is none.
    is_unsigned: bool,
    /// Nanoseconds of a unit, for times.
    unit_ns: u64,
}

fn find(schema: &SchemaDescriptor) -> Result<[Option<Found>; 9], Failure> {
    let mut wanted = [const { None }; 9];
    for (name, place) in COLUMNS.iter().zip(&mut wanted) {
        let mut all = schema.columns().iter().enumerate();
        let column = all.find(|(_, column)| column.path().parts() == [*name]);
        let Some((index, column)) = column else { continue };
        fits(name, column)?;
        use ConvertedType::{UINT_8, UINT_16, UINT_32, UINT_64};
        let is_unsigned = match column.logical_type_ref() {
            Some(LogicalType::Integer(int)) => !int.is_signed,
            _ => matches!(column.converted_type(), UINT_8 | UINT_16 | UINT_32 | UINT_64),
        };
        let unit_ns = match (column.logical_type_ref(), column.converted_type()) {
            (Some(LogicalType::Timestamp(time)), _) => match time.unit {
                TimeUnit::MILLIS => 1_000_000,
                TimeUnit::MICROS => 1000,
                TimeUnit::NANOS => 1,
            },
            (_, ConvertedType::TIMESTAMP_MILLIS) => 1_000_000,
            (_, ConvertedType::TIMESTAMP_MICROS) => 1000,
            _ => 1,
        };
        let is_optional = column.max_def_level() > 0;
        *place = Some(Found { index, is_optional, is_unsigned, unit_ns });
    }
    for (name, place) in COLUMNS.iter().zip(&wanted).take(2) {
        if place.is_none() {
            return Err(Failure::Usage(format!(
                "there is no column {name}; docs/formats/parquet.md says which there are"
            )));
        }
    }
    Ok(wanted)
}

/// Whether a column has the type that it needs.
fn fits(name: &str, column: &ColumnDescriptor) -> Result<(), Failure> {
    let found = column.physical_type();
    let has_bytes = matches!(name, "path" | "kind" | "target" | "data");
    let is_right = match found {
        Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY => has_bytes,
        Type::INT64 => !has_bytes,
        Type::INT32 => !has_bytes && name != "mtime",
        _ => false,
    };
    if is_right && column.max_rep_level() == 0 && column.max_def_level() <= 1 {
        return Ok(());
    }
    let wants = match name {
        "mtime" => "a timestamp of 64 bits",
        _ if has_bytes => "bytes or text",
        _ => "a whole number",
    };
    Err(Failure::Usage(format!("column {name} is {found}; it has to be {wants}, without lists")))
}

/// Values of some rows.
enum Values {
    Numbers(Vec<Option<i64>>),
    Bytes(Vec<Option<ByteArray>>),
}

/// A column of a group.
struct Column<'a> {
    found: &'a Found,
    reader: ColumnReader,
    levels: Vec<i16>,
    values: Values,
}

impl<'a> Column<'a> {
    fn open(found: &'a Found, group: &dyn RowGroupReader) -> Result<Column<'a>, Failure> {
        if found.index >= group.num_columns() {
            return Err(damaged(&format!("a group of rows has no column {}", found.index)));
        }
        let reader = group.get_column_reader(found.index).map_err(broken)?;
        Ok(Column { found, reader, levels: Vec::new(), values: Values::Numbers(Vec::new()) })
    }

    /// Reads that many rows.
    fn fill(&mut self, rows: usize, name: &str) -> Result<(), Failure> {
        let (is_optional, is_unsigned) = (self.found.is_optional, self.found.is_unsigned);
        let levels = is_optional.then_some(&mut self.levels);
        let wide = |value: i32| {
            if is_unsigned { i64::from(value.cast_unsigned()) } else { i64::from(value) }
        };
        self.values = match &mut self.reader {
            ColumnReader::Int32ColumnReader(reader) => {
                Values::Numbers(some_rows(reader, levels, rows, name, wide)?)
            }
            ColumnReader::Int64ColumnReader(reader) => {
                Values::Numbers(some_rows(reader, levels, rows, name, |value| value)?)
            }
            ColumnReader::ByteArrayColumnReader(reader) => {
                Values::Bytes(some_rows(reader, levels, rows, name, |value| value)?)
            }
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                let plain = |value: FixedLenByteArray| value.into();
                Values::Bytes(some_rows(reader, levels, rows, name, plain)?)
            }
            _ => return Err(damaged(&format!("column {name} is not what the schema says"))),
        };
        Ok(())
    }

    fn bytes(&self, row: usize) -> Option<&[u8]> {
        match &self.values {
            Values::Bytes(values) => values.get(row)?.as_ref().map(ByteArray::data),
            Values::Numbers(_) => None,
        }
    }

    fn number(&self, row: usize) -> Option<i64> {
        match &self.values {
            Values::Numbers(values) => *values.get(row)?,
            Values::Bytes(_) => None,
        }
    }
}

/// Values of rows, with nothing for those that have none.
fn some_rows<T: DataType, V>(
    reader: &mut ColumnReaderImpl<T>,
    levels: Option<&mut Vec<i16>>,
    rows: usize,
    name: &str,
    each: impl Fn(T::T) -> V,
) -> Result<Vec<Option<V>>, Failure> {
    let mut found = Vec::new();
    let short = || damaged(&format!("column {name} has fewer values than there are rows"));
    let Some(levels) = levels else {
        let mut all = 0;
        while all < rows {
            let (count, ..) =
                reader.read_records(rows - all, None, None, &mut found).map_err(broken)?;
            if count == 0 {
                return Err(short());
            }
            all += count;
        }
        return Ok(found.into_iter().map(|value| Some(each(value))).collect());
    };
    levels.clear();
    while levels.len() < rows {
        let before = levels.len();
        reader.read_records(rows - before, Some(levels), None, &mut found).map_err(broken)?;
        if levels.len() == before {
            return Err(short());
        }
    }
    let mut found = found.into_iter();
    let mut value = |level: &i16| match level {
        0 => Ok(None),
        _ => found.next().map(|value| Some(each(value))).ok_or_else(short),
    };
    levels.iter().map(&mut value).collect()
}

/// The entry of a row, or what is wrong with it.
fn item(columns: &[Option<Column<'_>>], row: usize) -> Result<Item, String> {
    let bytes = |at: usize| columns[at].as_ref().and_then(|column| column.bytes(row));
    let number = |at: usize| -> Result<Option<u64>, String> {
        let Some(column) = &columns[at] else { return Ok(None) };
        match column.number(row) {
            None => Ok(None),
            Some(value) if column.found.is_unsigned => Ok(Some(value.cast_unsigned())),
            Some(value) => match u64::try_from(value) {
                Ok(value) => Ok(Some(value)),
                Err(_) => Err(format!("{} is {value}, below zero", COLUMNS[at])),
            },
        }
    };
    let small = |at: usize| -> Result<Option<u32>, String> {
        number(at)?
            .map(|value| u32::try_from(value).map_err(|_| format!("{} is too large", COLUMNS[at])))
            .transpose()
    };
    let path = entry_path(bytes(0).ok_or("there is no path")?)?;
    let kind = match bytes(1) {
        Some(b"f") => Kind::File,
        Some(b"d") => Kind::Dir,
        Some(b"l") => Kind::Symlink,
        _ => return Err("kind is none of f, d, l".to_owned()),
    };
    let mode = small(2)?.unwrap_or(if kind == Kind::Dir { 0o755 } else { 0o644 });
    if mode > keyrack_deltafs::MODE_BITS {
        return Err(format!("mode {mode:o} has more than the bits of permissions"));
    }
    let (uid, gid) = (small(3)?.unwrap_or(0), small(4)?.unwrap_or(0));
    let size = number(5)?.unwrap_or(0);
    let mtime_ns = match &columns[6] {
        // What is before 1970 is 1970.
        Some(column) => u64::try_from(column.number(row).unwrap_or(0))
            .unwrap_or(0)
            .checked_mul(column.found.unit_ns)
            .ok_or("mtime is too large")?,
        None => 0,
    };
    let data = match kind {
        Kind::Dir => None,
        Kind::Symlink => Some(bytes(7).ok_or("a link needs a target")?.to_vec()),
        Kind::File => bytes(8).map(<[u8]>::to_vec),
    };
    let size = data.as_ref().map_or(size, |data| data.len() as u64);
    // A file of no bytes has none elsewhere.
    let data = if kind == Kind::File && size == 0 { Some(Vec::new()) } else { data };
    Ok(Item { path, kind, mode, uid, gid, mtime_ns, size, data, facts: None })
}
