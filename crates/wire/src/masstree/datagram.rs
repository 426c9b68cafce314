//! Requests and answers over UDP, which never help to flood anybody.
//!
//! The sender's address of a datagram proves nothing. A server that answers a small request with a
//! large reply can be made to send that reply to a third party. So an answer is never longer than
//! the datagram that asked for it, or than [`REPLY_BYTES`]. A client that expects long answers
//! makes its request as long: it fills the datagram up with bytes of nil (`c0`) behind the message.
//!
//! A request is one datagram: what is missing is not taken from another.

use super::error::Error;
use super::limits::Limits;
use super::request::{Request, parse, whole};
use crate::msgpack::Scan;

/// Bytes of the longest datagram that is looked at.
pub const DATAGRAM_BYTES_MAX: usize = 4 << 10;

/// Bytes of an answer that any request may have: a number of nine bytes, and a value or key of 50.
/// With its headers (28 bytes) a request of the least size has 32, so the factor is below three.
const REPLY_BYTES: usize = 64;

/// The one byte that may follow the message in its datagram: nil.
const PADDING: u8 = 0xc0;

/// The request in a datagram.
///
/// # Errors
/// The datagram is longer than [`DATAGRAM_BYTES_MAX`] or holds anything but one whole request and
/// padding: no answer is due.
pub fn datagram<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Request<'a>, Error> {
    if bytes.len() > DATAGRAM_BYTES_MAX {
        return Err(Error::Datagram);
    }
    let mut rest = bytes;
    let message = whole(&mut Scan::default(), &mut rest, limits)?.ok_or(Error::Datagram)?;
    if rest.iter().any(|&byte| byte != PADDING) {
        return Err(Error::Datagram);
    }
    parse(message, limits)
}

/// Bytes that the answer to a datagram of `request_bytes` may have. A longer one is not sent; the
/// answer is `[seq, -1]` instead, which always fits.
#[must_use]
pub fn datagram_reply_bytes_max(request_bytes: usize) -> usize {
    request_bytes.clamp(REPLY_BYTES, DATAGRAM_BYTES_MAX)
}
