//! Rules about Rust files: headers, width, unsafe code, ignored tests, sleeping.

use super::code::{code_only, has_word, lines_with_word};
use super::{Breach, Tree};

/// Columns of a line, counted in characters.
pub(super) const COLUMNS_MAX: usize = 100;

/// Crates that hold unsafe code, with the most files of each that may.
const UNSAFE_CRATES: &[(&str, usize)] = &[
    // The time-stamp counter and the calls around it, in one module.
    ("crates/measure", 1),
    // Mappings, in one module.
    ("crates/vfs", 1),
    // Six modules of raw Lua, three of kernel calls for the probes, the signal handler.
    ("crates/harness", 10),
    // The range of addresses under the arenas; records, their domain and pinning; exchange. Four
    // of these files are tests and an example, which retire objects.
    ("crates/concurrent", 11),
    // Nodes, blobs and values behind words, and who may follow or free them; vector instructions.
    ("crates/masstree", 16),
    // Opening a memory map: the adapter and its tests; the calls of loaded C libraries: their
    // signatures, loading them, their objects; boxes behind the words of a map of machine words.
    ("crates/peers", 6),
    // The cache, whose blocks are freed behind their readers; zeroed memory and the entries in it.
    // Two are allocators of tests that count.
    ("crates/flodb", 5),
    // The allocator of the tests that count; the crate itself forbids it.
    ("crates/rowstore", 1),
    // The calls of a PMIx library that is loaded, and their tests.
    ("crates/deltafs", 2),
    // Pointers of C: what they point to, the memory of results.
    ("crates/ffi", 2),
    // The pointers of this interface; opening; calls; listings; the message.
    ("crates/deltafs-c", 5),
    // A file for each group of calls; failures; the fuzzer; the function of a listener.
    ("crates/flodb-c", 14),
    // A file for each group of calls; failures; callbacks; the fuzzer.
    ("crates/leveldb-c", 13),
    // The lock of the interpreter, which a read takes back while it runs.
    ("crates/python", 1),
];

/// The crate that waits until a time comes; everybody else waits for an event.
const SLEEPING_CRATE: &str = "crates/measure";

const FORBID_UNSAFE: &str = "#![forbid(unsafe_code)]";

/// Rule: every Rust file opens with `//!`.
pub(super) fn headers(tree: &Tree) -> Vec<Breach> {
    tree.rust()
        .filter(|file| {
            let first = file.text.lines().find(|line| !line.trim().is_empty());
            !first.is_some_and(|line| line.starts_with("//!"))
        })
        .map(|file| Breach::new(&file.path, 1, "the file does not open with a `//!` header"))
        .collect()
}

/// Rule: no line of a Rust file is wider than the page, strings and comments included. A row of a
/// table in a comment cannot be broken, nor can an address, so these may be wider.
pub(super) fn columns(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in tree.rust() {
        for (index, line) in file.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX && !is_unbreakable(line) {
                let what = format!("{columns} columns, at most {COLUMNS_MAX}");
                breaches.push(Breach::new(&file.path, index + 1, what));
            }
        }
    }
    breaches
}

fn is_unbreakable(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("//! |") || line.starts_with("/// |") || line.contains("https://")
}

/// Rule: unsafe code only in the crates that are known for it, within their number of files; every
/// other crate forbids it in its root.
pub(super) fn unsafe_code(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut files_of_crate = vec![0; UNSAFE_CRATES.len()];
    for file in tree.rust() {
        let code = code_only(&file.text);
        let lines = lines_with_word(&code, "unsafe");
        let home = crate_of(&file.path);
        let Some(index) = UNSAFE_CRATES.iter().position(|(name, _)| Some(*name) == home) else {
            breaches.extend(
                lines
                    .iter()
                    .map(|line| Breach::new(&file.path, *line, "unsafe code in this crate")),
            );
            if is_crate_root(&file.path) && !code.contains(FORBID_UNSAFE) {
                breaches.push(Breach::new(&file.path, 0, format!("no `{FORBID_UNSAFE}`")));
            }
            continue;
        };
        files_of_crate[index] += usize::from(!lines.is_empty());
        if files_of_crate[index] > UNSAFE_CRATES[index].1 && !lines.is_empty() {
            let what = "unsafe code in more files than this crate may have";
            breaches.push(Breach::new(&file.path, lines[0], what));
        }
    }
    breaches
}

/// Rule: a test that is ignored says why.
pub(super) fn ignored_tests(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in tree.rust() {
        for (index, line) in code_only(&file.text).lines().enumerate() {
            if ignores_without_reason(line) {
                breaches.push(Breach::new(&file.path, index + 1, "`ignore` without a reason"));
            }
        }
    }
    breaches
}

/// Whether an attribute on this line of code holds `ignore` and no `=` behind it.
fn ignores_without_reason(line: &str) -> bool {
    let Some((_, attribute)) = line.split_once("#[") else { return false };
    if !has_word(attribute, "ignore") || attribute.contains('"') {
        return false;
    }
    let Some((_, rest)) = attribute.split_once("ignore") else { return false };
    !rest.trim_start().starts_with('=')
}

/// Rule: nobody sleeps but the crate of clocks: a sleep in place of an event is a race.
pub(super) fn sleeping(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in tree.rust().filter(|file| crate_of(&file.path) != Some(SLEEPING_CRATE)) {
        let code = code_only(&file.text);
        for line in lines_with_word(&code, "thread::sleep") {
            breaches.push(Breach::new(&file.path, line, "a sleep: wait for the event instead"));
        }
    }
    breaches
}

/// The folder of the crate that a file belongs to.
fn crate_of(path: &str) -> Option<&str> {
    let first = path.split('/').next()?;
    if first != "crates" {
        return Some(first);
    }
    let rest = &path[first.len() + 1..];
    let name = rest.split('/').next()?;
    Some(&path[..first.len() + 1 + name.len()])
}

fn is_crate_root(path: &str) -> bool {
    let home = crate_of(path).unwrap_or_default();
    ["src/lib.rs", "src/main.rs"].iter().any(|root| path == format!("{home}/{root}"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{places, tree};
    use super::*;

    #[test]
    fn a_file_without_a_header_is_found() {
        let tree = tree(&[
            ("crates/vfs/src/good.rs", "\n//! Good.\n"),
            ("crates/vfs/src/bad.rs", "// Not a header.\n//! Too late.\n"),
            ("crates/vfs/src/empty.rs", ""),
            ("docs/page.md", "no header needed"),
        ]);
        assert_eq!(
            places(&headers(&tree)),
            ["crates/vfs/src/bad.rs:1", "crates/vfs/src/empty.rs:1"]
        );
    }

    #[test]
    fn wide_lines_are_found_and_counted_in_characters() {
        let wide = "x".repeat(101);
        let full = "ü".repeat(100);
        let text = format!("{full}\n{wide}\n");
        assert_eq!(places(&columns(&tree(&[("a.rs", &text), ("a.md", &wide)]))), ["a.rs:2"]);
        let unbreakable = format!("    /// | {wide} |\n//! https://example.org/{wide}\n");
        assert_eq!(columns(&tree(&[("a.rs", &unbreakable)])), []);
        let comment = format!("/// {wide}\n");
        assert_eq!(places(&columns(&tree(&[("a.rs", &comment)]))), ["a.rs:1"]);
    }

    #[test]
    fn unsafe_code_outside_of_its_crates_is_found() {
        let forbidding = "//! x\n#![forbid(unsafe_code)]\n";
        let tree = tree(&[
            ("crates/store/src/lib.rs", forbidding),
            ("crates/store/src/a.rs", "// unsafe in prose\nlet a = \"unsafe\";\nunsafe { b() }\n"),
            ("crates/record/src/lib.rs", "//! x\n// #![forbid(unsafe_code)]\n"),
            ("crates/vfs/src/lib.rs", "unsafe fn a() {}\n"),
        ]);
        assert_eq!(
            places(&unsafe_code(&tree)),
            ["crates/store/src/a.rs:3", "crates/record/src/lib.rs:0"]
        );
    }

    #[test]
    fn unsafe_code_stays_within_its_number_of_files() {
        let tree = tree(&[
            ("crates/measure/src/lib.rs", "//! x\n"),
            ("crates/measure/src/a.rs", "unsafe { b() }\n"),
            ("crates/measure/src/b.rs", "\nunsafe { b() }\n"),
        ]);
        assert_eq!(places(&unsafe_code(&tree)), ["crates/measure/src/b.rs:2"]);
    }

    #[test]
    fn no_crate_may_hold_unsafe_code_in_any_number_of_files() {
        for (name, most) in UNSAFE_CRATES {
            let paths: Vec<String> = (0..=*most).map(|n| format!("{name}/src/m{n}.rs")).collect();
            let files: Vec<(&str, &str)> =
                paths.iter().map(|path| (path.as_str(), "unsafe { b() }\n")).collect();
            assert_eq!(unsafe_code(&tree(&files)).len(), 1, "{name}");
        }
    }

    #[test]
    fn ignored_tests_without_a_reason_are_found() {
        let text = "#[ignore]\n#[ignore = \"takes minutes\"]\n#[cfg_attr(miri, ignore)]\n\
                    #[cfg_attr(miri, ignore = \"slow\")]\n// #[ignore]\nlet ignore = a[0];\n";
        assert_eq!(places(&ignored_tests(&tree(&[("a.rs", text)]))), ["a.rs:1", "a.rs:3"]);
    }

    #[test]
    fn sleeping_is_found_outside_of_the_clocks() {
        let text = "std::thread::sleep(pause);\n// thread::sleep\nmythread::sleep();\n";
        let tree = tree(&[("crates/cli/tests/a.rs", text), ("crates/measure/src/clock.rs", text)]);
        assert_eq!(places(&sleeping(&tree)), ["crates/cli/tests/a.rs:1"]);
    }

    #[test]
    fn files_know_their_crate() {
        assert_eq!(crate_of("crates/vfs/src/lib.rs"), Some("crates/vfs"));
        assert_eq!(crate_of("xtask/src/main.rs"), Some("xtask"));
        assert!(is_crate_root("xtask/src/main.rs"));
        assert!(!is_crate_root("crates/vfs/src/real/lib.rs"));
    }
}
