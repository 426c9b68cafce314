//! One connection: what was sent and not answered, what waits, and the bytes on both sides.
//!
//! ```text
//!   queue    drawn, in order, not sent: what replies have caused
//!   in_flight  [ oldest ... newest ]  sent, at most `depth`; the last `unstamped` have not left
//!   output   [ bytes of requests ]  taken up to `sent`
//!   input    [ taken | filled | room ]  replies, whole and not
//! ```
//!
//! Replies come in order, but for the binary protocol, whose opaque names the request: a request
//! that was answered before older ones stays, marked, until those are.

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use keyrack_wire::outcome::{Dialect, Kind, Malformed, Outcome, Parser, Step, whole_hit};

use super::in_flight::{InFlight, flags};
use super::transport::Transport;
use crate::target::{Protocol, Template};

/// Room for replies at first.
const INPUT_BYTES: usize = 64 << 10;
/// A read is not worth its call with less room than this.
const READ_BYTES_MIN: usize = 4 << 10;
/// Replies that are kept whole may have so many bytes.
const INPUT_BYTES_MAX: usize = 1 << 30;

/// What became of reading or writing.
#[derive(Debug)]
pub(super) enum ConnectionError {
    /// The server closed the connection.
    Closed,
    /// The kernel says that it is over.
    Broken(io::Error),
    /// Bytes that are no reply.
    Malformed(Malformed),
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: Option<Transport>,
    /// Its place among the nodes of its thread.
    pub(super) server: usize,
    /// Is the stream being made?
    pub(super) is_awaited: bool,
    pub(super) queue: VecDeque<InFlight>,
    pub(super) in_flight: VecDeque<InFlight>,
    pub(super) unstamped: usize,
    /// The number of the oldest request, since the connection was made.
    first_number: u64,
    output: Vec<u8>,
    /// Bytes at the end of the output that are requests of an earlier batch, to be overwritten.
    spare_bytes: usize,
    /// The output is copies of one template and nothing else.
    is_stock: bool,
    sent_bytes: usize,
    is_armed: bool,
    is_tls: bool,
    input: Vec<u8>,
    taken: usize,
    filled: usize,
    pub(super) parser: Parser,
    dialect: Dialect,
    keeps_values: bool,
    pub(super) received_bytes: u64,
    pub(super) written_bytes: u64,
}

impl Connection {
    /// A connection that does not block any more.
    pub(super) fn new(
        stream: Transport,
        server: usize,
        protocol: Protocol,
        keeps_values: bool,
    ) -> Connection {
        let mut connection = Connection::absent(server, protocol, keeps_values);
        connection.is_tls = stream.is_tls();
        connection.stream = Some(stream);
        connection
    }

    /// A connection that is still to be made.
    pub(super) fn absent(server: usize, protocol: Protocol, keeps_values: bool) -> Connection {
        let dialect = protocol.dialect();
        Connection {
            is_tls: false,
            stream: None,
            server,
            is_awaited: false,
            queue: VecDeque::new(),
            in_flight: VecDeque::new(),
            unstamped: 0,
            first_number: 0,
            output: Vec::with_capacity(INPUT_BYTES),
            spare_bytes: 0,
            is_stock: false,
            sent_bytes: 0,
            is_armed: false,
            input: vec![0; INPUT_BYTES],
            taken: 0,
            filled: 0,
            parser: Parser::new(dialect, keeps_values),
            dialect,
            keeps_values,
            received_bytes: 0,
            written_bytes: 0,
        }
    }

    /// Another stream to the same server, in place of one that broke.
    pub(super) fn renew(&mut self, stream: Transport) {
        self.is_tls = stream.is_tls();
        self.stream = Some(stream);
        self.is_awaited = false;
        self.parser = Parser::new(self.dialect, self.keeps_values);
        (self.taken, self.filled, self.sent_bytes) = (0, 0, 0);
        (self.is_armed, self.first_number, self.unstamped) = (false, 0, 0);
        self.clear_output();
    }

    #[inline]
    pub(super) fn is_alive(&self) -> bool {
        self.stream.is_some()
    }

    /// The number that a new request will have, as a reply will name it.
    #[inline]
    pub(super) fn next_opaque(&self) -> u32 {
        self.first_number.wrapping_add(self.in_flight.len() as u64) as u32
    }

    /// Where requests are appended.
    #[inline]
    pub(super) fn output(&mut self) -> &mut Vec<u8> {
        if self.is_stock {
            self.output.truncate(self.output_end());
            (self.is_stock, self.spare_bytes) = (false, 0);
        }
        &mut self.output
    }

    /// A copy of a template behind the output, with the key of an earlier request or its own.
    /// Between two calls of [`Connection::output`] there is one template.
    #[inline]
    pub(super) fn copy_of(&mut self, template: &Template) -> &mut [u8] {
        let bytes = template.head().len();
        if self.spare_bytes > 0 {
            self.spare_bytes -= bytes;
        } else {
            self.is_stock |= self.output.is_empty();
            self.output.extend_from_slice(template.head());
        }
        let end = self.output_end();
        &mut self.output[end - bytes..end]
    }

    /// Where the bytes end that are to be sent.
    #[inline]
    fn output_end(&self) -> usize {
        self.output.len() - self.spare_bytes
    }

    fn clear_output(&mut self) {
        self.output.clear();
        (self.is_stock, self.spare_bytes) = (false, 0);
    }

    /// Is there anything to send?
    #[inline]
    pub(super) fn has_output(&self) -> bool {
        self.sent_bytes < self.output_end()
    }

    /// Bytes that the socket has not taken.
    #[inline]
    pub(super) fn output_bytes(&self) -> usize {
        self.output_end() - self.sent_bytes
    }

    /// Marks what has not left yet as leaving now.
    #[inline]
    pub(super) fn stamp(&mut self, now: u64) {
        let from = self.in_flight.len() - self.unstamped.min(self.in_flight.len());
        for request in self.in_flight.range_mut(from..) {
            request.sent = now;
        }
        self.unstamped = 0;
    }

    /// Sends what the socket takes. `Some` says that it must be armed for writing, or must not any
    /// more.
    pub(super) fn flush(&mut self) -> Result<Option<bool>, ConnectionError> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        if self.is_tls && stream.wants_write() {
            match stream.flush() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(self.arm(true));
                }
                Err(error) => return Err(ConnectionError::Broken(error)),
            }
        }
        let end = self.output.len() - self.spare_bytes;
        while self.sent_bytes < end {
            match stream.write(&self.output[self.sent_bytes..end]) {
                Ok(count) => {
                    self.sent_bytes += count;
                    self.written_bytes += count as u64;
                    if count == 0 || (self.is_tls && stream.wants_write()) {
                        return Ok(self.arm(true));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(self.arm(true));
                }
                Err(error) => return Err(ConnectionError::Broken(error)),
            }
        }
        if self.is_stock {
            self.spare_bytes = self.output.len();
        } else {
            self.output.clear();
        }
        self.sent_bytes = 0;
        Ok(self.arm(false))
    }

    fn arm(&mut self, is_armed: bool) -> Option<bool> {
        (std::mem::replace(&mut self.is_armed, is_armed) != is_armed).then_some(is_armed)
    }

    /// Reads once. `Ok(true)` says that there may be more.
    pub(super) fn fill(&mut self) -> Result<bool, ConnectionError> {
        self.reserve_input();
        let Some(stream) = &mut self.stream else { return Ok(false) };
        loop {
            let room = &mut self.input[self.filled..];
            let room_bytes = room.len();
            match stream.read(room) {
                Ok(0) => return Err(ConnectionError::Closed),
                Ok(count) => {
                    self.filled += count;
                    self.received_bytes += count as u64;
                    return Ok(self.is_tls || count == room_bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(ConnectionError::Closed);
                }
                Err(error) => return Err(ConnectionError::Broken(error)),
            }
        }
    }

    /// Moves the input to the front when it leaves too little room behind it, and grows it when a
    /// reply that is wanted whole fills it.
    fn reserve_input(&mut self) {
        if self.taken == self.filled {
            (self.taken, self.filled) = (0, 0);
        } else if self.input.len() - self.filled < READ_BYTES_MIN && self.taken > 0 {
            self.input.copy_within(self.taken..self.filled, 0);
            (self.taken, self.filled) = (0, self.filled - self.taken);
        }
        if self.filled == self.input.len() && self.input.len() < INPUT_BYTES_MAX {
            self.input.resize(self.input.len() * 2, 0);
        }
    }

    /// Takes the next whole reply, if there is one: the request that it answers, what came of it,
    /// and the value where it was kept.
    #[inline]
    pub(super) fn next_reply(&mut self) -> Result<Option<(InFlight, Outcome)>, ConnectionError> {
        loop {
            let input = &self.input[self.taken..self.filled];
            if input.is_empty() {
                return Ok(None);
            }
            let kind = match self.in_flight.front() {
                Some(request) => request.kind,
                None => Kind::Flush,
            };
            match self.parser.step(input, kind).map_err(ConnectionError::Malformed)? {
                Step::More => return Ok(None),
                Step::Eaten(count) => self.taken += count,
                Step::Done(count, outcome) => {
                    self.taken += count;
                    return self.complete(outcome).map(Some);
                }
            }
        }
    }

    /// As [`Connection::next_reply`], handing each value that came whole to `look`.
    pub(super) fn next_reply_with(
        &mut self,
        look: &mut dyn FnMut(&InFlight, &[u8]),
    ) -> Result<Option<(InFlight, Outcome)>, ConnectionError> {
        loop {
            let input = &self.input[self.taken..self.filled];
            let Some(front) = self.in_flight.front().copied() else {
                if input.is_empty() {
                    return Ok(None);
                }
                return Err(ConnectionError::Malformed(Malformed("a reply to nothing")));
            };
            let step = self.parser.step(input, front.kind).map_err(ConnectionError::Malformed)?;
            if let Some(range) = self.parser.take_value()
                && step != Step::More
            {
                look(&front, &input[range]);
            }
            match step {
                Step::More => return Ok(None),
                Step::Eaten(count) => self.taken += count,
                Step::Done(count, outcome) => {
                    self.taken += count;
                    return self.complete(outcome).map(Some);
                }
            }
        }
    }

    /// Takes hits at the front that are whole, as long as their requests left at one time: when
    /// that was, and how many.
    #[inline]
    pub(super) fn read_hits(&mut self, key_bytes: usize) -> (u64, u64) {
        let Some(front) = self.in_flight.front().filter(|_| self.parser.is_between_replies())
        else {
            return (0, 0);
        };
        let sent = front.sent;
        let mut count = 0;
        for request in &self.in_flight {
            let input = &self.input[self.taken..self.filled];
            match whole_hit(self.dialect, input, key_bytes) {
                Some(bytes) if request.sent == sent => self.taken += bytes,
                _ => break,
            }
            count += 1;
        }
        self.in_flight.drain(..count);
        self.first_number += count as u64;
        (sent, count as u64)
    }

    /// The request that a reply answers.
    #[inline]
    fn complete(&mut self, outcome: Outcome) -> Result<(InFlight, Outcome), ConnectionError> {
        const STRAY: ConnectionError = ConnectionError::Malformed(Malformed("a reply to nothing"));
        if self.dialect == Dialect::Binary {
            let opaque = self.parser.take_opaque().unwrap_or(self.first_number as u32);
            let at = opaque.wrapping_sub(self.first_number as u32) as usize;
            let request = self.in_flight.get_mut(at).ok_or(STRAY)?;
            if request.flags & flags::DONE != 0 {
                return Err(STRAY);
            }
            let found = *request;
            request.flags |= flags::DONE;
            while self.in_flight.front().is_some_and(|request| request.flags & flags::DONE != 0) {
                self.in_flight.pop_front();
                self.first_number += 1;
            }
            return Ok((found, outcome));
        }
        let request = self.in_flight.pop_front().ok_or(STRAY)?;
        self.first_number += 1;
        Ok((request, outcome))
    }

    /// Requests without a reply.
    pub(super) fn outstanding(&self) -> usize {
        let is_open = |request: &&InFlight| request.flags & (flags::DONE | flags::ASKING) == 0;
        self.in_flight.iter().filter(is_open).count()
    }
}
