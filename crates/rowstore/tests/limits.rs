//! What is refused, and that nothing was done then.

use crate::support::{close, open, open_with, tiny};
use keyrack_rowstore::{Options, RowStore, Rows};
use keyrack_store::{Durability, Error, Update};
use keyrack_vfs::{Fs, MemFs};
use std::path::Path;
use std::sync::Arc;

#[test]
fn keys_and_rows_beyond_their_limits_are_refused_with_the_limit() {
    let store = open(&MemFs::new(), tiny());
    let (keys, rows) = (store.options().key_bytes_max, store.options().row_bytes_max);
    let mut session = store.session().unwrap();
    session.put(&vec![b'k'; keys], &vec![b'v'; rows - 9], 0, 0).unwrap();
    session.flush().unwrap();
    for (key, value) in [(keys + 1, 0), (1, rows - 8), (1, rows * 3)] {
        let (key, value) = (vec![b'k'; key], vec![b'v'; value]);
        let put = session.put(&key, &value, 0, 0).unwrap_err();
        let update = session
            .update(&key, &mut |_, new| {
                new.set_value(&value);
                Update::Put
            })
            .unwrap_err();
        for error in [put, update] {
            assert!(matches!(error, Error::Usage { .. }), "{error:?}");
            let limit = if key.len() > keys { keys } else { rows };
            assert!(error.to_string().contains(&limit.to_string()), "{error}");
        }
    }
    // With flags and expiry it no longer fits.
    assert!(session.put(b"k", &vec![b'v'; rows - 9], 1, 0).is_err());
    assert_eq!(store.len(), 1);
}

#[test]
fn a_store_in_memory_has_no_files() {
    let disk = MemFs::new();
    let options = Options { durability: Durability::None, ..tiny() };
    let store = open_with(Arc::new(disk.clone()), options).unwrap();
    let mut session = store.session().unwrap();
    session.put(b"a", b"b", 0, 0).unwrap();
    let position = session.flush().unwrap();
    assert!(session.is_durable(position) && store.sync(position).is_ok());
    assert!(!store.checkpoint().unwrap() && store.dir().is_none());
    drop(session);
    close(store);
    assert!(disk.list(Path::new("/")).unwrap().is_empty());
}

#[test]
fn a_position_is_durable_once_it_was_synced() {
    let store = open(&MemFs::new(), Options { durability: Durability::Sync, ..tiny() });
    let mut session = store.session().unwrap();
    session.put(b"a", b"1", 0, 0).unwrap();
    let first = session.flush().unwrap();
    assert!(!session.is_durable(first));
    store.sync(first).unwrap();
    assert!(session.is_durable(first));
    assert_eq!(session.flush().unwrap(), first, "nothing was written");
    session.put(b"a", b"2", 0, 0).unwrap();
    let second = session.flush().unwrap();
    assert!(second.lsn > first.lsn && !session.is_durable(second));
    store.sync(second).unwrap();
    assert!(session.is_durable(second));
}

#[test]
fn what_was_not_changed_is_not_logged() {
    let store = open(&MemFs::new(), tiny());
    let mut session = store.session().unwrap();
    let first = session.flush().unwrap();
    assert!(!session.remove(b"nothing").unwrap());
    assert_eq!(session.update(b"key", &mut |_, _| Update::Keep).unwrap(), 0);
    assert_eq!(session.update(b"key", &mut |_, _| Update::Remove).unwrap(), 0);
    assert_eq!(session.flush().unwrap(), first);
    assert!(store.checkpoint().unwrap(), "and nobody waits for it");
}

#[test]
fn options_that_do_not_fit_together_are_refused_before_anything_is_made() {
    let disk = MemFs::new();
    let twice = Options { log_dirs: vec!["a".into(), "a".into()], ..tiny() };
    assert!(open_with(Arc::new(disk.clone()), twice).is_err());
    let disk = MemFs::new();
    let error = open_with(Arc::new(disk.clone()), Options { row_bytes_max: 1 << 40, ..tiny() });
    assert!(matches!(error, Err(Error::Usage { .. })));
    assert!(RowStore::in_memory(Options { threads: 1000, ..tiny() }).is_err());
    assert!(disk.list(Path::new("/")).unwrap().is_empty());
}
