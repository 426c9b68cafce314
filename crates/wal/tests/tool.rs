//! What the tests share: seeds and draws, opening a log and listing what it replays.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use keyrack_vfs::{Fs, MemFs};
use keyrack_wal::{Error, Log, Options, Recovered};

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

/// Draws that follow from a seed (splitmix64).
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Draw(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A payload: mostly short, sometimes long, sometimes of the length of the last one.
    pub(crate) fn payload(&mut self, length_max: usize) -> Vec<u8> {
        let length = match self.below(10) {
            0 => 0,
            1..=5 => self.below(100),
            6..=7 => 64,
            8 => self.below(600),
            _ => self.below(length_max as u64 + 1),
        };
        let byte = self.next();
        (0..length.min(length_max as u64)).map(|at| (byte ^ at.wrapping_mul(37)) as u8).collect()
    }
}

/// `count` seeds, from the one in the environment variable `KEYRACK_SEED` on, or from 0.
pub(crate) fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let given = std::env::var("KEYRACK_SEED").ok().and_then(|seed| seed.parse().ok());
    let first: u64 = given.unwrap_or(0);
    (0..count).map(move |index| first.wrapping_add(index))
}

/// Prints the seed if the test fails while it lives.
pub(crate) struct Announced(pub(crate) u64);

impl Drop for Announced {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("SEED={}", self.0);
        }
    }
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
