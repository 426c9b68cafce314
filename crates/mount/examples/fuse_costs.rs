//! What creates and stats cost on a mount, beside the file system below and beside a FUSE file
//! system that does nothing.
//!
//! ```text
//!   cargo run --release -p keyrack-mount --example fuse_costs -- DIR FILES ROUNDS
//!
//!   plain      a directory of DIR
//!   idle FUSE  answers the same requests from a counter: what FUSE itself costs
//!   keyrack    a log in DIR, mounted
//! ```
//!
//! A round goes over all three, beginning with another one each time. Each creates FILES empty
//! files in an empty directory and closes them, then stats each of them twice. The two FUSE file
//! systems are mounted anew before the stats, so that the kernel asks for each file the first time
//! and knows it the second time; the plain directory is in the kernel's memory both times. Nothing
//! is synced. Printed are thousands of operations a second, and the ratios of keyrack to the others
//! within a round: the median of the rounds, with the least and the largest.
#![expect(clippy::print_stdout, reason = "an example is its own program")]

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyCreate, ReplyEmpty, ReplyEntry, Request,
    Session,
};
use keyrack_deltafs::{Namespace, Settings};
use keyrack_measure::{Clock, stats};
use keyrack_mount::{Options, mount};
use keyrack_vfs::{Fs, OpenOptions, RealFs};
use nix::mount::{MntFlags, umount2};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, UNIX_EPOCH};

const SYSTEMS: [&str; 3] = ["plain", "idle FUSE", "keyrack"];
const PHASES: [&str; 3] = ["create", "stat, first", "stat, again"];
/// As on a mount of a name space.
const TTL: Duration = Duration::from_secs(60);

/// Files that are there as soon as they are counted: the name of file 7 is `7`.
struct IdleFuse {
    created: Arc<AtomicU64>,
}

impl IdleFuse {
    /// The kernel's number of a file. The root has 1.
    fn number(&self, name: &OsStr) -> Option<INodeNo> {
        let index: u64 = name.to_str()?.parse().ok()?;
        (index < self.created.load(Ordering::Relaxed)).then_some(INodeNo(index + 2))
    }
}

fn attributes(number: INodeNo) -> FileAttr {
    let is_root = number == INodeNo::ROOT;
    FileAttr {
        ino: number,
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: if is_root { FileType::Directory } else { FileType::RegularFile },
        perm: 0o755,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Filesystem for IdleFuse {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.number(name) {
            Some(number) => reply.entry(&TTL, &attributes(number), Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &attributes(number));
    }

    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        self.created.fetch_add(1, Ordering::Relaxed);
        match self.number(name) {
            Some(number) => {
                let (attributes, flags) = (attributes(number), FopenFlags::empty());
                reply.created(&TTL, &attributes, Generation(0), FileHandle(number.0), flags);
            }
            None => reply.error(Errno::EINVAL),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }
}

/// What is measured, in a directory of its own.
enum System {
    Plain,
    Idle(Arc<AtomicU64>),
    Keyrack(Namespace, PathBuf),
}

impl System {
    fn new(which: usize, dir: &Path) -> System {
        match which {
            0 => System::Plain,
            1 => System::Idle(Arc::default()),
            _ => {
                let log = dir.join("log");
                let space = Namespace::open(&log, Settings::default()).expect("the log is new");
                System::Keyrack(space, log)
            }
        }
    }

    /// Mounts it, unless it is plain. Ends when it is unmounted.
    fn mount(&self, at: &Path) -> Option<JoinHandle<()>> {
        let at = at.to_owned();
        match self {
            System::Plain => None,
            System::Idle(created) => {
                let server = IdleFuse { created: Arc::clone(created) };
                let mut config = Config::default();
                config.mount_options = vec![MountOption::DefaultPermissions, MountOption::NoAtime];
                let session = Session::new(server, &at, &config).expect("FUSE can be mounted");
                Some(std::thread::spawn(move || session.run().expect("the kernel asks")))
            }
            System::Keyrack(space, log) => {
                let (space, log) = (space.clone(), log.clone());
                let disk: Arc<dyn Fs> = Arc::new(RealFs);
                let (ready, is_ready) = mpsc::channel();
                let serve = move || {
                    let options = Options { name: "costs".to_owned(), allow_other: false };
                    mount(&space, &disk, &log, &at, &options, |_| {
                        ready.send(()).expect("somebody waits");
                    })
                    .expect("FUSE can be mounted");
                };
                let server = std::thread::spawn(serve);
                is_ready.recv().expect("it is mounted");
                Some(server)
            }
        }
    }

    /// Thousands of operations a second, by phase.
    fn run(&self, dir: &Path, files: u64, clock: &Clock) -> [f64; PHASES.len()] {
        let at = dir.join("files");
        RealFs.create_dir_all(&at).expect("the directory is ours");
        let path = |file: u64| at.join(file.to_string());
        let rate = |operation: &dyn Fn(&Path)| {
            let paths: Vec<PathBuf> = (0..files).map(path).collect();
            let begun = clock.ticks();
            paths.iter().for_each(|path| operation(path));
            files as f64 * 1e6 / clock.ns_between(begun, clock.ticks()) as f64
        };
        let new = OpenOptions::new().write(true).create_new(true);
        let create = |path: &Path| drop(RealFs.open(path, &new).expect("the file is new"));
        let stat = |path: &Path| {
            let found = RealFs.metadata(path).expect("the file was made");
            assert_eq!(found.len, 0);
        };
        let server = self.mount(&at);
        let created = rate(&create);
        unmount(&at, server);
        let server = self.mount(&at);
        let rates = [created, rate(&stat), rate(&stat)];
        unmount(&at, server);
        rates
    }
}

fn unmount(at: &Path, server: Option<JoinHandle<()>>) {
    if let Some(server) = server {
        umount2(at, MntFlags::MNT_DETACH).expect("it is mounted");
        server.join().expect("the server ended");
    }
}

/// The median of some figures, with the least and the largest.
fn spread(figures: impl Iterator<Item = f64>, digits: usize) -> String {
    let figures: Vec<f64> = figures.collect();
    let at = |q: f64| stats::quantile(&figures, q).expect("there is a round");
    let [least, median, largest] = [0.0, 0.5, 1.0].map(at);
    format!("{median:.digits$} ({least:.digits$}, {largest:.digits$})")
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [dir, files, rounds] = &words[..] else {
        panic!("three words are needed: DIR FILES ROUNDS");
    };
    let files: u64 = files.parse().expect("FILES is a number");
    let rounds: usize = rounds.parse().expect("ROUNDS is a number");
    let clock = Clock::calibrated();
    let mut found: [Vec<[f64; PHASES.len()]>; SYSTEMS.len()] = Default::default();
    let mut made = Vec::new();
    for round in 0..rounds {
        for turn in 0..SYSTEMS.len() {
            let which = (round + turn) % SYSTEMS.len();
            let dir = Path::new(dir).join(format!("costs-{round}-{which}"));
            RealFs.create_dir_all(&dir).expect("a directory can be made in DIR");
            let system = System::new(which, &dir);
            found[which].push(system.run(&dir, files, &clock));
            made.push(dir);
        }
    }
    // Not before: ext4 looks for a while at inodes that were freed a moment ago.
    for dir in made {
        RealFs.remove_dir_all(&dir).expect("the directory is ours");
    }
    println!("| | {} | over plain | over idle FUSE |", SYSTEMS.join(" | "));
    println!("|---|---:|---:|---:|---:|---:|");
    for (phase, name) in PHASES.iter().enumerate() {
        let rates = |which: usize| found[which].iter().map(move |round| round[phase]);
        let cells = (0..SYSTEMS.len()).map(|which| spread(rates(which), 1));
        let over = |which| spread(rates(2).zip(rates(which)).map(|(ours, its)| ours / its), 2);
        let cells: Vec<String> = cells.chain([over(0), over(1)]).collect();
        println!("| {name} | {} |", cells.join(" | "));
    }
}
