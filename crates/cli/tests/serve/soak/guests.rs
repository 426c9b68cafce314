//! Connections that own nothing: readers of what others write, those that never read, and the two
//! that measure how long an answer takes.

use super::life::{Life, Stop, add};
use super::line::{Line, Manner};
use super::owner::SLOTS;
use super::speech::{Op, PROTOCOLS, Protocol};
use super::value::{key, version};
use keyrack_testkit::random::Draw;
use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Gets that one who never reads sends: more replies than sockets and `--output-max` hold.
const UNREAD_GETS: usize = 10_000;

/// Reads keys of all owners until the life is over: each value is whole, and none is older than
/// one that was seen before.
pub(super) fn read(life: &Life<'_>, owners: usize, mut draw: Draw) {
    let protocol = PROTOCOLS[draw.below(3) as usize];
    let mut seen = HashMap::new();
    let mut connected = || -> Result<(), Stop> {
        let mut line = Line::open(life, protocol, Manner::Steady)?;
        while !life.is_over() {
            let batch: Vec<(usize, usize)> = (0..4)
                .map(|_| (draw.below(owners as u64) as usize, draw.below(SLOTS as u64) as usize))
                .collect();
            let mut request = Vec::new();
            for (owner, slot) in &batch {
                protocol.request(&key(*owner, *slot), &Op::Get, &mut request);
            }
            line.send(&request)?;
            for (owner, slot) in batch {
                let key = key(owner, slot);
                let Some(bytes) = line.found(&key)? else { continue };
                let found = version(&key, &bytes)?;
                let last = seen.entry((owner, slot)).or_insert(found);
                if found < *last {
                    let text = format!("{key}: version {found} was read after version {last}");
                    return Err(Stop::Wrong(text));
                }
                *last = found;
                add(&life.counts.foreign, 1);
            }
            life.pause(draw.below(2 * life.pause_ms + 1));
        }
        Ok(())
    };
    match connected() {
        Ok(()) => {}
        Err(Stop::Closed) if life.is_over() => {}
        Err(Stop::Closed) => life.fail("the server closed the connection of a reader".into()),
        Err(Stop::Wrong(what)) => life.fail(format!("a reader ({protocol:?}): {what}")),
    }
}

/// Asks for much, and reads nothing of it.
pub(super) fn never_read(life: &Life<'_>, owners: usize, mut draw: Draw) {
    while !life.is_over() {
        let protocol = PROTOCOLS[draw.below(2) as usize];
        let Ok(mut stream) = life.connect(protocol) else { return };
        let mut request = Vec::new();
        for at in 0..UNREAD_GETS {
            protocol.request(&key(at % owners, at / owners % SLOTS), &Op::Get, &mut request);
        }
        // The server stops reading, and then closes: both are right.
        let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
        let _ = stream.write_all(&request);
        add(&life.counts.unread, 1);
        life.pause(draw.below(40 * life.pause_ms + 1));
    }
}

/// The waits for one kind of answer, in microseconds.
#[derive(Debug, Default)]
pub(super) struct Waits {
    pub(super) us: Vec<u32>,
    /// Those that overlap with a full disk.
    pub(super) full_us: Vec<u32>,
}

impl Waits {
    /// `count, p50, p99.9, worst`, in milliseconds; then the worst on a full disk.
    pub(super) fn told(&mut self) -> String {
        self.us.sort_unstable();
        let at = |share: f64| match self.us.len() {
            0 => 0.0,
            count => {
                let index = ((count as f64 * share) as usize).min(count - 1);
                f64::from(self.us[index]) / 1000.0
            }
        };
        let full = f64::from(self.full_us.iter().copied().max().unwrap_or(0)) / 1000.0;
        format!(
            "{} asked, p50 {:.2} ms, p99 {:.1} ms, p99.9 {:.1} ms, worst {:.1} ms; \
             worst on a full disk {full:.0} ms",
            self.us.len(),
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0),
        )
    }
}

/// Asks again and again, PING of Redis' or get of memcached, and notes how long answers take.
pub(super) fn probe(life: &Life<'_>, protocol: Protocol, waits: &mut Waits) {
    let mut connected = || -> Result<(), Stop> {
        let mut line = Line::open(life, protocol, Manner::Steady)?;
        let key = key(0, 0);
        while !life.is_over() {
            let was_full = life.is_full.load(Relaxed);
            let begun = Instant::now();
            if protocol == Protocol::Redis {
                line.send(b"PING\r\n")?;
                while line.bytes.len() < 7 {
                    line.more()?;
                }
                if line.bytes != b"+PONG\r\n" {
                    return Err(Stop::Wrong(line.bytes.escape_ascii().to_string()));
                }
                line.bytes.clear();
            } else {
                let mut request = Vec::new();
                protocol.request(&key, &Op::Get, &mut request);
                line.send(&request)?;
                line.found(&key)?;
            }
            let us = u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX);
            let is_full = was_full || life.is_full.load(Relaxed);
            if is_full { &mut waits.full_us } else { &mut waits.us }.push(us);
            life.pause(10);
        }
        Ok(())
    };
    match connected() {
        Ok(()) => {}
        Err(Stop::Closed) if life.is_over() => {}
        Err(Stop::Closed) => life.fail("the server closed the connection of a probe".into()),
        Err(Stop::Wrong(what)) => life.fail(format!("a probe ({protocol:?}): {what}")),
    }
}
