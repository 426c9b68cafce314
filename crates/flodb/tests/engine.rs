//! The engine goes through the same checks as every other, with memory so small that it flushes and
//! compacts all the while.

use keyrack_flodb::engine;
use keyrack_store::{Durability, Error, OpenOptions, Result, Store, WriteOptions};
use keyrack_testkit::Suite;
use keyrack_vfs::{CrashPolicy, Fs, MemFs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn options(durability: Option<Durability>) -> OpenOptions {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new("/store")).unwrap();
    OpenOptions {
        data_dir: Some(PathBuf::from("/store")),
        durability,
        options: vec![
            ("memory_bytes".to_owned(), "64k".to_owned()),
            ("cache_bytes".to_owned(), "256k".to_owned()),
        ],
        ..OpenOptions::in_memory(Arc::new(fs))
    }
}

fn open() -> Result<Box<dyn Store>> {
    (engine().open)(&options(None))
}

#[test]
fn it_passes_the_engine_suite() {
    Suite { name: "flodb", open: &open, operations: 6000, thread_operations: 1000 }.run();
}

#[test]
fn every_durability_is_offered() {
    for durability in [Durability::None, Durability::Os, Durability::Interval(5), Durability::Sync]
    {
        let store = (engine().open)(&options(Some(durability))).unwrap();
        assert_eq!(store.info().durability, durability);
        let mut session = store.session().unwrap();
        session.put(b"key", b"value").unwrap();
        let mut seen = Vec::new();
        assert!(session.get(b"key", &mut |value| seen.extend_from_slice(value)).unwrap());
        assert_eq!(seen, b"value");
        drop(session);
        store.close().unwrap();
    }
}

/// Rows that are there after a power loss that takes all that was not synced.
fn after_a_loss(fs: &MemFs, options: &OpenOptions) -> Vec<Vec<u8>> {
    let image = fs.crash_image(1, CrashPolicy::DropAll);
    let options = OpenOptions { fs: Arc::new(image), ..options.clone() };
    let store = (engine().open)(&options).unwrap();
    let mut keys = Vec::new();
    let mut visit = |key: &[u8], _: &[u8]| {
        keys.push(key.to_vec());
        std::ops::ControlFlow::Continue(())
    };
    store.session().unwrap().scan(b"", None, &mut visit).unwrap();
    keys
}

#[test]
fn a_synced_put_survives_a_power_loss_and_a_plain_one_may_not() {
    for durability in [Durability::Os, Durability::Interval(3_600_000), Durability::Sync] {
        let fs = MemFs::new();
        fs.create_dir_all(Path::new("/store")).unwrap();
        fs.sync_dir(Path::new("/")).unwrap();
        let options = OpenOptions { fs: Arc::new(fs.clone()), ..options(Some(durability)) };
        let store = (engine().open)(&options).unwrap();
        assert!(store.info().syncs_single_puts);
        let mut session = store.session().unwrap();
        session.put_with(b"synced", b"1", WriteOptions::SYNC).unwrap();
        session.put(b"plain", b"2").unwrap();
        let survives = after_a_loss(&fs, &options);
        assert!(survives.contains(&b"synced".to_vec()), "{durability}");
        let plain = survives.contains(&b"plain".to_vec());
        assert_eq!(plain, durability == Durability::Sync, "{durability}");
    }
    let store = (engine().open)(&options(Some(Durability::None))).unwrap();
    assert!(!store.info().syncs_single_puts);
    let error =
        store.session().unwrap().put_with(b"key", b"value", WriteOptions::SYNC).unwrap_err();
    assert!(matches!(error, Error::Usage { .. }), "{error}");
}

fn with(pairs: &[(&str, &str)], durability: Option<Durability>) -> Result<Box<dyn Store>> {
    let mut options = options(durability);
    options.options.extend(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
    (engine().open)(&options)
}

#[test]
fn its_options_are_taken_or_refused_by_name() {
    for pair in [
        ("compression", "none"),
        ("compression", "none, snappy,lz4,zstd,zstd:7,zstd:-3"),
        ("filter_bits", "0"),
        ("filter_bits", "64"),
        ("durability", "none"),
        ("durability", "interval:20"),
    ] {
        let store = with(&[pair], None).unwrap();
        let mut session = store.session().unwrap();
        for n in 0..2000u32 {
            session.put(&n.to_be_bytes(), &[7; 100]).unwrap();
        }
        assert!(session.get(&99u32.to_be_bytes(), &mut |_| {}).unwrap(), "{pair:?}");
        drop(session);
        if pair.0 == "durability" {
            assert_eq!(store.info().durability.to_string(), pair.1);
        }
        store.close().unwrap();
    }
    for (pair, words) in [
        (("compression", "gzip"), "compression: 'gzip' is not one of none, snappy, lz4"),
        (("compression", ""), "compression: '' is not"),
        (("compression", "lz4,"), "compression: '' is not"),
        (("compression", "zstd:23"), "'zstd:23'"),
        (("filter_bits", "65"), "filter_bits: 65 is more than 64"),
        (("filter_bits", "x"), "filter_bits: 'x'"),
        (("durability", "fsync"), "durability 'fsync' is not one of none"),
    ] {
        let Err(error) = with(&[pair], None) else { panic!("{pair:?} was taken") };
        assert!(error.to_string().contains(words), "{error}");
    }
    let both = with(&[("durability", "none")], Some(Durability::Sync));
    let Err(error) = both else { panic!("two durabilities") };
    assert_eq!(error.to_string(), "durability: none contradicts that of the run, sync; give one");
    let same = with(&[("durability", "sync")], Some(Durability::Sync)).unwrap();
    assert_eq!(same.info().durability, Durability::Sync);
}

#[test]
fn a_memtable_that_is_too_small_was_refused_by_another_options_name() {
    let error = with(&[("memory_bytes", "1k")], None).err().unwrap().to_string();
    assert!(error.contains("memory_bytes must be at least 65536 (got 1024)"), "{error}");
}

#[test]
fn memory_is_given_by_one_option_or_by_several() {
    let shown = |pairs: &[(&str, &str)]| {
        let base = options(None);
        let given = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let options = OpenOptions { options: given.collect(), ..base };
        let store = (engine().open)(&options).map_err(|error| error.to_string())?;
        let mut session = store.session().unwrap();
        let mut number = |name: &str| -> u64 {
            let found = session.property(&format!("keyrack.{name}")).unwrap();
            found.parse::<f64>().unwrap() as u64 >> 20
        };
        Ok::<_, String>((number("memory_budget_bytes"), number("cache_capacity_bytes")))
    };
    let (budget, cache) = shown(&[("memory_budget", "64M")]).unwrap();
    assert_eq!(budget, 64);
    assert!((45..52).contains(&cache), "{cache}: all but two memtables");
    assert_eq!(shown(&[("memory_budget", "64M"), ("cache_bytes", "8M")]).unwrap(), (64, 8));
    assert_eq!(shown(&[("memory_budget", "16M"), ("cache_bytes", "0")]).unwrap(), (16, 0));
    let auto = [("memory_budget", "auto"), ("memory_bytes", "auto"), ("cache_bytes", "auto")];
    assert_eq!(shown(&auto).unwrap(), shown(&[]).unwrap());
    assert!((8..=1024).contains(&shown(&[]).unwrap().0), "a quarter of the memory, up to 1 GiB");
    let large = [("memory_bytes", "1M"), ("cache_bytes", "3G")];
    assert_eq!(shown(&large).unwrap(), (3080, 3072), "given sizes raise the default");
    for (pairs, words) in [
        (&[("memory_budget", "1M")][..], "must be at least 8388608 bytes (got 1048576)"),
        (&[("memory_budget", "lots")], "memory_budget: 'lots' is not a size"),
        (&[("memory_budget", "-1")], "memory_budget: '-1' is not a size"),
        (&[("memory_budget", "32M"), ("cache_bytes", "40M")], "give at least 42205184"),
        (&[("memory_budget", "32M"), ("memory_bytes", "16M")], "give at least 67108864"),
    ] {
        let error = shown(pairs).unwrap_err();
        assert!(error.contains(words) && error.lines().count() == 1, "{error}");
    }
}

/// An option that was given once stays until another is given.
#[test]
fn what_is_not_given_is_what_the_store_keeps() {
    let base = options(None);
    let shown = |given: &[(&str, &str)]| {
        let given = given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let options = OpenOptions { options: given.collect(), ..base.clone() };
        let store = (engine().open)(&options).unwrap();
        let shown = store.session().unwrap().property("keyrack.options").unwrap();
        store.close().unwrap();
        shown
    };
    let first = shown(&[("compression", "snappy"), ("block_bytes", "1k")]);
    assert!(first.contains("block_bytes=1024 ") && first.ends_with("compression=snappy"));
    assert_eq!(shown(&[]), first);
    let second = shown(&[("filter_bits", "3")]);
    assert!(second.contains("filter_bits=3 ") && second.ends_with("compression=snappy"));
    assert!(shown(&[("compression", "none")]).contains("block_bytes=1024 "));
}
