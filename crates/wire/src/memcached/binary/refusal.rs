//! Headers that are no request, and what a server does about them.

use super::{Status, write_status};

/// A message that is no request: what to reply, and where the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The number of the operation, which need not be one.
    pub opcode: u8,
    /// What comes back as it was.
    pub opaque: u32,
    /// What is wrong; nothing when the bytes are no header and get no reply.
    pub status: Option<Status>,
    /// Bytes from the front of the buffer to where the next message begins; at least one, and more
    /// than the buffer holds when some of the body is still to come.
    pub skip: u64,
    /// Nobody can tell where the next message begins: the connection is to be closed.
    pub close: bool,
}

impl Refusal {
    /// Appends the reply to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        if let Some(status) = self.status {
            write_status(out, self.opcode, self.opaque, status);
        }
    }
}
