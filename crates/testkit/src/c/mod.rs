//! Libraries with an interface for C, tested as their users have them: programs that are compiled
//! against the header and the library, and the header itself. With the feature `c`.
//!
//! ```text
//!   src/*.rs --header--> include/x.h            compared, or written with KEYRACK_REWRITE=1
//!   tests/x.c --compile--> program              C99 with every warning an error
//!   calls(x.h)  =  calls(x.c)  =  exported(libx.so)
//! ```

mod header;

pub use header::{Header, cbindgen};

use keyrack_vfs::{FileKind, Fs, RealFs};
use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs a command that must succeed.
///
/// # Panics
/// It does not; what it said is in the message.
#[track_caller]
pub fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let told = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command:?}: {}\n{said}{told}", output.status);
    output
}

/// The text of a file.
///
/// # Panics
/// It cannot be read, or is no text.
#[must_use]
pub fn read(path: &Path) -> String {
    let bytes = RealFs.read(path).unwrap_or_else(|error| panic!("{error}"));
    String::from_utf8(bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The library of this name, such as `libkeyrack`, and kind, `so` or `a`, that belongs to the test:
/// the newest beside it. Cargo may add a dash and a number to the name.
///
/// # Panics
/// There is none.
#[must_use]
pub fn library(name: &str, extension: &str) -> PathBuf {
    let test = env::current_exe().expect("a test has a path");
    let deps = test.parent().expect("a test is in a directory");
    let is_it = |path: &Path| {
        let stem = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
        let rest = stem.strip_prefix(name);
        path.extension() == Some(OsStr::new(extension))
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let entries = RealFs.list(deps).unwrap_or_else(|error| panic!("{error}"));
    let files = entries.iter().filter(|entry| entry.kind == FileKind::File);
    let found = files.map(|entry| deps.join(&entry.name)).filter(|path| is_it(path));
    let newest = found.max_by_key(|path| path.metadata().and_then(|it| it.modified()).ok());
    newest.unwrap_or_else(|| panic!("no {name}.{extension} in {}", deps.display()))
}

/// Linker arguments for a shared library, which the program finds at the same place when it runs.
///
/// # Panics
/// It is in no directory.
#[must_use]
pub fn shared(library: &Path) -> Vec<OsString> {
    let dir = library.parent().expect("a library is in a directory");
    let mut rpath = OsString::from("-Wl,-rpath,");
    rpath.push(dir);
    vec![library.into(), rpath]
}

/// Linker arguments for a static library of Rust's.
#[must_use]
pub fn archived(library: &Path) -> Vec<OsString> {
    let mut arguments = vec![library.into()];
    arguments.extend(["-lpthread", "-ldl", "-lm"].map(OsString::from));
    arguments
}

/// Compiles a source of C99, or of C++ if its name ends in `.cc`, to the program `to`.
///
/// # Panics
/// The compiler refuses it or warns.
#[track_caller]
pub fn compile(source: &Path, include: &Path, libraries: &[OsString], to: &Path) {
    let is_cpp = source.extension() == Some(OsStr::new("cc"));
    let (compiler, standard) = if is_cpp { ("c++", "-std=c++11") } else { ("cc", "-std=c99") };
    let mut command = Command::new(compiler);
    command.args([standard, "-D_GNU_SOURCE", "-pthread", "-O1", "-g"]);
    command.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    succeeds(command.arg("-I").arg(include).arg(source).args(libraries).arg("-o").arg(to));
}

/// The names that begin with `prefix` and stand before a bracket, on lines that are no comments.
#[must_use]
pub fn calls(text: &str, prefix: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with(['*', '/'])) {
        for (start, _) in line.match_indices(prefix) {
            let rest = &line[start..];
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (name, behind) = rest.split_at(end.unwrap_or(rest.len()));
            if behind.starts_with('(') {
                found.insert(name.to_owned());
            }
        }
    }
    found
}

/// The names that a shared library has for programs.
///
/// # Panics
/// `nm` cannot read it.
#[must_use]
pub fn exported(library: &Path) -> BTreeSet<String> {
    let output = succeeds(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    names.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_names_before_a_bracket_that_no_comment_has() {
        let text =
            "/* x_no(1) */\n * x_no(2)\n// x_no(3)\nint x_one(void); y = x_two(x_three(1));\n";
        let text = text.to_owned() + "x_type *x_four(x_type x_name);\n";
        let found: Vec<String> = calls(&text, "x_").into_iter().collect();
        assert_eq!(found, ["x_four", "x_one", "x_three", "x_two"]);
    }
}
