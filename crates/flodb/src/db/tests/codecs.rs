//! Stores that need a codec which is not built in: refused by name where they are opened, checked,
//! repaired and read, and never taken for damaged ones.

use super::{Db, IngestOptions};
use crate::check::verify;
use crate::compress::{Codec, Compression, without};
use crate::error::{Error, Result};
use crate::manifest::FileName;
use crate::options::Options;
use crate::repair::repair;
use crate::sst_writer::SstWriter;
use keyrack_vfs::{Fs, MemFs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIR: &str = "/store";

fn options(compression: Compression) -> Options {
    Options {
        compression: vec![compression],
        memtable_bytes: 4 << 20,
        segment_bytes: 1 << 20,
        compaction_threads: 0,
        ..Options::default()
    }
}

fn opened(fs: &MemFs, options: Options) -> Result<Db> {
    Db::open_in(Arc::new(fs.clone()), Path::new(DIR), options)
}

/// A store with one table, made with `written`, that is then opened with `kept`.
fn store(written: Options, kept: Compression) -> MemFs {
    let fs = MemFs::new();
    let db = opened(&fs, written).unwrap();
    for n in 0..500_u32 {
        db.put(&n.to_be_bytes(), &[b'v'; 2000]).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    opened(&fs, options(kept)).unwrap().close().unwrap();
    fs
}

/// The file of the store that is of this kind.
fn file(fs: &MemFs, is_kind: impl Fn(FileName) -> bool) -> PathBuf {
    let names = fs.list(Path::new(DIR)).unwrap().into_iter().map(|entry| entry.name);
    let mut found = names.filter(|name| FileName::parse(name).is_some_and(&is_kind));
    let path = Path::new(DIR).join(found.next().unwrap());
    assert!(found.next().is_none());
    path
}

/// Everything in the directory, to see whether something changes.
fn files(fs: &MemFs) -> Vec<(PathBuf, Vec<u8>)> {
    let names = fs.list(Path::new(DIR)).unwrap().into_iter().map(|entry| entry.name);
    let paths = names.map(|name| Path::new(DIR).join(name));
    paths.filter_map(|path| Some((path.clone(), fs.read(&path).ok()?))).collect()
}

#[track_caller]
fn is_refused<T>(result: Result<T>, file: &Path, name: &str) {
    let Err(error) = result else { panic!("not refused") };
    let what = format!(
        "{}: needs {name} compression, which is not built in; build keyrack-flodb with the \
         feature '{name}'",
        file.display()
    );
    assert_eq!(error.to_string(), what);
}

#[test]
fn options_are_refused_before_anything_is_made() {
    let fs = MemFs::new();
    let refused = without(Codec::Snappy, || opened(&fs, options(Compression::Snappy)));
    let what = "compression: snappy is not built in; build keyrack-flodb with the feature 'snappy'";
    assert!(matches!(refused, Err(Error::Usage(found)) if found == what));
    assert!(!fs.exists(Path::new(DIR)).unwrap());
}

#[test]
fn a_store_that_keeps_such_options_is_refused_with_its_manifest() {
    let fs = store(options(Compression::None), Compression::Zstd(3));
    let manifest = file(&fs, |name| matches!(name, FileName::Manifest(_)));
    let before = files(&fs);
    without(Codec::Zstd, || {
        is_refused(opened(&fs, options(Compression::Lz4)), &manifest, "zstd");
        let dir = Path::new(DIR);
        let read_only = Db::open_read_only_in(Arc::new(fs.clone()), dir, Options::default());
        is_refused(read_only, &manifest, "zstd");
        is_refused(Options::default().with_stored(&fs, dir), &manifest, "zstd");
        // Whatever it keeps, there is nothing that needs it yet.
        assert!(verify(Arc::new(fs.clone()), dir, &Options::default()).unwrap().is_sound());
    });
    assert!(files(&fs) == before);
    assert!(opened(&fs, options(Compression::None)).is_ok());
}

#[test]
fn a_store_with_such_a_table_is_refused_and_not_repaired() {
    let codecs = [Compression::Lz4, Compression::Snappy, Compression::Zstd(-1)];
    for compression in codecs {
        let fs = store(options(compression), Compression::None);
        let table = file(&fs, |name| matches!(name, FileName::Table(_)));
        let before = files(&fs);
        let codec = compression.codec();
        without(codec, || {
            let (shared, dir) = (Arc::new(fs.clone()), Path::new(DIR));
            let plain = options(Compression::None);
            is_refused(opened(&fs, plain.clone()), &table, codec.name());
            let read_only = Db::open_read_only_in(shared.clone(), dir, plain.clone());
            is_refused(read_only, &table, codec.name());
            is_refused(verify(shared.clone(), dir, &plain), &table, codec.name());
            is_refused(repair(shared, dir, &plain), &table, codec.name());
        });
        assert!(files(&fs) == before, "{compression:?}");
        assert!(opened(&fs, options(Compression::None)).is_ok());
    }
}

/// A table whose end is lost is searched for sound blocks. One of such a codec is not lost.
#[test]
fn what_is_left_of_such_a_table_is_not_thrown_away() {
    let fs = store(options(Compression::Zstd(1)), Compression::None);
    let table = file(&fs, |name| matches!(name, FileName::Table(_)));
    let bytes = fs.read(&table).unwrap();
    fs.write_atomic(&table, &bytes[..bytes.len() - 60]).unwrap();
    let before = files(&fs);
    let plain = options(Compression::None);
    without(Codec::Zstd, || {
        is_refused(repair(Arc::new(fs.clone()), Path::new(DIR), &plain), &table, "zstd");
    });
    assert!(files(&fs) == before);
    assert!(repair(Arc::new(fs.clone()), Path::new(DIR), &plain).unwrap().entries > 400);
}

/// The first tables do not say which codecs they have, and neither do blob files: there it is the
/// read that is refused.
#[test]
fn a_block_of_such_a_codec_is_refused_when_it_is_read() {
    let fs = store(options(Compression::Zstd(1)), Compression::None);
    let db = opened(&fs, options(Compression::None)).unwrap();
    let table = file(&fs, |name| matches!(name, FileName::Table(_)));
    let key = 7_u32.to_be_bytes();
    without(Codec::Zstd, || {
        is_refused(db.get(&key), &table, "zstd");
        let mut iter = db.iter().unwrap();
        is_refused(iter.seek(&key), &table, "zstd");
    });
    assert_eq!(db.get(&key).unwrap().map(|value| value.len()), Some(2000));
    db.close().unwrap();

    // Tables of level 0 are as they are, and values are compressed as the last level is.
    let compression = vec![Compression::None, Compression::Zstd(1)];
    let written = Options { blob_bytes_min: 1 << 10, compression, ..options(Compression::None) };
    let fs = store(written, Compression::None);
    let blob = file(&fs, |name| matches!(name, FileName::Blob(_)));
    let plain = options(Compression::None);
    let (shared, dir) = (Arc::new(fs.clone()), Path::new(DIR));
    let db = opened(&fs, plain.clone()).unwrap();
    without(Codec::Zstd, || is_refused(db.get(&key), &blob, "zstd"));
    db.close().unwrap();
    without(Codec::Zstd, || {
        is_refused(verify(shared.clone(), dir, &plain), &blob, "zstd");
        is_refused(repair(shared, dir, &plain), &blob, "zstd");
    });
}

#[test]
fn a_file_from_outside_is_refused_when_it_is_written_or_taken() {
    let (fs, path) = (MemFs::new(), Path::new("/bulk"));
    let db = opened(&fs, options(Compression::None)).unwrap();
    let snappy = options(Compression::Snappy);
    without(Codec::Snappy, || {
        let refused = SstWriter::create(&fs, path, &snappy);
        assert!(matches!(refused, Err(Error::Usage(what)) if what.starts_with("compression: ")));
        assert!(!fs.exists(path).unwrap());
    });
    let mut writer = SstWriter::create(&fs, path, &snappy).unwrap();
    writer.put(b"key", &[b'v'; 5000]).unwrap();
    writer.finish().unwrap();
    without(Codec::Snappy, || {
        is_refused(db.ingest(&[path], IngestOptions::default()), path, "snappy");
    });
    assert_eq!(db.get(b"key").unwrap(), None);
    db.ingest(&[path], IngestOptions::default()).unwrap();
    assert!(db.get(b"key").unwrap().is_some());
}
