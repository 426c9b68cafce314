//! `keyrack db torture`: processes that are killed while they write, and what is there afterwards.
//!
//! A run says each acknowledgement on standard error, too; the test reads up to a drawn one, or to
//! the line before the store is opened, and kills the process, which has gone on meanwhile. The
//! next run goes on with the same store. After each kill `verify` must find all acknowledged
//! writes. That it would say so otherwise is shown with stores that were changed behind its back.

use crate::support::{Lab, Running};
use keyrack_testkit::random::{Draw, seed_or};

/// Kills a store again and again, and looks at it after each time.
fn killed(engine: &str, stream: u64, kills: u64) {
    let mut draw = Draw::new(seed_or(1) ^ stream << 32);
    let lab = Lab::new();
    for kill in 0..kills {
        let (threads, run_seed) = (1 + draw.below(3), draw.below(1_u64 << 32));
        let mut run: Running = lab.start(&format!(
            "db torture run --engine {engine} s acks 1000000 --verbose --seed {run_seed} \
             --threads {threads}"
        ));
        run.wait_for("torture: seed");
        let until = draw.below(30);
        if until > 0 {
            run.wait_for(&format!("acknowledged {until}"));
        }
        run.kill();
        let status = run.finish().status;
        assert_eq!(status, 128 + 9, "kill {kill}: it ended before it was killed");
        let told = lab.run(&format!("db torture verify --engine {engine} s acks"));
        assert_eq!(told.status, 0, "SEED={} kill {kill} of {stream}: {}", seed_or(1), told.told());
    }
    let lines = lab.read("acks").lines().count();
    assert!(lines as u64 > kills, "{lines} acknowledgements in {kills} runs");
}

#[test]
fn fifty_kills_of_one_store_lose_nothing() {
    killed("flodb", 1, 50);
}

#[test]
fn fifty_kills_of_another_store_lose_nothing() {
    killed("flodb", 2, 50);
}

#[test]
fn fifty_kills_of_a_third_store_lose_nothing() {
    killed("flodb", 3, 50);
}

#[test]
fn fifty_kills_of_a_fourth_store_lose_nothing() {
    killed("flodb", 4, 50);
}

#[test]
fn fifty_kills_of_a_row_store_lose_nothing() {
    killed("rowstore", 5, 50);
}

#[test]
fn fifty_kills_of_another_row_store_lose_nothing() {
    killed("rowstore", 6, 50);
}

#[test]
fn what_a_row_store_has_lost_is_found() {
    let lab = Lab::new();
    let verify = "db torture verify --engine rowstore s acks";
    lab.run("db torture run --engine rowstore s acks 400 --threads 2").exits(0).says("400 writes");
    lab.run(verify).exits(0).says("400 acknowledged writes, all there");
    // Another store has none of them.
    lab.run("db torture run --engine rowstore other acks 0 --seed 9").exits(0);
    lab.run("db torture verify --engine rowstore other acks").exits(1).warns("it is not there");
    std::fs::remove_dir_all(lab.path("s")).unwrap();
    lab.run(verify).exits(1).warns("there is no store");
}

/// The last key that was put, and not removed, by the file of acknowledgements.
fn last_put(lab: &Lab) -> String {
    let acks = lab.read("acks");
    let key_of = |line: &str| line.split(' ').nth(1).unwrap().to_owned();
    let last = acks.lines().rfind(|line| {
        let is_last = acks.lines().rfind(|other| key_of(other) == key_of(line)) == Some(*line);
        line.starts_with("put") && is_last
    });
    key_of(last.unwrap())
}

#[test]
fn what_is_lost_or_wrong_is_found() {
    let lab = Lab::new();
    lab.run("db torture run s acks 400 --threads 2").exits(0).says("400 writes");
    lab.run("db torture verify s acks").exits(0).says("400 acknowledged writes, all there");
    let key = last_put(&lab);
    let value = lab.run(&format!("db get s --hex {}", hex(&key))).exits(0).stdout;
    lab.run(&format!("db delete s {key}")).exits(0);
    let told = lab.run("db torture verify s acks");
    // Its next version may be a removal, which nobody has acknowledged, and may be there.
    if told.status == 0 {
        println!("the next version of {key} is a removal");
    } else {
        told.exits(1).warns(&key).warns("it is not there");
    }
    lab.run(&format!("db put s {key} wrong")).exits(0);
    lab.run("db torture verify s acks").exits(1).warns(&key).warns("never written");
    lab.run(&format!("db put s --hex {} {}", hex(&key), value.trim())).exits(0);
    lab.run("db torture verify s acks").exits(0);
    lab.run("db put s alien x").exits(0);
    lab.run("db torture verify s acks").exits(1).warns("'alien' was never written");
    lab.run("db delete s alien").exits(0);
    // All of it is gone.
    lab.run("db destroy s --yes").exits(0);
    lab.run("db torture verify s acks").exits(1).warns("there is no store");
    lab.run("db torture run s other 3").exits(0);
    lab.run("db torture verify s acks").exits(1).warns("was acknowledged, it is not there");
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// An old version in place of the acknowledged one.
#[test]
fn a_write_that_was_undone_is_found() {
    let lab = Lab::new();
    lab.run("db torture run s acks 600 --seed 5").exits(0);
    lab.run("db checkpoint s old").exits(0);
    lab.run("db torture run s acks 1500 --seed 6").exits(0);
    lab.run("db torture verify s acks").exits(0);
    lab.run("db torture verify old acks").exits(1).warns("was acknowledged, version");
}

#[test]
fn damage_is_told_apart_from_loss() {
    let lab = Lab::new();
    lab.run("db torture run s acks 300").exits(0);
    lab.run("db compact s").exits(0);
    let table = lab.names("s").into_iter().find(|name| name.ends_with(".table")).unwrap();
    let path = lab.path("s").join(&table);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100] ^= 4;
    std::fs::write(&path, bytes).unwrap();
    let told = lab.run("db torture verify s acks").exits(3).warns(&table);
    assert_eq!(told.stdout, "");
}

#[test]
fn the_file_of_acknowledgements_is_checked() {
    let lab = Lab::new();
    lab.run("db torture verify s absent").refuses(&["absent", "no such file"]);
    lab.write("none", "");
    lab.run("db torture verify s none").exits(0).says("0 acknowledged");
    lab.write("bad", "put torture/00001 1\nsomething else\n");
    lab.run("db torture verify s bad").refuses(&["bad", "line 2"]);
    lab.run("db torture run s bad 5").refuses(&["bad", "line 2"]);
    assert!(!lab.exists("s"));
    // A run goes on behind a line that was cut short.
    lab.run("db torture run s acks 5").exits(0);
    let text = lab.read("acks");
    lab.write("acks", format!("{text}put torture/0"));
    lab.run("db torture verify s acks").exits(0).says("5 acknowledged");
    lab.run("db torture run s acks 5 --seed 2").exits(0);
    lab.run("db torture verify s acks").exits(0).says("10 acknowledged");
    lab.run("db torture run s acks 5 --engine redb").refuses(&["'redb'", "flodb", "rowstore"]);
    lab.run("db torture run s acks 5 --threads 0").refuses(&["--threads"]);
    lab.run("db torture run s acks many").refuses(&["'many'"]);
    lab.run("db torture").exits(2).warns("verify");
}
