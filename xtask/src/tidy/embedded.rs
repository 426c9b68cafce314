//! How many packages a program builds that embeds a crate of this workspace.
//!
//! ```text
//! cargo tree -> "name vX.Y.Z (...)", a line for each edge -> packages -> more than the limit?
//! ```
//!
//! A package counts once for each version: the crate itself, ours below it and those of others, at
//! run time, in build scripts and as macros; with default features, on Linux with x86-64. Packages
//! of tests do not count. Only cargo knows which these are, so the rule asks it.

use std::collections::BTreeSet;

use super::{Breach, Tree};
use crate::stage::{Outcome, Stop, shown};
use crate::workspace::Workspace;

/// The crates that people embed, and how many packages each may bring. A limit goes up with a
/// reason in `docs/architecture.md`, and down whenever it can.
const LIMITS: &[(&str, usize)] = &[("flodb", 20)];

/// Rule: embedding a crate brings few packages.
///
/// # Errors
/// `Broken` when cargo cannot say which packages there are.
pub(super) fn packages(workspace: &Workspace, tree: &Tree) -> Outcome<Vec<Breach>> {
    let mut breaches = Vec::new();
    for &(folder, packages_max) in LIMITS {
        let manifest = format!("crates/{folder}/Cargo.toml");
        if tree.paths.contains(&manifest) {
            let listed = list(workspace, folder)?;
            breaches.extend(judge(&manifest, folder, packages_max, &listed));
        }
    }
    Ok(breaches)
}

/// What cargo says of the packages of a crate.
fn list(workspace: &Workspace, folder: &str) -> Outcome<String> {
    let mut command = workspace.cargo(&["tree", "--quiet", "--package"]);
    command.arg(format!("keyrack-{folder}"));
    command.args(["--edges", "normal,build", "--prefix", "none", "--format", "{p}"]);
    command.args(["--target", "x86_64-unknown-linux-gnu"]);
    let line = shown(&command);
    let output = command
        .output()
        .map_err(|error| Stop::Broken(format!("cannot start `{line}`: {error}")))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(Stop::Broken(format!("`{line}` did not succeed: {}", why.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The breach of a crate whose packages are `listed`.
fn judge(manifest: &str, folder: &str, packages_max: usize, listed: &str) -> Option<Breach> {
    let count = names(listed).len();
    let what = format!(
        "keyrack-{folder} brings {count} packages, itself included; at most {packages_max} may \
         be: see `cargo tree -p keyrack-{folder} -e normal,build`"
    );
    (count > packages_max).then(|| Breach::new(manifest, 0, what))
}

/// Name and version of each package.
fn names(listed: &str) -> BTreeSet<(&str, &str)> {
    let words = listed.lines().map(str::split_whitespace);
    words.filter_map(|mut words| words.next().zip(words.next())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "\
keyrack-flodb v0.1.0 (/home/x/keyrack/crates/flodb)
rustix v1.1.6
bitflags v2.13.2
keyrack-vfs v0.1.0 (/home/x/keyrack/crates/vfs)
rustix v1.1.6 (*)
syn v2.0.1
syn v3.0.9 (proc-macro)
";

    #[test]
    fn a_package_counts_once_for_each_version() {
        let found = names(LISTED);
        assert_eq!(found.len(), 6, "{found:?}");
        assert!(found.contains(&("syn", "v3.0.9")) && found.contains(&("syn", "v2.0.1")));
        assert_eq!(names("\n"), BTreeSet::new());
    }

    #[test]
    fn one_package_too_many_is_a_breach() {
        let judged = |packages_max| judge("crates/flodb/Cargo.toml", "flodb", packages_max, LISTED);
        assert_eq!(judged(6), None);
        assert_eq!(
            judged(5).map(|breach| breach.to_string()).as_deref(),
            Some(
                "crates/flodb/Cargo.toml: keyrack-flodb brings 6 packages, itself included; at \
                 most 5 may be: see `cargo tree -p keyrack-flodb -e normal,build`"
            )
        );
    }

    #[test]
    fn cargo_knows_the_packages_of_every_crate_with_a_limit() {
        let workspace = Workspace::find().expect("found");
        for (folder, _) in LIMITS {
            let listed = list(&workspace, folder).expect("listed");
            let own = format!("keyrack-{folder}");
            assert!(names(&listed).iter().any(|(name, _)| *name == own), "{listed}");
        }
    }
}
