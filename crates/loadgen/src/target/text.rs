//! Memcached's text commands.

use keyrack_wire::outcome::Kind;
use keyrack_wire::write_u64;

use super::request::Request;

pub(super) fn encode(out: &mut Vec<u8>, request: &Request<'_>) {
    match request.kind {
        Kind::Get => {
            out.extend_from_slice(b"get ");
            out.extend_from_slice(request.key);
            out.extend_from_slice(b"\r\n");
        }
        Kind::Gets => {
            out.extend_from_slice(b"gets ");
            out.extend_from_slice(request.key);
            out.extend_from_slice(b"\r\n");
        }
        Kind::Mget => {
            out.extend_from_slice(b"get");
            for key in request.keys.into_iter().flat_map(|keys| keys.iter()) {
                out.push(b' ');
                out.extend_from_slice(key);
            }
            out.extend_from_slice(b"\r\n");
        }
        Kind::Set => store(out, b"set ", request),
        Kind::Add => store(out, b"add ", request),
        Kind::Replace => store(out, b"replace ", request),
        Kind::Cas => store(out, b"cas ", request),
        Kind::Append => store(out, b"append ", request),
        Kind::Prepend => store(out, b"prepend ", request),
        Kind::Delete => {
            out.extend_from_slice(b"delete ");
            out.extend_from_slice(request.key);
            out.extend_from_slice(b"\r\n");
        }
        Kind::Incr => with_number(out, b"incr ", request.key, request.number),
        Kind::Decr => with_number(out, b"decr ", request.key, request.number),
        Kind::Touch => with_number(out, b"touch ", request.key, u64::from(request.ttl_s)),
        Kind::Flush => out.extend_from_slice(b"flush_all\r\n"),
    }
}

fn store(out: &mut Vec<u8>, name: &[u8], request: &Request<'_>) {
    out.extend_from_slice(name);
    out.extend_from_slice(request.key);
    if request.ttl_s == 0 {
        out.extend_from_slice(b" 0 0 ");
    } else {
        out.extend_from_slice(b" 0 ");
        write_u64(out, u64::from(request.ttl_s));
        out.push(b' ');
    }
    write_u64(out, request.value.len() as u64);
    if request.kind == Kind::Cas {
        out.push(b' ');
        write_u64(out, request.number);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(request.value);
    out.extend_from_slice(b"\r\n");
}

fn with_number(out: &mut Vec<u8>, name: &[u8], key: &[u8], number: u64) {
    out.extend_from_slice(name);
    out.extend_from_slice(key);
    out.push(b' ');
    write_u64(out, number);
    out.extend_from_slice(b"\r\n");
}
