//! Strings that were compressed by LibLZF.
//!
//! ```text
//!   000nnnnn bytes             n + 1 literal bytes
//!   nnnooooo oooooooo          n + 2 bytes from o + 1 bytes before, n below 7
//!   111ooooo nnnnnnnn oooooooo n + 9 bytes from o + 1 bytes before
//! ```

use super::string::{STRING_BYTES_MAX, plain_length};
use crate::error::Result;
use crate::input::Input;

/// The number of this encoding of a string.
pub(super) const ENCODING: u8 = 3;

/// Bytes that one compressed byte stands for at most: three for 264.
const EXPANSION_MAX: u64 = 88;

/// Replaces `into` by the string: two lengths, then the compressed bytes.
pub(super) fn string(input: &mut Input<'_>, into: &mut Vec<u8>) -> Result<()> {
    let at = input.offset();
    let packed_bytes = plain_length(input)?;
    let bytes = plain_length(input)?;
    if bytes > STRING_BYTES_MAX || bytes > packed_bytes.saturating_mul(EXPANSION_MAX) {
        return Err(input.damage(at, format!("a compressed string of {bytes} bytes")));
    }
    let mut packed = Vec::new();
    input.bytes(packed_bytes, STRING_BYTES_MAX, &mut packed)?;
    into.clear();
    match expand(&packed, bytes, into) {
        Some(()) => Ok(()),
        None => Err(input.damage(at, "a compressed string that cannot be expanded")),
    }
}

/// Appends exactly `bytes` to `into`, which is empty.
fn expand(mut packed: &[u8], bytes: u64, into: &mut Vec<u8>) -> Option<()> {
    while let Some((&control, rest)) = packed.split_first() {
        if control < 32 {
            let (literal, rest) = rest.split_at_checked(usize::from(control) + 1)?;
            into.extend_from_slice(literal);
            packed = rest;
        } else {
            let mut rest = rest;
            let mut count = usize::from(control >> 5);
            if count == 7 {
                let (&more, behind) = rest.split_first()?;
                (count, rest) = (count + usize::from(more), behind);
            }
            let (&low, behind) = rest.split_first()?;
            let distance = (usize::from(control & 0x1f) << 8 | usize::from(low)) + 1;
            let start = into.len().checked_sub(distance)?;
            // The copy may overlap its own output.
            for at in start..start + count + 2 {
                into.push(into[at]);
            }
            packed = behind;
        }
        if into.len() as u64 > bytes {
            return None;
        }
    }
    (into.len() as u64 == bytes).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_may_overlap_and_lengths_are_exact() {
        let expanded = |packed: &[u8], bytes| {
            let mut into = Vec::new();
            expand(packed, bytes, &mut into).map(|()| into)
        };
        // One literal, then eleven copies of it, then a long copy.
        let packed = [0, b'a', 0xe0, 2, 0, 0xe0, 0, 0];
        assert_eq!(expanded(&packed, 21), Some(vec![b'a'; 21]));
        assert_eq!(expanded(&packed, 20), None);
        assert_eq!(expanded(&packed, 22), None);
        assert_eq!(expanded(&packed[..4], 12), None);
        // A copy from before the beginning.
        assert_eq!(expanded(&[0, b'a', 0x20, 1], 4), None);
        assert_eq!(expanded(&[], 0), Some(Vec::new()));
    }
}
