//! What a commit looks at, and when.

use super::*;
use crate::db::Db;
use crate::options::Options;
use crate::transaction::{Isolation, Transaction, TransactionOptions};
use keyrack_vfs::MemFs;
use std::cell::{Cell, RefCell};

thread_local! {
    /// Runs in the next commit of this thread, before that takes its locks.
    static BEFORE_LOCKS: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    /// Entries that scans of this thread have passed, and keys that it has looked up in tables.
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

pub(super) fn before_the_locks() {
    if let Some(act) = BEFORE_LOCKS.take() {
        act();
    }
}

pub(super) fn count_look() {
    LOOKS.set(LOOKS.get() + 1);
}

/// Internal keys in their order.
struct Keys {
    keys: Vec<Vec<u8>>,
    at: usize,
}

impl Cursor for Keys {
    fn seek_first(&mut self) -> Result<()> {
        self.at = 0;
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        unreachable!("a scan goes on")
    }

    fn seek(&mut self, _target: &[u8]) -> Result<()> {
        self.seek_first()
    }

    fn next(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        unreachable!("a scan goes on")
    }

    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.keys.get(self.at).map(|key| (&key[..], &b""[..]))
    }

    fn repeats(&self) -> bool {
        false
    }

    fn may_repeat_before(&self) -> bool {
        false
    }
}

/// The scan does not end as if nothing had changed behind a key that nobody can read.
#[test]
fn a_damaged_key_is_no_end_of_a_scan() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open_in(fs, Path::new("/store"), Options::default()).unwrap();
    let internal = |user: &[u8], sequence| {
        let mut key = Vec::new();
        key::append(&mut key, user, sequence, Kind::Put);
        key
    };
    let mut damaged = internal(b"b", 1);
    damaged[1] = 0xff;
    let keys = vec![internal(b"a", 1), damaged, internal(b"c", 9)];
    let (path, span) = (Path::new("/store/7.sst"), Span { since: 5, upto: 10 });
    let found = db.inner().written_within(&mut Keys { keys, at: 0 }, path, &[&KeyRange::ALL], span);
    let error = found.unwrap_err();
    let Error::Corruption { path: at, .. } = error else { panic!("{error}") };
    assert_eq!(at, path);
}

const ROWS: u64 = 200;

fn row(number: u64) -> Vec<u8> {
    format!("row{number:03}").into_bytes()
}

/// What a transaction depends on.
#[derive(Clone, Copy, Debug)]
enum Depends {
    /// A scan that has passed all rows.
    Scan,
    /// Reads of all rows.
    Reads,
    /// Under snapshot isolation, a range delete of all rows.
    RangeDelete,
    /// Under snapshot isolation, writes of all rows.
    Writes,
}

fn begin(db: &Db, depends: Depends) -> Transaction {
    let isolation = match depends {
        Depends::Scan | Depends::Reads => Isolation::Serializable,
        Depends::RangeDelete | Depends::Writes => Isolation::Snapshot,
    };
    let options = TransactionOptions { isolation, ..TransactionOptions::default() };
    let transaction = db.transaction_with(options);
    match depends {
        Depends::Scan => {
            let mut iter = transaction.iter().unwrap();
            iter.seek(&row(0)).unwrap();
            for _ in 1..ROWS {
                iter.next().unwrap();
            }
            assert_eq!(iter.entry().map(|(key, _)| key.to_vec()), Some(row(ROWS - 1)));
        }
        Depends::Reads => {
            (0..ROWS).for_each(|number| assert!(transaction.get(&row(number)).unwrap().is_some()));
        }
        Depends::RangeDelete => transaction.delete_range(&row(0), &row(ROWS)).unwrap(),
        Depends::Writes => {
            (0..ROWS).for_each(|number| transaction.put(&row(number), b"2").unwrap());
        }
    }
    transaction.put(b"mine", b"").unwrap();
    transaction
}

/// Commits while somebody writes `meanwhile`, after the first check and before the locks. Returns
/// how much the commit looked at before, and under the locks.
fn commit_beside(depends: Depends, meanwhile: Option<Vec<u8>>) -> (Result<()>, [u64; 2]) {
    let options = Options { compaction_threads: 0, ..Options::default() };
    let db = Db::open_in(Arc::new(MemFs::new()), Path::new("/store"), options).unwrap();
    (0..ROWS).for_each(|number| db.put(&row(number), b"1").unwrap());
    let transaction = begin(&db, depends);
    // The table has the rows, and something newer.
    db.put(b"a", b"").unwrap();
    db.put(b"z", b"").unwrap();
    db.flush().unwrap();
    LOOKS.set(0);
    let before = std::rc::Rc::new(Cell::new(0));
    let (other, seen) = (db.clone(), std::rc::Rc::clone(&before));
    BEFORE_LOCKS.set(Some(Box::new(move || {
        seen.set(LOOKS.take());
        meanwhile.into_iter().for_each(|key| other.put(&key, b"3").unwrap());
    })));
    let result = transaction.commit();
    (result, [before.get(), LOOKS.take()])
}

const ALL: [Depends; 4] = [Depends::Scan, Depends::Reads, Depends::RangeDelete, Depends::Writes];

#[test]
fn what_was_checked_before_the_locks_is_not_checked_again() {
    for depends in ALL {
        for meanwhile in [None, Some(b"b".to_vec())] {
            let (result, [before, under]) = commit_beside(depends, meanwhile);
            result.unwrap();
            assert!(before >= ROWS, "{depends:?}: {before} looks before the locks");
            assert_eq!(under, 0, "{depends:?}: looks under the locks");
        }
    }
}

#[test]
fn what_comes_between_the_checks_is_a_conflict() {
    for depends in ALL {
        for number in [0, 77, ROWS - 1] {
            let (result, _) = commit_beside(depends, Some(row(number)));
            match result {
                Err(Error::Conflict { key, .. }) => assert_eq!(key, row(number), "{depends:?}"),
                other => panic!("{depends:?}: {other:?}, and not a conflict"),
            }
        }
    }
}
