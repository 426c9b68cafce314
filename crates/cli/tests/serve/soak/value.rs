//! Values that say what they are.
//!
//! ```text
//!   KEY ' ' VERSION ' ' CHECKSUM ' ' FILLER
//! ```
//!
//! The checksum covers the key, the version and the filler. The filler follows from the key and the
//! version, so a client that knows both knows every byte. Any client can check a value that it did
//! not write.

use keyrack_testkit::random::Draw;

/// Bytes of a filler, at most.
const FILLER_MAX: u64 = 128 << 10;

pub(super) fn key(owner: usize, slot: usize) -> String {
    format!("soak/{owner}/{slot}")
}

pub(super) fn value(key: &str, version: u64) -> Vec<u8> {
    let mut draw = Draw::new(checksum(key, version, b""));
    let limit = match draw.below(512) {
        0 => FILLER_MAX,
        1..16 => 8 << 10,
        _ => 200,
    };
    let length = draw.below(limit) as usize;
    let mut filler = Vec::with_capacity(length + 8);
    while filler.len() < length {
        filler.extend_from_slice(&draw.below(u64::MAX).to_le_bytes());
    }
    filler.truncate(length);
    let sum = checksum(key, version, &filler);
    let mut bytes = format!("{key} {version} {sum:016x} ").into_bytes();
    bytes.append(&mut filler);
    bytes
}

/// The version of a value that was found under `key`.
///
/// # Errors
///
/// What is wrong with it.
pub(super) fn version(key: &str, bytes: &[u8]) -> Result<u64, String> {
    let wrong = |what: &str| {
        let head = &bytes[..bytes.len().min(100)];
        format!("{key}: {what}: {} bytes, \"{}\"", bytes.len(), head.escape_ascii())
    };
    let mut parts = bytes.splitn(4, |byte| *byte == b' ');
    let mut part = || parts.next().ok_or_else(|| wrong("the value is cut"));
    let (name, version, sum, filler) = (part()?, part()?, part()?, part()?);
    if name != key.as_bytes() {
        return Err(wrong("the value of another key"));
    }
    let version = std::str::from_utf8(version).ok().and_then(|text| text.parse().ok());
    let version = version.ok_or_else(|| wrong("no version"))?;
    if sum != format!("{:016x}", checksum(key, version, filler)).as_bytes() {
        return Err(wrong("the checksum is of other bytes"));
    }
    Ok(version)
}

/// FNV-1a of 64 bits, eight bytes at once.
fn checksum(key: &str, version: u64, filler: &[u8]) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |word: u64| sum = (sum ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    add(version);
    for bytes in [key.as_bytes(), filler] {
        add(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            add(u64::from_le_bytes(word));
        }
    }
    sum
}

#[test]
fn a_value_of_another_key_and_a_changed_one_are_found_out() {
    for at in 0..300 {
        let bytes = value("soak/1/2", at);
        assert_eq!(version("soak/1/2", &bytes), Ok(at));
        assert!(version("soak/1/3", &bytes).is_err());
        let mut flipped = bytes.clone();
        let last = flipped.len() - 1;
        flipped[last] ^= 1;
        assert!(version("soak/1/2", &flipped).is_err());
        assert!(version("soak/1/2", &bytes[..last]).is_err() || bytes[last] == b' ');
    }
}
