//! `keyrack fs`: each command on small logs, what it is given that is wrong, and archives that come
//! back as they were.

use crate::support::{Lab, parse_json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// A log with a few entries of each kind.
fn log() -> Lab {
    let lab = Lab::with("text", "hello\n");
    lab.run("fs mkdir --db s -p /a/b /empty").exits(0);
    lab.run("fs create --db s --mode 600 /a/f /a/b/g").exits(0);
    lab.run("fs put --db s text /a/text").exits(0);
    lab.run("fs ln --db s -s ../text /a/b/link").exits(0);
    lab
}

#[track_caller]
fn out(lab: &Lab, line: &str) -> String {
    lab.run(line).exits(0).stdout
}

#[test]
fn what_is_made_is_there_and_what_is_removed_is_not() {
    let lab = log();
    assert_eq!(out(&lab, "fs ls --db s"), "a\nempty\n");
    assert_eq!(out(&lab, "fs ls --db s /a /a/b"), "/a:\nb\nf\ntext\n\n/a/b:\ng\nlink\n");
    assert_eq!(out(&lab, "fs get --db s /a/b/link"), "hello\n");
    lab.run("fs get --db s /a/text copy").exits(0);
    assert_eq!(lab.read("copy"), "hello\n");
    // In this order: another owner takes the set-id bits away.
    lab.run("fs chown --db s 7:8 /a/f").exits(0);
    lab.run("fs chmod --db s 4751 /a/f").exits(0);
    let long = out(&lab, "fs ls --db s -l /a");
    assert!(long.lines().nth(1).unwrap().starts_with("-rwsr-x--x  1     7     8        0 20"));
    let stat = parse_json(&out(&lab, "fs stat --db s --json /a/b/link"));
    assert_eq!((&stat["type"], &stat["target"]), (&"l".into(), &"../text".into()));
    let stat = parse_json(&out(&lab, "fs stat --db s --json -L /a/b/link"));
    assert_eq!((&stat["type"], &stat["size"]), (&"f".into(), &6.into()));
    assert!(out(&lab, "fs stat --db s /a").contains("nlink  3\n"));
    lab.run("fs mv --db s /a/f /a/text /empty").exits(0);
    lab.run("fs mv --db s /empty /full").exits(0);
    assert_eq!(out(&lab, "fs ls --db s /full"), "f\ntext\n");
    lab.run("fs rm --db s /full/f").exits(0);
    lab.run("fs rmdir --db s /full").exits(1).warns("/full: the directory is not empty");
    lab.run("fs rm --db s -r /full").exits(0);
    assert_eq!(
        out(&lab, "fs tree --db s /"),
        "/\n  a/\n    b/\n      g\n      link -> ../text\n\n2 directories, 2 files\n"
    );
    assert_eq!(out(&lab, "fs du --db s"), "7\t2\t/a/b\n7\t3\t/a\n7\t4\t/\n");
    assert_eq!(out(&lab, "fs fsck --db s --deep"), "");
}

#[test]
fn what_cannot_be_is_told_in_a_line() {
    let lab = log();
    lab.run("fs ls").refuses(&["--db DIR"]);
    lab.run("fs ls --db none /").refuses(&["none", "no log", "keyrack fs mkdir"]);
    lab.run("fs rm --db none /x").refuses(&["none", "no log"]);
    assert!(!lab.exists("none"));
    lab.run("fs mkdir --db s /a").exits(1).warns("/a: it exists already");
    lab.run("fs mkdir --db s a").exits(2).warns("begin with a slash");
    lab.run("fs ls --db s /x /a").exits(1).says("text").warns("/x: no such file");
    lab.run("fs rm --db s /a").exits(1).warns("rm -r");
    lab.run("fs rm --db s -f /x").exits(0);
    lab.run("fs rm --db s /").exits(1);
    lab.run("fs ln --db s /x /l").exits(1).warns("/x: no such file");
    lab.run("fs ln --db s /a /l").exits(1).warns("/a: a directory cannot have hard links");
    lab.run("fs chmod --db s u+x /a").refuses(&["'u+x'", "octal"]);
    lab.run("fs chown --db s root /a").refuses(&["'root'", "numbers"]);
    lab.run("fs find --db s --type x").refuses(&["'x'", "link"]);
    lab.run("fs find --db s --size many").refuses(&["'many'", "3901"]);
    lab.run("fs mv --db s /a").refuses(&["two paths"]);
    lab.run("fs mkdir --db s --base x /b").refuses(&["--base", "too late"]);
    lab.run("fs ls --db s --as 5").refuses(&["UID:GID"]);
    lab.run("fs lst --db s").refuses(&["'lst'", "did you mean"]);
    lab.run("fs ls --bd s").refuses(&["'--bd'", "did you mean '--db'?"]);
    lab.run("fs bench --share_dirs=1").refuses(&["did you mean '--share_dir'?"]);
    lab.run("fs bench --share_dir=2").refuses(&["--share_dir", "'2'"]);
    lab.run("fs bench --fs_use_local=0").refuses(&["--fs_use_local=0", "not in this version"]);
    let name = "n".repeat(256);
    lab.run(&format!("fs create --db s /{name}")).exits(1).warns("256, and the limit is 255");
    lab.write("large", vec![b'x'; 3902]);
    lab.run("fs put --db s large /a/b").exits(1).warns("/a/b: it is a directory");
    lab.run("db put other key value").exits(2);
    lab.run("db torture run other acks 0").exits(0);
    lab.run("db put other key value").exits(0);
    lab.run("fs ls --db other").refuses(&["other", "no name space"]);
}

#[test]
fn rights_count_for_who_asks() {
    let lab = log();
    lab.run("fs ls --db s --as 5:5 /a").exits(0);
    lab.run("fs get --db s --as 5:5 /a/f").exits(1).warns("/a/f: permission denied");
    lab.run("fs create --db s --as 5:5 /mine").exits(1).warns("/mine: permission denied");
    lab.run("fs chmod --db s 1777 /").exits(0);
    lab.run("fs create --db s --as 5:6 /mine").exits(0);
    lab.run("fs rm --db s --as 7:7 /mine").exits(1).warns("/mine: only its owner");
    let stat = parse_json(&out(&lab, "fs stat --db s --json /mine"));
    assert_eq!((&stat["uid"], &stat["gid"]), (&5.into(), &6.into()));
}

#[test]
fn entries_are_found_by_what_they_are() {
    let lab = log();
    let found = |conditions: &str| {
        out(&lab, &format!("fs find --db s {conditions}")).lines().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(found(""), "/ /a /a/b /a/b/g /a/b/link /a/f /a/text /empty");
    assert_eq!(found("--type f"), "/a/b/g /a/f /a/text");
    assert_eq!(found("--name t*t"), "/a/text");
    assert_eq!(found("--size 6"), "/a/text");
    assert_eq!(found("--size +5 --type f /a"), "/a/text");
    assert_eq!(found("--empty"), "/a/b/g /a/f /empty");
    assert_eq!(found("--mode 600 --max-depth 2"), "/a/f");
    assert_eq!(found("--min-depth 3"), "/a/b/g /a/b/link");
    assert_eq!(found("--newer /a/text --type l"), "/a/b/link");
    assert_eq!(found("--newer /a/b/link"), "");
    assert_eq!(found("--user 9"), "");
    assert_eq!(found("--count --type d"), "4");
    assert_eq!(out(&lab, "fs find --db s -0 /a/b --type f"), "/a/b/g\0");
    let json = out(&lab, "fs find --db s --json --name f");
    assert_eq!(parse_json(&json)["mode"], "0600");
}

#[test]
fn a_file_has_several_names() {
    let lab = log();
    lab.run("fs ln --db s /a/text /hard").exits(0);
    lab.run("fs ln --db s /hard /hard").exits(1).warns("/hard: it exists already");
    let stat = ["/a/text", "/hard"].map(|path| out(&lab, &format!("fs stat --db s {path}")));
    assert!(stat[0].contains("nlink  2\n") && stat[0].contains("size   6\n"), "{}", stat[0]);
    assert_eq!(stat[1].replace("/hard", "/a/text"), stat[0]);
    assert_eq!(out(&lab, "fs du --db s -s"), "13\t8\t/\n", "its bytes are counted once");
    assert_eq!(out(&lab, "fs find --db s --count --type f"), "4\n");
    lab.run("fs publish --db s --registry r one").exits(0);
    lab.write("more", "more\n");
    lab.run("fs put --db t --registry r --base one more /hard").exits(0);
    assert_eq!(out(&lab, "fs get --db t --registry r /a/text"), "more\n");
    let said = out(&lab, "fs log --db t --registry r");
    let mut said: Vec<&str> = said.lines().collect();
    said.sort_unstable();
    assert_eq!(said, ["~f /a/text", "~f /hard"]);
    lab.run("fs rm --db t --registry r /a/text").exits(0);
    assert_eq!(out(&lab, "fs get --db t --registry r /hard"), "more\n");
    assert_eq!(out(&lab, "fs get --db s /a/text"), "hello\n");
    lab.run("fs export --db s / a.tar").exits(0);
    lab.run("fs import --db u a.tar").exits(0);
    assert_eq!(out(&lab, "fs get --db u /hard"), "hello\n");
    assert!(out(&lab, "fs stat --db u /hard").contains("nlink  1\n"));
    for log in ["s", "u"] {
        assert_eq!(out(&lab, &format!("fs fsck --db {log} --deep")), "");
    }
    assert_eq!(out(&lab, "fs fsck --db t --registry r"), "");
    lab.make_dir("ranks");
    lab.shell("mv s ranks/r0").exits(0);
    lab.run("fs merge --from ranks --to merged").exits(1).warns("r0: it has hard links");
}

#[test]
fn logs_are_published_read_together_and_compared() {
    let lab = log();
    assert!(out(&lab, "fs publish --db s --registry r one").starts_with("one@1\t"));
    lab.run("fs publish --db s --registry r --version 1 one").exits(1).warns("one@1 is published");
    lab.run("fs mkdir --db t --registry r --base one /t").exits(0);
    lab.run("fs rm --db t --registry r /a/f").exits(0);
    lab.run("fs chmod --db t --registry r 700 /a").exits(0);
    assert_eq!(out(&lab, "fs ls --db t --registry r"), "a\nempty\nt\n");
    assert_eq!(out(&lab, "fs ls --db s"), "a\nempty\n");
    let said = out(&lab, "fs log --db t --registry r");
    let mut said: Vec<&str> = said.lines().collect();
    said.sort_unstable();
    assert_eq!(said, ["+d /t", "-  /a/f", "~d /a"]);
    assert!(out(&lab, "fs log --db t --registry r --head").ends_with("base   one@1\n"));
    lab.run("fs publish --db t --registry r two").exits(0);
    assert_eq!(out(&lab, "fs ls --registry r --view two"), "a\nempty\nt\n");
    let differs = lab.run("fs diff --registry r one two").exits(1).stdout;
    let mut differs: Vec<&str> = differs.lines().collect();
    differs.sort_unstable();
    assert_eq!(differs, ["+d /t", "-f /a/f", "~d /a"]);
    assert_eq!(out(&lab, "fs diff --registry r --db t . two"), "");
    lab.run("fs views --registry r save both two one").exits(0);
    let views = out(&lab, "fs views --registry r");
    assert!(views.contains("two@1\t") && views.contains(" on one@1\n"), "{views}");
    assert!(views.ends_with("both\tview of two@1,one@1\n"), "{views}");
    assert_eq!(out(&lab, "fs views conflicts --registry r both"), "");
    // A log that knows nothing of the others, and says something else of a name.
    lab.run("fs create --db u --registry r /a").exits(0);
    lab.run("fs publish --db u --registry r three").exits(0);
    let conflicts = lab.run("fs views conflicts --registry r three one").exits(1).stdout;
    assert_eq!(conflicts, "/a\tf of three@1 hides d of one@1\n");
    assert!(out(&lab, "fs stat --registry r --view three,one --json /a").starts_with('{'));
    lab.run("fs publish --db s --registry r one").exits(0);
    lab.run("fs publish --db s --registry r one").exits(0);
    let gone = out(&lab, "fs gc --registry r --keep 1 --older-than 0");
    assert!(gone.starts_with("one@2\nlogs/") && gone.lines().count() == 2, "{gone}");
    lab.run("fs ls --registry r --view one@2").exits(1).warns("one@2");
    lab.run("fs fsck --registry r --view both --deep").exits(0).warns("1 whiteouts");
    let name = lab.names("r/logs").into_iter().next().unwrap();
    let table = lab.names(&format!("r/logs/{name}"));
    let table = table.iter().find(|name| name.ends_with(".table")).unwrap();
    let path = lab.path("r/logs").join(&name).join(table);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[9] ^= 1;
    // Tables are shared with the log that they came from, so this one gets bytes of its own.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, bytes).unwrap();
    lab.run("fs fsck --registry r --view both --deep").exits(3).says(table);
}

/// Everything below `dir`: kind, mode, seconds of the time, bytes or target.
fn tree(dir: &Path) -> BTreeMap<String, String> {
    use std::os::unix::fs::MetadataExt;
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let what = if meta.is_symlink() {
                format!("l {}", std::fs::read_link(&path).unwrap().display())
            } else if meta.is_dir() {
                open.push(path.clone());
                format!("d {:o} {}", meta.mode(), meta.mtime())
            } else {
                let bytes = std::fs::read(&path).unwrap();
                format!("f {:o} {} {}", meta.mode(), meta.mtime(), bytes.escape_ascii())
            };
            found.insert(path.strip_prefix(dir).unwrap().display().to_string(), what);
        }
    }
    found
}

fn shell(lab: &Lab, script: &str) {
    let status = Command::new("sh").arg("-ec").arg(script).current_dir(lab.path(".")).status();
    assert!(status.unwrap().success(), "{script}");
}

/// What GNU tar wrote goes in and comes out, and GNU tar reads the same tree from it.
#[test]
fn a_tree_of_tar_comes_back() {
    let lab = Lab::new();
    let long = "n".repeat(180);
    shell(
        &lab,
        &format!(
            "mkdir -p t/d/{long}/e t/empty; printf 'a\\0b' >t/d/bytes; : >t/d/none; \
             printf x >t/d/{long}/e/{long}; ln -s ../{long}/{long}/{long} t/d/link; \
             chmod 2751 t/d; chmod 600 t/d/bytes; \
             touch -d '2001-02-03 04:05:06.789' t/d/bytes t/d; \
             tar --format=pax -cf pax.tar -C t .; tar --format=gnu -cf gnu.tar -C t ."
        ),
    );
    for format in ["pax", "gnu"] {
        lab.run(&format!("fs import --db {format} {format}.tar /in")).exits(0).warns("9 entries");
        lab.run(&format!("fs export --db {format} /in {format}-out.tar")).exits(0);
        shell(&lab, &format!("mkdir x{format}; tar -xpf {format}-out.tar -C x{format}"));
        assert_eq!(tree(&lab.path(&format!("x{format}"))), tree(&lab.path("t")), "{format}");
    }
    // What we wrote is the same archive when it was in and out once more, to the byte.
    lab.run("fs import --db again pax-out.tar /in").exits(0);
    lab.run("fs export --db again /in again.tar").exits(0);
    let bytes = |name: &str| std::fs::read(lab.path(name)).unwrap();
    assert_eq!(bytes("again.tar"), bytes("pax-out.tar"));
    // And by lines of JSON.
    lab.run("fs export --db pax /in lines.jsonl").exits(0);
    lab.run("fs import --db lines lines.jsonl /in").exits(0);
    lab.run("fs export --db lines /in lines.tar").exits(0);
    assert_eq!(bytes("lines.tar"), bytes("pax-out.tar"));
}

#[test]
fn imports_say_what_they_cannot_take() {
    let lab = Lab::new();
    shell(
        &lab,
        "mkdir t; printf x >t/a; ln t/a t/hard; tar -cf hard.tar t/a t/hard; \
         mkfifo t/pipe; tar -cf pipe.tar t/pipe; head -c 5000 /dev/zero >t/big; \
         tar -cf big.tar t/big; \
         tar -cPf up.tar ../$(basename $PWD)/t/a; tar -cf ok.tar t/a",
    );
    lab.run("fs import --db s hard.tar").exits(1).warns("t/hard: hard links have no place");
    lab.run("fs import --db s pipe.tar").exits(1).warns("t/pipe: pipes have no place");
    lab.run("fs import --db s up.tar").exits(2).warns("the path goes up");
    lab.run("fs import --db s missing.tar").exits(1).warns("missing.tar");
    lab.write("text.tar", "this is no archive of anything, whatever its name says. ".repeat(20));
    lab.run("fs import --db s text.tar").exits(2).warns("no archive of tar");
    lab.run("fs import --db whole big.tar").exits(0).warns("0 of them without");
    assert_eq!(out(&lab, "fs get --db whole /t/big").len(), 5000);
    lab.run("fs import --db s --metadata-only big.tar").exits(0).warns("1 of them without");
    let stat = parse_json(&out(&lab, "fs stat --db s --json /t/big"));
    assert_eq!((&stat["size"], &stat["has_data"]), (&5000.into(), &false.into()));
    lab.run("fs get --db s /t/big").exits(1).warns("its bytes are not kept here");
    lab.run("fs export --db s / out.tar").exits(1).warns("--metadata-only");
    lab.run("fs export --db s --metadata-only / out.tar").exits(0);
    lab.run("fs import --db again --metadata-only out.tar").exits(0);
    let stat = parse_json(&out(&lab, "fs stat --db again --json /t/big"));
    assert_eq!(stat["size"], 5000);
    lab.run("fs import --db s ok.tar").exits(1).warns("/t/a: it exists");
    lab.run("fs import --db s --overwrite ok.tar").exits(0);
    lab.write("bad.jsonl", "{\"path\":\"x\",\"type\":\"f\"}\n{\"path\":\"y\"}\n");
    lab.run("fs import --db s bad.jsonl /j").exits(2).warns("line 2: type");
    assert_eq!(out(&lab, "fs ls --db s /j"), "x\n");
}

/// The lines that scripts look for are those of the original, and every rank's names are there.
#[test]
fn the_benchmark_prints_the_lines_of_the_original() {
    let lab = Lab::new();
    let line = "fs bench --db d --n=500 --ranks=2 --share_dir=1 --step_interval=0 --json=j";
    let text = out(&lab, line);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("Date:       ") && lines[1].starts_with("CPU:        "));
    assert!(lines[2].starts_with("CPUCache:   "));
    for wanted in [
        "Num ranks:          2",
        "Fs use existing:    0 (prepare_run=mkdir)",
        "Fs use local:       1",
        "Fs infosvr locatio: N/A",
        "Fs skip checks:     1",
        "Batched creats:     OFF",
        "Bulk in:            OFF",
        "Lstats:             500 x 1 per rank",
        "Random key order:   1",
        "Share dir:          1",
        "CLIENT DB:",
        "Snappy:             1",
        "Bloom bits:         10",
        "Lsm compaction off: 1",
        "Wal off:            0",
        "Durability:         os",
        "Db: d/r<rank>",
        "------------------------------------------------",
        "preparing run...",
    ] {
        assert!(lines.contains(&wanted), "no '{wanted}' in\n{text}");
    }
    for (name, at) in [("insert", 0), ("fstats", 1)] {
        let results: Vec<&&str> = lines.iter().filter(|line| line.starts_with("==")).collect();
        let words: Vec<&str> = results[at].split_whitespace().collect();
        let (first, rest) = results[at].split_at(13);
        assert_eq!(first, format!("=={name:<10}:"));
        assert_eq!(rest.len(), 1 + 9 + 12 + 9 + 8 + 15 + 4 + 15 + 4, "{rest}");
        assert_eq!(words[words.len() - 2..], ["1000", "ops"]);
        assert_eq!((words[3], words[5], words[7]), ("micros/op,", "Mop/s,", "s,"), "{words:?}");
    }
    assert!(text.contains("\nlatency us: p50 ") && text.contains("CPU of all threads: "));
    let json = lab.json("j");
    assert_eq!(
        (&json["phases"][0]["name"], &json["phases"][1]["ops"]),
        (&"insert".into(), &1000.into())
    );
    // Both ranks made one directory, each in a log of its own; together they have all names.
    lab.run("fs bench --db d --n=500").refuses(&["d/r0", "--use_existing_fs=1"]);
    for rank in ["r0", "r1"] {
        assert_eq!(out(&lab, &format!("fs find --db d/{rank} --type f --count")), "500\n");
        lab.run(&format!("fs publish --db d/{rank} --registry r {rank}")).exits(0);
    }
    assert_eq!(out(&lab, "fs find --registry r --view r0,r1 --type f --count"), "1000\n");
    assert_eq!(out(&lab, "fs views conflicts --registry r r0 r1"), "");
    let again = "fs bench --db d --n=500 --ranks=2 --share_dir=1 --use_existing_fs=1 \
                 --write_phases=0 --step_interval=0";
    assert!(out(&lab, again).contains("==fstats"));
    lab.run("fs bench --db e --n=9 --skip_fs_checks=0 --data_size=3901 --step_interval=0").exits(0);
    assert_eq!(out(&lab, "fs find --db e/r0 --size 3901 --count"), "9\n");
}

#[test]
fn the_phases_of_mdtest_are_counted_in_its_table() {
    let lab = Lab::new();
    let line = "fs bench --db m --mdtest --n=50 --ranks=3 --data_size=3901 --iterations=2 --json=j";
    for (shared, trees) in [("1", "shared"), ("0", "unique")] {
        let text = out(&lab, &format!("{line} --share_dir={shared}"));
        assert!(text.contains("3 tasks, 50 files/directories each, 3901 bytes a file"), "{text}");
        assert!(text.contains(&format!("trees {trees}")), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        let head = lines.iter().position(|line| line.starts_with("SUMMARY rate")).unwrap();
        assert_eq!(lines[head], "SUMMARY rate (in ops/sec): (of 2 iterations)");
        assert!(lines[head + 3].starts_with("   Directory creation "), "{text}");
        assert!(lines[head + 12].starts_with("   Tree removal "), "{text}");
        let json = lab.json("j");
        let rates = json["rates"].as_array().unwrap();
        assert_eq!(rates.len(), 10);
        assert!(rates.iter().all(|rate| rate["min"].as_f64() > Some(0.0)), "{json}");
        assert_eq!(
            out(&lab, "fs find --db m/r0 --count"),
            "1
",
            "all is removed but the root"
        );
        lab.run(line).refuses(&["m/r0"]);
        lab.shell("rm -r m").exits(0);
    }
}

/// Import in two logs, merge, export: the archive is the same, large files and all.
#[test]
fn a_tree_of_tar_comes_back_through_a_merge() {
    let lab = Lab::new();
    for rank in 0..2 {
        lab.shell(&format!(
            "mkdir -p t{rank}/shared t{rank}/own{rank}; head -c 20000 /dev/urandom > \
             t{rank}/own{rank}/large; echo {rank} > t{rank}/shared/small{rank}; ln -s ../x \
             t{rank}/own{rank}/link; touch -d @1600000000 t{rank}/shared t{rank}; tar -C t{rank} \
             -cf t{rank}.tar ."
        ))
        .exits(0);
        lab.run(&format!("fs import --db src/r{rank} t{rank}.tar")).exits(0);
    }
    lab.run("fs merge --from src --to dst --parts 1").exits(0);
    lab.run("fs export --db dst/r0 / merged.tar").exits(0);
    lab.shell(
        "mkdir got all; tar -C got -xf merged.tar; cp -a t0/. t1/. all; diff -r all got; test \
         \"$(readlink got/own1/link)\" = ../x",
    )
    .exits(0);
    lab.run("fs import --db again merged.tar").exits(0);
    lab.run("fs export --db again / again.tar").exits(0);
    lab.shell("cmp merged.tar again.tar").exits(0);
    // Cut in a large file it is refused, and nothing of that file is there.
    lab.shell("head -c 12000 t0.tar > cut.tar").exits(0);
    lab.run("fs import --db cut cut.tar").exits(2);
    assert_eq!(out(&lab, "fs find --db cut --name large --count"), "0\n");
}

/// Names on the command line are bytes.
#[test]
fn paths_that_are_no_text_are_taken_as_they_are() {
    let lab = Lab::new();
    let bad = |name: &str| format!("$(printf '{name}\\377')");
    let keyrack = env!("CARGO_BIN_EXE_keyrack");
    let script = format!(
        "{keyrack} fs mkdir --db \"{db}\" \"/{d}\" && head -c 5000 /dev/zero > local && \
         {keyrack} fs put --db \"{db}\" local \"/{d}/{f}\" && {keyrack} fs mv --db \"{db}\" \
         \"/{d}/{f}\" \"/{d}/{g}\" && {keyrack} fs get --db \"{db}\" \"/{d}/{g}\" \"{out}\" && cmp \
         local \"{out}\" && test $({keyrack} fs find --db \"{db}\" --name \"{g}\" --count) = 1",
        db = bad("db"),
        d = bad("d"),
        f = bad("f"),
        g = bad("g"),
        out = bad("out"),
    );
    lab.shell(&script).exits(0);
}

/// A directory is made, looked at, listed whole and from the middle on, and removed again.
#[test]
fn the_benchmark_lists_resumes_and_removes() {
    let lab = Lab::new();
    let line = "fs bench --db d --n=3000 --share_dir=1 --skip_fs_checks=0 --list_phases=1 \
                --remove_phase=1 --step_interval=0 --json=j";
    let text = out(&lab, line);
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("==")).collect();
    assert_eq!(names.len(), 5, "{text}");
    for (line, name) in names.iter().zip(["insert", "fstats", "list", "resume", "remove"]) {
        assert!(line.starts_with(name) && line.ends_with(" 3000 ops"), "{line}");
    }
    assert!(text.contains("memory so far: at most "));
    assert!(lab.json("j")["phases"][4]["peak_rss_kib"].as_u64() > Some(0));
    assert_eq!(out(&lab, "fs find --db d/r0 --type f --count"), "0\n");
    lab.run("fs bench --db e --remove_phase=2").refuses(&["--remove_phase", "'2'"]);
}

#[test]
fn a_store_may_be_a_directory_and_what_is_none_is_refused() {
    let lab = log();
    let store = format!("file://{}", lab.path("r").display());
    assert!(out(&lab, &format!("fs publish --db s --store {store} one")).starts_with("one@1\t"));
    assert_eq!(out(&lab, "fs ls --registry r --view one"), "a\nempty\n");
    assert_eq!(out(&lab, "fs ls --store r --view one"), "a\nempty\n");
    lab.run(&format!("fs mkdir --db t --store {store} --base one /t")).exits(0);
    assert_eq!(out(&lab, "fs ls --db t --store r"), "a\nempty\nt\n");
    assert_eq!(out(&lab, "fs views --store r"), out(&lab, "fs views --registry r"));
    lab.run("fs views --store r save all one").exits(0);
    lab.run("fs views save --store r all one").exits(0);
    lab.run("fs ls --store ftp://x --view one").refuses(&["'ftp' is no store", "s3://"]);
    lab.run("fs ls --store s3:// --view one").refuses(&["give a bucket", "s3://BUCKET"]);
    lab.run("fs ls --store r --registry r --view one").exits(2);
    lab.run("fs ls --view one").refuses(&["--registry DIR or --store ADDRESS"]);
}

/// On a small file system of its own, where the machine lets users have one.
#[test]
fn a_full_disk_is_told_in_a_line_and_the_log_goes_on_when_there_is_space() {
    let lab = Lab::with_dir("disk");
    // It has no bytes on the disk that it lies on.
    std::fs::File::create(lab.path("big")).unwrap().set_len(200 << 20).unwrap();
    lab.write("small", "small\n");
    let script = "mount -t tmpfs -o size=100m tmpfs disk || exit 77
        \"$1\" fs mkdir --db disk/log /d || exit 78
        \"$1\" fs put --db disk/log big /d/big; echo \"put $?\"
        \"$1\" fs put --db disk/log small /d/small; echo \"again $?\"
        \"$1\" fs ls --db disk/log /d; \"$1\" fs fsck --db disk/log; echo \"fsck $?\"";
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_keyrack")]);
    let output = match command.current_dir(lab.path(".")).output() {
        Ok(output) if output.status.code() == Some(0) => output,
        refused => {
            println!("SKIPPED: no file system of its own: {refused:?}");
            return;
        }
    };
    let (told, said) =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).into();
    assert_eq!(told, "put 1\nagain 0\nsmall\nfsck 0\n", "{said}");
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("keyrack")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(lines[0].contains("disk/log") && lines[0].contains("No space left"), "{said}");
}

#[test]
fn a_quota_is_kept_by_every_command_that_makes_names() {
    let lab = Lab::new();
    lab.run("fs mkdir --db log --quota-depth 2 /a /a/b").exits(0);
    let told = lab.run("fs mkdir --db log --quota-depth 2 -p /a/b/c").exits(1);
    assert!(told.stderr.contains("too long: 3, and the limit is 2"), "{}", told.told());
    let told = lab.run("fs create --db log --quota-names 4 /a/1 /a/2 /a/3 /a/4").exits(1);
    let lines: Vec<&str> = told.stderr.lines().collect();
    let line = |path: &str| {
        let what = "the quota of 4 names is used up: remove some, or raise it";
        format!("keyrack fs create: {path}: {what}")
    };
    assert_eq!(lines, [line("/a/3"), line("/a/4")]);
    lab.run("fs find --db log --count /a").exits(0).says("4\n");
    lab.run("fs mv --db log --quota-name-bytes 3 /a/1 /a/four").exits(1).warns("too long: 4");
    lab.write("f", "bytes");
    lab.run("fs put --db log --quota-names 4 f /new").exits(1).warns("/new: the quota of 4");
    lab.write("in.jsonl", "{\"path\":\"x\",\"type\":\"f\"}\n{\"path\":\"y\",\"type\":\"f\"}\n");
    lab.run("fs import --db log --quota-names 5 in.jsonl").exits(1).warns("the quota of 5 names");
    lab.run("fs ls --db log /").exits(0).says("a\nx\n");
    lab.run("fs bench --db b --n 9 --quota-names 8 --step_interval 0").exits(1).warns("of 8 names");
    lab.run("fs create --db log --quota-depth 1025 /f").refuses(&["--quota-depth"]);
    lab.run("fs create --db log --quota-name-bytes 0 /f").refuses(&["--quota-name-bytes"]);
    let mut server = lab.start("fs serve --db s --port 0 --quota-names 30");
    server.wait_for("listening on ");
    let address = server.seen().lines().last().unwrap().rsplit(' ').next().unwrap().to_owned();
    let line = format!("fs clients --server {address} --n 40 --shared");
    lab.run(&line).exits(1).warns("the quota of 30 names is used up");
    server.signal("TERM");
    server.finish().exits(0).says("Names at most");
    lab.run("fs find --db s/r0 --count /").exits(0).says("31\n");
}
