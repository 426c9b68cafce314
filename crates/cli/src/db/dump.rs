//! `keyrack db dump`: the entries of a store, in order; or what one of its files holds, with
//! sequence numbers, and what was replaced or removed.

use super::store::{Keys, open_to_read, space_arg};
use super::text::Format;
use crate::db::args::{Bounds, STATUSES, flag, hex_flag, number, path, range_args};
use clap::{Arg, ArgMatches, Command};
use keyrack_console::{Failure, Outcome, Output};
use keyrack_flodb::Item;
use keyrack_vfs::{FileKind, Fs, RealFs};
use std::path::Path;
use std::sync::atomic::AtomicBool;

pub(super) fn command() -> Command {
    let dir = Arg::new("dir").value_name("PATH").required(true);
    let limit = Arg::new("limit").long("limit").value_name("N");
    let format = Arg::new("format").long("format").value_name("FORMAT").default_value("text");
    Command::new("dump")
        .about("Print the keys and values of a store, in order, or what one of its files holds")
        .long_about(
            "Print the keys and values of a store, in order; nothing is changed, and the store \
             may be in use. Of a file (a table, a blob file, a manifest, a segment of the log), \
             print what it holds: key, sequence number, what was done, and value. Of a store with \
             key spaces, the name of the space comes before each key, unless one is chosen.",
        )
        .after_help(STATUSES)
        .arg(dir.help("The directory of a store, or a file of one"))
        .args(range_args())
        .arg(space_arg("Only this key space, without its name in front of each key"))
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

    /// A line for an entry, with the name of its space if there is one to be told.
    fn line(&self, space: Option<&str>, key: &[u8], value: &[u8]) -> String {
        let fields =
            [("space", space.unwrap_or_default().as_bytes()), ("key", key), ("value", value)];
        let from = usize::from(space.is_none());
        self.format.line(&fields[from..if self.keys_only { 2 } else { 3 }])
    }

    /// A line for what a file holds; `None` if it was not asked for.
    fn item(&self, item: &Item<'_>) -> Option<String> {
        match item {
            Item::Write { kind, sequence, key, value, expires_ms } => {
                let Bounds { from, to } = &self.bounds;
                let is_before = from.as_ref().is_some_and(|from| *key < from.as_slice());
                let is_behind = to.as_ref().is_some_and(|to| *key > to.as_slice());
                if is_before || is_behind {
                    return None;
                }
                let mut with =
                    vec![("sequence", sequence.to_string()), ("kind", (*kind).to_owned())];
                with.extend(expires_ms.map(|it| ("expires_ms", it.to_string())));
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
    let store = open_to_read(matches)?;
    let mut left = shape.limit;
    let stop = keyrack_console::flag()?;
    let mut out = Output::new();
    match store.spaces() {
        Some(spaces) if store.chosen(matches)?.is_none() => {
            for space in spaces {
                let name = space.name().to_owned();
                let keys = Keys::Space(space);
                if !dump_keys(&keys, Some(&name), &shape, (&mut left, &mut out, &stop))? {
                    break;
                }
            }
        }
        _ => {
            dump_keys(&store.keys(matches)?, None, &shape, (&mut left, &mut out, &stop))?;
        }
    }
    out.finish()
}

/// Everything that the file holds, and then what is wrong with it.
fn dump_file(path: &Path, shape: &Shape) -> Outcome {
    let stop = keyrack_console::flag()?;
    let mut out = Output::new();
    let mut left = shape.limit;
    let mut ended: Result<(), Failure> = Ok(());
    let read = keyrack_flodb::dump(&RealFs, path, &mut |item| {
        let Some(line) = shape.item(&item) else { return true };
        if left == 0 {
            return false;
        }
        left -= 1;
        match out
            .write(line.as_bytes())
            .and_then(|goes_on| keyrack_console::check(&stop).map(|()| goes_on))
        {
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

/// Writes at most `left` entries. Whether more are wanted.
fn dump_keys(
    keys: &Keys,
    space: Option<&str>,
    shape: &Shape,
    (left, out, stop): (&mut u64, &mut Output, &AtomicBool),
) -> Result<bool, Failure> {
    let mut scan = keys.scan()?;
    scan.start(shape.bounds.from.as_deref())?;
    while let Some((key, value)) = scan.entry() {
        if shape.bounds.to.as_ref().is_some_and(|to| key > to.as_slice()) {
            return Ok(true);
        }
        if *left == 0 || !out.write(shape.line(space, key, value).as_bytes())? {
            return Ok(false);
        }
        *left -= 1;
        keyrack_console::check(stop)?;
        scan.next()?;
    }
    Ok(true)
}
