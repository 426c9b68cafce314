//! Key spaces: apart from each other, each in its order, written as one, and dropped.

use crate::ranges;
use crate::support::{DIR, Rows, backwards, idle, tiny, try_open};
use keyrack_flodb::{
    Change, Comparator, Compare, Db, Durability, Error, KeySpace, Options, ReadOptions, Snapshot,
    SpaceIter, Spaces, SpacesBatch, WriteOptions,
};
use keyrack_testkit::damage::directory;
use keyrack_testkit::random::{Announced, Draw, factor, seeds};
use keyrack_vfs::{CrashPolicy, Fault, FaultFs, FaultPlan, Fs, MemFs, Operation};
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

fn open_with(
    fs: impl Fs + 'static,
    options: Options,
    orders: &[Comparator],
) -> Result<Spaces, Error> {
    Spaces::open_in(Arc::new(fs), Path::new(DIR), options, orders)
}

fn open(disk: &MemFs) -> Spaces {
    open_with(disk.clone(), tiny(), &[backwards()]).unwrap()
}

fn bytewise(spaces: &Spaces, name: &str) -> KeySpace {
    spaces.get_or_create(name, &Comparator::Bytewise).unwrap()
}

/// Everything there is, the catalog included, as the engine has it.
fn raw_keys(disk: &MemFs) -> Vec<Vec<u8>> {
    let comparator = Spaces::comparator(&[backwards()]).unwrap();
    let options = Options { comparator, ..tiny() };
    let fs: Arc<dyn Fs> = Arc::new(disk.clone());
    let db = Db::open_read_only_in(fs, Path::new(DIR), options).unwrap();
    crate::support::rows(&db).into_keys().collect()
}

fn rows(space: &KeySpace) -> Rows {
    let mut iter = space.iter().unwrap();
    iter.seek_first().unwrap();
    let mut rows = Rows::new();
    while let Some((key, value)) = iter.entry() {
        rows.push((key.to_vec(), value.to_vec()));
        iter.next().unwrap();
    }
    let mut back = Rows::new();
    iter.seek_last().unwrap();
    while let Some((key, value)) = iter.entry() {
        back.push((key.to_vec(), value.to_vec()));
        iter.prev().unwrap();
    }
    back.reverse();
    assert_eq!(rows, back);
    rows
}

fn strings(rows: &[(&str, &str)]) -> Rows {
    rows.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

#[test]
fn spaces_are_apart() {
    let disk = MemFs::new();
    let spaces = open(&disk);
    assert!(spaces.list().is_empty() && spaces.get("one").is_none());
    let one = spaces.create("one", &Comparator::Bytewise).unwrap();
    let two = spaces.create("two", &backwards()).unwrap();
    let three = bytewise(&spaces, "three");
    let empty = spaces.create("empty", &backwards()).unwrap();
    for (space, name) in [(&one, "1"), (&two, "2"), (&three, "3")] {
        for key in ["", "a", "b", "\u{7f}"] {
            space.put(key.as_bytes(), format!("{key} {name}").as_bytes()).unwrap();
        }
    }
    two.delete(b"a").unwrap();
    three
        .update(b"b", WriteOptions::default(), |old| {
            assert_eq!(old, Some(&b"b 3"[..]));
            Change::Remove
        })
        .unwrap();
    let moment = spaces.snapshot();
    one.put(b"later", b"1").unwrap();
    for settled in [false, true] {
        if settled {
            spaces.flush().unwrap();
            spaces.compact().unwrap();
        }
        let of_one =
            [("", " 1"), ("a", "a 1"), ("b", "b 1"), ("later", "1"), ("\u{7f}", "\u{7f} 1")];
        assert_eq!(rows(&one), strings(&of_one));
        assert_eq!(rows(&two), strings(&[("\u{7f}", "\u{7f} 2"), ("b", "b 2"), ("", " 2")]));
        let of_three = [("", " 3"), ("a", "a 3"), ("\u{7f}", "\u{7f} 3")];
        assert_eq!(rows(&three), strings(&of_three));
        assert!(rows(&empty).is_empty());
        assert_eq!(two.get(b"a").unwrap(), None);
        let mut found = Vec::new();
        let keys: [&[u8]; 3] = [b"b", b"a", b""];
        two.multi_get(&keys, |at, value| found.push((at, value.map(<[u8]>::to_vec)))).unwrap();
        let expected = [(0, Some(b"b 2".to_vec())), (1, None), (2, Some(b" 2".to_vec()))];
        assert_eq!(found, expected);
        assert_eq!(one.get_at(&moment, b"later", <[u8]>::to_vec).unwrap(), None);
        let mut then = one.iter_at(&moment).unwrap();
        then.seek(b"l").unwrap();
        assert_eq!(then.entry().unwrap().0, b"\x7f");
    }
    let large = vec![b'k'; 5000];
    one.put(&large, b"large").unwrap();
    assert_eq!(one.get(&large).unwrap().unwrap(), b"large");
    assert_eq!(two.get(&large).unwrap(), None);
}

#[test]
fn there_may_be_many_spaces() {
    let disk = MemFs::new();
    let spaces = open(&disk);
    let order = |n: usize| if n.is_multiple_of(3) { backwards() } else { Comparator::Bytewise };
    for n in 0..200 {
        let space = spaces.create(&format!("space {n}"), &order(n)).unwrap();
        for key in ["", "a", "\u{ff}"] {
            space.put(key.as_bytes(), n.to_string().as_bytes()).unwrap();
        }
    }
    for reopened in [false, true] {
        let spaces = if reopened { open(&disk.process_crash_image()) } else { spaces.clone() };
        assert_eq!(spaces.list().len(), 200);
        for n in 0..200_usize {
            let space = spaces.get(&format!("space {n}")).unwrap();
            let value = n.to_string();
            let mut expected = strings(&[("", &value), ("a", &value), ("\u{ff}", &value)]);
            if n.is_multiple_of(3) {
                expected.reverse();
            }
            assert_eq!(rows(&space), expected, "{n}");
        }
    }
}

#[test]
fn names_and_orders_are_checked() {
    let disk = MemFs::new();
    let spaces = open(&disk);
    let space = spaces.create("space", &backwards()).unwrap();
    assert_eq!((space.name(), space.comparator().name()), ("space", "test.backwards"));
    let usage = |outcome: Result<KeySpace, Error>, part: &str| match outcome {
        Err(Error::Usage(what)) => assert!(what.contains(part), "{what}"),
        other => panic!("{part}: {other:?}"),
    };
    usage(spaces.create("space", &backwards()), "already");
    usage(spaces.get_or_create("space", &Comparator::Bytewise), "\"test.backwards\"");
    usage(spaces.create("", &Comparator::Bytewise), "1 to 255 bytes");
    usage(spaces.create(&"n".repeat(256), &Comparator::Bytewise), "1 to 255 bytes");
    bytewise(&spaces, &"n".repeat(255));
    struct Another;
    impl Compare for Another {
        fn name(&self) -> &str {
            "test.another"
        }

        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            a.cmp(b)
        }
    }
    usage(spaces.create("other", &Comparator::Custom(Arc::new(Another))), "was not given");
    let sorted = Options { comparator: backwards(), ..tiny() };
    assert!(matches!(open_with(MemFs::new(), sorted, &[]), Err(Error::Usage(_))));

    // Spaces of other stores are none of ours.
    let elsewhere = open(&MemFs::new());
    let mut batch = SpacesBatch::new();
    batch.put(&bytewise(&elsewhere, "space"), b"key", b"value");
    assert!(matches!(spaces.write(&batch, WriteOptions::default()), Err(Error::Usage(_))));
    elsewhere.write(&batch, WriteOptions::default()).unwrap();
}

#[test]
fn stores_with_and_without_spaces_are_told_apart() {
    let disk = MemFs::new();
    drop(open(&disk));
    let error = try_open(&disk, tiny()).unwrap_err().to_string();
    assert_eq!(error, "/store holds key spaces: open it with Spaces::open");
    let other = MemFs::new();
    drop(try_open(&other, tiny()).unwrap());
    let error = open_with(other, tiny(), &[]).unwrap_err().to_string();
    assert!(error.contains("/store holds no key spaces") && error.contains("Db::open"), "{error}");
}

/// Whatever of the store is in the log and what in tables, nothing is sorted by a wrong rule.
#[test]
fn a_store_opens_only_with_the_orders_of_its_keys() {
    for count in [0, 1, 50, 3000] {
        for flushed in [false, true] {
            let disk = MemFs::new();
            let spaces = open(&disk);
            let (plain, back) = (bytewise(&spaces, "plain"), spaces.create("back", &backwards()));
            let back = back.unwrap();
            for n in 0..count {
                plain.put(format!("{n:05}").as_bytes(), &[7; 50]).unwrap();
                back.put(format!("{n:05}").as_bytes(), &[7; 50]).unwrap();
            }
            if flushed {
                spaces.compact().unwrap();
            }
            drop((plain, back));
            spaces.close().unwrap();
            let before = directory(&disk, Path::new(DIR));
            for attempt in [
                open_with(disk.clone(), tiny(), &[]),
                Spaces::open_read_only_in(Arc::new(disk.clone()), Path::new(DIR), tiny(), &[]),
            ] {
                match attempt {
                    Err(Error::Usage(what)) => {
                        assert!(what.contains("not given"), "{count} {flushed}: {what}");
                    }
                    other => panic!("{count} {flushed}: {other:?}"),
                }
            }
            // Files of tables that nobody names may still go.
            let is_as_before = |(name, content)| before.get(name) == Some(content);
            let after = directory(&disk, Path::new(DIR));
            assert!(after.iter().all(is_as_before), "{count} {flushed}");
            let spaces = open(&disk);
            let (plain, back) = (spaces.get("plain").unwrap(), spaces.get("back").unwrap());
            let mut expected = rows(&plain);
            assert_eq!(expected.len(), count);
            expected.reverse();
            assert_eq!(rows(&back), expected);
        }
    }
}

#[test]
fn a_dropped_space_is_gone() {
    let disk = MemFs::new();
    let spaces = open(&disk);
    for order in [Comparator::Bytewise, backwards()] {
        let doomed = spaces.create("doomed", &order).unwrap();
        let kept = bytewise(&spaces, "kept");
        let mut batch = SpacesBatch::new();
        for n in 0..3000_u32 {
            batch.clear();
            batch.put(&doomed, &n.to_be_bytes(), &[1; 40]);
            batch.put(&kept, &n.to_be_bytes(), &[2; 40]);
            spaces.write(&batch, WriteOptions::default()).unwrap();
        }
        doomed.put(b"", b"").unwrap();
        doomed.put(&[b'k'; 30_000], b"long").unwrap();
        let moment = doomed.iter().unwrap();
        assert!(spaces.drop_space("doomed").unwrap());
        assert!(!spaces.drop_space("doomed").unwrap());
        assert!(spaces.get("doomed").is_none());
        let refused = [
            doomed.put(b"key", b"value"),
            doomed.delete(b"key"),
            doomed.update(b"key", WriteOptions::default(), |_| Change::Remove),
            doomed.get(b"key").map(drop),
            doomed.iter().map(drop),
            doomed.multi_get(&[b"key"], |_, _| {}),
            doomed.compact_range(None, None),
            spaces.write(&batch, WriteOptions::default()),
        ];
        for outcome in refused {
            let error = outcome.unwrap_err().to_string();
            assert_eq!(error, "the key space \"doomed\" was dropped");
        }
        // Who looks at an older moment still sees it.
        let mut moment = moment;
        moment.seek(&7_u32.to_be_bytes()).unwrap();
        assert_eq!(moment.entry().unwrap().1, [1; 40]);
        drop(moment);
        let again = spaces.create("doomed", &order).unwrap();
        assert!(rows(&again).is_empty());
        assert_eq!(rows(&kept).len(), 3000);
        spaces.drop_space("doomed").unwrap();
        spaces.drop_space("kept").unwrap();
    }
    let inside = |disk: &MemFs| raw_keys(disk).iter().filter(|key| key[0] != 0).count();
    assert_eq!(inside(&disk.process_crash_image()), 0);
    spaces.close().unwrap();
    // Even the notes go with the next opening.
    drop(open(&disk));
    let notes = raw_keys(&disk).into_iter().filter(|key| key.starts_with(b"\0d"));
    assert_eq!(notes.count(), 0);
}

/// At every change of the disk that a drop makes, the process ends or the power goes out.
#[test]
fn a_drop_that_was_interrupted_is_finished_or_did_not_happen() {
    let mut draw = Draw::new(1);
    // Images of interrupted drops: without the space, with it.
    let mut interrupted = [0; 2];
    for at in 0.. {
        let disk = MemFs::new();
        let faulty = FaultFs::new(Arc::new(disk.clone()));
        let options = Options { durability: Durability::Sync, segment_bytes: 256 << 10, ..idle() };
        let spaces = open_with(faulty.clone(), options, &[backwards()]).unwrap();
        let (doomed, kept) =
            (spaces.create("doomed", &backwards()).unwrap(), spaces.create("kept", &backwards()));
        let kept = kept.unwrap();
        let mut batch = SpacesBatch::new();
        for n in 0..1200_u32 {
            batch.put(&doomed, &[&n.to_be_bytes()[..], &[b'x'; 120]].concat(), b"");
            if batch.len() == 1000 {
                spaces.write(&batch, WriteOptions::default()).unwrap();
                batch.clear();
            }
        }
        batch.put(&kept, b"key", b"value");
        spaces.write(&batch, WriteOptions::default()).unwrap();
        let changes = [Operation::Write, Operation::Sync, Operation::Flush, Operation::SyncDir];
        faulty.arm(FaultPlan::from_then_on(1 + at, Fault::PowerOut).only(&changes));
        let dropped = spaces.drop_space("doomed").is_ok();
        let injected = faulty.injected();
        for image in [
            disk.process_crash_image(),
            disk.crash_image(draw.next(), CrashPolicy::DropAll),
            disk.crash_image(draw.next(), CrashPolicy::Reordered),
        ] {
            let spaces = open(&image);
            let there = spaces.get("doomed").map(|doomed| rows(&doomed).len());
            assert!(there == Some(1200) || there.is_none(), "operation {at}: {there:?}");
            assert!(there.is_none() || !dropped, "operation {at}");
            if injected > 0 {
                interrupted[usize::from(there.is_some())] += 1;
            }
            assert_eq!(rows(&spaces.get("kept").unwrap()).len(), 1);
            drop(spaces);
            let inside = raw_keys(&image).iter().filter(|key| key[0] != 0).count();
            assert_eq!(inside, 1 + there.unwrap_or(0), "operation {at}");
        }
        if injected == 0 {
            break;
        }
    }
    assert!(interrupted[0] > 0 && interrupted[1] > 0, "{interrupted:?}");
}

/// After a power loss, batches over several spaces are whole, and a beginning of what was written.
#[test]
fn batches_survive_whole() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        for _ in 0..2 * factor() {
            let disk = MemFs::new();
            let spaces = open(&disk);
            let names = ["a", "b", "c"];
            let order = |name: &str| if name == "b" { backwards() } else { Comparator::Bytewise };
            let all = names.map(|name| spaces.create(name, &order(name)).unwrap());
            spaces.flush().unwrap();
            let (mut images, mut synced) = (Vec::new(), 0);
            for n in 1..=400_u64 {
                let mut batch = SpacesBatch::new();
                for space in &all {
                    batch.put(space, b"newest", &n.to_be_bytes());
                    batch.put(space, format!("{:03}", n % 100).as_bytes(), &n.to_be_bytes());
                }
                let sync = draw.below(8) == 0;
                spaces.write(&batch, WriteOptions { sync }).unwrap();
                if sync {
                    synced = n;
                }
                if draw.below(40) == 0 {
                    spaces.flush().unwrap();
                    synced = n;
                }
                if draw.below(30) == 0 {
                    for policy in
                        [CrashPolicy::DropAll, CrashPolicy::Ordered, CrashPolicy::Reordered]
                    {
                        images.push((disk.crash_image(draw.next(), policy), synced, n));
                    }
                }
            }
            for (image, synced, written) in images {
                let spaces = open(&image);
                let all = names.map(|name| spaces.get(name).unwrap());
                let number = |bytes: Vec<u8>| u64::from_be_bytes(bytes.try_into().unwrap());
                let newest = all[0].get(b"newest").unwrap().map_or(0, number);
                assert!((synced..=written).contains(&newest), "{synced} {newest} {written}");
                for space in &all {
                    let mut expected: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
                    for n in 1..=newest {
                        expected.insert(b"newest".to_vec(), n.to_be_bytes().to_vec());
                        let key = format!("{:03}", n % 100).into_bytes();
                        expected.insert(key, n.to_be_bytes().to_vec());
                    }
                    let mut expected: Rows = expected.into_iter().collect();
                    if space.name() == "b" {
                        expected.reverse();
                    }
                    assert_eq!(rows(space), expected, "{}", space.name());
                }
            }
        }
    }
}

#[test]
fn copies_and_read_only_openings_have_all_spaces() {
    let disk = MemFs::new();
    let spaces = open(&disk);
    let (one, two) = (bytewise(&spaces, "one"), spaces.create("two", &backwards()).unwrap());
    for n in 0..2000_u32 {
        one.put(&n.to_be_bytes(), b"one").unwrap();
        two.put(&n.to_be_bytes(), b"two").unwrap();
    }
    spaces.checkpoint("/copy").unwrap();
    let expected = (rows(&one), rows(&two));
    spaces.drop_space("one").unwrap();
    let fs: Arc<dyn Fs> = Arc::new(disk.clone());
    let read = |dir: &str| {
        Spaces::open_read_only_in(Arc::clone(&fs), Path::new(dir), tiny(), &[backwards()]).unwrap()
    };
    let copy = read("/copy");
    let found = (rows(&copy.get("one").unwrap()), rows(&copy.get("two").unwrap()));
    assert_eq!(found, expected);
    let refused = [
        copy.create("three", &Comparator::Bytewise).map(drop),
        copy.drop_space("one").map(drop),
        copy.get("one").unwrap().put(b"key", b"value"),
        copy.flush(),
        copy.compact(),
    ];
    for outcome in refused {
        assert_eq!(outcome.unwrap_err().to_string(), "/copy is opened read-only");
    }
    let original = read(DIR);
    assert!(original.get("one").is_none());
    assert_eq!(rows(&original.get("two").unwrap()), expected.1);
}

#[test]
fn sizes_and_compactions_are_of_a_space() {
    let disk = MemFs::new();
    let large = Options { memtable_bytes: 4 << 20, ..idle() };
    let spaces = open_with(disk, large, &[backwards()]).unwrap();
    let (one, two) = (bytewise(&spaces, "one"), spaces.create("two", &backwards()).unwrap());
    for n in 0..1000_u32 {
        one.put(&n.to_be_bytes(), &[1; 100]).unwrap();
        two.put(&n.to_be_bytes(), &[2; 300]).unwrap();
    }
    spaces.flush().unwrap();
    let within = |bytes: u64, expected: u64| {
        assert!(bytes.abs_diff(expected) < expected / 5 + 10_000, "{bytes}, not {expected}");
    };
    within(one.approximate_size(None, None), 110_000);
    within(two.approximate_size(None, None), 310_000);
    within(one.approximate_size(Some(&500_u32.to_be_bytes()), None), 55_000);
    // Backwards, the first half are the larger keys.
    within(two.approximate_size(None, Some(&250_u32.to_be_bytes())), 233_000);

    spaces.drop_space("one").unwrap();
    two.compact_range(None, None).unwrap();
    assert_eq!(spaces.property("leveldb.num-files-at-level0").unwrap(), "0");
    assert_eq!(rows(&two).len(), 1000);
}

/// A random walk of `iter` beside the rows, which are in the order of the space.
fn compare_walk(iter: &mut SpaceIter, rows: &Rows, order: &Comparator, draw: &mut Draw) {
    let backwards = order.name() == "test.backwards";
    let behind = |a: &[u8], b: &[u8]| if backwards { b > a } else { a > b };
    let mut place: Option<usize> = None;
    for _ in 0..30 {
        let target = key(draw);
        place = match (draw.below(8), place) {
            (0, _) => {
                iter.seek_first().unwrap();
                (!rows.is_empty()).then_some(0)
            }
            (1, _) => {
                iter.seek_last().unwrap();
                rows.len().checked_sub(1)
            }
            (2, _) => {
                iter.seek(&target).unwrap();
                rows.iter().position(|(key, _)| !behind(&target, key))
            }
            (3, _) => {
                iter.seek_back(&target).unwrap();
                rows.iter().rposition(|(key, _)| !behind(key, &target))
            }
            (4 | 5, Some(at)) => {
                iter.next().unwrap();
                Some(at + 1).filter(|at| *at < rows.len())
            }
            (_, Some(at)) => {
                iter.prev().unwrap();
                at.checked_sub(1)
            }
            (_, None) => {
                iter.next().unwrap();
                iter.prev().unwrap();
                None
            }
        };
        let found = iter.entry().map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert_eq!(found, place.map(|at| rows[at].clone()));
        assert_eq!(iter.is_valid(), place.is_some());
    }
}

/// Random ranges, and prefixes where they are, beside the rows.
fn compare_ranges(space: &KeySpace, moment: Option<&Snapshot>, rows: &Rows, draw: &mut Draw) {
    let options = ReadOptions::default();
    let is_backwards = space.comparator().name() == "test.backwards";
    let range = |bounds| space.range_with(moment, bounds, options);
    ranges::compare(range, rows, is_backwards, draw, key);
    if !is_backwards {
        let prefix = |prefix: &[u8]| space.prefix_with(moment, prefix, options);
        ranges::compare_prefix(prefix, rows, draw, key);
    }
}

fn key(draw: &mut Draw) -> Vec<u8> {
    let n = draw.below(150);
    match draw.below(6) {
        0 => Vec::new(),
        1 => vec![n as u8, 0xff],
        2 => [&[b'p'; 200][..], n.to_string().as_bytes()].concat(),
        _ => format!("key{n:03}").into_bytes(),
    }
}

/// The rows of a space, sorted as a model keeps them.
#[derive(Clone, Default)]
struct Model(BTreeMap<Vec<u8>, Vec<u8>>);

impl Model {
    fn rows(&self, order: &Comparator) -> Rows {
        let mut rows: Rows = self.0.clone().into_iter().collect();
        if order.name() == "test.backwards" {
            rows.sort_by_key(|(key, _)| Reverse(key.clone()));
        }
        rows
    }
}

type Models = BTreeMap<String, Model>;

#[test]
fn every_answer_is_the_models() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let disk = MemFs::new();
        let open =
            |draw: &mut Draw| open_with(disk.clone(), crate::model::small(draw), &[backwards()]);
        let mut spaces = open(&mut draw).unwrap();
        let mut models = Models::new();
        let mut moments: Vec<(Snapshot, Models)> = Vec::new();
        for round in 0..2500 * factor() {
            let name = format!("space {}", draw.below(5));
            let order = if name.ends_with(['1', '3']) { backwards() } else { Comparator::Bytewise };
            if draw.below(100) == 0 {
                moments.retain(|(_, then)| !then.contains_key(&name));
                let was_there = models.remove(&name).is_some();
                assert_eq!(spaces.drop_space(&name).unwrap(), was_there, "{name}");
                continue;
            }
            let space = spaces.get_or_create(&name, &order).unwrap();
            let model = models.entry(name.clone()).or_default();
            let (key, value) = (key(&mut draw), format!("{round} {}", "v".repeat(draw.below(200))));
            match draw.below(100) {
                0..30 => {
                    space.put(&key, value.as_bytes()).unwrap();
                    model.0.insert(key, value.into_bytes());
                }
                30..38 => {
                    space.delete(&key).unwrap();
                    model.0.remove(&key);
                }
                38..40 => {
                    let to = self::key(&mut draw);
                    if draw.below(2) == 0 {
                        space.delete_range(&key, &to).unwrap();
                    } else {
                        let mut batch = SpacesBatch::new();
                        batch.delete_range(&space, &key, &to);
                        spaces.write(&batch, WriteOptions::default()).unwrap();
                    }
                    let is_backwards = matches!(order, Comparator::Custom(_));
                    model.0.retain(|it, _| {
                        if is_backwards { *it > key || *it <= to } else { *it < key || *it >= to }
                    });
                }
                40..50 => {
                    let mut batch = SpacesBatch::new();
                    for (name, model) in &mut models {
                        let space = spaces.get(name).unwrap();
                        batch.put(&space, &key, value.as_bytes());
                        batch.delete(&space, value.as_bytes());
                        model.0.insert(key.clone(), value.clone().into_bytes());
                    }
                    spaces.write(&batch, WriteOptions::default()).unwrap();
                }
                50..75 => {
                    assert_eq!(space.get(&key).unwrap(), model.0.get(&key).cloned(), "{key:?}");
                }
                75..85 => {
                    let rows = model.rows(&order);
                    compare_walk(&mut space.iter().unwrap(), &rows, &order, &mut draw);
                    compare_ranges(&space, None, &rows, &mut draw);
                }
                85..88 if moments.len() < 3 => moments.push((spaces.snapshot(), models.clone())),
                85..93 if !moments.is_empty() => {
                    let (moment, then) = &moments[draw.below(moments.len())];
                    let Some(then) = then.get(&name) else { continue };
                    let found = space.get_at(moment, &key, <[u8]>::to_vec).unwrap();
                    assert_eq!(found, then.0.get(&key).cloned());
                    let mut iter = space.iter_at(moment).unwrap();
                    let rows = then.rows(&order);
                    compare_walk(&mut iter, &rows, &order, &mut draw);
                    compare_ranges(&space, Some(moment), &rows, &mut draw);
                    moments.truncate(draw.below(4));
                }
                93..95 => spaces.flush().unwrap(),
                95 => spaces.compact().unwrap(),
                96 => space.compact_range(Some(&key), None).unwrap(),
                97 => {
                    drop(space);
                    moments.clear();
                    spaces.close().unwrap();
                    spaces = open(&mut draw).unwrap();
                    let listed: Vec<String> =
                        spaces.list().into_iter().map(|(name, _)| name).collect();
                    assert_eq!(listed, models.keys().cloned().collect::<Vec<_>>());
                }
                _ => {}
            }
        }
        for (name, model) in &models {
            let space = spaces.get(name).unwrap();
            assert_eq!(rows(&space), model.rows(space.comparator()), "{name}");
        }
    }
}
