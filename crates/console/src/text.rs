//! Bytes as text: two hexadecimal digits each, or printable characters with escapes.

use std::fmt::Write as _;

/// Two digits a byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        // Writing to a string does not fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// What pairs of digits say; `None` if they are something else.
#[must_use]
pub fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let digit = |byte: u8| char::from(byte).to_digit(16);
    pairs
        .map(|pair| match pair {
            [high, low] => Some((digit(*high)? << 4 | digit(*low)?) as u8),
            _ => None,
        })
        .collect()
}

/// As text: printable characters as they are, others as `\xNN`; so are tabs and line ends, and a
/// backslash is two.
#[must_use]
pub fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => out.push_str("\\\\"),
                _ if character.is_control() => {
                    let mut bytes = [0; 4];
                    for byte in character.encode_utf8(&mut bytes).bytes() {
                        let _ = write!(out, "\\x{byte:02x}");
                    }
                }
                _ => out.push(character),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_text() {
        assert_eq!(escaped("k\u{e9}y".as_bytes()), "k\u{e9}y");
        assert_eq!(escaped(b"a\tb\n\\\xff\0"), "a\\x09b\\x0a\\\\\\xff\\x00");
    }

    #[test]
    fn digits_come_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&hex(&bytes)), Some(bytes));
        assert_eq!(from_hex("AbcD"), Some(vec![0xab, 0xcd]));
        assert_eq!(from_hex(""), Some(vec![]));
        for bad in ["a", "abc", "0x", "g0", "é"] {
            assert_eq!(from_hex(bad), None, "{bad}");
        }
    }
}
