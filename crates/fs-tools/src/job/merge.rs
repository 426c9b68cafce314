//! Many logs into few: each rank of the job merges its share of the parts.

use super::document::Document;
use super::header::Header;
use super::result::PhaseResult;
use super::store::StoreSettings;
use keyrack_deltafs::Error;
use keyrack_deltafs::job::{Fold, Job};
use keyrack_deltafs::merge::{Merge, PartCount, Summary, logs_in};
use keyrack_deltafs::rpc::recover;
use keyrack_measure::{Clock, usage};
use keyrack_vfs::{Fs, RealFs};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

/// A merge.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) source: PathBuf,
    pub(super) target: PathBuf,
    pub(super) replaces: bool,
    /// As many as ranks if it is not given.
    pub(super) parts: Option<u32>,
    /// Lines of the header that mean something to the original alone.
    pub(super) calls: Option<Calls>,
    pub(super) store: StoreSettings,
}

/// What the original is told about its calls. Ours makes none.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    pub(super) ip: String,
    pub(super) is_udp: bool,
    pub(super) datagram_bytes: u64,
    pub(super) socket_bytes: (u64, u64),
    pub(super) batch: (u64, u64),
    pub(super) timeout_s: u64,
    pub(super) senders: u64,
    pub(super) threads: (u64, u64),
}

impl Plan {
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
        header.line("Db", format!("{}/r<rank>", self.source.display()));
        header.title("DESTINATION DB:");
        header.flag("Db force cleaning", self.replaces);
        self.store.describe(&mut header, &format!("{}/r<rank>", self.target.display()));
        header
    }
}

/// Merges as one rank. Rank 0 prints.
pub(super) fn run(plan: &Plan, job: &mut Job, document: &mut Document) -> Result<u8, String> {
    let gone = |error: keyrack_deltafs::job::Error| error.to_string();
    let words = |error: Error| error.to_string();
    let is_root = job.is_root();
    let say =
        |text: &str| if is_root { keyrack_console::print(text) } else { keyrack_console::DONE };
    let parts = plan.parts.unwrap_or(job.size()).max(1);
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let logs = logs_in(&*fs, &plan.source).map_err(words)?;
    if logs.iter().any(|log| log.starts_with(&plan.target)) {
        return Err(format!("{}: it cannot be merged into itself", plan.target.display()));
    }
    let header = plan.header(job, parts, logs.len());
    document.header(&header);
    document.put("durability", plan.store.durability());
    say(&header.end());
    say("Bootstrapping...\n");
    if is_root {
        Merge::begin(&*fs, &plan.target, plan.replaces).map_err(words)?;
    }
    job.barrier().map_err(gone)?;
    say("Running...\n");
    let clock = Clock::vdso();
    let began = clock.ticks();
    let cpu = usage::process();
    let mut merge = Merge::open(Arc::clone(&fs), &logs);
    let is_unsettled = matches!(merge, Err(Error::Unsettled(_)));
    if job.fold(&[u64::from(is_unsettled)], Fold::Max).map_err(gone)?[0] > 0 {
        // Servers crashed: what they left is settled once, and all look again.
        drop(merge);
        if is_root && recover(&fs, &logs).map_err(words)? {
            let what = "settled what servers had left half done";
            document.push("notes", what);
            keyrack_console::refuse("keyrack fs merge", what);
        }
        job.barrier().map_err(gone)?;
        merge = Merge::open(Arc::clone(&fs), &logs);
    }
    let merge = merge.map_err(words)?;
    let cuts = match is_root {
        true => serde_json::to_vec(&merge.cuts(parts).map_err(words)?),
        false => Ok(Vec::new()),
    };
    let cuts = job.broadcast(&cuts.map_err(|error| error.to_string())?).map_err(gone)?;
    let cuts: Vec<Vec<u8>> = serde_json::from_slice(&cuts).map_err(|error| error.to_string())?;
    let mut all = PartCount::default();
    for part in (job.rank()..parts).step_by(job.size() as usize) {
        let dir = plan.target.join(format!("r{part}"));
        let count = merge.part(&cuts, part, &dir).map_err(words)?;
        all.read += count.read;
        all.written += count.written;
        all.bytes_read += count.bytes_read;
        all.bytes_written += count.bytes_written;
        all.contents += count.contents;
        all.conflicts += count.conflicts;
        all.shown.extend(count.shown);
    }
    let ended = clock.ticks();
    let after = usage::process();
    let cpu_ns = after.user_ns + after.system_ns - cpu.user_ns - cpu.system_ns;
    let PartCount { read, written, bytes_read, bytes_written, conflicts, .. } = all;
    let sums = [read, written, bytes_read, bytes_written, conflicts, ended - began, cpu_ns];
    let sums = job.fold(&sums, Fold::Sum).map_err(gone)?;
    let first = job.fold(&[began], Fold::Min).map_err(gone)?[0];
    let last = job.fold(&[ended], Fold::Max).map_err(gone)?[0];
    let shown = job.gather(all.shown.join("\n").as_bytes()).map_err(gone)?;
    if is_root {
        let logs = u32::try_from(logs.len()).unwrap_or(u32::MAX);
        let summary = Summary { parts, logs, records: sums[1] };
        Merge::end(&*fs, &plan.target, &summary).map_err(words)?;
    }
    let mut text = String::from("Done!\n");
    let result = PhaseResult {
        name: "mapreduce",
        ops: sums[0],
        failed: 0,
        spent_ns: sums[5],
        wall_ns: last - first,
        cpu_ns: sums[6],
        latency_ns: None,
    };
    text.push_str(&result.text());
    document.push("phases", result.json());
    document.put("bytes_read", sums[2]);
    document.put("bytes_written", sums[3]);
    document.put("records", json!({ "read": sums[0], "written": sums[1], "conflicts": sums[4] }));
    text.push_str(&format!(
        "Total sequential bytes read: {} // src db\nTotal bytes written: {}\n",
        sums[2], sums[3]
    ));
    text.push_str(&format!(
        "Records: {} read, {} written; names that several logs have: {}\nBye\n",
        sums[0], sums[1], sums[4]
    ));
    say(&text);
    for line in shown.unwrap_or_default() {
        for line in String::from_utf8_lossy(&line).lines() {
            document.push("conflicts_shown", line);
            keyrack_console::refuse("keyrack fs merge", line);
        }
    }
    Ok(keyrack_console::DONE)
}
