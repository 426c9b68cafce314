//! A server that many clients use for long, in every manner, while it is killed and its disk fills.
//!
//! ```text
//!   start --> all connections begin, and look at their keys --> load --> kill -9, SIGTERM
//!     ^                                                        full disk, space again   |
//!     +----------------------------------------------------------------------------------+
//!   the last life: no kill, full disks alone; memory and descriptors are looked at
//! ```
//!
//! Of a hundred connections in every protocol 60 write and read steadily; 6 send byte by byte, 6
//! read a few bytes at a time, 6 close their sending half behind each batch, 6 connect for each
//! batch; 11 read what others wrote; 5 ask for much and never read. Each value names its key, its
//! version and its checksum. The durability is `sync`.
//!
//! A life ends after a number of steps that is drawn. `KEYRACK_SOAK_MINUTES=n` makes it a soak of
//! so much time, two thirds of it with kills, with `KEYRACK_SOAK_CONNECTIONS` connections, 1,000 if
//! it is not said. `KEYRACK_SOAK_BINARY` is another binary than the one that was built with
//! the test. `KEYRACK_SEED` is the seed: what is drawn follows from it, but for the order in which
//! threads and processes come to run.

mod guests;
mod life;
mod line;
mod owner;
mod server;
mod speech;
mod value;

use super::disk::Disk;
use crate::support::{Lab, PATIENCE, signal};
use guests::Waits;
use keyrack_testkit::random::{Draw, seed_or};
use life::{Counts, Life};
use line::Manner;
use owner::Owner;
use server::{Held, Server};
use speech::{PROTOCOLS, Protocol};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Lives of a soak that is counted.
const LIVES: u64 = 4;

/// How often the controller looks, in milliseconds.
const LOOK_MS: u64 = 100;

#[test]
fn rowstore_keeps_what_it_acknowledged_through_kills_and_full_disks() {
    soaked("rowstore");
}

#[test]
fn flodb_keeps_what_it_acknowledged_through_kills_and_full_disks() {
    soaked("flodb");
}

/// How much of it.
struct Size {
    connections: usize,
    /// The mean pause of a connection between batches.
    pause_ms: u64,
    disk_mib: u64,
    /// Without a time a number of lives is what ends it.
    time: Option<Duration>,
}

fn number(name: &str) -> Option<u64> {
    let given = std::env::var(name).ok()?;
    Some(given.parse().unwrap_or_else(|_| panic!("{name} is a number (it is '{given}')")))
}

impl Size {
    fn given() -> Size {
        let connections = number("KEYRACK_SOAK_CONNECTIONS").map(|count| count as usize);
        match number("KEYRACK_SOAK_MINUTES") {
            // Room for a few segments of a log, of 128 MiB each, until checkpoints remove them.
            None => Size { connections: 40, pause_ms: 2, disk_mib: 768, time: None },
            Some(minutes) => Size {
                connections: connections.unwrap_or(1000),
                pause_ms: 250,
                disk_mib: 2048,
                time: Some(Duration::from_secs(60 * minutes)),
            },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Kill,
    KillOnFullDisk,
    Term,
    /// Clients go first.
    Quiet,
}

/// What is drawn for a life.
struct Plan {
    /// Steps of its clients until its end.
    steps: u64,
    /// Steps between full disks.
    full_every: u64,
    end: End,
    is_last: bool,
}

struct Soak {
    engine: &'static str,
    size: Size,
    lab: Lab,
    disk: Option<Disk>,
    binary: PathBuf,
    draw: Draw,
    owners: Vec<Owner>,
    readers: u64,
    never_readers: u64,
    counts: Counts,
    pings: Waits,
    gets: Waits,
    begun: Instant,
    /// Whether the ballast lies on the disk.
    is_full: bool,
    lives: u64,
    kills: u64,
    fulls: u64,
    /// Full disks that the server has met before there was space again.
    fulls_met: u64,
    /// Starts that a full disk refused.
    starts_refused: u64,
    /// When it was looked at last; the most.
    held: Held,
    held_max: Held,
    /// What it held in the last life, minute by minute.
    minutes: Vec<Held>,
    refusals: std::collections::BTreeSet<String>,
    story: String,
}

fn soaked(engine: &'static str) {
    let seed = seed_or(1);
    let mut soak = Soak::new(engine, seed);
    while !soak.is_time(2, 3) && (soak.size.time.is_some() || soak.lives < LIVES - 1) {
        let plan = soak.plan();
        soak.live(&plan);
    }
    let steps = match soak.size.time {
        Some(_) => u64::MAX,
        None => soak.size.connections as u64 * 10,
    };
    soak.live(&Plan { steps, full_every: steps / 3, end: End::Quiet, is_last: true });
    // Everybody looks at what is there once more.
    let steps = soak.size.connections as u64;
    soak.live(&Plan { steps, full_every: u64::MAX, end: End::Term, is_last: false });
    soak.report();
}

impl Soak {
    fn new(engine: &'static str, seed: u64) -> Soak {
        let story = format!("engine {engine}, SEED={seed}");
        // Each engine has draws of its own.
        let seed = seed ^ u64::from(engine == "flodb") << 56;
        let size = Size::given();
        let lab = Lab::with_dir("disk");
        let disk = match Disk::mount(&lab.path("disk"), size.disk_mib) {
            Ok(disk) => Some(disk),
            Err(why) => {
                println!("SKIPPED the full disks of the soak: no file system of its own: {why}");
                None
            }
        };
        let share = |percent: usize| size.connections * percent / 100;
        let manners = [
            (Manner::Steady, size.connections - share(40)),
            (Manner::SlowWriter, share(6)),
            (Manner::SlowReader, share(6)),
            (Manner::HalfClosed, share(6)),
            (Manner::Churn, share(6)),
        ];
        let manners = manners.into_iter().flat_map(|(manner, count)| vec![manner; count]);
        let owner = |(index, manner)| Owner::new(index, PROTOCOLS[index % 3], manner, seed);
        let owners: Vec<Owner> = manners.enumerate().map(owner).collect();
        let never_readers = share(5) as u64;
        let binary = std::env::var_os("KEYRACK_SOAK_BINARY");
        Soak {
            engine,
            readers: (size.connections - owners.len()) as u64 - never_readers,
            never_readers,
            binary: binary.map_or_else(|| env!("CARGO_BIN_EXE_keyrack").into(), PathBuf::from),
            size,
            lab,
            disk,
            draw: Draw::new(seed),
            owners,
            counts: Counts::default(),
            pings: Waits::default(),
            gets: Waits::default(),
            begun: Instant::now(),
            is_full: false,
            lives: 0,
            kills: 0,
            fulls: 0,
            fulls_met: 0,
            starts_refused: 0,
            held: Held::default(),
            held_max: Held::default(),
            minutes: Vec::new(),
            refusals: Default::default(),
            story,
        }
    }

    /// Whether `part / of` of the time is over.
    fn is_time(&self, part: u32, of: u32) -> bool {
        self.size.time.is_some_and(|time| self.begun.elapsed() >= time * part / of)
    }

    fn plan(&mut self) -> Plan {
        let connections = self.size.connections as u64;
        let powers = if self.size.time.is_some() { 12 } else { 4 };
        let most = connections << (1 + self.draw.below(powers));
        let steps = connections + self.draw.below(most);
        let end = match (self.size.time, self.lives, self.draw.below(8)) {
            (None, 0, _) => End::Kill,
            (None, 1, _) => End::KillOnFullDisk,
            (_, _, 0) => End::Term,
            (_, _, 1) => End::Quiet,
            (_, _, 2 | 3) => End::KillOnFullDisk,
            _ => End::Kill,
        };
        let has_full = end == End::KillOnFullDisk || self.draw.one_in(3);
        Plan { steps, full_every: if has_full { steps / 2 } else { u64::MAX }, end, is_last: false }
    }

    fn words(&mut self) -> String {
        let data = match &self.disk {
            Some(disk) => disk.path.join("data"),
            None => self.lab.path("data"),
        };
        let logs_max = if self.size.time.is_some() { 2 } else { 1 };
        let logs = if self.engine == "rowstore" { 1 + self.draw.below(logs_max) } else { 0 };
        let logs: String = (0..logs).map(|log| format!("--log-dir log-{log} ")).collect();
        let checkpoints = match (self.engine, self.size.time) {
            ("rowstore", Some(_)) => "--checkpoint-log 16M",
            ("rowstore", None) => "--checkpoint-log 64K",
            _ => "",
        };
        format!(
            "--engine {} --data-dir {} --durability sync --threads 2 {logs} {checkpoints} \
             --listen memcached://127.0.0.1:0 --listen resp://127.0.0.1:0 \
             --listen masstree://127.0.0.1:0 --output-max 1M --stalled-output-timeout 10",
            self.engine,
            data.display()
        )
    }

    /// Starts the server; where a full disk refuses it, once more with space.
    fn start(&mut self) -> Server {
        let words = self.words();
        let dir = self.lab.path(".");
        match Server::start(&self.binary, &dir, &words) {
            Ok(server) => server,
            Err(told) if self.is_full && told.contains("No space left") => {
                self.starts_refused += 1;
                self.story.push_str("; refused to start on a full disk");
                self.free();
                let started = Server::start(&self.binary, &dir, &words);
                started.unwrap_or_else(|told| panic!("{}\n{told}", self.story))
            }
            Err(told) => panic!("{}\n{told}", self.story),
        }
    }

    fn free(&mut self) {
        self.disk.as_ref().unwrap().free();
        self.is_full = false;
    }

    /// One life of the server, with all connections.
    fn live(&mut self, plan: &Plan) {
        self.lives += 1;
        let at = self.begun.elapsed().as_secs();
        self.story.push_str(&format!("\n{at} s: life {}", self.lives));
        let mut server = self.start();
        let before = server.held().unwrap();
        let counts = std::mem::take(&mut self.counts);
        let addresses = server.addresses.clone().try_into().unwrap();
        let life = Life::new(addresses, &counts, self.size.pause_ms);
        life.is_full.store(self.is_full, Relaxed);
        life.was_full.store(self.is_full, Relaxed);
        let mut owners = std::mem::take(&mut self.owners);
        let (mut pings, mut gets) =
            (std::mem::take(&mut self.pings), std::mem::take(&mut self.gets));
        let owner_count = owners.len();
        let guests: Vec<Draw> = (0..self.readers + self.never_readers)
            .map(|_| Draw::new(self.draw.below(u64::MAX)))
            .collect();
        let (readers, never_readers) = guests.split_at(self.readers as usize);
        let end = std::thread::scope(|scope| {
            let life = &life;
            let small = || std::thread::Builder::new().stack_size(256 << 10);
            for owner in &mut owners {
                small().spawn_scoped(scope, move || owner.run(life)).unwrap();
            }
            for draw in readers {
                let draw = draw.clone();
                small().spawn_scoped(scope, move || guests::read(life, owner_count, draw)).unwrap();
            }
            for draw in never_readers {
                let draw = draw.clone();
                small()
                    .spawn_scoped(scope, move || guests::never_read(life, owner_count, draw))
                    .unwrap();
            }
            let (pings, gets) = (&mut pings, &mut gets);
            scope.spawn(move || guests::probe(life, Protocol::Redis, pings));
            scope.spawn(move || guests::probe(life, Protocol::Memcached, gets));
            let end = self.control(life, &mut server, plan);
            life.end();
            match end {
                End::Kill | End::KillOnFullDisk => server.kill(),
                End::Term => signal(server.id(), "TERM"),
                End::Quiet => {}
            }
            end
        });
        if let Some(trouble) = life.trouble() {
            let told = server.told();
            panic!("{trouble}\n{}\nthe server's log ends with:\n{told}", self.story);
        }
        self.refusals.extend(life.refusals());
        let steps = life.steps.load(Relaxed);
        let held = self.held;
        if end == End::Quiet {
            self.gives_back(&server, before);
            signal(server.id(), "TERM");
        }
        self.kills += u64::from(matches!(end, End::Kill | End::KillOnFullDisk));
        let status = server.finish();
        let wanted = if matches!(end, End::Kill | End::KillOnFullDisk) { 128 + 9 } else { 0 };
        assert_eq!(status, wanted, "{}\n{}", self.story, server.told());
        let line = format!(": {steps} steps, {end:?}, {held:?}");
        self.story.push_str(&line);
        println!("{} {at} s, life {}{line}", self.engine, self.lives);
        (self.counts, self.owners) = (counts, owners);
        (self.pings, self.gets) = (pings, gets);
    }

    /// Waits for the end of a life, with full disks until then.
    fn control(&mut self, life: &Life<'_>, server: &mut Server, plan: &Plan) -> End {
        let mut next_full = plan.full_every;
        let mut looks = 0_u64;
        if self.is_full {
            // Clients look at their keys, and wait with what they write.
            self.meets(life, server, 0);
            self.free();
            self.recovers(life);
        }
        while !life.pause(LOOK_MS) {
            looks += 1;
            if (looks.is_multiple_of(10) || self.size.time.is_none())
                && !self.look(server, plan, looks)
            {
                life.fail(format!("the server has ended by itself\n{}", server.told()));
            }
            let steps = life.steps.load(Relaxed);
            let is_timed_full = plan.steps == u64::MAX && looks.is_multiple_of(1200);
            if (steps >= next_full || is_timed_full) && self.disk.is_some() {
                next_full = steps.saturating_add(plan.full_every);
                self.fill(life, server);
                if plan.end == End::KillOnFullDisk {
                    return plan.end;
                }
                self.free();
                self.recovers(life);
            }
            if steps >= plan.steps || self.is_time(1, 1) && plan.is_last {
                break;
            }
        }
        match plan.end {
            End::KillOnFullDisk => End::Kill,
            end => end,
        }
    }

    /// Notes what the server holds; false when it is gone.
    fn look(&mut self, server: &mut Server, plan: &Plan, looks: u64) -> bool {
        server.listen();
        let Some(held) = server.held() else { return false };
        self.held = held;
        self.held_max.rss_mib = self.held_max.rss_mib.max(held.rss_mib);
        self.held_max.descriptors = self.held_max.descriptors.max(held.descriptors);
        if plan.is_last && looks.is_multiple_of(600) {
            self.minutes.push(held);
        }
        true
    }

    /// Fills the disk, and waits until the server has met that.
    fn fill(&mut self, life: &Life<'_>, server: &mut Server) {
        life.was_full.store(true, Relaxed);
        life.is_full.store(true, Relaxed);
        self.is_full = true;
        self.fulls += 1;
        server.listen();
        let before = server.behind + life.counts.refused.load(Relaxed);
        self.meets(life, server, before);
        life.pause(self.draw.below(20) * LOOK_MS);
        self.disk.as_ref().unwrap().fill();
    }

    /// Waits for a while until the server has met the full disk, once more than `before`.
    fn meets(&mut self, life: &Life<'_>, server: &mut Server, before: u64) {
        let looks = if self.size.time.is_some() { 200 } else { 10 };
        for _ in 0..looks {
            // What the server gives back, too.
            self.disk.as_ref().unwrap().fill();
            server.listen();
            if server.behind + life.counts.refused.load(Relaxed) > before {
                self.fulls_met += 1;
                return;
            }
            if life.pause(LOOK_MS) {
                return;
            }
        }
    }

    /// With space again, everybody's steps are acknowledged again.
    fn recovers(&self, life: &Life<'_>) {
        let writes = life.counts.writes.load(Relaxed);
        let begun = Instant::now();
        while life.counts.writes.load(Relaxed) < writes + self.size.connections as u64 {
            if life.pause(LOOK_MS) {
                return;
            }
            if begun.elapsed() > PATIENCE {
                life.fail(format!("{PATIENCE:?} after there was space again, writes still wait"));
            }
        }
        life.is_full.store(false, Relaxed);
    }

    /// Without clients the server holds no more descriptors than before they came, but for files of
    /// its store.
    fn gives_back(&self, server: &Server, before: Held) {
        let begun = Instant::now();
        loop {
            let held = server.held().unwrap();
            if held.descriptors <= before.descriptors + 32 {
                return;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "{before:?} before the clients came, and {held:?} after they went\n{}",
                self.story
            );
            std::thread::yield_now();
        }
    }

    fn report(&mut self) {
        let counts = &self.counts;
        let [steps, writes, refused, foreign, verified, connections, unread] = [
            &counts.steps,
            &counts.writes,
            &counts.refused,
            &counts.foreign,
            &counts.verified,
            &counts.connections,
            &counts.unread,
        ]
        .map(|count| count.load(Relaxed));
        println!(
            "{}: {} s, {} connections at once, {connections} in all, {unread} of them unread\n  \
             {} lives, {} kills, {} full disks ({} met, {} starts refused)\n  \
             {steps} steps, {writes} keys written, {refused} refused, {foreign} values of others, \
             {verified} keys verified; nothing lost\n  \
             at most {} MiB, {} descriptors\n  PING: {}\n  get: {}",
            self.engine,
            self.begun.elapsed().as_secs(),
            self.size.connections,
            self.lives,
            self.kills,
            self.fulls,
            self.fulls_met,
            self.starts_refused,
            self.held_max.rss_mib,
            self.held_max.descriptors,
            self.pings.told(),
            self.gets.told(),
        );
        for refusal in &self.refusals {
            println!("  refused with: {refusal}");
        }
        for (minute, held) in self.minutes.iter().enumerate() {
            println!("  minute {} of the last life: {held:?}", minute + 1);
        }
        assert!(self.kills > 0 || self.size.time.is_none(), "no kill");
        assert!(writes > 0 && verified > 0 && foreign > 0, "too little happened");
        // The rows are the same number all the time, so memory and descriptors do not grow.
        if let Some(half) = self.minutes.len().checked_div(2).filter(|half| *half >= 5) {
            let most = |part: &[Held], what: fn(&Held) -> u64| part.iter().map(what).max().unwrap();
            let (first, last) = self.minutes.split_at(half);
            let rss = |part| most(part, |held| held.rss_mib);
            let descriptors = |part| most(part, |held| held.descriptors);
            assert!(rss(last) <= rss(first) * 5 / 4 + 32, "memory grows: {:?}", self.minutes);
            assert!(
                descriptors(last) <= descriptors(first) + 64,
                "descriptors: {:?}",
                self.minutes
            );
        }
    }
}
