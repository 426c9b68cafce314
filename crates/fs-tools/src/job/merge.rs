//! Many logs into few: each rank of the job merges its share of the parts.

use super::document::Document;
use super::header::Header;
use super::rank::in_words;
use super::result::PhaseResult;
use super::store::{Part, StoreSettings};
use super::totals::{Reads, Totals, average, written_text};
use keyrack_console::DONE;
use keyrack_deltafs::Error;
use keyrack_deltafs::job::{Fold, Job};
use keyrack_deltafs::merge::{self, PartCount, Summary, logs_in};
use keyrack_deltafs::rpc::recover;
use keyrack_flodb::{Db, Options};
use keyrack_measure::{Clock, usage};
use keyrack_vfs::{Fs, RealFs};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

/// What is merged, and where to.
#[derive(Clone, Debug)]
pub struct Merge {
    /// Where the logs are.
    pub source: PathBuf,
    /// Where the parts go.
    pub target: PathBuf,
    /// Whether the parts of an earlier merge are replaced.
    pub replaces: bool,
    /// How many parts; as many as ranks if it is not given.
    pub parts: Option<u32>,
    /// Lines of the header that only the original has.
    pub calls: Option<OriginalCalls>,
    /// The stores of the parts.
    pub store: StoreSettings,
}

/// The options of the original's calls, for the header. This merge makes no calls.
#[derive(Clone, Debug)]
pub struct OriginalCalls {
    /// The address.
    pub ip: String,
    /// Whether calls go by datagrams.
    pub is_udp: bool,
    /// Bytes of a datagram.
    pub datagram_bytes: u64,
    /// Bytes of the buffers to send and to receive.
    pub socket_bytes: (u64, u64),
    /// Entries of a call, at least and at most.
    pub batch: (u64, u64),
    /// Seconds until a call fails.
    pub timeout_s: u64,
    /// Threads that send.
    pub senders: u64,
    /// Threads that receive, and workers.
    pub threads: (u64, u64),
}

impl Merge {
    fn header(&self, job: &Job, parts: u32, logs: usize) -> Header {
        let mut header = Header::new();
        if let Some(calls) = &self.calls {
            header.title("DELTAFS PARALLEL COMPACTOR");
            header.line("rpc ip", format!("{}*", calls.ip));
            let (send, receive) = calls.socket_bytes;
            let sizes = format!(
                "(MAX_MSGSZ={}, SO_RCVBUF={}K, SO_SNDBUF={}K)",
                calls.datagram_bytes,
                receive >> 10,
                send >> 10
            );
            let udp = if calls.is_udp { format!("Yes {sizes}") } else { "No".to_owned() };
            header.line("rpc use udp", udp);
            header.line("rpc batch", format!("{} (min), {} (max)", calls.batch.0, calls.batch.1));
            header.line("rpc timeout", calls.timeout_s);
            let senders = format!("{} (max outstanding rpcs)", calls.senders);
            header.line("num sender threads", senders);
            let threads = format!("{} + {}", calls.threads.0, calls.threads.1);
            header.line("num rpc threads", threads);
        }
        header.line("num ranks", job.size());
        header.line("num logs", logs);
        header.line("num parts", parts);
        header.title("SOURCE DB:");
        if self.store.is_of_original() {
            // The logs are read once, in order.
            header.line("Blk cache", "(nil)");
            header.line("Tbl cache", "(nil)");
            header.line("Io monitoring", 1);
        }
        header.plain("Db", &format!("{}/r<rank>", self.source.display()));
        header.title("DESTINATION DB:");
        let part = Part::Target { replaces: self.replaces };
        self.store.describe(&mut header, part, &format!("{}/r<rank>", self.target.display()));
        header
    }
}

/// Merges as one rank of the job; rank 0 prints. Returns the exit status.
///
/// # Errors
/// One line if the logs cannot be merged, or a rank is gone.
pub fn merge(plan: &Merge, job: &mut Job, document: &mut Document) -> Result<u8, String> {
    let is_root = job.is_root();
    let say = |text: &str| if is_root { keyrack_console::print(text) } else { DONE };
    let parts = plan.parts.unwrap_or(job.size()).max(1);
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let logs = logs_in(&*fs, &plan.source).map_err(in_words)?;
    if logs.iter().any(|log| log.starts_with(&plan.target)) {
        return Err(format!("{}: it cannot be merged into itself", plan.target.display()));
    }
    let header = plan.header(job, parts, logs.len());
    document.header(&header);
    document.put("durability", plan.store.durability());
    say(&header.end());
    say("Bootstrapping...\n");
    if is_root {
        merge::Merge::begin(&*fs, &plan.target, plan.replaces).map_err(in_words)?;
    }
    job.barrier().map_err(in_words)?;
    say("Running...\n");
    let clock = Clock::vdso();
    let began = clock.ticks();
    let cpu = usage::process();
    let (count, reads) = merge_share(plan, job, document, (&fs, &logs), parts)?;
    let ended = clock.ticks();
    let after = usage::process();
    let cpu_ns = after.user_ns + after.system_ns - cpu.user_ns - cpu.system_ns;
    let (count, result) = gather(job, &count, (began, ended), cpu_ns)?;
    let reads = gather_reads(job, &reads)?;
    let tables = gather_tables(plan, job, &fs, parts)?;
    if is_root {
        let logs = u32::try_from(logs.len()).unwrap_or(u32::MAX);
        let summary = Summary { parts, logs, records: count.written };
        merge::Merge::end(&*fs, &plan.target, &summary).map_err(in_words)?;
    }
    say(&report(&count, &result, (&reads, &tables), document));
    for line in count.shown {
        document.push("conflicts_shown", line.as_str());
        keyrack_console::refuse("keyrack fs merge", &line);
    }
    Ok(DONE)
}

/// Merges the parts of this rank: every `size`-th from its number on.
fn merge_share(
    plan: &Merge,
    job: &mut Job,
    document: &mut Document,
    (fs, logs): (&Arc<dyn Fs>, &[PathBuf]),
    parts: u32,
) -> Result<(PartCount, Reads), String> {
    let merge = open(job, document, fs, logs)?;
    let cuts = if job.is_root() {
        let cuts = merge.cuts(parts).map_err(in_words)?;
        serde_json::to_vec(&cuts).map_err(in_words)?
    } else {
        Vec::new()
    };
    let cuts = job.broadcast(&cuts).map_err(in_words)?;
    let cuts: Vec<Vec<u8>> = serde_json::from_slice(&cuts).map_err(in_words)?;
    let mut all = PartCount::default();
    for part in (job.rank()..parts).step_by(job.size() as usize) {
        let dir = plan.target.join(format!("r{part}"));
        let count = merge.part(&cuts, part, &dir).map_err(in_words)?;
        all.read += count.read;
        all.written += count.written;
        all.bytes_read += count.bytes_read;
        all.bytes_written += count.bytes_written;
        all.writes += count.writes;
        all.contents += count.contents;
        all.conflicts += count.conflicts;
        all.shown.extend(count.shown);
    }
    let reads = Reads::of(merge.stores());
    Ok((all, reads))
}

/// Opens the logs. If servers crashed, rank 0 completes what they left half done, and all ranks
/// open again.
fn open(
    job: &mut Job,
    document: &mut Document,
    fs: &Arc<dyn Fs>,
    logs: &[PathBuf],
) -> Result<merge::Merge, String> {
    let merge = merge::Merge::open(Arc::clone(fs), logs);
    let is_unsettled = matches!(merge, Err(Error::Unsettled(_)));
    if job.fold(&[u64::from(is_unsettled)], Fold::Max).map_err(in_words)?[0] == 0 {
        return merge.map_err(in_words);
    }
    drop(merge);
    if job.is_root() && recover(fs, logs).map_err(in_words)? {
        let what = "settled what servers had left half done";
        document.push("notes", what);
        keyrack_console::refuse("keyrack fs merge", what);
    }
    job.barrier().map_err(in_words)?;
    merge::Merge::open(Arc::clone(fs), logs).map_err(in_words)
}

/// The counts of all ranks, and what they took. Rank 0 alone has the lines about conflicts.
fn gather(
    job: &mut Job,
    count: &PartCount,
    (began, ended): (u64, u64),
    cpu_ns: u64,
) -> Result<(PartCount, PhaseResult), String> {
    let PartCount { read, written, bytes_read, bytes_written, writes, conflicts, .. } = *count;
    let times = [ended - began, cpu_ns];
    let sums = [read, written, bytes_read, bytes_written, conflicts, times[0], times[1], writes];
    let sums = job.fold(&sums, Fold::Sum).map_err(in_words)?;
    let first = job.fold(&[began], Fold::Min).map_err(in_words)?[0];
    let last = job.fold(&[ended], Fold::Max).map_err(in_words)?[0];
    let shown = job.gather(count.shown.join("\n").as_bytes()).map_err(in_words)?;
    let lines = shown.unwrap_or_default().into_iter().flat_map(|lines| {
        let text = String::from_utf8_lossy(&lines).into_owned();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    });
    let all = PartCount {
        read: sums[0],
        written: sums[1],
        bytes_read: sums[2],
        bytes_written: sums[3],
        conflicts: sums[4],
        writes: sums[7],
        shown: lines.collect(),
        ..PartCount::default()
    };
    let result = PhaseResult {
        name: "mapreduce",
        ops: all.read,
        failed: 0,
        spent_ns: sums[5],
        wall_ns: last - first,
        cpu_ns: sums[6],
        latency_ns: None,
    };
    Ok((all, result))
}

/// What all ranks have read of the logs.
fn gather_reads(job: &mut Job, reads: &Reads) -> Result<Reads, String> {
    let sums = job.fold(&reads.numbers().map(|number| number as u64), Fold::Sum);
    let sums = sums.map_err(in_words)?;
    Ok(Reads::from_numbers(std::array::from_fn(|at| sums[at] as f64)))
}

/// The tables of all parts.
fn gather_tables(
    plan: &Merge,
    job: &mut Job,
    fs: &Arc<dyn Fs>,
    parts: u32,
) -> Result<Totals, String> {
    let mut mine = Totals::default();
    for part in (job.rank()..parts).step_by(job.size() as usize) {
        let dir = plan.target.join(format!("r{part}"));
        let options =
            Options { create_if_missing: false, compaction_threads: 0, ..Options::default() };
        let store = Db::open_read_only_in(Arc::clone(fs), &dir, options).map_err(in_words)?;
        mine.add(&Totals::of_made_tables(&[store]));
    }
    // Counts and bytes: these stores have done nothing that took seconds.
    let sums = job.fold(&mine.numbers().map(|number| number as u64), Fold::Sum);
    let mut sums = sums.map_err(in_words)?.into_iter().map(|number| number as f64);
    Ok(Totals::from_numbers(&std::array::from_fn(|_| sums.next().unwrap_or(0.0))))
}

/// The text at the end, and the same in the document.
fn report(
    count: &PartCount,
    result: &PhaseResult,
    (reads, tables): (&Reads, &Totals),
    document: &mut Document,
) -> String {
    let PartCount { read, written, bytes_read, bytes_written, writes, conflicts, .. } = count;
    document.push("phases", result.json());
    document.put("bytes_read", *bytes_read);
    document.put("bytes_written", *bytes_written);
    document.put("writes", *writes);
    document.put("write_bytes_average", average(*bytes_written as f64, *writes as f64));
    document.put("reads", reads.json());
    let records = json!({ "read": read, "written": written, "conflicts": conflicts });
    document.put("records", records);
    document.put("store", tables.json());
    format!(
        "Done!\n{}{}{}Records: {read} read, {written} written; names that several logs have: \
         {conflicts}\n{}\nBye\n",
        result.text(),
        reads.text(" // src db"),
        written_text(*bytes_written as f64, *writes as f64),
        tables.levels_text()
    )
}
