//! Tables with filters by a rule of the caller's.

use crate::disk::{flip, tables};
use crate::support::{DIR, idle, open, try_open};
use keyrack_flodb::{
    Compression, Db, Error, FilterBuilder, FilterPolicy, FilterReader, FilterRule, Options, repair,
    verify,
};
use keyrack_vfs::{Fs, MemFs};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A filter that is the keys themselves, so what it lets pass is in its table.
struct Exact {
    name: &'static str,
    /// A key that no filter gets.
    forgotten: Option<&'static [u8]>,
    /// All keys that were given to a builder, table after table.
    given: Arc<Mutex<Vec<Vec<u8>>>>,
    asked: Arc<AtomicU64>,
}

impl Exact {
    fn new(name: &'static str) -> Exact {
        Exact { name, forgotten: None, given: Arc::default(), asked: Arc::default() }
    }
}

struct Keys {
    forgotten: Option<&'static [u8]>,
    keys: Vec<Vec<u8>>,
    given: Arc<Mutex<Vec<Vec<u8>>>>,
    asked: Arc<AtomicU64>,
}

const BEGINS: &[u8] = b"keys:";

impl FilterRule for Exact {
    fn name(&self) -> &str {
        self.name
    }

    fn builder(&self) -> Box<dyn FilterBuilder> {
        Box::new(self.of(Vec::new()))
    }

    fn reader(&self, stored: &[u8]) -> Option<Box<dyn FilterReader>> {
        let listed = stored.strip_prefix(BEGINS)?;
        let keys = listed.split(|byte| *byte == b',').map(<[u8]>::to_vec).collect();
        Some(Box::new(self.of(keys)))
    }
}

impl Exact {
    fn of(&self, keys: Vec<Vec<u8>>) -> Keys {
        let (given, asked) = (Arc::clone(&self.given), Arc::clone(&self.asked));
        Keys { forgotten: self.forgotten, keys, given, asked }
    }
}

impl FilterBuilder for Keys {
    fn add(&mut self, key: &[u8]) {
        self.given.lock().unwrap().push(key.to_vec());
        if self.forgotten != Some(key) {
            self.keys.push(key.to_vec());
        }
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        [BEGINS, &self.keys.join(&b',')].concat()
    }
}

impl FilterReader for Keys {
    fn may_contain(&self, key: &[u8]) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.keys.iter().any(|own| own == key)
    }
}

/// Options with the rule, with room in the cache for everything, and raw blocks.
fn with(rule: Exact) -> Options {
    Options { filter_policy: FilterPolicy::Custom(Arc::new(rule)), ..without() }
}

fn without() -> Options {
    Options { cache_bytes: 1 << 20, compression: vec![Compression::None], ..idle() }
}

fn fill(db: &Db, keys: &[&str]) {
    for key in keys {
        db.put(key.as_bytes(), format!("value of {key}").as_bytes()).unwrap();
    }
    db.flush().unwrap();
}

fn count(db: &Db, counter: &str) -> f64 {
    let mut found = None;
    db.stats(&mut |name, value| found = if name == counter { Some(value) } else { found });
    found.expect("a counter of the store")
}

/// Whether the store has the key, and how many blocks were looked for.
fn look(db: &Db, key: &str) -> (bool, f64) {
    let before = count(db, "cache_hits") + count(db, "cache_misses");
    let found = db.get(key.as_bytes()).unwrap();
    let expected = format!("value of {key}").into_bytes();
    assert!(found.as_ref().is_none_or(|found| *found == expected), "{key}");
    (found.is_some(), count(db, "cache_hits") + count(db, "cache_misses") - before)
}

#[test]
fn what_the_rule_does_not_let_pass_is_not_looked_for_in_a_block() {
    let fs = MemFs::new();
    let db = open(&fs, with(Exact::new("test.exact")));
    fill(&db, &["a", "c"]);
    fill(&db, &["b", "d"]);
    for round in 0..3 {
        assert_eq!(look(&db, "a"), (true, 1.0), "round {round}: the newer table is not looked at");
        assert_eq!(look(&db, "b"), (true, 1.0), "round {round}");
        assert_eq!(look(&db, "bb"), (false, 0.0), "round {round}");
    }
    db.close().unwrap();
    let db = open(&fs, with(Exact::new("test.exact")));
    assert_eq!(look(&db, "a"), (true, 1.0), "as stored");
    assert_eq!(look(&db, "bb"), (false, 0.0));
    db.compact_range(None, None).unwrap();
    assert_eq!(look(&db, "d"), (true, 1.0), "as compacted");
    assert_eq!(look(&db, "bb"), (false, 0.0));
}

#[test]
fn a_builder_gets_each_key_once_in_order_and_those_of_tombstones() {
    let rule = Exact::new("test.exact");
    let given = Arc::clone(&rule.given);
    let db = open(&MemFs::new(), with(rule));
    let held = db.snapshot();
    for key in ["c", "a", "b", "c"] {
        db.put(key.as_bytes(), b"value").unwrap();
    }
    let _newer = db.snapshot();
    db.delete(b"a").unwrap();
    db.flush().unwrap();
    drop(held);
    assert_eq!(*given.lock().unwrap(), [b"a", b"b", b"c"]);
}

#[test]
fn a_store_opens_with_another_rule_and_a_compaction_makes_its_filters() {
    let fs = MemFs::new();
    let bloom = open(&fs, without());
    fill(&bloom, &["a", "c"]);
    bloom.close().unwrap();
    let one = open(&fs, with(Exact::new("test.one")));
    assert_eq!(look(&one, "b"), (false, 0.0), "the Bloom filter of the table is used");
    one.rewrite().unwrap();
    one.close().unwrap();
    let rule = Exact::new("test.two");
    let asked = Arc::clone(&rule.asked);
    let two = open(&fs, with(rule));
    assert_eq!(look(&two, "a"), (true, 1.0));
    assert_eq!(look(&two, "b"), (false, 1.0), "the filter of the first rule is not used");
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    two.rewrite().unwrap();
    assert_eq!(look(&two, "b"), (false, 0.0));
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    two.close().unwrap();
    let bloom = open(&fs, without());
    assert_eq!(look(&bloom, "a"), (true, 1.0));
    assert_eq!(look(&bloom, "b"), (false, 1.0));
    bloom.rewrite().unwrap();
    assert_eq!(look(&bloom, "b"), (false, 0.0));
}

#[test]
fn a_filter_that_its_rule_does_not_know_is_damage_of_that_table() {
    /// The same name, and no filter is one of its own.
    struct Blind(Exact);

    impl FilterRule for Blind {
        fn name(&self) -> &str {
            self.0.name()
        }

        fn builder(&self) -> Box<dyn FilterBuilder> {
            self.0.builder()
        }

        fn reader(&self, _: &[u8]) -> Option<Box<dyn FilterReader>> {
            None
        }
    }

    let fs = MemFs::new();
    let db = open(&fs, with(Exact::new("test.exact")));
    fill(&db, &["a"]);
    db.close().unwrap();
    let blind = FilterPolicy::Custom(Arc::new(Blind(Exact::new("test.exact"))));
    let error = try_open(&fs, Options { filter_policy: blind, ..without() }).unwrap_err();
    let table = &tables(&fs)[0];
    assert!(matches!(&error, Error::Corruption { path, .. } if path == table), "{error}");
    assert!(error.to_string().contains("a filter of no known form"), "{error}");
}

#[test]
fn a_check_finds_a_key_that_the_rule_has_forgotten() {
    let fs = MemFs::new();
    let forgetful = || Exact { forgotten: Some(b"b"), ..Exact::new("test.exact") };
    let db = open(&fs, with(forgetful()));
    fill(&db, &["a", "b"]);
    assert_eq!(look(&db, "b"), (false, 0.0), "the rule hides it");
    db.close().unwrap();
    let check = |options: &Options| {
        let report = verify(Arc::new(fs.clone()), Path::new(DIR), options).unwrap();
        report.findings.iter().map(|finding| finding.what.clone()).collect::<Vec<_>>()
    };
    assert_eq!(check(&with(forgetful())), ["a filter without a key that is there"]);
    assert!(check(&without()).is_empty(), "without the rule nothing is hidden");
    // A repair without the rule leaves the table, one with the rule makes it anew.
    let with_whole = with(Exact::new("test.exact"));
    repair(Arc::new(fs.clone()), Path::new(DIR), &with_whole).unwrap();
    let db = open(&fs, with_whole);
    assert_eq!(look(&db, "b"), (true, 1.0));
}

#[test]
fn a_check_without_the_rule_finds_damage_of_its_filter() {
    let fs = MemFs::new();
    let db = open(&fs, with(Exact::new("test.exact")));
    fill(&db, &["a", "b"]);
    db.close().unwrap();
    let table = tables(&fs)[0].clone();
    let bytes = fs.read(&table).unwrap();
    let at = bytes.windows(BEGINS.len()).position(|window| window == BEGINS).unwrap();
    flip(&fs, &table, at);
    let report = verify(Arc::new(fs.clone()), Path::new(DIR), &without()).unwrap();
    let found: Vec<_> = report.findings.iter().map(|it| (&it.path, it.offset)).collect();
    assert_eq!(found, [(&table, at as u64)]);
    // What does not use the filter goes on.
    assert_eq!(look(&open(&fs, without()), "a"), (true, 1.0));
    let error = try_open(&fs, with(Exact::new("test.exact"))).unwrap_err();
    assert!(matches!(error, Error::Corruption { offset, .. } if offset == at as u64), "{error}");
}

#[test]
fn a_rule_without_a_name_is_refused() {
    const LONG: &str = {
        const BYTES: [u8; 256] = [b'x'; 256];
        match std::str::from_utf8(&BYTES) {
            Ok(text) => text,
            Err(_) => unreachable!(),
        }
    };
    for name in ["", LONG] {
        let error = try_open(&MemFs::new(), with(Exact::new(name))).unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{error}");
        assert!(error.to_string().contains("filter_policy"), "{error}");
    }
    open(&MemFs::new(), with(Exact::new(&LONG[1..]))).put(b"key", b"value").unwrap();
}
