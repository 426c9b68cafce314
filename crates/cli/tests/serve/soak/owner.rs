//! A connection that writes keys of its own and knows what they hold.
//!
//! ```text
//!   told    versions of the keys behind all steps that were acknowledged
//!   open    steps that were sent and not answered
//! ```
//!
//! **Invariant:** whatever happens, the server has `told` with the first few of `open` carried out.
//! A refused step is not carried out.

use super::life::{Life, Stop, add};
use super::line::{Line, Manner};
use super::speech::{Op, Protocol, Said};
use super::value::{key, value, version};
use keyrack_testkit::random::Draw;
use keyrack_wire::resp::command;
use std::collections::VecDeque;

/// Keys of one connection.
pub(super) const SLOTS: usize = 8;

/// Steps that are sent at once, at most.
const BATCH_MAX: u64 = 6;

/// What is there whole or not at all.
#[derive(Clone, Debug)]
struct Step {
    /// Slots with their new versions, none for a removal. Without any, a get of `slot`.
    writes: Vec<(usize, Option<u64>)>,
    slot: usize,
    is_group: bool,
}

/// Whether a connection goes on behind a batch.
#[derive(PartialEq, Eq)]
enum Next {
    GoOn,
    BeginAgain,
}

pub(super) struct Owner {
    index: usize,
    protocol: Protocol,
    manner: Manner,
    draw: Draw,
    told: [Option<u64>; SLOTS],
    open: VecDeque<Step>,
    version: u64,
}

impl Owner {
    pub(super) fn new(index: usize, protocol: Protocol, manner: Manner, seed: u64) -> Owner {
        let draw = Draw::new(seed ^ (index as u64) << 40);
        let (told, open) = ([None; SLOTS], VecDeque::new());
        Owner { index, protocol, manner, draw, told, open, version: 0 }
    }

    /// Reads and writes until the life is over.
    pub(super) fn run(&mut self, life: &Life<'_>) {
        while !life.is_over() {
            match self.connected(life) {
                Ok(()) => {}
                Err(Stop::Closed) if life.is_over() => {}
                Err(Stop::Closed) => life.fail(self.name("the server closed the connection")),
                Err(Stop::Wrong(what)) => life.fail(self.name(&what)),
            }
        }
    }

    fn name(&self, what: &str) -> String {
        format!("connection {} ({:?}, {:?}): {what}", self.index, self.protocol, self.manner)
    }

    /// One connection, from its beginning to an end that is right.
    fn connected(&mut self, life: &Life<'_>) -> Result<(), Stop> {
        let mut line = Line::open(life, self.protocol, self.manner)?;
        self.meet(&mut line)?;
        while !life.is_over() {
            if self.batch(&mut line)? == Next::BeginAgain {
                return Ok(());
            }
            life.pause(self.draw.below(2 * life.pause_ms + 1));
        }
        Ok(())
    }

    /// Sends some steps and takes their replies.
    fn batch(&mut self, line: &mut Line<'_>) -> Result<Next, Stop> {
        let mut request = Vec::new();
        // Nobody may know what became of a write that a connection was left with.
        let is_left = self.manner == Manner::Churn && self.draw.one_in(4);
        for _ in 0..=self.draw.below(BATCH_MAX) {
            let step = self.step(is_left);
            self.request(&step, &mut request);
            self.open.push_back(step);
        }
        line.send(&request)?;
        if is_left {
            self.open.clear();
            add(&line.life.counts.unread, 1);
            return Ok(Next::BeginAgain);
        }
        if self.manner == Manner::HalfClosed {
            line.end_sending();
        }
        while let Some(step) = self.open.front().cloned() {
            let is_done = self.hear(line, &step)?;
            self.open.pop_front();
            if is_done {
                step.apply(&mut self.told);
                add(&line.life.counts.writes, step.writes.len() as u64);
            } else {
                add(&line.life.counts.refused, 1);
                if self.protocol == Protocol::Masstree {
                    // A refusal is the last word of a connection of Masstree's.
                    return Ok(Next::BeginAgain);
                }
            }
            add(&line.life.counts.steps, 1);
            add(&line.life.steps, 1);
        }
        match self.manner {
            Manner::HalfClosed => match line.more() {
                Err(Stop::Closed) => Ok(Next::BeginAgain),
                Err(stop) => Err(stop),
                Ok(()) => Err(Stop::Wrong("more came than was asked for".into())),
            },
            Manner::Churn => Ok(Next::BeginAgain),
            _ if self.draw.one_in(200) => Ok(Next::BeginAgain),
            _ => Ok(Next::GoOn),
        }
    }

    fn step(&mut self, is_get: bool) -> Step {
        let slot = self.draw.below(SLOTS as u64) as usize;
        let reads = if self.manner == Manner::SlowReader { 7 } else { 4 };
        if is_get || self.draw.below(8) < reads {
            return Step { writes: Vec::new(), slot, is_group: false };
        }
        let is_group = self.protocol == Protocol::Redis && self.draw.one_in(6);
        let count = if is_group { 2 + self.draw.below(3) as usize } else { 1 };
        let slots = (0..count).map(|more| (slot + more) % SLOTS);
        let writes = slots.map(|slot| {
            self.version += 1;
            (slot, (!self.draw.one_in(6)).then_some(self.version))
        });
        Step { writes: writes.collect(), slot, is_group }
    }

    fn request(&self, step: &Step, out: &mut Vec<u8>) {
        if step.is_group {
            command(out, &[b"MULTI"]);
        }
        for (slot, version) in &step.writes {
            let key = key(self.index, *slot);
            let op = match version {
                Some(version) => Op::Set(value(&key, *version)),
                None => Op::Remove,
            };
            self.protocol.request(&key, &op, out);
        }
        if step.is_group {
            command(out, &[b"EXEC"]);
        }
        if step.writes.is_empty() {
            self.protocol.request(&key(self.index, step.slot), &Op::Get, out);
        }
    }

    /// Takes the reply of a step; false when it was refused.
    fn hear(&self, line: &mut Line<'_>, step: &Step) -> Result<bool, Stop> {
        if step.is_group {
            let queued = format!("+OK\r\n{}", "+QUEUED\r\n".repeat(step.writes.len()));
            self.take(line, queued.as_bytes(), step, false)?;
        }
        let mut reply = Vec::new();
        if step.is_group {
            reply.extend(format!("*{}\r\n", step.writes.len()).into_bytes());
        }
        for (slot, version) in &step.writes {
            let was_there = self.told[*slot].is_some();
            let said = match version {
                Some(_) => Said::Stored(was_there),
                None => Said::Removed(was_there),
            };
            self.protocol.reply(&key(self.index, *slot), said, &mut reply);
        }
        if step.writes.is_empty() {
            let key = key(self.index, step.slot);
            match self.told[step.slot] {
                Some(version) => {
                    self.protocol.reply(&key, Said::Value(&value(&key, version)), &mut reply);
                }
                None => self.protocol.reply(&key, Said::Miss, &mut reply),
            }
        }
        self.take(line, &reply, step, !step.writes.is_empty())
    }

    /// Takes exactly these bytes, or a refusal if there may be one.
    fn take(
        &self,
        line: &mut Line<'_>,
        expected: &[u8],
        step: &Step,
        may_be_refused: bool,
    ) -> Result<bool, Stop> {
        loop {
            let common = line.bytes.len().min(expected.len());
            let is_so_far = line.bytes[..common] == expected[..common];
            if is_so_far && common == expected.len() {
                line.bytes.drain(..common);
                return Ok(true);
            }
            if let Some(length) = self.protocol.refusal(&line.bytes)
                && may_be_refused
                && line.life.may_refuse(&line.bytes[..length])
            {
                line.bytes.drain(..length);
                return Ok(false);
            }
            // A refusal that is not whole yet is told from a wrong reply by its end.
            if !is_so_far && (!may_be_refused || line.bytes.contains(&b'\n')) {
                let told = |bytes: &[u8]| bytes[..bytes.len().min(200)].escape_ascii().to_string();
                return Err(Stop::Wrong(format!(
                    "{step:?}\nwanted \"{}\"\ngot    \"{}\"",
                    told(expected),
                    told(&line.bytes)
                )));
            }
            line.more()?;
        }
    }

    /// Holds what the server has against what was told; goes on from there.
    fn meet(&mut self, line: &mut Line<'_>) -> Result<(), Stop> {
        let mut request = Vec::new();
        for slot in 0..SLOTS {
            self.protocol.request(&key(self.index, slot), &Op::Get, &mut request);
        }
        line.send(&request)?;
        let mut found = [None; SLOTS];
        for (slot, version_found) in found.iter_mut().enumerate() {
            let key = key(self.index, slot);
            if let Some(bytes) = line.found(&key)? {
                let version = version(&key, &bytes)?;
                if bytes != value(&key, version) {
                    return Err(Stop::Wrong(format!("{key}: not the bytes of version {version}")));
                }
                *version_found = Some(version);
            }
        }
        let mut state = self.told;
        let mut steps = self.open.iter();
        while state != found {
            let Some(step) = steps.next() else {
                return Err(Stop::Wrong(format!(
                    "lost or half done: acknowledged are the versions {:?}, open the steps {:?}, \
                     found the versions {found:?}",
                    self.told, self.open
                )));
            };
            step.apply(&mut state);
        }
        add(&line.life.counts.verified, SLOTS as u64);
        self.told = found;
        self.open.clear();
        Ok(())
    }
}

impl Step {
    fn apply(&self, state: &mut [Option<u64>; SLOTS]) {
        for (slot, version) in &self.writes {
            state[*slot] = *version;
        }
    }
}
