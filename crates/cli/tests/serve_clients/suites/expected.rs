//! The tests of a suite that are known to fail, each with its reason, and the comparison.
//!
//! ```text
//!   [unit]              as the suite names its parts
//!   Reason in words.    why those below fail
//!     name of a test    one a line, as the suite prints it
//!   Not run: reason.    those below are not run: they would spoil others, or take very long
//!     name of a test
//!     *                 the whole unit is not run
//! ```
//!
//! Lines that begin with `;` are remarks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What a test of a suite came to: nothing when it passed, else what was said.
pub(super) type Seen = BTreeMap<String, Option<String>>;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) fails: BTreeSet<String>,
    pub(super) not_run: BTreeSet<String>,
}

impl Expected {
    /// The units of the list `name` beside this file.
    pub(super) fn listed(name: &str) -> BTreeMap<String, Expected> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve_clients/suites");
        Expected::units(&std::fs::read_to_string(folder.join(name)).unwrap())
    }

    /// The units of a list, by their names.
    ///
    /// # Panics
    ///
    /// When a line is none of those above, or a test is listed twice.
    fn units(list: &str) -> BTreeMap<String, Expected> {
        let mut units: BTreeMap<String, Expected> = BTreeMap::new();
        let (mut unit, mut reason) = (None, "");
        for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with(';')) {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                let is_new = units.insert(name.to_owned(), Expected::default()).is_none();
                assert!(is_new, "[{name}] is listed twice");
                (unit, reason) = (Some(name), "");
            } else if let Some(name) = line.strip_prefix("  ") {
                let unit = unit.and_then(|unit| units.get_mut(unit));
                let unit = unit.unwrap_or_else(|| panic!("no unit above: {line}"));
                assert!(!reason.is_empty(), "no reason above: {line}");
                let is_run = !reason.starts_with("Not run: ");
                let names = if is_run { &mut unit.fails } else { &mut unit.not_run };
                assert!(names.insert(name.to_owned()), "listed twice: {line}");
            } else {
                assert!(line.ends_with('.'), "a reason is a sentence: {line}");
                reason = line;
            }
        }
        units
    }

    /// Whether the unit is run at all.
    pub(super) fn is_run(&self) -> bool {
        !self.not_run.contains("*")
    }

    /// Holds what was seen of a unit against this, one line for each difference.
    pub(super) fn differences(&self, unit: &str, seen: &Seen) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, failure) in seen {
            match (failure, self.fails.contains(name)) {
                (Some(said), false) => lines.push(format!("{unit}: fails: {name}\n    {said}")),
                (None, true) => lines.push(format!("{unit}: is listed, and passes: {name}")),
                _ => {}
            }
        }
        let missing = self.fails.iter().filter(|name| !seen.contains_key(*name));
        lines.extend(missing.map(|name| format!("{unit}: is listed, and was not run: {name}")));
        lines
    }
}

/// Fails unless there are no differences; says how much was compared.
#[track_caller]
pub(super) fn agree(suite: &str, seen: &[Seen], differences: &[String]) {
    let count: usize = seen.iter().map(Seen::len).sum();
    let failed = seen.iter().flat_map(Seen::values).filter(|failure| failure.is_some()).count();
    println!("{suite}: {} passed, {failed} failed", count - failed);
    assert!(differences.is_empty(), "{suite}:\n{}", differences.join("\n"));
    assert!(count > 0, "{suite}: nothing was run");
}

#[test]
fn what_is_listed_has_to_fail_and_nothing_else_may() {
    let list = "; a remark\n[a]\nNot served.\n  one\n  two\nNot run: it takes an hour.\n  three\n\
                [b]\nNot run: not served.\n  *\n";
    let units = Expected::units(list);
    assert!(units["a"].is_run() && !units["b"].is_run());
    assert_eq!(units["a"].not_run, BTreeSet::from(["three".to_owned()]));
    let seen = |tests: &[(&str, Option<&str>)]| -> Seen {
        tests.iter().map(|(name, why)| ((*name).to_owned(), why.map(str::to_owned))).collect()
    };
    let good = seen(&[("one", Some("x")), ("two", Some("x")), ("four", None)]);
    assert_eq!(units["a"].differences("a", &good), [""; 0]);
    let bad = seen(&[("one", None), ("four", Some("x"))]);
    let wanted = [
        "a: fails: four\n    x",
        "a: is listed, and passes: one",
        "a: is listed, and was not run: two",
    ];
    assert_eq!(units["a"].differences("a", &bad), wanted);
}
