//! The key of a value that is refused because it is too large: the value that is there is older
//! than what the client wanted, and memcached removes it rather than let it be read.

use super::binary::header::{Header, REQUEST};
use super::binary::{HEADER_BYTES, Opcode};
use super::limits::KEY_BYTES_MAX;
use super::meta::{self, SetMode, Verb};
use super::text::line::{Words, is_key};

/// The key of the `set` at the front of `buffer`, of any of the three protocols, whose refusal was
/// for the size of its value; `None` when it is another command, which removes nothing. The key of
/// a meta command may be base64, which is decoded into `room`.
///
/// ```
/// use keyrack_wire::memcached::oversized_key;
///
/// let room = &mut [0; 250];
/// assert_eq!(oversized_key(b"set k 0 0 9999999\r\n", room), Some(&b"k"[..]));
/// assert_eq!(oversized_key(b"add k 0 0 9999999\r\n", room), None);
/// ```
#[must_use]
pub fn oversized_key<'a>(buffer: &'a [u8], room: &'a mut [u8; KEY_BYTES_MAX]) -> Option<&'a [u8]> {
    if buffer.first() == Some(&REQUEST) {
        return of_binary(buffer);
    }
    let line = &buffer[..memchr::memchr(b'\n', buffer)?];
    let mut words = Words::new(line.strip_suffix(b"\r").unwrap_or(line));
    match words.next()? {
        b"set" => words.next().filter(|key| is_key(key)),
        b"ms" => {
            let (key, _bytes) = (words.next()?, words.next()?);
            let request = meta::Request::new(b's', key, words.rest(), b"").ok()?;
            let is_plain = request.verb == Verb::Set(SetMode::Set);
            is_plain.then(|| request.key.bytes(room))
        }
        _ => None,
    }
}

fn of_binary(buffer: &[u8]) -> Option<&[u8]> {
    let (header, rest) = buffer.split_first_chunk::<HEADER_BYTES>()?;
    let header = Header::read(header);
    let is_set = matches!(Opcode::of(header.opcode), Some(Opcode::Set | Opcode::Setq));
    let from = usize::from(header.extras_bytes);
    let key = rest.get(from..from + usize::from(header.key_bytes))?;
    (is_set && (1..=KEY_BYTES_MAX).contains(&key.len())).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memcached::binary::{Command, StoreMode};
    use crate::memcached::{Limits, Parsed, binary};

    #[test]
    fn only_a_plain_set_has_a_key_to_remove() {
        let key = |buffer: &[u8]| {
            let mut room = [0; KEY_BYTES_MAX];
            oversized_key(buffer, &mut room).map(<[u8]>::to_vec)
        };
        assert_eq!(key(b"set some 0 0 2000000 noreply\r\nxxx"), Some(b"some".to_vec()));
        assert_eq!(key(b"ms some 2000000 T0\r\n"), Some(b"some".to_vec()));
        assert_eq!(key(b"ms c29tZQ== 2000000 b MS\r\n"), Some(b"some".to_vec()));
        for other in [
            &b"set some 0 0 2000000"[..],
            b"set\r\n",
            b"",
            b"append some 0 0 2000000\r\n",
            b"cas some 0 0 2000000 1\r\n",
            b"ms some 2000000 MA\r\n",
            b"ms some\r\n",
        ] {
            assert_eq!(key(other), None, "{}", other.escape_ascii());
        }
    }

    #[test]
    fn a_binary_set_is_refused_when_its_key_is_there() {
        let value = vec![b'x'; 2000];
        let limits = Limits { value_bytes_max: 1000, ..Limits::DEFAULT };
        for mode in [StoreMode::Set, StoreMode::Add] {
            let command =
                Command::Store { mode, key: b"some", flags: 0, exptime: 0, value: &value };
            let mut bytes = Vec::new();
            binary::Request::new(command, false).write(&mut bytes);
            let named = HEADER_BYTES + 8 + 4;
            for end in HEADER_BYTES..named {
                assert_eq!(binary::parse(&bytes[..end], &limits), Ok(Parsed::Incomplete(named)));
            }
            assert!(binary::parse(&bytes[..named], &limits).is_err());
            let mut room = [0; KEY_BYTES_MAX];
            let key = oversized_key(&bytes[..named], &mut room);
            assert_eq!(key, (mode == StoreMode::Set).then_some(&b"some"[..]));
        }
    }
}
