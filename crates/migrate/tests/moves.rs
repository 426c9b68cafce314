//! Imports from running servers into running servers, with writes meanwhile.

use crate::rows::{Rows, Value, fixture};
use crate::servers::{Running, Scripted, Talk};
use keyrack_migrate::{
    Error, Event, Method, OnConflict, Options, Phase, Report, Source, Url, export, import,
};
use keyrack_testkit::random::{Draw, seed_or};
use keyrack_vfs::RealFs;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

fn moved(source: &Source, to: &Url, options: &Options) -> Result<Report, Error> {
    let stop = AtomicBool::new(false);
    import(&RealFs, source, to, options, &stop, &mut |_, _| {})
}

/// The strings and hashes of a server.
fn rows(url: &Url) -> BTreeMap<(u32, Vec<u8>), (Value, Option<u64>)> {
    let mut rows = Rows::default();
    let stop = AtomicBool::new(false);
    export(url, 0, &stop, &mut |event| {
        rows.event(event);
        Ok(())
    })
    .unwrap();
    rows.rows
}

/// A random write to one of a few keys.
fn write(draw: &mut Draw, talk: &mut Talk) {
    let key = |draw: &mut Draw| format!("k{}", draw.below(300u64)).into_bytes();
    let (a, b) = (key(draw), key(draw));
    let word = draw.below(1000u64).to_string().into_bytes();
    let name = draw.below(30u64).to_string().into_bytes();
    let later = b"4102444800000";
    // What does not fit the type of a key is refused, and not replicated.
    let command: Vec<&[u8]> = match draw.below(22u64) {
        0 | 1 => vec![b"SET", &a, &word],
        2 => vec![b"SET", &a, &word, b"EX", b"10000"],
        3 => vec![b"DEL", &a, &b],
        4 | 5 => vec![b"HSET", &a, &name, &word],
        6 => vec![b"HDEL", &a, &name],
        7 => vec![b"INCRBY", &a, &word],
        8 => vec![b"APPEND", &a, &word],
        9 => vec![b"PEXPIREAT", &a, later],
        10 => vec![b"RENAME", &a, &b],
        11 => vec![b"COPY", &a, &b, b"REPLACE"],
        12 => vec![b"LPUSH", &a, &word],
        13 => vec![b"SETBIT", &a, &name, b"1"],
        14 => vec![b"MSET", &a, &word, &b, &name],
        15 => vec![b"PERSIST", &a],
        16 => vec![b"SADD", &a, &word],
        17 => vec![b"SUNIONSTORE", &a, &b],
        18 => vec![b"HINCRBY", &a, &name, b"3"],
        19 => vec![b"GETDEL", &a],
        20 => vec![b"PEXPIRE", &a, b"1"],
        _ => vec![b"INCRBYFLOAT", &a, b"0.5"],
    };
    talk.ask(&command);
}

/// Writes before and during an import that follows; afterwards both servers are the same.
fn check_with_writes(method: Method, seed: u64) {
    let Some(source) = Running::redis(&["--notify-keyspace-events", "KA"]) else { return };
    let Some(target) = Running::redis(&[]) else { return };
    println!("SEED={seed}");
    let mut draw = Draw::new(seed);
    let mut talk = source.connect();
    for _ in 0..2000 {
        write(&mut draw, &mut talk);
    }
    for index in 0..3000 {
        talk.run(&format!("SET plain{index} value{index}"));
    }
    let fields: Vec<Vec<u8>> = (0..40_000).map(|n| format!("field{n}").into_bytes()).collect();
    for part in fields.chunks(1000) {
        let mut args: Vec<&[u8]> = vec![b"HSET", b"large"];
        part.iter().for_each(|field| args.extend([field.as_slice(), b"value of some bytes"]));
        talk.ask(&args);
    }
    let stop = AtomicBool::new(false);
    let written = AtomicBool::new(false);
    let options = Options { method, follow: true, ..Options::default() };
    let url = source.url();
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20_000 {
                write(&mut draw, &mut talk);
            }
            talk.run("SET last done");
            written.store(true, Ordering::Relaxed);
        });
        let mut check = target.connect();
        let mut is_done = |phase| {
            phase == Phase::Changes
                && written.load(Ordering::Relaxed)
                && check.ask(&[b"GET", b"last"]) == b"done"
        };
        let source = Source::Server(url.clone());
        import(&RealFs, &source, &target.url(), &options, &stop, &mut |progress, _| {
            if is_done(progress.phase) {
                stop.store(true, Ordering::Relaxed);
            }
        })
    });
    let report = report.unwrap();
    // A key may expire between the two looks.
    let mut wanted = rows(&url);
    let mut found = rows(&target.url());
    for rows in [&mut wanted, &mut found] {
        rows.retain(|_, (_, expires_ms)| expires_ms.is_none_or(|time| time > 4_000_000_000_000));
    }
    assert!(wanted.len() > 3000, "{} rows", wanted.len());
    for (key, row) in &wanted {
        assert_eq!(found.get(key), Some(row), "{key:?} {report:?}");
    }
    assert_eq!(found.len(), wanted.len(), "{report:?}");
    assert_eq!((report.unclear.count, report.refused.count), (0, 0), "{report:?}");
    assert!(!report.is_complete(), "lists were left out");
}

#[test]
fn replication_is_exact_with_writes_meanwhile() {
    check_with_writes(Method::Replicate, seed_or(1));
}

#[test]
fn a_scan_with_notifications_is_exact_with_writes_meanwhile() {
    check_with_writes(Method::Scan, seed_or(2));
}

#[test]
fn an_import_without_writes_ends_by_itself() {
    let Some(source) = Running::redis(&[]) else { return };
    let Some(target) = Running::redis(&[]) else { return };
    let mut talk = source.connect();
    talk.run("SET a 1");
    talk.run("HSET h f v");
    talk.run("PEXPIREAT h 4102444800000");
    talk.run("RPUSH list x");
    talk.run("SELECT 1");
    talk.run("SET other 1");
    let from = Source::Server(source.url());
    let report = moved(&from, &target.url(), &Options::default()).unwrap();
    assert_eq!((report.strings, report.hashes, report.fields), (1, 1, 1));
    assert_eq!((report.left_out["list"].first[0].as_str(), report.other_databases), ("list", 1));
    assert_eq!(rows(&target.url()), rows(&source.url()));
    // By SCAN it says what it needs, and goes on without changes.
    let scan = Options { method: Method::Scan, ..Options::default() };
    let error = moved(&from, &target.url(), &scan).unwrap_err().to_string();
    assert!(error.contains("notify-keyspace-events"), "{error}");
    let scan = Options { no_changes: true, db: Some(1), ..scan };
    let report = moved(&from, &target.url(), &scan).unwrap();
    assert_eq!((report.strings, report.is_complete()), (1, true));
    assert_eq!(target.connect().ask(&[b"GET", b"other"]), b"1");
}

#[test]
fn a_server_that_refuses_replication_is_scanned() {
    let Some(source) = Running::redis(&["--notify-keyspace-events", "EA"]) else { return };
    let Some(target) = Running::redis(&[]) else { return };
    let mut talk = source.connect();
    talk.run("ACL SETUSER mover on >secret ~* &* +@all -psync");
    talk.run("SET a 1");
    let text = source.url().name().replace("redis://unix:", "redis+unix://");
    let login = text.replace("://", "://mover:secret@");
    let from = Source::Server(Url::parse(&login).unwrap());
    let report = moved(&from, &target.url(), &Options::default()).unwrap();
    assert!(report.not_replicated.unwrap().contains("NOPERM"));
    assert_eq!(report.strings, 1);
    let only = Options { method: Method::Replicate, ..Options::default() };
    let error = moved(&from, &target.url(), &only).unwrap_err().to_string();
    assert!(error.contains("PSYNC is refused"), "{error}");
    let wrong = Url::parse(&text.replace("://", "://mover:wrong@")).unwrap();
    let error = moved(&Source::Server(wrong), &target.url(), &only).unwrap_err().to_string();
    assert!(error.contains("WRONGPASS"), "{error}");
}

#[test]
fn keys_of_the_destination_are_replaced_kept_or_an_error() {
    let Some(target) = Running::redis(&[]) else { return };
    let mut talk = target.connect();
    talk.run("SET text mine");
    talk.run("HSET small mine 1");
    let file = Source::File(fixture("redis-7.0.rdb"));
    let with = |on_conflict| Options { on_conflict, db: Some(0), ..Options::default() };
    let error = moved(&file, &target.url(), &with(OnConflict::Fail)).unwrap_err();
    assert!(matches!(error, Error::Conflict(_)), "{error}");
    let report = moved(&file, &target.url(), &with(OnConflict::Keep)).unwrap();
    // The failed import has moved some of the others.
    assert!(report.kept.count >= 2, "{report:?}");
    assert_eq!(talk.ask(&[b"GET", b"text"]), b"mine");
    assert_eq!(talk.ask(&[b"HLEN", b"small"]), b":1\r\n");
    let report = moved(&file, &target.url(), &with(OnConflict::Replace)).unwrap();
    assert_eq!((report.strings, report.hashes, report.kept.count), (9, 3, 0));
    assert_eq!(talk.ask(&[b"GET", b"text"]), b"hello");
    assert_eq!(talk.ask(&[b"HLEN", b"small"]), b":10\r\n");
    // Changes could meet rows that were kept.
    let changes = Source::File(fixture("redis-7.0.aof"));
    let error = moved(&changes, &target.url(), &with(OnConflict::Keep)).unwrap_err();
    assert!(matches!(error, Error::Usage(_)), "{error}");
}

#[test]
fn an_append_only_file_becomes_what_its_server_had() {
    for name in ["redis-7.0", "redis-8.0", "valkey-9.1"] {
        let Some(target) = Running::redis(&[]) else { return };
        let file = Source::File(fixture(&format!("{name}.aof")));
        let report = moved(&file, &target.url(), &Options::default()).unwrap();
        let mut talk = target.connect();
        assert_eq!(talk.ask(&[b"GET", b"text"]), b"hello-more");
        assert_eq!(talk.ask(&[b"HGET", b"small", b"seven"]), b"10");
        assert_eq!(talk.ask(&[b"GET", b"in-transaction"]), b"2");
        assert_eq!(talk.ask(&[b"EXISTS", b"empty"]), b":0\r\n");
        assert_eq!(talk.ask(&[b"PEXPIRETIME", b"int8"]), b":4102444800000\r\n");
        assert_eq!((report.unclear.first.join(","), report.changes), ("bits".to_owned(), 7));
        let dated = if name == "redis-7.0" { 0 } else { 2 };
        assert_eq!((report.left_out_commands["LPUSH"], report.field_expiries), (1, dated));
    }
}

#[test]
fn a_source_that_was_emptied_does_not_empty_a_destination_with_rows() {
    let Some(target) = Running::redis(&[]) else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("changes.aof");
    std::fs::write(&path, "*1\r\n$8\r\nFLUSHALL\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n")
        .unwrap();
    let file = Source::File(path);
    moved(&file, &target.url(), &Options::default()).unwrap();
    let error = moved(&file, &target.url(), &Options::default()).unwrap_err();
    assert!(error.to_string().contains("FLUSHALL"), "{error}");
    assert_eq!(target.connect().ask(&[b"GET", b"a"]), b"1");
}

/// Commands as a file has them.
fn commands(lines: &[&str]) -> Vec<u8> {
    let mut text = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        text.extend(format!("*{}\r\n", words.len()).into_bytes());
        words
            .iter()
            .for_each(|word| text.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes()));
    }
    text
}

/// A file of commands, imported.
fn moved_commands(lines: &[&str], to: &Url, options: &Options) -> Result<Report, Error> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("changes.aof");
    std::fs::write(&path, commands(lines)).unwrap();
    moved(&Source::File(path), to, options)
}

#[test]
fn a_key_that_is_unclear_stays_so_under_its_new_names() {
    let Some(target) = Running::redis(&[]) else { return };
    let lines = ["SET k 1", "SETBIT k 1 1", "RENAME k j", "COPY j m", "SET other 1"];
    let report = moved_commands(&lines, &target.url(), &Options::default()).unwrap();
    assert_eq!(report.unclear.first, ["j", "k", "m"], "{report:?}");
    assert_eq!(report.changes, 4);
}

#[test]
fn a_source_that_was_emptied_leaves_other_databases_of_the_destination() {
    let Some(target) = Running::redis(&[]) else { return };
    let mut talk = target.connect();
    talk.run("SELECT 1");
    talk.run("SET mine 1");
    let lines = ["SET a 1", "FLUSHALL", "SET b 1"];
    moved_commands(&lines, &target.url(), &Options::default()).unwrap();
    assert_eq!(talk.ask(&[b"GET", b"mine"]), b"1");
    talk.run("SELECT 0");
    assert_eq!(talk.ask(&[b"DBSIZE"]), b":1\r\n");
}

#[test]
fn what_other_databases_do_to_ours_is_not_lost() {
    let Some(target) = Running::redis(&[]) else { return };
    let options = Options { db: Some(0), ..Options::default() };
    let lines = ["SELECT 2", "SET a 1", "MOVE a 0", "COPY b c REPLACE DB 0", "COPY b d DB 3"];
    let report = moved_commands(&lines, &target.url(), &options).unwrap();
    assert_eq!((report.unclear.first.join(","), report.changes), ("a,c".to_owned(), 0));
    moved_commands(&["SELECT 2", "SWAPDB 1 2"], &target.url(), &options).unwrap();
    let error = moved_commands(&["SELECT 2", "SWAPDB 1 0"], &target.url(), &options).unwrap_err();
    assert!(error.to_string().contains("SWAPDB"), "{error}");
}

#[test]
fn what_the_destination_does_not_set_is_unclear() {
    let Some(target) = Running::redis(&[]) else { return };
    let mut talk = target.connect();
    talk.run("MSET a mine c mine e mine");
    talk.run("HSET h f mine");
    let lines = ["SETNX a 1", "MSETNX b 1 c 1", "SET d 1 XX", "SET e 1 EX 100 NX", "HSETNX h f 1"];
    let report = moved_commands(&lines, &target.url(), &Options::default()).unwrap();
    assert_eq!(report.unclear.first, ["a", "b", "c", "d", "e", "h"], "{report:?}");
}

#[test]
fn a_file_of_commands_that_add_is_not_added_twice() {
    let Some(target) = Running::redis(&[]) else { return };
    let run = |lines: &[&str]| moved_commands(lines, &target.url(), &Options::default());
    run(&["INCR n", "APPEND text a"]).unwrap();
    let error = run(&["INCR n", "APPEND text a"]).unwrap_err().to_string();
    assert!(error.contains("INCR, which adds"), "{error}");
    let mut talk = target.connect();
    assert_eq!(talk.ask(&[b"GET", b"n"]), b"1");
    // What an export writes replaces rows, as often as it is read.
    let rows = ["SET a 1 PXAT 4102444800000", "MULTI", "DEL h", "HSET h f 1", "EXEC"];
    for _ in 0..2 {
        run(&rows).unwrap();
    }
    assert_eq!(talk.ask(&[b"HLEN", b"h"]), b":1\r\n");
}

#[test]
fn a_source_that_is_emptied_during_a_scan_ends_the_import() {
    let Some(source) = Running::redis(&["--notify-keyspace-events", "KA"]) else { return };
    let Some(target) = Running::redis(&[]) else { return };
    let mut talk = source.connect();
    talk.run("SET a 1");
    talk.run("FLUSHDB");
    talk.run("SET a 1");
    let (from, stop) = (Source::Server(source.url()), AtomicBool::new(false));
    let options = Options { method: Method::Scan, ..Options::default() };
    for command in ["FLUSHDB", "FLUSHALL", "SWAPDB 0 1"] {
        assert!(moved(&from, &target.url(), &options).is_ok());
        let error = import(&RealFs, &from, &target.url(), &options, &stop, &mut |_, _| {
            talk.run(command);
        });
        assert!(error.unwrap_err().to_string().contains("no notification"), "{command}");
    }
    // Without the class of sets nothing would say that a string has become a set.
    talk.run("CONFIG SET notify-keyspace-events Kg$hxe");
    let error = moved(&from, &target.url(), &options).unwrap_err().to_string();
    assert!(error.contains("notify-keyspace-events"), "{error}");
}

#[test]
fn a_scan_counts_fields_that_expire_on_their_own() {
    for (knows, wanted) in [(true, vec![None, Some(4_102_444_800_000)]), (false, vec![None; 2])] {
        let server = Scripted::start(move |name| match name {
            "PEXPIRETIME" => ":-1\r\n",
            "HPEXPIRETIME" if !knows => "-ERR unknown command\r\n",
            "HPEXPIRETIME" => "*2\r\n:-1\r\n:4102444800000\r\n",
            "DBSIZE" => ":1\r\n",
            "SCAN" => "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nh\r\n",
            "TYPE" => "+hash\r\n",
            "STRLEN" => "-WRONGTYPE no string\r\n",
            "HSCAN" => "*2\r\n$1\r\n0\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n",
            name => panic!("{name} is not asked for"),
        });
        let (mut found, mut report) = (Vec::new(), Report::default());
        export(&server.url(), 0, &AtomicBool::new(false), &mut |event| {
            report.note(&event);
            if let Event::Field { expires_ms, .. } = event {
                found.push(expires_ms);
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(found, wanted);
        assert_eq!((report.fields, report.field_expiries), (2, u64::from(knows)));
    }
}

#[test]
fn items_of_memcached_keep_flags_and_times() {
    let Some(source) = Running::memcached() else { return };
    let Some(target) = Running::memcached() else { return };
    let mut talk = source.connect();
    for index in 0..2000 {
        let text = format!("set key{index} {index} 0 5\r\n{index:05}\r\n");
        assert_eq!(talk.lines(text.as_bytes(), 1), b"STORED\r\n");
    }
    talk.lines(b"set a%b/c 7 9000 1\r\nx\r\n", 1);
    // A key with a blank and a zero, in base64.
    talk.lines(b"ms YSAA 3 b F9\r\nbin\r\n", 1);
    let from = Source::Server(source.url());
    let report = moved(&from, &target.url(), &Options::default()).unwrap();
    assert_eq!((report.strings, report.gone, report.is_complete()), (2002, 0, true));
    let mut talk = target.connect();
    assert_eq!(talk.lines(b"get key77\r\n", 3), b"VALUE key77 77 5\r\n00077\r\nEND\r\n");
    assert_eq!(talk.lines(b"mg YSAA b f v\r\n", 2), b"VA 3 f9\r\nbin\r\n");
    let text = String::from_utf8(talk.lines(b"mg a%b/c t f\r\n", 1)).unwrap();
    let ttl = text.strip_prefix("HD t").and_then(|rest| rest.split(' ').next()).unwrap();
    assert!((8000..=9001).contains(&ttl.parse::<u64>().unwrap()), "{text}");
    // Redis' protocol has no flags.
    let Some(redis) = Running::redis(&[]) else { return };
    let report = moved(&from, &redis.url(), &Options::default()).unwrap();
    assert_eq!((report.strings, report.flags_lost), (2002, 2001));
    assert_eq!(redis.connect().ask(&[b"GET", b"a \0"]), b"bin");
    // The other way, a cache gets what it can hold.
    redis.connect().run("HSET hash f v");
    let from = Source::Server(redis.url());
    let error = moved(&from, &target.url(), &Options::default()).unwrap_err();
    assert!(error.to_string().contains("--no-changes"), "{error}");
    let options = Options { no_changes: true, ..Options::default() };
    let report = moved(&from, &target.url(), &options).unwrap();
    assert_eq!((report.strings, report.left_out["hash"].count), (2002, 1));
}

#[test]
fn rows_of_a_source_without_databases_are_those_of_the_wanted_one() {
    let Some(target) = Running::redis(&[]) else { return };
    let Some(cache) = Running::memcached() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.json");
    std::fs::write(&path, "{\"key\":\"a\",\"type\":\"string\",\"value\":\"1\"}\n").unwrap();
    let options = Options { db: Some(3), ..Options::default() };
    let report = moved(&Source::File(path), &target.url(), &options).unwrap();
    assert_eq!((report.strings, report.is_complete()), (1, true));
    cache.connect().lines(b"set b 0 0 1\r\n2\r\n", 1);
    let report = moved(&Source::Server(cache.url()), &target.url(), &options).unwrap();
    assert_eq!((report.strings, report.is_complete()), (1, true));
}

#[test]
fn what_the_destination_refuses_is_named() {
    let Some(target) = Running::redis(&["--proto-max-bulk-len", "1mb"]) else { return };
    assert!(target.dir().exists());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.json");
    let big = "x".repeat(2 << 20);
    let lines = format!(
        "{{\"key\":\"a\",\"type\":\"string\",\"value\":\"1\"}}\n\
         {{\"key\":\"big\",\"type\":\"string\",\"value\":\"{big}\"}}\n"
    );
    std::fs::write(&path, lines).unwrap();
    // Redis closes a connection that announces too much.
    let error = moved(&Source::File(path), &target.url(), &Options::default()).unwrap_err();
    assert!(matches!(error, Error::Io { .. } | Error::Server { .. }), "{error}");
}
