//! What several tests do with a store.

use keyrack_rowstore::{Options, Row, RowBuf, RowSession, RowStore, Rows};
use keyrack_store::{Durability, Result, Update};
use keyrack_vfs::{Fs, MemFs};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const DIR: &str = "/store";

/// Everything in a store but versions: flags, expiry, and the parts.
pub(crate) type Content = BTreeMap<Vec<u8>, Held>;

/// A row without its version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Held {
    pub(crate) flags: u32,
    pub(crate) expires_ms: u64,
    pub(crate) parts: Vec<Vec<u8>>,
}

impl Held {
    pub(crate) fn of(row: Row<'_>) -> Self {
        let fields = (0..).map_while(|index| row.field(index));
        let mut parts: Vec<Vec<u8>> =
            fields.flat_map(|(name, value)| [name.to_vec(), value.to_vec()]).collect();
        parts.extend((0..).map_while(|index| row.column(index)).map(<[u8]>::to_vec));
        Held { flags: row.flags(), expires_ms: row.expires_ms(), parts }
    }
}

/// Options with which little is enough for many segments, and no thread runs on its own.
pub(crate) fn tiny() -> Options {
    Options {
        durability: Durability::Os,
        checkpoint_log_bytes: 0,
        sweep_interval: Duration::ZERO,
        threads: 2,
        ..Options::default()
    }
    .with_segment_bytes(64 << 10)
}

/// As [`tiny`], with so many logs.
pub(crate) fn with_logs(count: usize) -> Options {
    let log_dirs = (0..count).map(|log| PathBuf::from(format!("log-{log}"))).collect();
    Options { log_dirs, ..tiny() }
}

pub(crate) fn open_with(fs: Arc<dyn Fs>, options: Options) -> Result<RowStore> {
    RowStore::open(fs, Path::new(DIR), options, &|_| {})
}

pub(crate) fn open(disk: &MemFs, options: Options) -> RowStore {
    open_with(Arc::new(disk.clone()), options).unwrap()
}

pub(crate) fn close(store: RowStore) {
    Box::new(store).close().unwrap();
}

/// All rows, by scans. The parts of a header are the names and values of its elements.
pub(crate) fn content(rows: &dyn Rows) -> Content {
    let mut found = Content::new();
    let mut headers = Vec::new();
    let mut session = rows.session().unwrap();
    session
        .scan(b"", None, &mut |key, row| {
            assert!(found.insert(key.to_vec(), Held::of(row)).is_none(), "{key:?} twice");
            headers.extend(row.collection().map(|id| (key.to_vec(), id)));
            ControlFlow::Continue(())
        })
        .unwrap();
    for (key, id) in headers {
        let parts = elements(&mut *session, id);
        let collection = session.collection(id).expect("a header has a collection");
        assert_eq!(session.element_count(&collection), parts.len() as u64 / 2, "{key:?}");
        assert!(!parts.is_empty(), "{key:?} has no elements");
        found.get_mut(&key).unwrap().parts = parts;
    }
    found
}

/// The names and values of the elements of a collection.
pub(crate) fn elements(session: &mut dyn RowSession, id: u64) -> Vec<Vec<u8>> {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    session
        .scan_elements(id, (b"", None), false, &mut |name, row| {
            assert!(parts.len() < 2 || *parts[parts.len() - 2] < *name, "{name:?} out of order");
            parts.extend([name.to_vec(), row.value().to_vec()]);
            ControlFlow::Continue(())
        })
        .unwrap();
    parts
}

/// The id in the header at `key`.
pub(crate) fn id_of(session: &mut dyn RowSession, key: &[u8]) -> Option<u64> {
    let mut id = None;
    session.get(key, &mut |row| id = row.collection()).unwrap();
    id
}

/// Sets or removes an element of the collection at `key`, which begins and ends with its elements.
pub(crate) fn set_element(
    session: &mut dyn RowSession,
    key: &[u8],
    name: &[u8],
    value: Option<&[u8]>,
    expires_ms: u64,
) {
    let mut set = |old: Option<Row<'_>>, new: &mut RowBuf| match value {
        Some(value) => {
            new.set_value(value);
            new.set_expires_ms(expires_ms);
            Update::Put
        }
        None if old.is_some() => Update::Remove,
        None => Update::Keep,
    };
    let Some(id) = id_of(session, key) else {
        if value.is_some() {
            let collection = session.create_collection().unwrap();
            session.update_element(collection.id(), name, &mut set).unwrap();
            put_header(session, key, collection.id());
        }
        return;
    };
    let collection = session.collection(id).expect("a header has a collection");
    let _guard = collection.lock().expect("a header keeps it alive");
    session.update_element(id, name, &mut set).unwrap();
    if session.element_count(&collection) == 0 {
        session.remove(key).unwrap();
    }
}

pub(crate) fn put_header(session: &mut dyn RowSession, key: &[u8], id: u64) {
    session
        .update(key, &mut |_, new| {
            new.collection(id);
            Update::Put
        })
        .unwrap();
}

pub(crate) fn get(session: &mut dyn RowSession, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = None;
    session.get(key, &mut |row| value = Some(row.value().to_vec())).unwrap();
    value
}

pub(crate) fn version(session: &mut dyn RowSession, key: &[u8]) -> Option<u64> {
    let mut version = None;
    session.get(key, &mut |row| version = Some(row.version())).unwrap();
    version
}

pub(crate) fn stat(rows: &dyn Rows, wanted: &str) -> f64 {
    let mut found = None;
    rows.stats(&mut |name, value| {
        if name == wanted {
            found = Some(value);
        }
    });
    found.unwrap_or_else(|| panic!("no stat {wanted}"))
}
