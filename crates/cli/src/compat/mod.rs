//! Old names: the binary called as a tool that people's scripts know takes that tool's command line
//! and prints its shapes. These modules translate; nothing below them knows.

mod dbtest;
mod deltafs;
mod keybench;
mod line;
mod mtclient;
mod mtd;
mod mttest;
mod mutilate;
mod rows;

use std::path::Path;

/// A name that the binary answers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Keybench,
    Mttest,
    Mtclient,
    Mtd,
    Mutilate,
    DbTest,
    DeltaFs(deltafs::Program),
}

/// The old name under which the program was called, if it was.
pub(crate) fn called_as(argv: &[String]) -> Option<Name> {
    match Path::new(argv.first()?).file_name()?.to_str()? {
        "keybench" => Some(Name::Keybench),
        "mttest" => Some(Name::Mttest),
        "mtclient" => Some(Name::Mtclient),
        "mtd" => Some(Name::Mtd),
        "mutilate" => Some(Name::Mutilate),
        "db_test" => Some(Name::DbTest),
        "deltafs_bm_svr" => Some(Name::DeltaFs(deltafs::Program::Server)),
        "deltafs_bm_cli" => Some(Name::DeltaFs(deltafs::Program::Client)),
        "parallel_compactor" => Some(Name::DeltaFs(deltafs::Program::Compactor)),
        _ => None,
    }
}

/// The tool of that name. Returns the exit status.
pub(crate) fn main(name: Name, argv: &[String]) -> u8 {
    match name {
        Name::Keybench => keybench::main(argv),
        Name::Mttest => mttest::main(argv),
        Name::Mtclient => mtclient::main(argv),
        Name::Mtd => mtd::main(argv),
        Name::Mutilate => mutilate::main(argv),
        Name::DbTest => dbtest::main(argv),
        Name::DeltaFs(program) => deltafs::main(program, argv),
    }
}
