//! A window of requests by datagrams: one each, without a handshake, and answers in any order.
//!
//! ```text
//!   slot of a request: seq & (window - 1)      a slot is free, or waits for the answer to its seq
//!   a silence of RESEND -> all that wait are sent again; of the timeout -> the server is silent
//! ```
//!
//! A datagram, or its answer, may be lost or come twice. What is sent again may so be carried out
//! twice, and after a later request: tests in which two requests under way write one key, or in
//! which a removal's answer counts, see that. An answer to nothing that waits is dropped.
//!
//! An answer is not longer than its request may have been (see the protocol), so a request whose
//! answer may be long is filled up with nil.

use super::slot::{LIMITS, Slot, Wanted};
use keyrack_wire::masstree::{Command, Reply, ReplyParser};
use keyrack_wire::msgpack::Int;
use keyrack_workload::kvtest::Halt;
use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::Duration;

/// How long a silence may be before requests are sent again.
const RESEND: Duration = Duration::from_millis(50);
/// Bytes of a datagram, and so of an answer.
const DATAGRAM_BYTES_MAX: usize = 4 << 10;
/// Bytes of a request that may have a long answer: what passes every network in one piece.
const LONG_BYTES: usize = 1400;
/// Bytes of an answer beside a value: its array, number, and the value's length.
const ANSWER_BYTES: usize = 24;
/// The byte that may follow the message: nil.
const PADDING: u8 = 0xc0;

/// A request, until its answer has come.
#[derive(Debug, Default)]
struct Sent {
    seq: u64,
    is_open: bool,
    /// To be sent again.
    bytes: Vec<u8>,
    slot: Slot,
}

/// See the module.
#[derive(Debug)]
pub(super) struct DatagramWindow {
    socket: UdpSocket,
    sent: Vec<Sent>,
    mask: u64,
    next: u64,
    open: u64,
    done: u64,
    /// Silences in a row, and how many there may be.
    silences: u64,
    silences_max: u64,
    input: Vec<u8>,
    is_lost: bool,
}

impl DatagramWindow {
    /// Sends to `host:port` from `local_port`. `size` is a power of two.
    pub(super) fn new(
        host: &str,
        port: u16,
        local_port: Option<u16>,
        size: u32,
        timeout: Duration,
    ) -> Result<DatagramWindow, String> {
        let target = format!("{host}:{port}");
        let failed = |error: std::io::Error| format!("cannot send to {target}: {error}");
        let address = target.to_socket_addrs().map_err(failed)?.next();
        let Some(address) = address else { return Err(format!("{target} has no address")) };
        let local: SocketAddr = match address {
            SocketAddr::V4(_) => ([0, 0, 0, 0], local_port.unwrap_or(0)).into(),
            SocketAddr::V6(_) => ([0_u16; 8], local_port.unwrap_or(0)).into(),
        };
        let socket = UdpSocket::bind(local).map_err(failed)?;
        socket.connect(address).map_err(failed)?;
        socket.set_read_timeout(Some(RESEND)).map_err(failed)?;
        let silences_max = (timeout.as_millis() / RESEND.as_millis()).max(1);
        Ok(DatagramWindow {
            socket,
            sent: (0..size).map(|_| Sent::default()).collect(),
            mask: u64::from(size) - 1,
            next: 0,
            open: 0,
            done: 0,
            silences: 0,
            silences_max: u64::try_from(silences_max).unwrap_or(u64::MAX),
            input: vec![0; DATAGRAM_BYTES_MAX + 1],
            is_lost: false,
        })
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    pub(super) fn done(&self) -> u64 {
        self.done
    }

    pub(super) fn send(
        &mut self,
        command: &Command<'_>,
        wanted: Wanted,
        key: &[u8],
        expected: &[u8],
    ) -> Result<(), Halt> {
        let index = self.free_slot()?;
        self.sent[index].slot.set(wanted, key, expected);
        let answer_bytes = match wanted {
            Wanted::Value(_) => expected.len() + ANSWER_BYTES,
            _ => 0,
        };
        self.begin(index, command, answer_bytes)
    }

    pub(super) fn ask<R>(
        &mut self,
        command: &Command<'_>,
        read: impl FnOnce(&Reply<'_>) -> R,
    ) -> Result<R, Halt> {
        self.drain()?;
        let index = self.free_slot()?;
        let answer_bytes = match command {
            Command::Get { .. } | Command::Scan { .. } => LONG_BYTES,
            _ => 0,
        };
        self.begin(index, command, answer_bytes)?;
        loop {
            let Some(count) = self.receive()? else { continue };
            let Some(reply) = parse(&self.input[..count])? else { continue };
            if reply.seq() == Int::from(self.sent[index].seq) {
                let answer = read(&reply);
                self.close(index);
                return Ok(answer);
            }
        }
    }

    pub(super) fn drain(&mut self) -> Result<(), Halt> {
        while self.open > 0 {
            self.check_one()?;
        }
        Ok(())
    }

    /// The slot of the next request, once it is free.
    fn free_slot(&mut self) -> Result<usize, Halt> {
        let index = (self.next & self.mask) as usize;
        while self.sent[index].is_open {
            self.check_one()?;
        }
        Ok(index)
    }

    fn begin(
        &mut self,
        index: usize,
        command: &Command<'_>,
        answer_bytes: usize,
    ) -> Result<(), Halt> {
        let sent = &mut self.sent[index];
        sent.seq = self.next;
        sent.bytes.clear();
        command.write(&mut sent.bytes, Int::from(self.next));
        if sent.bytes.len() > DATAGRAM_BYTES_MAX {
            let bytes = sent.bytes.len();
            return Err(Halt::failed(format!("a request of {bytes} bytes fits no datagram")));
        }
        let padded = answer_bytes.min(DATAGRAM_BYTES_MAX).max(sent.bytes.len());
        sent.bytes.resize(padded, PADDING);
        sent.is_open = true;
        self.next += 1;
        self.open += 1;
        self.transmit(index)
    }

    fn transmit(&mut self, index: usize) -> Result<(), Halt> {
        match self.socket.send(&self.sent[index].bytes) {
            // A full buffer loses a datagram as a network does.
            Ok(_) => Ok(()),
            Err(error) if is_passing(error.kind()) => Ok(()),
            Err(error) => Err(self.lost(&error)),
        }
    }

    fn close(&mut self, index: usize) {
        self.sent[index].is_open = false;
        self.open -= 1;
        self.done += 1;
    }

    /// Takes one datagram, and checks it, if it is the answer to something that waits.
    fn check_one(&mut self) -> Result<(), Halt> {
        let Some(count) = self.receive()? else { return Ok(()) };
        let Some(reply) = parse(&self.input[..count])? else { return Ok(()) };
        let Some(seq) = reply.seq().as_u64() else { return Ok(()) };
        let index = (seq & self.mask) as usize;
        let sent = &self.sent[index];
        if sent.is_open && sent.seq == seq {
            let checked = sent.slot.check(&reply);
            self.close(index);
            return checked;
        }
        Ok(())
    }

    /// Waits for a datagram; after a silence, sends again what waits.
    fn receive(&mut self) -> Result<Option<usize>, Halt> {
        match self.socket.recv(&mut self.input) {
            Ok(count) => {
                self.silences = 0;
                Ok(Some(count))
            }
            Err(error) if is_passing(error.kind()) => {
                self.silences += 1;
                if self.silences >= self.silences_max {
                    return Err(Halt::failed("server: no answer in time"));
                }
                for index in 0..self.sent.len() {
                    if self.sent[index].is_open {
                        self.transmit(index)?;
                    }
                }
                Ok(None)
            }
            Err(error) => Err(self.lost(&error)),
        }
    }

    /// Nobody is there any more: the kernel of the server's machine says so.
    fn lost(&mut self, error: &std::io::Error) -> Halt {
        self.is_lost = true;
        Halt::failed(format!("server: {error}"))
    }
}

fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// The answer in a datagram; one that is cut short is none.
fn parse(bytes: &[u8]) -> Result<Option<Reply<'_>>, Halt> {
    let mut rest = bytes;
    let parsed = ReplyParser::new().next(&mut rest, &LIMITS);
    parsed.map_err(|error| Halt::failed(format!("server: {error}")))
}

#[cfg(test)]
mod unit {
    use super::*;
    use keyrack_wire::masstree::ReplyWriter;

    fn pair(size: u32, timeout: Duration) -> (DatagramWindow, UdpSocket) {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        (DatagramWindow::new("127.0.0.1", port, None, size, timeout).unwrap(), server)
    }

    fn check(window: &mut DatagramWindow, key: &[u8]) -> Result<(), Halt> {
        window.send(&Command::Get { key, columns: &[] }, Wanted::Value(None), key, b"value")
    }

    /// Sends the answer to the get of number `seq`.
    fn answer(server: &UdpSocket, to: SocketAddr, seq: u64, value: &[u8]) {
        let mut bytes = Vec::new();
        let mut reply = ReplyWriter::new(&mut bytes);
        reply.row(Int::from(seq), 1);
        reply.value(Some(value));
        server.send_to(&bytes, to).unwrap();
    }

    #[test]
    fn lost_doubled_and_overtaken_answers_are_put_right() {
        let (mut window, server) = pair(4, Duration::from_secs(60));
        let told = std::thread::spawn(move || {
            let (mut bytes, mut order) = (vec![0; 100], Vec::new());
            for _ in 0..3 {
                let (_, from) = server.recv_from(&mut bytes).unwrap();
                // [seq, 2, key]: the number is the second byte.
                order.push((u64::from(bytes[1]), from));
            }
            // The last first, twice; the middle one is lost until it is asked for again.
            for index in [2, 2, 0] {
                answer(&server, order[index].1, order[index].0, b"value");
            }
            let (_, from) = server.recv_from(&mut bytes).unwrap();
            answer(&server, from, u64::from(bytes[1]), b"value");
            order.iter().map(|(seq, _)| *seq).collect::<Vec<_>>()
        });
        for key in [b"a", b"b", b"c"] {
            check(&mut window, key).unwrap();
        }
        window.drain().unwrap();
        assert_eq!((window.done(), window.is_lost()), (3, false));
        assert_eq!(told.join().unwrap(), [0, 1, 2]);
    }

    #[test]
    fn a_wrong_answer_names_the_key_and_silence_is_a_failure() {
        let (mut window, server) = pair(1, RESEND);
        check(&mut window, b"key").unwrap();
        answer(&server, window.socket.local_addr().unwrap(), 0, b"other");
        let why = window.drain().unwrap_err().to_string();
        assert!(why.contains("key \"key\": expected \"value\", found \"other\""), "{why}");
        check(&mut window, b"key").unwrap();
        let why = window.drain().unwrap_err().to_string();
        assert_eq!(why, "server: no answer in time");
        let long = vec![b'k'; 5000];
        let why = check(&mut window, &long).err();
        assert!(why.is_some(), "the window is full, and nobody answers");
    }

    #[test]
    fn nobody_there_is_a_server_that_went_away() {
        let (mut window, server) = pair(2, Duration::from_secs(60));
        drop(server);
        let result = check(&mut window, b"key").and_then(|()| window.drain());
        assert!(result.is_err() && window.is_lost(), "{result:?}");
    }
}
