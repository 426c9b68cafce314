//! `keyrack backup` and `keyrack restore`: stores to repositories and back, killed, damaged, and
//! with what is wrong on the command line.

use crate::support::{Lab, Running, parse_json};
use keyrack_testkit::random::{Draw, seed_or};

/// A store of which every acknowledged write is in the file `acks`.
fn store() -> Lab {
    let lab = Lab::new();
    lab.run("db torture run s acks 300 --seed 1").exits(0);
    lab
}

fn ids(lab: &Lab) -> Vec<String> {
    let listed = parse_json(&lab.run("backup b --list --json").exits(0).stdout);
    let ids = listed.as_array().unwrap().iter();
    ids.map(|info| info["id"].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn is_whole(lab: &Lab, dir: &str) {
    lab.run(&format!("db verify {dir}")).exits(0).says("sound");
    lab.run(&format!("db torture verify {dir} acks")).exits(0).says("all there");
}

#[test]
fn a_store_comes_back() {
    let lab = store();
    let saved = lab.run("backup s b").exits(0).says("are new");
    assert_eq!((saved.stdout.lines().count(), saved.stderr.as_str()), (1, ""));
    let restored = lab.run("restore b r").exits(0).says("r: the store of 2");
    assert_eq!((restored.stdout.lines().count(), restored.stderr.as_str()), (1, ""));
    is_whole(&lab, "r");
    // The first one stays as it was.
    is_whole(&lab, "s");
    lab.run("db put s later 1").exits(0);
    let again = parse_json(&lab.run("backup s b --json").exits(0).stdout);
    let first = parse_json(&lab.run("backup b --list --json").exits(0).stdout);
    assert!(again["copied_bytes"].as_u64() < again["bytes"].as_u64(), "{again}");
    assert_eq!(again["id"], first[1]["id"]);
    lab.run("restore b newest").exits(0);
    assert_eq!(lab.run("db get newest later").exits(0).stdout, "1\n");
    lab.run(&format!("restore b oldest --id {}", ids(&lab)[0])).exits(0);
    lab.run("db get oldest later").exits(1);
    is_whole(&lab, "oldest");
    let report = parse_json(&lab.run("backup b --verify --json").exits(0).stdout);
    assert_eq!((&report["sound"], &report["backups"]), (&true.into(), &2.into()));
}

#[test]
fn key_spaces_come_along() {
    let lab = Lab::new();
    lab.run("db torture run plain acks 1").exits(0);
    // No command creates a space, but a test of the library has left a store with some.
    let dir = lab.path("s");
    let options = keyrack_flodb::Options::default();
    let spaces = keyrack_flodb::Spaces::open(&dir, options, &[]).unwrap();
    let users = spaces.create("users", &keyrack_flodb::Comparator::Bytewise).unwrap();
    users.put(b"ada", b"36").unwrap();
    drop(users);
    spaces.close().unwrap();
    lab.run("backup s b").exits(0);
    lab.run("restore b r").exits(0);
    assert_eq!(lab.run("db get r ada --space users").exits(0).stdout, "36\n");
}

/// A program that has the store has shipped its log.
#[test]
fn moments_between_backups_come_back() {
    use keyrack_backup::{DirTarget, Repository, Shipper};
    let lab = Lab::new();
    let options = keyrack_flodb::Options::default();
    let db = keyrack_flodb::Db::open(lab.path("s"), options.clone()).unwrap();
    db.put(b"key", b"0").unwrap();
    db.close().unwrap();
    lab.run("backup s b").exits(0);
    let db = keyrack_flodb::Db::open(lab.path("s"), options).unwrap();
    let target = DirTarget::new(std::sync::Arc::new(keyrack_vfs::RealFs), lab.path("b"));
    let repository = Repository::open(std::sync::Arc::new(target)).unwrap();
    let mut shipper = Shipper::begin(&repository, &db).unwrap();
    let mut positions: Vec<u64> = Vec::new();
    for value in ["1", "2", "3"] {
        db.put(b"key", value.as_bytes()).unwrap();
        positions.push(db.position().into());
    }
    let last = shipper.ship().unwrap().position;
    drop(shipper);
    db.close().unwrap();
    for (position, value) in positions.iter().zip(1..) {
        lab.run(&format!("restore b r{value} --at {position}")).exits(0).says("the store of pos");
        let read = lab.run(&format!("db get r{value} key")).exits(0).stdout;
        assert_eq!(read, format!("{value}\n"));
    }
    lab.run(&format!("restore b no --at {}", last + 1))
        .exits(2)
        .warns(&format!("the last moment that was shipped is position {last}"));
    lab.run("restore b no --at 2001-01-01T00:00:00Z").exits(2).warns("moment");
    lab.run("restore b no --at noon").exits(2).warns("neither a position nor a time");
    assert!(!lab.path("no").exists());
    lab.run("backup b --list").exits(0).says(&format!(" to {last}"));
    let listed = parse_json(&lab.run("backup b --list --json").exits(0).stdout);
    assert_eq!(listed[0]["moments"]["to_position"].as_u64(), Some(last));
    lab.run("backup b --verify").exits(0).says("1 part of a log").says("sound");
    let json = parse_json(&lab.run(&format!("restore b j --at {last} --json")).exits(0).stdout);
    assert_eq!((&json["batches"], &json["restored_position"]), (&3.into(), &last.into()));
    // A new backup needs nothing of it.
    lab.run("backup s b --keep 1").exits(0);
    lab.run("backup b --verify").exits(0).says("sound");
}

/// `--log` in cron: a backup if there is none, then what the log has since the last time.
#[test]
fn the_log_of_a_closed_store_is_shipped() {
    let lab = Lab::new();
    lab.run("db torture run s acks 1").exits(0);
    let put = |value: u32| drop(lab.run(&format!("db put s key {value}")).exits(0));
    put(0);
    let first = lab.run("backup s b --log").exits(0).says("are new").says("log: up to position");
    assert_eq!((first.stdout.lines().count(), first.stderr.as_str()), (2, ""));
    let mut moments = Vec::new();
    for value in 1..4 {
        put(value);
        let told = parse_json(&lab.run("backup s b --log --json").exits(0).stdout);
        let shipped = &told["shipped"];
        assert!(told["id"].is_null() && shipped["parts"] == 1, "{told}");
        let time = shipped["time"].as_str().unwrap().to_owned();
        moments.push((value, shipped["position"].as_u64().unwrap(), time));
    }
    // Nothing is new.
    let idle = parse_json(&lab.run("backup s b --log --json").exits(0).stdout);
    assert_eq!((&idle["shipped"]["parts"], &idle["shipped"]["time"]), (&0.into(), &().into()));
    assert_eq!(idle["shipped"]["position"].as_u64(), Some(moments[2].1));
    let restored = |at: &str, value: u32| {
        lab.run(&format!("restore b r --at {at}")).exits(0).says("the store of position");
        assert_eq!(lab.run("db get r key").exits(0).stdout, format!("{value}\n"));
        lab.run("db verify r").exits(0).says("sound");
        std::fs::remove_dir_all(lab.path("r")).unwrap();
    };
    for (value, position, time) in &moments {
        restored(&position.to_string(), *value);
        restored(time, *value);
    }
    lab.run("backup b --verify").exits(0).says("1 backup,").says("parts of logs").says("sound");
    // A flush takes what it has from the log of a store that keeps none.
    put(4);
    lab.run("db compact s").exits(0);
    put(5);
    let gap = lab.run("backup s b --log").exits(0).says("are new").warns("made a backup");
    assert_eq!((gap.stdout.lines().count(), gap.stderr.lines().count()), (2, 1), "{}", gap.told());
    put(6);
    let last = parse_json(&lab.run("backup s b --log --keep 1 --json").exits(0).stdout);
    assert_eq!((&last["shipped"]["parts"], &last["deleted"]["backups"]), (&1.into(), &1.into()));
    restored(&last["shipped"]["position"].to_string(), 6);
    lab.run("backup b --verify").exits(0).says("1 backup,").says("1 part of a log").says("sound");
    lab.run(&format!("restore b no --at {}", moments[0].1)).refuses(&["the first moment is"]);
}

/// A store keeps how much of its log is kept, and the commands keep that much.
#[test]
fn a_log_that_a_program_keeps_is_shipped_over_flushes() {
    use keyrack_flodb::{Comparator, Counter, Options, Spaces};
    let lab = Lab::new();
    let keeping = || Options::new().log_retention_bytes(64 << 20).merge_operator(Counter);
    let spaces = Spaces::open(lab.path("s"), keeping(), &[]).unwrap();
    let visits = spaces.create("visits", &Comparator::Bytewise).unwrap();
    visits.put(b"page", &0_u64.to_le_bytes()).unwrap();
    drop(visits);
    spaces.close().unwrap();
    lab.run("backup s b --log").exits(0).says("are new");
    let spaces = Spaces::open(lab.path("s"), keeping(), &[]).unwrap();
    let visits = spaces.get("visits").unwrap();
    visits.merge(b"page", &3_u64.to_le_bytes()).unwrap();
    spaces.flush().unwrap();
    let middle = spaces.position();
    visits.merge(b"page", &4_u64.to_le_bytes()).unwrap();
    spaces.create("more", &Comparator::Bytewise).unwrap().put(b"k", b"v").unwrap();
    spaces.drop_space("more").unwrap();
    drop(visits);
    spaces.close().unwrap();
    lab.run("db compact s").exits(0);
    lab.run("db put s key value --space visits").exits(0);
    let told = lab.run("backup s b --log").exits(0).says("log: up to position");
    assert_eq!((told.stdout.lines().count(), told.stderr.as_str()), (1, ""), "{}", told.told());
    lab.run(&format!("restore b r --at {middle}")).exits(0);
    let page =
        |dir: &str| lab.run(&format!("db dump {dir} --space visits --format hex")).exits(0).stdout;
    assert!(page("r").contains("0300000000000000"), "{}", page("r"));
    let json = parse_json(&lab.run("backup s b --log --json").exits(0).stdout);
    lab.run(&format!("restore b all --at {}", json["shipped"]["position"])).exits(0);
    assert!(page("all").contains("0700000000000000"), "{}", page("all"));
    assert_eq!(lab.run("db get all key --space visits").exits(0).stdout, "value\n");
    lab.run("db dump all --space more").exits(2).warns("there is no key space 'more'");
    lab.run("db verify all").exits(0).says("sound");
    lab.run("db compact all").exits(0);
}

#[test]
fn old_backups_are_deleted() {
    let lab = store();
    for n in 0..4 {
        lab.run(&format!("db put s key {n}")).exits(0);
        lab.run("backup s b").exits(0);
    }
    let all = ids(&lab);
    lab.run(&format!("backup b --delete {}", all[1])).exits(0).says("deleted 1 backup,");
    assert_eq!(ids(&lab), [all[0].as_str(), &all[2], &all[3]]);
    lab.run("db put s key 4").exits(0);
    lab.run("backup s b --keep 2").exits(0).says("deleted 2 backups,");
    assert_eq!(ids(&lab).len(), 2);
    let deleted = parse_json(&lab.run("backup b --keep 1 --json").exits(0).stdout);
    assert_eq!(deleted["backups"], 1);
    lab.run("backup b --verify").exits(0).says("1 backup,").says(": sound");
    lab.run("restore b r").exits(0);
    assert_eq!(lab.run("db get r key").exits(0).stdout, "4\n");
}

#[test]
fn damage_is_found_and_not_restored() {
    let lab = store();
    lab.run("backup s b").exits(0);
    let object = |name: &String| format!("b/objects/{name}");
    let objects: Vec<String> = lab.names("b/objects").iter().map(object).collect();
    let largest = objects.iter().max_by_key(|name| lab.bytes(name).len()).unwrap();
    let mut bytes = lab.bytes(largest);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    lab.write(largest, &bytes);
    let told = lab.run("backup b --verify").exits(3).says("DAMAGED").says(largest);
    assert!(told.stdout.starts_with("damage: "), "{}", told.told());
    let report = parse_json(&lab.run("backup b --verify --json").exits(3).stdout);
    assert_eq!(
        (&report["sound"], &report["damage"][0]["place"]),
        (&false.into(), &largest.as_str().into())
    );
    lab.run("restore b r").exits(3).warns(largest);
    assert!(!lab.exists("r") && !lab.exists(".r.restore"));
    let manifest = format!("b/backups/{}", ids(&lab)[0]);
    let text = lab.read(&manifest);
    lab.write(&manifest, text.replacen("engine", "engines", 1));
    lab.run("backup b --list").exits(3).says("damaged");
    lab.run("restore b r").exits(3).warns(&manifest);
    // As the page says: without the object, the next backup copies the file again.
    lab.write(&manifest, text);
    std::fs::remove_file(lab.path(largest)).unwrap();
    lab.run("backup s b").exits(0);
    lab.run("backup b --verify").exits(0);
}

/// The backup is there, so its name is said, though older ones cannot be deleted.
#[test]
fn a_backup_is_told_though_the_deletion_after_it_fails() {
    let lab = store();
    lab.run("backup s b").exits(0);
    lab.run("backup s b").exits(0);
    let first = ids(&lab);
    let manifest = format!("b/backups/{}", first[1]);
    lab.write(&manifest, lab.read(&manifest).replacen("engine", "engines", 1));
    let told = lab.run("backup s b --keep 2").exits(3).warns(&manifest);
    let names = lab.names("b/backups");
    assert_eq!(names.len(), 3, "nothing was deleted");
    assert!(told.stdout.starts_with(&format!("{}: ", names[2])), "{}", told.told());
    let told = lab.run("backup s b --keep 3 --json").exits(3).warns(&manifest);
    let saved = parse_json(&told.stdout);
    assert_eq!(saved["id"], lab.names("b/backups")[3].as_str());
}

#[test]
fn a_later_version_is_no_damage() {
    use sha2::{Digest as _, Sha256};
    let lab = store();
    lab.run("backup s b").exits(0);
    let manifest = format!("b/backups/{}", ids(&lab)[0]);
    let text = lab.read(&manifest).replacen("backup 1", "backup 2", 1);
    let body = &text[..text.rfind("end ").unwrap()];
    let sum: String = Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect();
    lab.write(&manifest, format!("{body}end {sum}\n"));
    lab.run("backup b --list").exits(2).says("\tlater\t").says("use a later keyrack");
    lab.run("backup b --verify").exits(2).says("not read: ").says(": NOT ALL READ");
    let report = parse_json(&lab.run("backup b --verify --json").exits(2).stdout);
    assert_eq!(report["damage"].as_array().map(Vec::len), Some(0));
    lab.run("restore b r").refuses(&["use a later keyrack"]);
    lab.write("b/REPOSITORY", "keyrack backup repository 12\n");
    lab.run("backup b --list").refuses(&["use a later keyrack"]);
}

#[test]
fn what_is_wrong_on_the_command_line_does_nothing() {
    let lab = store();
    lab.run("backup s").refuses(&["--list"]);
    lab.run("backup nothing b").refuses(&["nothing", "no such directory"]);
    lab.run("backup b --list").refuses(&["b", "no backups"]);
    lab.run("restore b r").refuses(&["b", "no backups"]);
    lab.run("backup s s").refuses(&["s", "something else"]);
    lab.run("backup s b --limit fast").refuses(&["--limit", "fast"]);
    lab.run("backup s b --keep 0").refuses(&["--keep", "at least 1"]);
    assert!(!lab.exists("b"), "nothing was made");
    lab.run("backup s b").exits(0);
    lab.run("backup s b --list").refuses(&["two directories"]);
    lab.run("backup b --list --verify").refuses(&["--list and --verify"]);
    lab.run("backup b --list --keep 3").refuses(&["--keep"]);
    lab.run("backup b --list --id 20200101T000000Z").refuses(&["--id", "--verify"]);
    lab.run("backup b --verify --limit 1M").refuses(&["--limit"]);
    lab.run("backup b --list --log").refuses(&["--log", "a backup"]);
    lab.run("backup b --delete 20200101T000000Z").refuses(&["no backup 20200101T000000Z"]);
    lab.run("backup b --delete yesterday").refuses(&["'yesterday'", "--list"]);
    lab.run("restore b r --id 20200101T000000Z").refuses(&["no backup 20200101T000000Z"]);
    lab.run("restore b s").refuses(&["s", "not empty"]);
    assert!(!lab.exists("r"));
    assert_eq!(ids(&lab).len(), 1);
}

#[test]
fn a_store_in_use_is_left_alone() {
    let lab = store();
    let mut writer: Running =
        lab.start("db torture run s acks 1000000 --verbose --seed 2 --threads 1");
    writer.wait_for("acknowledged 1");
    lab.run("backup s b").exits(1).warns("in use");
    writer.kill();
    writer.finish();
    lab.run("backup s b").exits(0);
    lab.run("restore b r").exits(0);
    is_whole(&lab, "r");
}

/// The rows of a directory, by their keys.
fn rows(dir: &std::path::Path, write: &[(&str, &str)]) -> Vec<(String, String)> {
    use keyrack_rowstore::{Options, RowStore, Rows};
    let fs = std::sync::Arc::new(keyrack_vfs::RealFs);
    let store = RowStore::open(fs, dir, Options::default(), &|_| {}).unwrap();
    let mut session = store.session().unwrap();
    for (key, value) in write {
        session.put(key.as_bytes(), value.as_bytes(), 0, 0).unwrap();
    }
    session.flush().unwrap();
    let mut found = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    session
        .scan(b"", None, &mut |key, row| {
            found.push((text(key), text(row.value())));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    drop(session);
    Box::new(store).close().unwrap();
    found
}

#[test]
fn a_row_store_comes_back() {
    let lab = Lab::new();
    let dir = lab.path("rows");
    rows(&dir, &[("ada", "36"), ("bob", "1")]);
    lab.run("backup rows b --log").refuses(&["rows", "leave out --log"]);
    lab.run("backup rows b").exits(0).says("are new");
    let expected = rows(&dir, &[("bob", "2")]);
    lab.run("backup rows b").exits(0);
    let listed = parse_json(&lab.run("backup b --list --json").exits(0).stdout);
    assert_eq!(listed[1]["engine"], "rowstore");
    lab.run(&format!("restore b old --id {}", ids(&lab)[0])).exits(0);
    lab.run("restore b new").exits(0);
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(rows(&lab.path("old"), &[]), [pair("ada", "36"), pair("bob", "1")]);
    assert_eq!(rows(&lab.path("new"), &[]), expected);
    assert_eq!(expected, [pair("ada", "36"), pair("bob", "2")]);
}

#[test]
fn addresses_of_object_stores_are_refused_in_a_line_with_the_remedy() {
    let lab = store();
    lab.run("backup s ftp://x/y").refuses(&["'ftp' is no store", "s3://"]);
    lab.run("backup s s3://").refuses(&["give a bucket", "s3://BUCKET"]);
    lab.run("backup s s3://bucket/a/../b").refuses(&["'a/../b'"]);
    lab.run("backup s memory:").refuses(&["memory: keeps nothing", "name a directory"]);
    lab.run("restore memory: r").refuses(&["memory: keeps nothing"]);
    // Nobody listens there.
    let endpoint =
        "AWS_ENDPOINT_URL=http://127.0.0.1:1 AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b";
    let outcome = lab.shell(&format!("{endpoint} $KEYRACK backup s s3://bucket/x"));
    let line = &outcome.stderr;
    assert_eq!(line.lines().count(), 1, "{line}");
    let words: [&str; 3] = if outcome.status == 1 {
        ["s3://bucket/x: no answer from", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID"]
    } else {
        assert_eq!(outcome.status, 2, "{line}");
        ["s3://bucket/x", "--features object-store", "name a directory"]
    };
    assert!(words.iter().all(|word| line.contains(word)), "{line}");
}

/// Kills a process once it has told of so many files.
fn killed(lab: &Lab, line: &str, files: u64) -> bool {
    let mut running = lab.start(line);
    running.wait_for(&format!("{files} of "));
    running.kill();
    running.finish().status == 128 + 9
}

#[test]
fn kills_lose_no_backup_and_leave_no_store_in_part() {
    let mut draw = Draw::new(seed_or(1));
    let lab = store();
    lab.run("backup s b").exits(0);
    let kills = std::env::var("KEYRACK_KILLS").map_or(12, |kills| kills.parse().unwrap());
    let mut midway = 0;
    for kill in 0..kills {
        lab.run(&format!("db torture run s acks 40 --seed {kill}")).exits(0);
        let before = ids(&lab);
        // Slow enough for the kill to come in the middle.
        let files = 1 + draw.below(3_u64);
        midway += usize::from(killed(&lab, "backup s b --verbose --limit 2M", files));
        assert!(ids(&lab).starts_with(&before), "kill {kill}");
        lab.run("backup b --verify").exits(0);
        lab.run("backup s b").exits(0);
        midway += usize::from(killed(&lab, "restore b r --verbose", 1 + draw.below(3_u64)));
        if !lab.exists("r") {
            lab.run("restore b r").exits(0);
        }
        is_whole(&lab, "r");
        std::fs::remove_dir_all(lab.path("r")).unwrap();
        // A kill behind the rename leaves it to the next restoration.
        if lab.exists(".r.restore") {
            lab.run("restore b r").exits(0);
            std::fs::remove_dir_all(lab.path("r")).unwrap();
        }
        assert!(!lab.exists(".r.restore"));
        if draw.one_in(3) {
            lab.run("backup b --keep 2").exits(0);
        }
    }
    assert!(midway > 0, "no kill came in the middle of anything");
    lab.run("backup b --keep 1").exits(0);
    lab.run("backup b --verify").exits(0).says("objects in").says(": sound");
}
