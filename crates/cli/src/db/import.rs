//! `keyrack db import-leveldb`: a store of LevelDB becomes one of ours.
//!
//! The entries come in order and go in batches into a new store beside the target, without a log:
//! what is in memory becomes tables, which are synced. Then the new store takes the target's name.
//! So the target is there whole or not at all, whatever happens; the source is only read.

use crate::db::args::{flag, path};
use clap::{Arg, ArgMatches, Command};
use keyrack_console::{Failure, Outcome, say};
use keyrack_flodb::{Batch, Db, Durability, Options, WriteOptions};
use keyrack_leveldb_reader::{Mode, Reader};
use keyrack_vfs::{Fs, RealFs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const BATCH_BYTES: usize = 1 << 20;

/// The largest that there is: an entry has to fit into a segment, also when no log is kept.
const SEGMENT_BYTES: u64 = 1 << 30;

pub(super) fn command() -> Command {
    Command::new("import-leveldb")
        .about("Make a store of what is in a store of LevelDB, which is only read")
        .long_about(
            "Make a store of what is in a store of LevelDB, which is only read. Nobody should have \
             it open. With damage in SRC nothing is made, unless --lenient is given: then what \
             cannot be read is left out and listed, and the exit status is 3. DIR must not be \
             there; it appears when all of it is written and synced.",
        )
        .after_help(super::args::STATUSES)
        .arg(Arg::new("src").value_name("SRC").required(true).help("The directory of LevelDB"))
        .arg(Arg::new("dir").value_name("DIR").required(true).help("The directory to be made"))
        .arg(flag("lenient", "Leave out what is damaged"))
}

pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let (src, dir) = (path(matches, "src"), path(matches, "dir"));
    let mode = if matches.get_flag("lenient") { Mode::Lenient } else { Mode::Strict };
    if RealFs.exists(&dir)? {
        let dir = dir.display();
        return Err(Failure::Usage(format!("{dir}: it is there; choose a name that is not")));
    }
    let Some(name) = dir.file_name() else {
        return Err(Failure::Usage(format!("{}: it has no name of its own", dir.display())));
    };
    let parent = match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut reader =
        Reader::open(Arc::new(RealFs), &src, mode).map_err(|error| of_leveldb(&error))?;
    let stop = keyrack_console::flag()?;
    let prefix = format!(".{}.import", name.to_string_lossy());
    let unfinished = RealFs.create_unique_dir(&parent, &prefix)?;
    let made = copy(&mut reader, &unfinished, &stop).and_then(|entries| {
        RealFs.rename(&unfinished, &dir)?;
        RealFs.sync_dir(&parent)?;
        Ok(entries)
    });
    let entries = match made {
        Ok(entries) => entries,
        Err(failure) => {
            // The first failure is the one to report.
            let _ = RealFs.remove_dir_all(&unfinished);
            return Err(failure);
        }
    };
    for lost in reader.lost() {
        say!("left out: {lost}");
    }
    let stats = reader.stats();
    let printed = keyrack_console::print(&format!(
        "{entries} entries from {} tables and {} logs\n",
        stats.tables, stats.logs
    ));
    let is_whole = reader.lost().iter().all(|lost| lost.is_cut_tail);
    Ok(if is_whole { printed } else { keyrack_console::DAMAGED })
}

/// Fills a new store in `dir`, and returns how many entries it got.
fn copy(reader: &mut Reader, dir: &Path, stop: &AtomicBool) -> Result<u64, Failure> {
    let options = Options {
        durability: Durability::None,
        segment_bytes: SEGMENT_BYTES,
        ..Options::default()
    };
    let db = Db::open(dir, options)?;
    let mut batch = Batch::new();
    let mut entries = 0;
    loop {
        keyrack_console::check(stop)?;
        let entry = reader.next().map_err(|error| of_leveldb(&error))?;
        if let Some((key, value)) = entry {
            batch.put(key, value);
            entries += 1;
        }
        let is_last = entry.is_none();
        if is_last || batch.bytes() >= BATCH_BYTES {
            db.write(&batch, WriteOptions::default())?;
            batch.clear();
        }
        if is_last {
            break;
        }
    }
    db.close()?;
    Ok(entries)
}

fn of_leveldb(error: &keyrack_leveldb_reader::Error) -> Failure {
    let what = error.to_string();
    match error {
        keyrack_leveldb_reader::Error::Usage(_) => Failure::Usage(what),
        keyrack_leveldb_reader::Error::Corruption { .. } => {
            Failure::Damaged(format!("{what}; --lenient leaves out what it can do without"))
        }
        _ => Failure::Failed(what),
    }
}
