//! A protocol of lines that can do everything a test wants, and clients that speak it.
//!
//! | line | reply |
//! |---|---|
//! | `echo TEXT` | `TEXT` |
//! | `big N` | `N` times `x`, in slices |
//! | `put N`, then N bytes | `stored N SUM` when all have come |
//! | `later TEXT` | `TEXT`, in an iteration that waits for the board |
//! | `limit IN OUT` | `ok`, with these limits from then on |
//! | `quit` | `bye`, and the end |
//! | `panic` | the end of the loop |

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use keyrack_measure::Clock;
use keyrack_net::{
    CloseReason, Closer, ConnectOptions, Endpoint, Handle, IterationEnd, Limits, Listener,
    OUTPUT_SLICE_BYTES, Options, Peer, Served, Server, Service, Stream, Verdict, Waker, Worker,
};

/// What a test that waits for something gives up after. No test measures time by it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// What a client is told that is one too many.
pub(crate) const REFUSAL: &[u8] = b"too many connections\n";

/// The last that a client is told that there is no memory for.
pub(crate) const NO_MEMORY: &[u8] = b"no memory\n";

/// What the workers have seen, and what they are told.
#[derive(Debug, Default)]
pub(crate) struct Board {
    facts: Mutex<Facts>,
    changed: Condvar,
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Facts {
    pub(crate) opened: usize,
    /// What ends each of them.
    pub(crate) closers: Vec<Closer>,
    pub(crate) closed: usize,
    /// Connections that were told that there is no memory for them.
    pub(crate) out_of_memory: usize,
    pub(crate) served: usize,
    /// The loops that have opened connections, one entry for each.
    pub(crate) opened_by: Vec<usize>,
    /// The last token given, and up to which they are done.
    pub(crate) token: u64,
    pub(crate) done: u64,
    /// Threads of clients that have ended.
    pub(crate) visitors_done: usize,
    /// The CPUs that each loop may run on.
    pub(crate) cpus: Vec<u32>,
    wakers: Vec<Waker>,
}

impl Board {
    fn note(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.facts.lock().unwrap());
        self.changed.notify_all();
    }

    pub(crate) fn facts(&self) -> Facts {
        self.facts.lock().unwrap().clone()
    }

    /// Waits until something is so.
    pub(crate) fn wait(&self, what: &str, is_so: impl Fn(&Facts) -> bool) -> Facts {
        let facts = self.facts.lock().unwrap();
        let (facts, timeout) =
            self.changed.wait_timeout_while(facts, PATIENCE, |facts| !is_so(facts)).unwrap();
        assert!(!timeout.timed_out(), "never happened: {what}; {facts:?}");
        facts.clone()
    }

    /// Makes iterations durable as they come, until so many threads of clients have ended.
    pub(crate) fn finish_iterations(&self, visitors: usize) {
        let mut done = 0;
        loop {
            let facts = self.wait("an iteration, or the end", |facts| {
                facts.token > done || facts.visitors_done == visitors
            });
            if facts.token == done {
                return;
            }
            done = facts.token;
            self.finish(done);
        }
    }

    pub(crate) fn visitor_done(&self) {
        self.note(|facts| facts.visitors_done += 1);
    }

    /// Makes all iterations durable up to a token, and tells the loops.
    pub(crate) fn finish(&self, token: u64) {
        self.note(|facts| facts.done = token);
        for waker in self.facts().wakers {
            waker.wake();
        }
    }
}

/// Waits for what no worker tells of.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let clock = Clock::vdso();
    let begun = clock.ticks();
    while !is_so() {
        let waited_ns = u128::from(clock.ns_between(begun, clock.ticks()));
        assert!(waited_ns < PATIENCE.as_nanos(), "never happened: {what}");
        std::thread::yield_now();
    }
}

/// The service; the second field makes replies to datagrams so many bytes long.
#[derive(Debug, Default)]
pub(crate) struct Lines(pub(crate) Arc<Board>, pub(crate) usize);

pub(crate) struct LinesWorker<'a> {
    service: &'a Lines,
    index: usize,
    must_wait: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Client {
    /// Bytes of a big reply that are not written.
    owed: usize,
}

impl Service for Lines {
    type Worker<'a> = LinesWorker<'a>;

    fn worker(&self, index: usize, waker: Waker) -> LinesWorker<'_> {
        let cpus = rustix::thread::sched_getaffinity(None).unwrap().count();
        self.0.note(|facts| {
            facts.wakers.push(waker);
            facts.cpus.push(cpus);
        });
        LinesWorker { service: self, index, must_wait: false }
    }
}

impl Worker for LinesWorker<'_> {
    type Connection = Client;

    fn open(&mut self, _: usize, _: &Peer, _: &mut Limits) -> Client {
        self.service.0.note(|facts| {
            facts.opened += 1;
            facts.opened_by.push(self.index);
        });
        Client::default()
    }

    fn opened(&mut self, _: &mut Client, closer: Closer) {
        self.service.0.note(|facts| facts.closers.push(closer));
    }

    fn serve(
        &mut self,
        client: &mut Client,
        input: &[u8],
        output: &mut Vec<u8>,
        limits: &mut Limits,
    ) -> Served {
        let before = output.len();
        let mut consumed = 0;
        loop {
            if client.owed > 0 {
                let count = client.owed.min(OUTPUT_SLICE_BYTES);
                output.resize(output.len() + count, b'x');
                client.owed -= count;
                if client.owed == 0 {
                    output.push(b'\n');
                }
            }
            if output.len() - before >= OUTPUT_SLICE_BYTES {
                return Served { consumed, need: 0, verdict: Verdict::Again };
            }
            let rest = &input[consumed..];
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                return Served::all(consumed);
            };
            let line = std::str::from_utf8(&rest[..end]).unwrap_or("?");
            let (word, argument) = line.split_once(' ').unwrap_or((line, ""));
            let mut length = end + 1;
            match word {
                "echo" => writeln!(output, "{argument}").unwrap(),
                "big" => client.owed = argument.parse().unwrap_or(0),
                "later" => {
                    writeln!(output, "{argument}").unwrap();
                    self.must_wait = true;
                }
                "put" => {
                    length += argument.parse::<usize>().unwrap_or(0);
                    if rest.len() < length {
                        return Served { consumed, need: length, verdict: Verdict::Continue };
                    }
                    let sum: u64 = rest[end + 1..length].iter().map(|byte| u64::from(*byte)).sum();
                    writeln!(output, "stored {} {sum}", length - end - 1).unwrap();
                }
                "limit" => {
                    let (input_max, output_max) = argument.split_once(' ').unwrap();
                    limits.input_bytes_max = input_max.parse().unwrap();
                    limits.output_bytes_max = output_max.parse().unwrap();
                    output.extend_from_slice(b"ok\n");
                }
                "quit" => {
                    output.extend_from_slice(b"bye\n");
                    return Served { consumed, need: 0, verdict: Verdict::Close };
                }
                "panic" => panic!("as the client wanted"),
                _ => output.extend_from_slice(b"error\n"),
            }
            consumed += length;
            self.service.0.note(|facts| facts.served += 1);
        }
    }

    fn end_iteration(&mut self) -> IterationEnd {
        if !std::mem::take(&mut self.must_wait) {
            return IterationEnd::Durable;
        }
        let mut token = 0;
        self.service.0.note(|facts| {
            facts.token += 1;
            token = facts.token;
        });
        IterationEnd::Wait(token)
    }

    fn is_done(&self, token: u64) -> bool {
        self.service.0.facts.lock().unwrap().done >= token
    }

    fn out_of_memory(&mut self, _: &mut Client, output: &mut Vec<u8>) {
        output.extend_from_slice(NO_MEMORY);
        self.service.0.note(|facts| facts.out_of_memory += 1);
    }

    fn closed(&mut self, _: Client, _: CloseReason) {
        self.service.0.note(|facts| facts.closed += 1);
    }

    fn datagram(&mut self, _: usize, _: SocketAddr, bytes: &[u8], reply: &mut Vec<u8>) {
        self.must_wait |= bytes.starts_with(b"later");
        reply.extend_from_slice(bytes);
        reply.resize(reply.len() + self.service.1, b'+');
        self.service.0.note(|facts| facts.served += 1);
    }

    fn refusal(&self, _: usize) -> &[u8] {
        REFUSAL
    }
}

/// A server of lines on one loopback port, with what a test changes about it.
pub(crate) fn start(options: Options) -> (Arc<Board>, Handle) {
    let board = Arc::new(Board::default());
    let mut options = options;
    if options.listeners.is_empty() {
        options.listeners.push(Listener::stream("127.0.0.1:0".parse().unwrap()));
    }
    let server = Server::start(Lines(Arc::clone(&board), 0), options).unwrap();
    (board, server)
}

pub(crate) fn address(server: &Handle) -> Endpoint {
    server.local_addrs()[0][0].clone()
}

/// A client whose reads end at some time, so that a failing test ends.
pub(crate) fn connect(endpoint: &Endpoint) -> Stream {
    Stream::connect(endpoint, &ConnectOptions::with_timeout(PATIENCE)).unwrap()
}

/// One line there, one line back, without its end.
pub(crate) fn ask(client: &mut Stream, line: &str) -> String {
    client.write_all(format!("{line}\n").as_bytes()).unwrap();
    read_line(client)
}

pub(crate) fn read_line(client: &mut Stream) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        client.read_exact(&mut byte).unwrap();
        if byte == *b"\n" {
            return String::from_utf8(line).unwrap();
        }
        line.extend_from_slice(&byte);
    }
}

/// Everything up to the end of the connection.
pub(crate) fn read_all(client: &mut Stream) -> Vec<u8> {
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Reads until the connection ends, however it does.
pub(crate) fn read_until_closed(client: &mut Stream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match client.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(cause) => assert!(is_closed(&cause), "not closed: {cause}"),
    }
    bytes
}

pub(crate) fn is_closed(cause: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(cause.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}
