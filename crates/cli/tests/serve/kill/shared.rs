//! Keys that several clients write, on loops and logs of their own.
//!
//! ```text
//!   count                         INCR, by everybody
//!   left, right{who}, right{n}, n MULTI: SET left ME, HSET right who ME, HINCRBY right n 1, INCR n
//!   a, b                          MSET a ME b ME
//! ```
//!
//! **Invariant:** a counter is between what was acknowledged and what was sent, and what a group or
//! MSET has written is of one and the same writer, whoever it was.

use super::client::Trigger;
use super::step::command;
use crate::serve::Client;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::ops::RangeInclusive;
use std::sync::mpsc::Sender;

/// Rounds that are sent at once.
const DEPTH: u64 = 4;

/// Replies of a round, in lines: 1, then MULTI's, then MSET's.
const LINES: usize = 1 + 1 + 4 + 5 + 1;

/// A client of the shared keys.
#[derive(Default)]
pub(super) struct Sharer {
    pub(super) index: usize,
    pub(super) acknowledged: u64,
    pub(super) sent: u64,
}

impl Sharer {
    /// Writes until the connection ends.
    pub(super) fn write(&mut self, stream: TcpStream, trigger: &Trigger, pulled: &Sender<()>) {
        let mut stream = BufReader::new(stream);
        loop {
            let mut request = Vec::new();
            for _ in 0..DEPTH {
                self.sent += 1;
                request.extend(round(&format!("{}:{}", self.index, self.sent)));
            }
            // What comes after a write that failed counts all the same.
            let is_sent = stream.get_mut().write_all(&request).is_ok();
            for _ in 0..DEPTH {
                for line in 0..LINES {
                    if !hear(&mut stream, line) {
                        return;
                    }
                }
                self.acknowledged += 1;
                trigger.note(1, pulled);
            }
            if !is_sent {
                return;
            }
        }
    }
}

fn round(me: &str) -> Vec<u8> {
    let me = me.as_bytes();
    [
        command(&[b"INCR", b"count"]),
        command(&[b"MULTI"]),
        command(&[b"SET", b"left", me]),
        command(&[b"HSET", b"right", b"who", me]),
        command(&[b"HINCRBY", b"right", b"n", b"1"]),
        command(&[b"INCR", b"n"]),
        command(&[b"EXEC"]),
        command(&[b"MSET", b"a", me, b"b", me]),
    ]
    .concat()
}

/// A line of a reply; false at the end of the connection.
fn hear(stream: &mut BufReader<TcpStream>, index: usize) -> bool {
    let mut line = String::new();
    match stream.read_line(&mut line) {
        Ok(_) if line.ends_with('\n') => {
            assert!(!line.starts_with('-'), "line {index} of a round: {line}");
            true
        }
        _ => false,
    }
}

/// Looks at the shared keys. `bounds` are those of `count` and of `n`; returns what they are.
#[track_caller]
pub(super) fn meet(client: &mut Client, bounds: [RangeInclusive<u64>; 2], story: &str) -> [u64; 2] {
    let mut get = |words: &[&[u8]]| super::value(client, words).map(text).unwrap_or_default();
    let number = |text: String| if text.is_empty() { 0 } else { text.parse::<u64>().unwrap() };
    let counts = [number(get(&[b"GET", b"count"])), number(get(&[b"GET", b"n"]))];
    for (count, bounds) in counts.iter().zip(bounds) {
        assert!(bounds.contains(count), "{count} is not in {bounds:?}\n{story}");
    }
    let in_hash = number(get(&[b"HGET", b"right", b"n"]));
    assert_eq!(counts[1], in_hash, "half a group is there\n{story}");
    let pairs = [
        (get(&[b"GET", b"left"]), get(&[b"HGET", b"right", b"who"])),
        (get(&[b"GET", b"a"]), get(&[b"GET", b"b"])),
    ];
    for (one, other) in pairs {
        assert_eq!(one, other, "half of what is one step is there\n{story}");
    }
    counts
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}
