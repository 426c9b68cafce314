//! Patterns as KEYS and SCAN have them: `*`, `?`, `[a-z]`, `[^a]`, `\` before a byte that means
//! itself.
//!
//! Matching is a loop, not a recursion. When what follows a star does not match, the star takes one
//! byte more; only the last star is ever taken up again, because an earlier one could not do
//! better. So a pattern of `p` bytes looks at `n` bytes in at most `p * n` steps. A client chooses
//! both, so the steps of all texts are counted too: a [`Glob`] that has used up its steps says so,
//! and its command goes on in another iteration with new ones, or gives up if a single text takes
//! more.

use std::cell::Cell;

/// Steps that a pattern may take in one slice of a command: enough for any honest pattern, and a
/// few milliseconds.
pub(crate) const STEPS_MAX: u32 = 1 << 20;

/// A pattern, and the steps that are left.
#[derive(Clone, Debug)]
pub(crate) struct Glob<'a> {
    pattern: &'a [u8],
    steps_left: Cell<u32>,
}

/// Whether a text matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    Yes,
    No,
    /// The steps are used up.
    TooLong,
}

impl<'a> Glob<'a> {
    pub(crate) fn new(pattern: &'a [u8]) -> Self {
        Glob { pattern, steps_left: Cell::new(STEPS_MAX) }
    }

    /// Whether every text matches.
    pub(crate) fn is_any(&self) -> bool {
        !self.pattern.is_empty() && self.pattern.iter().all(|&byte| byte == b'*')
    }

    /// The bytes with which every text that matches begins.
    pub(crate) fn prefix(&self) -> &'a [u8] {
        let special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
        let end = self.pattern.iter().position(special).unwrap_or(self.pattern.len());
        &self.pattern[..end]
    }

    /// Whether `text` matches.
    pub(crate) fn matches(&self, text: &[u8]) -> Match {
        let pattern = self.pattern;
        let (mut p, mut t) = (0, 0);
        // Behind the last star, and the text from which what follows it was tried last.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            let Some(left) = self.steps_left.get().checked_sub(1) else {
                return Match::TooLong;
            };
            self.steps_left.set(left);
            if pattern.get(p) == Some(&b'*') {
                while pattern.get(p) == Some(&b'*') {
                    p += 1;
                }
                if p == pattern.len() {
                    return Match::Yes;
                }
                retry = Some((p, t));
                continue;
            }
            let step = match text.get(t) {
                None if p == pattern.len() => return Match::Yes,
                None => return Match::No,
                Some(&byte) => one(&pattern[p..], byte),
            };
            if let Some(taken) = step {
                p += taken;
                t += 1;
                continue;
            }
            let Some((behind, from)) = retry else { return Match::No };
            retry = Some((behind, from + 1));
            (p, t) = (behind, from + 1);
        }
    }
}

/// The bytes of `pattern` that stand for `byte`, or nothing when they do not.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern.first()? {
        b'?' => Some(1),
        b'\\' if pattern.len() > 1 => (pattern[1] == byte).then_some(2),
        b'[' => class(pattern, byte),
        literal => (literal == byte).then_some(1),
    }
}

/// A class from its bracket on. One that is not closed ends with the pattern, as in Redis.
fn class(pattern: &[u8], byte: u8) -> Option<usize> {
    let negated = pattern.get(1) == Some(&b'^');
    let mut at = if negated { 2 } else { 1 };
    let mut found = false;
    loop {
        match pattern.get(at) {
            None => break,
            Some(b']') => {
                at += 1;
                break;
            }
            Some(b'\\') if at + 1 < pattern.len() => {
                found |= pattern[at + 1] == byte;
                at += 2;
            }
            Some(&low) if pattern.get(at + 1) == Some(&b'-') && at + 2 < pattern.len() => {
                let high = pattern[at + 2];
                found |= (low.min(high)..=low.max(high)).contains(&byte);
                at += 3;
            }
            Some(&literal) => {
                found |= literal == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(pattern: &str, text: &str) -> bool {
        Glob::new(pattern.as_bytes()).matches(text.as_bytes()) == Match::Yes
    }

    #[test]
    fn patterns_mean_what_they_mean_in_redis() {
        for (pattern, yes, no) in [
            ("*", "", "-"),
            ("h?llo", "hello", "hllo"),
            ("h*llo", "heeeello", "hell"),
            ("h[ae]llo", "hallo", "hillo"),
            ("h[^e]llo", "hallo", "hello"),
            ("h[a-b]llo", "hbllo", "hcllo"),
            ("h[b-a]llo", "hallo", "hcllo"),
            ("a\\*b", "a*b", "axb"),
            ("a[\\]]b", "a]b", "ab"),
            ("*a*b*c", "xxaxbxcxc", "xxaxcxb"),
            ("[a-", "-", "b"),
            ("", "", "a"),
            ("a\\", "a\\", "a"),
        ] {
            assert!(is(pattern, yes), "{pattern} {yes}");
            assert!(no == "-" && pattern == "*" || !is(pattern, no), "{pattern} {no}");
        }
    }

    #[test]
    fn many_stars_cost_no_more_than_the_product() {
        let pattern = "a*".repeat(50) + "b";
        assert!(!is(&pattern, &"a".repeat(10_000)));
        let glob = Glob { pattern: b"*aaaaaaaaaaaaaaaab", steps_left: Cell::new(100) };
        assert_eq!(glob.matches(&[b'a'; 200]), Match::TooLong);
    }

    #[test]
    fn a_prefix_is_what_stands_before_the_first_special_byte() {
        assert_eq!(Glob::new(b"user:*").prefix(), b"user:");
        assert_eq!(Glob::new(b"[ab]").prefix(), b"");
        assert_eq!(Glob::new(b"abc").prefix(), b"abc");
        assert!(Glob::new(b"**").is_any() && !Glob::new(b"").is_any());
    }
}
