//! The rows of a source, gathered for comparison.

use keyrack_migrate::{Error, Event, read_file};
use keyrack_vfs::{Fs, MemFs, RealFs};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The number of a database, and a key of it.
type Key = (u32, Vec<u8>);
/// Names and values.
type Fields = BTreeMap<Vec<u8>, Vec<u8>>;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    String(Vec<u8>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
}

/// What a source reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Of all databases, by number and key, with the time of expiry.
    pub(crate) rows: BTreeMap<(u32, Vec<u8>), (Value, Option<u64>)>,
    /// Types and keys that are left out.
    pub(crate) left_out: Vec<(String, Vec<u8>)>,
    /// Commands, as text.
    pub(crate) commands: Vec<String>,
    /// Names and keys of commands that are not understood.
    pub(crate) unclear: Vec<(String, Option<Vec<u8>>)>,
    /// Names of fields with an expiry of their own.
    pub(crate) dated_fields: Vec<Vec<u8>>,
    open: Option<(Key, Option<u64>, Fields)>,
}

impl Rows {
    pub(crate) fn event(&mut self, event: Event<'_>) {
        match event {
            Event::String { entry, value } => {
                let key = (entry.db, entry.key.to_vec());
                self.rows.insert(key, (Value::String(value.to_vec()), entry.expires_ms));
            }
            Event::Hash(entry) => {
                let key = (entry.db, entry.key.to_vec());
                assert!(self.open.is_none(), "a hash within a hash");
                self.open = Some((key, entry.expires_ms, BTreeMap::new()));
            }
            Event::Field { name, value, expires_ms } => {
                let (_, _, fields) = self.open.as_mut().expect("a field is in a hash");
                fields.insert(name.to_vec(), value.to_vec());
                self.dated_fields.extend(expires_ms.map(|_| name.to_vec()));
            }
            Event::EndHash => {
                let (key, expires_ms, fields) = self.open.take().expect("a hash has begun");
                self.rows.insert(key, (Value::Hash(fields), expires_ms));
            }
            Event::LeftOut { kind, key, .. } => self.left_out.push((kind.to_owned(), key.to_vec())),
            Event::Command { args, .. } => {
                let words = args.iter().map(|arg| arg.escape_ascii().to_string());
                self.commands.push(words.collect::<Vec<_>>().join(" "));
            }
            Event::Unclear { name, key, .. } => {
                self.unclear.push((name.to_owned(), key.map(<[u8]>::to_vec)));
            }
            Event::Swapped { .. }
            | Event::Gone { .. }
            | Event::ReadAgain(_)
            | Event::Progress(_) => {}
        }
    }
}

/// A file of the fixtures.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// The rows of a file, and where a torn command begins.
pub(crate) fn read(path: &Path) -> Result<(Rows, Option<u64>), Error> {
    read_in(&RealFs, path)
}

/// The rows of a file of these bytes.
pub(crate) fn read_bytes(bytes: &[u8]) -> Result<(Rows, Option<u64>), Error> {
    let fs = MemFs::new();
    fs.write_atomic(Path::new("/file"), bytes).unwrap();
    read_in(&fs, Path::new("/file"))
}

fn read_in(fs: &dyn Fs, path: &Path) -> Result<(Rows, Option<u64>), Error> {
    let mut rows = Rows::default();
    let torn = read_file(fs, path, &mut |event| {
        rows.event(event);
        Ok(())
    })?;
    Ok((rows, torn.map(|(_, at)| at)))
}
