//! What the answer of a request is checked against, in a buffer that is used again: once all slots
//! have been used, a request allocates nothing.

use keyrack_wire::masstree::{Limits, Reply};
use keyrack_workload::kvtest::{Halt, mismatch};

pub(super) const ANSWER_BYTES_MAX: usize = 64 << 20;

pub(super) const LIMITS: Limits = Limits {
    key_bytes_max: 64 << 10,
    value_bytes_max: 16 << 20,
    columns_max: 1 << 16,
    elements_max: 1 << 20,
    message_bytes_max: ANSWER_BYTES_MAX as u64,
};

/// What is known of a request whose answer is missing.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    wanted: Wanted,
    /// The key, and behind it the value that is expected.
    bytes: Vec<u8>,
    key_bytes: usize,
}

/// Which answer a request should have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Any to a put or a replacement.
    #[default]
    Stored,
    /// Any to a removal.
    Removed,
    /// The value of a key, or of a column of its row where one is given.
    Value(Option<u16>),
    /// That there is no such row.
    Nothing,
    /// That a checkpoint has begun.
    Checkpoint,
}

impl Slot {
    /// Makes it that of a new request.
    #[inline]
    pub(super) fn set(&mut self, wanted: Wanted, key: &[u8], expected: &[u8]) {
        self.wanted = wanted;
        if let Wanted::Value(_) | Wanted::Nothing = wanted {
            self.key_bytes = key.len();
            self.bytes.clear();
            self.bytes.extend_from_slice(key);
            self.bytes.extend_from_slice(expected);
        }
    }

    #[inline]
    pub(super) fn check(&self, reply: &Reply<'_>) -> Result<(), Halt> {
        match (self.wanted, reply) {
            (Wanted::Stored, Reply::Stored { .. })
            | (Wanted::Removed, Reply::Removed { .. })
            | (Wanted::Checkpoint, Reply::Checkpoint { .. }) => Ok(()),
            (Wanted::Value(column), Reply::Row { values, .. }) => {
                let found = values.clone().next().flatten();
                let (key, expected) = self.bytes.split_at(self.key_bytes);
                if found == Some(expected) {
                    return Ok(());
                }
                Err(mismatch(column, key, expected, found))
            }
            (Wanted::Nothing, Reply::Row { values, .. }) => match values.clone().next().flatten() {
                None => Ok(()),
                Some(found) => Err(Halt::failed(format!(
                    "key {}: expected nothing, found {}",
                    self.bytes.escape_ascii(),
                    found.escape_ascii()
                ))),
            },
            (_, Reply::Unknown { .. }) => Err(Halt::failed(
                "server: it refuses a request, or cannot answer it in so small a datagram",
            )),
            _ => Err(Halt::failed("server: an answer to another kind of request")),
        }
    }
}
