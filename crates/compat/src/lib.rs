//! Old names: the binary called as a tool that people's scripts know takes that tool's command line
//! and prints its shapes. These modules translate; nothing below them knows.
//!
//! The program calls [`called_as`] with its command line, and [`main`] if the answer is a name. The
//! trait [`Program`] has what an old name shares with the program's own commands.
#![forbid(unsafe_code)]

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

pub use deltafs::DeltaFsTool;
pub use program::{BenchStyle, LoadStyle, Program};

use std::path::Path;

/// A name that the binary answers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// `keybench`.
    Keybench,
    /// `mttest`.
    Mttest,
    /// `mtclient`.
    Mtclient,
    /// `mtd`.
    Mtd,
    /// `mutilate`.
    Mutilate,
    /// `db_test`.
    DbTest,
    /// One of the programs of DeltaFS.
    DeltaFs(DeltaFsTool),
}

/// The old name under which the program was called, if it was.
#[must_use]
pub fn called_as(argv: &[String]) -> Option<Name> {
    match Path::new(argv.first()?).file_name()?.to_str()? {
        "keybench" => Some(Name::Keybench),
        "mttest" => Some(Name::Mttest),
        "mtclient" => Some(Name::Mtclient),
        "mtd" => Some(Name::Mtd),
        "mutilate" => Some(Name::Mutilate),
        "db_test" => Some(Name::DbTest),
        "deltafs_bm_svr" => Some(Name::DeltaFs(DeltaFsTool::Server)),
        "deltafs_bm_cli" => Some(Name::DeltaFs(DeltaFsTool::Client)),
        "parallel_compactor" => Some(Name::DeltaFs(DeltaFsTool::Compactor)),
        _ => None,
    }
}

/// Runs the tool of that name and returns its exit status.
#[must_use]
pub fn main(name: Name, argv: &[String], program: &dyn Program) -> u8 {
    match name {
        Name::Keybench => keybench::main(argv, program),
        Name::Mttest => mttest::main(argv, program),
        Name::Mtclient => mtclient::main(argv),
        Name::Mtd => mtd::main(argv),
        Name::Mutilate => mutilate::main(argv, program),
        Name::DbTest => dbtest::main(argv, program),
        Name::DeltaFs(tool) => deltafs::main(tool, argv),
    }
}
