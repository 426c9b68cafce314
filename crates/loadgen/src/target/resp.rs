//! Redis: commands as arrays of strings.

use keyrack_wire::outcome::Kind;

use super::request::{Request, decimal};

/// What lets a node of a cluster answer for a slot that is on its way to it, once.
pub(crate) const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";

pub(super) fn encode(out: &mut Vec<u8>, request: &Request<'_>) {
    let Request { key, value, .. } = *request;
    if let Some(field_bytes) = request.assoc
        && key.len() > field_bytes + 1
    {
        let (name, field) = key.split_at(key.len() - field_bytes);
        match request.kind {
            Kind::Get | Kind::Gets => return command(out, &[b"HGET", name, field]),
            Kind::Set => return command(out, &[b"HSET", name, field, value]),
            Kind::Delete => return command(out, &[b"HDEL", name, field]),
            _ => {}
        }
    }
    match request.kind {
        Kind::Get | Kind::Gets => {
            out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
            bulk(out, key);
        }
        Kind::Mget => {
            let keys = request.keys.map_or(0, super::request::Keys::len);
            out.push(b'*');
            decimal(out, keys as u64 + 1);
            out.extend_from_slice(b"\r\n$4\r\nMGET\r\n");
            for key in request.keys.into_iter().flat_map(|keys| keys.iter()) {
                bulk(out, key);
            }
        }
        Kind::Set if request.ttl_s == 0 => {
            out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
            bulk(out, key);
            bulk(out, value);
        }
        Kind::Set => set(out, request, None),
        Kind::Add => set(out, request, Some(b"NX")),
        Kind::Replace | Kind::Cas => set(out, request, Some(b"XX")),
        Kind::Append | Kind::Prepend => command(out, &[b"APPEND", key, value]),
        Kind::Delete => command(out, &[b"DEL", key]),
        Kind::Incr => with_number(out, b"INCRBY", key, request.number),
        Kind::Decr => with_number(out, b"DECRBY", key, request.number),
        Kind::Touch => with_number(out, b"EXPIRE", key, u64::from(request.ttl_s)),
        Kind::Flush => command(out, &[b"FLUSHALL"]),
    }
}

fn set(out: &mut Vec<u8>, request: &Request<'_>, condition: Option<&[u8]>) {
    let ttl = keyrack_decimal::Decimal::new(u64::from(request.ttl_s));
    let with_ttl: &[&[u8]] = if request.ttl_s > 0 { &[b"EX", &ttl] } else { &[] };
    let parts = 3 + with_ttl.len() + usize::from(condition.is_some());
    out.push(b'*');
    decimal(out, parts as u64);
    out.extend_from_slice(b"\r\n$3\r\nSET\r\n");
    bulk(out, request.key);
    bulk(out, request.value);
    with_ttl.iter().for_each(|part| bulk(out, part));
    condition.iter().for_each(|part| bulk(out, part));
}

fn with_number(out: &mut Vec<u8>, name: &[u8], key: &[u8], number: u64) {
    command(out, &[name, key, &keyrack_decimal::Decimal::new(number)]);
}

/// Appends a command of these words.
pub(super) fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.push(b'*');
    decimal(out, words.len() as u64);
    out.extend_from_slice(b"\r\n");
    words.iter().for_each(|word| bulk(out, word));
}

#[inline]
fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'$');
    decimal(out, bytes.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}
