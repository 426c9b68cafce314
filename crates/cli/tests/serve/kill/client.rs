//! A client that writes until its server is gone, and knows what it was told.
//!
//! ```text
//!   told      the state behind all steps whose replies have come, to the byte as expected
//!   open      steps that were sent, and whose replies have not come
//! ```
//!
//! **Invariant:** whatever the moment of the kill, the server's state of these keys is `told`, or
//! that with the first few of `open` carried out.

use super::step::{Protocol, State, Step};
use keyrack_testkit::random::Draw;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;

/// Steps that a client sends at once, at most.
const DEPTH_MAX: u64 = 12;

/// Says when so many steps were acknowledged, by all clients together.
pub(super) struct Trigger {
    pub(super) at: u64,
    pub(super) count: AtomicU64,
}

impl Trigger {
    pub(super) fn note(&self, steps: u64, pulled: &Sender<()>) {
        let before = self.count.fetch_add(steps, Ordering::Relaxed);
        if before < self.at && before + steps >= self.at {
            // Nobody listens when the test has failed elsewhere.
            let _ = pulled.send(());
        }
    }
}

/// A client with keys of its own.
pub(super) struct Owner {
    pub(super) index: usize,
    pub(super) protocol: Protocol,
    pub(super) draw: Draw,
    pub(super) told: State,
    /// `told`, with the step carried out whose reply is awaited.
    awaited: State,
    pub(super) open: VecDeque<Step>,
    pub(super) acknowledged: u64,
}

impl Owner {
    pub(super) fn new(index: usize, protocol: Protocol, seed: u64) -> Owner {
        let draw = Draw::new(seed ^ (index as u64) << 40);
        let (told, awaited, open) = (State::new(), State::new(), VecDeque::new());
        Owner { index, protocol, draw, told, awaited, open, acknowledged: 0 }
    }

    /// Writes until the connection ends.
    pub(super) fn write(&mut self, mut stream: TcpStream, trigger: &Trigger, pulled: &Sender<()>) {
        let mut replies = Replies::default();
        loop {
            let mut request = Vec::new();
            for _ in 0..=self.draw.below(DEPTH_MAX) {
                let step = Step::draw(&mut self.draw, self.index, self.protocol);
                request.extend(step.request(self.protocol));
                self.open.push_back(step);
            }
            if stream.write_all(&request).is_err() {
                // What came before the end counts all the same.
                self.hear(&mut replies, &mut stream, trigger, pulled);
                return;
            }
            if !self.hear(&mut replies, &mut stream, trigger, pulled) {
                return;
            }
        }
    }

    /// Takes the replies of all open steps; false at the end of the connection.
    fn hear(
        &mut self,
        replies: &mut Replies,
        stream: &mut TcpStream,
        trigger: &Trigger,
        pulled: &Sender<()>,
    ) -> bool {
        while let Some(step) = self.open.front() {
            let expected = step.apply(&mut self.awaited, self.protocol);
            if !replies.take(stream, &expected, step) {
                return false;
            }
            step.apply(&mut self.told, self.protocol);
            self.open.pop_front();
            self.acknowledged += 1;
            trigger.note(1, pulled);
        }
        true
    }

    /// Holds what the server has against what was told; goes on from there.
    #[track_caller]
    pub(super) fn meet(&mut self, found: State, story: &str) {
        let mut state = self.told.clone();
        let open = std::mem::take(&mut self.open);
        let mut steps = open.iter();
        while state != found {
            let Some(step) = steps.next() else {
                panic!("client {}: {}\n{story}", self.index, self.differences(&found, &open));
            };
            step.apply(&mut state, self.protocol);
        }
        self.awaited.clone_from(&found);
        self.told = found;
    }

    fn differences(&self, found: &State, open: &VecDeque<Step>) -> String {
        let mut text = format!(
            "after {} acknowledged steps, with {} open, this is neither of the states between:\n",
            self.acknowledged,
            open.len()
        );
        let keys: std::collections::BTreeSet<&String> =
            self.told.keys().chain(found.keys()).collect();
        for key in keys.into_iter().filter(|key| self.told.get(*key) != found.get(*key)) {
            let (told, is) = (self.told.get(key), found.get(key));
            text.push_str(&format!("  {key}: told {told:?}, found {is:?}\n"));
        }
        text + &format!("open: {open:?}")
    }
}

/// Bytes that have come and were not asked for yet.
#[derive(Default)]
struct Replies {
    bytes: Vec<u8>,
}

impl Replies {
    /// Takes exactly these bytes; false when the connection ends before.
    #[track_caller]
    fn take(&mut self, stream: &mut TcpStream, expected: &[u8], of: &Step) -> bool {
        loop {
            let common = self.bytes.len().min(expected.len());
            assert!(
                self.bytes[..common] == expected[..common],
                "{of:?}\nwanted {:?}\ngot    {:?}",
                String::from_utf8_lossy(expected),
                String::from_utf8_lossy(&self.bytes),
            );
            if common == expected.len() {
                self.bytes.drain(..common);
                return true;
            }
            let mut more = [0; 4096];
            match stream.read(&mut more) {
                Ok(0) | Err(_) => return false,
                Ok(count) => self.bytes.extend_from_slice(&more[..count]),
            }
        }
    }
}
