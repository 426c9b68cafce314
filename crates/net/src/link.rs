//! A [`Stream`] with a buffer on each side: what a client with many requests under way needs.
//!
//! ```text
//!   output: [ requests, written one behind the other ]  --flush: one write-->  server
//!   input:  [ taken | filled: answers, whole and not | room ]  <--fill: one read--  server
//!             ^ consume moves it                       ^ grows up to the limit
//! ```
//!
//! It knows no message: the caller says where one ends.
//!
//! **Invariant:** the input holds at most `input_bytes_max` bytes, whatever the server sends.

use std::io::{self, Read, Write};
use std::time::Duration;

use crate::endpoint::Endpoint;
use crate::error::Result;
use crate::stream::{ConnectOptions, Stream};

/// Room for answers at first; it doubles when one answer needs more.
const INPUT_BYTES: usize = 64 << 10;
/// Requests at most before the first growth of the output.
const OUTPUT_BYTES: usize = 64 << 10;
/// A read is not worth its call with less room than this.
const READ_BYTES_MIN: usize = 4 << 10;

/// A connection that blocks, with its buffers.
#[derive(Debug)]
pub struct Link {
    stream: Stream,
    output: Vec<u8>,
    /// All of it is initialised; `input[taken..filled]` are bytes of the server.
    input: Vec<u8>,
    taken: usize,
    filled: usize,
    input_bytes_max: usize,
}

impl Link {
    /// Connects. An answer may have up to `input_bytes_max` bytes.
    ///
    /// # Errors
    /// As [`Stream::connect`].
    pub fn connect(
        endpoint: &Endpoint,
        options: &ConnectOptions,
        input_bytes_max: usize,
    ) -> Result<Link> {
        Ok(Link {
            stream: Stream::connect(endpoint, options)?,
            output: Vec::with_capacity(OUTPUT_BYTES),
            input: vec![0; INPUT_BYTES.min(input_bytes_max)],
            taken: 0,
            filled: 0,
            input_bytes_max,
        })
    }

    /// Where requests are appended. Nothing of it is sent before [`Link::flush`].
    #[inline]
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Sends what was appended, in one write where the kernel takes it.
    ///
    /// # Errors
    /// The connection is gone, or the server did not read in time: [`io::ErrorKind::TimedOut`].
    pub fn flush(&mut self) -> io::Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        let written = self.stream.write_all(&self.output).and_then(|()| self.stream.flush());
        self.output.clear();
        written.map_err(in_words)
    }

    /// Bytes that the server has sent and the caller has not consumed.
    #[inline]
    #[must_use]
    pub fn input(&self) -> &[u8] {
        &self.input[self.taken..self.filled]
    }

    /// Drops the first `bytes` of the input.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    pub fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.filled - self.taken, "no more is consumed than has come");
        self.taken += bytes;
    }

    /// Waits until the server has sent more.
    ///
    /// # Errors
    /// The server closed the connection ([`io::ErrorKind::UnexpectedEof`]), sent nothing in time
    /// ([`io::ErrorKind::TimedOut`]), or sends an answer above the limit
    /// ([`io::ErrorKind::InvalidData`]).
    pub fn fill(&mut self) -> io::Result<()> {
        self.make_room()?;
        loop {
            match self.stream.read(&mut self.input[self.filled..]) {
                Ok(0) => {
                    let words = "the server closed the connection";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, words));
                }
                Ok(bytes) => {
                    self.filled += bytes;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(in_words(error)),
            }
        }
    }

    /// From now on [`Link::fill`] waits at most so long; `None` waits for ever.
    ///
    /// # Errors
    /// A connection that is closed already.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(timeout)
    }

    /// Reads once, without waiting. False if the server has sent nothing more.
    ///
    /// # Errors
    /// As [`Link::fill`].
    pub fn fill_ready(&mut self) -> io::Result<bool> {
        self.stream.set_nonblocking(true)?;
        let filled = self.fill();
        self.stream.set_nonblocking(false)?;
        match filled {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Moves the input to the front when it leaves too little room behind it, and grows it when it
    /// fills its buffer.
    fn make_room(&mut self) -> io::Result<()> {
        if self.taken == self.filled {
            (self.taken, self.filled) = (0, 0);
        } else if self.input.len() - self.filled < READ_BYTES_MIN && self.taken > 0 {
            self.input.copy_within(self.taken..self.filled, 0);
            (self.taken, self.filled) = (0, self.filled - self.taken);
        }
        if self.filled == self.input.len() {
            if self.filled >= self.input_bytes_max {
                let words = format!("an answer of more than {} bytes", self.input_bytes_max);
                return Err(io::Error::new(io::ErrorKind::InvalidData, words));
            }
            let bytes = self.input.len().saturating_mul(2).min(self.input_bytes_max);
            self.input.resize(bytes, 0);
        }
        Ok(())
    }
}

/// A timeout of a socket shows as "would block", which says nothing to a reader.
fn in_words(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn pair(input_bytes_max: usize, timeout: Option<Duration>) -> (Link, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = Endpoint::Ip(listener.local_addr().unwrap());
        let options = ConnectOptions { read_timeout: timeout, ..ConnectOptions::default() };
        let link = Link::connect(&endpoint, &options, input_bytes_max).unwrap();
        (link, listener.accept().unwrap().0)
    }

    #[test]
    fn answers_longer_than_the_buffer_come_whole_and_in_order() {
        let (mut link, mut server) = pair(1 << 20, None);
        let bytes: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
        let sent = bytes.clone();
        let thread = std::thread::spawn(move || server.write_all(&sent).unwrap());
        let mut got = Vec::new();
        // Bytes that are not consumed at once must stay unchanged while more arrive.
        while got.len() + link.input().len() < bytes.len() {
            link.fill().unwrap();
            let take = link.input().len() / 3;
            got.extend_from_slice(&link.input()[..take]);
            link.consume(take);
        }
        got.extend_from_slice(link.input());
        thread.join().unwrap();
        assert_eq!(got, bytes);
    }

    #[test]
    fn an_answer_above_the_limit_and_an_end_are_errors() {
        let (mut link, mut server) = pair(10, None);
        server.write_all(&[7; 30]).unwrap();
        let error = loop {
            if let Err(error) = link.fill() {
                break error;
            }
        };
        assert_eq!((error.kind(), link.input().len()), (io::ErrorKind::InvalidData, 10));
        link.consume(10);
        drop(server);
        let error = loop {
            if let Err(error) = link.fill() {
                break error;
            }
            link.consume(link.input().len());
        };
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_silent_server_is_a_timeout_in_words() {
        let (mut link, _server) = pair(10, Some(Duration::from_millis(1)));
        let error = link.fill().unwrap_err();
        assert_eq!(error.to_string(), "no answer in time");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn what_has_come_is_read_without_waiting() {
        let (mut link, mut server) = pair(10, None);
        assert!(!link.fill_ready().unwrap(), "nothing was sent");
        server.write_all(b"one").unwrap();
        while link.input() != b"one" {
            link.fill_ready().unwrap();
        }
        assert!(!link.fill_ready().unwrap());
        // It waits again afterwards.
        let writer = std::thread::spawn(move || server.write_all(b"two"));
        link.fill().unwrap();
        writer.join().unwrap().unwrap();
    }

    #[test]
    fn requests_go_out_together() {
        let (mut link, mut server) = pair(10, None);
        link.output().extend_from_slice(b"one");
        link.output().extend_from_slice(b"two");
        link.flush().unwrap();
        let mut got = [0; 6];
        server.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"onetwo");
        assert!(link.output().is_empty());
    }
}
