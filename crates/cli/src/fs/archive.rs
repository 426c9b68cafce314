//! `keyrack fs import` and `export`.

use super::{beginning, flag, option, os, path_arg, path_bytes, place, reading, text};
use clap::{Arg, ArgMatches, Command, value_parser};
use keyrack_console::Outcome;
use keyrack_fs_tools::archive::{Export, Format, Import, export, import};
use std::ffi::{OsStr, OsString};

pub(super) fn commands() -> Vec<Command> {
    let format = || {
        let help = "What it is [default: by the name of the file, else tar]";
        option("format", "tar|jsonl|parquet", help)
    };
    vec![
        beginning("import", "Take in an archive, lines of JSON, or a file of Parquet")
            .arg(format())
            .arg(flag("overwrite", "Replace files that are there"))
            .arg(flag(
                "metadata-only",
                "Of files of more than 3,901 bytes, note only what is known",
            ))
            .arg(
                Arg::new("file")
                    .value_name("FILE")
                    .required(true)
                    .value_parser(value_parser!(OsString))
                    .help("Which; - is standard input"),
            )
            .arg(path_arg("path", "The directory to put it in [default: /]").required(false)),
        reading("export", "Write a tree as an archive, lines of JSON, or a file of Parquet")
            .arg(format())
            .arg(flag("metadata-only", "Write files whose bytes are elsewhere without them"))
            .arg(flag("no-data", "Write no bytes of files at all, only what is known about them"))
            .arg(path_arg("path", "What to write"))
            .arg(
                Arg::new("file")
                    .value_name("FILE")
                    .value_parser(value_parser!(OsString))
                    .help("Where to [default: standard output]"),
            ),
    ]
}

pub(super) fn run(name: &str, matches: &ArgMatches) -> Option<Outcome> {
    match name {
        "import" => Some(run_import(matches)),
        "export" => Some(run_export(matches)),
        _ => None,
    }
}

fn run_import(matches: &ArgMatches) -> Outcome {
    let file = os(matches, "file").unwrap_or_default();
    let what = Import {
        file,
        format: Format::of(text(matches, "format"), file)?,
        path: path_bytes(matches, "path").unwrap_or(b"/"),
        overwrite: matches.get_flag("overwrite"),
        metadata_only: matches.get_flag("metadata-only"),
    };
    import(&place(matches)?, &what)
}

fn run_export(matches: &ArgMatches) -> Outcome {
    let file = os(matches, "file").unwrap_or(OsStr::new("-"));
    let what = Export {
        path: path_bytes(matches, "path").unwrap_or_default(),
        file,
        format: Format::of(text(matches, "format"), file)?,
        metadata_only: matches.get_flag("metadata-only"),
        no_data: matches.get_flag("no-data"),
    };
    export(&place(matches)?, &what)
}
