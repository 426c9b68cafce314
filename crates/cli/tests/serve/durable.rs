//! What was acknowledged is there after the end, however it came.

use super::Served;
use crate::support::Lab;

/// Keys that a test writes.
const KEYS: usize = 200;

#[track_caller]
fn everything_is_there(lab: &Lab, words: &str) {
    let served = Served::start(lab, words);
    let mut client = served.connect("memcached");
    for index in 0..KEYS {
        let value = format!("value{index}");
        let reply = format!("VALUE k{index} 0 {}\r\n{value}\r\nEND\r\n", value.len());
        client.ask(format!("get k{index}\r\n"), &reply);
    }
    client.ask("get gone\r\n", "END\r\n");
    served.end();
}

fn write_some(served: &Served) {
    let mut client = served.connect("memcached");
    client.ask("set gone 0 0 1\r\nx\r\n", "STORED\r\n");
    for index in 0..KEYS {
        let value = format!("value{index}");
        client.ask(format!("set k{index} 0 0 {}\r\n{value}\r\n", value.len()), "STORED\r\n");
    }
    client.ask("delete gone\r\n", "DELETED\r\n");
}

#[test]
fn a_signal_loses_nothing_that_was_acknowledged() {
    for durability in ["os", "sync", "interval:50"] {
        let lab = Lab::new();
        let words = format!(
            "--data-dir data --threads 2 --durability {durability} --listen memcached://127.0.0.1:0"
        );
        let served = Served::start(&lab, &words);
        write_some(&served);
        served.end();
        everything_is_there(&lab, &words);
    }
}

#[test]
fn a_kill_loses_nothing_that_was_acknowledged() {
    for durability in ["os", "sync"] {
        let lab = Lab::new();
        let words = format!(
            "--data-dir data --threads 2 --durability {durability} --listen memcached://127.0.0.1:0"
        );
        let mut served = Served::start(&lab, &words);
        write_some(&served);
        served.child.kill();
        served.child.finish().exits(128 + 9);
        everything_is_there(&lab, &words);
    }
}

#[test]
fn flodb_holds_rows_too() {
    let lab = Lab::new();
    let words = "--engine flodb --data-dir data --threads 1 --listen memcached://127.0.0.1:0";
    let served = Served::start(&lab, words);
    write_some(&served);
    served.end();
    everything_is_there(&lab, words);
}

#[test]
fn a_directory_has_one_server() {
    let lab = Lab::new();
    let words = "--data-dir data --threads 1 --listen memcached://127.0.0.1:0";
    let served = Served::start(&lab, words);
    lab.run(&format!("serve {words}")).exits(2);
    served.end();
}
