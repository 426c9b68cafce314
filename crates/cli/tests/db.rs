//! `keyrack db`: each subcommand on a small store, and what it is given that is wrong.

use crate::support::{Lab, Outcome, parse_json, signal};

/// A store with `a` to `e`, `b` removed again, part of it in tables.
fn store() -> Lab {
    let lab = Lab::new();
    assert!(lab.run("db torture run s acks 0").exits(0).stdout.starts_with("0 writes"));
    for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
        lab.run(&format!("db put s {key} {value}")).exits(0);
    }
    lab.run("db compact s").exits(0).says("bytes before");
    lab.run("db delete s b").exits(0);
    for (key, value) in [("d", "4"), ("e", "5"), ("a", "one")] {
        lab.run(&format!("db put s {key} {value}")).exits(0);
    }
    lab
}

#[track_caller]
fn dumped(lab: &Lab, line: &str) -> String {
    lab.run(&format!("db dump {line}")).exits(0).stdout
}

#[test]
fn keys_are_put_read_and_removed() {
    let lab = store();
    assert_eq!(lab.run("db get s a").exits(0).stdout, "one\n");
    assert_eq!(lab.run("db get s d").exits(0).stdout, "4\n");
    let absent = lab.run("db get s b").exits(1);
    assert_eq!((absent.stdout.as_str(), absent.stderr.lines().count()), ("", 1));
    absent.warns("no key 'b'");
    lab.run("db delete s never-there").exits(0);
    lab.run("db put s --hex 00ff 0a").exits(0);
    assert_eq!(lab.run("db get s --hex 00FF").exits(0).stdout, "0a\n");
    lab.run("db put s --hex 00f 0a").refuses(&["'00f'", "hexadecimal", "--hex"]);
    lab.run_words(&["db", "put", "s", "-dash", "-1"]).exits(0);
    assert_eq!(lab.run("db get s -dash").exits(0).stdout, "-1\n");
}

#[test]
fn a_dump_shows_what_is_asked_for() {
    let lab = store();
    assert_eq!(dumped(&lab, "s"), "a\tone\nc\t3\nd\t4\ne\t5\n");
    assert_eq!(dumped(&lab, "s --from b --to d"), "c\t3\nd\t4\n");
    assert_eq!(dumped(&lab, "s --from c --limit 1"), "c\t3\n");
    assert_eq!(dumped(&lab, "s --to a --keys-only"), "a\n");
    assert_eq!(dumped(&lab, "s --format hex --from e"), "65\t35\n");
    assert_eq!(dumped(&lab, "s --hex --from 65"), "e\t5\n");
    assert_eq!(dumped(&lab, "s --from x"), "");
    assert_eq!(dumped(&lab, "s --limit 0"), "");
    lab.run("db put s --hex ff09 00").exits(0);
    assert_eq!(dumped(&lab, "s --from x"), "\\xff\\x09\t\\x00\n");
    let lines = dumped(&lab, "s --format json --from e");
    let lines: Vec<_> = lines.lines().map(parse_json).collect();
    assert_eq!((&lines[0]["key"], &lines[0]["value"]), (&"e".into(), &"5".into()));
    assert_eq!((&lines[1]["key_hex"], &lines[1]["value"]), (&"ff09".into(), &"\0".into()));
    lab.run("db dump s --from d --to b").refuses(&["--from", "--to"]);
    lab.run("db dump s --format jsn").refuses(&["'jsn'", "did you mean 'json'?"]);
    lab.run("db dump s --limit many").refuses(&["limit", "'many'"]);
    lab.run_unread("db dump s").exits(0);
}

/// Files show what the store does not: sequence numbers, removals, and what was replaced.
#[test]
fn a_dump_of_one_file() {
    let lab = store();
    let names = lab.names("s");
    let table = names.iter().find(|name| name.ends_with(".table")).unwrap();
    let lines = dumped(&lab, &format!("s/{table}"));
    let fields: Vec<Vec<&str>> = lines.lines().map(|line| line.split('\t').collect()).collect();
    assert!(!fields.is_empty() && fields.iter().all(|fields| fields.len() == 4), "{lines}");
    let json = dumped(&lab, &format!("s/{table} --format json --limit 1"));
    let first = parse_json(&json);
    assert_eq!((&first["key"], &first["kind"]), (&fields[0][0].into(), &fields[0][2].into()));
    assert_eq!(first["sequence"].to_string(), fields[0][1]);
    let keys = dumped(&lab, &format!("s/{table} --keys-only --from {}", fields[0][0]));
    assert_eq!(keys.lines().next().unwrap().split('\t').count(), 3);

    let manifest = names.iter().find(|name| name.starts_with("MANIFEST-")).unwrap();
    let told = dumped(&lab, &format!("s/{manifest}"));
    assert!(told.starts_with("0\tkeys are in the order keyrack.bytewise\n"), "{told}");
    assert!(told.contains(" gets table "), "{told}");

    let segments = lab.names("s/log").into_iter().filter(|name| name.ends_with(".wal"));
    let of_log: String = segments.map(|name| dumped(&lab, &format!("s/log/{name}"))).collect();
    assert!(of_log.lines().any(|line| line.starts_with("a\t") && line.ends_with("\tput\tone")));

    lab.run("db dump s/CURRENT").refuses(&["s/CURRENT", "not the name of a table"]);
    lab.write("other.table", "text");
    lab.run("db dump other.table").exits(3).warns("other.table");
    // What can be read comes first, then the damage.
    let path = lab.path("s").join(table);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[3] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    lab.run(&format!("db dump s/{table}")).exits(3).warns(table);
    let path = lab.path("s").join(manifest);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[600] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    lab.run(&format!("db dump s/{manifest}")).exits(3).warns(manifest);
}

#[test]
fn numbers_of_a_store() {
    let lab = store();
    let stat = parse_json(&lab.run("db stat s --json").exits(0).stdout);
    assert_eq!(stat["comparator"], "keyrack.bytewise");
    let whole = |value: &serde_json::Value| value.as_u64().unwrap();
    // Four keys are there; what was replaced or removed may be, too.
    let levels = stat["levels"].as_array().unwrap();
    let in_tables = levels.iter().map(|level| whole(&level["entries"])).sum::<u64>();
    let in_memory = whole(&stat["memory"]["entries"]);
    assert!((4..=7).contains(&(in_memory + in_tables)), "{stat}");
    assert!(in_memory >= 1, "the last write is in the log alone: {stat}");
    assert!(levels.iter().all(|level| whole(&level["bytes"]) > 0 && whole(&level["tables"]) > 0));
    assert!(whole(&stat["disk_bytes"]) > 0 && whole(&stat["last_sequence"]) > 0);
    let text = lab.run("db stat s").exits(0).says("keyrack.bytewise").stdout;
    assert!(text.lines().any(|line| line.starts_with("level")), "{text}");
}

#[test]
fn each_number_of_a_store_has_its_unit_and_its_meaning() {
    let lab = store();
    let metrics = parse_json(&lab.run("db stat s --metrics --json").exits(0).stdout);
    let metrics = metrics.as_array().unwrap();
    let text = lab.run("db stat s --metrics").exits(0).stdout;
    assert!(metrics.len() > 40 && text.lines().count() == metrics.len(), "{text}");
    for (metric, line) in metrics.iter().zip(text.lines()) {
        let field = |name: &str| metric[name].as_str().unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((words[0], words[2]), (field("name"), field("unit")));
        assert!(line.ends_with(field("help")) && !field("help").is_empty(), "{line}");
        assert_eq!(words[1].parse::<f64>().unwrap(), metric["value"].as_f64().unwrap(), "{line}");
        assert!(["counter", "gauge"].contains(&field("kind")), "{line}");
    }
    let memory = metrics.iter().find(|metric| metric["name"] == "memory_entries").unwrap();
    assert!(memory["value"].as_f64().unwrap() >= 1.0, "the last write is in the log alone");
    lab.run("db stat s --metrics --property leveldb.stats").refuses(&["--property"]);
}

/// Reading changes no file and waits for nobody: the store may be in use.
#[test]
fn reading_leaves_the_store_alone() {
    let lab = store();
    let mut writer = lab.start("db torture run s acks 100000000 --verbose");
    writer.wait_for("acknowledged 1");
    assert_eq!(lab.run("db get s a").exits(0).stdout, "one\n");
    lab.run("db stat s").exits(0);
    lab.run("db dump s --limit 3").exits(0);
    let locked = lab.run("db put s x y").exits(1).warns("in use by another process");
    assert_eq!(locked.stderr.lines().count(), 1);
    lab.run("db compact s").exits(1).warns("in use");
    lab.run("db destroy s --yes").exits(1).warns("in use");
    lab.run("db checkpoint s t").exits(1).warns("in use");
    writer.signal("INT");
    writer.finish().exits(130).warns("interrupted");
    let content = dumped(&lab, "s");
    assert!(content.contains("a\tone\n") && content.contains("torture/"));
    let files = |name: &str| -> Vec<(String, Vec<u8>)> {
        let names = lab.names(name).into_iter().filter(|file| file != "log");
        names
            .map(|file| (file.clone(), std::fs::read(lab.path(name).join(file)).unwrap()))
            .collect()
    };
    let before = files("s");
    lab.run("db stat s").exits(0);
    assert_eq!(dumped(&lab, "s"), content);
    assert!(files("s") == before, "reading has changed a file");
}

#[test]
fn a_checkpoint_is_a_store() {
    let lab = store();
    lab.run("db checkpoint s t").exits(0);
    lab.run("db put s a later").exits(0);
    assert_eq!(dumped(&lab, "t"), "a\tone\nc\t3\nd\t4\ne\t5\n");
    lab.run("db checkpoint s t").refuses(&["t: it is there"]);
    lab.run("db checkpoint s no/such/parent").exits(1);
    lab.run("db put t a other").exits(0);
    assert_eq!(lab.run("db get s a").exits(0).stdout, "later\n");
}

/// `db compact` wrote tables with the compression of stores without options.
#[test]
fn a_compaction_forgot_the_compression_of_the_store() {
    let lab = Lab::with_dir("data");
    lab.write("none.cnf", "[bench]\n[flodb]\ncompression = none\nblock_bytes = 1k\n");
    let bench = "bench --config none.cnf --backend flodb --store s --probe none -P num=20000 \
                 -P compression_ratio=0.1 db/fillrandom";
    lab.run(bench).exits(0);
    let stat = || {
        let out = lab.run("db stat --json s").exits(0);
        let stat: serde_json::Value = serde_json::from_str(&out.stdout).unwrap();
        let levels = stat["levels"].as_array().unwrap();
        let bytes: u64 = levels.iter().map(|level| level["bytes"].as_u64().unwrap()).sum();
        (stat["options"].clone(), bytes)
    };
    let is_plain = |options: &serde_json::Value| {
        options["compression"] == "none" && options["block_bytes"] == 1024
    };
    lab.run("db put s key value").exits(0);
    lab.run("db compact s").exits(0);
    let (options, plain) = stat();
    assert!(is_plain(&options), "{options}");
    assert!(plain > 12_000 * 100, "{plain}");
    lab.run("db compact s").exits(0);
    assert!(stat().1.abs_diff(plain) < 1000, "{plain} {}", stat().1);
    lab.run("db compact s --compression snappy,zstd:1").exits(0);
    let (options, small) = stat();
    assert_eq!(options["compression"], "snappy,zstd:1");
    assert_eq!(options["block_bytes"], 1024);
    assert!(small < plain / 2, "{small} {plain}");
    lab.run("db compact s").exits(0);
    assert!(stat().1 < plain / 2);
    lab.run("db stat s").exits(0).says("compression=snappy,zstd:1\n");
    lab.run("db compact s --compression gzip").refuses(&["--compression: 'gzip'", "zstd:LEVEL"]);
    lab.run("db compact s --compression lz4 --from a").refuses(&["--compression", "--from"]);
}

#[test]
fn a_compaction_keeps_what_is_there() {
    let lab = store();
    let before = dumped(&lab, "s");
    lab.run("db compact s --from a --to b").exits(0);
    lab.run("db compact s").exits(0);
    assert_eq!(dumped(&lab, "s"), before);
    let stat = parse_json(&lab.run("db stat s --json").exits(0).stdout);
    let entries = stat["levels"].as_array().unwrap().iter().map(|l| l["entries"].as_u64().unwrap());
    assert_eq!(entries.sum::<u64>(), 4, "replaced and removed entries are gone");
}

#[test]
fn a_store_goes_when_it_is_said_twice() {
    let lab = store();
    lab.write("s/mine.txt", "keep");
    lab.run("db destroy s").refuses(&["--yes"]);
    assert_eq!(lab.run("db get s a").exits(0).stdout, "one\n");
    lab.run("db destroy s --yes").exits(0).warns("kept");
    assert_eq!(lab.names("s"), ["mine.txt"]);
    lab.run("db destroy s --yes").refuses(&["there is no store"]);
    assert!(lab.exists("s/mine.txt"));
}

/// What is no store is said to be none, before anything is made in it.
#[test]
fn what_is_no_store_is_refused() {
    let lab = Lab::with_dir("empty");
    lab.write("file", "text");
    for command in ["stat", "compact", "dump", "destroy --yes"] {
        lab.run(&format!("db {command} absent")).refuses(&["absent", "no such directory"]);
        lab.run(&format!("db {command} empty")).refuses(&["empty", "no store"]);
    }
    lab.run("db stat file").refuses(&["file", "not a directory"]);
    lab.run("db get empty k").refuses(&["no store"]);
    lab.run("db put absent k v").refuses(&["no such directory"]);
    lab.run("db delete empty k").refuses(&["no store"]);
    lab.run("db checkpoint empty t").refuses(&["no store"]);
    assert_eq!(lab.names("empty"), [] as [&str; 0]);
    assert!(!lab.exists("absent") && !lab.exists("t"));
}

#[test]
fn command_lines_that_are_wrong() {
    let lab = Lab::new();
    lab.run("db").exits(2).warns("Usage:").warns("import-leveldb");
    lab.run("db stt s").refuses(&["'stt'", "did you mean 'stat'?"]);
    lab.run("db stat s --jsn").refuses(&["'--jsn'", "did you mean '--json'?"]);
    lab.run("db torture rnu").refuses(&["'rnu'", "did you mean 'run'?"]);
    lab.run("db stat").refuses(&["<DIR>"]);
    lab.run("db get s").refuses(&["<KEY>"]);
    lab.run("db put s k").refuses(&["<VALUE>"]);
    lab.run("db dump s --limit").refuses(&["--limit", "value"]);
    for command in ["stat", "dump", "get", "torture run", "import-leveldb"] {
        let help = lab.run(&format!("db {command} --help")).exits(0).stdout;
        assert!(help.contains("Exit status: 0 done") && help.contains("3 damage"), "{help}");
    }
}

/// A byte of each file is turned, one after another: the content comes out as it was, or the
/// status is 3 and the file is named.
#[test]
fn damage_is_said_with_its_file() {
    let lab = store();
    lab.run("db compact s").exits(0);
    let before = dumped(&lab, "s");
    let mut damaged = 0;
    for name in lab.names("s") {
        let path = lab.path("s").join(&name);
        if !path.is_file() || name == "LOCK" {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        for at in [0, bytes.len() / 3, bytes.len() - 1] {
            let mut turned = bytes.clone();
            turned[at] ^= 0x10;
            std::fs::write(&path, &turned).unwrap();
            let outcome: Outcome = lab.run("db dump s");
            if outcome.status == 0 {
                assert_eq!(outcome.stdout, before, "{name}: byte {at}");
            } else {
                damaged += 1;
                let told = outcome.exits(3);
                assert_eq!(told.stderr.lines().count(), 1, "{}", told.told());
                told.warns("byte");
            }
        }
        std::fs::write(&path, &bytes).unwrap();
    }
    assert!(damaged >= 5, "{damaged}");
    assert_eq!(dumped(&lab, "s"), before);
}

#[test]
fn a_check_tells_all_findings() {
    let lab = store();
    lab.run("db compact s").exits(0);
    lab.run("db verify s").exits(0).says("tables with 4 entries").says("sound");
    let report = parse_json(&lab.run("db verify s --json").exits(0).stdout);
    assert_eq!((&report["sound"], &report["entries"]), (&true.into(), &4.into()));
    lab.write("s/000099.table", "extra");
    lab.run("db verify s").exits(0).says("extra: s/000099.table");
    let table = lab.names("s").into_iter().find(|name| name.ends_with(".table")).unwrap();
    let path = lab.path("s").join(&table);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[5] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    lab.run("db verify s").exits(3).says(&format!("damage: s/{table}")).says("DAMAGED");
    std::fs::remove_file(lab.path("s/CURRENT")).unwrap();
    let report = parse_json(&lab.run("db verify s --json").exits(3).stdout);
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.len() >= 2, "{report}");
    assert!(findings.iter().all(|finding| !finding["what"].as_str().unwrap().is_empty()));
    lab.make_dir("empty");
    lab.run("db verify empty").refuses(&["empty", "no store"]);
    lab.run("db verify absent").refuses(&["absent", "no such directory"]);
    assert_eq!(lab.names("empty"), [] as [&str; 0]);
    let mut writer = lab.start("db torture run t acks 100000000 --verbose");
    writer.wait_for("acknowledged 1");
    lab.run("db verify t").exits(1).warns("in use");
    writer.kill();
    writer.finish();
    lab.run("db verify t").exits(0).says("sound");
}

/// Whatever is damaged, a store comes out that opens, is sound, and has nothing but what was there.
#[test]
fn a_repaired_store_can_be_used() {
    let lab = store();
    lab.run("db repair s").exits(0).says("nothing to repair");
    lab.run("db compact s").exits(0);
    lab.run("db repair empty").refuses(&["no such directory"]);
    lab.make_dir("empty");
    lab.run("db repair empty").refuses(&["no store"]);
    assert_eq!(lab.names("empty"), [] as [&str; 0]);
    lab.run("db put s z last").exits(0);
    let before = dumped(&lab, "s");
    let keys: Vec<&str> = before.lines().collect();
    for (turn, kind) in ["CURRENT", "MANIFEST-", ".table"].iter().enumerate() {
        let copy = format!("copy{turn}");
        lab.run(&format!("db checkpoint s {copy}")).exits(0);
        let name = lab.names(&copy).into_iter().find(|name| name.contains(kind)).unwrap();
        let path = lab.path(&copy).join(&name);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[3] ^= 1;
        // A file of its own: a checkpoint shares its tables.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, &bytes).unwrap();
        lab.run(&format!("db verify {copy}")).exits(3);
        let report = parse_json(&lab.run(&format!("db repair {copy} --json")).exits(0).stdout);
        assert_eq!(report["changed"], true, "{report}");
        assert!(!report["losses"].as_array().unwrap().is_empty(), "{report}");
        lab.run(&format!("db verify {copy}")).exits(0).says("sound");
        let after = dumped(&lab, &copy);
        assert!(after.lines().all(|line| keys.contains(&line)), "{name}: {after}");
        if turn < 2 {
            assert_eq!(after, before, "{name}: the tables are whole");
        }
        lab.run(&format!("db repair {copy}")).exits(0).says("nothing to repair");
        lab.run(&format!("db put {copy} new key")).exits(0);
        assert_eq!(lab.run(&format!("db get {copy} new")).exits(0).stdout, "key\n");
    }
    assert_eq!(dumped(&lab, "s"), before, "the first store is untouched");
}

#[test]
fn a_signal_ends_a_run_in_order() {
    let lab = Lab::new();
    let mut run = lab.start("db torture run s acks 100000000 --verbose --threads 3");
    run.wait_for("acknowledged 20");
    signal(run.id(), "TERM");
    run.finish().exits(130).warns("interrupted");
    lab.run("db torture verify s acks").exits(0).says("all there");
}
