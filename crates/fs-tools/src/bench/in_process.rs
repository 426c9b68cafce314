//! A benchmark whose ranks are threads of this process, each with a log of its own.

use super::names::name;
use super::plan::Common;
use crate::job::Header;
use crate::job::describe_local_tables;
use keyrack_deltafs::Quota;
use keyrack_flodb::{Durability, Options};
use std::path::PathBuf;

/// What is measured in this process.
#[derive(Clone, Debug)]
pub struct InProcess {
    /// Ranks, each a thread.
    pub ranks: u32,
    /// Names of each rank.
    pub n: u64,
    /// Creates of each rank and phase, at most `n`.
    pub writes: u64,
    /// Stats of each rank and phase, at most `n`.
    pub reads: u64,
    /// How often files are created; from the second phase on the names are new.
    pub write_phases: u64,
    /// How often files are asked for.
    pub read_phases: u64,
    /// How often the directory is listed, whole and from the middle on.
    pub list_phases: u64,
    /// Whether the files are removed at the end.
    pub removes: bool,
    /// Seconds between two phases.
    pub pause_s: u64,
    /// Whether all ranks work in one directory.
    pub shared: bool,
    /// Whether names are shuffled.
    pub shuffled: bool,
    /// Whether files are created without a look for the name.
    pub unchecked: bool,
    /// Whether the logs of an earlier run are used.
    pub existing: bool,
    /// Bytes of each file.
    pub data_bytes: usize,
    /// Where the logs are: `r0`, `r1` and so on.
    pub db: PathBuf,
    /// The store of each log.
    pub store: Options,
    /// What a create survives, as it was asked for.
    pub durability: String,
    /// The limits of each log.
    pub quota: Quota,
}

impl InProcess {
    /// The directory of a rank's log.
    pub(super) fn log(&self, rank: u32) -> PathBuf {
        self.db.join(format!("r{rank}"))
    }

    /// The path in which a rank makes files.
    pub(super) fn dir(&self, rank: u32) -> Vec<u8> {
        let number = if self.shared { 0 } else { (u64::from(rank) + 1) << 32 };
        [&b"/"[..], &name(number)].concat()
    }

    /// `ranks` are those of all processes.
    pub(super) fn header(&self, ranks: u32) -> Header {
        let mut header = Header::new();
        Common {
            ranks,
            use_existing: self.existing,
            is_local: true,
            is_checked: !self.unchecked,
            writes: (self.writes, self.write_phases),
            data_bytes: self.data_bytes,
            reads: (self.reads, self.read_phases),
            is_random: self.shuffled,
            is_shared: self.shared,
            ..Common::default()
        }
        .describe(&mut header);
        header.caption("CLIENT DB:");
        describe_local_tables(&self.store, &mut header);
        header.flag("Wal off", self.store.durability == Durability::None);
        header.line("Durability", &self.durability);
        header.line("Data per file", format!("{} bytes", self.data_bytes));
        header.flag("Use existing db", self.existing);
        header.plain("Db", &format!("{}/r<rank>", self.db.display()));
        header
    }
}
