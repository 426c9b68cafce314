//! The responder that costs as little as possible, for connections in shared memory: one thread
//! that looks at their rings, and sleeps when they have been quiet for a moment.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use keyrack_measure::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::answer::{Answered, Answerer, ConnectionProtocol};
use super::counts::LiveCounts;
use super::error::Error;
use super::settings::Settings;
use crate::arrival::{Purpose, Stream};
use crate::ring::{End, Listener, Wants};

/// So long after the last request the loop goes on looking.
const LOOK_NS: u64 = 50_000;
/// The longest sleep, so that an order to stop is seen.
const SLEEP_NS: u64 = 20_000_000;
/// Of busy turns, one in so many looks at the listeners and hears what sockets say.
const LISTENER_ITERATIONS: u32 = 256;
const READ_BYTES: usize = 64 << 10;
/// A connection is not read while so much waits to be sent.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

pub(super) fn bind(path: &Path) -> Result<Listener, Error> {
    let action = format!("listen on shm:{}", path.display());
    Listener::bind(path).map_err(|cause| Error::Machine { action, cause })
}

struct Connection {
    end: End,
    protocol: ConnectionProtocol,
    skip: u64,
    /// Bytes that are no whole request yet.
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of the output that are sent.
    sent: usize,
    is_leaving: bool,
}

pub(super) struct Loop {
    listeners: Vec<Listener>,
    connections: Vec<Connection>,
    answerer: Answerer,
    counts: Arc<LiveCounts>,
    clock: Clock,
    scratch: Vec<u8>,
}

impl Loop {
    /// Listens; nobody is served before [`Loop::run`].
    pub(super) fn bind(settings: &Settings, counts: Arc<LiveCounts>) -> Result<Loop, Error> {
        let listeners = settings.shared.iter().map(|path| bind(path)).collect::<Result<_, _>>()?;
        // Threads of sockets count from 0.
        let stream = Stream { seed: settings.seed, agent: 0, thread: u32::MAX, connection: 0 };
        let rng = stream.rng(Purpose::Faults);
        Ok(Loop {
            listeners,
            connections: Vec::new(),
            answerer: Answerer::new(settings.value_bytes, settings.miss_share, rng),
            counts,
            clock: Clock::vdso(),
            scratch: vec![0; READ_BYTES],
        })
    }

    /// Serves until it is told to stop.
    pub(super) fn run(mut self, stop: &AtomicBool) {
        let look = self.clock.ticks_of_ns(LOOK_NS);
        let (mut busy_until, mut iterations) = (0, 0u32);
        // Acquire: pairs with the releasing store of whoever ends the responder.
        while !stop.load(Ordering::Acquire) {
            iterations = iterations.wrapping_add(1);
            if iterations.is_multiple_of(LISTENER_ITERATIONS) {
                self.greet();
            }
            if self.iterate() {
                busy_until = self.clock.ticks() + look;
            } else if self.clock.ticks() < busy_until {
                std::hint::spin_loop();
            } else {
                self.sleep();
                self.greet();
            }
        }
    }

    /// Lets connections in, and hears which are over.
    fn greet(&mut self) {
        for listener in &self.listeners {
            while let Some(end) = listener.accept() {
                LiveCounts::add(&self.counts.connections, 1);
                self.connections.push(Connection {
                    end,
                    protocol: ConnectionProtocol::default(),
                    skip: 0,
                    input: Vec::new(),
                    output: Vec::new(),
                    sent: 0,
                    is_leaving: false,
                });
            }
        }
        self.connections.iter_mut().for_each(|connection| connection.end.drain_wakeups());
    }

    /// Sleeps until somebody wakes us.
    fn sleep(&mut self) {
        if self.connections.iter().all(Connection::may_sleep) {
            let listeners =
                self.listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN));
            let ends = self.connections.iter();
            let ends = ends.map(|connection| PollFd::new(&connection.end, PollFlags::IN));
            let mut places: Vec<PollFd<'_>> = listeners.chain(ends).collect();
            let timeout = Timespec { tv_sec: 0, tv_nsec: SLEEP_NS as _ };
            // An interruption is as good as a timeout: everything is looked at in any case.
            let _ = poll(&mut places, Some(&timeout));
        }
        self.connections.iter().for_each(|connection| connection.end.wake());
    }

    /// Looks at every ring once. Was there anything?
    fn iterate(&mut self) -> bool {
        let (mut has_worked, mut requests, mut index) = (false, 0, 0);
        while index < self.connections.len() {
            let connection = &mut self.connections[index];
            if !connection.end.is_ready(connection.wants()) {
                index += 1;
                continue;
            }
            has_worked = true;
            match connection.step(&mut self.answerer, &mut self.scratch) {
                Some(answered) => {
                    requests += answered;
                    index += 1;
                }
                None => drop(self.connections.swap_remove(index)),
            }
        }
        if requests > 0 {
            LiveCounts::add(&self.counts.requests, requests);
        }
        has_worked
    }
}

impl Connection {
    fn has_output(&self) -> bool {
        self.sent < self.output.len()
    }

    fn wants_input(&self) -> bool {
        !self.is_leaving && self.output.len() - self.sent < OUTPUT_BYTES_MAX
    }

    fn wants(&self) -> Wants {
        Wants { bytes: self.wants_input(), room: self.has_output() }
    }

    fn may_sleep(&self) -> bool {
        self.end.sleep(self.wants())
    }

    /// Reads, answers and sends; how many were answered, or `None` when the connection is over.
    fn step(&mut self, answerer: &mut Answerer, scratch: &mut [u8]) -> Option<u64> {
        let mut answered = 0;
        if self.wants_input() {
            match self.end.read(scratch) {
                Ok(0) => return None,
                Ok(bytes) => answered = self.answer(answerer, &scratch[..bytes]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
        while self.has_output() {
            match self.end.write(&self.output[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    return Some(answered);
                }
                Err(_) => return None,
            }
        }
        self.output.clear();
        self.sent = 0;
        (!self.is_leaving).then_some(answered)
    }

    fn answer(&mut self, answerer: &mut Answerer, bytes: &[u8]) -> u64 {
        let is_whole = self.input.is_empty();
        if !is_whole {
            self.input.extend_from_slice(bytes);
        }
        let input = if is_whole { bytes } else { &self.input[..] };
        let (mut consumed, mut answered) = (0, 0);
        loop {
            let rest = &input[consumed..];
            match answerer.answer(&mut self.protocol, &mut self.skip, rest, &mut self.output) {
                Answered::Request(bytes) => {
                    consumed += bytes;
                    answered += 1;
                }
                Answered::Skip(bytes) => consumed += bytes,
                Answered::Partial => break,
                Answered::Close => {
                    self.is_leaving = true;
                    break;
                }
            }
        }
        if is_whole {
            self.input.extend_from_slice(&bytes[consumed..]);
        } else {
            self.input.drain(..consumed);
        }
        answered
    }
}
