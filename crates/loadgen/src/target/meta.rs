//! Memcached's meta commands.

use keyrack_wire::outcome::Kind;
use keyrack_wire::write_u64;

use super::request::Request;

pub(super) fn encode(out: &mut Vec<u8>, request: &Request<'_>) {
    match request.kind {
        Kind::Get => command(out, b"mg ", request.key, b" v\r\n"),
        Kind::Gets => command(out, b"mg ", request.key, b" v c\r\n"),
        Kind::Mget => {
            for key in request.keys.into_iter().flat_map(|keys| keys.iter()) {
                command(out, b"mg ", key, b" v q\r\n");
            }
            out.extend_from_slice(b"mn\r\n");
        }
        Kind::Set => store(out, request, b""),
        Kind::Add => store(out, request, b" ME"),
        Kind::Replace => store(out, request, b" MR"),
        Kind::Append => store(out, request, b" MA"),
        Kind::Prepend => store(out, request, b" MP"),
        Kind::Cas => store(out, request, b" C"),
        Kind::Delete => command(out, b"md ", request.key, b"\r\n"),
        Kind::Incr => with_number(out, b"ma ", request.key, b" MI D", request.number),
        Kind::Decr => with_number(out, b"ma ", request.key, b" MD D", request.number),
        Kind::Touch => with_number(out, b"mg ", request.key, b" T", u64::from(request.ttl_s)),
        Kind::Flush => out.extend_from_slice(b"flush_all\r\n"),
    }
}

fn command(out: &mut Vec<u8>, name: &[u8], key: &[u8], tail: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(key);
    out.extend_from_slice(tail);
}

fn with_number(out: &mut Vec<u8>, name: &[u8], key: &[u8], flag: &[u8], number: u64) {
    command(out, name, key, flag);
    write_u64(out, number);
    out.extend_from_slice(b"\r\n");
}

fn store(out: &mut Vec<u8>, request: &Request<'_>, mode: &[u8]) {
    command(out, b"ms ", request.key, b" ");
    write_u64(out, request.value.len() as u64);
    out.extend_from_slice(mode);
    if request.kind == Kind::Cas {
        write_u64(out, request.number);
    }
    if request.ttl_s > 0 {
        out.extend_from_slice(b" T");
        write_u64(out, u64::from(request.ttl_s));
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(request.value);
    out.extend_from_slice(b"\r\n");
}
