//! The golden scripts of the contract, compiled in so that an installed program can run them, and
//! the comparison of what an engine answers with what they say.

use crate::script::run_script;
use keyrack_store::{Result, Store};

macro_rules! scripts {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../scripts/store/", $name, ".txt")))),*]
    };
}

/// The scripts, each with its name.
const SCRIPTS: &[(&str, &str)] = scripts![
    "batch" "binary_keys" "empty" "key_order" "large" "multi_get" "point" "prefixes"
    "scan" "scan_rev" "scan_stop" "sessions" "slices" "snapshot" "update"
];

/// How many lines of a difference are shown.
const DIFF_LINES_MAX: usize = 40;

/// The outcome of all scripts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// How many scripts passed.
    pub passed: usize,
    /// The others.
    pub failed: Vec<ScriptFailure>,
    /// What was left out because the engine has no such thing: script and reason.
    pub notes: Vec<String>,
}

/// A script that an engine answered differently.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScriptFailure {
    /// Its name.
    pub script: String,
    /// The lines that differ: `-` expected, `+` found; or why it could not run.
    pub diff: String,
}

/// The scripts that [`check_scripts`] runs, as pairs of name and text.
#[must_use]
pub fn scripts() -> &'static [(&'static str, &'static str)] {
    SCRIPTS
}

/// Runs every script over a fresh store from `open` and closes the store afterwards.
#[must_use]
pub fn check_scripts(open: &dyn Fn() -> Result<Box<dyn Store>>) -> Report {
    let mut report = Report::default();
    for (name, script) in SCRIPTS {
        match check(open, script) {
            Ok((None, notes)) => {
                report.passed += 1;
                report.notes.extend(notes.into_iter().map(|note| format!("{name}: {note}")));
            }
            Ok((Some(diff), _)) | Err(diff) => {
                report.failed.push(ScriptFailure { script: (*name).to_owned(), diff });
            }
        }
    }
    report
}

type Checked = std::result::Result<(Option<String>, Vec<String>), String>;

fn check(open: &dyn Fn() -> Result<Box<dyn Store>>, script: &str) -> Checked {
    let store = open().map_err(|error| format!("cannot open the store: {error}"))?;
    let run = run_script(store.as_ref(), script).map_err(|error| error.to_string())?;
    store.close().map_err(|error| format!("cannot close the store: {error}"))?;
    let differs = run.text != script;
    Ok((differs.then(|| diff(script, &run.text)), run.notes))
}

/// The lines in which the texts differ, each group under the number of its line in `expected`.
///
/// What is kept is a longest common subsequence of lines, by the usual table, so O(lines squared):
/// scripts have a hundred lines.
fn diff(expected: &str, found: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), found.lines().collect());
    // common[i][j] is the length of the longest common subsequence of a[i..] and b[j..].
    let mut common = vec![vec![0u32; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i][j] = if a[i] == b[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let mut lines = Vec::new();
    let (mut i, mut j, mut same) = (0, 0, true);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            (i, j, same) = (i + 1, j + 1, true);
            continue;
        }
        if same {
            lines.push(format!("line {}:\n", i + 1));
            same = false;
        }
        if j == b.len() || (i < a.len() && common[i + 1][j] >= common[i][j + 1]) {
            lines.push(format!("- {}\n", a[i]));
            i += 1;
        } else {
            lines.push(format!("+ {}\n", b[j]));
            j += 1;
        }
    }
    if lines.len() > DIFF_LINES_MAX {
        let more = lines.len() - DIFF_LINES_MAX;
        lines.truncate(DIFF_LINES_MAX);
        lines.push(format!("... {more} more lines\n"));
    }
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_store::ModelStore;
    use keyrack_vfs::{Fs as _, RealFs};
    use std::path::{Path, PathBuf};

    fn directory() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/store")
    }

    /// With `KEYRACK_REWRITE=1` in the environment the files are written instead of compared.
    #[test]
    fn the_model_answers_every_script() {
        let rewrite = std::env::var_os("KEYRACK_REWRITE").is_some();
        for (name, script) in SCRIPTS {
            let run = run_script(&ModelStore::new(), script).unwrap();
            assert!(run.notes.is_empty(), "{name}: {:?}", run.notes);
            if rewrite {
                let path = directory().join(format!("{name}.txt"));
                RealFs.write_atomic(&path, run.text.as_bytes()).unwrap();
            } else {
                assert!(run.text == *script, "{name}\n{}", diff(script, &run.text));
            }
        }
    }

    #[test]
    fn every_file_is_in_the_table() {
        let entries = RealFs.list(&directory()).unwrap();
        let mut names: Vec<String> = entries
            .iter()
            .map(|entry| entry.name.to_string_lossy().trim_end_matches(".txt").to_owned())
            .collect();
        names.sort();
        let table: Vec<&str> = SCRIPTS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, table);
    }

    #[test]
    fn a_difference_shows_only_what_differs() {
        assert_eq!(diff("a\nb\nc\n", "a\nx\ny\nc\n"), "line 2:\n- b\n+ x\n+ y\n");
        let (old, new) = ("a\nb\nc\nd\ne\n", "a\nc\nd\nE\n");
        assert_eq!(diff(old, new), "line 2:\n- b\nline 5:\n- e\n+ E\n");
        assert_eq!(diff("a\n", "a\nb\n"), "line 2:\n+ b\n");
        let long: String = (0..100).map(|n| format!("{n}\n")).collect();
        assert!(diff("", &long).contains("61 more lines"));
    }

    #[test]
    fn a_store_that_does_not_open_fails_every_script() {
        let report = check_scripts(&|| Err(keyrack_store::Error::usage("no")));
        assert_eq!((report.passed, report.failed.len()), (0, SCRIPTS.len()));
        assert!(report.failed[0].diff.contains("cannot open the store: no"));
    }
}
