//! What the tests share: seeds and draws, opening a log and listing what it replays.

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use keyrack_testkit::random::Draw;
use keyrack_vfs::{CrashPolicy, File, Fs, MemFs, OpenOptions};
use keyrack_wal::{Error, Log, Options, Recovered, Salvaged, Sync, salvage};

/// Where the log lies.
pub(crate) const DIR: &str = "/db/log";

/// LSNs and payloads.
pub(crate) type Records = Vec<(u64, Vec<u8>)>;

/// A disk with the directory in which the log's lies.
pub(crate) fn new_disk() -> MemFs {
    let disk = MemFs::new();
    disk.create_dir(Path::new("/db")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

/// Small segments, so that there are many.
pub(crate) fn small() -> Options {
    Options { segment_bytes: 4_096, ..Options::default() }
}

/// How records come to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Through the page cache; a sync is asked for.
    Cached,
    /// Through the page cache, though every record is to be synced: the file system can do no
    /// better.
    Synced,
    /// Past the page cache, as every record is to be synced.
    Direct,
}

pub(crate) const WAYS: [Way; 3] = [Way::Cached, Way::Synced, Way::Direct];

impl Way {
    /// A disk on which a log goes this way.
    pub(crate) fn disk(self) -> MemFs {
        let disk = new_disk();
        disk.set_map_direct(self == Way::Direct);
        disk
    }

    /// Small segments.
    pub(crate) fn options(self) -> Options {
        let sync = if self == Way::Cached { Sync::Os } else { Sync::Always };
        Options { sync, ..small() }
    }

    /// Whether the end of the process loses records that were not synced.
    pub(crate) fn is_lost_with_the_process(self) -> bool {
        self == Way::Direct
    }
}

/// Opens the log and lists what it replays.
pub(crate) fn open_from(
    fs: &(impl Fs + Clone + 'static),
    from: u64,
    options: Options,
) -> Result<(Log, Recovered, Records), Error> {
    let fs: Arc<dyn Fs> = Arc::new(fs.clone());
    let mut records = Vec::new();
    let mut replay = |lsn: u64, payload: &[u8]| {
        records.push((lsn, payload.to_vec()));
        Ok::<_, Error>(())
    };
    let (log, recovered) = Log::open(fs, Path::new(DIR), from, options, &mut replay)?;
    assert_eq!(recovered.records, records.len() as u64);
    let bytes = records.iter().map(|(_, payload)| payload.len() as u64).sum::<u64>();
    assert_eq!(recovered.payload_bytes, bytes);
    assert!(records.is_sorted_by(|a, b| a.0 < b.0), "in order of LSN");
    Ok((log, recovered, records))
}

/// Opens a log that is whole.
pub(crate) fn open(fs: &(impl Fs + Clone + 'static), options: Options) -> (Log, Records) {
    let (log, recovered, records) = open_from(fs, 0, options).unwrap();
    assert_eq!((recovered.dropped_bytes, recovered.dropped_records), (0, 0));
    (log, records)
}

/// Appends a record. Returns its LSN and its end.
pub(crate) fn append(log: &Log, payload: &[u8]) -> Result<(u64, u64), Error> {
    let mut record = log.reserve(payload.len())?;
    let (front, back) = payload.split_at(payload.len() / 3);
    record.write(&[front, b"", back])?;
    let place = (record.lsn(), record.end());
    record.publish();
    Ok(place)
}

/// A payload: mostly short, sometimes long, sometimes of the length of the last one.
pub(crate) fn payload(draw: &mut Draw, length_max: usize) -> Vec<u8> {
    let length = match draw.below(10) {
        0 => 0,
        1..=5 => draw.below(100),
        6..=7 => 64,
        8 => draw.below(600),
        _ => draw.below(length_max as u64 + 1),
    };
    let byte = draw.next();
    (0..length.min(length_max as u64)).map(|at| (byte ^ at.wrapping_mul(37)) as u8).collect()
}

/// The segments, by LSN.
pub(crate) fn segments(disk: &MemFs) -> Vec<PathBuf> {
    let entries = disk.list(Path::new(DIR)).unwrap();
    let paths = entries.iter().map(|entry| Path::new(DIR).join(&entry.name));
    paths.filter(|path| path.extension().is_some_and(|it| it == "wal")).collect()
}

/// The LSN that a segment's name says.
pub(crate) fn start_of(path: &Path) -> u64 {
    u64::from_str_radix(path.file_stem().unwrap().to_str().unwrap(), 16).unwrap()
}

/// A copy of the disk, to be damaged.
pub(crate) fn copy(disk: &MemFs) -> MemFs {
    disk.crash_image(0, CrashPolicy::KeepAll)
}

/// A file that is there, to be damaged.
pub(crate) fn file(disk: &MemFs, path: &Path) -> Arc<dyn File> {
    disk.open(path, &OpenOptions::new().read(true).write(true)).unwrap()
}

/// What a salvage finds from the first LSN on, and the records that it gives.
pub(crate) fn salvaged(disk: &MemFs, from: Option<u64>, id: Option<u64>) -> (Salvaged, Records) {
    let mut records = Records::new();
    let mut replay = |lsn: u64, payload: &[u8]| {
        records.push((lsn, payload.to_vec()));
        Ok::<_, Error>(())
    };
    let salvaged = salvage(disk, Path::new(DIR), from, id, &mut replay).unwrap();
    assert_eq!(salvaged.records, records.len() as u64);
    (salvaged, records)
}

/// Runs `work` in a thread of its own, and fails if it does not come back: some faults of a log
/// show in nothing but that somebody waits for ever.
pub(crate) fn bounded(work: impl FnOnce() + Send + 'static) {
    // Far more than any test takes.
    const FOR_EVER: Duration = Duration::from_secs(300);
    let (done, outcome) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    let waited = outcome.recv_timeout(FOR_EVER);
    assert!(waited != Err(mpsc::RecvTimeoutError::Timeout), "it waits for ever");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}
