//! Rules about size: the lines of a Rust file, and the code of the command line.

use super::code::{code_only, without_tests};
use super::{Breach, Tree, is_test_file};

/// Lines of the longest Rust file. Above 400 it is time to look for the second noun.
const FILE_LINES_MAX: usize = 700;

/// The crate that parses, prints and exits, and how many lines of code it may have for that:
/// without comments, blank lines and tests.
const CLI: &str = "crates/cli/src/";
const CLI_LINES_MAX: usize = 7000;

/// Rule: no Rust file is longer than what one reads in a sitting.
pub(super) fn files(tree: &Tree) -> Vec<Breach> {
    tree.rust()
        .map(|file| (file, file.text.lines().count()))
        .filter(|(_, lines)| *lines > FILE_LINES_MAX)
        .map(|(file, lines)| {
            Breach::new(&file.path, 0, format!("{lines} lines, at most {FILE_LINES_MAX}"))
        })
        .collect()
}

/// Rule: the command line is no second product.
pub(super) fn cli(tree: &Tree) -> Vec<Breach> {
    let ours = |path: &str| path.starts_with(CLI) && !is_test_file(path);
    let lines: usize = tree
        .rust()
        .filter(|file| ours(&file.path))
        .map(|file| {
            let (code, _) = without_tests(&code_only(&file.text));
            code.lines().filter(|line| !line.trim().is_empty()).count()
        })
        .sum();
    if lines <= CLI_LINES_MAX {
        return Vec::new();
    }
    vec![Breach::new(CLI, 0, format!("{lines} lines of code, at most {CLI_LINES_MAX}"))]
}

#[cfg(test)]
mod tests {
    use super::super::testing::tree;
    use super::*;

    #[test]
    fn a_planted_long_file_is_found() {
        let tree = tree(&[
            ("a.rs", &"\n".repeat(FILE_LINES_MAX)),
            ("b.rs", &"\n".repeat(FILE_LINES_MAX + 1)),
            ("c.md", &"\n".repeat(5000)),
        ]);
        let breaches = files(&tree);
        assert_eq!(breaches, [Breach::new("b.rs", 0, "701 lines, at most 700")]);
    }

    #[test]
    fn a_planted_line_of_code_too_many_is_found_and_comments_and_tests_are_free() {
        let code = "// A comment.\n\nlet a = 1;\n".repeat(CLI_LINES_MAX);
        let tests = format!("{code}#[cfg(test)]\nmod tests {{\n{code}}}\n");
        let full = tree(&[("crates/cli/src/a.rs", &tests), ("crates/cli/src/tests.rs", &code)]);
        assert_eq!(cli(&full), []);
        let over = tree(&[("crates/cli/src/a.rs", &code), ("crates/cli/src/b.rs", "let b = 1;\n")]);
        assert_eq!(cli(&over)[0].what, "7001 lines of code, at most 7000");
    }
}
