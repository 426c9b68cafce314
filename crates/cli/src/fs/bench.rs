//! `keyrack fs bench`: the flags of `deltafs_bm_cli` for a benchmark in this process.

use super::{STATUSES, bytes, flag, number, option, quota, text};
use clap::{ArgMatches, Command};
use keyrack_console::{Failure, Outcome};
use keyrack_flodb::{Compression, Durability, Options};
use keyrack_fs_tools::bench::{InProcess, Wishes, measure_in_process};
use keyrack_store::unknown;
use std::path::PathBuf;

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
        .after_help(STATUSES)
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
        .args(super::quota_args())
        .arg(option("json", "FILE", "Write the results there too"))
}

pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let plan = plan(matches)?;
    let wishes = if matches.get_flag("mdtest") {
        let or_one = |name| Ok::<_, Failure>(number(matches, name)?.unwrap_or(1));
        Some(Wishes { iterations: or_one("iterations")?.max(1), stride: or_one("stride")? })
    } else {
        None
    };
    measure_in_process(&plan, wishes.as_ref(), text(matches, "json"))
}

/// A flag that is 0 or 1.
fn switch(matches: &ArgMatches, name: &str) -> Result<bool, Failure> {
    match text(matches, name).unwrap_or_default() {
        "1" => Ok(true),
        "0" => Ok(false),
        other => Err(Failure::Usage(format!("--{name}: '{other}' is neither 0 nor 1"))),
    }
}

/// Refuses what the original has and this benchmark has not.
fn check_unsupported(matches: &ArgMatches) -> Result<(), Failure> {
    if !switch(matches, "fs_use_local")? {
        return Err(Failure::Usage(
            "--fs_use_local=0: servers are not in this version; leave it at 1".to_owned(),
        ));
    }
    for name in ["bk", "batched_writes"] {
        if switch(matches, name)? {
            let what = format!("--{name}=1: not in this version; leave it at 0");
            return Err(Failure::Usage(what));
        }
    }
    Ok(())
}

fn plan(matches: &ArgMatches) -> Result<InProcess, Failure> {
    check_unsupported(matches)?;
    let number = |name| Ok::<_, Failure>(number(matches, name)?.unwrap_or(0));
    let switch = |name| switch(matches, name);
    let (ranks, n) = (number("ranks")?, number("n")?);
    if !(1..=RANKS_MAX).contains(&ranks) || !(1..=1 << 32).contains(&n) {
        let what = format!("--ranks is from 1 to {RANKS_MAX}, --n from 1 to 2^32");
        return Err(Failure::Usage(what));
    }
    let data_bytes = bytes(matches, "data_size")?.unwrap_or(0);
    if data_bytes > keyrack_deltafs::INLINE_BYTES_MAX as u64 && !matches.get_flag("mdtest") {
        return Err(Failure::Usage(format!("--data_size: {data_bytes} is more than 3901")));
    }
    let durability = text(matches, "durability").unwrap_or_default();
    let is_compressed = switch("compression")?;
    let store = Options {
        durability: parse_durability(durability)?,
        compaction_threads: usize::from(!switch("disable_compaction")?),
        compression: vec![if is_compressed { Compression::Snappy } else { Compression::None }],
        ..Options::default()
    };
    let of_n = |name| Ok::<_, Failure>(super::number(matches, name)?.unwrap_or(n).min(n));
    Ok(InProcess {
        ranks: ranks as u32,
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
        quota: quota(matches),
    })
}

fn parse_durability(given: &str) -> Result<Durability, Failure> {
    let interval = given.strip_prefix("interval:").and_then(|ms| ms.parse().ok());
    match (given, interval) {
        ("none", _) => Ok(Durability::None),
        ("os", _) => Ok(Durability::Os),
        ("sync", _) => Ok(Durability::Sync),
        (_, Some(ms)) => Ok(Durability::Interval(ms)),
        _ => {
            let names = ["none", "os", "interval:MS", "sync"];
            Err(Failure::Usage(unknown("durability", given, &names)))
        }
    }
}
