//! The password of the server, compared in a time that tells nothing about it.

/// A password, or that there is none.
#[derive(Clone, Default)]
pub struct Password {
    bytes: Vec<u8>,
}

impl Password {
    /// This one; none when it is empty.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Password { bytes: bytes.to_vec() }
    }

    /// Whether there is one.
    #[must_use]
    pub fn is_set(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Whether `guess` is it. Takes a time that depends on the guess alone. Without a password,
    /// nothing is.
    #[must_use]
    pub fn is(&self, guess: &[u8]) -> bool {
        let mut differs = u8::from(self.bytes.len() != guess.len() || self.bytes.is_empty());
        for (index, byte) in guess.iter().enumerate() {
            let own = self.bytes.get(index % self.bytes.len().max(1)).copied().unwrap_or(0);
            differs |= std::hint::black_box(byte ^ own);
        }
        std::hint::black_box(differs) == 0
    }

    /// The bytes, for whoever compares on its own.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Without the password: this may end up in a log.
impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_set() { "Password(set)" } else { "Password(none)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_else_is_the_password_and_it_is_never_printed() {
        let password = Password::new(b"secret");
        assert!(password.is_set() && password.is(b"secret"));
        for guess in [&b""[..], b"s", b"secres", b"secretsecret", b"secret\0"] {
            assert!(!password.is(guess), "{guess:?}");
        }
        assert!(!Password::default().is(b"") && !Password::default().is(b"x"));
        assert_eq!(format!("{password:?}"), "Password(set)");
    }
}
