//! Tables with filters of prefixes: a range within a prefix that a table has not passes it.

use crate::disk::{copy, flip, tables};
use crate::support::{DIR, backwards, idle, open, stat, try_open};
use keyrack_flodb::{
    Comparator, Compression, Db, Error, IngestOptions, Options, PrefixExtractor, PrefixRule, Range,
    Result, Spaces, SstWriter, repair, verify,
};
use keyrack_vfs::{Fs, MemFs};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

const SLASH: PrefixExtractor = PrefixExtractor::Separator(b'/');

/// Filters so large that none of the prefixes here passes by chance, raw blocks, and a cache.
fn plain() -> Options {
    Options {
        filter_bits_per_key: 100,
        cache_bytes: 1 << 20,
        compression: vec![Compression::None],
        ..idle()
    }
}

fn with(extractor: PrefixExtractor) -> Options {
    plain().prefix_extractor(extractor)
}

fn fill(db: &Db, keys: &[&str]) {
    for key in keys {
        db.put(key.as_bytes(), b"value").unwrap();
    }
    db.flush().unwrap();
}

fn keys(range: Range) -> Vec<String> {
    let text = |key: Result<Vec<u8>>| String::from_utf8(key.unwrap()).unwrap();
    range.keys().map(text).collect()
}

/// What looking at a store has cost: blocks looked for, filters asked, and those that refused.
#[derive(Debug, PartialEq, Eq)]
struct Cost {
    blocks: u64,
    asked: u64,
    refused: u64,
}

fn cost(db: &Db) -> Cost {
    Cost {
        blocks: stat(db, "cache_hits") + stat(db, "cache_misses"),
        asked: stat(db, "prefix_filters_asked"),
        refused: stat(db, "prefix_filters_refused"),
    }
}

/// The result of `read`, and what it has cost.
fn costing<T>(db: &Db, read: impl FnOnce() -> T) -> (T, Cost) {
    let before = cost(db);
    let found = read();
    let after = cost(db);
    let blocks = after.blocks - before.blocks;
    let (asked, refused) = (after.asked - before.asked, after.refused - before.refused);
    (found, Cost { blocks, asked, refused })
}

/// Asserts that a range has no key, from either end, and that all filters asked have refused it.
fn assert_passed_by(db: &Db, tables: u64, range: impl Fn() -> Range) {
    for end in [|mut range: Range| range.next(), |mut range: Range| range.next_back()] {
        let (found, cost) = costing(db, || end(range()));
        assert!(found.is_none(), "{found:?}");
        assert_eq!(cost, Cost { blocks: 0, asked: tables, refused: tables });
    }
}

#[test]
fn a_prefix_of_nothing_touches_nothing() {
    let fs = MemFs::new();
    let db = open(&fs, with(SLASH));
    fill(&db, &["ada/1", "ada/2", "cyd/1", "without"]);
    fill(&db, &["ada/3", "eve/1"]);
    assert_passed_by(&db, 2, || db.prefix("bob/"));
    assert_passed_by(&db, 2, || db.prefix("bob/1"));
    assert_passed_by(&db, 2, || db.range("bob/1".."bob/9"));
    assert_passed_by(&db, 2, || db.range("bob/"..="bob/9"));
    assert_passed_by(&db, 2, || db.range("bob/".."bob0"));
    let behind = || (Bound::Excluded("bob/1"), Bound::Excluded("bob0"));
    assert_passed_by(&db, 2, || db.range(behind()));
    db.compact_range(None, None).unwrap();
    assert_passed_by(&db, 1, || db.prefix("bob/"));
    drop(db);
    let db = open(&fs, with(SLASH));
    assert_passed_by(&db, 1, || db.prefix("bob/"));
    let snapshot = db.snapshot();
    assert_passed_by(&db, 1, || db.prefix_at(&snapshot, "bob/"));
}

#[test]
fn what_is_there_is_found_in_the_tables_that_have_it() {
    let db = open(&MemFs::new(), with(SLASH));
    fill(&db, &["ada/1", "cyd/1"]);
    fill(&db, &["ada/2", "bob/1", "eve/1"]);
    let (found, cost) = costing(&db, || keys(db.prefix("bob/")));
    assert_eq!((found, cost.refused), (vec!["bob/1".to_owned()], 1));
    assert_eq!(keys(db.prefix("ada/")), ["ada/1", "ada/2"]);
    assert_eq!(keys(db.range("ada/2".."ada/9")), ["ada/2"]);
    let mut range = db.prefix("ada/");
    let ends = [range.next(), range.next_back()].map(|end| end.unwrap().unwrap().0);
    assert_eq!(ends, [b"ada/1", b"ada/2"]);
}

#[test]
fn a_range_beyond_a_prefix_asks_no_filter() {
    let db = open(&MemFs::new(), with(SLASH));
    fill(&db, &["ada/1", "bob/1", "cyd/1"]);
    let unasked = |range: Range| {
        let (found, cost) = costing(&db, || keys(range));
        assert_eq!(cost.asked, 0);
        found.len()
    };
    assert_eq!(unasked(db.range(..)), 3);
    assert_eq!(unasked(db.range("bo/".."cyd/")), 1, "two prefixes");
    assert_eq!(unasked(db.range("bo/"..="bo0")), 0, "one key more than the prefix");
    assert_eq!(unasked(db.range("bo/"..)), 2);
    assert_eq!(unasked(db.range(.."ada/")), 0);
    assert_eq!(unasked(db.prefix("bo")), 1, "a part of a prefix");
    assert_eq!(unasked(db.prefix("")), 3);
}

#[test]
fn a_table_without_any_prefix_is_passed() {
    let db = open(&MemFs::new(), with(PrefixExtractor::Fixed(4)));
    fill(&db, &["a", "b", "z"]);
    assert_passed_by(&db, 1, || db.prefix("abcd"));
    assert_eq!(keys(db.prefix("b")), ["b"]);
}

#[test]
fn tables_at_the_ends_of_a_level_are_passed() {
    // Tables of some keys each, in the last level.
    let options = Options { table_bytes: 600, ..with(PrefixExtractor::Fixed(3)) };
    let db = open(&MemFs::new(), options);
    let all: Vec<String> = (0..400).map(|n| format!("{:03}{n:03}", n / 40 * 2)).collect();
    fill(&db, &all.iter().map(String::as_str).collect::<Vec<_>>());
    db.compact_range(None, None).unwrap();
    assert!(stat(&db, "level6_tables") > 10);
    for prefix in 0..21 {
        let of = format!("{prefix:03}");
        let expected: Vec<_> = all.iter().filter(|key| key.starts_with(&of)).cloned().collect();
        let (found, cost) = costing(&db, || keys(db.prefix(&of)));
        assert_eq!(found, expected);
        if expected.is_empty() {
            assert_eq!((cost.blocks, cost.asked), (0, cost.refused), "{of}");
        }
        let mut backwards: Vec<_> = db.prefix(&of).keys().rev().map(Result::unwrap).collect();
        backwards.reverse();
        assert!(expected.iter().map(String::as_bytes).eq(&backwards), "{of}");
    }
}

#[test]
fn range_tombstones_of_a_table_that_is_passed_count() {
    for is_compacted in [false, true] {
        let db = open(&MemFs::new(), with(SLASH));
        fill(&db, &["ada/1", "bob/1", "bob/2", "bob/3", "cyd/1"]);
        db.compact_range(None, None).unwrap();
        let held = db.snapshot();
        // A newer table has no key of bob's, and removes some.
        db.delete_range(b"bob/2", b"c").unwrap();
        fill(&db, &["ada/9", "dan/1"]);
        if is_compacted {
            // To a level above the last, or into it: both keep what the snapshot sees.
            db.compact_range(Some(b"a"), Some(b"b")).unwrap();
        }
        let (found, cost) = costing(&db, || keys(db.prefix("bob/")));
        assert_eq!(found, ["bob/1"]);
        assert!(cost.asked > 0, "{cost:?}");
        let backwards: Vec<_> = db.prefix("bob/").keys().rev().map(Result::unwrap).collect();
        assert_eq!(backwards, [b"bob/1"]);
        assert_eq!(keys(db.prefix_at(&held, "bob/")), ["bob/1", "bob/2", "bob/3"]);
    }
}

#[test]
fn a_key_space_has_prefixes_behind_its_own() {
    let open = |fs: &MemFs, options| {
        Spaces::open_in(Arc::new(fs.clone()), Path::new(DIR), options, &[backwards()]).unwrap()
    };
    let fs = MemFs::new();
    let spaces = open(&fs, with(SLASH));
    let one = spaces.create("one", &Comparator::Bytewise).unwrap();
    let other = spaces.create("other", &Comparator::Bytewise).unwrap();
    let down = spaces.create("down", &backwards()).unwrap();
    for (space, key) in [(&one, "ada/1"), (&one, "cyd/1"), (&other, "bob/1"), (&other, "\u{ff}/")] {
        space.put(key.as_bytes(), b"value").unwrap();
    }
    for key in ["ada/1", "bob/1", "cyd/1"] {
        down.put(key.as_bytes(), b"value").unwrap();
    }
    spaces.flush().unwrap();
    let stats = |spaces: &Spaces| {
        let mut stats = [0.0; 3];
        spaces.stats(&mut |name, number| match name {
            "cache_hits" | "cache_misses" => stats[0] += number,
            "prefix_filters_asked" => stats[1] = number,
            "prefix_filters_refused" => stats[2] = number,
            _ => {}
        });
        stats
    };
    let before = stats(&spaces);
    assert_eq!(one.prefix("bob/").count(), 0, "which another space has");
    assert_eq!(one.range("bob/1".."bob/2").count(), 0);
    let [blocks, asked, refused] = stats(&spaces);
    assert_eq!([blocks - before[0], asked - before[1], refused - before[2]], [0.0, 2.0, 2.0]);
    assert_eq!(
        (keys(one.prefix("ada/")), keys(other.prefix("bob/"))),
        (vec!["ada/1".to_owned()], vec!["bob/1".to_owned()])
    );
    assert_eq!(keys(other.prefix("\u{ff}/")), ["\u{ff}/"]);
    let [.., asked, _] = stats(&spaces);
    assert_eq!(keys(down.range("bob/1"..="bob/")), ["bob/1"], "in another order");
    assert_eq!(keys(down.range("bob/1".."bob0")), [""; 0]);
    assert_eq!(stats(&spaces)[1], asked, "no filter is asked");
}

#[test]
fn filters_of_another_extractor_are_left_alone_until_a_compaction() {
    let fs = MemFs::new();
    let none = open(&fs, plain());
    fill(&none, &["ada/1", "cyd/1"]);
    assert_eq!(none.prefix("bob/").count(), 0);
    assert!(none.property("keyrack.prefix_filters_asked").is_none());
    none.close().unwrap();
    // A table of before, which has no filter of prefixes.
    let slash = open(&fs, with(SLASH));
    let (found, cost) = costing(&slash, || slash.prefix("bob/").count());
    assert_eq!((found, cost.asked), (0, 0));
    assert!(cost.blocks > 0);
    slash.rewrite().unwrap();
    assert_passed_by(&slash, 1, || slash.prefix("bob/"));
    slash.close().unwrap();
    let fixed = open(&fs, with(PrefixExtractor::Fixed(3)));
    let (found, cost) = costing(&fixed, || fixed.prefix("bob").count());
    assert_eq!((found, cost.asked), (0, 0), "the filter of the first extractor is not used");
    fixed.rewrite().unwrap();
    assert_passed_by(&fixed, 1, || fixed.prefix("bob"));
    fixed.close().unwrap();
    let none = open(&fs, plain());
    assert_eq!(keys(none.prefix("ada/")), ["ada/1"]);
}

#[test]
fn a_table_from_outside_has_the_filter_of_its_writer() {
    let fs = MemFs::new();
    let db = open(&fs, with(SLASH));
    for (name, options) in [("/with", with(SLASH)), ("/without", plain())] {
        let mut table = SstWriter::create(&fs, Path::new(name), &options).unwrap();
        for key in ["ada/1", "cyd/1"] {
            table.put(format!("{key}{name}").as_bytes(), b"value").unwrap();
        }
        table.finish().unwrap();
        db.ingest(&[Path::new(name)], IngestOptions::default()).unwrap();
    }
    let (found, cost) = costing(&db, || db.prefix("bob/").count());
    assert_eq!((found, cost.asked, cost.refused), (0, 1, 1));
    assert_eq!(keys(db.prefix("ada/")), ["ada/1/with", "ada/1/without"]);
}

#[test]
fn the_budget_counts_the_filter() {
    let held = |options: Options| {
        let db = open(&MemFs::new(), options);
        let all: Vec<String> = (0..2_000).map(|n| format!("{n:05}/")).collect();
        fill(&db, &all.iter().map(String::as_str).collect::<Vec<_>>());
        stat(&db, "filter_bytes")
    };
    let (one, both) = (held(plain()), held(with(SLASH)));
    assert_eq!(both, 2 * one, "as many prefixes as keys");
    assert!(one > 2_000 * 100 / 8);
}

#[test]
fn damage_of_a_filter_is_an_error_with_its_place() {
    let fs = MemFs::new();
    let db = open(&fs, Options { filter_bits_per_key: 10, ..with(SLASH) });
    fill(&db, &["ada/1", "cyd/1"]);
    db.close().unwrap();
    let table = &tables(&fs)[0];
    let findings = |disk: &MemFs, options: &Options| {
        let report = verify(Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
        report.findings.iter().map(|it| (it.path.clone(), it.offset)).collect::<Vec<_>>()
    };
    assert!(findings(&fs, &with(SLASH)).is_empty());
    let mut of_filter = Vec::new();
    for at in 0..fs.read(table).unwrap().len() {
        let disk = copy(&fs);
        flip(&disk, table, at);
        // Its bytes are those that only the extractor makes anybody read.
        let (with_it, without) = (try_open(&disk, with(SLASH)), try_open(&disk, plain()));
        let (Err(error), Ok(db)) = (with_it, without) else { continue };
        assert_eq!(keys(db.prefix("ada/")), ["ada/1"]);
        db.close().unwrap();
        let Error::Corruption { path, offset, .. } = &error else { panic!("{error}") };
        let place = [(path.clone(), *offset)];
        assert_eq!(findings(&disk, &with(SLASH)), place);
        assert_eq!(findings(&disk, &plain()), place, "found without the extractor, too");
        // A repair with the extractor makes the table anew.
        assert!(repair(Arc::new(disk.clone()), Path::new(DIR), &with(SLASH)).unwrap().changed);
        let db = open(&disk, with(SLASH));
        assert_eq!(keys(db.prefix("ada/")), ["ada/1"]);
        assert_passed_by(&db, 1, || db.prefix("bob/"));
        of_filter.push(at);
    }
    // Its probes, a line, type, codec and checksum.
    assert_eq!(of_filter.len(), 8 + 64 + 10);
    assert!(of_filter.is_sorted_by(|a, b| a + 1 == *b), "{of_filter:?}");
}

#[test]
fn a_check_finds_a_prefix_that_the_filter_lacks() {
    /// Keys up to the slash; or, with the same name, nothing of bob's.
    struct Forgetful(bool);

    impl PrefixRule for Forgetful {
        fn name(&self) -> &str {
            "test.forgetful"
        }

        fn prefix_bytes(&self, key: &[u8]) -> Option<usize> {
            if self.0 && key.starts_with(b"bob") {
                return None;
            }
            SLASH.prefix_of(key).map(<[u8]>::len)
        }
    }

    let forgetful = |forgets| with(PrefixExtractor::Custom(Arc::new(Forgetful(forgets))));
    let fs = MemFs::new();
    let db = open(&fs, forgetful(true));
    fill(&db, &["ada/1", "bob/1", "cyd/1"]);
    assert_eq!(keys(db.prefix("bob/")), ["bob/1"], "a key without a prefix is not hidden");
    db.close().unwrap();
    let check = |options: &Options| {
        let report = verify(Arc::new(fs.clone()), Path::new(DIR), options).unwrap();
        report.findings.iter().map(|finding| finding.what.clone()).collect::<Vec<_>>()
    };
    assert_eq!(check(&forgetful(true)), [""; 0]);
    let what = "a prefix filter without the prefix of a key that is there";
    assert_eq!(check(&forgetful(false)), [what], "the rule has changed, and its name has not");
}

#[test]
fn an_extractor_that_no_store_can_have_is_refused() {
    struct Named(String);

    impl PrefixRule for Named {
        fn name(&self) -> &str {
            &self.0
        }

        fn prefix_bytes(&self, _: &[u8]) -> Option<usize> {
            None
        }
    }

    let named = |name: &str| with(PrefixExtractor::Custom(Arc::new(Named(name.to_owned()))));
    let long = "x".repeat(256);
    for options in [
        with(PrefixExtractor::Fixed(0)),
        named(""),
        named(&long),
        named("keyrack.fixed-8"),
        with(SLASH).comparator(backwards()),
    ] {
        let error = try_open(&MemFs::new(), options).unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{error}");
        assert!(error.to_string().contains("prefix_extractor"), "{error}");
    }
    open(&MemFs::new(), named(&long[1..])).put(b"key", b"value").unwrap();
}
