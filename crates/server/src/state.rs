//! The state that all loops of a server share.

use crate::metrics::LoopMetrics;
use crate::syncer::Syncer;
use crate::{
    Control, Eviction, Listen, Options, Protocol, ReaderSlots, Transport, memcached, redis,
};
use keyrack_measure::wall;
use keyrack_net::{ClientMemory, CloseReason, Handle};
use keyrack_rowstore::Rows;
use keyrack_wire::masstree;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The rows. Dropping the last reference closes them.
pub(crate) type SharedRows = Arc<Box<dyn Rows>>;

/// The loops, for objects that the loops own: a weak reference, which does not keep them alive.
pub(crate) type LoopsHandle = Weak<Mutex<Option<Handle>>>;

/// The counters of the loops; zeros before they run and after they have ended.
pub(crate) fn net_stats(loops: &LoopsHandle) -> keyrack_net::Stats {
    let Some(loops) = loops.upgrade() else { return keyrack_net::Stats::default() };
    let loops = loops.lock().unwrap_or_else(PoisonError::into_inner);
    loops.as_ref().map(Handle::stats).unwrap_or_default()
}

/// The state that all loops of a server share.
pub(crate) struct State {
    pub(crate) rows: SharedRows,
    pub(crate) readers: ReaderSlots,
    pub(crate) control: Control,
    pub(crate) syncer: Syncer,
    /// The protocol of each listener.
    pub(crate) protocols: Vec<Protocol>,
    pub(crate) memcached: memcached::Shared,
    pub(crate) redis: redis::Shared,
    pub(crate) masstree: masstree::Limits,
    pub(crate) loops: Vec<Arc<LoopMetrics>>,
    pub(crate) started_ms: u64,
    /// The memory of all connections.
    pub(crate) clients_memory: Arc<ClientMemory>,
    /// The loops, for their counters.
    pub(crate) loops_handle: LoopsHandle,
    /// Bytes that a connection may have waiting to be sent.
    pub(crate) output_bytes_max: usize,
    /// Bytes of one request.
    pub(crate) request_bytes_max: usize,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("protocols", &self.protocols).finish_non_exhaustive()
    }
}

impl State {
    pub(crate) fn new(
        rows: SharedRows,
        options: &Options,
        control: &Control,
        clients_memory: Arc<ClientMemory>,
        loops_handle: LoopsHandle,
    ) -> Self {
        let started_ms = wall::unix_ms();
        let loops = options.loops();
        let value_bytes_max =
            usize::try_from(options.memcached_value_bytes_max()).unwrap_or(usize::MAX);
        let request_bytes_max = usize::try_from(options.request_bytes_max()).unwrap_or(usize::MAX);
        let limits = keyrack_wire::memcached::Limits {
            value_bytes_max,
            ..keyrack_wire::memcached::Limits::DEFAULT
        };
        let facts = Box::new(RowFacts {
            rows: Arc::clone(&rows),
            loops: loops_handle.clone(),
            clients_memory: Arc::clone(&clients_memory),
        });
        let password = options.password.clone();
        let mut memcached = memcached::Shared::new(limits, password, loops, started_ms, facts);
        memcached.memory_bytes_max = options.memory_bytes_max;
        memcached.connections_max = options.connections_max;
        memcached.settings = memcached_settings(options);
        let protocols: Vec<Protocol> = options.listen.iter().map(|l| l.protocol).collect();
        let host = Host {
            control: control.clone(),
            rows: Arc::clone(&rows),
            loops: loops_handle.clone(),
            protocols: protocols.clone(),
        };
        State {
            readers: ReaderSlots::new(loops),
            control: control.clone(),
            syncer: Syncer::new(loops),
            protocols,
            memcached,
            redis: redis::Shared::new(
                redis_options(options, &clients_memory),
                loops,
                started_ms,
                Box::new(host),
            ),
            masstree: masstree::Limits {
                value_bytes_max,
                message_bytes_max: options.request_bytes_max(),
                ..masstree::Limits::default()
            },
            loops: (0..loops).map(|_| Arc::default()).collect(),
            started_ms,
            clients_memory,
            loops_handle: loops_handle.clone(),
            output_bytes_max: usize::try_from(options.output_bytes_max).unwrap_or(usize::MAX),
            request_bytes_max,
            rows,
        }
    }
}

/// Redis' name of an eviction policy. The clock removes rows that were not read lately, among all
/// keys.
fn policy_of(eviction: Eviction) -> &'static str {
    match eviction {
        Eviction::None => "noeviction",
        Eviction::Clock => "allkeys-lru",
    }
}

fn redis_options(options: &Options, memory: &Arc<ClientMemory>) -> redis::Options {
    redis::Options {
        password: options.password.clone(),
        needs_password: !options.insecure && !options.listen.iter().all(Listen::is_local),
        debug: options.debug_commands,
        bulk_bytes_max: options.resp_value_bytes_max(),
        request_bytes_max: options.request_bytes_max(),
        memory: Arc::clone(memory),
        transaction_work_max: options.transaction_work_max,
        config: vec![
            ("maxmemory".to_owned(), options.memory_bytes_max.to_string()),
            ("maxmemory-policy".to_owned(), policy_of(options.eviction).to_owned()),
            ("maxmemory-clients".to_owned(), memory.bytes_max().to_string()),
            ("maxclients".to_owned(), options.connections_max.to_string()),
            ("timeout".to_owned(), options.idle_timeout.as_secs().to_string()),
            (
                "dir".to_owned(),
                options.data_dir.as_ref().map(|dir| dir.display().to_string()).unwrap_or_default(),
            ),
            ("io-threads".to_owned(), options.loops().to_string()),
        ],
        ..redis::Options::default()
    }
}

/// The options as `stats settings` writes them.
fn memcached_settings(options: &Options) -> Vec<(&'static str, String)> {
    let yes_or_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let path = |path: &Option<std::path::PathBuf>| {
        path.as_ref().map_or_else(|| "NULL".to_owned(), |path| path.display().to_string())
    };
    let listens = |transport: Transport| {
        options.listen.iter().find(|listen| {
            listen.transport == transport
                && matches!(listen.protocol, Protocol::Memcached | Protocol::Mixed)
        })
    };
    let tcp = listens(Transport::Tcp).or_else(|| listens(Transport::Tls));
    let (host, port) =
        tcp.and_then(|listen| listen.address.rsplit_once(':')).unwrap_or(("NULL", "0"));
    let socket = listens(Transport::Unix);
    vec![
        ("tcpport", port.to_owned()),
        ("inter", host.to_owned()),
        ("domain_socket", socket.map_or_else(|| "NULL".to_owned(), |l| l.address.clone())),
        ("umask", format!("{:o}", options.unix_mode)),
        ("evictions", if options.eviction == Eviction::None { "off" } else { "on" }.to_owned()),
        ("idle_timeout", options.idle_timeout.as_secs().to_string()),
        ("ssl_enabled", yes_or_no(options.tls_cert.is_some())),
        ("ssl_chain_cert", path(&options.tls_cert)),
        ("ssl_key", path(&options.tls_key)),
        ("ssl_ca_cert", path(&options.tls_client_ca)),
        ("ssl_min_version", "tlsv1.2".to_owned()),
    ]
}

/// The numbers of the rows under memcached's names.
struct RowFacts {
    rows: SharedRows,
    loops: LoopsHandle,
    clients_memory: Arc<ClientMemory>,
}

impl fmt::Debug for RowFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowFacts").finish_non_exhaustive()
    }
}

impl memcached::Facts for RowFacts {
    fn visit(&self, visit: &mut dyn FnMut(&str, u64)) {
        visit("curr_items", self.rows.len());
        let net = net_stats(&self.loops);
        visit("rejected_connections", net.refused);
        visit("clients_memory_bytes", self.clients_memory.bytes() as u64);
        visit("clients_memory_closed", net.closed_for(CloseReason::Memory));
        visit("idle_kicks", net.closed_for(CloseReason::Idle));
        self.rows.stats(&mut |name, value| match name {
            "memory_bytes" => visit("bytes", value as u64),
            "evicted" => visit("evictions", value as u64),
            "expired" => visit("reclaimed", value as u64),
            _ => {}
        });
    }
}

/// The process, as Redis' commands see it.
struct Host {
    control: Control,
    rows: SharedRows,
    loops: LoopsHandle,
    protocols: Vec<Protocol>,
}

impl Host {
    /// The port of the first listener on TCP where Redis is spoken.
    fn port(&self) -> Option<u16> {
        let loops = self.loops.upgrade()?;
        let loops = loops.lock().unwrap_or_else(PoisonError::into_inner);
        let mut places = self.protocols.iter().zip(loops.as_ref()?.local_addrs());
        places.find_map(|(protocol, endpoints)| {
            let speaks = matches!(protocol, Protocol::Resp | Protocol::Mixed);
            let text = endpoints.first().filter(|_| speaks)?.to_string();
            text.rsplit_once(':')?.1.parse().ok()
        })
    }
}

impl redis::Host for Host {
    fn begin_checkpoint(&self) -> bool {
        self.control.begin_checkpoint()
    }

    fn checkpoint(&self) -> redis::Checkpoint {
        self.control.checkpoint()
    }

    fn shutdown(&self) {
        self.control.end("SHUTDOWN");
    }

    fn info(&self, section: &str, visit: &mut dyn FnMut(&str, &str)) {
        match section {
            "server" => {
                if let Some(port) = self.port() {
                    visit("tcp_port", &port.to_string());
                }
            }
            "stats" => {
                let net = net_stats(&self.loops);
                for (name, value) in [
                    ("total_net_input_bytes", net.bytes_in),
                    ("total_net_output_bytes", net.bytes_out),
                    ("rejected_connections", net.refused),
                    ("evicted_clients", net.closed_for(CloseReason::Memory)),
                    ("total_reads_processed", net.reads),
                    ("total_writes_processed", net.writes),
                ] {
                    visit(name, &value.to_string());
                }
            }
            "memory" => self.rows.stats(&mut |name, value| {
                if name == "memory_bytes" {
                    visit("rows_memory", &format!("{value:.0}"));
                }
            }),
            _ => {}
        }
    }
}
