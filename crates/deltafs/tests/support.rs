//! What several tests do with a name space: on a disk in memory, with a clock that they move.

use keyrack_deltafs::{Caller, IfExists, Namespace, Quota, Result, Settings, TimeSource};
use keyrack_flodb::{Durability, Options};
use keyrack_vfs::{Fs, MemFs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A store for which little is much.
pub(crate) fn small() -> Options {
    Options {
        memtable_bytes: 1 << 20,
        segment_bytes: 256 << 10,
        cache_bytes: 1 << 20,
        table_bytes: 64 << 10,
        durability: Durability::Os,
        ..Options::default()
    }
}

/// A disk, a clock, and logs on it.
pub(crate) struct Lab {
    pub(crate) disk: MemFs,
    pub(crate) now: Arc<AtomicU64>,
}

impl Lab {
    pub(crate) fn new() -> Lab {
        Lab { disk: MemFs::new(), now: Arc::new(AtomicU64::new(1_000_000_000_000)) }
    }

    pub(crate) fn fs(&self) -> Arc<dyn Fs> {
        Arc::new(self.disk.clone())
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            store: small(),
            root_mode: 0o777,
            time: TimeSource::Given(Arc::clone(&self.now)),
            // More than there are: for the count, see `dump`.
            quota: Quota { names: Some(1 << 40), ..Quota::default() },
            ..Settings::default()
        }
    }

    /// The log `name`, made if it is not there.
    pub(crate) fn open(&self, name: &str) -> Namespace {
        self.open_on(name, &[])
    }

    /// The log `name` on top of others.
    pub(crate) fn open_on(&self, name: &str, lower: &[&str]) -> Namespace {
        let lower = lower.iter().map(|name| path(name)).collect();
        let settings = Settings { lower, ..self.settings() };
        Namespace::open_in(self.fs(), &path(name), settings).unwrap()
    }

    /// Logs that are only read.
    pub(crate) fn view(&self, names: &[&str]) -> Namespace {
        let logs: Vec<PathBuf> = names.iter().map(|name| path(name)).collect();
        Namespace::open_read_only_in(self.fs(), &logs, self.settings()).unwrap()
    }

    /// Moves the clock, and gives where it is.
    pub(crate) fn tick(&self) -> u64 {
        self.now.fetch_add(1_000, Ordering::Relaxed) + 1_000
    }
}

/// A lab, and the log `log` in it.
pub(crate) fn opened() -> (Lab, Namespace) {
    let lab = Lab::new();
    let space = lab.open("log");
    (lab, space)
}

pub(crate) fn path(name: &str) -> PathBuf {
    Path::new("/").join(name)
}

/// What an error is called, or that there is none.
#[track_caller]
pub(crate) fn errno<T>(result: Result<T>) -> &'static str {
    match result {
        Ok(_) => "done",
        Err(error) => error.errno(),
    }
}

pub(crate) fn touch(fs: Caller<'_>, path: &str) {
    fs.create(path.as_bytes(), 0o644, IfExists::Fail).unwrap();
}

/// The names of a directory, a blank between two.
#[track_caller]
pub(crate) fn ls(fs: Caller<'_>, path: &str) -> String {
    let dir = fs.dir(path.as_bytes()).unwrap();
    let page = fs.list_at(&dir, None, usize::MAX).unwrap();
    assert_eq!(page.next, None);
    let names = page.entries.into_iter().map(|entry| String::from_utf8(entry.name).unwrap());
    names.collect::<Vec<_>>().join(" ")
}

/// Everything below the root: a line for each path, with what it is, mode, owner, links, bytes.
pub(crate) fn dump(space: &Namespace) -> Vec<String> {
    let fs = space.as_root();
    let mut lines = Vec::new();
    for walked in fs.walk(b"/").unwrap() {
        let walked = walked.unwrap();
        let path = &walked.path;
        let stat = walked.stat;
        let more = match stat.kind {
            keyrack_deltafs::Kind::Dir => format!("{} links", stat.nlink),
            keyrack_deltafs::Kind::Symlink => {
                fs.read_link(path).unwrap().escape_ascii().to_string()
            }
            keyrack_deltafs::Kind::File if !stat.has_data => format!("{} bytes", stat.size),
            keyrack_deltafs::Kind::File => {
                let data = fs.read(path, 0, usize::MAX).unwrap();
                assert_eq!(data.len() as u64, stat.size);
                data.escape_ascii().to_string()
            }
        };
        let names = match stat.kind {
            keyrack_deltafs::Kind::Dir => String::new(),
            _ if stat.nlink == 1 => String::new(),
            _ => format!(" {} names", stat.nlink),
        };
        lines.push(format!(
            "{} {} {:o} {}:{} {more}{names}",
            path.escape_ascii(),
            stat.kind.letter(),
            stat.mode,
            stat.uid,
            stat.gid
        ));
    }
    if let Some(names) = space.names() {
        // Without the root.
        assert_eq!(names, lines.len() as u64 - 1, "names are counted as they come and go");
    }
    lines
}

/// Asserts that a check finds nothing.
#[track_caller]
pub(crate) fn assert_sound(space: &Namespace) {
    let checked = space.fsck().unwrap();
    assert_eq!(checked.flaws, []);
}
