//! The programs of `examples/` over the library for C, in C, Go and JavaScript.
//!
//! ```text
//! build      cargo build -p keyrack-flodb-c, and an installation below TARGET/examples
//! c, go      find it by pkg-config
//! node       npm ci in a copy below TARGET/examples, as it writes where it is
//! each       prints what examples/expected.txt has
//! ```
//!
//! A language whose tools are missing is skipped with a line that says so; where `CI` is set, that
//! is a failure. Go and npm may use the network: npm does for koffi, the call of C from JavaScript.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::options::Options;
use crate::output::say;
use crate::stage::{Outcome, Stop, run, shown, stage};
use crate::workspace::{Workspace, find_program};

/// The crate that has the library, and its folder.
const PACKAGE: &str = "keyrack-flodb-c";
const FOLDER: &str = "crates/flodb-c";

/// A language: its name, the programs that it needs, and what builds and runs its example.
struct Language {
    name: &'static str,
    needs: &'static [&'static str],
    command: fn(&Place) -> Outcome<Command>,
}

const LANGUAGES: [Language; 3] = [
    Language { name: "c", needs: &["cc", "pkg-config"], command: c },
    Language { name: "go", needs: &["go", "cc", "pkg-config"], command: go },
    Language { name: "node", needs: &["node", "npm"], command: node },
];

/// Where examples are, and what they need.
struct Place {
    examples: PathBuf,
    prefix: PathBuf,
}

/// `cargo xtask examples`.
///
/// # Errors
/// `Stage` when a program does not build or prints something else.
pub(crate) fn command(workspace: &Workspace, _: &Options) -> Outcome {
    let place = stage("examples build", || install(workspace))?;
    let expected = place.examples.join("expected.txt");
    let expected = fs::read_to_string(&expected).map_err(|error| broken(&expected, &error))?;
    for language in &LANGUAGES {
        stage(&format!("example in {}", language.name), || check(&place, language, &expected))?;
    }
    Ok(())
}

fn broken(path: &Path, error: &io::Error) -> Stop {
    Stop::Broken(format!("{}: {error}", path.display()))
}

/// Builds the library, and installs it as its page says.
fn install(workspace: &Workspace) -> Outcome<Place> {
    run(&mut workspace.cargo(&["build", "-p", PACKAGE]))?;
    let prefix = workspace.target("examples");
    let folder = workspace.root().join(FOLDER);
    let pkg_config = prefix.join("lib/pkgconfig");
    for made in [prefix.join("include"), pkg_config.clone()] {
        fs::create_dir_all(&made).map_err(|error| broken(&made, &error))?;
    }
    let copy = |from: PathBuf, to: &str| {
        fs::copy(&from, prefix.join(to)).map(drop).map_err(|error| broken(&from, &error))
    };
    copy(folder.join("include/keyrack.h"), "include/keyrack.h")?;
    copy(workspace.target("debug").join("libkeyrack.so"), "lib/libkeyrack.so")?;
    let template = folder.join("keyrack.pc.in");
    let text = fs::read_to_string(&template).map_err(|error| broken(&template, &error))?;
    let text = text.replace("@PREFIX@", &prefix.to_string_lossy());
    let text = text.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    let file = pkg_config.join("keyrack.pc");
    fs::write(&file, text).map_err(|error| broken(&file, &error))?;
    Ok(Place { examples: workspace.root().join("examples"), prefix })
}

/// Runs the example of a language in a new directory.
fn check(place: &Place, language: &Language, expected: &str) -> Outcome {
    if let Some(missing) = language.needs.iter().find(|name| find_program(name).is_none()) {
        let line = format!("the example in {} ({missing} is not installed)", language.name);
        if std::env::var_os("CI").is_some() {
            return Err(Stop::Stage(line));
        }
        say(&format!("SKIPPED: {line}"));
        return Ok(());
    }
    let dir = place.prefix.join(format!("{}-data", language.name));
    empty(&dir)?;
    let mut command = (language.command)(place)?;
    let line = shown(&command);
    let output = command
        .arg(&dir)
        .envs(variables(place))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Stop::Broken(format!("cannot start `{line}`: {error}")))?;
    let found = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(Stop::Stage(format!("`{line}` did not succeed ({})", output.status)));
    }
    if found != expected {
        return Err(Stop::Stage(format!("`{line}` printed\n{found}and not\n{expected}")));
    }
    Ok(())
}

/// An empty directory, whatever was there.
fn empty(dir: &Path) -> Outcome {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(broken(dir, &error)),
        _ => {}
    }
    fs::create_dir_all(dir).map_err(|error| broken(dir, &error))
}

/// By which compilers, and programs when they run, find the library.
fn variables(place: &Place) -> [(&'static str, OsString); 2] {
    let lib = place.prefix.join("lib");
    [
        ("PKG_CONFIG_PATH", lib.join("pkgconfig").into_os_string()),
        ("LD_LIBRARY_PATH", lib.into_os_string()),
    ]
}

fn c(place: &Place) -> Outcome<Command> {
    let program = place.prefix.join("shop");
    // The shell takes the flags apart, as it does for a person.
    let script = "exec cc -std=c99 -D_GNU_SOURCE -pthread -Wall -Wextra -Wpedantic -Werror \
                  \"$1\" $(pkg-config --cflags --libs keyrack) -o \"$2\"";
    let mut compile = Command::new("sh");
    compile.args(["-c", script, "sh"]).arg(place.examples.join("c/shop.c")).arg(&program);
    run(compile.envs(variables(place)))?;
    Ok(Command::new(program))
}

fn go(place: &Place) -> Outcome<Command> {
    let mut command = Command::new("go");
    command.args(["run", "."]).current_dir(place.examples.join("go"));
    Ok(command)
}

fn node(place: &Place) -> Outcome<Command> {
    let copy = place.prefix.join("node");
    empty(&copy)?;
    for name in ["package.json", "package-lock.json", "shop.mjs"] {
        let from = place.examples.join("node").join(name);
        fs::copy(&from, copy.join(name)).map_err(|error| broken(&from, &error))?;
    }
    let mut npm = Command::new("npm");
    run(npm.args(["ci", "--no-audit", "--no-fund", "--silent"]).current_dir(&copy))?;
    let mut command = Command::new("node");
    command.arg("shop.mjs").current_dir(copy);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn what_an_example_prints_is_compared() {
        let scratch = Scratch::new("examples");
        let place =
            Place { examples: scratch.path().to_path_buf(), prefix: scratch.path().to_path_buf() };
        let says: fn(&Place) -> Outcome<Command> = |_| {
            let mut command = Command::new("sh");
            command.args(["-c", "echo \"$1\" | grep -c data$; echo $PKG_CONFIG_PATH", "sh"]);
            Ok(command)
        };
        let language = Language { name: "sh", needs: &["sh"], command: says };
        let folder = scratch.path().join("lib/pkgconfig");
        let expected = format!("1\n{}\n", folder.display());
        assert!(check(&place, &language, &expected).is_ok());
        let Err(Stop::Stage(line)) = check(&place, &language, "else\n") else { panic!() };
        assert!(line.contains("and not\nelse\n"), "{line}");
        let fails = Language { command: |_| Ok(Command::new("false")), ..language };
        assert!(matches!(check(&place, &fails, ""), Err(Stop::Stage(_))));
    }

    #[test]
    fn an_empty_directory_is_empty() {
        let scratch = Scratch::new("examples-empty");
        scratch.write("dir/file", "text");
        let dir = scratch.path().join("dir");
        empty(&dir).expect("emptied");
        assert_eq!(fs::read_dir(&dir).expect("there").count(), 0);
    }
}
