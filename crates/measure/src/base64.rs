//! Decoding of standard base64 (RFC 4648, section 4): the alphabet `A-Z a-z 0-9 + /`, padded with
//! `=` to a multiple of four characters.
//!
//! ```text
//! 4 characters of 6 bits  ->  24 bits  ->  3 bytes, or 2 ("xxx="), or 1 ("xx==")
//! ```
//!
//! Strict: no white space inside, padding only at the end, unused bits zero. Encoding is done by
//! the histogram log writer, so only this direction is needed.

use crate::Error;

const PAD: u8 = b'=';

/// Decodes `text` into bytes. O(length).
///
/// # Errors
/// [`Error::Base64`] with the offset of the first character that does not fit.
pub(crate) fn decode(text: &str) -> Result<Vec<u8>, Error> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return Err(Error::Base64 { offset: text.len() });
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for start in (0..text.len()).step_by(4) {
        let group = &text[start..start + 4];
        let last = start + 4 == text.len();
        let padding = if last { group.iter().rev().take_while(|&&c| c == PAD).count() } else { 0 };
        if padding > 2 {
            return Err(Error::Base64 { offset: start + 4 - padding });
        }
        let digits = 4 - padding;
        let mut bits = 0u32;
        for (index, &character) in group[..digits].iter().enumerate() {
            let six = sextet(character).ok_or(Error::Base64 { offset: start + index })?;
            bits |= u32::from(six) << (18 - 6 * index);
        }
        let [_, first, second, third] = bits.to_be_bytes();
        let group_bytes = [first, second, third];
        let (kept, unused) = group_bytes.split_at(digits - 1);
        if unused.iter().any(|&byte| byte != 0) {
            return Err(Error::Base64 { offset: start + digits - 1 });
        }
        bytes.extend_from_slice(kept);
    }
    Ok(bytes)
}

/// The value of one character of the alphabet.
fn sextet(character: u8) -> Option<u8> {
    match character {
        b'A'..=b'Z' => Some(character - b'A'),
        b'a'..=b'z' => Some(character - b'a' + 26),
        b'0'..=b'9' => Some(character - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_the_vectors_of_rfc_4648() {
        let vectors = [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmE=", "fooba"),
            ("Zm9vYmFy", "foobar"),
        ];
        for (text, bytes) in vectors {
            assert_eq!(decode(text).unwrap(), bytes.as_bytes(), "{text}");
        }
        assert_eq!(decode("+/+/").unwrap(), [0xfb, 0xff, 0xbf]);
    }

    #[test]
    fn refuses_what_is_not_canonical() {
        let cases = [
            ("Zg", 2),       // length
            ("Zm9vYg=", 7),  // length
            ("Z===", 1),     // one digit cannot make a byte
            ("====", 0),     // nothing but padding
            ("Zg==Zm9v", 2), // padding before the end
            ("Zm 9", 2),     // white space
            ("Zm-v", 2),     // the other alphabet
            ("Zh==", 1),     // unused bits set
            ("Zm9=", 2),     // unused bits set
        ];
        for (text, offset) in cases {
            assert_eq!(decode(text), Err(Error::Base64 { offset }), "{text}");
        }
    }
}
