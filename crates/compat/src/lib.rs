//! Old names: the binary called as a tool that people's scripts know takes that tool's command line
//! and prints its shapes. These modules translate; nothing below them knows.
//!
//! The program calls [`main`] with its command line before it reads it. The trait [`Program`] has
//! what an old name shares with the program's own commands.
#![forbid(unsafe_code)]

mod dbbench;
mod dbtest;
mod deltafs;
mod keybench;
mod line;
mod mtclient;
mod mtd;
mod mttest;
mod mutilate;
mod program;
mod rows;
mod run_messages;

pub use program::{BenchStyle, LoadStyle, Program};

use std::path::Path;

/// Runs the tool whose name the program was called by, and returns its exit status. `None`: it was
/// not called by an old name.
#[must_use]
pub fn main(argv: &[String], program: &dyn Program) -> Option<u8> {
    Some(match Path::new(argv.first()?).file_name()?.to_str()? {
        "keybench" => keybench::main(argv, program),
        "plot.py" => keybench::plot(argv, program),
        "mttest" => mttest::main(argv, program),
        "mtclient" => mtclient::main(argv),
        "mtd" => mtd::main(argv),
        "mutilate" => mutilate::main(argv, program),
        "db_test" => dbtest::main(argv, program),
        "db_bench" => dbbench::main(argv, program),
        "deltafs_bm_svr" | "deltafs_bm_srv" => deltafs::server(argv),
        "deltafs_bm_cli" => deltafs::client(argv),
        "parallel_compactor" => deltafs::compactor(argv),
        _ => return None,
    })
}
