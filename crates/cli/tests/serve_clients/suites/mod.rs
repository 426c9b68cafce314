//! The suites that come with memcached, Redis, pymemcache and python-binary-memcached, run against
//! the real binary.
//!
//! ```text
//!   .ci/run fetches the sources --> cache folder --> copied into the lab of a test
//!   stand-ins for the servers that the suites start --> keyrack serve
//!   what passed and failed, by name --> compared with the list of expected failures
//! ```
//!
//! The lists lie beside this file. A test fails when a listed one passes, when one that is not
//! listed fails, and when a listed one is not there. `KEYRACK_SUITES` is another folder with the
//! sources than that of `.ci/run`.

mod expected;
mod memcached;
mod python;
mod redis;

use super::skip;
use crate::support::Lab;
use std::path::{Path, PathBuf};

/// Where the sources of suite `name` lie, or `None` and a line that says that `test` is skipped.
///
/// # Panics
///
/// When they are missing although `CI` is set.
#[track_caller]
fn sources(test: &str, name: &str) -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    let cache = cache.unwrap_or_else(|| "/tmp/.cache".into()).join("keyrack-ci/suites");
    let found = folder("KEYRACK_SUITES").unwrap_or(cache).join(name);
    if found.is_dir() {
        return Some(found);
    }
    skip(test, &format!("{} (.ci/run fetches it)", found.display()));
    None
}

/// Copies a folder of the sources into the lab: the suites write beside themselves.
fn copy(lab: &Lab, from: &Path, to: &str) {
    let words = ["-R".as_ref(), from.as_os_str(), lab.path(to).as_os_str()].map(ToOwned::to_owned);
    lab.tool(Path::new("cp"), &words).exits(0);
}

fn write_program(lab: &Lab, name: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    lab.write(name, text);
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(lab.path(name), mode).unwrap();
}
