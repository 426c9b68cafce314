//! `keyrack serve` and the clients that people have: programs and libraries of others, as Debian
//! packages them, against the real binary.
//!
//! ```text
//!   memccapable, memccat, ...    redis-cli, redis-benchmark    pymemcache, redis-py    Chromium
//!                 \                          |                        /               /
//!                  `---- nutcracker ---------+-----------------------'     --admin --'
//!                            |               |
//!                     keyrack serve   keyrack serve
//! ```
//!
//! `.ci/run` installs all of them. On another machine a test whose program is missing says so in
//! one line and is skipped; where `CI` is set it fails.

pub(crate) mod browser;
mod dashboard;
mod libmemcached;
mod nutcracker;
mod python;
mod redis_tools;
mod suites;
mod together;

use crate::serve::Served;
use crate::support::Lab;
use std::path::{Path, PathBuf};

/// A server of all protocols on ports of the kernel's choice, with a log.
const ALL: &str = "--data-dir data --threads 2 --listen memcached://127.0.0.1:0 \
                   --listen resp://127.0.0.1:0 --listen masstree://127.0.0.1:0";

/// Where programs of the system lie that the `PATH` of a user leaves out.
const SYSTEM: [&str; 2] = ["/usr/bin", "/usr/sbin"];

/// The path of a program, or `None` and a line that says that `test` is skipped.
///
/// # Panics
///
/// When it is missing although `CI` is set.
#[track_caller]
fn program(test: &str, name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM.iter().map(PathBuf::from));
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    if found.is_none() {
        skip(test, name);
    }
    found
}

/// Says that `test` does not run for want of `name`.
#[track_caller]
fn skip(test: &str, name: &str) {
    assert!(std::env::var_os("CI").is_none(), "{test}: there is no {name} on this machine");
    println!("SKIPPED {test}: there is no {name} on this machine");
}

#[track_caller]
fn host_and_port(served: &Served, scheme: &str) -> (String, String) {
    let address = served.address(scheme);
    let (host, port) = address.rsplit_once(':').unwrap();
    (host.to_owned(), port.to_owned())
}

/// Runs a program in the lab and asserts that it ended well; gives its standard output.
#[track_caller]
fn done(lab: &Lab, program: &Path, words: &[&str]) -> String {
    lab.tool(program, words).exits(0).stdout
}
