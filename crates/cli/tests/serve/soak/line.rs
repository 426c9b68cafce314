//! One connection, and the manner in which it sends and reads.

use super::life::{Life, Stop};
use super::speech::Protocol;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

/// How a connection behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Sends at once, reads at once.
    Steady,
    /// Sends byte by byte.
    SlowWriter,
    /// Reads a few bytes at a time.
    SlowReader,
    /// Says after each batch that nothing more comes, and reads to the end.
    HalfClosed,
    /// Begins again after each batch, at times without reading what it asked for.
    Churn,
}

/// Bytes that a slow writer sends one by one; the rest follows in pieces.
const SLOW_BYTES: usize = 48;

/// Pieces in which a slow writer sends what is left, and a slow reader reads.
const PIECE_BYTES: usize = 200;

/// A connection that has said hello.
pub(super) struct Line<'a> {
    pub(super) life: &'a Life<'a>,
    pub(super) protocol: Protocol,
    pub(super) manner: Manner,
    stream: TcpStream,
    /// What has come and was not taken yet.
    pub(super) bytes: Vec<u8>,
}

impl<'a> Line<'a> {
    pub(super) fn open(
        life: &'a Life<'a>,
        protocol: Protocol,
        manner: Manner,
    ) -> Result<Line<'a>, Stop> {
        let stream = life.connect(protocol)?;
        let mut line = Line { life, protocol, manner, stream, bytes: Vec::new() };
        line.send(&protocol.hello())?;
        loop {
            if let Some(length) = protocol.welcome(&line.bytes)? {
                line.bytes.drain(..length);
                return Ok(line);
            }
            line.more()?;
        }
    }

    /// Sends in this connection's manner.
    pub(super) fn send(&mut self, mut bytes: &[u8]) -> Result<(), Stop> {
        if self.manner == Manner::SlowWriter {
            for _ in 0..SLOW_BYTES.min(bytes.len()) {
                self.send_piece(&bytes[..1])?;
                bytes = &bytes[1..];
                self.life.pause(2);
            }
            while bytes.len() > PIECE_BYTES * 16 {
                self.send_piece(&bytes[..PIECE_BYTES * 16])?;
                bytes = &bytes[PIECE_BYTES * 16..];
                self.life.pause(1);
            }
        }
        self.send_piece(bytes)
    }

    fn send_piece(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.stream.write_all(bytes).map_err(|error| stop(&error))
    }

    /// Says that nothing more is sent.
    pub(super) fn end_sending(&mut self) {
        // The other side may have closed already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Reads some bytes more, in this connection's manner.
    pub(super) fn more(&mut self) -> Result<(), Stop> {
        let mut piece = [0; 16 << 10];
        let limit = match self.manner {
            Manner::SlowReader => {
                self.life.pause(3);
                PIECE_BYTES
            }
            _ => piece.len(),
        };
        match self.stream.read(&mut piece[..limit]) {
            Ok(0) => Err(Stop::Closed),
            Ok(count) => {
                self.bytes.extend_from_slice(&piece[..count]);
                Ok(())
            }
            Err(error) => Err(stop(&error)),
        }
    }

    /// The value in the next reply, which is that to a get.
    pub(super) fn found(&mut self, key: &str) -> Result<Option<Vec<u8>>, Stop> {
        loop {
            if let Some((value, length)) = self.protocol.found(key, &self.bytes)? {
                self.bytes.drain(..length);
                return Ok(value);
            }
            self.more()?;
        }
    }
}

fn stop(error: &std::io::Error) -> Stop {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            Stop::Wrong(format!("nothing moved for {:?}", crate::support::PATIENCE))
        }
        _ => Stop::Closed,
    }
}
