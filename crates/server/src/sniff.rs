//! Which protocol a connection of a mixed listener speaks, told from its first bytes.
//!
//! | first byte | |
//! |---|---|
//! | 0x80 | memcached, binary |
//! | `*` | Redis |
//! | 0x90 to 0x9f, 0xdc, 0xdd | an array of msgpack: Masstree |
//! | another | a line: memcached's, if it begins with one of its commands; else Redis' |
//!
//! The words that both have (`get`, `set`, `touch` ...) are taken for memcached's when they are
//! written small: clients of Redis send arrays.

use crate::Protocol;

/// Bytes within which a line's first word ends.
const WORD_BYTES_MAX: usize = 16;

/// The commands of memcached.
const WORDS: &[&[u8]] = &[
    b"get",
    b"gets",
    b"gat",
    b"gats",
    b"set",
    b"add",
    b"replace",
    b"append",
    b"prepend",
    b"cas",
    b"delete",
    b"incr",
    b"decr",
    b"touch",
    b"flush_all",
    b"version",
    b"verbosity",
    b"stats",
    b"lru_crawler",
    b"quit",
    b"mg",
    b"ms",
    b"md",
    b"ma",
    b"me",
    b"mn",
    b"cache_memlimit",
    b"shutdown",
];

/// The protocol of these bytes; nothing while there are too few to tell.
pub(crate) fn protocol(first: &[u8]) -> Option<Protocol> {
    match first.first()? {
        0x80 => return Some(Protocol::Memcached),
        b'*' => return Some(Protocol::Resp),
        0x90..=0x9f | 0xdc | 0xdd => return Some(Protocol::Masstree),
        _ => {}
    }
    let end = first.iter().position(|byte| matches!(byte, b' ' | b'\r' | b'\n'));
    match end {
        Some(end) if WORDS.contains(&&first[..end]) => Some(Protocol::Memcached),
        Some(_) => Some(Protocol::Resp),
        None if first.len() < WORD_BYTES_MAX => None,
        None => Some(Protocol::Resp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_tells() {
        for (bytes, wanted) in [
            (&b""[..], None),
            (b"\x80", Some(Protocol::Memcached)),
            (b"*1\r\n", Some(Protocol::Resp)),
            (b"\x93\x00\x0e", Some(Protocol::Masstree)),
            (b"ge", None),
            (b"get a\r\n", Some(Protocol::Memcached)),
            (b"mn\r\n", Some(Protocol::Memcached)),
            (b"GET a\r\n", Some(Protocol::Resp)),
            (b"PING\r\n", Some(Protocol::Resp)),
            (b"GET / HTTP/1.1\r\n", Some(Protocol::Resp)),
            (b"aaaaaaaaaaaaaaaa", Some(Protocol::Resp)),
        ] {
            assert_eq!(protocol(bytes), wanted, "{:?}", bytes.escape_ascii().to_string());
        }
    }
}
