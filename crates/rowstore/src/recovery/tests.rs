//! Records of an earlier version.

use super::*;
use crate::record::Record;
use crate::row::encode_value;
use crate::store::read_manifest;
use crate::{Options, RowStore, Rows};
use keyrack_vfs::MemFs;

const DIR: &str = "/rows";

fn options() -> Options {
    Options::default().with_segment_bytes(64 << 10)
}

fn open(disk: &MemFs) -> RowStore {
    RowStore::open(Arc::new(disk.clone()), Path::new(DIR), options(), &|_| {}).unwrap()
}

/// Appends a record as an earlier version wrote it to the log of a closed store.
fn append(disk: &MemFs, record: &[u8]) {
    let fs: Arc<dyn Fs> = Arc::new(disk.clone());
    let manifest = read_manifest(&*fs, Path::new(DIR)).unwrap().unwrap();
    let options = log_options(&Core::new(options(), None), manifest.logs[0].id);
    let dir = Path::new(DIR).join(&manifest.logs[0].path);
    let mut replay = |_: u64, _: &[u8]| Ok::<_, Failure>(());
    let opened = Log::open(fs, &dir, manifest.logs[0].start, options, &mut replay);
    let (log, _) = opened.map_err(|failure| failure.0).unwrap();
    let mut reservation = log.reserve(record.len()).unwrap();
    reservation.write(&[record]).unwrap();
    reservation.publish();
    log.close().unwrap();
}

#[test]
fn user_keys_of_an_earlier_version_that_look_like_elements_are_escaped() {
    let disk = MemFs::new();
    Box::new(open(&disk)).close().unwrap();
    let keys = [&b"\xff\xfe\0\0\0\0\0\x01x"[..], b"\xff\xfe\xff", b"\xff\xfe", b"plain"];
    let mut record = Record::new();
    for (n, key) in keys.iter().enumerate() {
        let entry = record.begin(key);
        encode_value(b"value", 0, 0, record.tail());
        record.put(entry, 10 + n as u64);
    }
    let entry = record.begin(keys[1]);
    record.remove(entry, 20);
    let mut record = record.bytes().to_vec();
    record[0] = 1;
    append(&disk, &record);
    for life in 0..3 {
        let store = open(&disk);
        let mut session = store.session().unwrap();
        let mut found = |key: &[u8]| session.get(key, &mut |_| {}).unwrap();
        let there = keys.map(&mut found);
        assert_eq!(there, [true, false, true, true], "life {life}");
        assert_eq!(session.count(), 3);
        drop(session);
        if life == 1 {
            store.checkpoint().unwrap();
        }
        Box::new(store).close().unwrap();
    }
}
