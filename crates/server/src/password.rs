//! The password of the server, compared in a time that tells nothing about it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// A password, or that there is none. Clones are the same one: all protocols of a server ask for
/// it, and see it change.
#[derive(Clone, Default)]
pub struct Password {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    bytes: RwLock<Vec<u8>>,
    /// Whether there are any, for connections that open.
    is_set: AtomicBool,
}

impl Password {
    /// This one; none when it is empty.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        let password = Password::default();
        password.set(bytes);
        password
    }

    /// Whether there is one.
    #[must_use]
    pub fn is_set(&self) -> bool {
        // Relaxed: a client that connects during the change is asked for the old or the new one.
        self.shared.is_set.load(Ordering::Relaxed)
    }

    /// Changes the password; an empty one means none. A connection that gave the old one stays.
    pub fn set(&self, bytes: &[u8]) {
        let mut held = self.shared.bytes.write().unwrap_or_else(PoisonError::into_inner);
        *held = bytes.to_vec();
        self.shared.is_set.store(!bytes.is_empty(), Ordering::Relaxed);
    }

    /// Whether `guess` is it. Takes a time that depends on the guess alone. Without a password,
    /// nothing is.
    #[must_use]
    pub fn is(&self, guess: &[u8]) -> bool {
        let held = self.shared.bytes.read().unwrap_or_else(PoisonError::into_inner);
        let mut differs = u8::from(held.len() != guess.len() || held.is_empty());
        for (index, byte) in guess.iter().enumerate() {
            let own = held.get(index % held.len().max(1)).copied().unwrap_or(0);
            differs |= std::hint::black_box(byte ^ own);
        }
        std::hint::black_box(differs) == 0
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
