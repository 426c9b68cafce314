//! Tells the program which commit it is built from, as `KEYRACK_REVISION`. Where there is no git or
//! no repository, as in a source package, the variable may be set by hand; without it the program
//! has its version alone.

use std::process::Command;

const VARIABLE: &str = "KEYRACK_REVISION";

fn main() {
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os(VARIABLE).is_some() {
        return;
    }
    let Some(revision) = git(&["rev-parse", "HEAD"]) else { return };
    let is_commit = revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_commit {
        return;
    }
    println!("cargo::rustc-env={VARIABLE}={revision}");
    // HEAD changes with the branch, the log of HEAD with each commit.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", name]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// The line that git prints, where it can.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
