//! Rust source with everything that is not code blanked out: comments, strings and characters
//! become spaces, while line breaks stay where they were. A rule that looks for a word in the
//! result cannot be fooled by prose about that word.
//!
//! This is a scanner of tokens, not a parser. It knows nested block comments, raw and byte strings,
//! and tells a lifetime from a character.

/// The code of a source text, as many lines as the text; O(length).
pub(super) fn code_only(text: &str) -> String {
    let mut scanner = Scanner { chars: text.chars().collect(), at: 0, out: String::new() };
    while scanner.at < scanner.chars.len() {
        scanner.token();
    }
    scanner.out
}

/// The numbers (from 1) of the lines of code that hold a word, with no letter, digit or
/// underscore on either side of it.
pub(super) fn lines_with_word(code: &str, word: &str) -> Vec<usize> {
    code.lines()
        .enumerate()
        .filter(|(_, line)| has_word(line, word))
        .map(|(index, _)| index + 1)
        .collect()
}

/// Whether a line holds a word by itself. An end of `word` that is no letter, digit or underscore
/// needs no border.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let opens = word.chars().next().is_some_and(is_word_char);
    let closes = word.chars().next_back().is_some_and(is_word_char);
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        let goes_on = |side: bool, letter: Option<char>| side && letter.is_some_and(is_word_char);
        !goes_on(opens, before) && !goes_on(closes, after)
    })
}

/// Code whose items under `#[cfg(test)]` are blank lines, and the names of the modules among them.
pub(super) fn without_tests(code: &str) -> (String, Vec<String>) {
    let mut children = Vec::new();
    let mut rest = String::new();
    let mut lines = code.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            rest.push_str(line);
            rest.push('\n');
            continue;
        }
        rest.push('\n');
        let mut depth = 0_i64;
        for line in lines.by_ref() {
            rest.push('\n');
            let is_open = depth == 0;
            depth += line.matches('{').count() as i64 - line.matches('}').count() as i64;
            let words: Vec<&str> = line.trim().trim_end_matches(';').split(' ').collect();
            if let (true, Some(at)) = (is_open, words.iter().position(|word| *word == "mod")) {
                children.extend(words.get(at + 1).map(|name| (*name).to_owned()));
            }
            let is_over = line.trim_end().ends_with([';', '}', ',']);
            if depth <= 0 && is_over {
                break;
            }
        }
    }
    (rest, children)
}

fn is_word_char(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[derive(Debug)]
struct Scanner {
    chars: Vec<char>,
    at: usize,
    out: String,
}

impl Scanner {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn keep(&mut self) {
        self.out.extend(self.chars.get(self.at));
        self.at += 1;
    }

    fn blank(&mut self, count: usize) {
        for _ in 0..count {
            let Some(letter) = self.peek(0) else { return };
            self.out.push(if letter == '\n' { '\n' } else { ' ' });
            self.at += 1;
        }
    }

    /// Moves over one comment, string, character, identifier or other letter.
    fn token(&mut self) {
        match (self.peek(0), self.peek(1)) {
            (Some('/'), Some('/')) => self.line_comment(),
            (Some('/'), Some('*')) => self.block_comment(),
            (Some('"'), _) => self.string(),
            (Some('\''), _) => self.character_or_lifetime(),
            (Some(letter), _) if is_word_char(letter) => self.identifier(),
            _ => self.keep(),
        }
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|letter| letter != '\n') {
            self.blank(1);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => depth += 1,
                (Some('*'), Some('/')) => depth -= 1,
                (None, _) => return,
                _ => {
                    self.blank(1);
                    continue;
                }
            }
            self.blank(2);
            if depth == 0 {
                return;
            }
        }
    }

    /// A string with escapes, from its opening quote.
    fn string(&mut self) {
        self.blank(1);
        loop {
            match self.peek(0) {
                None => return,
                Some('\\') => self.blank(2),
                Some('"') => return self.blank(1),
                Some(_) => self.blank(1),
            }
        }
    }

    /// A string without escapes, from the first `#` or quote behind its `r`. Nothing is moved
    /// when it is none (`r#type`).
    fn raw_string(&mut self) -> bool {
        let mut hashes = 0;
        while self.peek(hashes) == Some('#') {
            hashes += 1;
        }
        if self.peek(hashes) != Some('"') {
            return false;
        }
        self.blank(hashes + 1);
        while self.peek(0).is_some() {
            let closes = self.peek(0) == Some('"')
                && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#'));
            if closes {
                self.blank(hashes + 1);
                return true;
            }
            self.blank(1);
        }
        true
    }

    fn character_or_lifetime(&mut self) {
        match (self.peek(1), self.peek(2)) {
            (Some('\\'), _) => {
                self.blank(3);
                while self.peek(0).is_some_and(|letter| letter != '\'') {
                    self.blank(1);
                }
                self.blank(1);
            }
            (Some(_), Some('\'')) => self.blank(3),
            _ => self.keep(),
        }
    }

    /// An identifier or a number; one that is the prefix of a string takes the string with it.
    fn identifier(&mut self) {
        let start = self.at;
        while self.peek(0).is_some_and(is_word_char) {
            self.keep();
        }
        let word: String = self.chars[start..self.at].iter().collect();
        if matches!(word.as_str(), "r" | "br" | "cr") {
            self.raw_string();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_blanked_and_lines_stay() {
        let text = "a // one\n/* two /* three */ \n four */ b\n\"five \\\" six\n seven\" c\n";
        let code = code_only(text);
        assert_eq!(code.lines().count(), text.lines().count());
        let words: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(words, ["a", "b", "c"]);
    }

    #[test]
    fn raw_and_byte_strings_are_strings_and_raw_identifiers_are_not() {
        let code = code_only("r#\"x \" y\"# b\"z\" br##\"u\"# v\"## r#type r\"w\\\" end");
        let words: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(words, ["r", "b", "br", "r#type", "r", "end"]);
    }

    #[test]
    fn lifetimes_are_code_and_characters_are_not() {
        let code = code_only(r#"<'a> ' ' '"' '\'' '\u{1f}' b'x' end"#);
        assert!(code.contains("<'a>"));
        assert!(code.ends_with("end"));
        assert!(!code.contains('x') && !code.contains('"') && !code.contains('u'));
    }

    #[test]
    fn an_open_comment_or_string_ends_with_the_text() {
        assert_eq!(code_only("a /* b").trim(), "a");
        assert_eq!(code_only("a \"b").trim(), "a");
        assert_eq!(code_only("a r#\"b\"").trim(), "a r");
        assert_eq!(code_only("a '\\").trim(), "a");
    }

    #[test]
    fn items_for_tests_become_blank_lines() {
        let code = "fn a() {}\n#[cfg(test)]\nmod b;\nfn c() {}\n\
                    #[cfg(test)]\nmod tests {\n fn d() {}\n}\n";
        let (rest, children) = without_tests(code);
        assert_eq!(rest, "fn a() {}\n\n\nfn c() {}\n\n\n\n\n");
        assert_eq!(children, ["b", "tests"]);
    }

    #[test]
    fn words_have_borders() {
        assert!(has_word("unsafe {", "unsafe"));
        assert!(!has_word("#![forbid(unsafe_code)]", "unsafe"));
        assert!(!has_word("notunsafe", "unsafe"));
        assert!(has_word("(x!)", "x!"));
        assert_eq!(lines_with_word("a\nb a\nab\n", "a"), [1, 2]);
    }
}
