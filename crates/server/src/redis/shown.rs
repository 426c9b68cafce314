//! A request as others may see it: in SLOWLOG, MONITOR and the log. Passwords are not shown.
//!
//! | request | hidden |
//! |---|---|
//! | `AUTH ...` | all arguments |
//! | `HELLO ... AUTH user password ...` | all arguments from AUTH on |
//! | `CONFIG SET ... requirepass password ...` | the argument after `requirepass` |

use keyrack_wire::resp::Request;

/// What stands for an argument that is hidden.
pub(crate) const REDACTED: &[u8] = b"(redacted)";

/// A request without its passwords.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'p, 'i> {
    request: Request<'p, 'i>,
    hides: Hides,
}

#[derive(Clone, Copy)]
enum Hides {
    Nothing,
    /// Arguments from this one on.
    From(usize),
    /// The one after each `requirepass`, which is a name at an even place.
    AfterRequirepass,
}

impl<'p, 'i: 'p> Shown<'p, 'i> {
    pub(crate) fn new(request: Request<'p, 'i>) -> Self {
        let is = |index: usize, word: &str| {
            request.get(index).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
        };
        let hides = match () {
            () if is(0, "auth") => Hides::From(1),
            () if is(0, "hello") => {
                let auth = (1..request.len()).find(|index| is(*index, "auth"));
                auth.map_or(Hides::Nothing, |index| Hides::From(index + 1))
            }
            () if is(0, "config") && is(1, "set") => Hides::AfterRequirepass,
            () => Hides::Nothing,
        };
        Shown { request, hides }
    }

    pub(crate) fn len(self) -> usize {
        self.request.len()
    }

    pub(crate) fn arg(self, index: usize) -> &'p [u8] {
        let is_hidden = match self.hides {
            Hides::Nothing => false,
            Hides::From(first) => index >= first,
            Hides::AfterRequirepass => {
                index >= 3 && self.request.arg(index - 1).eq_ignore_ascii_case(b"requirepass")
            }
        };
        if is_hidden { REDACTED } else { self.request.arg(index) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_wire::resp::{Limits, RequestParser};

    fn shown(line: &str) -> String {
        let bytes = format!("{line}\r\n");
        let mut parser = RequestParser::new();
        let mut rest = bytes.as_bytes();
        let request = parser.next(&mut rest, &Limits::default()).unwrap().unwrap();
        let shown = Shown::new(request);
        let words = (0..shown.len()).map(|index| String::from_utf8_lossy(shown.arg(index)));
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn passwords_are_hidden_wherever_they_may_stand() {
        assert_eq!(shown("AUTH secret"), "AUTH (redacted)");
        assert_eq!(shown("auth ann secret more"), "auth (redacted) (redacted) (redacted)");
        assert_eq!(
            shown("HELLO 3 auth ann secret setname x"),
            "HELLO 3 auth (redacted) (redacted) (redacted) (redacted)"
        );
        assert_eq!(
            shown("config SET a 1 RequirePass secret b 2"),
            "config SET a 1 RequirePass (redacted) b 2"
        );
        assert_eq!(shown("SET auth secret"), "SET auth secret");
        assert_eq!(shown("CONFIG GET requirepass"), "CONFIG GET requirepass");
    }
}
