//! The replies of the binary protocol.

use super::header::{Header, REPLY, write_message};

/// How an operation ended. Numbers that the protocol's document does not have are kept as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(pub u16);

impl Status {
    /// Done.
    pub const OK: Status = Status(0x00);
    /// There is no such row.
    pub const KEY_NOT_FOUND: Status = Status(0x01);
    /// There is such a row, or it is of another version.
    pub const KEY_EXISTS: Status = Status(0x02);
    /// The value is too large.
    pub const TOO_LARGE: Status = Status(0x03);
    /// The message is not what its operation has.
    pub const INVALID: Status = Status(0x04);
    /// Not stored, because of what there is.
    pub const NOT_STORED: Status = Status(0x05);
    /// The value is no number to count with.
    pub const NOT_A_NUMBER: Status = Status(0x06);
    /// Who the client is has not been proved.
    pub const AUTH_ERROR: Status = Status(0x20);
    /// The exchange goes on.
    pub const AUTH_CONTINUE: Status = Status(0x21);
    /// No such operation.
    pub const UNKNOWN_COMMAND: Status = Status(0x81);
    /// No memory is left.
    pub const OUT_OF_MEMORY: Status = Status(0x82);
    /// The server is busy.
    pub const BUSY: Status = Status(0x85);
    /// The operation failed this time.
    pub const TEMPORARY_FAILURE: Status = Status(0x86);

    /// The words that go with it, as memcached has them.
    #[must_use]
    pub const fn words(self) -> &'static [u8] {
        match self {
            Status::KEY_NOT_FOUND => b"Not found",
            Status::KEY_EXISTS => b"Data exists for key.",
            Status::TOO_LARGE => b"Too large.",
            Status::INVALID => b"Invalid arguments",
            Status::NOT_STORED => b"Not stored.",
            Status::NOT_A_NUMBER => b"Non-numeric server-side value for incr or decr",
            Status::AUTH_ERROR => b"Auth failure.",
            Status::UNKNOWN_COMMAND => b"Unknown command",
            Status::OUT_OF_MEMORY => b"Out of memory",
            _ => b"",
        }
    }
}

/// A reply. What its parts mean depends on the operation: flags in the extras of a value, a number
/// in the value of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The number of the operation.
    pub opcode: u8,
    /// How it ended.
    pub status: Status,
    /// What the request had here.
    pub opaque: u32,
    /// The row's version; 0 when there is none to tell.
    pub cas: u64,
    /// Four bytes of flags with a value, else nothing.
    pub extras: &'a [u8],
    /// The key, to operations that ask for it.
    pub key: &'a [u8],
    /// The value, or words when something went wrong.
    pub value: &'a [u8],
}

impl Reply<'_> {
    /// The flags that came with a value.
    #[must_use]
    pub fn flags(&self) -> Option<u32> {
        Some(u32::from_be_bytes(self.extras.try_into().ok()?))
    }

    /// The number that was counted to.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        Some(u64::from_be_bytes(self.value.try_into().ok()?))
    }

    /// Appends the reply to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let header = Header {
            magic: REPLY,
            opcode: self.opcode,
            key_bytes: 0,
            extras_bytes: 0,
            data_type: 0,
            status: self.status.0,
            body_bytes: 0,
            opaque: self.opaque,
            cas: self.cas,
        };
        write_message(out, header, self.extras, self.key, self.value);
    }
}

/// Appends to `out` that an operation came to `status`, with its words.
pub fn write_status(out: &mut Vec<u8>, opcode: u8, opaque: u32, status: Status) {
    let value = status.words();
    Reply { opcode, status, opaque, cas: 0, extras: b"", key: b"", value }.write(out);
}

/// Appends a row to `out`, as the operations that get one do; `key` is empty for those that do not
/// send it.
pub fn write_value(
    out: &mut Vec<u8>,
    (opcode, opaque): (u8, u32),
    key: &[u8],
    flags: u32,
    cas: u64,
    value: &[u8],
) {
    let extras = &flags.to_be_bytes();
    Reply { opcode, status: Status::OK, opaque, cas, extras, key, value }.write(out);
}
