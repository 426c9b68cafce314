//! What the jobs do, operation by operation, over a map.

use super::jobs;
use crate::jobs::{job, own_count};
use crate::kvtest::tests::fake::{Fake, Shared, count};
use crate::kvtest::{End, Halt, Job, Lcg, Row, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

const SMALL: &str = "num=200 value_size=20";
const FLODB_SMALL: &str = "initial=100 value_size=20";

fn small(name: &str) -> &'static str {
    if name == "flodb/mixed" { FLODB_SMALL } else { SMALL }
}

fn fake(shared: &Arc<Shared>, who: (u32, u32), params: &str) -> Fake {
    let mut client = Fake::new(shared, who).param(params);
    client.lines_max = 1_000_000;
    client.expire_after = 500;
    client
}

fn load(shared: &Arc<Shared>, name: &str, threads: u32, params: &str) -> Vec<Fake> {
    let loader = |id| {
        let mut client = fake(shared, (id, threads), params);
        job(name).unwrap().load(&mut client).unwrap();
        client
    };
    (0..threads).map(loader).collect()
}

fn run(client: &mut Fake, name: &str) -> Result<(), Halt> {
    job(name).unwrap().run(client, &mut Lcg::default())
}

/// One thread of the job with these parameters, after its load.
fn ran(name: &str, params: &str) -> Fake {
    let shared = Shared::new();
    load(&shared, name, 1, params);
    let mut client = fake(&shared, (0, 1), params);
    run(&mut client, name).unwrap();
    client
}

fn row(client: &Fake) -> &Row {
    client.row.as_ref().unwrap()
}

/// The numbers of the keys in the lines that begin with `verb`.
fn numbers(client: &Fake, verb: &str) -> Vec<u64> {
    let mut found = Vec::new();
    for line in &client.lines {
        let mut words = line.split(' ');
        if words.next() == Some(verb) {
            let key = words.next().unwrap();
            assert_eq!(key.len(), 16, "{line}");
            found.push(key.parse().unwrap());
        }
    }
    found
}

fn keys(shared: &Shared) -> Vec<Vec<u8>> {
    shared.tree.lock().unwrap().keys().cloned().collect()
}

/// Jobs that read and write no rows.
const TOOLS: [&str; 8] = [
    "db/compact",
    "db/stats",
    "db/sstables",
    "db/crc32c",
    "db/snappycomp",
    "db/snappyuncomp",
    "db/zstdcomp",
    "db/zstduncomp",
];

/// Jobs with a count of their own that read or write rows.
fn row_jobs() -> impl Iterator<Item = &'static Job> {
    jobs().iter().filter(|job| job.end == End::CountOrTime && !TOOLS.contains(&job.name))
}

#[test]
fn tools_touch_no_rows_and_say_what_they_did() {
    for name in TOOLS {
        let shared = Shared::new();
        let mut client = fake(&shared, (0, 1), SMALL);
        client.limit = 300;
        run(&mut client, name).unwrap();
        let is_codec = job(name).unwrap().load.is_none();
        let expected = if is_codec { 300 } else { 1 };
        assert_eq!((count(row(&client), "ops"), client.ops), (expected, expected), "{name}");
        assert!(shared.tree.lock().unwrap().is_empty(), "{name}");
        let bytes = is_codec.then_some(&Value::Count(300 * 4096));
        assert_eq!(row(&client).get("bytes"), bytes, "{name}");
        client.shared_stop();
        let stopped = run(&mut client, name);
        assert_eq!(stopped, Err(Halt::Stopped), "{name}");
    }
    let lines = Value::List(vec!["sstables:".to_owned(), "1 row".to_owned()]);
    assert_eq!(row(&ran("db/sstables", SMALL)).get("text"), Some(&lines));
    let ratio = |params: &str| {
        let shared = Shared::new();
        let mut client = fake(&shared, (0, 1), params);
        client.limit = 9;
        run(&mut client, "db/snappycomp").unwrap();
        let Some(Value::Text(note)) = row(&client).get("note") else { panic!("no note") };
        let percent = note.strip_prefix("(output: ").unwrap().strip_suffix("%)").unwrap();
        percent.parse::<f64>().unwrap()
    };
    let (half, tenth) = (ratio(SMALL), ratio("num=200 compression_ratio=0.1"));
    assert!((40.0..70.0).contains(&half) && tenth < 30.0, "{half} {tenth}");
}

/// A store of threads has one text.
#[test]
fn one_thread_asks_for_a_property() {
    let shared = Shared::new();
    let mut client = fake(&shared, (1, 2), SMALL);
    run(&mut client, "db/stats").unwrap();
    assert!(client.row.is_none());
    let refused = super::tools::property(&mut fake(&shared, (0, 1), SMALL), "unknown");
    assert_eq!(refused, Err(Halt::failed("this engine has no property 'unknown'")));
}

#[test]
fn every_job_does_its_count_and_says_so() {
    for job in row_jobs() {
        let client = ran(job.name, &format!("{SMALL} reads=150"));
        let row = row(&client);
        let expected = match job.name {
            "db/fillsync" | "db/fill100K" | "db/readrandomsmall" => 1,
            name if name.contains("fill") || name.contains("delete") => 200,
            "db/overwrite" | "db/mixed" => 200,
            _ => 150,
        };
        assert_eq!(count(row, "ops"), expected, "{}", job.name);
        for name in ["begin_s", "end_s"] {
            assert!(matches!(row.get(name), Some(Value::Number(_))), "{}: {row:?}", job.name);
        }
        let bytes = ["fill", "overwrite", "readseq", "readreverse"];
        assert_eq!(
            row.get("bytes").is_some(),
            bytes.iter().any(|part| job.name.contains(part)),
            "{}",
            job.name
        );
        if row.get("bytes").is_some() {
            let entry = if job.name == "db/fill100K" { 100_016 } else { 36 };
            assert_eq!(count(row, "bytes"), expected * entry, "{}", job.name);
        }
    }
}

#[test]
fn keys_have_the_prefix_that_is_said() {
    for (fill, batch) in [("db/fillseq", 1), ("db/fillrandom", 7)] {
        let shared = Shared::new();
        let params = format!("num=200 value_size=20 key_prefix=5 batch={batch}");
        let mut client = fake(&shared, (0, 1), &params);
        run(&mut client, fill).unwrap();
        let keys = keys(&shared);
        assert!(keys.iter().all(|key| key.len() == 21 && key.starts_with(b"aaaaa0")), "{keys:?}");
        assert_eq!(count(row(&client), "bytes"), 200 * 41);
    }
    let client = ran("db/readrandom", "num=200 value_size=20 key_prefix=1007 reads=150");
    assert_eq!(count(row(&client), "found"), 150);
}

#[test]
fn batches_are_of_a_thousand_and_ordered_seeks_ascend() {
    let shared = Shared::new();
    let mut client = fake(&shared, (0, 1), "num=2500 value_size=20");
    client.expire_after = u64::MAX;
    run(&mut client, "db/fillbatch").unwrap();
    assert_eq!(numbers(&client, "put"), (0..2500).collect::<Vec<u64>>());
    assert_eq!(count(row(&client), "ops"), 2500);
    let client = ran("db/seekordered", SMALL);
    let sought = numbers(&client, "scan");
    assert_eq!(sought.len(), 200, "{:?}", &client.lines[..9]);
    let steps = sought.windows(2).map(|pair| (pair[1] + 200 - pair[0]) % 200);
    assert!(steps.into_iter().all(|step| step < 100), "{sought:?}");
}

#[test]
fn a_limit_and_the_end_of_the_time_leave_less() {
    let of_few = |job: &Job| job.syncs || matches!(job.name, "db/fill100K" | "db/readrandomsmall");
    for job in row_jobs().filter(|job| !of_few(job)) {
        let shared = Shared::new();
        load(&shared, job.name, 1, SMALL);
        let mut client = fake(&shared, (0, 1), SMALL);
        client.limit = 7;
        run(&mut client, job.name).unwrap();
        assert_eq!(count(row(&client), "ops"), 7, "{}", job.name);
        let is_walk = job.name.contains("seq") && job.load.is_some();
        if is_walk || job.name.contains("reverse") || job.name == "db/fillbatch" {
            continue;
        }
        shared.rearm();
        let mut client = fake(&shared, (0, 1), SMALL);
        client.expire_after = 11;
        run(&mut client, job.name).unwrap();
        assert_eq!((count(row(&client), "ops"), client.ops), (11, 11), "{}", job.name);
    }
}

#[test]
fn every_parameter_is_asked_for_and_no_other() {
    for job in jobs() {
        let shared = Shared::new();
        let mut client = fake(&shared, (0, 1), small(job.name));
        job.load(&mut client).unwrap();
        run(&mut client, job.name).unwrap();
        let asked = client.asked.borrow();
        for param in job.params {
            assert!(asked.contains(*param), "{} never asks for {param}", job.name);
        }
    }
}

#[test]
fn what_a_parameter_cannot_be_is_refused_before_anything_is_written() {
    for (name, params, expected) in [
        ("db/fillseq", "num=0", "parameter num: '0' is not a whole number from 1 to 1000"),
        ("db/fillseq", "num=1e6", "parameter num: '1e6' is not a whole number"),
        ("db/fillrandom", "batch=0", "parameter batch: '0'"),
        ("db/readrandom", "reads=-1", "parameter reads: '-1'"),
        ("db/readrandom", "fill=all", "parameter fill: 'all' is not auto, seq, random or none"),
        ("db/mixed", "writes=101", "parameter writes: '101' is not a whole number from 0 to 100"),
        ("db/seekrandom", "nexts=x", "parameter nexts: 'x'"),
        ("db/overwrite", "compression_ratio=2", "parameter compression_ratio: '2' is not a number"),
        ("db/overwrite", "value_size=100000000", "parameter value_size: '100000000'"),
        ("flodb/mixed", "updates=101", "parameter updates: '101'"),
        ("flodb/mixed", "skew=0", "parameter skew: '0' is not a percentage"),
        ("flodb/mixed", "skew=-1", "parameter skew: '-1'"),
        ("flodb/mixed", "scans=2", "parameter scans: '2' is not yes or no"),
        ("flodb/mixed", "wait=-1", "parameter wait: '-1'"),
        ("flodb/mixed", "initial=0", "parameter initial: '0'"),
    ] {
        let shared = Shared::new();
        let mut client = fake(&shared, (0, 1), params);
        let job = job(name).unwrap();
        let result = job.load(&mut client).and_then(|()| job.run(&mut client, &mut Lcg::default()));
        let Err(Halt::Failed(why)) = result else { panic!("{name} {params} ran") };
        assert!(why.contains(expected), "{params}: {why}");
        assert!(keys(&shared).is_empty(), "{name} {params}");
    }
}

#[test]
fn fills_put_every_key_in_order_or_drawn_ones() {
    let client = ran("db/fillseq", SMALL);
    assert_eq!(numbers(&client, "put"), (0..200).collect::<Vec<_>>());
    let batched = ran("db/fillseq", &format!("{SMALL} batch=32"));
    assert_eq!(numbers(&batched, "put"), (0..200).collect::<Vec<_>>());
    assert_eq!(batched.lines, client.lines, "the same values too");
    let drawn = numbers(&ran("db/fillrandom", SMALL), "put");
    let distinct: BTreeSet<u64> = drawn.iter().copied().collect();
    // Of 200 draws from 200 keys, 126 differ on average, give or take 6.
    assert!((100..150).contains(&distinct.len()), "{}", distinct.len());
    assert!(distinct.iter().all(|number| *number < 200));
    let synced = ran("db/fillsync", "num=5000 value_size=20");
    assert_eq!(numbers(&synced, "putsync").len(), 5);
    assert!(numbers(&synced, "putsync").iter().all(|number| *number < 5000));
}

/// The draws are part of what a seed means; these were recorded.
#[test]
fn draws_are_the_same_for_a_seed_and_differ_between_threads_and_places() {
    let first = |seed: u64, id: u32, place: u32| {
        let mut client = fake(&Shared::new(), (id, 4), "num=1000000 reads=5");
        (client.seed, client.place) = (seed, place);
        run(&mut client, "db/readrandom").unwrap();
        numbers(&client, "get")
    };
    assert_eq!(first(1, 0, 0), RECORDED);
    let all: BTreeSet<Vec<u64>> =
        [first(1, 0, 0), first(2, 0, 0), first(1, 1, 0), first(1, 0, 1)].into();
    assert_eq!(all.len(), 4);
}

const RECORDED: [u64; 5] = [959_100, 153_923, 615_524, 972_691, 335_870];

#[test]
fn a_load_puts_every_key_once_whatever_the_threads() {
    for threads in [1, 2, 3, 7] {
        for fill in ["", " fill=seq", " fill=random"] {
            let shared = Shared::new();
            let params = format!("{SMALL}{fill}");
            let clients = load(&shared, "db/readrandom", threads, &params);
            let mut all: Vec<u64> = clients.iter().flat_map(|c| numbers(c, "put")).collect();
            let is_sorted = clients.iter().all(|client| numbers(client, "put").is_sorted());
            assert_eq!(is_sorted, fill.contains("seq"), "{fill} {threads}");
            all.sort_unstable();
            assert_eq!(all, (0..200).collect::<Vec<_>>(), "{fill} {threads}");
        }
    }
}

#[test]
fn a_store_with_rows_is_left_as_it_is_unless_told_otherwise() {
    for (name, params) in [("db/readrandom", SMALL), ("flodb/mixed", FLODB_SMALL)] {
        for (fill, is_first, puts) in [
            ("", true, true),
            (" fill=auto", false, false),
            ("", false, false),
            (" fill=seq", false, true),
            (" fill=none", true, false),
        ] {
            let shared = Shared::new();
            let mut client = fake(&shared, (0, 1), &format!("{params}{fill}"));
            client.first = is_first;
            job(name).unwrap().load(&mut client).unwrap();
            assert_eq!(client.ops > 0, puts, "{name}{fill} {is_first}");
        }
    }
}

#[test]
fn reads_find_what_is_there() {
    let found = |name: &str, params: &str| {
        let client = ran(name, params);
        (count(row(&client), "reads"), count(row(&client), "found"))
    };
    assert_eq!(found("db/readrandom", SMALL), (200, 200));
    assert_eq!(found("db/readhot", SMALL), (200, 200));
    assert_eq!(found("db/readrandomsmall", SMALL), (1, 1));
    assert_eq!(found("db/seekrandom", SMALL), (200, 200));
    assert_eq!(found("db/readmissing", SMALL), (200, 0));
    assert_eq!(found("db/readrandom", &format!("{SMALL} fill=none")), (200, 0));
    assert_eq!(found("db/seekrandom", &format!("{SMALL} fill=none")), (200, 0));
    let hot = ran("db/readhot", SMALL);
    assert!(numbers(&hot, "get").iter().all(|number| *number < 2));
    let missing = ran("db/readmissing", SMALL);
    assert!(missing.lines.iter().all(|line| line.split(' ').nth(1).unwrap().len() == 15));
    let seeks = ran("db/seekrandom", SMALL);
    assert!(seeks.lines.iter().all(|line| line.starts_with("scan ") && line.ends_with(" 11")));
    let seeks = ran("db/seekrandom", &format!("{SMALL} nexts=0"));
    assert!(seeks.lines.iter().all(|line| line.ends_with(" 1")));
}

/// A seek that lands on a later key has not found the one that it looked for.
#[test]
fn a_seek_between_two_keys_is_not_found() {
    let shared = Shared::new();
    shared.tree.lock().unwrap().insert(b"0000000000000199".to_vec(), b"v".to_vec());
    let mut client = fake(&shared, (0, 1), &format!("{SMALL} reads=2000"));
    client.expire_after = u64::MAX;
    run(&mut client, "db/seekrandom").unwrap();
    let found = count(row(&client), "found");
    // One key of 200, 2000 draws.
    assert!((1..40).contains(&found), "{found}");
}

#[test]
fn walks_go_over_all_rows_or_as_many_as_are_asked_for() {
    for name in ["db/readseq", "db/readreverse"] {
        let client = ran(name, SMALL);
        assert_eq!((count(row(&client), "ops"), client.ops), (200, 1), "{name}");
        let client = ran(name, &format!("{SMALL} reads=1000"));
        assert_eq!(count(row(&client), "ops"), 200, "{name}");
        let client = ran(name, &format!("{SMALL} reads=3"));
        assert_eq!((count(row(&client), "ops"), count(row(&client), "bytes")), (3, 108));
    }
}

#[test]
fn deletes_take_every_key_or_drawn_ones() {
    for batch in ["", " batch=32"] {
        let params = format!("{SMALL}{batch}");
        let client = ran("db/deleteseq", &params);
        assert!(keys(&client.shared).is_empty());
        let client = ran("db/deleterandom", &params);
        let left = keys(&client.shared).len();
        assert!((50..100).contains(&left), "{left}");
        assert_eq!(count(row(&client), "ops"), 200);
    }
}

#[test]
fn the_writer_beside_the_readers_goes_on_until_they_are_through() {
    let shared = Shared::new();
    load(&shared, "db/readwhilewriting", 2, SMALL);
    let mut writer = fake(&shared, (2, 2), SMALL);
    writer.alone_after = 1234;
    writer.expire_after = 10;
    run(&mut writer, "db/readwhilewriting").unwrap();
    assert_eq!((writer.ops, count(row(&writer), "writes")), (1234, 1234));
    assert_eq!(row(&writer).get("ops"), None, "its puts are not the job's operations");
    assert_eq!(numbers(&writer, "put").len(), 1234);
    shared.rearm();
    let mut reader = fake(&shared, (1, 2), SMALL);
    run(&mut reader, "db/readwhilewriting").unwrap();
    assert_eq!((count(row(&reader), "ops"), count(row(&reader), "found")), (200, 200));
    assert_eq!(job("db/readwhilewriting").unwrap().beside, 1);
}

#[test]
fn a_mix_has_the_share_of_writes_that_it_is_told() {
    for (writes, share) in
        [("", 0.5), (" writes=0", 0.0), (" writes=100", 1.0), (" writes=10", 0.1)]
    {
        let client = {
            let params = format!("num=10000 value_size=20 fill=none{writes}");
            let mut client = fake(&Shared::new(), (0, 1), &params);
            client.expire_after = u64::MAX;
            run(&mut client, "db/mixed").unwrap();
            client
        };
        let (reads, puts) = (count(row(&client), "reads"), count(row(&client), "writes"));
        assert_eq!((reads + puts, count(row(&client), "ops")), (10_000, 10_000));
        let sigma = f64::sqrt(10_000.0 * share * (1.0 - share));
        assert!((puts as f64 - 10_000.0 * share).abs() <= 4.0 * sigma, "{writes}: {puts}");
    }
}

/// Keys of `flodb/mixed` as numbers, by verb.
fn numbers_of(client: &Fake, verb: &str) -> Vec<u64> {
    let keys = |line: &String| -> Option<u64> {
        let key = line.strip_prefix(verb)?.strip_prefix(' ')?.split(' ').next()?;
        Some(unescaped(key))
    };
    client.lines.iter().filter_map(keys).collect()
}

fn unescaped(key: &str) -> u64 {
    let (mut number, mut letters) = (0u64, key.chars());
    while let Some(letter) = letters.next() {
        let byte = match letter {
            '\\' => {
                let code: String = letters.by_ref().skip(1).take(2).collect();
                u64::from_str_radix(&code, 16).unwrap()
            }
            letter => letter as u64,
        };
        number = number << 8 | byte;
    }
    number
}

fn flodb(params: &str, ops: u64) -> Fake {
    let shared = Shared::new();
    let params = format!("{FLODB_SMALL} {params}");
    load(&shared, "flodb/mixed", 1, &params);
    let mut client = fake(&shared, (0, 2), &params);
    client.expire_after = ops;
    run(&mut client, "flodb/mixed").unwrap();
    client
}

#[test]
fn the_fill_of_flodb_is_the_upper_half_without_its_last() {
    let shared = Shared::new();
    let clients = load(&shared, "flodb/mixed", 1, &format!("{FLODB_SMALL} fill=seq wait=2.5"));
    // 100 rounds up to 128, the range is 256.
    assert_eq!(numbers_of(&clients[0], "put"), (129..256).rev().collect::<Vec<_>>());
    assert_eq!(clients[0].paused_s, 2.5);
    let shared = Shared::new();
    let clients = load(&shared, "flodb/mixed", 3, FLODB_SMALL);
    let mut all: Vec<u64> = clients.iter().flat_map(|c| numbers_of(c, "put")).collect();
    assert!(!all.is_sorted());
    all.sort_unstable();
    assert_eq!(all, (129..256).collect::<Vec<_>>());
    for (params, keys_of_range) in
        [("initial=64 range=1000", 1024), ("initial=64 range=10", 128), ("initial=1", 2)]
    {
        let shared = Shared::new();
        let clients = load(&shared, "flodb/mixed", 1, &format!("{params} value_size=1"));
        assert_eq!(numbers_of(&clients[0], "put").len(), keys_of_range / 2 - 1, "{params}");
    }
}

#[test]
fn flodb_draws_the_shares_of_its_updates() {
    for updates in [0, 1, 50, 100] {
        let client = flodb(&format!("updates={updates}"), 20_000);
        let row = row(&client);
        let (searches, inserts, removes) =
            (count(row, "reads"), count(row, "inserts"), count(row, "removes"));
        assert_eq!(searches + inserts + removes, 20_000);
        assert_eq!(count(row, "ops"), 20_000);
        let share = f64::from(updates) / 200.0;
        let sigma = (20_000.0 * share * (1.0 - share)).sqrt();
        for updates in [inserts, removes] {
            assert!((updates as f64 - 20_000.0 * share).abs() <= 4.0 * sigma, "{row:?}");
        }
    }
    let row = flodb("", 20_000);
    let found = count(self::row(&row), "found");
    // The upper half of the keys but one.
    assert!((9_500..10_500).contains(&found), "{found}");
    let drawn = numbers_of(&row, "get");
    assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&1), Some(&256)));
}

#[test]
fn a_skew_gives_the_middle_most_of_the_draws() {
    let client = flodb("skew=10", 20_000);
    let drawn = numbers_of(&client, "get");
    // 26 of the 256 keys around the middle get 90 % of the draws, and their part of the rest.
    let middle = drawn.iter().filter(|number| (116..=141).contains(*number)).count();
    let share = middle as f64 / drawn.len() as f64;
    assert!((0.89..0.93).contains(&share), "{share}");
    assert!(drawn.iter().all(|number| (1..=256).contains(number)));
    let all = flodb("skew=100", 2_000);
    let drawn: BTreeSet<u64> = numbers_of(&all, "get").into_iter().collect();
    assert!(drawn.len() > 250, "{}", drawn.len());
}

#[test]
fn scans_count_a_hundred_and_find_what_they_see() {
    let client = flodb("scans=yes", 500);
    assert_eq!((count(row(&client), "reads"), count(row(&client), "ops")), (50_000, 50_000));
    let found = count(row(&client), "found");
    assert!(found > 0 && found < 50_000, "{found}");
    let ranges = client.lines.iter().filter(|line| line.starts_with("range "));
    for line in ranges {
        let mut ends = line.split(' ').skip(1).map(unescaped);
        assert_eq!(ends.next().unwrap() + 100, ends.next().unwrap(), "{line}");
    }
}

/// The clock of the client shows a microsecond for each operation.
#[test]
fn the_last_of_ten_seconds_is_a_burst_of_updates() {
    let shared = Shared::new();
    let mut client = fake(&shared, (0, 1), "initial=100 value_size=20 bursts=yes");
    (client.ops, client.expire_after) = (8_999_990, 9_000_010);
    run(&mut client, "flodb/mixed").unwrap();
    let verbs: Vec<&str> =
        client.lines.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(verbs.len(), 20, "{verbs:?}");
    assert!(verbs[..10].iter().all(|verb| *verb == "get"), "{verbs:?}");
    assert!(verbs[10..].iter().all(|verb| *verb != "get"), "{verbs:?}");
}

#[test]
fn the_time_of_every_operation_is_added_to_its_kind() {
    let shared = Shared::new();
    load(&shared, "flodb/mixed", 1, FLODB_SMALL);
    let mut client = fake(&shared, (0, 1), "initial=100 value_size=20 updates=50 latency=yes");
    run(&mut client, "flodb/mixed").unwrap();
    let row = row(&client);
    let micros = |name: &str| match row.get(name) {
        Some(Value::Number(seconds)) => (seconds * 1e6).round() as u64,
        other => panic!("{name} is {other:?}"),
    };
    // The clock of the client goes on by a microsecond with each operation.
    let (found, reads) = (count(row, "found"), count(row, "reads"));
    assert_eq!((micros("found_s"), micros("missed_s")), (found, reads - found));
    assert_eq!(micros("inserts_s"), count(row, "inserts"));
    assert_eq!(micros("removes_s"), count(row, "removes"));
}

#[test]
fn one_writer_writes_and_the_others_read() {
    let writer = flodb("one_writer=yes updates=50", 300);
    assert_eq!((count(row(&writer), "inserts"), count(row(&writer), "reads")), (300, 0));
    let mut reader = fake(&Shared::new(), (1, 2), &format!("{FLODB_SMALL} one_writer=1"));
    run(&mut reader, "flodb/mixed").unwrap();
    assert_eq!((count(row(&reader), "inserts"), count(row(&reader), "reads")), (0, 500));
    assert_eq!(count(row(&reader), "removes"), 0);
}

#[test]
fn jobs_with_counts_of_their_own_are_bounded_by_them() {
    let of = |names: &[&str], params: &[(&str, &'static str)]| {
        let jobs: Vec<_> = names.iter().map(|name| job(name).unwrap()).collect();
        let given = |name: &str| params.iter().find(|p| p.0 == name).map(|p| p.1);
        own_count(&jobs, given)
    };
    assert_eq!(of(&["db/fillseq"], &[]), Some(1_000_000));
    assert_eq!(of(&["db/fillseq", "db/readrandom"], &[("num", "5")]), Some(5));
    assert_eq!(of(&["db/readrandom"], &[("num", "5"), ("reads", "9")]), Some(9));
    assert_eq!(of(&["db/readrandom"], &[("num", "x")]), Some(1_000_000));
    assert_eq!(of(&["db/readrandom", "rw1"], &[]), None);
    assert_eq!(of(&["flodb/mixed"], &[]), None);
    assert_eq!(of(&[], &[]), None);
}

/// A stop ends every job at its next operation, its load too.
#[test]
fn a_stop_ends_every_job() {
    for job in jobs() {
        let shared = Shared::new();
        let mut client = fake(&shared, (0, 1), small(job.name));
        client.shared_stop();
        assert_eq!(job.run(&mut client, &mut Lcg::default()), Err(Halt::Stopped), "{}", job.name);
        if job.has_load() {
            assert_eq!(job.load(&mut client), Err(Halt::Stopped), "{}", job.name);
        }
    }
}
