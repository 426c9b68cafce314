//! `keyrack fs bench`: the client of DeltaFS' benchmark with its file system in the process.
//!
//! ```text
//!   rank = thread, with the log DB/r<rank>     prepare: the directory
//!   for each write phase: create n names       ==insert    : us/op, Mop/s, s, ops
//!   for each read phase:  stat them, shuffled  ==fstats    : us/op, Mop/s, s, ops
//!   if asked for:         list, resume, remove ==list      : and so on
//! ```
//!
//! Flags, names of files and the lines with `==` are those of `deltafs_bm_cli`, as in its public
//! benchmark guide; behind each such line come what it does not tell: percentiles, CPU time of all
//! threads, bytes on disk. As there, us/op adds up the seconds of all ranks, Mop/s is over the time
//! from the first start to the last end, and the flush of each log is in the time of its rank.
//!
//! What differs: a log that is there is refused, not removed; and what the header says of
//! durability is what an acknowledged create survives.

mod mdtest;
mod walks;

use super::{Failure, Outcome, flag, option, text};
use crate::jobs::Document;
use clap::{ArgMatches, Command};
use keyrack_deltafs::{Caller, Dir, IfExists, Namespace, Settings, User};
use keyrack_flodb::{Compression, Durability, Options};
use keyrack_measure::{Clock, Histogram, usage, wall};
use keyrack_vfs::{Fs, RealFs};
use keyrack_workload::Rng;
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

/// The user and the group of all files, as in the original.
const ID: u32 = 1;
const RANKS_MAX: u64 = 1024;

pub(super) fn command() -> Command {
    let flags: [(&'static str, &'static str, &'static str, &'static str); 20] = [
        ("n", "N", "8", "Names for each rank"),
        ("ranks", "N", "1", "Ranks, each a thread with a log of its own"),
        ("writes", "N", "", "Creates for each rank and phase [default: n]"),
        ("reads", "N", "", "Stats for each rank and phase [default: n]"),
        ("write_phases", "N", "1", "How often names are created; from the second on they are new"),
        ("read_phases", "N", "1", "How often names are read"),
        (
            "list_phases",
            "N",
            "0",
            "How often the directory is listed, whole and from the middle on",
        ),
        ("remove_phase", "0|1", "0", "Remove the files at the end"),
        ("step_interval", "SECONDS", "5", "Pause between phases"),
        ("share_dir", "0|1", "0", "All ranks in one directory, or each in its own"),
        ("random_order", "0|1", "1", "Shuffle the names"),
        ("skip_fs_checks", "0|1", "1", "Create without asking whether the name is there"),
        ("use_existing_fs", "0|1", "0", "Go on with the logs that are there"),
        ("fs_use_local", "0|1", "1", "1: the file system is in the ranks"),
        ("bk", "0|1", "0", "Bulk insertion: not in this version"),
        ("batched_writes", "0|1", "0", "Batches to servers: not in this version"),
        ("data_size", "BYTES", "0", "Bytes of each file, at most 3901"),
        ("disable_compaction", "0|1", "1", "Leave tables as they are flushed"),
        ("compression", "0|1", "1", "Snappy"),
        ("db", "DIR", "/tmp/deltafs_bm", "Where the logs are"),
    ];
    let args = flags.into_iter().map(|(name, value, default, help)| match default {
        "" => option(name, value, help),
        _ => option(name, value, help).default_value(default),
    });
    Command::new("bench")
        .about("Measure creates and stats in this process, with the flags of deltafs_bm_cli")
        .after_help(super::STATUSES)
        .args(args)
        .arg(
            option("durability", "none|os|interval:MS|sync", "What a create survives")
                .default_value("os"),
        )
        .arg(flag("mdtest", "The phases and the table of mdtest instead, in one log"))
        .arg(option("iterations", "N", "Of mdtest, how often").default_value("1"))
        .arg(
            option("stride", "N", "Of mdtest, whose entries a rank looks at: so many further on")
                .default_value("1"),
        )
        .arg(option("json", "FILE", "Write the results there too"))
}

struct Plan {
    ranks: u64,
    n: u64,
    writes: u64,
    reads: u64,
    write_phases: u64,
    read_phases: u64,
    list_phases: u64,
    removes: bool,
    pause_s: u64,
    shared: bool,
    shuffled: bool,
    unchecked: bool,
    existing: bool,
    data_bytes: usize,
    db: PathBuf,
    store: Options,
    durability: String,
}

impl Plan {
    fn of(matches: &ArgMatches) -> Result<Plan, Failure> {
        let number = |name| Ok::<_, Failure>(super::find::number(matches, name)?.unwrap_or(0));
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
        let data_bytes = super::find::bytes(matches, "data_size")?.unwrap_or(0);
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
        let of_n = |name| Ok::<_, Failure>(super::find::number(matches, name)?.unwrap_or(n).min(n));
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
        })
    }

    fn log(&self, rank: u64) -> PathBuf {
        self.db.join(format!("r{rank}"))
    }

    fn dir(&self, rank: u64) -> [u8; 13] {
        let mut path = [b'/'; 13];
        path[1..].copy_from_slice(&name_of(if self.shared { 0 } else { (rank + 1) << 32 }));
        path
    }

    /// What is printed first, and the same as an object.
    fn header(&self) -> (String, serde_json::Value) {
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
            ("Memtable size:", format!("{:<4} MB", store.memory_bytes >> 20)),
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
            Err(Failure::Usage(keyrack_harness::unknown("durability", given, &names)))
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

/// The name of a number: its 64 bits and eight zeros, six bits a letter, the highest first.
fn name_of(number: u64) -> [u8; 12] {
    const LETTERS: &[u8; 64] = b"+-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let bits = u128::from(number) << 8;
    std::array::from_fn(|at| LETTERS[(bits >> (66 - 6 * at) & 63) as usize])
}

/// What a rank did in a phase.
struct Took {
    start: u64,
    end: u64,
    ops: u64,
    latency_ns: Histogram,
}

/// A phase over all ranks.
struct Phase {
    name: &'static str,
    us_per_op: f64,
    mops: f64,
    seconds: f64,
    ops: u64,
    latency_ns: Histogram,
    cpu_us_per_op: f64,
    bytes: u64,
    /// The largest resident set so far.
    memory_kib: u64,
}

impl Phase {
    fn text(&self) -> String {
        let Phase { name, us_per_op, mops, seconds, ops, .. } = self;
        let us = |p| self.latency_ns.percentile(p).map_or(0.0, |ns| ns as f64 / 1000.0);
        format!(
            "=={name:<10}: {us_per_op:9.3} micros/op, {mops:9.3} Mop/s, {seconds:15.3} s, \
             {ops:15} ops\n\
             latency us: p50 {:.3}, p90 {:.3}, p99 {:.3}, p99.9 {:.3}, max {:.3}\n\
             CPU of all threads: {:.3} us/op; on disk: {} bytes; memory so far: at most {} MiB\n",
            us(50.0),
            us(90.0),
            us(99.0),
            us(99.9),
            self.latency_ns.max().unwrap_or(0) as f64 / 1000.0,
            self.cpu_us_per_op,
            self.bytes,
            self.memory_kib >> 10,
        )
    }

    fn json(&self) -> serde_json::Value {
        let ns = |p| self.latency_ns.percentile(p);
        json!({
            "name": self.name,
            "us_per_op": self.us_per_op,
            "mops": self.mops,
            "seconds": self.seconds,
            "ops": self.ops,
            "latency_ns": {
                "p50": ns(50.0), "p90": ns(90.0), "p99": ns(99.0), "p99.9": ns(99.9),
                "max": self.latency_ns.max(),
            },
            "cpu_us_per_op": self.cpu_us_per_op,
            "bytes_on_disk": self.bytes,
            "peak_rss_kib": self.memory_kib,
        })
    }
}

/// A rank with its log.
struct Rank {
    rank: u64,
    space: Namespace,
    dir: Dir,
}

pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let plan = Plan::of(matches)?;
    let mut document = Document::new("bench", text(matches, "json"));
    document.begin(true).map_err(Failure::Usage)?;
    let done = run_plan(&plan, matches, &mut document);
    let status = match &done {
        Ok(status) => *status,
        Err(failure) => {
            document.error(failure.message());
            failure.status()
        }
    };
    let ended = document.end("keyrack fs bench", status);
    done.map(|_| ended)
}

fn run_plan(plan: &Plan, matches: &ArgMatches, document: &mut Document) -> Outcome {
    let is_mdtest = matches.get_flag("mdtest");
    let mut ranks = Vec::new();
    let user = User::new(ID, ID);
    RealFs.create_dir_all(&plan.db)?;
    for rank in 0..plan.ranks {
        let log = plan.log(rank);
        if !plan.existing && RealFs.exists(&log.join("CURRENT"))? {
            return Err(Failure::Usage(format!(
                "{}: there is a log already; remove it, or go on with --use_existing_fs=1",
                log.display()
            )));
        }
    }
    if is_mdtest {
        let number = |name| Ok::<_, Failure>(super::find::number(matches, name)?.unwrap_or(1));
        let wishes =
            mdtest::Wishes { iterations: number("iterations")?.max(1), stride: number("stride")? };
        return mdtest::run(plan, &wishes, document);
    }
    let (header, object) = plan.header();
    document.put("header", object);
    for (name, value) in [
        ("ranks", json!(plan.ranks)),
        ("n", json!(plan.n)),
        ("share_dir", json!(plan.shared)),
        ("skip_fs_checks", json!(plan.unchecked)),
        ("durability", json!(plan.durability)),
        ("data_bytes", json!(plan.data_bytes)),
        ("pause_seconds", json!(plan.pause_s)),
    ] {
        document.put(name, value);
    }
    crate::print(&header);
    crate::print("preparing run...\n");
    for rank in 0..plan.ranks {
        let mut store = plan.store.clone();
        store.create_if_missing = !plan.existing;
        let settings = Settings { store, root_mode: 0o777, ..Settings::default() };
        let space = Namespace::open(plan.log(rank), settings)?;
        let fs = space.by(&user);
        let path = plan.dir(rank);
        let dir = if plan.existing { fs.dir(&path)? } else { fs.mkdir(&path, 0o777)? };
        ranks.push(Rank { rank, space, dir });
    }
    let stop = crate::db::on_signals()?;
    let clock = Clock::calibrated();
    let mut is_first = true;
    let creates = (0..plan.write_phases).map(|phase| ("insert", phase));
    let stats = (0..plan.read_phases).map(|phase| ("fstats", phase));
    let lists = (0..plan.list_phases).flat_map(|phase| [("list", phase), ("resume", phase)]);
    let removes = (0..if plan.removes { plan.write_phases } else { 0 }).map(|p| ("remove", p));
    for (name, phase) in creates.chain(stats).chain(lists).chain(removes) {
        crate::db::check_signal(&stop)?;
        if !std::mem::take(&mut is_first) && plan.pause_s > 0 {
            crate::print(&format!("sleeping for {} seconds...\n", plan.pause_s));
            let until =
                clock.ticks() + clock.ticks_of_ns(plan.pause_s.saturating_mul(1_000_000_000));
            clock.wait_until(until);
        }
        let done = measure(plan, &ranks, &clock, name, phase)?;
        crate::print(&done.text());
        document.push("phases", done.json());
    }
    for rank in ranks {
        rank.space.close()?;
    }
    Ok(crate::DONE)
}

fn measure(
    plan: &Plan,
    ranks: &[Rank],
    clock: &Clock,
    name: &'static str,
    phase: u64,
) -> Result<Phase, Failure> {
    let barrier = Barrier::new(ranks.len());
    let before = usage::process();
    let took: Vec<keyrack_deltafs::Result<Took>> = std::thread::scope(|scope| {
        let threads: Vec<_> = ranks
            .iter()
            .map(|rank| {
                let (barrier, clock) = (&barrier, clock.share());
                scope.spawn(move || {
                    let names = names(plan, rank.rank, name, phase);
                    barrier.wait();
                    match name {
                        "insert" => insert(plan, rank, &clock, &names),
                        "list" => walks::list(plan, rank, &clock),
                        "resume" => walks::resume(plan, rank, &clock, &names),
                        "remove" => walks::remove(plan, rank, &clock, &names),
                        _ => stats(plan, rank, &clock, &names),
                    }
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(took) => took,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    });
    let after = usage::process();
    let took: Vec<Took> = took.into_iter().collect::<keyrack_deltafs::Result<_>>()?;
    let ops: u64 = took.iter().map(|took| took.ops).sum();
    let start = took.iter().map(|took| took.start).min().unwrap_or(0);
    let end = took.iter().map(|took| took.end).max().unwrap_or(0);
    let sum_ns: u64 = took.iter().map(|took| clock.ns_between(took.start, took.end)).sum();
    let seconds = clock.ns_between(start, end) as f64 / 1e9;
    let mut latency_ns = Histogram::new();
    took.iter().for_each(|took| latency_ns.merge(&took.latency_ns));
    let cpu_ns = (after.user_ns + after.system_ns) - (before.user_ns + before.system_ns);
    let per_op = |ns: u64| ns as f64 / 1000.0 / ops.max(1) as f64;
    Ok(Phase {
        name,
        us_per_op: per_op(sum_ns),
        mops: if seconds > 0.0 { ops as f64 / seconds / 1e6 } else { 0.0 },
        seconds,
        ops,
        latency_ns,
        cpu_us_per_op: per_op(cpu_ns),
        bytes: RealFs.size_recursive(&plan.db)?,
        memory_kib: after.peak_rss_kib,
    })
}

/// Whether a phase is about the names of one phase of creates.
fn is_write(name: &str) -> bool {
    matches!(name, "insert" | "remove")
}

/// The names of a rank in a phase: all have the rank in them, so that no two ranks have one.
fn names(plan: &Plan, rank: u64, name: &str, phase: u64) -> Vec<[u8; 12]> {
    let mut ids: Vec<u64> = (0..plan.n).collect();
    if plan.shuffled {
        let seed = 1000 * rank + phase + if is_write(name) { 0 } else { 1 << 32 };
        let mut rng = Rng::from_seed(seed);
        for at in (1..ids.len()).rev() {
            ids.swap(at, rng.below(at as u64 + 1) as usize);
        }
    }
    let count = if is_write(name) { plan.writes } else { plan.reads };
    ids.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    // From the second phase of creates on the names are new.
    let round = if is_write(name) { phase } else { 0 };
    let number = |id: u64| match plan.shared {
        true => (id + round * plan.n) << 32 | rank,
        false => rank << 32 | (id + round * plan.n),
    };
    ids.into_iter().map(|id| name_of(number(id))).collect()
}

/// Runs `op` for each name, with a reading of the clock between two.
fn timed(
    clock: &Clock,
    names: &[[u8; 12]],
    mut op: impl FnMut(&[u8]) -> keyrack_deltafs::Result<()>,
    end: impl FnOnce() -> keyrack_deltafs::Result<()>,
) -> keyrack_deltafs::Result<Took> {
    let mut latency_ns = Histogram::new();
    let start = clock.ticks();
    let mut last = start;
    for name in names {
        op(name)?;
        let now = clock.ticks();
        latency_ns.record(clock.ns_between(last, now));
        last = now;
    }
    end()?;
    Ok(Took { start, end: clock.ticks(), ops: names.len() as u64, latency_ns })
}

fn insert(
    plan: &Plan,
    rank: &Rank,
    clock: &Clock,
    names: &[[u8; 12]],
) -> keyrack_deltafs::Result<Took> {
    let user = User::new(ID, ID);
    let fs: Caller<'_> = rank.space.by(&user);
    let data = vec![b'x'; plan.data_bytes];
    let op = |name: &[u8]| match (plan.unchecked, data.is_empty()) {
        (true, true) => fs.create_unchecked_at(&rank.dir, name, 0o660),
        (_, true) => fs.create_at(&rank.dir, name, 0o660, IfExists::Fail).map(|_| ()),
        (_, false) => fs.create_with_at(&rank.dir, name, 0o660, &data).map(|_| ()),
    };
    timed(clock, names, op, || rank.space.flush())
}

fn stats(
    plan: &Plan,
    rank: &Rank,
    clock: &Clock,
    names: &[[u8; 12]],
) -> keyrack_deltafs::Result<Took> {
    let user = User::new(ID, ID);
    let fs = rank.space.by(&user);
    let size = plan.data_bytes as u64;
    let op = |name: &[u8]| match fs.stat_at(&rank.dir, name)? {
        stat if stat.size == size => Ok(()),
        stat => Err(keyrack_deltafs::Error::Corruption {
            path: plan.log(rank.rank),
            what: format!("a file has {} bytes, {size} were written", stat.size),
        }),
    };
    timed(clock, names, op, || Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_original() {
        assert_eq!(&name_of(0), b"++++++++++++");
        // Seen in a table that the original wrote: id 1 of rank 0.
        assert_eq!(&name_of(1 << 32), b"+++++E++++++");
        let mut numbers: Vec<u64> =
            (0..2000_u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        numbers.sort_unstable();
        let names: Vec<_> = numbers.iter().map(|n| name_of(*n)).collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "in the order of numbers");
    }
}
