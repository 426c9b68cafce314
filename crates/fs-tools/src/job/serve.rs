//! A server of a name space, or as many as the job has ranks: each has a log of its own.
//!
//! Rank 0 also listens at a port that clients know, and says there where all are.

use super::document::Document;
use super::header::Header;
use super::shares::{Share, Shares};
use super::store::StoreSettings;
use super::target::destroy;
use super::totals::Totals;
use keyrack_console::say;
use keyrack_deltafs::job::Job;
use keyrack_deltafs::merge::logs_in;
use keyrack_deltafs::rpc::{ServeOptions, needs_recovery, serve};
use keyrack_deltafs::{Namespace, Quota, Settings};
use keyrack_measure::usage;
use keyrack_net::{Endpoint, Listener, TlsClient, TlsServer};
use keyrack_vfs::{Fs, RealFs};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// A server.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) db: PathBuf,
    /// What is there is served as it is, and not changed.
    pub(super) use_existing: bool,
    /// What is there is kept, and changed.
    pub(super) keeps: bool,
    pub(super) chain: Vec<PathBuf>,
    pub(super) is_dummy: bool,
    pub(super) is_checked: bool,
    pub(super) ip: IpAddr,
    pub(super) info_port: u16,
    /// Listeners beside it, of each rank.
    pub(super) unix: Option<PathBuf>,
    pub(super) ports: u32,
    pub(super) threads: usize,
    pub(super) workers: usize,
    pub(super) is_udp: bool,
    pub(super) datagram_bytes: usize,
    pub(super) socket_bytes: (u64, u64),
    pub(super) token: Option<Vec<u8>>,
    /// Certificates, and how the servers trust each other.
    pub(super) tls: Option<(TlsServer, Option<TlsClient>)>,
    pub(super) store: StoreSettings,
    /// Of the log of each rank.
    pub(super) quota: Quota,
    /// How long nobody calls before it ends by itself.
    pub(super) idle: Option<Duration>,
}

/// How long replies that are under way are waited for at the end.
const GRACE: Duration = Duration::from_secs(2);

impl Plan {
    fn header(&self, job: &Job) -> Header {
        let mut header = Header::new();
        header.line("rpc ip", format!("{}*", self.ip));
        let (send, receive) = self.socket_bytes;
        header.line(
            "rpc use udp",
            match self.is_udp {
                true => format!(
                    "Yes (MAX_MSGSZ={}, SO_RCVBUF={}K, SO_SNDBUF={}K)",
                    self.datagram_bytes,
                    receive >> 10,
                    send >> 10
                ),
                false => "No".to_owned(),
            },
        );
        header.line("Num rpc threads", format!("{} + {}", self.threads, self.workers));
        header.line("Num ports per rank", self.ports);
        header.line("Num ranks", job.size());
        let existing = u8::from(self.use_existing);
        header.line("Fs use existing", format!("{existing} (readonly={existing})"));
        header.line("Fs info port", self.info_port);
        header.flag("Fs skip checks", !self.is_checked);
        header.flag("Fs dummy", self.is_dummy);
        header.title("READONLY DB CHAIN:");
        for dir in &self.chain {
            header.item(&dir.display().to_string());
        }
        header.title("MAIN DB:");
        self.store.describe(&mut header, &format!("{}/r<rank>", self.db.display()));
        header.flag("Use existing db", self.use_existing);
        if let Some(names) = self.quota.names {
            header.line("Names at most", format!("{names} at each rank"));
        }
        header
    }

    fn open(&self, rank: u32) -> Result<Option<Namespace>, String> {
        if self.is_dummy {
            return Ok(None);
        }
        let settings = Settings {
            store: self.store.options.clone(),
            lower: self.chain.clone(),
            root_mode: 0o777,
            quota: self.quota,
            ..Settings::default()
        };
        let words = |error: keyrack_deltafs::Error| error.to_string();
        if self.use_existing {
            let mut logs = match RealFs.exists(&self.db.join("CURRENT")) {
                Ok(true) => vec![self.db.clone()],
                _ => logs_in(&RealFs, &self.db).map_err(words)?,
            };
            let fs: Arc<dyn Fs> = Arc::new(RealFs);
            if needs_recovery(&fs, &logs).map_err(words)? {
                return Err(format!(
                    "{}: the servers that wrote it left something half done; merge it, or start \
                     them once, before it is only read",
                    self.db.display()
                ));
            }
            logs.extend(self.chain.iter().cloned());
            let settings = Settings { lower: Vec::new(), ..settings };
            return Namespace::open_read_only(&logs, settings).map(Some).map_err(words);
        }
        let dir = self.db.join(format!("r{rank}"));
        match self.keeps {
            true => RealFs.create_dir_all(&dir).map_err(|error| error.to_string())?,
            false => destroy(&dir)?,
        }
        Namespace::open(&dir, settings).map(Some).map_err(words)
    }

    fn listeners(&self, rank: u32) -> Vec<Listener> {
        let at = |endpoint| match &self.tls {
            Some((tls, _)) => Listener::encrypted(endpoint, tls.clone()),
            None => Listener::stream(endpoint),
        };
        let ip = |port| at(Endpoint::Ip((self.ip, port).into()));
        let mut listeners = Vec::new();
        match &self.unix {
            Some(path) => listeners.push(at(Endpoint::Unix(unix_path(path, rank)))),
            None => listeners.push(ip(0)),
        }
        if rank == 0 {
            listeners.push(ip(self.info_port));
        }
        listeners
    }
}

/// The socket of a rank.
fn unix_path(path: &Path, rank: u32) -> PathBuf {
    path.with_extension(format!("{rank}.sock"))
}

/// Waits until something comes through `ends`, or nobody has called for so long; twice as long at
/// most. Whoever could send has gone: that is an end as well.
fn wait(ends: &Receiver<()>, idle: Option<Duration>, calls: impl Fn() -> u64) {
    let Some(idle) = idle else {
        let _ = ends.recv();
        return;
    };
    let mut before = calls();
    while ends.recv_timeout(idle) == Err(RecvTimeoutError::Timeout) {
        match calls() {
            now if now == before => return,
            now => before = now,
        }
    }
}

/// Serves until something comes through `ends`, or nobody calls any more.
pub(super) fn run(
    plan: &Plan,
    job: &mut Job,
    ends: &Receiver<()>,
    document: &mut Document,
) -> Result<u8, String> {
    if !plan.ip.is_loopback() && plan.token.is_none() {
        return Err(format!(
            "--ip={}: others can reach it, so clients have to show a token: set KEYRACK_FS_TOKEN",
            plan.ip
        ));
    }
    if matches!(plan.tls, Some((_, None))) && job.size() > 1 {
        return Err("several servers also call each other: say whom they trust by --tls-ca".into());
    }
    if plan.idle.is_some() && job.size() > 1 {
        return Err("--idle: of several servers none knows whether the others are used".into());
    }
    let is_root = job.is_root();
    let say =
        |text: &str| if is_root { keyrack_console::print(text) } else { keyrack_console::DONE };
    let header = plan.header(job);
    document.header(&header);
    document.put("durability", plan.store.durability());
    say(&header.end());
    let began = usage::process();
    let space = plan.open(job.rank())?;
    let datagrams = match plan.is_udp {
        true => vec![(Endpoint::Ip((plan.ip, 0).into()), plan.datagram_bytes)],
        false => Vec::new(),
    };
    let mut options = ServeOptions {
        listen: plan.listeners(job.rank()),
        datagrams,
        threads: plan.threads,
        token: plan.token.clone(),
        server: job.rank(),
        servers: job.size(),
        is_dummy: plan.is_dummy,
        ..ServeOptions::default()
    };
    options.connect.tls = plan.tls.as_ref().and_then(|(_, trust)| trust.clone());
    let served = serve(space.clone(), options).map_err(|error| error.to_string())?;
    let addresses = served.handle.local_addrs();
    let mut mine = addresses[0][0].to_string();
    if plan.is_udp
        && let Some(datagrams) = addresses.last().and_then(|all| all.first())
    {
        mine = format!("{mine} {datagrams}");
    }
    let all = job.all_gather(mine.as_bytes()).map_err(|error| error.to_string())?;
    let all: Vec<String> =
        all.iter().map(|address| String::from_utf8_lossy(address).into_owned()).collect();
    served.set_map(all).map_err(|error| error.to_string())?;
    job.barrier().map_err(|error| error.to_string())?;
    if is_root && let Some(info) = addresses.get(1) {
        document.put("listening", info[0].to_string());
        say!("listening on {}", info[0]);
    }
    say("Running...\n");
    wait(ends, plan.idle, || served.calls());
    say("\nFlushing db ...\n");
    let calls = served.calls();
    served.shutdown(GRACE).map_err(|error| error.to_string())?;
    let mut share = Share { calls, ..Share::default() };
    let has_store = space.is_some();
    if let Some(space) = space {
        if !space.is_read_only() {
            space.flush().map_err(|error| error.to_string())?;
        }
        share.store = Totals::of(space.stores());
        if !space.is_read_only() {
            space.close().map_err(|error| error.to_string())?;
        }
    }
    let spent = usage::process();
    share.cpu_ns = spent.user_ns + spent.system_ns - began.user_ns - began.system_ns;
    if let Some(shares) = Shares::gather(job, &share) {
        shares.fields(has_store).into_iter().for_each(|(name, value)| document.put(name, value));
        say(&format!("Done!\n{}Bye\n", shares.text(has_store)));
    }
    Ok(keyrack_console::DONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::mpsc::channel;

    #[test]
    fn a_server_waits_as_long_as_somebody_calls() {
        let (send, ends) = channel();
        let looks = Cell::new(0);
        let calls = || {
            looks.set(looks.get() + 1);
            u64::min(looks.get(), 4)
        };
        wait(&ends, Some(Duration::from_millis(1)), calls);
        assert_eq!(looks.get(), 5, "the first look at which nothing has changed");
        // Who is asked to end does not wait.
        send.send(()).unwrap();
        wait(&ends, Some(Duration::from_secs(1 << 30)), || 0);
        drop(send);
        wait(&ends, None, || 0);
    }
}
