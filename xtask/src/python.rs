//! The Python package: its tests, and its wheel.
//!
//! ```text
//!   target/python          a virtual environment with the pinned packages of the tests
//!   maturin build          a wheel of the tests' build, installed there
//!   pytest                 crates/python/tests
//!
//!   maturin build --release                       what users install, and the glibc it asks for
//! ```
//!
//! The environment is made once, and again when the list of packages changes. The tests run what
//! a wheel installs, so that a file that is missing in it is noticed.

use std::fs;
use std::path::{Path, PathBuf};

use crate::options::Options;
use crate::output::say;
use crate::stage::{Outcome, Stop, run, stage};
use crate::tally::count_tests;
use crate::workspace::Workspace;

const REQUIREMENTS: &str = "crates/python/tests/requirements.txt";
const TESTS: &str = "crates/python/tests";

/// `cargo xtask python`: the tests of the package.
///
/// # Errors
/// `Stage` when it does not build, or a test fails or is skipped; `Broken` without Python.
pub(crate) fn tests(workspace: &Workspace, _: &Options) -> Outcome {
    let python = stage("python environment", || environment(workspace))?;
    stage("python build", || {
        let wheels = empty_folder(workspace, "python-wheels")?;
        // The build of the tests, without what only a debugger reads.
        let arguments = ["--profile", "dev", "--strip", "--compatibility", "linux"];
        run(maturin(workspace, &python, &wheels).args(arguments))?;
        run(pip(workspace, &python)
            .args(["install", "--no-deps", "--force-reinstall"])
            .args(["--no-index".as_ref(), the_wheel(&wheels)?.as_os_str()]))
    })?;
    stage("python tests", || {
        let mut command = workspace.tool(python.join("bin/python"));
        command.args(["-X", "faulthandler", "-m", "pytest", "-q", "-p", "no:cacheprovider"]);
        command.arg(TESTS).env("PYTHONDONTWRITEBYTECODE", "1").env_remove("PYTHONPATH");
        let (tally, exited_well) = count_tests(&mut command, &mut |line| say(line))?;
        if exited_well && tally.skipped == 0 && tally.passed > 0 {
            return Ok(());
        }
        Err(Stop::Stage(format!("tests of the Python package: {}", tally.closing())))
    })
}

/// `cargo xtask wheel`: a wheel for users, with the glibc that it asks for in its name.
///
/// # Errors
/// `Stage` when it does not build, or is of no use alone; `Broken` without Python.
pub(crate) fn wheel(workspace: &Workspace, _: &Options) -> Outcome {
    let python = stage("python environment", || environment(workspace))?;
    let wheel = stage("wheel", || {
        let wheels = empty_folder(workspace, "wheels")?;
        // The tag is the lowest of manylinux that the library meets: maturin looks at its symbols.
        run(maturin(workspace, &python, &wheels).args(["--release", "--strip"]))?;
        the_wheel(&wheels)
    })?;
    stage("wheel alone", || try_alone(workspace, &wheel))?;
    say(&format!("{}: {}", wheel.display(), asked_glibc(&wheel)));
    Ok(())
}

/// What is run with a wheel and no other package.
const FIRST_STORE: &str = "\
import keyrack, keyrack.fs, sys, tempfile
with tempfile.TemporaryDirectory() as folder:
    with keyrack.open(folder + '/store') as db:
        db[b'key'] = b'value'
    with keyrack.open(folder + '/store', read_only=True) as db:
        assert dict(db.items()) == {b'key': b'value'}
    with keyrack.fs.FileSystem(folder + '/log') as fs:
        fs.write_bytes('/a', b'hello')
        assert fs.listdir('/') == ['a']
";

/// Installs a wheel in an environment of its own, and uses it.
fn try_alone(workspace: &Workspace, wheel: &Path) -> Outcome {
    let folder = workspace.target("python-wheel");
    run(workspace.tool("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    run(pip(workspace, &folder).args(["install", "--no-index"]).arg(wheel))?;
    run(workspace.tool(folder.join("bin/python")).args(["-I", "-c", FIRST_STORE]))
}

/// What the name of a wheel says about glibc.
fn asked_glibc(wheel: &Path) -> String {
    let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let version = name.split_once("manylinux_").and_then(|(_, rest)| {
        let mut parts = rest.split('_');
        Some((parts.next()?.parse::<u32>().ok()?, parts.next()?.parse::<u32>().ok()?))
    });
    match version {
        Some((major, minor)) => format!("for glibc {major}.{minor} and later"),
        None => "for this machine alone: its symbols fit no manylinux".to_owned(),
    }
}

/// The environment with the packages of the tests.
fn environment(workspace: &Workspace) -> Outcome<PathBuf> {
    let folder = workspace.target("python");
    let wanted = fs::read_to_string(workspace.root().join(REQUIREMENTS))
        .map_err(|error| Stop::Broken(format!("cannot read {REQUIREMENTS}: {error}")))?;
    let installed = folder.join("installed");
    if fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
        return Ok(folder);
    }
    run(workspace.tool("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    run(pip(workspace, &folder).args(["install", "--requirement", REQUIREMENTS]))?;
    fs::write(&installed, wanted)
        .map_err(|error| Stop::Broken(format!("cannot write {}: {error}", installed.display())))?;
    Ok(folder)
}

fn pip(workspace: &Workspace, python: &Path) -> std::process::Command {
    let mut command = workspace.tool(python.join("bin/pip"));
    command.args(["--quiet", "--disable-pip-version-check"]);
    command
}

fn maturin(workspace: &Workspace, python: &Path, wheels: &Path) -> std::process::Command {
    let mut command = workspace.tool(python.join("bin/maturin"));
    command.args(["build", "--locked", "--interpreter"]).arg(python.join("bin/python"));
    command.arg("--out").arg(wheels);
    command
}

/// A folder below `target` without what an earlier run has left in it.
fn empty_folder(workspace: &Workspace, name: &str) -> Outcome<PathBuf> {
    let folder = workspace.target(name);
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Stop::Broken(format!("cannot remove {}: {error}", folder.display())))
        }
        _ => Ok(folder),
    }
}

/// The one wheel in a folder.
fn the_wheel(folder: &Path) -> Outcome<PathBuf> {
    let broken = |what: String| Stop::Broken(format!("{}: {what}", folder.display()));
    let entries = fs::read_dir(folder).map_err(|error| broken(error.to_string()))?;
    let wheels: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .collect();
    match &wheels[..] {
        [wheel] => Ok(wheel.clone()),
        wheels => Err(broken(format!("{} wheels, not 1", wheels.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn the_name_of_a_wheel_says_which_glibc_it_asks_for() {
        let told = |name: &str| asked_glibc(&Path::new("target/wheels").join(name));
        assert_eq!(
            told("keyrack-0.1.0-cp310-abi3-manylinux_2_34_x86_64.whl"),
            "for glibc 2.34 and later"
        );
        assert!(told("keyrack-0.1.0-cp310-abi3-linux_x86_64.whl").starts_with("for this machine"));
    }

    #[test]
    fn a_folder_has_one_wheel_or_is_refused() {
        let scratch = Scratch::new("wheels");
        assert!(matches!(the_wheel(&scratch.path().join("none")), Err(Stop::Broken(_))));
        scratch.write("a.txt", "");
        assert!(matches!(the_wheel(scratch.path()), Err(Stop::Broken(_))));
        scratch.write("a.whl", "");
        assert_eq!(the_wheel(scratch.path()).ok(), Some(scratch.path().join("a.whl")));
        scratch.write("b.whl", "");
        assert!(matches!(the_wheel(scratch.path()), Err(Stop::Broken(_))));
    }

    #[test]
    fn the_packages_of_the_tests_are_pinned() {
        let workspace = Workspace::find().expect("found");
        let text = fs::read_to_string(workspace.root().join(REQUIREMENTS)).expect("read");
        let packages = text.lines().filter(|line| !line.starts_with('#'));
        assert!(packages.clone().count() > 0);
        packages.for_each(|line| assert!(line.contains("=="), "{line}"));
    }
}
