//! Tidy: the rules of this repository that neither compiler nor clippy checks.
//!
//! ```text
//! files of the tree -> Tree -> every rule -> breaches, one line each -> passed or not
//! ```
//!
//! A rule is a pure function from a [`Tree`] to its breaches, so each one is tested on a handful of
//! files in memory. [`RULES`] is the whole list, but for the one rule that asks cargo, `embedded`.
//! `docs/testing.md` explains them to people.

mod circles;
mod code;
mod embedded;
mod functions;
mod layers;
mod manifest;
mod markdown;
mod retired;
mod sizes;
mod source;
mod swallowed;
mod words;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;

use crate::options::Options;
use crate::output::{complain, say};
use crate::stage::{Outcome, Stop};
use crate::workspace::Workspace;

/// A text file of the tree.
#[derive(Debug)]
struct File {
    /// Relative to the root, `/` between names.
    path: String,
    text: String,
}

/// What the rules look at.
#[derive(Debug, Default)]
struct Tree {
    /// The files that are UTF-8 text.
    files: Vec<File>,
    /// Every file, text or not, and every folder that holds one.
    paths: BTreeSet<String>,
}

impl Tree {
    /// Reads the whole source tree.
    ///
    /// # Errors
    /// `Broken` when it cannot be listed, or a listed file cannot be read.
    fn read(workspace: &Workspace) -> Outcome<Tree> {
        let mut tree = Tree::default();
        for path in workspace.files()? {
            let bytes = fs::read(workspace.root().join(&path))
                .map_err(|error| Stop::Broken(format!("cannot read {path}: {error}")))?;
            tree.add(path, bytes);
        }
        Ok(tree)
    }

    fn add(&mut self, path: String, bytes: Vec<u8>) {
        let folders = path.match_indices('/').map(|(end, _)| path[..end].to_string());
        self.paths.extend(folders);
        self.paths.insert(path.clone());
        if let Ok(text) = String::from_utf8(bytes) {
            self.files.push(File { path, text });
        }
    }

    /// The files whose names end in `.rs`.
    fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }
}

/// A place where a rule does not hold.
#[derive(Debug, PartialEq, Eq)]
struct Breach {
    path: String,
    /// Counted from 1; 0 when the whole file is meant.
    line: usize,
    what: String,
}

impl Breach {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Breach {
        Breach { path: path.to_string(), line, what: what.into() }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// Whether a file holds tests alone.
fn is_test_file(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_test = |name: &str| {
        ["tests", "test", "fuzz", "testkit", "benches"].contains(&name)
            || name.ends_with("_tests")
            || name.ends_with("_test")
            || name.ends_with("_fuzz")
    };
    folder.split('/').any(is_test) || is_test(name.trim_end_matches(".rs"))
}

/// A rule: its name, and the function that finds its breaches.
type Rule = (&'static str, fn(&Tree) -> Vec<Breach>);

/// Every rule, in the order in which breaches are printed.
const RULES: &[Rule] = &[
    ("layers", layers::edges),
    ("manifests", layers::manifests),
    ("dependency list", layers::dependency_list),
    ("headers", source::headers),
    ("columns", source::columns),
    ("unsafe", source::unsafe_code),
    ("ignored tests", source::ignored_tests),
    ("sleeping", source::sleeping),
    ("swallowed", swallowed::swallowed),
    ("words", words::banned),
    ("retired", retired::retired),
    ("circles", circles::circles),
    ("functions", functions::functions),
    ("files", sizes::files),
    ("cli", sizes::cli),
    ("links", markdown::links),
    ("titles", markdown::titles),
    ("width", markdown::width),
];

/// `cargo xtask tidy`.
///
/// # Errors
/// As [`check`].
pub(crate) fn command(workspace: &Workspace, _: &Options) -> Outcome {
    check(workspace)
}

/// Runs every rule over the tree and prints the breaches.
///
/// # Errors
/// `Stage` when there is a breach; `Broken` when the tree cannot be read.
pub(crate) fn check(workspace: &Workspace) -> Outcome {
    let tree = Tree::read(workspace)?;
    let mut count = 0;
    let found = RULES.iter().map(|(name, rule)| (*name, rule(&tree)));
    let embedded = ("embedded", embedded::packages(workspace, &tree)?);
    for (name, breaches) in found.chain([embedded]) {
        for breach in breaches {
            complain(&format!("{breach} [{name}]"));
            count += 1;
        }
    }
    if count > 0 {
        return Err(Stop::Stage(format!("tidy: breaches: {count}, in {} files", tree.files.len())));
    }
    say(&format!("tidy: {} files, {} rules", tree.files.len(), RULES.len() + 1));
    Ok(())
}

#[cfg(test)]
mod testing {
    //! Trees in memory, for the tests of the rules.

    use super::{Breach, Tree};

    pub(super) fn tree(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.add((*path).to_string(), text.as_bytes().to_vec());
        }
        tree
    }

    /// The places of the breaches, as `path:line`.
    pub(super) fn places(breaches: &[Breach]) -> Vec<String> {
        breaches.iter().map(|breach| format!("{}:{}", breach.path, breach.line)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_tidy_tree_passes_and_a_planted_breach_fails_it() {
        let scratch = Scratch::new("tidy");
        scratch.write("Cargo.toml", "[workspace]\n");
        scratch.write("docs/architecture.md", "# Architecture\n\n## Dependencies\n");
        scratch.write("xtask/src/main.rs", "//! Chores.\n#![forbid(unsafe_code)]\n");
        let workspace = Workspace::at(scratch.path());
        let outcome = check(&workspace);
        assert!(outcome.is_ok(), "{outcome:?}");
        scratch.write("xtask/src/bare.rs", "fn main() {}\n");
        assert!(
            matches!(check(&workspace), Err(Stop::Stage(line)) if line.contains("breaches: 1,"))
        );
    }

    #[test]
    fn files_that_are_no_text_are_known_by_path_alone() {
        let mut tree = Tree::default();
        tree.add("docs/img/a.png".into(), vec![0xff, 0xfe]);
        assert!(tree.files.is_empty());
        let paths: Vec<&str> = tree.paths.iter().map(String::as_str).collect();
        assert_eq!(paths, ["docs", "docs/img", "docs/img/a.png"]);
    }

    #[test]
    fn a_breach_names_its_place() {
        assert_eq!(Breach::new("a.rs", 3, "bad").to_string(), "a.rs:3: bad");
        assert_eq!(Breach::new("a.rs", 0, "bad").to_string(), "a.rs: bad");
    }
}
