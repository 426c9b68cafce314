//! A secret that both sides know, proved without being sent.
//!
//! ```text
//!   agent  --> nonce A
//!   master --> nonce M, HMAC-SHA-256(token, "master" A M)
//!   agent  --> HMAC-SHA-256(token, "agent" M A)
//! ```
//!
//! Each side answers to bytes that the other has just drawn, so an answer that was overheard is of
//! no use. The words differ, so an answer cannot be sent back. The proof says who is there when
//! the connection begins, not that nobody changes the messages after it.

use std::io;
use std::path::Path;

use keyrack_vfs::{Fs, OpenOptions, RealFs};
use sha2::{Digest, Sha256};

/// Bytes of a block of the hash, and of its result.
const BLOCK_BYTES: usize = 64;
const HASH_BYTES: usize = 32;
const NONCE_BYTES: usize = 16;

/// Who proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Master,
    Agent,
}

/// Bytes that nobody can foresee, in hexadecimal.
pub(super) fn nonce() -> io::Result<String> {
    let file = RealFs
        .open(Path::new("/dev/urandom"), &OpenOptions::new().read(true))
        .map_err(io::Error::other)?;
    let mut bytes = [0; NONCE_BYTES];
    let read = file.read_at(0, &mut bytes).map_err(io::Error::other)?;
    if read != NONCE_BYTES {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(hex(&bytes))
}

/// The proof of `side`, which answers to the other side's nonce with one of its own.
pub(super) fn proof(token: &str, side: Side, theirs: &str, ours: &str) -> String {
    let word = match side {
        Side::Master => "master",
        Side::Agent => "agent",
    };
    // Lengths stand in front, so that no two lists of parts make the same text.
    let text = format!("{word} {} {theirs} {} {ours}", theirs.len(), ours.len());
    hex(&hmac(token.as_bytes(), text.as_bytes()))
}

/// Whether two proofs are equal, in a time that does not tell where they differ.
pub(super) fn is_equal(one: &str, other: &str) -> bool {
    one.len() == other.len()
        && one.bytes().zip(other.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

fn hmac(key: &[u8], text: &[u8]) -> [u8; HASH_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    if key.len() > BLOCK_BYTES {
        block[..HASH_BYTES].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let padded = |byte: u8| block.map(|b| b ^ byte);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_that_of_the_standard() {
        // RFC 4231, cases 2 and 6.
        let short = hmac(b"Jefe", b"what do ya want for nothing?");
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex(&short), expected);
        let long = hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First");
        let expected = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
        assert_eq!(hex(&long), expected);
    }

    #[test]
    fn proofs_differ_by_side_nonce_and_token() {
        let ours = proof("t", Side::Master, "aa", "bb");
        for other in [
            proof("u", Side::Master, "aa", "bb"),
            proof("t", Side::Agent, "aa", "bb"),
            proof("t", Side::Master, "bb", "aa"),
            proof("t", Side::Master, "aab", "b"),
        ] {
            assert!(!is_equal(&ours, &other));
        }
        assert!(is_equal(&ours, &proof("t", Side::Master, "aa", "bb")));
        assert_ne!(nonce().unwrap(), nonce().unwrap());
    }
}
