//! `-c EXPERIMENT`: which older trials are plotted beside the present ones.
//!
//! `x3` or `x[12]` is that experiment and `x3/rw1` those of its trials whose key begins so; any
//! other word is looked for in the keys of all experiments. In a word `*` is any text, `?` one
//! character, `[a-c]` one of a class, `[^a]` one that is not in it, and `\` takes the next
//! character as it is.

/// What `-c` was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Any,
    One,
    Is(char),
    Class { is_negated: bool, ranges: Vec<(char, char)> },
}

impl Pattern {
    pub(super) fn of(word: &str) -> Pattern {
        let mut letters = word.chars();
        let names_one = letters.next() == Some('x')
            && letters.next().is_some_and(|c| c.is_ascii_digit() || c == '[');
        let whole = match (names_one, word.contains('/')) {
            (true, true) => format!("{word}*"),
            (true, false) => format!("{word}/*"),
            (false, _) => format!("x*{word}*"),
        };
        Pattern(parts(&whole))
    }

    /// Whether the key of a trial, with its experiment, is meant. O(key x pattern).
    pub(super) fn matches(&self, key: &str) -> bool {
        // Which prefixes of the pattern match what has been read of the key.
        let parts = &self.0;
        let mut reached = vec![false; parts.len() + 1];
        reached[0] = true;
        skip_any(parts, &mut reached);
        for c in key.chars() {
            let mut next = vec![false; parts.len() + 1];
            for (at, part) in parts.iter().enumerate().filter(|(at, _)| reached[*at]) {
                match part {
                    Part::Any => next[at] = true,
                    part if part.is(c) => next[at + 1] = true,
                    _ => {}
                }
            }
            skip_any(parts, &mut next);
            reached = next;
        }
        reached[parts.len()]
    }
}

/// Any text may be none.
fn skip_any(parts: &[Part], reached: &mut [bool]) {
    for (at, part) in parts.iter().enumerate() {
        if reached[at] && *part == Part::Any {
            reached[at + 1] = true;
        }
    }
}

impl Part {
    fn is(&self, c: char) -> bool {
        match self {
            Part::Any | Part::One => true,
            Part::Is(own) => *own == c,
            Part::Class { is_negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *is_negated
            }
        }
    }
}

fn parts(text: &str) -> Vec<Part> {
    let letters: Vec<char> = text.chars().collect();
    let (mut parts, mut at) = (Vec::new(), 0);
    while let Some(&c) = letters.get(at) {
        at += 1;
        parts.push(match c {
            '*' => Part::Any,
            '?' => Part::One,
            '\\' if at < letters.len() => {
                at += 1;
                Part::Is(letters[at - 1])
            }
            '[' => match class(&letters[at..]) {
                Some((class, length)) => {
                    at += length;
                    class
                }
                None => Part::Is('['),
            },
            c => Part::Is(c),
        });
    }
    parts
}

/// A class behind its `[`, and how many letters it takes; `None` where it never ends.
fn class(letters: &[char]) -> Option<(Part, usize)> {
    let is_negated = letters.first() == Some(&'^');
    let start = usize::from(is_negated);
    // A bracket that comes first is a member.
    let end = start + 1 + letters.get(start + 1..)?.iter().position(|c| *c == ']')?;
    let (members, mut ranges, mut at) = (&letters[start..end], Vec::new(), 0);
    while at < members.len() {
        let is_range = members.get(at + 1) == Some(&'-') && at + 2 < members.len();
        let last = if is_range { at + 2 } else { at };
        ranges.push((members[at], members[last]));
        at = last + 1;
    }
    Some((Part::Class { is_negated, ranges }, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_choose_experiments_and_trials() {
        for (word, key, is_meant) in [
            ("x1", "x1/rw1/mb/0", true),
            ("x1", "x10/rw1/mb/0", false),
            ("x1/rw", "x1/rw1/mb/0", true),
            ("x1/rw1/mb/1", "x1/rw1/mb/0", false),
            ("rw1", "x1/rw1/mb/0", true),
            ("rw1", "x1/wd1/mb/0", false),
            ("mb", "x22/wd1/mb/0", true),
            ("", "x22/wd1/mb/0", true),
            ("", "rw1/mb/0", false),
            ("x[12]/rw?", "x2/rw3/mb/0", true),
            ("x[^2]/rw1", "x2/rw1/mb/0", false),
            ("rw[0-2]/", "x2/rw3/mb/0", false),
            ("rw[0-4]/", "x2/rw3/mb/0", true),
            ("a[", "x1/a[b/mb/0", true),
            ("a[]]b", "x1/a]b/mb/0", true),
            ("1\\*2", "x1/rw1/mb/0", false),
            ("**", "x1/rw1/mb/0", true),
        ] {
            assert_eq!(Pattern::of(word).matches(key), is_meant, "{word} {key}");
        }
    }
}
