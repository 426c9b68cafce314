//! `keyrack db` on a store with key spaces: one that `--space` names, or all of them.

use crate::support::{Lab, parse_json};
use keyrack_flodb::{Comparator, Compare, Options, Spaces};
use std::cmp::Ordering;
use std::sync::Arc;

struct Backwards;

impl Compare for Backwards {
    fn name(&self) -> &str {
        "test.backwards"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

/// The spaces `times` and `users`, and an empty one.
fn store() -> Lab {
    let lab = Lab::new();
    let spaces = Spaces::open(lab.path("s"), Options::default(), &[]).unwrap();
    let space = |name: &str| spaces.get_or_create(name, &Comparator::Bytewise).unwrap();
    let (users, times) = (space("users"), space("times"));
    space("empty");
    for (name, time) in [("ada", "36"), ("bob", "41"), ("cyd", "17")] {
        users.put(name.as_bytes(), time.as_bytes()).unwrap();
        times.put(time.as_bytes(), name.as_bytes()).unwrap();
    }
    spaces.flush().unwrap();
    users.put(b"dan", b"52").unwrap();
    drop((users, times));
    spaces.close().unwrap();
    lab
}

#[track_caller]
fn dumped(lab: &Lab, line: &str) -> String {
    lab.run(&format!("db dump {line}")).exits(0).stdout
}

#[test]
fn keys_of_a_space_are_put_read_and_removed() {
    let lab = store();
    assert_eq!(lab.run("db get s ada --space users").exits(0).stdout, "36\n");
    lab.run("db get s ada --space times").exits(1).warns("no key 'ada'");
    lab.run("db put s eve 29 --space users").exits(0);
    lab.run("db delete s bob --space users").exits(0);
    assert_eq!(dumped(&lab, "s --space users"), "ada\t36\ncyd\t17\ndan\t52\neve\t29\n");
    assert_eq!(dumped(&lab, "s --space times"), "17\tcyd\n36\tada\n41\tbob\n");
    for command in ["get s ada", "put s ada 1", "delete s ada"] {
        lab.run(&format!("db {command}")).refuses(&["--space", "empty, times, users"]);
        let absent = format!("db {command} --space userz");
        lab.run(&absent).refuses(&["'userz'", "empty, times, users"]);
    }
    // A plain store has none.
    lab.run("db torture run plain acks 0").exits(0);
    lab.run("db get plain ada --space users").refuses(&["no key spaces", "--space"]);
    lab.run("db stat plain --space users").refuses(&["no key spaces"]);
    lab.run("db compact plain --space users").refuses(&["no key spaces"]);
}

#[test]
fn a_dump_names_the_space_of_each_key() {
    let lab = store();
    let all = "times\t17\tcyd\ntimes\t36\tada\ntimes\t41\tbob\n\
               users\tada\t36\nusers\tbob\t41\nusers\tcyd\t17\nusers\tdan\t52\n";
    assert_eq!(dumped(&lab, "s"), all);
    assert_eq!(
        dumped(&lab, "s --limit 4 --keys-only"),
        "times\t17\ntimes\t36\ntimes\t41\nusers\tada\n"
    );
    // Bounds hold within each space.
    assert_eq!(
        dumped(&lab, "s --from 36 --to b"),
        "times\t36\tada\ntimes\t41\tbob\nusers\tada\t36\n"
    );
    assert_eq!(dumped(&lab, "s --space empty"), "");
    let line = dumped(&lab, "s --format json --limit 1");
    let line = parse_json(&line);
    assert_eq!((&line["space"], &line["key"]), (&"times".into(), &"17".into()));
    lab.run("db dump s --space no").refuses(&["'no'", "times"]);
    let table = lab.names("s").into_iter().find(|name| name.ends_with(".table")).unwrap();
    let keys = dumped(&lab, &format!("s/{table} --keys-only"));
    assert!(keys.contains("ada\t") && keys.contains("36\t"), "{keys}");
}

#[test]
fn tools_work_on_all_spaces() {
    let lab = store();
    let stat = parse_json(&lab.run("db stat s --json").exits(0).stdout);
    assert_eq!(stat["comparator"], "keyrack.spaces");
    let names = |stat: &serde_json::Value| -> Vec<String> {
        let spaces = stat["spaces"].as_array().unwrap();
        spaces.iter().map(|space| space["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&stat), ["empty", "times", "users"]);
    assert_eq!(stat["spaces"][2]["comparator"], "keyrack.bytewise");
    let one = parse_json(&lab.run("db stat s --json --space times").exits(0).stdout);
    assert_eq!(names(&one), ["times"]);
    let text = lab.run("db stat s").exits(0).stdout;
    assert!(text.lines().any(|line| line.ends_with("keyrack.bytewise        users")), "{text}");
    lab.run("db stat s --property leveldb.stats").exits(0).says("Time(sec)");
    lab.run("db stat s --property leveldb.stat").refuses(&["'leveldb.stat'"]);

    let before = dumped(&lab, "s");
    lab.run("db compact s --space users --from a --to b").exits(0).says("bytes after");
    lab.run("db compact s --from a").refuses(&["--space"]);
    let told = lab.run("db compact s --times").exits(0).says("bytes after").stdout;
    assert!(told.contains("Time(sec) Read(MB) Write(MB)"), "{told}");
    lab.run("db checkpoint s t").exits(0);
    assert_eq!(dumped(&lab, "t"), before);
    assert_eq!(dumped(&lab, "s"), before);
    lab.run("db verify s").exits(0).says("sound");
    lab.run("db repair s").exits(0).says("nothing to repair");
    lab.run("db repair s --spaces").exits(0).says("nothing to repair");

    // Without its manifest, the tables say what it is.
    let manifest = lab.names("t").into_iter().find(|name| name.starts_with("MANIFEST-")).unwrap();
    let path = lab.path("t").join(manifest);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[3] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    lab.run("db verify t").exits(3).says("MANIFEST-");
    lab.run("db repair t").exits(0).says("repaired");
    assert_eq!(dumped(&lab, "t"), before);
    lab.run("db verify t").exits(0).says("sound");
    lab.run("db destroy t --yes").exits(0);

    lab.run("db torture run plain acks 0").exits(0);
    lab.run("db repair plain --spaces").refuses(&["plain", "no key spaces"]);
}

/// An order of somebody's own is known to his program alone.
#[test]
fn a_space_in_an_unknown_order_is_refused_by_name() {
    let lab = Lab::new();
    let backwards = Comparator::Custom(Arc::new(Backwards));
    let spaces =
        Spaces::open(lab.path("s"), Options::default(), std::slice::from_ref(&backwards)).unwrap();
    let odd = spaces.get_or_create("odd", &backwards).unwrap();
    (0..50_u8).for_each(|n| odd.put(&[n], b"value").unwrap());
    spaces.flush().unwrap();
    drop(odd);
    spaces.close().unwrap();
    for command in ["stat s", "dump s", "get s k --space odd", "compact s", "checkpoint s t"] {
        lab.run(&format!("db {command}")).refuses(&["order", "not given"]);
    }
    for command in ["verify s", "repair s"] {
        lab.run(&format!("db {command}")).refuses(&["order that was not given"]);
    }
    assert!(!lab.exists("t") && !lab.exists("s/lost"));
}
