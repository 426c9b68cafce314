//! A connection's stream of bytes, in clear or through TLS. The loop sees no difference: it fills
//! a vector, and sends a buffer.

use std::io::{self, IoSlice};

use crate::output::{Output, SLICES_MAX};
#[cfg(feature = "tls")]
use crate::socket::Rest;
use crate::socket::{Filled, Socket};
use crate::stats::{CloseReason, Counters};
#[cfg(feature = "tls")]
use crate::tls::Session;

/// Bytes that a TLS session is charged: its state, a record that is not whole, and at most one
/// slice of ciphertext that the socket did not take.
const TLS_BYTES: usize = 32 << 10;

/// Bytes of memory that a transport is counted for, beside buffers.
pub(crate) fn memory_bytes(is_encrypted: bool) -> usize {
    if is_encrypted { TLS_BYTES } else { 0 }
}

/// A socket, and what is between it and the protocol.
#[derive(Debug)]
pub(crate) struct Transport {
    pub(crate) socket: Socket,
    #[cfg(feature = "tls")]
    tls: Option<Box<Session>>,
}

/// The outcome of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// All were taken.
    All,
    /// The socket is full.
    Part {
        /// Did it take any?
        has_moved: bool,
    },
}

impl Transport {
    #[cfg(feature = "tls")]
    pub(crate) fn new(socket: Socket, tls: Option<Box<Session>>) -> Self {
        Transport { socket, tls }
    }

    #[cfg(not(feature = "tls"))]
    pub(crate) fn new(socket: Socket) -> Self {
        Transport { socket }
    }

    /// Bytes of memory that it is counted for, beside buffers.
    pub(crate) fn memory_bytes(&self) -> usize {
        memory_bytes(self.is_encrypted())
    }

    fn is_encrypted(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        return false;
    }

    /// One read. Appends to `target`, at least as far as its spare memory goes. `cipher` is memory
    /// for what TLS has to decode.
    ///
    /// # Errors
    /// Why the connection is to be closed.
    pub(crate) fn fill(
        &mut self,
        target: &mut Vec<u8>,
        cipher: &mut Vec<u8>,
        counters: &Counters,
    ) -> Result<Filled, CloseReason> {
        counters.reads.add(1);
        #[cfg(feature = "tls")]
        if let Some(session) = &mut self.tls {
            cipher.clear();
            let raw = self.socket.fill(cipher).map_err(|_| CloseReason::Io)?;
            counters.bytes_in.add(raw.count as u64);
            let before = target.len();
            let is_closed = match session.decode(cipher, target) {
                Ok(is_closed) => is_closed,
                Err(_) => {
                    // The alert says what was wrong, if it still gets through.
                    let _ = session.flush(&mut self.socket, counters);
                    return Err(CloseReason::Tls);
                }
            };
            let count = target.len() - before;
            return Ok(Filled { count, rest: if is_closed { Rest::End } else { raw.rest } });
        }
        let _ = cipher;
        let filled = self.socket.fill(target).map_err(|_| CloseReason::Io)?;
        counters.bytes_in.add(filled.count as u64);
        Ok(filled)
    }

    /// Does TLS have something to say by itself, as in its handshake?
    pub(crate) fn has_own_output(&self) -> bool {
        #[cfg(feature = "tls")]
        if let Some(session) = &self.tls {
            return session.wants_write();
        }
        false
    }

    /// Sends what is pending, by one write if it lies together and the socket takes it.
    pub(crate) fn send(&mut self, output: &mut Output, counters: &Counters) -> io::Result<Sent> {
        #[cfg(feature = "tls")]
        if let Some(session) = &mut self.tls {
            return session.send(&mut self.socket, output, counters);
        }
        let mut has_moved = false;
        while !output.is_empty() {
            counters.writes.add(1);
            let front = output.front();
            let (wanted, sent) = if front.len() == output.len() {
                (front.len(), self.socket.send(front)?)
            } else {
                let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                let (count, bytes) = output.slices(&mut slices);
                (bytes, self.socket.send_many(&slices[..count])?)
            };
            let Some(count) = sent else { return Ok(Sent::Part { has_moved }) };
            counters.bytes_out.add(count as u64);
            output.consume(count);
            has_moved |= count > 0;
            if count < wanted {
                return Ok(Sent::Part { has_moved });
            }
        }
        Ok(Sent::All)
    }

    /// Says that nothing more will come.
    pub(crate) fn finish(&mut self, counters: &Counters) {
        #[cfg(feature = "tls")]
        if let Some(session) = &mut self.tls {
            session.say_goodbye();
            // The socket is closed next; bytes that it does not take now are dropped.
            let _ = session.flush(&mut self.socket, counters);
        }
        let _ = counters;
        self.socket.shutdown_write();
    }
}
