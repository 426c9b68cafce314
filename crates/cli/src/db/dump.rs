//! `keyrack db dump`: the entries of a store, in order; or what one of its files holds, with
//! sequence numbers, and what was replaced or removed.

use super::text::{Format, Out};
use super::{
    Bounds, Failure, Outcome, STATUSES, check_signal, flag, hex_flag, number, on_signals,
    open_to_read, path, range_args,
};
use clap::{Arg, ArgMatches, Command};
use keyrack_flodb::{Db, Item};
use keyrack_vfs::{FileKind, Fs, RealFs};
use std::path::Path;

pub(super) fn command() -> Command {
    let dir = Arg::new("dir").value_name("PATH").required(true);
    let limit = Arg::new("limit").long("limit").value_name("N");
    let format = Arg::new("format").long("format").value_name("FORMAT").default_value("text");
    Command::new("dump")
        .about("Print the keys and values of a store, in order, or what one of its files holds")
        .long_about(
            "Print the keys and values of a store, in order; nothing is changed, and the store \
             may be in use. Of a file (a table, a manifest, a segment of the log), print what it \
             holds: key, sequence number, what was done, and value.",
        )
        .after_help(STATUSES)
        .arg(dir.help("The directory of a store, or a file of one"))
        .args(range_args())
        .arg(limit.allow_hyphen_values(true).help("Print at most N entries"))
        .arg(flag("keys-only", "Print no values"))
        .arg(format.help("text (\\xNN for what is none), json (an object a line), or hex"))
        .arg(hex_flag())
}

/// What is printed of each entry.
pub(super) struct Shape {
    pub(super) bounds: Bounds,
    pub(super) limit: u64,
    pub(super) format: Format,
    pub(super) keys_only: bool,
}

impl Shape {
    pub(super) fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        let name = matches.get_one::<String>("format").map_or("text", String::as_str);
        Ok(Shape {
            bounds: Bounds::of(matches)?,
            limit: number(matches, "limit")?.unwrap_or(u64::MAX),
            format: Format::of(name)?,
            keys_only: matches.get_flag("keys-only"),
        })
    }

    fn line(&self, key: &[u8], value: &[u8]) -> String {
        let fields = [("key", key), ("value", value)];
        self.format.line(&fields[..if self.keys_only { 1 } else { 2 }])
    }

    /// A line for what a file holds; `None` if it was not asked for.
    fn item(&self, item: &Item<'_>) -> Option<String> {
        match item {
            Item::Write { kind, sequence, key, value } => {
                let Bounds { from, to } = &self.bounds;
                let is_before = from.as_ref().is_some_and(|from| *key < from.as_slice());
                let is_behind = to.as_ref().is_some_and(|to| *key > to.as_slice());
                if is_before || is_behind {
                    return None;
                }
                let with = [("sequence", sequence.to_string()), ("kind", (*kind).to_owned())];
                let fields = [("key", *key), ("value", *value)];
                Some(self.format.line_with(&fields[..if self.keys_only { 1 } else { 2 }], &with))
            }
            Item::Change { edit, what } => {
                let with = [("edit", edit.to_string()), ("change", what.clone())];
                Some(self.format.line_with(&[], &with))
            }
            _ => None,
        }
    }
}

pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let shape = Shape::of(matches)?;
    let path = path(matches, "dir");
    if RealFs.metadata(&path).is_ok_and(|found| found.kind == FileKind::File) {
        return dump_file(&path, &shape);
    }
    dump_store(&open_to_read(matches)?, &shape)
}

/// Everything that the file holds, and then what is wrong with it.
fn dump_file(path: &Path, shape: &Shape) -> Outcome {
    let stop = on_signals()?;
    let mut out = Out::new();
    let mut left = shape.limit;
    let mut ended: Result<(), Failure> = Ok(());
    let read = keyrack_flodb::dump(&RealFs, path, &mut |item| {
        let Some(line) = shape.item(&item) else { return true };
        if left == 0 {
            return false;
        }
        left -= 1;
        match out.write(line.as_bytes()).and_then(|goes_on| check_signal(&stop).map(|()| goes_on)) {
            Ok(goes_on) => goes_on,
            Err(failure) => {
                ended = Err(failure);
                false
            }
        }
    });
    ended?;
    let printed = out.finish()?;
    read?;
    Ok(printed)
}

fn dump_store(db: &Db, shape: &Shape) -> Outcome {
    let stop = on_signals()?;
    let mut out = Out::new();
    let mut walk = db.iter()?;
    match &shape.bounds.from {
        Some(from) => walk.seek(from)?,
        None => walk.seek_first()?,
    }
    let mut left = shape.limit;
    while let Some((key, value)) = walk.entry() {
        let is_behind = shape.bounds.to.as_ref().is_some_and(|to| key > to.as_slice());
        if left == 0 || is_behind || !out.write(shape.line(key, value).as_bytes())? {
            break;
        }
        left -= 1;
        check_signal(&stop)?;
        walk.next()?;
    }
    out.finish()
}
