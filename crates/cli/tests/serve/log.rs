//! What the log of a server says.

use super::disk::Disk;
use super::{Client, Served, lab_with_secret};
use crate::support::Lab;
use serde_json::Value;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;

/// The events of a log of JSON lines. Every line is one.
fn events(stderr: &str) -> Vec<Value> {
    let events: Vec<Value> =
        stderr.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    for event in &events {
        let time = event["time"].as_str().unwrap();
        assert_eq!((time.len(), &time[10..11], &time[23..]), (24, "T", "Z"), "{event}");
        assert!(event["level"].is_string() && event["event"].is_string(), "{event}");
    }
    events
}

/// The events of that name.
fn named<'e>(events: &'e [Value], name: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["event"] == name).collect()
}

#[test]
fn a_wrong_password_is_in_the_log_and_a_flood_of_them_is_a_few_lines() {
    let lab = lab_with_secret("open sesame");
    let served = Served::start(
        &lab,
        "--engine masstree --threads 1 --log-format json --password-file secret \
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
    let refused = named(&events, "auth-refused");
    for protocol in ["redis", "memcached"] {
        let found = refused.iter().find(|event| event["protocol"] == protocol);
        let event = found.unwrap_or_else(|| panic!("no {protocol} in:\n{stderr}"));
        assert_eq!(event["level"], "warn");
        assert!(event["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{event}");
    }
    assert_eq!(refused[0]["user"], "default");
    // A refusal of memcached's text has no user: its words may all be a password.
    assert_eq!(refused[1]["user"], "");
    // Each was written, or counted by the line that follows.
    let left_out: u64 = named(&events, "left-out")
        .iter()
        .filter(|event| event["of"] == "auth-refused")
        .map(|event| event["lines"].as_u64().unwrap())
        .sum();
    assert_eq!(refused.len() as u64 + left_out, 202, "{stderr}");
    assert!(left_out > 0, "{stderr}");
}

/// Names of users, and first bytes that are of no protocol, come from anybody.
#[test]
fn no_bytes_of_a_client_make_a_line_of_the_log() {
    let lab = lab_with_secret("open sesame");
    for format in ["json", "text"] {
        let served = Served::start(
            &lab,
            &format!(
                "--engine masstree --threads 1 --log-format {format} --log-level debug \
                 --password-file secret \
                 --listen resp://127.0.0.1:0 --listen memcached://127.0.0.1:0"
            ),
        );
        for user in [
            &b"a\n2026-01-01T00:00:00.000Z ERROR server-failed cause=x"[..],
            b"\x1b[2J\x1b]0;title\x07\x9b31m",
            b"\",\"level\":\"error",
            b"\xff\xfe\0\r\n",
            &[b'u'; 5000],
        ] {
            let mut client = served.connect("resp");
            client.send(format!("*3\r\n$4\r\nAUTH\r\n${}\r\n", user.len()));
            client.send(user);
            client.ask("\r\n$3\r\nbad\r\n", "-WRONGPASS");
        }
        let mut memcached = served.connect("memcached");
        memcached.send("get a\r\n");
        assert_eq!(memcached.rest(), "CLIENT_ERROR unauthenticated\r\n");
        served.connect("resp").ask("*1\r\n:5\r\n", "-ERR Protocol error: expected '$', got ':'");
        let stderr = served.end();
        assert!(stderr.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)));
        assert!(stderr.lines().all(|line| line.len() < 2500), "{stderr}");
        assert!(stderr.contains("... (4872 more bytes)"), "{stderr}");
        assert!(!stderr.contains("sesame"));
        if format == "json" {
            let events = events(&stderr);
            assert_eq!(named(&events, "auth-refused").len(), 5, "{stderr}");
            assert_eq!(named(&events, "server-failed").len(), 0);
            assert_eq!(named(&events, "protocol-error").len(), 2, "{stderr}");
        }
    }
}

#[test]
fn a_life_has_its_events() {
    let lab = Lab::new();
    let served = Served::start(
        &lab,
        "--data-dir rows --threads 1 --log-format json --log-level debug \
         --listen resp://127.0.0.1:0",
    );
    served.connect("resp").ask("SET a 1\r\nSAVE\r\n", "+OK\r\n+OK\r\n");
    served.connect("resp").send("SHUTDOWN\r\n");
    let stderr = served.child.finish().exits(0).stderr;
    let events = events(&stderr);
    let names: Vec<&str> = events
        .iter()
        .filter(|event| event["level"] == "info")
        .map(|event| event["event"].as_str().unwrap())
        .filter(|name| *name != "loading")
        .collect();
    let wanted = [
        "start",
        "store-open",
        "ready",
        "checkpoint-begun",
        "checkpoint-ended",
        "stop-begun",
        "stop-ended",
    ];
    assert_eq!(names, wanted, "{stderr}");
    let settings = named(&events, "start")[0]["settings"].as_str().unwrap();
    assert!(settings.contains(" data-dir=rows ") && settings.contains(" threads=1 "));
    assert!(named(&events, "ready")[0]["addresses"].as_str().unwrap().starts_with("resp://127."));
    let ended = named(&events, "checkpoint-ended")[0];
    assert!(ended["rows"] == 1 && ended["bytes"].as_u64() > Some(0), "{ended}");
    assert_eq!(named(&events, "stop-begun")[0]["reason"], "SHUTDOWN");
    assert!(named(&events, "connection-opened").len() == 2, "{stderr}");
}

#[test]
fn a_level_leaves_out_what_is_below_it_but_no_line_for_scripts() {
    let lab = Lab::new();
    let words = "--engine masstree --threads 1 --listen resp://127.0.0.1:0";
    let stderr = Served::start(&lab, &format!("{words} --log-level warn")).end();
    let lines: Vec<&str> = stderr.lines().collect();
    assert!(lines[0].starts_with("listening on resp://127.0.0.1:"), "{stderr}");
    assert_eq!(lines[1..], ["ready", "ended"]);
}

/// Standard error takes nothing from the first line on: its reader does not read, or has gone.
#[test]
fn a_full_or_closed_pipe_of_the_log_delays_no_client_and_no_end() {
    for is_closed in [false, true] {
        let lab = Lab::new();
        // A pair of sockets stands for the pipe: it can be filled without waiting.
        let (reader, mut writer) = UnixStream::pair().unwrap();
        writer.set_nonblocking(true).unwrap();
        while writer.write(&[b'x'; 4096]).is_ok() {}
        writer.set_nonblocking(false).unwrap();
        let reader = (!is_closed).then_some(reader);
        let mut child = Command::new(env!("CARGO_BIN_EXE_keyrack"))
            .current_dir(lab.path("."))
            .args(["serve", "--engine", "masstree", "--threads", "1", "--log-level", "debug"])
            .args(["--listen", &format!("resp+unix://{}", lab.path("socket").display())])
            .stderr(OwnedFd::from(writer))
            .spawn()
            .unwrap();
        let mut stream = loop {
            match UnixStream::connect(lab.path("socket")) {
                Ok(stream) => break stream,
                Err(_) => assert_eq!(child.try_wait().unwrap(), None, "it ended"),
            }
            std::thread::yield_now();
        };
        for _ in 0..100 {
            stream.write_all(b"PING\r\n").unwrap();
            let mut reply = [0; 7];
            stream.read_exact(&mut reply).unwrap();
            assert_eq!(&reply, b"+PONG\r\n");
            // Further clients are events, too.
            drop(UnixStream::connect(lab.path("socket")).unwrap());
        }
        stream.write_all(b"SHUTDOWN\r\n").unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        drop(reader);
    }
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
    assert!(stderr.contains("INFO evicted rows="), "{stderr}");
    assert!(stderr.contains("\nready\n") && stderr.ends_with("\nended\n"), "{stderr}");
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

/// The levels of the events of that name.
fn levels(events: &[Value], name: &str) -> Vec<String> {
    let level = |event: &&Value| event["level"].as_str().unwrap().to_owned();
    named(events, name).iter().map(level).collect()
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
        served.child.wait_for("\"disk-full\"");
        disk.free();
        served.child.wait_for("\"disk-full-ended\"");
        writer.join().unwrap()
    });
    assert!(replies.iter().all(|reply| reply == "+OK"), "{replies:?}");
    let events = events(&served.end());
    assert_eq!(levels(&events, "disk-full"), ["error"]);
    assert_eq!(levels(&events, "disk-full-ended"), ["info"]);
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
    served.child.wait_for("\"command-failed\"");
    disk.free();
    drop(client);
    let events = events(&served.end());
    assert!(levels(&events, "command-failed").iter().all(|level| level == "error"));
}
