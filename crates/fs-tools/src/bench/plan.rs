//! What is measured, as the flags say it, and the header that tells it.

use super::super::text;
use super::RANKS_MAX;
use super::names::name_of;
use clap::ArgMatches;
use keyrack_console::Failure;
use keyrack_deltafs::Quota;
use keyrack_flodb::{Compression, Durability, Options};
use keyrack_measure::wall;
use keyrack_vfs::{Fs, RealFs};
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The benchmark.
pub(super) struct Plan {
    pub(super) ranks: u64,
    pub(super) n: u64,
    pub(super) writes: u64,
    pub(super) reads: u64,
    pub(super) write_phases: u64,
    pub(super) read_phases: u64,
    pub(super) list_phases: u64,
    pub(super) removes: bool,
    pub(super) pause_s: u64,
    pub(super) shared: bool,
    pub(super) shuffled: bool,
    pub(super) unchecked: bool,
    pub(super) existing: bool,
    pub(super) data_bytes: usize,
    pub(super) db: PathBuf,
    pub(super) store: Options,
    pub(super) durability: String,
    /// Of each log.
    pub(super) quota: Quota,
}

impl Plan {
    pub(super) fn of(matches: &ArgMatches) -> Result<Plan, Failure> {
        let number =
            |name| Ok::<_, Failure>(super::super::find::number(matches, name)?.unwrap_or(0));
        let switch = |name: &str| match text(matches, name) {
            Some("1") => Ok(true),
            Some("0") => Ok(false),
            other => {
                let other = other.unwrap_or_default();
                Err(Failure::Usage(format!("--{name}: '{other}' is neither 0 nor 1")))
            }
        };
        if !switch("fs_use_local")? {
            return Err(Failure::Usage(
                "--fs_use_local=0: servers are not in this version; leave it at 1".to_owned(),
            ));
        }
        for name in ["bk", "batched_writes"] {
            if switch(name)? {
                let what = format!("--{name}=1: not in this version; leave it at 0");
                return Err(Failure::Usage(what));
            }
        }
        let (ranks, n) = (number("ranks")?, number("n")?);
        if !(1..=RANKS_MAX).contains(&ranks) || !(1..=1 << 32).contains(&n) {
            let what = format!("--ranks is from 1 to {RANKS_MAX}, --n from 1 to 2^32");
            return Err(Failure::Usage(what));
        }
        let data_bytes = super::super::find::bytes(matches, "data_size")?.unwrap_or(0);
        if data_bytes > keyrack_deltafs::INLINE_BYTES_MAX as u64 && !matches.get_flag("mdtest") {
            return Err(Failure::Usage(format!("--data_size: {data_bytes} is more than 3901")));
        }
        let durability = text(matches, "durability").unwrap_or_default();
        let store = Options {
            durability: parse_durability(durability)?,
            compaction_threads: usize::from(!switch("disable_compaction")?),
            compression: match switch("compression")? {
                true => vec![Compression::Snappy],
                false => vec![Compression::None],
            },
            ..Options::default()
        };
        let of_n =
            |name| Ok::<_, Failure>(super::super::find::number(matches, name)?.unwrap_or(n).min(n));
        Ok(Plan {
            ranks,
            n,
            writes: of_n("writes")?,
            reads: of_n("reads")?,
            write_phases: number("write_phases")?,
            read_phases: number("read_phases")?,
            list_phases: number("list_phases")?,
            removes: switch("remove_phase")?,
            pause_s: number("step_interval")?,
            shared: switch("share_dir")?,
            shuffled: switch("random_order")?,
            unchecked: switch("skip_fs_checks")?,
            existing: switch("use_existing_fs")?,
            data_bytes: data_bytes as usize,
            db: PathBuf::from(text(matches, "db").unwrap_or_default()),
            store,
            durability: durability.to_owned(),
            quota: super::super::quota::of(matches),
        })
    }

    pub(super) fn log(&self, rank: u64) -> PathBuf {
        self.db.join(format!("r{rank}"))
    }

    pub(super) fn dir(&self, rank: u64) -> [u8; 13] {
        let mut path = [b'/'; 13];
        path[1..].copy_from_slice(&name_of(if self.shared { 0 } else { (rank + 1) << 32 }));
        path
    }

    /// What is printed first, and the same as an object.
    pub(super) fn header(&self) -> (String, serde_json::Value) {
        let is = u8::from;
        let (cpus, model, cache) = processor();
        let date = wall::ctime(&wall::rfc3339_now()).unwrap_or_default();
        let mut text = format!("Date:       {date}\nCPU:        {cpus} * {model}\n");
        let _ = writeln!(text, "CPUCache:   {cache}");
        let mut object = json!({
            "Date": date, "CPU": format!("{cpus} * {model}"), "CPUCache": cache,
            "Db": format!("{}/r<rank>", self.db.display()),
        });
        let store = &self.store;
        let prepare = if self.existing { "lstat" } else { "mkdir" };
        let lines = [
            ("Num ranks:", self.ranks.to_string()),
            ("Fs use existing:", format!("{} (prepare_run={prepare})", is(self.existing))),
            ("Fs use local:", "1".to_owned()),
            ("Fs infosvr locatio:", "N/A".to_owned()),
            ("Fs skip checks:", is(self.unchecked).to_string()),
            ("RPC timeout:", "N/A".to_owned()),
            (
                "Creats:",
                format!(
                    "{} x {} per rank ({} KB data per file)",
                    self.writes,
                    self.write_phases,
                    self.data_bytes >> 10
                ),
            ),
            ("Batched creats:", "OFF".to_owned()),
            ("Bulk in:", "OFF".to_owned()),
            ("Lstats:", format!("{} x {} per rank", self.reads, self.read_phases)),
            ("Mon:", "OFF".to_owned()),
            ("Random key order:", is(self.shuffled).to_string()),
            ("Share dir:", is(self.shared).to_string()),
            ("CLIENT DB:", String::new()),
            ("Snappy:", is(store.compression == [Compression::Snappy]).to_string()),
            ("Blk cache size:", format!("{:<4} MB", store.cache_bytes >> 20)),
            ("Blk size:", format!("{:<4} KB", store.block_bytes >> 10)),
            ("Bloom bits:", store.filter_bits_per_key.to_string()),
            ("Memtable size:", format!("{:<4} MB", store.memtable_bytes >> 20)),
            ("Tbl size:", format!("{:<4} MB", store.table_bytes >> 20)),
            ("Lsm compaction off:", is(store.compaction_threads == 0).to_string()),
            ("Wal off:", is(store.durability == Durability::None).to_string()),
            ("Durability:", self.durability.clone()),
            ("Data per file:", format!("{} bytes", self.data_bytes)),
            ("Use existing db:", is(self.existing).to_string()),
        ];
        for (name, value) in lines {
            let _ = writeln!(text, "{}", format!("{name:<20}{value}").trim_end());
            if !value.is_empty() {
                let value = value.parse::<u64>().map_or_else(|_| json!(value), |n| json!(n));
                object[name.trim_end_matches(':')] = value;
            }
        }
        let _ = writeln!(text, "Db: {}/r<rank>\n{}", self.db.display(), "-".repeat(48));
        (text, object)
    }
}

fn parse_durability(given: &str) -> Result<Durability, Failure> {
    let interval = given.strip_prefix("interval:").and_then(|ms| ms.parse().ok());
    match (given, interval) {
        ("none", _) => Ok(Durability::None),
        ("os", _) => Ok(Durability::Os),
        ("sync", _) => Ok(Durability::Sync),
        (_, Some(ms)) => Ok(Durability::Interval(std::time::Duration::from_millis(ms))),
        _ => {
            let names = ["none", "os", "interval:MS", "sync"];
            Err(Failure::Usage(keyrack_store::unknown("durability", given, &names)))
        }
    }
}

/// How many processors, which, and their cache, as the kernel tells.
fn processor() -> (usize, String, String) {
    let text = RealFs.read_to_string(Path::new("/proc/cpuinfo")).unwrap_or_default();
    let values = |key: &str| -> Vec<&str> {
        let lines = text.lines().filter(|line| line.starts_with(key));
        lines.filter_map(|line| Some(line.split_once(':')?.1.trim())).collect()
    };
    let first = |key| values(key).first().copied().unwrap_or("unknown").to_owned();
    (values("model name").len().max(1), first("model name"), first("cache size"))
}
