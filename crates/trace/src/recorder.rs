//! Writing a trace while a workload runs.
//!
//! ```text
//!   worker: verb --encode--> its block --full: 256 KiB--> queue of 32 --> one thread: zstd, file
//! ```
//!
//! A worker encodes into a block of its own: some tens of nanoseconds an operation, no lock and no
//! memory but a block now and then. A full block goes into a queue; where that is full the worker
//! waits, outside of any timed call. So memory is at most `(32 + 1 + workers)` blocks, and a disk
//! that is too slow shows as a lower rate, never as missing records. How often workers had to wait
//! is in the [`Summary`].
//!
//! With each block goes a sample of the values that its records wrote, up to 16 KiB, so that a
//! replay can make values that compress alike.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use keyrack_vfs::{Fs, OutputFile};

use crate::codec::{Context, Head, encode};
use crate::error::{Error, Result};
use crate::layout::{self, BlockHead, End};
use crate::record::{Entry, Phase, Result as Outcome, Verb};

/// Bytes at which a block is full.
const BLOCK_BYTES: usize = 256 << 10;
/// Blocks that wait to be written at most.
const QUEUE_BLOCKS: usize = 32;
/// Bytes of values that go with a block.
const SAMPLE_BYTES: usize = 16 << 10;
/// The level of Zstandard: what costs least.
const LEVEL: i32 = 1;

/// What a trace is of, for whoever looks at it later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The name of the workload.
    pub workload: String,
    /// The engine's name.
    pub engine: String,
    /// The version of the program.
    pub version: String,
}

impl Origin {
    pub(crate) fn text(&self) -> String {
        let clean = |text: &str| text.replace('\n', " ");
        format!("{}\n{}\n{}\n", clean(&self.workload), clean(&self.engine), clean(&self.version))
    }

    pub(crate) fn parse(text: &str) -> Origin {
        let mut lines = text.lines().map(str::to_owned);
        let mut next = || lines.next().unwrap_or_default();
        Origin { workload: next(), engine: next(), version: next() }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Operations.
    pub records: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// How often a worker waited because the queue was full.
    pub waits: u64,
}

/// A block on its way to the file.
struct Block {
    phase: Phase,
    thread: u32,
    records: u32,
    first_ns: u64,
    raw: Vec<u8>,
    sample: Vec<u8>,
}

/// What tapes and recorder share.
#[derive(Debug, Default)]
struct Shared {
    waits: AtomicU64,
    /// Set by the writing thread when it has failed; what is encoded afterwards is for nothing.
    has_failed: AtomicBool,
}

/// A trace that is being written.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    queue: Option<SyncSender<Block>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<Summary>>>,
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block").field("records", &self.records).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Makes the file, or empties it, and starts the thread that writes it.
    ///
    /// # Errors
    /// The file cannot be made or written, or its name asks for a second compression.
    pub fn create(fs: &dyn Fs, path: &Path, origin: &Origin) -> Result<Recorder> {
        if path.extension().is_some_and(|name| name == "zst") {
            let why = "the blocks of a trace are compressed already: leave .zst out of its name";
            return Err(Error::unusable(path, why));
        }
        let mut file = OutputFile::growing(fs, path)?;
        let header = layout::header(&origin.text());
        file.append(&header)?;
        let (queue, blocks) = sync_channel(QUEUE_BLOCKS);
        let shared = Arc::new(Shared::default());
        let thread = {
            let (path, shared) = (path.to_owned(), Arc::clone(&shared));
            let written = header.len() as u64;
            let body = move || write_all(file, written, &blocks, &shared);
            let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(body);
            thread.map_err(|cause| Error::unusable(&path, format!("no thread for it: {cause}")))?
        };
        Ok(Recorder { path: path.to_owned(), queue: Some(queue), shared, thread: Some(thread) })
    }

    /// A worker's way into the trace. Blocks go out when they are full and when the tape is
    /// dropped.
    #[must_use]
    pub fn tape(&self, phase: Phase, thread: u32) -> Tape {
        Tape {
            queue: self.queue.clone(),
            shared: Arc::clone(&self.shared),
            phase,
            thread,
            records: 0,
            first_ns: 0,
            context: Context::default(),
            raw: Vec::new(),
            sample: Vec::new(),
        }
    }

    /// Whether writing has failed; [`Recorder::finish`] says why.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.shared.has_failed.load(Ordering::Relaxed)
    }

    /// Ends the trace, once all tapes are gone.
    ///
    /// # Errors
    /// The file could not be written to its end.
    pub fn finish(mut self) -> Result<Summary> {
        drop(self.queue.take());
        let joined = self.thread.take().map(JoinHandle::join);
        let waits = self.shared.waits.load(Ordering::Relaxed);
        match joined {
            Some(Ok(summary)) => summary.map(|summary| Summary { waits, ..summary }),
            _ => Err(Error::unusable(&self.path, "the thread that wrote it panicked; a bug")),
        }
    }
}

fn write_all(
    mut file: OutputFile,
    mut file_bytes: u64,
    blocks: &Receiver<Block>,
    shared: &Shared,
) -> Result<Summary> {
    let mut end = End::default();
    let mut failure = None;
    for block in blocks {
        if failure.is_some() {
            // Whoever sends must not wait for ever.
            continue;
        }
        match write_block(&mut file, &block) {
            Ok(bytes) => {
                file_bytes += bytes;
                end.blocks += 1;
                end.records += u64::from(block.records);
                end.sample_bytes += block.sample.len() as u64;
                end.sample_stored_bytes += compressed(&block.sample).len() as u64;
            }
            Err(error) => {
                shared.has_failed.store(true, Ordering::Relaxed);
                failure = Some(error);
            }
        }
    }
    if let Some(error) = failure {
        return Err(error);
    }
    let end_bytes = end.encode();
    file.append(&end_bytes)?;
    file.finish()?;
    Ok(Summary { records: end.records, file_bytes: file_bytes + end_bytes.len() as u64, waits: 0 })
}

/// The bytes compressed; as they are where that is no smaller.
fn compressed(bytes: &[u8]) -> Vec<u8> {
    match zstd::bulk::compress(bytes, LEVEL) {
        Ok(stored) if stored.len() < bytes.len() => stored,
        _ => bytes.to_vec(),
    }
}

fn write_block(file: &mut OutputFile, block: &Block) -> Result<u64> {
    let body = compressed(&block.raw);
    let head = BlockHead {
        phase: block.phase as u8,
        is_compressed: body.len() < block.raw.len(),
        thread: block.thread,
        records: block.records,
        raw_bytes: block.raw.len() as u32,
        stored_bytes: body.len() as u32,
        first_ns: block.first_ns,
        body_crc: layout::crc(&body),
    };
    file.append(&head.encode())?;
    file.append(&body)?;
    Ok((layout::HEAD_BYTES + body.len()) as u64)
}

/// One worker's way into a trace.
#[derive(Debug)]
pub struct Tape {
    queue: Option<SyncSender<Block>>,
    shared: Arc<Shared>,
    phase: Phase,
    thread: u32,
    records: u32,
    first_ns: u64,
    context: Context,
    raw: Vec<u8>,
    sample: Vec<u8>,
}

impl Tape {
    /// Counts later operations into `phase`.
    pub fn enter(&mut self, phase: Phase) {
        if self.phase != phase {
            self.flush();
            self.phase = phase;
        }
    }

    /// Writes down an operation on the keys of `entries`, of which there are `count`.
    pub fn note<'k>(
        &mut self,
        (verb, result, at_ns): (Verb, Outcome, u64),
        value_bytes: u64,
        count: usize,
        entries: impl Iterator<Item = Entry<'k>>,
    ) {
        let head = Head { at_ns, verb, result, value_bytes, ..Head::default() };
        self.add(&head, count, entries);
    }

    /// Writes down a walk over `rows` rows from `low` to `high`; a `limit` of 0 is none.
    pub fn note_range(
        &mut self,
        (verb, result, at_ns): (Verb, Outcome, u64),
        (low, high): (&[u8], Option<&[u8]>),
        limit: u64,
        rows: u64,
    ) {
        let head = Head { at_ns, verb, result, limit, rows, ..Head::default() };
        let keys = [Some(low), high].into_iter().flatten();
        let count = 1 + usize::from(high.is_some());
        self.add(&head, count, keys.map(|key| Entry { key, write: Default::default() }));
    }

    /// Looks at a value that was written, for how well it compresses.
    pub fn sample(&mut self, value: &[u8]) {
        let room = SAMPLE_BYTES - self.sample.len();
        self.sample.extend_from_slice(&value[..value.len().min(room)]);
    }

    fn add<'k>(&mut self, head: &Head, count: usize, entries: impl Iterator<Item = Entry<'k>>) {
        if self.records == 0 {
            self.first_ns = head.at_ns;
            self.context.reset(head.at_ns);
        }
        encode(&mut self.raw, &mut self.context, head, count, entries);
        self.records += 1;
        if self.raw.len() >= BLOCK_BYTES {
            self.flush();
        }
    }

    /// Sends what there is on its way.
    #[cold]
    pub fn flush(&mut self) {
        let Some(queue) = self.queue.as_ref().filter(|_| self.records > 0) else { return };
        let block = Block {
            phase: self.phase,
            thread: self.thread,
            records: std::mem::take(&mut self.records),
            first_ns: self.first_ns,
            raw: std::mem::replace(&mut self.raw, Vec::with_capacity(BLOCK_BYTES + 4096)),
            sample: std::mem::take(&mut self.sample),
        };
        let sent = match queue.try_send(block) {
            Err(TrySendError::Full(block)) => {
                self.shared.waits.fetch_add(1, Ordering::Relaxed);
                queue.send(block).is_ok()
            }
            sent => sent.is_ok(),
        };
        // The thread listens until the last tape is gone, unless it has panicked.
        if !sent {
            self.shared.has_failed.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        self.flush();
    }
}
