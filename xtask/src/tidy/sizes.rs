//! The size report: long Rust files, longest first. A long file may have its reason (a table, one
//! state machine), so the report is read by people and fails nothing.

use super::Tree;

/// Lines at which a file is listed: time to think about a split.
const LINES_LISTED: usize = 700;

/// Lines at which a file is listed loudly: it needs a reason.
const LINES_LOUD: usize = 1000;

/// The lines of the report.
pub(super) fn report(tree: &Tree) -> Vec<String> {
    let mut long: Vec<(usize, &str)> = tree
        .rust()
        .map(|file| (file.text.lines().count(), file.path.as_str()))
        .filter(|(lines, _)| *lines > LINES_LISTED)
        .collect();
    long.sort_by(|a, b| b.cmp(a));
    long.into_iter()
        .map(|(lines, path)| {
            if lines > LINES_LOUD {
                format!("size: {path}: {lines} LINES, more than {LINES_LOUD}: SPLIT IT OR SAY WHY")
            } else {
                format!("size: {path}: {lines} lines")
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::tree;
    use super::*;

    #[test]
    fn long_files_are_listed_longest_first() {
        let tree = tree(&[
            ("a.rs", &"\n".repeat(700)),
            ("b.rs", &"\n".repeat(701)),
            ("c.rs", &"\n".repeat(1001)),
            ("d.md", &"\n".repeat(5000)),
        ]);
        assert_eq!(
            report(&tree),
            [
                "size: c.rs: 1001 LINES, more than 1000: SPLIT IT OR SAY WHY",
                "size: b.rs: 701 lines",
            ]
        );
    }
}
