//! What ranks of a job measure, against servers or each in a name space of its own.

use crate::job::{Header, Part, StoreSettings};
use keyrack_deltafs::job::Job;
use keyrack_net::{Endpoint, TlsClient};
use keyrack_vfs::{Fs, OpenOptions, RealFs};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is done with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Insert,
    Stat,
}

/// A benchmark whose ranks are the processes of a job.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Files of each rank.
    pub count: u64,
    /// Creates of each rank and phase, at most `count`.
    pub writes: u64,
    /// Stats of each rank and phase, at most `count`.
    pub reads: u64,
    /// How often files are created.
    pub write_phases: u32,
    /// How often files are asked for.
    pub read_phases: u32,
    /// The pause between two phases.
    pub interval: Duration,
    /// Whether all ranks work in one directory.
    pub is_shared: bool,
    /// Whether names are shuffled.
    pub is_random: bool,
    /// Whether each rank has a name space of its own, without servers.
    pub is_local: bool,
    /// Whether the files of an earlier run are used.
    pub use_existing: bool,
    /// Whether a create looks for the name first.
    pub is_checked: bool,
    /// Whether tables are handed over instead of names.
    pub is_bulk: bool,
    /// Names of a call, with batches.
    pub batch: Option<usize>,
    /// Creates that go together, though each is a call that returns at once.
    pub create_behind: Option<usize>,
    /// Where the logs are, or the tables that are handed over.
    pub db: PathBuf,
    /// Bytes of each file, which are written outside the name space.
    pub data_bytes: usize,
    /// Where rank 0 of the servers is.
    pub server: Endpoint,
    /// The same for the header.
    pub server_text: String,
    /// How long a call may take.
    pub timeout: Duration,
    /// Whether calls go by datagrams.
    pub is_udp: bool,
    /// What the servers want to be shown.
    pub token: Vec<u8>,
    /// Whom the client trusts, if servers have certificates.
    pub tls: Option<TlsClient>,
    /// Whether the first failure ends the run.
    pub abort_on_errors: bool,
    /// Where progress is sent, and how often.
    pub monitor: Option<(String, Duration)>,
    /// Whether a line for each rank is printed.
    pub shows_ranks: bool,
    /// Calls under way.
    pub depth: usize,
    /// The stores of local name spaces.
    pub store: StoreSettings,
    /// The tables that are handed over.
    pub bulk: StoreSettings,
}

/// Where the bytes of files go, with `data_size`.
const DATA_DIR: &str = "/tmp/deltafs_data";

impl Clients {
    pub(super) fn rank_dir(&self, rank: u32) -> PathBuf {
        self.db.join(format!("r{rank}"))
    }

    /// Writes and syncs the bytes of a file, outside the name space.
    pub(super) fn write_data(&self, name: &[u8]) -> keyrack_vfs::Result<()> {
        if self.data_bytes == 0 {
            return Ok(());
        }
        let path = Path::new(DATA_DIR).join(String::from_utf8_lossy(name).as_ref());
        let options = OpenOptions::new().write(true).create(true).truncate(true);
        let file = RealFs.open(&path, &options)?;
        file.append(&vec![0; self.data_bytes])?;
        file.sync_data()
    }

    /// Makes the place of the bytes of files, if files have any.
    pub(super) fn make_data_dir(&self) -> keyrack_vfs::Result<()> {
        if self.data_bytes == 0 { Ok(()) } else { RealFs.create_dir_all(Path::new(DATA_DIR)) }
    }

    pub(super) fn header(&self, job: &Job) -> Header {
        let mut header = Header::new();
        let timeout = format!("{} s", self.timeout.as_secs());
        let monitor = self.monitor.as_ref();
        let monitor =
            monitor.map(|(uri, interval)| format!("{uri} (every {}s)", interval.as_secs()));
        let batch = self.batch.map(|batch| format!("1 (batch_size={batch})"));
        Common {
            ranks: job.size(),
            use_existing: self.use_existing,
            is_local: self.is_local,
            server: &self.server_text,
            is_checked: self.is_checked,
            timeout: &timeout,
            depth: (!self.is_local).then_some((self.depth, self.is_udp)),
            writes: (self.writes, u64::from(self.write_phases)),
            data_bytes: self.data_bytes,
            batch: batch.as_deref(),
            create_behind: self.create_behind,
            is_bulk: self.is_bulk,
            reads: (self.reads, u64::from(self.read_phases)),
            monitor: monitor.as_deref(),
            is_random: self.is_random,
            is_shared: self.is_shared,
            bulk: self.is_bulk.then_some((&self.bulk, &self.db)),
        }
        .describe(&mut header);
        if self.is_local {
            header.title("CLIENT DB:");
            let place = format!("{}/r<rank>", self.db.display());
            let part = Part::Client { is_existing: self.use_existing };
            self.store.describe(&mut header, part, &place);
        }
        header
    }
}

/// The lines of the header that both ways to run the benchmark have.
#[derive(Default)]
pub(super) struct Common<'a> {
    pub(super) ranks: u32,
    pub(super) use_existing: bool,
    pub(super) is_local: bool,
    pub(super) server: &'a str,
    pub(super) is_checked: bool,
    pub(super) timeout: &'a str,
    /// Calls under way, and whether they go by datagrams.
    pub(super) depth: Option<(usize, bool)>,
    /// Of a rank and phase, and how many phases.
    pub(super) writes: (u64, u64),
    pub(super) data_bytes: usize,
    pub(super) batch: Option<&'a str>,
    pub(super) create_behind: Option<usize>,
    pub(super) is_bulk: bool,
    pub(super) reads: (u64, u64),
    pub(super) monitor: Option<&'a str>,
    pub(super) is_random: bool,
    pub(super) is_shared: bool,
    /// The tables that are handed over, and where they are made.
    pub(super) bulk: Option<(&'a StoreSettings, &'a Path)>,
}

impl Common<'_> {
    pub(super) fn describe(&self, header: &mut Header) {
        header.line("Num ranks", self.ranks);
        let first = if self.use_existing { "lstat" } else { "mkdir" };
        let existing = format!("{} (prepare_run={first})", u8::from(self.use_existing));
        header.line("Fs use existing", existing);
        header.flag("Fs use local", self.is_local);
        let or_none = |text| if self.is_local { "N/A" } else { text };
        header.line("Fs infosvr locatio", or_none(self.server));
        header.flag("Fs skip checks", !self.is_checked);
        header.line("RPC timeout", or_none(self.timeout));
        if let Some((depth, is_udp)) = self.depth {
            let transport = if is_udp { "UDP" } else { "TCP" };
            header.line("RPC depth", format!("{depth} (calls under way, {transport})"));
        }
        let kib = self.data_bytes >> 10;
        let creates = format!("{} x {}", self.writes.0, self.writes.1);
        header.line("Creats", format!("{creates} per rank ({kib} KB data per file)"));
        header.line("Batched creats", self.batch.unwrap_or("OFF"));
        if let Some(count) = self.create_behind {
            header.line("Creats behind", format!("{count} (sent together)"));
        }
        header.line("Bulk in", if self.is_bulk { "1" } else { "OFF" });
        if let Some((store, dir)) = self.bulk {
            header.title("BK DB:");
            store.describe(header, Part::Bulk, &format!("{}/b<dir>", dir.display()));
            header.untitled();
        }
        header.line("Lstats", format!("{} x {} per rank", self.reads.0, self.reads.1));
        header.line("Mon", self.monitor.unwrap_or("OFF"));
        header.flag("Random key order", self.is_random);
        header.flag("Share dir", self.is_shared);
    }
}
