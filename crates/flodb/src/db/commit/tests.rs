//! What a commit looks at, and when.

use super::*;
use crate::db::Db;
use crate::options::Options;
use keyrack_vfs::MemFs;

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
