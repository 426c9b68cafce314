//! A server of a name space, or as many as the job has ranks: each has a log of its own.
//!
//! Rank 0 also listens at a port that clients know, and says there where all are.

use super::document::Document;
use super::header::Header;
use super::rank::{as_rank, in_words, interrupts};
use super::shares::{Share, Shares};
use super::store::{Part, StoreSettings, destroy};
use super::totals::Totals;
use keyrack_console::{DONE, say};
use keyrack_deltafs::job::{Job, Rendezvous};
use keyrack_deltafs::merge::logs_in;
use keyrack_deltafs::rpc::{self, ServeOptions, Served, needs_recovery};
use keyrack_deltafs::{Namespace, Quota, Settings};
use keyrack_measure::usage;
use keyrack_net::{Endpoint, Listener, TlsClient, TlsServer};
use keyrack_vfs::{Fs, RealFs};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// A server of a name space, or as many as the job has ranks.
#[derive(Clone, Debug)]
pub struct Server {
    /// Where the logs are: `r0`, `r1` and so on.
    pub db: PathBuf,
    /// Whether existing logs are served without a change.
    pub use_existing: bool,
    /// Whether existing logs are kept, and changed.
    pub keeps: bool,
    /// Logs that are read below those of `db`.
    pub chain: Vec<PathBuf>,
    /// Whether calls are answered without effect.
    pub is_dummy: bool,
    /// Whether a create looks for the name first; for the header.
    pub is_checked: bool,
    /// The address to listen at.
    pub ip: IpAddr,
    /// The port where rank 0 says where all servers are.
    pub info_port: u16,
    /// Unix sockets `PATH.RANK.sock`, instead of TCP.
    pub unix: Option<PathBuf>,
    /// Ports of each rank; for the header.
    pub ports: u32,
    /// Threads of each rank.
    pub threads: usize,
    /// Worker threads; for the header.
    pub workers: usize,
    /// Whether datagrams are taken as well.
    pub is_udp: bool,
    /// Bytes of a datagram.
    pub datagram_bytes: usize,
    /// Bytes of the buffers to send and to receive; for the header.
    pub socket_bytes: (u64, u64),
    /// What clients have to show.
    pub token: Option<Vec<u8>>,
    /// Certificates, and how the servers trust each other.
    pub tls: Option<(TlsServer, Option<TlsClient>)>,
    /// The stores of the logs.
    pub store: StoreSettings,
    /// The limits of each rank's log.
    pub quota: Quota,
    /// How long nobody calls before the server ends by itself.
    pub idle: Option<Duration>,
}

/// How long replies that are under way are waited for at the end.
const GRACE: Duration = Duration::from_secs(2);

impl Server {
    fn header(&self, job: &Job) -> Header {
        let mut header = Header::new();
        header.line("rpc ip", format!("{}*", self.ip));
        let (send, receive) = self.socket_bytes;
        let sizes = format!(
            "Yes (MAX_MSGSZ={}, SO_RCVBUF={}K, SO_SNDBUF={}K)",
            self.datagram_bytes,
            receive >> 10,
            send >> 10
        );
        header.line("rpc use udp", if self.is_udp { &sizes } else { "No" });
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
        let part = Part::Server { is_existing: self.use_existing };
        self.store.describe(&mut header, part, &format!("{}/r<rank>", self.db.display()));
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
        if self.use_existing {
            let mut logs = match RealFs.exists(&self.db.join("CURRENT")) {
                Ok(true) => vec![self.db.clone()],
                _ => logs_in(&RealFs, &self.db).map_err(in_words)?,
            };
            let fs: Arc<dyn Fs> = Arc::new(RealFs);
            if needs_recovery(&fs, &logs).map_err(in_words)? {
                return Err(format!(
                    "{}: the servers that wrote it left something half done; merge it, or start \
                     them once, before it is only read",
                    self.db.display()
                ));
            }
            logs.extend(self.chain.iter().cloned());
            let settings = Settings { lower: Vec::new(), ..settings };
            return Namespace::open_read_only(&logs, settings).map(Some).map_err(in_words);
        }
        let dir = self.db.join(format!("r{rank}"));
        if self.keeps {
            RealFs.create_dir_all(&dir).map_err(in_words)?;
        } else {
            destroy(&dir)?;
        }
        Namespace::open(&dir, settings).map(Some).map_err(in_words)
    }

    fn options(&self, job: &Job) -> ServeOptions {
        let datagrams = (Endpoint::Ip((self.ip, 0).into()), self.datagram_bytes);
        let mut options = ServeOptions {
            listen: self.listeners(job.rank()),
            datagrams: if self.is_udp { vec![datagrams] } else { Vec::new() },
            threads: self.threads,
            token: self.token.clone(),
            server: job.rank(),
            servers: job.size(),
            is_dummy: self.is_dummy,
            ..ServeOptions::default()
        };
        options.connect.tls = self.tls.as_ref().and_then(|(_, trust)| trust.clone());
        options
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
/// most. If all senders have gone, that is an end as well.
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

const PROGRAM: &str = "keyrack fs serve";

/// Serves until a signal comes, or until nobody calls any more. Returns the exit status.
#[must_use]
pub fn serve(plan: &Server, rendezvous: &Rendezvous, json: Option<&str>) -> u8 {
    let ends = match interrupts() {
        Ok(ends) => ends,
        Err(why) => {
            keyrack_console::refuse(PROGRAM, &why);
            return keyrack_console::COULD_NOT;
        }
    };
    as_rank(PROGRAM, rendezvous, Document::new("serve", json), |job, document| {
        run(plan, job, &ends, document)
    })
}

/// Refuses servers that nobody may trust, or that could not end.
fn check(plan: &Server, servers: u32) -> Result<(), String> {
    if !plan.ip.is_loopback() && plan.token.is_none() {
        return Err(format!(
            "--ip={}: others can reach it, so clients have to show a token: set KEYRACK_FS_TOKEN",
            plan.ip
        ));
    }
    if matches!(plan.tls, Some((_, None))) && servers > 1 {
        return Err("several servers also call each other: say whom they trust by --tls-ca".into());
    }
    if plan.idle.is_some() && servers > 1 {
        return Err("--idle: of several servers none knows whether the others are used".into());
    }
    Ok(())
}

fn run(
    plan: &Server,
    job: &mut Job,
    ends: &Receiver<()>,
    document: &mut Document,
) -> Result<u8, String> {
    check(plan, job.size())?;
    let is_root = job.is_root();
    let say = |text: &str| if is_root { keyrack_console::print(text) } else { DONE };
    let header = plan.header(job);
    document.header(&header);
    document.put("durability", plan.store.durability());
    say(&header.end());
    let began = usage::process();
    let space = plan.open(job.rank())?;
    let served = rpc::serve(space.clone(), plan.options(job)).map_err(in_words)?;
    if let Some(info) = exchange_addresses(plan, &served, job)? {
        document.put("listening", info.as_str());
        say!("listening on {info}");
    }
    say("Running...\n");
    wait(ends, plan.idle, || served.calls());
    say("\nFlushing db ...\n");
    let mut share = Share { calls: served.calls(), ..Share::default() };
    served.shutdown(GRACE).map_err(in_words)?;
    let has_store = space.is_some();
    if let Some(space) = space {
        if !space.is_read_only() {
            space.flush().map_err(in_words)?;
        }
        share.store = Totals::of(space.stores());
        if !space.is_read_only() {
            space.close().map_err(in_words)?;
        }
    }
    let spent = usage::process();
    share.cpu_ns = spent.user_ns + spent.system_ns - began.user_ns - began.system_ns;
    if let Some(shares) = Shares::gather(job, &share) {
        shares.fields(has_store).into_iter().for_each(|(name, value)| document.put(name, value));
        say(&format!("Done!\n{}Bye\n", shares.text(has_store)));
    }
    Ok(DONE)
}

/// Tells every server where all are. On rank 0, the address that clients know.
fn exchange_addresses(
    plan: &Server,
    served: &Served,
    job: &mut Job,
) -> Result<Option<String>, String> {
    let addresses = served.handle.local_addrs();
    let mut mine = addresses[0][0].to_string();
    if plan.is_udp
        && let Some(datagrams) = addresses.last().and_then(|all| all.first())
    {
        mine = format!("{mine} {datagrams}");
    }
    let all = job.all_gather(mine.as_bytes()).map_err(in_words)?;
    let all: Vec<String> =
        all.iter().map(|address| String::from_utf8_lossy(address).into_owned()).collect();
    served.set_map(all).map_err(in_words)?;
    job.barrier().map_err(in_words)?;
    let info = addresses.get(1).filter(|_| job.is_root());
    Ok(info.map(|info| info[0].to_string()))
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
