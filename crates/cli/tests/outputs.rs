//! Files that a user names for results, by every command that writes one: links, FIFOs and devices
//! at the path, missing directories, the umask. The tests assert what is there afterwards.

use crate::load::lab_with_responder;
use crate::support::{Lab, ONE_GET, names_in};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;

/// Each command that writes a result, with `OUT` where the path goes, and how its content begins.
fn commands(address: &str) -> Vec<(String, &'static str)> {
    let bench = "bench one.lua --backend btree --ops 50";
    let load = format!("load -s {address} -N 50 --quiet");
    let mut all = vec![
        (format!("{bench} --report json:OUT"), "{"),
        (format!("{bench} --report tsv:OUT"), ""),
        (format!("{bench} --report timeline:OUT"), ""),
        (format!("{bench} --report hdr:OUT"), "#"),
        (format!("{bench} --save-config OUT"), ""),
        (format!("{bench} --record OUT"), ""),
        (format!("{load} --json OUT"), "{"),
        (format!("{load} --csv OUT"), ""),
        (format!("{load} --hgrm OUT"), ""),
        (format!("{load} --save OUT"), "0."),
        ("report html run.json --out OUT".to_owned(), "<!"),
        ("fs get --db log /f OUT".to_owned(), "bytes"),
        ("fs export --db log / OUT".to_owned(), ""),
        ("fs export --db log --format jsonl / OUT".to_owned(), "{"),
        ("fs bench --ranks 1 --n 10 --step_interval 0 --db bench-DIR --json OUT".to_owned(), "{"),
    ];
    all.iter_mut().enumerate().for_each(|(at, (line, _))| {
        *line = line.replace("bench-DIR", &format!("bench-{at}"));
    });
    all
}

/// A log with one file, and a record.
fn prepare(lab: &Lab) {
    lab.write("local", "bytes");
    lab.run("fs put --db log local /f").exits(0);
    lab.write("one.lua", ONE_GET);
    lab.run("bench one.lua --backend btree --ops 50 --report json:run.json").exits(0);
}

#[test]
fn a_link_stays_and_its_target_gets_the_users_umask() {
    let (lab, _server, address) = lab_with_responder("null");
    prepare(&lab);
    for (at, (line, begins)) in commands(&address).into_iter().enumerate() {
        let (target, link) = (format!("target-{at}"), format!("link-{at}"));
        symlink(&target, lab.path(&link)).unwrap();
        let line = line.replace("OUT", &link);
        lab.shell(&format!("umask 022; exec $KEYRACK {line}")).exits(0);
        assert!(lab.path(&link).is_symlink(), "{line}");
        let mode = lab.path(&target).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "{line}");
        let bytes = lab.bytes(&target);
        assert!(bytes.starts_with(begins.as_bytes()), "{line}");
        let hidden = |name: &String| name.contains(".tmp");
        assert!(!names_in(&lab.path(".")).iter().any(hidden), "{line} leaves something behind");
    }
}

#[test]
fn a_device_remains_one_and_a_pipe_of_the_shell_gets_the_result() {
    let (lab, _server, address) = lab_with_responder("null");
    prepare(&lab);
    for (at, (line, begins)) in commands(&address).into_iter().enumerate() {
        if line.starts_with("fs bench") {
            // A second run would find the logs of the first.
            lab.shell(&format!("rm -rf bench-{at}")).exits(0);
        }
        let null = line.replace("OUT", "/dev/null");
        lab.run(&null).exits(0);
        let found = Path::new("/dev/null").metadata().unwrap().file_type();
        assert!(found.is_char_device(), "{null}");
        lab.shell(&format!("rm -rf bench-{at}; mkfifo fifo-{at}")).exits(0);
        let piped = line.replace("OUT", &format!("fifo-{at}"));
        let script = format!("cat fifo-{at} > got-{at} & $KEYRACK {piped}; s=$?; wait; exit $s");
        lab.shell(&script).exits(0);
        let bytes = lab.bytes(&format!("got-{at}"));
        let is_small = line.contains("--csv") || line.contains("timeline");
        assert!(is_small || !bytes.is_empty(), "{piped}");
        assert!(bytes.starts_with(begins.as_bytes()), "{piped}");
        assert!(lab.path(&format!("fifo-{at}")).metadata().unwrap().file_type().is_fifo());
        if begins == "{" && !line.contains("jsonl") {
            crate::support::parse_json(&String::from_utf8(bytes).unwrap());
        }
    }
}

#[test]
fn a_missing_directory_is_refused_before_anything_is_measured() {
    let (lab, _server, address) = lab_with_responder("null");
    prepare(&lab);
    for (line, _) in commands(&address) {
        let line = line.replace("OUT", "none/out").replace("-N 50", "-t 3600");
        let out = lab.run(&line);
        assert!(matches!(out.status, 1 | 2), "{}", out.told());
        let words = "'none/out': No such file or directory";
        assert!(out.stderr.contains(words), "{}", out.told());
        assert!(!out.stderr.contains(".tmp"), "{}", out.told());
    }
}
