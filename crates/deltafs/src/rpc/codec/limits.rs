//! Limits and constants of the protocol.

/// Bytes of a frame after its length, at most.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// The first field of a hello.
pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"KFS1");
/// The version of the protocol.
pub(super) const VERSION: u16 = 3;
/// Names of one batch, at most.
pub const BATCH_NAMES_MAX: usize = 4096;
/// Bytes of the token in a hello, at most.
pub const HELLO_TOKEN_BYTES_MAX: usize = 1024;
/// Groups of a user, at most.
pub(super) const GROUPS_MAX: usize = 64;
/// Answers that a server keeps for each client. A client has at most half as many calls in flight.
pub const WINDOW: usize = 1024;
/// The first bytes of a datagram; the number of the client follows.
pub(crate) const DATAGRAM_MAGIC: &[u8; 4] = b"KFU1";
/// Bytes of a datagram before its frames: magic number and client.
pub(crate) const DATAGRAM_HEAD_BYTES: usize = 20;
