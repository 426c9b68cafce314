//! The pictures of the documentation are what the newest record of their claim gives:
//! `benchmarks/figures.tsv` has a row for each, with the run below `benchmarks/record/*/` and the
//! chart. `cargo xtask figures` runs the first test with `KEYRACK_REWRITE=1`, which writes them.

use crate::support::{Lab, ROTATION, names_in};
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The run of the newest record that has it; folders begin with their day.
fn newest(root: &Path, run: &str) -> Option<PathBuf> {
    let records = root.join("benchmarks/record");
    let mut folders = names_in(&records);
    folders.sort();
    let runs = folders.iter().rev().map(|folder| records.join(folder).join(run));
    runs.into_iter().find(|path| path.exists())
}

/// What is wrong with the pictures below `root`, one line each. With `rewrite` they are written.
fn stale(lab: &Lab, root: &Path, rewrite: bool) -> Vec<String> {
    let table = std::fs::read_to_string(root.join("benchmarks/figures.tsv")).unwrap();
    let mut wrong = Vec::new();
    for (index, row) in table.lines().skip(1).enumerate() {
        let [picture, run, chart] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("benchmarks/figures.tsv: not three columns: {row}");
        };
        let path = root.join(picture);
        let Some(run) = newest(root, run) else {
            println!("SKIPPED {picture}: there is no record of {run} yet");
            if path.exists() {
                wrong.push(format!("{picture} is drawn of no record: {run}"));
            }
            continue;
        };
        let out = format!("drawn-{index}");
        let run = run.to_str().unwrap();
        lab.run_words(&["report", "plot", run, "--out", out.as_str()]).exits(0);
        let drawn = lab.read(&format!("{out}/{chart}.svg"));
        if rewrite {
            std::fs::write(&path, &drawn).unwrap();
        }
        if std::fs::read_to_string(&path).ok().as_deref() != Some(&drawn) {
            wrong.push(format!("{picture} is stale: cargo xtask figures draws it again"));
        }
    }
    wrong
}

#[test]
fn pictures_are_those_of_the_record() {
    let rewrite = std::env::var_os("KEYRACK_REWRITE").is_some();
    assert_eq!(stale(&Lab::new(), Path::new(ROOT), rewrite), Vec::<String>::new());
}

#[test]
fn a_picture_of_another_record_is_found() {
    let lab = Lab::with("work.lua", ROTATION);
    lab.make_dir("images");
    let record = |day: &str, ops: u32| {
        let run = format!("benchmarks/record/{day}-machine/claim/run.json");
        std::fs::create_dir_all(lab.path(&run).parent().unwrap()).unwrap();
        let line = "bench work.lua --backend btree --probe none --report";
        lab.run(&format!("{line} json:{run} --ops {ops}")).exits(0);
    };
    let (root, picture) = (lab.path(""), "images/one.svg");
    std::fs::create_dir_all(lab.path("benchmarks/record")).unwrap();
    let table = format!("picture\trun\tchart\n{picture}\tclaim/run.json\tthroughput_compare\n");
    lab.write("benchmarks/figures.tsv", table);
    // Without a record there is to be no picture.
    assert_eq!(stale(&lab, &root, false), Vec::<String>::new());
    lab.write(picture, "typed");
    assert!(stale(&lab, &root, false)[0].contains("drawn of no record"));
    record("2001-02-03", 200);
    assert!(stale(&lab, &root, false)[0].contains("cargo xtask figures"));
    assert_eq!(stale(&lab, &root, true), Vec::<String>::new());
    let first = lab.read(picture);
    assert!(first.starts_with("<svg ") && first.contains("work.lua"), "{first}");
    assert_eq!(stale(&lab, &root, false), Vec::<String>::new());
    // An older one changes nothing, a newer one does.
    record("2001-02-02", 300);
    assert_eq!(stale(&lab, &root, false), Vec::<String>::new());
    record("2001-11-01", 400);
    assert!(stale(&lab, &root, false)[0].contains("images/one.svg is stale"));
    assert_eq!(stale(&lab, &root, true), Vec::<String>::new());
    assert_ne!(lab.read(picture), first);
}
