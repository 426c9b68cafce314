//! A server under load that is killed again and again, and what is there afterwards.
//!
//! ```text
//!   start (threads and logs drawn) --> is everything there? --> load by five clients --> kill
//!     ^                                                                                   |
//!     +-----------------------------------------------------------------------------------+
//! ```
//!
//! The moment follows from a number of acknowledgements that is drawn, and from the scheduler. Some
//! kills fall into the opening, some follow a SIGTERM; checkpoints begin every 64 KiB of log, so
//! many fall into those. A kill leaves what the kernel has, so nothing that was acknowledged may be
//! missing under any durability; what a power loss leaves is tested with images of disks, in
//! `rowstore`.
//!
//! `KEYRACK_KILLS=n` replaces the number of kills of each durability, `KEYRACK_SEED=n` the seed.

mod client;
mod shared;
mod step;

use super::{Client, Served};
use crate::support::{Lab, signal};
use client::{Owner, Trigger};
use keyrack_testkit::random::{Draw, seed_or};
use shared::Sharer;
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::channel;
use step::{Held, Protocol, State, command};

/// Kills of each durability in everyday runs.
const KILLS: u64 = 10;

/// Steps before a kill, at most.
const STEPS_MAX: u64 = 800;

#[test]
fn kills_under_load_lose_nothing_with_durability_os() {
    killed("os", 1);
}

#[test]
fn kills_under_load_lose_nothing_with_durability_sync() {
    killed("sync", 2);
}

#[test]
fn kills_under_load_lose_nothing_with_durability_interval() {
    killed("interval:50", 3);
}

/// One store and those who write to it.
struct Siege {
    lab: Lab,
    durability: &'static str,
    draw: Draw,
    owners: Vec<Owner>,
    sharers: Vec<Sharer>,
    /// What the shared counters were when they were looked at last: `count`, `n`.
    counts: [u64; 2],
    rounds: u64,
    /// What has happened, for messages.
    story: String,
}

fn killed(durability: &'static str, stream: u64) {
    let given = std::env::var("KEYRACK_KILLS").ok();
    let kills = given.map_or(KILLS, |kills| kills.parse().expect("KEYRACK_KILLS is a number"));
    let seed = seed_or(1);
    let protocols = [Protocol::Memcached, Protocol::Redis, Protocol::Redis];
    let owner = |(index, protocol)| Owner::new(index, protocol, seed ^ stream << 32);
    let mut siege = Siege {
        lab: Lab::new(),
        durability,
        draw: Draw::new(seed ^ stream << 32),
        owners: protocols.into_iter().enumerate().map(owner).collect(),
        sharers: (0..2).map(|index| Sharer { index, ..Sharer::default() }).collect(),
        counts: [0; 2],
        rounds: 0,
        story: format!("SEED={seed}, durability {durability}"),
    };
    let mut checkpoints = 0;
    for kill in 0..kills {
        siege.story.push_str(&format!("\nkill {kill}: "));
        if siege.draw.one_in(8) {
            siege.kill_while_it_opens();
        }
        let mut served = siege.start();
        siege.meet(&served);
        siege.load_and_kill(&mut served);
        let seen = served.child.finish();
        assert!([0, 128 + 9].contains(&seen.status), "{}\n{}", seen.told(), siege.story);
        checkpoints += parts(&siege.lab);
    }
    let served = siege.start();
    siege.meet(&served);
    served.end();
    let served = siege.start();
    siege.meet(&served);
    served.end();
    let steps: u64 = siege.owners.iter().map(|owner| owner.acknowledged).sum();
    println!(
        "{durability}: {kills} kills, {steps} steps, {} shared rounds, nothing lost",
        siege.rounds
    );
    assert!(checkpoints > 0 && steps > kills * 10, "too little happened: {steps} steps");
}

/// Files of checkpoints that a kill has left.
fn parts(lab: &Lab) -> usize {
    lab.names("data").iter().filter(|name| name.ends_with(".rows")).count()
}

impl Siege {
    fn words(&mut self) -> String {
        let (threads, logs) = (1 + self.draw.below(3), 1 + self.draw.below(3));
        let dirs: String = (0..logs).map(|log| format!("--log-dir log-{log} ")).collect();
        self.story.push_str(&format!("{threads} threads, {logs} logs; "));
        format!(
            "--data-dir data --durability {} --threads {threads} {dirs} --checkpoint-log 64K \
             --listen memcached://127.0.0.1:0 --listen resp://127.0.0.1:0",
            self.durability
        )
    }

    fn start(&mut self) -> Served {
        let words = self.words();
        Served::start(&self.lab, &words)
    }

    fn kill_while_it_opens(&mut self) {
        self.story.push_str("killed while it opens; ");
        let words = self.words();
        let mut child = self.lab.start(&format!("serve {words}"));
        if self.draw.one_in(2) {
            child.wait_for("store-open");
        }
        child.kill();
        child.finish();
    }

    /// Everything that was acknowledged is there, and each step whole or not at all.
    fn meet(&mut self, served: &Served) {
        let mut client = served.connect("resp");
        for owner in &mut self.owners {
            owner.meet(state(&mut client, owner.index), &self.story);
        }
        let (mut acknowledged, mut sent) = (0, 0);
        for sharer in &mut self.sharers {
            acknowledged += std::mem::take(&mut sharer.acknowledged);
            sent += std::mem::take(&mut sharer.sent);
        }
        self.rounds += acknowledged;
        let bounds = self.counts.map(|count| count + acknowledged..=count + sent);
        self.counts = shared::meet(&mut client, bounds, &self.story);
    }

    fn load_and_kill(&mut self, served: &mut Served) {
        let trigger = Trigger { at: 1 + self.draw.below(STEPS_MAX), count: AtomicU64::new(0) };
        let is_asked_first = self.draw.one_in(8);
        self.story.push_str(&format!("killed after {} steps", trigger.at));
        let connect = |scheme: &str| TcpStream::connect(served.address(scheme)).unwrap();
        let streams: Vec<TcpStream> = (self.owners.iter())
            .map(|owner| match owner.protocol {
                Protocol::Memcached => connect("memcached"),
                Protocol::Redis => connect("resp"),
            })
            .chain(self.sharers.iter().map(|_| connect("resp")))
            .collect();
        let (pulled, wait) = channel();
        let child = &mut served.child;
        std::thread::scope(|scope| {
            let mut streams = streams.into_iter();
            for owner in &mut self.owners {
                let (stream, pulled, trigger) = (streams.next().unwrap(), pulled.clone(), &trigger);
                scope.spawn(move || owner.write(stream, trigger, &pulled));
            }
            for sharer in &mut self.sharers {
                let (stream, pulled, trigger) = (streams.next().unwrap(), pulled.clone(), &trigger);
                scope.spawn(move || sharer.write(stream, trigger, &pulled));
            }
            drop(pulled);
            let is_pulled = wait.recv().is_ok();
            if is_pulled && is_asked_first {
                signal(child.id(), "TERM");
            }
            child.kill();
            assert!(is_pulled, "all clients have ended before the kill");
        });
    }
}

/// All that a client's keys hold.
fn state(client: &mut Client, index: usize) -> State {
    let pattern = format!("{index}/*");
    let keys = values(client, &[b"KEYS", pattern.as_bytes()]);
    let mut state = State::new();
    for key in keys {
        let name = String::from_utf8(key.clone()).unwrap();
        let held = if name.contains("/h") {
            let mut fields = BTreeMap::new();
            for pair in values(client, &[b"HGETALL", &key]).chunks(2) {
                let [field, value] = [&pair[0], &pair[1]].map(|bytes| text(bytes));
                fields.insert(field, value);
            }
            Held::Hash(fields)
        } else {
            let value = value(client, &[b"GET", &key]).unwrap();
            client.send(command(&[b"PEXPIRETIME", &key]));
            let expires = client.line().trim_start_matches(':').parse::<i64>().unwrap();
            Held::Value(value, expires.max(0).cast_unsigned())
        };
        state.insert(name, held);
    }
    state
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A reply that is a string, or none.
fn value(client: &mut Client, words: &[&[u8]]) -> Option<Vec<u8>> {
    client.send(command(words));
    bulk(client)
}

fn bulk(client: &mut Client) -> Option<Vec<u8>> {
    let head = client.line();
    let length: i64 = head.strip_prefix('$').unwrap_or_else(|| panic!("{head}")).parse().unwrap();
    let length = usize::try_from(length).ok()?;
    let mut bytes = client.take(length + 2).into_bytes();
    bytes.truncate(length);
    Some(bytes)
}

/// A reply that is a list of strings.
fn values(client: &mut Client, words: &[&[u8]]) -> Vec<Vec<u8>> {
    client.send(command(words));
    let head = client.line();
    let count: usize = head.strip_prefix('*').unwrap_or_else(|| panic!("{head}")).parse().unwrap();
    (0..count).map(|_| bulk(client).unwrap()).collect()
}
