//! A record as bytes, and back.
//!
//! ```text
//!   head    verb + 16 * result
//!   time    zigzag varint: nanoseconds since the record before it, or first_ns
//!   space   varint
//!   count   varint: keys of batches and ranges, else there is one and this is left out
//!   keys    each: shared varint, rest varint, rest bytes, and `write` where the verb writes
//!   write   varint: 0 nothing, 1 remove, n + 2 a value of n bytes
//!   found   varint: bytes of values; lookups only
//!   limit   varint, rows varint; ranges only
//! ```
//!
//! `shared` counts the first bytes that a key has in common with the key before it in the block.
//! Times may go back: a call within the visit of a range ends before the range does.
//! Varints are little-endian groups of seven bits, the highest bit says that more follow.

use crate::record::{Entry, Record, Result, Verb, Write};

/// Keys of one record at most.
pub(crate) const ENTRIES_MAX: u64 = 1 << 24;

/// What the next record is relative to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    pub(crate) at_ns: u64,
    pub(crate) key: Vec<u8>,
}

impl Context {
    /// As at the start of a block.
    pub(crate) fn reset(&mut self, first_ns: u64) {
        self.at_ns = first_ns;
        self.key.clear();
    }
}

/// What of a record is not its keys.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Head {
    pub(crate) at_ns: u64,
    pub(crate) verb: Verb,
    pub(crate) result: Result,
    pub(crate) space: u32,
    pub(crate) value_bytes: u64,
    pub(crate) limit: u64,
    pub(crate) rows: u64,
}

/// Appends a record to `out`. `entries` gives `count` keys.
pub(crate) fn encode<'k>(
    out: &mut Vec<u8>,
    context: &mut Context,
    head: &Head,
    count: usize,
    entries: impl Iterator<Item = Entry<'k>>,
) {
    out.push(head.verb as u8 | (head.result as u8) << 4);
    let delta = head.at_ns.wrapping_sub(context.at_ns).cast_signed();
    put_varint(out, ((delta << 1) ^ (delta >> 63)).cast_unsigned());
    context.at_ns = head.at_ns;
    put_varint(out, u64::from(head.space));
    if head.verb.is_batch() || head.verb.is_range() {
        put_varint(out, count as u64);
    }
    for Entry { key, write } in entries {
        let shared = context.key.iter().zip(key).take_while(|(a, b)| a == b).count();
        put_varint(out, shared as u64);
        put_varint(out, (key.len() - shared) as u64);
        out.extend_from_slice(&key[shared..]);
        context.key.truncate(shared);
        context.key.extend_from_slice(&key[shared..]);
        if head.verb.writes() {
            put_varint(
                out,
                match write {
                    Write::Nothing => 0,
                    Write::Remove => 1,
                    Write::Put(bytes) => u64::from(bytes) + 2,
                },
            );
        }
    }
    if matches!(head.verb, Verb::Get | Verb::Mget) {
        put_varint(out, head.value_bytes);
    }
    if head.verb.is_range() {
        put_varint(out, head.limit);
        put_varint(out, head.rows);
    }
}

/// Reads one record off the front of `bytes`; `None` where they are no record.
pub(crate) fn decode(bytes: &mut &[u8], context: &mut Context, record: &mut Record) -> Option<()> {
    let (&head, rest) = bytes.split_first()?;
    *bytes = rest;
    let verb = *Verb::ALL.get(usize::from(head & 15))?;
    let result = *Result::ALL.get(usize::from(head >> 4))?;
    let zigzag = varint(bytes)?;
    let delta = (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed();
    context.at_ns = context.at_ns.wrapping_add_signed(delta);
    record.clear(verb, context.at_ns);
    record.result = result;
    record.space = u32::try_from(varint(bytes)?).ok()?;
    let count = if verb.is_batch() || verb.is_range() { varint(bytes)? } else { 1 };
    if count > ENTRIES_MAX || (verb.is_range() && !(1..=2).contains(&count)) {
        return None;
    }
    for _ in 0..count {
        let shared = usize::try_from(varint(bytes)?).ok()?;
        let rest = usize::try_from(varint(bytes)?).ok()?;
        let rest = bytes.split_off(..rest)?;
        if shared > context.key.len() {
            return None;
        }
        let write = if verb.writes() {
            match varint(bytes)? {
                0 => Write::Nothing,
                1 => Write::Remove,
                more => Write::Put(u32::try_from(more - 2).ok()?),
            }
        } else if verb == Verb::Del {
            Write::Remove
        } else {
            Write::Nothing
        };
        record.push_parts(&context.key[..shared], rest, write);
        context.key.truncate(shared);
        context.key.extend_from_slice(rest);
    }
    if matches!(verb, Verb::Get | Verb::Mget) {
        record.value_bytes = varint(bytes)?;
    }
    if verb.is_range() {
        (record.limit, record.rows) = (varint(bytes)?, varint(bytes)?);
    }
    Some(())
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A varint off the front; `None` where it is cut or has more than 64 bits.
pub(crate) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            return None;
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_come_back_and_longer_ones_are_refused() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(varint(&mut &out[..]), Some(value));
            assert_eq!(varint(&mut &out[..out.len() - 1]), None);
        }
        assert_eq!(varint(&mut &[0xff; 11][..]), None);
        assert_eq!(
            varint(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2][..]),
            None
        );
    }

    #[test]
    fn a_record_that_is_cut_anywhere_is_none() {
        let head = Head { at_ns: 12, verb: Verb::Range, limit: 100, rows: 7, ..Head::default() };
        let keys = [b"k:0001", b"k:0002"].map(|key| Entry { key, write: Write::Nothing });
        let (mut out, mut context) = (Vec::new(), Context::default());
        encode(&mut out, &mut context, &head, 2, keys.into_iter());
        let mut record = Record::default();
        for cut in 0..out.len() {
            let mut context = Context::default();
            assert_eq!(decode(&mut &out[..cut], &mut context, &mut record), None, "{cut}");
        }
        let mut rest = &out[..];
        assert_eq!(decode(&mut rest, &mut Context::default(), &mut record), Some(()));
        assert!(rest.is_empty());
        assert_eq!((record.len(), record.limit, record.rows), (2, 100, 7));
        assert_eq!(record.entry(1).map(|entry| entry.key), Some(&b"k:0002"[..]));
    }
}
