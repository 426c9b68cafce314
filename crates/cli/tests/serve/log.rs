//! What the log of a server says.

use super::disk::Disk;
use super::{Client, Served, lab_with_secret};
use crate::support::Lab;
use serde_json::Value;

/// The events of a log of JSON lines.
fn events(stderr: &str) -> Vec<Value> {
    let lines = stderr.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_wrong_password_is_in_the_log_and_a_flood_of_them_is_a_few_lines() {
    let lab = lab_with_secret("open sesame");
    let served = Served::start(
        &lab,
        "--engine masstree --threads 1 --log-format json --log-level warn --password-file secret \
         --listen memcached://127.0.0.1:0 --listen resp://127.0.0.1:0",
    );
    served.connect("resp").ask("AUTH wrong\r\n", "-WRONGPASS");
    let mut memcached = served.connect("memcached");
    memcached.send("set auth 0 0 7\r\nu wrong\r\n");
    assert!(memcached.rest().starts_with("CLIENT_ERROR"));
    for _ in 0..200 {
        served.connect("resp").ask("AUTH guess\r\n", "-WRONGPASS");
    }
    let stderr = served.end();
    assert!(!stderr.contains("sesame") && !stderr.contains("guess"), "{stderr}");
    let events = events(&stderr);
    for protocol in ["redis", "memcached"] {
        let found = events.iter().find(|event| event["protocol"] == protocol);
        let event = found.unwrap_or_else(|| panic!("no {protocol} in:\n{stderr}"));
        assert_eq!(event["level"], "warn");
        assert_eq!(event["message"], "a client gave a wrong password");
        assert!(event["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{event}");
    }
    // Those that were not written are counted by the next one that is.
    assert!(events.iter().all(|event| event["unsaid"].is_u64()), "{stderr}");
    assert!(events.iter().all(|event| event["level"] != "info"), "{stderr}");
    assert!(events.len() < 200, "{} lines", events.len());
}

#[test]
fn the_log_is_text_for_people_and_evictions_are_in_it() {
    let lab = Lab::new();
    let served = Served::start(
        &lab,
        "--engine masstree --threads 1 --memory-max 1M --eviction clock \
         --listen resp://127.0.0.1:0",
    );
    let mut client = served.connect("resp");
    let value = "v".repeat(10_000);
    for index in 0..2_000 {
        client.ask(format!("SET k{index} {value}\r\n"), "+OK\r\n");
    }
    drop(client);
    let stderr = served.end();
    assert!(stderr.contains("rows were evicted rows="), "{stderr}");
}

/// The server with `words`, and its rows in a disk of its own of so many MiB.
fn on_a_disk(test: &str, lab: &Lab, mib: u64, words: &str) -> Option<(Disk, Served)> {
    lab.make_dir("disk");
    match Disk::mount(&lab.path("disk"), mib) {
        Ok(disk) => {
            let dir = disk.path.join("rows").display().to_string();
            let words =
                format!("{words} --data-dir {dir} --log-format json --listen resp://127.0.0.1:0");
            let served = Served::start(lab, &words);
            served.connect("resp").ask("PING\r\n", "+PONG\r\n");
            Some((disk, served))
        }
        Err(why) => {
            println!("SKIPPED {test}: no file system of its own: {why}");
            None
        }
    }
}

/// Sets a key to 1 MiB. Returns the reply.
fn set_a_mebibyte(client: &mut Client, index: u32) -> String {
    client.send(format!("*3\r\n$3\r\nSET\r\n$4\r\nk{index:03}\r\n$1048576\r\n"));
    client.send("v".repeat(1 << 20));
    client.send("\r\n");
    client.line()
}

/// The levels of the events whose message holds `words`.
fn levels(events: &[Value], words: &str) -> Vec<String> {
    let found = events.iter().filter(|event| event["message"].as_str().unwrap().contains(words));
    found.map(|event| event["level"].as_str().unwrap().to_owned()).collect()
}

/// The line comes once however many replies wait, and another one when there is space again.
#[test]
fn a_full_disk_was_not_in_the_log() {
    let lab = Lab::new();
    let words = "--engine rowstore --durability sync --threads 1";
    let found = on_a_disk("a_full_disk_was_not_in_the_log", &lab, 768, words);
    let Some((disk, mut served)) = found else { return };
    let mut client = served.connect("resp");
    disk.fill();
    let replies = std::thread::scope(|scope| {
        // More than the segments that the log has already.
        let writer = scope.spawn(move || {
            (0..300).map(|index| set_a_mebibyte(&mut client, index)).collect::<Vec<_>>()
        });
        served.child.wait_for("cannot write the log; replies wait until it can be");
        disk.free();
        served.child.wait_for("the log can be written again");
        writer.join().unwrap()
    });
    assert!(replies.iter().all(|reply| reply == "+OK"), "{replies:?}");
    let events = events(&served.end());
    assert_eq!(levels(&events, "cannot write the log"), ["error"]);
    assert_eq!(levels(&events, "the log can be written again"), ["info"]);
}

/// An engine that writes at once refuses the command. Its client alone was told.
#[test]
fn a_full_disk_below_flodb_was_not_in_the_log() {
    let lab = Lab::new();
    let words = "--engine flodb --threads 1";
    let found = on_a_disk("a_full_disk_below_flodb_was_not_in_the_log", &lab, 256, words);
    let Some((disk, mut served)) = found else { return };
    let mut client = served.connect("resp");
    disk.fill();
    let refused = (0..300).map(|index| set_a_mebibyte(&mut client, index)).find(|r| r != "+OK");
    assert!(refused.is_some_and(|reply| reply.starts_with("-MISCONF ")));
    served.child.wait_for("the store failed a command");
    disk.free();
    drop(client);
    let events = events(&served.end());
    assert_eq!(levels(&events, "the store failed a command"), ["error"]);
}
