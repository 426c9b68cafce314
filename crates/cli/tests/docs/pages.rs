//! The pages: their code, and what they say is not there.

use std::path::{Path, PathBuf};

pub(super) struct Page {
    /// Its path from the root of the repository.
    pub(super) name: String,
    pub(super) text: String,
}

/// A line of a fence, or a code span.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) line: usize,
    pub(super) text: String,
}

impl Piece {
    fn new(line: usize, text: String) -> Piece {
        Piece { line, text }
    }
}

/// A sentence that says that something is not there.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) line: usize,
    pub(super) text: String,
    /// It stands in a list under a heading that says so.
    pub(super) is_item: bool,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

impl Page {
    /// README, CHANGELOG, CONTRIBUTING, and everything below `docs`.
    pub(super) fn all() -> Vec<Page> {
        let mut names: Vec<String> =
            ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(str::to_owned).to_vec();
        let mut left = vec!["docs".to_owned()];
        while let Some(dir) = left.pop() {
            for name in crate::support::names_in(&root().join(&dir)) {
                let path = format!("{dir}/{name}");
                if root().join(&path).is_dir() {
                    left.push(path);
                } else if name.ends_with(".md") {
                    names.push(path);
                }
            }
        }
        assert!(names.len() > 30, "{names:?}");
        names.sort();
        names.into_iter().map(|name| Page { text: read(&name), name }).collect()
    }

    /// Lines and whether each is inside of a fence; the fences themselves are left out.
    fn lines(&self) -> impl Iterator<Item = (usize, &str, bool)> {
        let mut is_code = false;
        self.text.lines().enumerate().filter_map(move |(index, line)| {
            if line.trim_start().starts_with("```") {
                is_code = !is_code;
                return None;
            }
            Some((index + 1, line, is_code))
        })
    }

    /// The lines of fences, those that go on put together, and the code spans.
    pub(super) fn code(&self) -> Vec<Piece> {
        let mut found: Vec<Piece> = Vec::new();
        let mut goes_on = false;
        for (number, line, is_code) in self.lines() {
            if !is_code {
                // A span may begin on one line and end on the next; then neither half is whole.
                let pieces: Vec<&str> = line.split('`').collect();
                let whole = pieces.len() - pieces.len().is_multiple_of(2) as usize;
                let spans = pieces[..whole].iter().enumerate().filter(|(at, _)| at % 2 == 1);
                found.extend(spans.map(|(_, span)| Piece::new(number, (*span).to_owned())));
                continue;
            }
            let end = line.strip_suffix('\\');
            let text = end.unwrap_or(line);
            match found.last_mut().filter(|_| goes_on) {
                Some(piece) => piece.text += text,
                None => found.push(Piece::new(number, text.to_owned())),
            }
            goes_on = end.is_some();
        }
        found
    }

    /// Sentences, and items of lists, that say that something is not there by one of `phrases`.
    pub(super) fn claims(&self, phrases: &[&str]) -> Vec<Claim> {
        let says = |text: &str| {
            let text = text.to_lowercase();
            phrases.iter().any(|phrase| text.contains(phrase)) || text.contains(" no `")
        };
        let mut claims = Vec::new();
        let mut under = false;
        let mut paragraph: (usize, String) = (1, String::new());
        let mut end = |(line, text): (usize, String), under: bool| {
            let is_item = text.starts_with("* ") || text.starts_with("- ");
            if under && is_item {
                return claims.push(Claim { line, text, is_item });
            }
            let sentences = text.split(". ").flat_map(|part| part.split(['|', ';']));
            let sentences = sentences.map(without_targets).filter(|sentence| says(sentence));
            claims.extend(sentences.map(|text| Claim { line, text, is_item: false }));
        };
        for (number, line, is_code) in self.lines() {
            let is_start = line.starts_with("* ") || line.starts_with("- ");
            if is_code || line.is_empty() || line.starts_with(['#', '|']) || is_start {
                end(std::mem::replace(&mut paragraph, (number, String::new())), under);
            }
            if line.starts_with('#') {
                under = says(line);
            } else if !is_code {
                paragraph.1 += line.trim();
                paragraph.1.push(' ');
            }
        }
        end(paragraph, under);
        claims
    }
}

fn without_targets(text: &str) -> String {
    let mut parts = text.split("](");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push(']');
        out += part.split_once(')').map_or("", |(_, behind)| behind);
    }
    out
}

/// The commands of a line of a shell, as words: what stands between pipes and the like, without
/// prompts, comments and variables that are set first.
pub(super) fn commands(line: &str) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    for word in line.split_whitespace() {
        match word {
            "#" => break,
            "|" | "||" | "&&" | ";" | "&" => all.push(Vec::new()),
            "$" => {}
            word => {
                let (word, ends) = match word.strip_suffix(';') {
                    Some(word) => (word, true),
                    None => (word, false),
                };
                let current = all.last_mut().expect("there is one from the beginning");
                let is_variable = current.is_empty()
                    && word.split_once('=').is_some_and(|(name, _)| is_variable(name));
                if !is_variable {
                    current.push(word.to_owned());
                }
                if ends {
                    all.push(Vec::new());
                }
            }
        }
    }
    all
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// The option that a word is: `--name`, whatever stands behind it.
pub(super) fn option(word: &str) -> Option<&str> {
    let word = word.trim_start_matches(['[', '(', '"', '\'', '{']);
    let name = word.strip_prefix("--")?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let end = name.find(|c| !is_part(c)).unwrap_or(name.len());
    let is_arrow = name[..end].ends_with('-') || name[end..].starts_with(['>', '*']);
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    (begins && !is_arrow).then(|| &word[..end + 2])
}

/// Whether it is a plain word, and no placeholder, path, option or sign.
pub(super) fn is_word(word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    word.starts_with(|c: char| c.is_ascii_lowercase()) && word.chars().all(is_part)
}
