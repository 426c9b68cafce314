//! Redis: commands as arrays of strings.

use keyrack_wire::outcome::Kind;
use keyrack_wire::resp::{CommandWriter, command};

use super::request::Request;

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
        Kind::Get | Kind::Gets => command(out, &[b"GET", key]),
        Kind::Mget => {
            let keys = request.keys.map_or(0, super::request::Keys::len);
            let mut writer = CommandWriter::new(out, 1 + keys);
            writer.arg(b"MGET");
            for key in request.keys.into_iter().flat_map(|keys| keys.iter()) {
                writer.arg(key);
            }
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
    let has_ttl = request.ttl_s > 0;
    let parts = 3 + 2 * usize::from(has_ttl) + usize::from(condition.is_some());
    let mut writer = CommandWriter::new(out, parts);
    writer.arg(b"SET").arg(request.key).arg(request.value);
    if has_ttl {
        writer.arg(b"EX").number(u64::from(request.ttl_s));
    }
    if let Some(condition) = condition {
        writer.arg(condition);
    }
}

fn with_number(out: &mut Vec<u8>, name: &[u8], key: &[u8], number: u64) {
    CommandWriter::new(out, 3).arg(name).arg(key).number(number);
}
