//! Memcached's binary messages: 24 bytes of header, then a body whose length the header tells.

use keyrack_wire::outcome::Kind;

use super::request::Request;

const HEADER_BYTES: usize = 24;
const REQUEST: u8 = 0x80;

const GET: u8 = 0x00;
const SET: u8 = 0x01;
const ADD: u8 = 0x02;
const REPLACE: u8 = 0x03;
const DELETE: u8 = 0x04;
const INCREMENT: u8 = 0x05;
const DECREMENT: u8 = 0x06;
const FLUSH: u8 = 0x08;
const GETQ: u8 = 0x09;
const NOOP: u8 = 0x0a;
const APPEND: u8 = 0x0e;
const PREPEND: u8 = 0x0f;
const TOUCH: u8 = 0x1c;

/// An arithmetic command on a missing key fails with this expiry, as the text commands do.
const NO_INITIAL: u32 = u32::MAX;

pub(super) fn encode(out: &mut Vec<u8>, request: &Request<'_>) {
    let Request { key, value, opaque, .. } = *request;
    let mut stored = [0; 8];
    stored[4..].copy_from_slice(&request.ttl_s.to_be_bytes());
    match request.kind {
        Kind::Get | Kind::Gets => message(out, GET, opaque, 0, &[], key, &[]),
        Kind::Mget => {
            for key in request.keys.into_iter().flat_map(|keys| keys.iter()) {
                message(out, GETQ, opaque, 0, &[], key, &[]);
            }
            message(out, NOOP, opaque, 0, &[], &[], &[]);
        }
        Kind::Set => message(out, SET, opaque, 0, &stored, key, value),
        Kind::Cas => message(out, SET, opaque, request.number, &stored, key, value),
        Kind::Add => message(out, ADD, opaque, 0, &stored, key, value),
        Kind::Replace => message(out, REPLACE, opaque, 0, &stored, key, value),
        Kind::Append => message(out, APPEND, opaque, 0, &[], key, value),
        Kind::Prepend => message(out, PREPEND, opaque, 0, &[], key, value),
        Kind::Delete => message(out, DELETE, opaque, 0, &[], key, &[]),
        Kind::Incr | Kind::Decr => {
            let mut extras = [0; 20];
            extras[..8].copy_from_slice(&request.number.to_be_bytes());
            extras[16..].copy_from_slice(&NO_INITIAL.to_be_bytes());
            let opcode = if request.kind == Kind::Incr { INCREMENT } else { DECREMENT };
            message(out, opcode, opaque, 0, &extras, key, &[]);
        }
        Kind::Touch => message(out, TOUCH, opaque, 0, &stored[4..], key, &[]),
        Kind::Flush => message(out, FLUSH, opaque, 0, &[], &[], &[]),
    }
}

fn message(
    out: &mut Vec<u8>,
    opcode: u8,
    opaque: u32,
    token: u64,
    extras: &[u8],
    key: &[u8],
    value: &[u8],
) {
    debug_assert!(key.len() <= usize::from(u16::MAX), "plans refuse longer keys");
    let body_bytes = extras.len() + key.len() + value.len();
    let mut header = [0; HEADER_BYTES];
    header[0] = REQUEST;
    header[1] = opcode;
    header[2..4].copy_from_slice(&(key.len() as u16).to_be_bytes());
    header[4] = extras.len() as u8;
    header[8..12].copy_from_slice(&(body_bytes as u32).to_be_bytes());
    header[12..16].copy_from_slice(&opaque.to_be_bytes());
    header[16..].copy_from_slice(&token.to_be_bytes());
    out.reserve(HEADER_BYTES + body_bytes);
    out.extend_from_slice(&header);
    out.extend_from_slice(extras);
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}
