//! Rule: a function of the product fits on a screen or two.
//!
//! Counted from the line of `fn` to the line of its closing brace, comments included. Tests may be
//! longer: a story that is told in order is no easier in pieces.

use super::code::{code_only, has_word, without_tests};
use super::{Breach, Tree, is_test_file};

/// Lines of the longest function.
const LINES_MAX: usize = 70;

/// The rule.
pub(super) fn functions(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in tree.rust().filter(|file| !is_test_file(&file.path)) {
        for (line, name, lines) in functions_of(&without_tests(&code_only(&file.text)).0) {
            if lines > LINES_MAX {
                let what = format!("`{name}` has {lines} lines, at most {LINES_MAX}");
                breaches.push(Breach::new(&file.path, line, what));
            }
        }
    }
    breaches
}

/// Each function with a body: its first line, its name, how many lines it has.
fn functions_of(code: &str) -> Vec<(usize, &str, usize)> {
    let mut found = Vec::new();
    // Functions that are open: where they begin, and how deep their braces are; 0 before the first.
    let mut open: Vec<(usize, &str, usize)> = Vec::new();
    let mut depth = 0;
    for (index, line) in code.lines().enumerate() {
        // A type of function has no name: `fn(u8)`.
        if let Some((_, name)) = line.split_once("fn ").filter(|_| has_word(line, "fn")) {
            let end = name.find(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
            open.push((index, &name[..end.unwrap_or(name.len())], 0));
        }
        for letter in line.chars() {
            match letter {
                '{' => {
                    depth += 1;
                    if let Some((_, _, body @ 0)) = open.last_mut() {
                        *body = depth;
                    }
                }
                '}' => {
                    if open.last().is_some_and(|(_, _, body)| *body == depth)
                        && let Some((start, name, _)) = open.pop()
                    {
                        found.push((start + 1, name, index - start + 1));
                    }
                    depth = depth.saturating_sub(1);
                }
                // A function of a trait without a body.
                ';' if line.trim_end().ends_with(';')
                    && open.last().is_some_and(|(_, _, body)| *body == 0) =>
                {
                    open.pop();
                }
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::testing::{places, tree};
    use super::*;

    fn text(lines: usize) -> String {
        format!("//! A file.\n\nfn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn a_function_that_takes_a_function_was_not_counted() {
        let long = text(LINES_MAX + 1).replace("long()", "long(run: fn(u8) -> u8)");
        assert_eq!(places(&functions(&tree(&[("a.rs", &long)]))), ["a.rs:3"]);
    }

    #[test]
    fn a_planted_long_function_is_found_with_its_lines() {
        let long = text(LINES_MAX + 1);
        let tree = tree(&[("a.rs", &text(LINES_MAX)), ("b.rs", &long), ("tests/c.rs", &long)]);
        let breaches = functions(&tree);
        assert_eq!(places(&breaches), ["b.rs:3"]);
        assert_eq!(breaches[0].what, "`long` has 71 lines, at most 70");
    }

    #[test]
    fn nested_functions_bodies_and_signatures_are_told_apart() {
        let code = "trait T {\n    fn none(&self);\n    fn some(\n        &self,\n    ) {\n        \
                    fn inner() {\n        }\n    }\n}\ntype F = fn(u8) -> u8;\nfn last() {}\n";
        let found = functions_of(code);
        assert_eq!(found, [(6, "inner", 2), (3, "some", 6), (11, "last", 1)]);
    }
}
