//! Rules about documents: links to files of this repository lead somewhere, and a document has one
//! title.
//!
//! What stands in a fence or in back-quotes is an example and is not looked at. Of a link only the
//! file is checked, not the heading behind `#`.

use super::source::COLUMNS_MAX;
use super::{Breach, File, Tree};

/// Rule: every local link names a file or folder of the tree.
pub(super) fn links(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in documents(tree) {
        for (line, text) in prose(&file.text) {
            for target in targets(&without_code(text)) {
                let Some(path) = local_path(&file.path, &target) else { continue };
                if !tree.paths.contains(&path) && !path.is_empty() {
                    let what = format!("the link '{target}' leads nowhere");
                    breaches.push(Breach::new(&file.path, line, what));
                }
            }
        }
    }
    breaches
}

/// Rule: no line of a document is wider than the page.
pub(super) fn width(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in documents(tree) {
        for (index, line) in file.text.lines().enumerate() {
            let columns = line.chars().count();
            // A row of a table cannot be broken, nor can an address.
            let is_unbreakable = line.trim_start().starts_with('|') || line.contains("https://");
            if columns > COLUMNS_MAX && !is_unbreakable {
                let what = format!("{columns} columns, at most {COLUMNS_MAX}");
                breaches.push(Breach::new(&file.path, index + 1, what));
            }
        }
    }
    breaches
}

/// Rule: a document has one title, at its head.
pub(super) fn titles(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in documents(tree) {
        let titles: Vec<usize> = prose(&file.text)
            .filter(|(_, text)| heading(text).is_some_and(|(level, _)| level == 1))
            .map(|(line, _)| line)
            .collect();
        match titles.as_slice() {
            [] => breaches.push(Breach::new(&file.path, 0, "the document has no `# Title`")),
            [_] => {}
            [_, second, ..] => {
                breaches.push(Breach::new(&file.path, *second, "a second `# Title`"));
            }
        }
    }
    breaches
}

pub(super) fn heading(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    let title = text.strip_prefix(' ')?.trim();
    (1..=6).contains(&level).then_some((level, title))
}

fn documents(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files.iter().filter(|file| file.path.ends_with(".md"))
}

/// The lines outside of fences, with their numbers from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => return Some((index + 1, line)),
            _ => {}
        }
        None
    })
}

/// A line without what stands between back-quotes.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// The targets of `[text](target)` and of `[name]: target`.
fn targets(line: &str) -> Vec<String> {
    let mut found: Vec<String> = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .filter_map(|(target, _)| first_word(target))
        .collect();
    if let Some((_, target)) = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
        found.extend(first_word(target));
    }
    found
}

/// A target without the title behind it and the angles around it.
fn first_word(target: &str) -> Option<String> {
    let word = target.split_whitespace().next()?;
    Some(word.trim_start_matches('<').trim_end_matches('>').to_string())
}

/// The path from the root that a link means; nothing when it leads out of the repository, empty for
/// the root itself.
fn local_path(document: &str, target: &str) -> Option<String> {
    let (path, _) = target.split_once('#').unwrap_or((target, ""));
    let is_address = target.contains("://") || target.starts_with("mailto:");
    if path.is_empty() || is_address {
        return None;
    }
    let mut names: Vec<&str> = match path.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => document.split('/').collect(),
    };
    names.pop();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                // Above the root stands nothing of ours: keep the name, so that it is not found.
                if names.pop().is_none() {
                    names.push("..");
                }
            }
            name => names.push(name),
        }
    }
    Some(names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{places, tree};
    use super::*;

    #[test]
    fn links_to_nowhere_are_found() {
        let page = "# Page\n\
                    [good](../README.md#use) and [folder](formats/) and [root](..)\n\
                    [bad](missing.md \"title\") then [web](https://example.org/x.md)\n\
                    [here](#page) `[code](missing.md)` [mail](mailto:a@b)\n\
                    ```\n[fenced](missing.md)\n```\n\
                    [ref]: formats/gone.md\n\
                    [out](../../etc)\n";
        let tree = tree(&[
            ("docs/page.md", page),
            ("docs/formats/run.md", "# Run\n"),
            ("README.md", "# Keyrack\n[page](/docs/page.md)\n"),
        ]);
        let breaches = links(&tree);
        assert_eq!(places(&breaches), ["docs/page.md:3", "docs/page.md:8", "docs/page.md:9"]);
        assert_eq!(breaches[0].what, "the link 'missing.md' leads nowhere");
    }

    #[test]
    fn a_planted_wide_line_is_found_and_tables_and_addresses_are_not() {
        let long = "x".repeat(COLUMNS_MAX + 1);
        let text = format!("{}\n{long}\n| {long} |\nhttps://a/{long}\n", &long[1..]);
        let breaches = width(&tree(&[("a.md", &text), ("a.rs", &long)]));
        assert_eq!(places(&breaches), ["a.md:2"]);
    }

    #[test]
    fn a_document_has_one_title() {
        let tree = tree(&[
            ("one.md", "# One\n\n## Part\n\n```sh\n# a comment\n```\n"),
            ("two.md", "# One\n\n# Two\n"),
            ("none.md", "#hashtag\n\n## Part\n"),
            ("notes.txt", "no title needed\n"),
        ]);
        assert_eq!(places(&titles(&tree)), ["two.md:3", "none.md:0"]);
    }

    #[test]
    fn headings_have_a_level_and_a_text() {
        assert_eq!(heading("## Layers "), Some((2, "Layers")));
        assert_eq!(heading("#![forbid]"), None);
        assert_eq!(heading("text"), None);
        assert_eq!(heading("####### seven"), None);
    }

    #[test]
    fn a_fence_ends_at_its_own_mark() {
        let lines: Vec<usize> = prose("a\n~~~\n```\nb\n~~~\nc\n").map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 6]);
    }
}
