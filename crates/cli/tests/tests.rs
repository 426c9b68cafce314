//! End-to-end tests: the real binary, called as a user calls it, each test in a directory of its
//! own.
//!
//! The tests assert what a user or a script can see: exit status, the two streams, the files. No
//! assertion depends on how fast the machine is. A hang is a failure: every child is killed by a
//! watchdog after [`support::PATIENCE`], and the test says so.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test says what went wrong by panicking, reads its own files, and talks to a person"
)]

mod accounting;
mod backup;
mod bad_input;
mod compat;
mod compatibility;
mod db;
mod db_import;
mod db_spaces;
mod db_torture;
mod db_workloads;
mod dbtest;
mod defects;
mod deltafs;
mod docs;
mod doctor;
mod fs;
mod fs_import;
mod fs_json;
mod fs_parquet;
mod gauges;
mod kvtest;
mod list;
#[cfg(feature = "tui")]
mod live;
mod load;
mod load_edges;
mod masstree_server;
mod migrate;
#[cfg(all(feature = "fuse", target_os = "linux"))]
mod mount;
mod mtclient;
mod mtd;
mod mttest;
mod open_loop;
mod outputs;
mod overhead;
mod pin;
mod report;
mod sandbox;
mod scenarios;
mod script_input;
mod selftest;
mod serve;
mod serve_clients;
mod servers;
mod signals;
mod support;
mod terminal;
mod terms;
mod traces;
