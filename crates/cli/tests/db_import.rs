//! `keyrack db import-leveldb`, on directories that LevelDB wrote.

use crate::support::Lab;
use std::fs;
use std::path::PathBuf;

/// The directories that the reader is tested with.
fn fixtures() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../leveldb/tests/fixtures"))
}

/// With a copy of one of them.
fn copied(name: &str) -> Lab {
    let lab = Lab::with_dir("src");
    for entry in fs::read_dir(fixtures().join(name)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), lab.path("src").join(entry.file_name())).unwrap();
    }
    lab
}

/// Keys in hexadecimal and lengths of values, as LevelDB listed them.
fn listed(name: &str) -> Vec<(String, usize)> {
    let text = fs::read_to_string(fixtures().join(format!("{name}.expected"))).unwrap();
    let fields = |line: &str| {
        let mut words = line.split(' ');
        let key = words.next().unwrap().to_owned();
        (key, words.next().unwrap().parse().unwrap())
    };
    text.lines().map(fields).collect()
}

fn dumped(lab: &Lab, dir: &str) -> Vec<(String, usize)> {
    let out = lab.run(&format!("db dump {dir} --format hex")).exits(0);
    let pairs = out.stdout.lines().map(|line| line.split_once('\t').unwrap());
    pairs.map(|(key, value)| (key.to_owned(), value.len() / 2)).collect()
}

#[test]
fn everything_comes_over() {
    for name in ["levels", "raw", "log", "empty"] {
        let lab = copied(name);
        let before = lab.names("src");
        let right = listed(name);
        let count = format!("{} entries", right.len());
        lab.run("db import-leveldb src made").exits(0).says(&count);
        assert_eq!(dumped(&lab, "made"), right, "{name}");
        assert_eq!(lab.names("src"), before, "the source is only read");
        assert_eq!(lab.names("."), ["made", "src"], "nothing else is left");
        lab.run("db put made new key").exits(0);
        assert_eq!(dumped(&lab, "made").len(), right.len() + 1);
    }
}

#[test]
fn a_target_that_is_there_is_refused() {
    let lab = copied("raw");
    lab.make_dir("made");
    lab.run("db import-leveldb src made").refuses(&["made: it is there"]);
    lab.run("db import-leveldb src .").refuses(&["it is there"]);
    lab.run("db import-leveldb src no/such/parent").exits(1);
    lab.run("db import-leveldb made other").refuses(&["no store of LevelDB", "CURRENT"]);
    lab.run("db import-leveldb absent other").refuses(&["absent", "no store of LevelDB"]);
    assert_eq!(lab.names("."), ["made", "src"]);
    assert_eq!(lab.names("made"), [] as [&str; 0]);
}

#[test]
fn our_commands_name_the_way_for_a_store_of_leveldb() {
    let lab = copied("raw");
    lab.run("db stat src").refuses(&["LevelDB", "keyrack db import-leveldb src"]);
}

#[test]
fn damage_is_an_error_or_is_left_out() {
    let lab = copied("raw");
    let path = lab.path("src/000005.ldb");
    let mut bytes = fs::read(&path).unwrap();
    bytes[700] ^= 1;
    fs::write(&path, bytes).unwrap();
    let refused =
        lab.run("db import-leveldb src made").exits(3).warns("000005.ldb").warns("--lenient");
    assert_eq!((refused.stdout.as_str(), refused.stderr.lines().count()), ("", 1));
    assert_eq!(lab.names("."), ["src"], "nothing is made");
    let right = listed("raw");
    lab.run("db import-leveldb --lenient src made").exits(3).warns("left out").warns("000005.ldb");
    let made = dumped(&lab, "made");
    assert!(!made.is_empty() && made.len() < right.len());
    assert!(made.iter().all(|(key, _)| right.iter().any(|(known, _)| known == key)));
}

/// The end of a log that was being written is no damage, and is told.
#[test]
fn a_cut_log_is_told() {
    let lab = copied("raw");
    let path = lab.path("src/000016.log");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    lab.run("db import-leveldb src made").exits(0).warns("left out").warns("000016.log");
    assert!(!dumped(&lab, "made").is_empty());
}
