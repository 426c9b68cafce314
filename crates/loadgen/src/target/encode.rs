//! Requests to bytes, by the encoder of their protocol.

use super::Protocol;
use super::request::Request;
use super::{binary, meta, resp, text};

/// Appends the request to `out`.
#[inline]
pub fn encode(protocol: Protocol, out: &mut Vec<u8>, request: &Request<'_>) {
    match protocol {
        Protocol::Text => text::encode(out, request),
        Protocol::Binary => binary::encode(out, request),
        Protocol::Meta => meta::encode(out, request),
        Protocol::Resp2 | Protocol::Resp3 => resp::encode(out, request),
    }
}
