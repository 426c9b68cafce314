//! Base64 as RFC 4648 section 4 has it, padded, for keys that are not text.
//!
//! ```text
//!   three bytes   aaaaaabb bbbbcccc ccdddddd      four letters   a b c d
//! ```

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Stands in [`VALUES`] for bytes that are no letter.
const NONE: u8 = 0xFF;

/// The six bits of each letter.
const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut value = 0;
    while value < 64 {
        values[LETTERS[value as usize] as usize] = value;
        value += 1;
    }
    values
};

/// Decodes `text` into the front of `bytes`; returns how many there are. Nothing when `text` is not
/// the one text of some bytes, or when there are more than `bytes` has room for.
pub(super) fn decode(text: &[u8], bytes: &mut [u8]) -> Option<usize> {
    let (quads, rest) = text.as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    let mut count = 0;
    for (index, quad) in quads.iter().enumerate() {
        let padding = match quad {
            [_, _, b'=', b'='] => 2,
            [_, _, _, b'='] => 1,
            _ => 0,
        };
        if padding > 0 && index + 1 != quads.len() {
            return None;
        }
        let mut word = 0_u32;
        for &letter in &quad[..4 - padding] {
            let value = VALUES[usize::from(letter)];
            if value == NONE {
                return None;
            }
            word = word << 6 | u32::from(value);
        }
        word <<= 6 * padding;
        let [_, decoded @ ..] = word.to_be_bytes();
        let (whole, left) = decoded.split_at(3 - padding);
        // Bits that are cut away are 0: else two texts would be one key.
        if left.iter().any(|&byte| byte != 0) {
            return None;
        }
        bytes.get_mut(count..count + whole.len())?.copy_from_slice(whole);
        count += whole.len();
    }
    Some(count)
}

/// Appends the text of `bytes` to `out`.
pub(super) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        let letter = |shift: u32| LETTERS[(word >> shift & 63) as usize];
        let text = [letter(18), letter(12), letter(6), letter(0)];
        out.extend_from_slice(&text[..=group.len()]);
        out.extend(std::iter::repeat_n(b'=', 3 - group.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            let mut out = Vec::new();
            encode(bytes.as_bytes(), &mut out);
            assert_eq!(out, text.as_bytes());
            let mut back = [0; 8];
            let count = decode(text.as_bytes(), &mut back);
            assert_eq!(count.map(|count| &back[..count]), Some(bytes.as_bytes()));
        }
    }

    #[test]
    fn a_text_that_is_none_is_refused() {
        let mut room = [0; 64];
        for text in
            ["Z", "Zg", "Zg=", "Zg===", "====", "Z===", "Zg==Zg==", "Zm=v", "Zh==", "Zm9=", "!!!!"]
        {
            assert_eq!(decode(text.as_bytes(), &mut room), None, "{text}");
        }
        assert_eq!(decode(b"Zm9v", &mut room[..2]), None, "no room");
    }

    #[test]
    fn every_byte_comes_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        for length in [253, 254, 255, 256] {
            let mut text = Vec::new();
            encode(&bytes[..length], &mut text);
            let mut back = [0; 256];
            assert_eq!(decode(&text, &mut back), Some(length));
            assert_eq!(back[..length], bytes[..length]);
        }
    }
}
