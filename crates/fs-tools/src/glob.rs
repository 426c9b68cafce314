//! Patterns of names: `*` is any text, `?` one byte, `[a-z]` one of a class, `\` the next byte
//! itself.

/// Whether a name fits a pattern. Linear in both: a star that does not fit is tried one byte
/// further, and only the last one.
pub(crate) fn matches_glob(glob: &[u8], name: &[u8]) -> bool {
    let (mut g, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        let (fits, next) = match glob.get(g) {
            Some(b'*') => {
                retry = Some((g + 1, n));
                g += 1;
                continue;
            }
            Some(b'?') => (true, g + 1),
            Some(b'[') => class(&glob[g..], name[n])
                .map_or((name[n] == b'[', g + 1), |(fits, len)| (fits, g + len)),
            Some(b'\\') if g + 1 < glob.len() => (glob[g + 1] == name[n], g + 2),
            Some(byte) => (*byte == name[n], g + 1),
            None => (false, g),
        };
        if fits {
            (g, n) = (next, n + 1);
        } else if let Some((after_star, from)) = retry {
            retry = Some((after_star, from + 1));
            (g, n) = (after_star, from + 1);
        } else {
            return false;
        }
    }
    glob[g..].iter().all(|byte| *byte == b'*')
}

/// Whether a byte is in the class that `glob` begins with, and how long the class is. `None` if it
/// does not end.
fn class(glob: &[u8], byte: u8) -> Option<(bool, usize)> {
    let is_negated = matches!(glob.get(1), Some(b'!' | b'^'));
    let start = 1 + usize::from(is_negated);
    let mut at = start;
    let mut is_in = false;
    loop {
        let first = *glob.get(at)?;
        if first == b']' && at > start {
            return Some((is_in != is_negated, at + 1));
        }
        match (glob.get(at + 1), glob.get(at + 2)) {
            (Some(b'-'), Some(last)) if *last != b']' => {
                is_in |= (first..=*last).contains(&byte);
                at += 3;
            }
            _ => {
                is_in |= first == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_names() {
        for (glob, name, fits) in [
            ("*", "", true),
            ("*01*", "file.01", true),
            ("*01*", "file.10", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*.rs", "x.rs.rs", true),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbXbX", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]x]", "]", true),
            ("[a", "[a", true),
            (r"\*", "*", true),
            (r"\*", "x", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches_glob(glob.as_bytes(), name.as_bytes()), fits, "{glob} {name}");
        }
        // No pattern takes long.
        let (glob, name) = ("*a".repeat(50), "a".repeat(20_000));
        assert!(!matches_glob((glob + "b").as_bytes(), name.as_bytes()));
    }
}
