//! Rule: identifiers that gave way to a term of the field do not come back.
//!
//! `retired.txt` beside this file lists them, one a line: the crate, the identifier and the term.
//! `docs/glossary.md` explains the terms. The rule looks at code alone, tests included; prose and
//! strings may use any word.

use std::collections::HashMap;

use super::code::code_only;
use super::{Breach, Tree};

const LIST: &str = include_str!("retired.txt");

/// The retired identifiers of each crate, with the terms that took their place.
type Retired<'a> = HashMap<&'a str, HashMap<&'a str, &'a str>>;

fn parse(list: &str) -> Retired<'_> {
    let mut retired = Retired::new();
    for line in list.lines().filter(|line| !line.is_empty()) {
        let mut words = line.splitn(3, ' ');
        let mut next = || words.next().expect("a line has a crate, an identifier and a term");
        let (name, identifier, term) = (next(), next(), next());
        let earlier = retired.entry(name).or_default().insert(identifier, term);
        assert!(earlier.is_none(), "listed twice: {name} {identifier}");
    }
    retired
}

/// The rule.
pub(super) fn retired(tree: &Tree) -> Vec<Breach> {
    let retired = parse(LIST);
    let mut breaches = Vec::new();
    for file in tree.rust() {
        let name = file.path.strip_prefix("crates/").and_then(|rest| rest.split('/').next());
        let Some(words) = name.and_then(|name| retired.get(name)) else { continue };
        for (index, line) in code_only(&file.text).lines().enumerate() {
            let identifiers = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            for (identifier, term) in identifiers.filter_map(|word| words.get_key_value(word)) {
                let what = format!("`{identifier}` is retired: say `{term}`");
                breaches.push(Breach::new(&file.path, index + 1, what));
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::super::testing::{places, tree};
    use super::*;

    #[test]
    fn every_planted_identifier_is_found_in_its_crate() {
        for (name, words) in parse(LIST) {
            for identifier in words.keys() {
                let path = format!("crates/{name}/tests/planted.rs");
                let tree = tree(&[(path.as_str(), &format!("fn a() {{ b({identifier}); }}\n"))]);
                assert_eq!(places(&retired(&tree)), [format!("{path}:1")], "{identifier}");
            }
        }
    }

    #[test]
    fn other_crates_longer_names_and_prose_are_not_meant() {
        let text = "// The rooms.\nlet all_rooms = \"rooms\";\n";
        let tree = tree(&[
            ("crates/wal/src/a.rs", text),
            ("crates/wal/src/b.md", "rooms\n"),
            ("crates/report/src/a.rs", "let rooms = 1;\n"),
        ]);
        assert_eq!(retired(&tree), []);
    }
}
