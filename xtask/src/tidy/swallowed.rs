//! Rule: a store says why it goes on without a thing that it asked for.
//!
//! An early return, a default value and a filter that drops failures look alike whether the absence
//! is expected or an invariant is broken. In the crates that keep data each of them has a comment
//! above it that says why the absence is right. A broken invariant is an `expect` with its reason
//! instead, and damage an error with its place.

use super::code::code_only;
use super::{Breach, Tree};

/// The crates whose data somebody relies on.
const STORES: [&str; 6] = [
    "crates/backup",
    "crates/deltafs",
    "crates/flodb",
    "crates/masstree",
    "crates/rowstore",
    "crates/wal",
];

/// Code that goes on without what it asked for.
const PATTERNS: [&str; 8] = [
    "else { return };",
    "else { return Ok(()) };",
    ".unwrap_or_default()",
    ".unwrap_or(u32::MAX)",
    ".unwrap_or(Kind::",
    "filter_map(Result::ok)",
    "filter_map(|file|",
    "filter_map(|table|",
];

/// How many lines above the code its reason may stand.
const LINES_ABOVE_MAX: usize = 2;

/// Rule: absence is justified where it is accepted, outside of tests.
pub(super) fn swallowed(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in tree.rust().filter(|file| is_of_a_store(&file.path)) {
        let lines: Vec<&str> = file.text.lines().collect();
        let code = code_only(&file.text);
        let product = code.lines().take_while(|line| !line.starts_with("mod tests {"));
        for (index, line) in product.enumerate() {
            let above = &lines[index.saturating_sub(LINES_ABOVE_MAX)..index];
            let is_justified = above.iter().any(|line| line.trim_start().starts_with("// "));
            if let Some(pattern) = PATTERNS.iter().find(|pattern| line.contains(**pattern))
                && !is_justified
            {
                let what = format!(
                    "`{pattern}` without a reason above it: expect what must be there, return an \
                     error for damage, or say why nothing is right"
                );
                breaches.push(Breach::new(&file.path, index + 1, what));
            }
        }
    }
    breaches
}

fn is_of_a_store(path: &str) -> bool {
    let rest = STORES.iter().find_map(|home| path.strip_prefix(home)?.strip_prefix("/src/"));
    rest.is_some_and(|rest| {
        let is_test = |name: &str| {
            matches!(name, "tests" | "tests.rs" | "fuzz.rs" | "simulation" | "cluster")
        };
        !rest.split('/').any(is_test)
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{places, tree};
    use super::*;

    #[test]
    fn an_absence_without_a_reason_is_found() {
        let text = "fn a() {\n    let Some(b) = c else { return Ok(()) };\n}\n\n\
                    fn d() {\n    // There is none before the first.\n    \
                    let Some(b) = c else { return Ok(()) };\n}\n\n\
                    mod tests {\n    let a = b.unwrap_or_default();\n}\n";
        let tree = tree(&[
            ("crates/wal/src/a.rs", text),
            ("crates/wal/src/a/tests.rs", text),
            ("crates/wal/tests/a.rs", text),
            ("crates/cli/src/a.rs", text),
        ]);
        assert_eq!(places(&swallowed(&tree)), ["crates/wal/src/a.rs:2"]);
    }

    #[test]
    fn every_pattern_is_found() {
        for pattern in PATTERNS {
            let text = format!("let a = b{pattern}x;\n");
            let found = swallowed(&tree(&[("crates/flodb/src/db/a.rs", &text)]));
            assert_eq!(places(&found), ["crates/flodb/src/db/a.rs:1"], "{pattern}");
        }
    }
}
