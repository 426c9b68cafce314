//! The output of one call of `serve`: how far it may grow, and where answering stopped.

use keyrack_store::Error;
use keyrack_wire::memcached::text::Reply;

/// Bytes of replies after which a connection yields.
pub(super) const ITERATION_OUTPUT_BYTES_MAX: usize = 1 << 20;

/// A connection's output, and how much of it may be filled in this iteration.
pub(super) struct Output<'o> {
    pub(super) bytes: &'o mut Vec<u8>,
    pub(super) full_at: usize,
}

impl<'o> Output<'o> {
    pub(super) fn new(bytes: &'o mut Vec<u8>) -> Self {
        let full_at = bytes.len().saturating_add(ITERATION_OUTPUT_BYTES_MAX);
        Output { bytes, full_at }
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= self.full_at
    }
}

/// Where answering stopped: nothing but the bytes before `request`, and `keys` keys of the request
/// that begins there, are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) request: usize,
    pub(super) keys: u32,
}

/// Replies that the store failed.
pub(super) fn server_error(error: &Error, out: &mut Vec<u8>) {
    Reply::ServerError(error.to_string().as_bytes()).write(out);
}
