//! The options of a server, and the checks that they pass before it starts.
//!
//! ```text
//!   defaults --> file (TOML) --> flags --> Options --check--> a server that may start
//! ```
//!
//! **Invariant:** a listener that passes [`Options::check`] is reachable only from this machine, or
//! asks for a password, or was allowed by `insecure`.

use crate::listen::is_loopback;
use crate::log::{LogFormat, LogLevel};
use crate::work::TRANSACTION_UNITS;
use crate::{Error, Listen, Password, Protocol, Result, Transport};
use keyrack_store::Durability;
use std::path::PathBuf;
use std::time::Duration;

/// The behaviour when the memory is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Eviction {
    /// Writes that need more memory fail.
    #[default]
    None,
    /// Rows that were not read lately are removed.
    Clock,
}

/// The options of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The listeners.
    pub listen: Vec<Listen>,
    /// The certificate chain for listeners with TLS, PEM.
    pub tls_cert: Option<PathBuf>,
    /// Its key, PEM.
    pub tls_key: Option<PathBuf>,
    /// The authorities that sign clients' certificates, PEM. `None`: clients need no certificate.
    pub tls_client_ca: Option<PathBuf>,
    /// The engine that holds the rows: `rowstore`, `masstree` or `flodb`.
    pub engine: String,
    /// The directory of its files.
    pub data_dir: Option<PathBuf>,
    /// What an acknowledged write survives. `None` is `os`, or `none` without a directory.
    pub durability: Option<Durability>,
    /// The log directories of `rowstore`, relative to `data_dir`. Empty: one log in `log`.
    pub log_dirs: Vec<PathBuf>,
    /// Bytes of log after which `rowstore` writes a checkpoint; 0: only on request.
    pub checkpoint_log_bytes: u64,
    /// The time between two checkpoints, however short the log is; zero: off.
    pub checkpoint_interval: Duration,
    /// Bytes of rows in memory; 0: no limit.
    pub memory_bytes_max: u64,
    /// The behaviour at this limit.
    pub eviction: Eviction,
    /// The number of event loops; 0: one a processor.
    pub threads: usize,
    /// Whether each loop stays on a processor of its own.
    pub pin: bool,
    /// The processors for `pin`, assigned round robin. Empty: all.
    pub cpus: Vec<usize>,
    /// The address of the admin page and the metrics, `HOST:PORT`.
    pub admin: Option<String>,
    /// The file whose first line is the password.
    pub password_file: Option<PathBuf>,
    /// The password, once it is read from the file.
    pub password: Password,
    /// Whether other machines may connect without a password.
    pub insecure: bool,
    /// Whether Redis' DEBUG is allowed.
    pub debug_commands: bool,
    /// The maximum of open connections.
    pub connections_max: usize,
    /// The units of work (see `work`) that one transaction of Redis, or one command over several
    /// keys, may cost. A larger one is refused before anything is changed.
    pub transaction_work_max: u64,
    /// Bytes of one value, in all protocols. `None`: [`Options::memcached_value_bytes_max`] and
    /// [`Options::resp_value_bytes_max`].
    pub value_bytes_max: Option<u64>,
    /// Bytes of one request. `None`: [`Options::request_bytes_max`].
    pub request_bytes_max: Option<u64>,
    /// Bytes of replies that wait for a client to read them.
    pub output_bytes_max: u64,
    /// Bytes that all connections together may hold. `None`: [`Options::clients_memory_bytes_max`].
    pub clients_memory_bytes_max: Option<u64>,
    /// How long a client may send nothing; zero: no limit.
    pub idle_timeout: Duration,
    /// How long a request may take to arrive; zero: no limit.
    pub request_timeout: Duration,
    /// How long a client may read nothing of its replies; zero: no limit.
    pub stalled_output_timeout: Duration,
    /// How long the server waits at its end for clients to read their replies.
    pub shutdown_grace: Duration,
    /// The mode of the files of unix sockets.
    pub unix_mode: u32,
    /// The level of the server's log.
    pub log_level: LogLevel,
    /// The format of the server's log.
    pub log_format: LogFormat,
    /// The settings that were set, by name, with the values as they were written.
    pub given: Vec<(&'static str, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            listen: Vec::new(),
            tls_cert: None,
            tls_key: None,
            tls_client_ca: None,
            engine: "rowstore".to_owned(),
            data_dir: None,
            durability: None,
            log_dirs: Vec::new(),
            checkpoint_log_bytes: 256 << 20,
            checkpoint_interval: Duration::ZERO,
            memory_bytes_max: 0,
            eviction: Eviction::None,
            threads: 0,
            pin: false,
            cpus: Vec::new(),
            admin: None,
            password_file: None,
            password: Password::default(),
            insecure: false,
            debug_commands: false,
            connections_max: 16_384,
            transaction_work_max: TRANSACTION_UNITS,
            value_bytes_max: None,
            request_bytes_max: None,
            output_bytes_max: 16 << 20,
            clients_memory_bytes_max: None,
            idle_timeout: Duration::ZERO,
            request_timeout: Duration::from_secs(60),
            stalled_output_timeout: Duration::from_secs(60),
            shutdown_grace: Duration::from_secs(5),
            unix_mode: 0o600,
            log_level: LogLevel::Info,
            log_format: LogFormat::Text,
            given: Vec::new(),
        }
    }
}

const LISTEN_DEFAULT: [&str; 3] =
    ["memcached://127.0.0.1:11211", "resp://127.0.0.1:6379", "masstree://127.0.0.1:2117"];

/// The default limit of a value of memcached and Masstree, in bytes: memcached's own.
const MEMCACHED_VALUE_BYTES: u64 = 1 << 20;

/// The default limit of a request, in bytes, if values are not larger.
const REQUEST_BYTES: u64 = 64 << 20;

/// The default limit of all connections, in bytes, if requests are not larger: Redis' largest value
/// fits, and small clients are served meanwhile.
const CLIENTS_MEMORY_BYTES: u64 = 1 << 30;

/// Bytes that one loop needs of it beyond a request: for reading ahead, and for counting in steps.
const CLIENTS_MEMORY_BYTES_A_LOOP: u64 = 1 << 20;

/// Bytes of a request beside its largest value.
const FRAMING_BYTES: u64 = 64 << 10;

/// The limits of values of an engine.
struct ValueLimits {
    engine: &'static str,
    /// The default, in bytes.
    by_itself: u64,
    /// The maximum, in bytes.
    most: u64,
    why: &'static str,
}

/// Redis' own limit where the engine can: a record of a log holds a value with its key and more,
/// and is within one segment.
const VALUE_LIMITS: [ValueLimits; 3] = [
    ValueLimits { engine: "masstree", by_itself: 512 << 20, most: 512 << 20, why: "Redis' limit" },
    ValueLimits {
        engine: "rowstore",
        by_itself: 64 << 20,
        most: 512 << 20,
        why: "a record of its log takes no more",
    },
    ValueLimits {
        engine: "flodb",
        by_itself: 8 << 20,
        most: 14 << 20,
        why: "a record of its log takes no more",
    },
];

impl Options {
    /// The number of event loops: `threads`, or one a processor.
    #[must_use]
    pub fn loops(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }

    /// The durability: the option, or the engine's default.
    #[must_use]
    pub fn durability(&self) -> Durability {
        let by_itself = if self.engine == "masstree" { Durability::None } else { Durability::Os };
        self.durability.unwrap_or(by_itself)
    }

    fn value_limits(&self) -> &'static ValueLimits {
        let found = VALUE_LIMITS.iter().find(|limits| limits.engine == self.engine);
        // `check` refuses an engine that is not in the list.
        found.unwrap_or(&VALUE_LIMITS[0])
    }

    /// Bytes of one value of a client of memcached or Masstree.
    #[must_use]
    pub fn memcached_value_bytes_max(&self) -> u64 {
        self.value_bytes_max.unwrap_or(MEMCACHED_VALUE_BYTES)
    }

    /// Bytes of one value of a client of Redis: the option, or the engine's default.
    #[must_use]
    pub fn resp_value_bytes_max(&self) -> u64 {
        self.value_bytes_max.unwrap_or(self.value_limits().by_itself)
    }

    /// Bytes of one request: the option, or 64 MiB and never less than a value.
    #[must_use]
    pub fn request_bytes_max(&self) -> u64 {
        let value = self.resp_value_bytes_max();
        self.request_bytes_max.unwrap_or(REQUEST_BYTES.max(value.saturating_add(FRAMING_BYTES)))
    }

    /// Bytes that all connections together may hold: the option, or 1 GiB and never less than the
    /// largest request needs.
    #[must_use]
    pub fn clients_memory_bytes_max(&self) -> u64 {
        let least = self.clients_memory_bytes_least();
        self.clients_memory_bytes_max.unwrap_or(CLIENTS_MEMORY_BYTES.max(least))
    }

    /// Three quarters are for requests: an eighth is for small holders alone, and emptied buffers
    /// may keep another.
    fn clients_memory_bytes_least(&self) -> u64 {
        let loops = self.loops() as u64 * CLIENTS_MEMORY_BYTES_A_LOOP;
        self.request_bytes_max().saturating_add(loops).div_ceil(3).saturating_mul(4)
    }

    /// Fills in the defaults that depend on other options.
    ///
    /// # Errors
    /// [`Error::Usage`] if a default listener is malformed, which would be a bug.
    pub fn complete(&mut self) -> Result<()> {
        if self.listen.is_empty() {
            self.listen =
                LISTEN_DEFAULT.iter().map(|text| Listen::parse(text)).collect::<Result<_>>()?;
            if self.has_password() {
                // Masstree's clients cannot authenticate.
                self.listen.retain(|listen| listen.protocol.authenticates());
            }
        }
        Ok(())
    }

    /// Checks everything that can be checked without opening a file or a socket.
    ///
    /// # Errors
    /// [`Error::Usage`] with one sentence: the problem, the value, and a remedy.
    pub fn check(&self) -> Result<()> {
        self.check_store()?;
        self.check_limits()?;
        self.check_tls()?;
        self.check_exposure()
    }

    fn check_store(&self) -> Result<()> {
        match (self.engine.as_str(), &self.data_dir) {
            ("masstree", Some(_)) => {
                return Err(Error::usage(
                    "the engine masstree keeps nothing on disk: leave out data-dir, or use the \
                     engine rowstore",
                ));
            }
            ("masstree", None) if self.durability() != Durability::None => {
                return Err(Error::usage(format!(
                    "the engine masstree keeps nothing on disk: durability must be none (got {}), \
                     or use the engine rowstore",
                    self.durability()
                )));
            }
            ("rowstore" | "flodb", None) => {
                return Err(Error::usage(format!(
                    "the engine {} needs data-dir, the directory of its files; for a store in \
                     memory use the engine masstree",
                    self.engine
                )));
            }
            ("rowstore" | "masstree" | "flodb", _) => {}
            (engine, _) => {
                return Err(Error::usage(format!(
                    "engine '{engine}' is not one of rowstore, masstree, flodb"
                )));
            }
        }
        if self.engine == "flodb" && self.memory_bytes_max > 0 {
            return Err(Error::usage(
                "memory-max needs the engine rowstore or masstree (got flodb)",
            ));
        }
        let needs_rowstore = |setting: &str| {
            let engine = &self.engine;
            Err(Error::usage(format!("{setting} needs the engine rowstore (got {engine})")))
        };
        if self.engine != "rowstore" && !self.log_dirs.is_empty() {
            return needs_rowstore("log-dir");
        }
        if self.engine != "rowstore" && !self.checkpoint_interval.is_zero() {
            return needs_rowstore("checkpoint-interval");
        }
        if self.eviction != Eviction::None && self.memory_bytes_max == 0 {
            return Err(Error::usage("eviction needs memory-max, the limit of the memory of rows"));
        }
        Ok(())
    }

    fn check_limits(&self) -> Result<()> {
        let ValueLimits { engine, most, why, .. } = self.value_limits();
        if let Some(bytes) = self.value_bytes_max
            && (bytes == 0 || bytes > *most)
        {
            return Err(Error::usage(format!(
                "value-max must be from 1 byte to {}M with the engine {engine} \
                 (got {bytes} bytes): {why}",
                most >> 20
            )));
        }
        let least = self.resp_value_bytes_max() + FRAMING_BYTES;
        if let Some(bytes) = self.request_bytes_max
            && bytes < least
        {
            return Err(Error::usage(format!(
                "request-max must be at least value-max plus 64K, {least} bytes (got {bytes}); \
                 lower value-max as well"
            )));
        }
        let least = self.clients_memory_bytes_least();
        if let Some(bytes) = self.clients_memory_bytes_max
            && bytes < least
        {
            return Err(Error::usage(format!(
                "clients-memory-max must be at least {least} bytes for a request-max of {} bytes \
                 and {} loops (got {bytes}); lower value-max and request-max as well",
                self.request_bytes_max(),
                self.loops()
            )));
        }
        if self.transaction_work_max == 0 {
            return Err(Error::usage("transaction-work-max must be at least 1 (got 0)"));
        }
        if self.connections_max == 0 {
            return Err(Error::usage("connections-max must be at least 1 (got 0)"));
        }
        if !self.pin && !self.cpus.is_empty() {
            return Err(Error::usage("cpus needs pin, which keeps each loop on a processor"));
        }
        if self.threads > 1024 {
            let threads = self.threads;
            return Err(Error::usage(format!("threads must be at most 1024 (got {threads})")));
        }
        Ok(())
    }

    fn check_tls(&self) -> Result<()> {
        let wanted = self.listen.iter().any(|listen| listen.transport == Transport::Tls);
        match (&self.tls_cert, &self.tls_key) {
            (Some(_), Some(_)) if wanted => Ok(()),
            (None, None) if !wanted && self.tls_client_ca.is_none() => Ok(()),
            (Some(_), None) | (None, Some(_)) => {
                Err(Error::usage("tls-cert and tls-key go together: set both, or neither"))
            }
            (None, None) if !wanted => {
                Err(Error::usage("tls-client-ca needs tls-cert and tls-key"))
            }
            (None, None) => {
                Err(Error::usage("a listener with +tls needs tls-cert and tls-key, two PEM files"))
            }
            (Some(_), Some(_)) => Err(Error::usage(
                "tls-cert is set but no listener uses it: write +tls before the :// of a listener",
            )),
        }
    }

    fn has_password(&self) -> bool {
        self.password.is_set() || self.password_file.is_some()
    }

    fn check_exposure(&self) -> Result<()> {
        if self.insecure {
            return Ok(());
        }
        let has_password = self.has_password();
        for listen in self.listen.iter().filter(|listen| !listen.is_local()) {
            if !listen.protocol.authenticates() {
                return Err(Error::usage(format!(
                    "{listen} can be reached from other machines and {} has no password: listen \
                     on 127.0.0.1, or allow it with --insecure",
                    match listen.protocol {
                        Protocol::Mixed => "one of its protocols",
                        _ => "its protocol",
                    }
                )));
            }
            if !has_password {
                return Err(Error::usage(format!(
                    "{listen} can be reached from other machines: set password-file, listen on \
                     127.0.0.1, or allow it with --insecure"
                )));
            }
        }
        match &self.admin {
            Some(admin) if !is_loopback(admin) => Err(Error::usage(format!(
                "the admin page on {admin} can be reached from other machines and has no \
                 password: use 127.0.0.1, or allow it with --insecure"
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(change: impl FnOnce(&mut Options)) -> Options {
        let mut options = Options { engine: "masstree".to_owned(), ..Options::default() };
        change(&mut options);
        options.complete().unwrap();
        options
    }

    #[track_caller]
    fn refused(options: &Options, word: &str) {
        let error = options.check().unwrap_err().to_string();
        assert!(error.contains(word), "no '{word}' in: {error}");
        assert!(!error.contains('\n'), "{error}");
    }

    #[test]
    fn nobody_else_is_listened_to_by_default() {
        let options = options(|_| {});
        assert_eq!(options.listen.len(), 3);
        assert!(options.listen.iter().all(Listen::is_local));
        options.check().unwrap();
    }

    #[test]
    fn a_password_leaves_out_the_protocol_without_authentication() {
        let options = options(|o| o.password_file = Some("p".into()));
        let protocols: Vec<Protocol> = options.listen.iter().map(|l| l.protocol).collect();
        assert_eq!(protocols, [Protocol::Memcached, Protocol::Resp]);
    }

    #[test]
    fn a_value_above_what_the_engine_logs_is_refused_at_start() {
        let of = |engine: &str, bytes: Option<u64>| {
            options(|o| {
                o.engine = engine.to_owned();
                o.data_dir = (engine != "masstree").then(|| "d".into());
                o.value_bytes_max = bytes;
            })
        };
        for (engine, by_itself, most) in
            [("masstree", 512, 512), ("rowstore", 64, 512), ("flodb", 8, 14)]
        {
            let options = of(engine, None);
            options.check().unwrap();
            assert_eq!(options.resp_value_bytes_max(), by_itself << 20);
            assert_eq!(options.memcached_value_bytes_max(), 1 << 20);
            assert!(options.request_bytes_max() > options.resp_value_bytes_max());
            of(engine, Some(most << 20)).check().unwrap();
            refused(&of(engine, Some((most << 20) + 1)), engine);
        }
        refused(&of("masstree", Some(0)), "got 0 bytes");
        let mut small = of("masstree", Some(1 << 20));
        small.request_bytes_max = Some(1 << 20);
        refused(&small, "request-max");
    }

    #[test]
    fn memory_of_connections_that_no_request_fits_into_is_refused_at_start() {
        let of = |request: Option<u64>, memory: Option<u64>| {
            options(|o| {
                o.threads = 2;
                o.value_bytes_max = Some(1 << 20);
                o.request_bytes_max = request;
                o.clients_memory_bytes_max = memory;
            })
        };
        assert_eq!(of(None, None).clients_memory_bytes_max(), 1 << 30);
        refused(&of(Some(2 << 20), Some(1 << 20)), "got 1048576");
        refused(&of(Some(2 << 20), Some(0)), "clients-memory-max must be at least");
        // Exactly what it asks for is enough, and a byte less is not.
        let enough = of(Some(1 << 21), None).clients_memory_bytes_least();
        of(Some(1 << 21), Some(enough)).check().unwrap();
        refused(&of(Some(1 << 21), Some(enough - 1)), &format!("at least {enough} bytes"));
        // Without a word it grows with the requests.
        let large = of(Some(4 << 30), None);
        large.check().unwrap();
        assert!(large.clients_memory_bytes_max() > 5 << 30);
        options(|_| {}).check().unwrap();
    }

    #[test]
    fn a_port_for_others_needs_a_password_or_a_word() {
        let open = |url: &str, change: fn(&mut Options)| {
            options(|options| {
                options.listen = vec![Listen::parse(url).unwrap()];
                change(options);
            })
        };
        refused(&open("resp://0.0.0.0:1", |_| {}), "password-file");
        refused(&open("memcached://[::]:1", |_| {}), "password-file");
        open("resp://0.0.0.0:1", |o| o.password = Password::new(b"p")).check().unwrap();
        refused(&open("masstree://0.0.0.0:1", |o| o.password = Password::new(b"p")), "--insecure");
        refused(&open("mixed://0.0.0.0:1", |o| o.password = Password::new(b"p")), "--insecure");
        refused(&open("masstree+udp://0.0.0.0:1", |_| {}), "--insecure");
        open("masstree://0.0.0.0:1", |o| o.insecure = true).check().unwrap();
        refused(&open("unix:///a", |o| o.admin = Some("0.0.0.0:1".to_owned())), "admin page");
    }

    #[test]
    fn engine_and_directory_fit() {
        refused(&options(|o| o.engine = "rowstore".to_owned()), "data-dir");
        refused(&options(|o| o.engine = "redb".to_owned()), "rowstore, masstree, flodb");
        refused(&options(|o| o.data_dir = Some("d".into())), "leave out data-dir");
        refused(&options(|o| o.durability = Some(Durability::Sync)), "durability must be none");
        refused(&options(|o| o.log_dirs = vec!["l".into()]), "log-dir");
        refused(&options(|o| o.eviction = Eviction::Clock), "memory-max");
        refused(&options(|o| o.checkpoint_interval = Duration::from_secs(1)), "rowstore");
        refused(&options(|o| o.cpus = vec![0]), "pin");
        options(|o| {
            o.engine = "rowstore".to_owned();
            o.data_dir = Some("d".into());
            o.durability = Some(Durability::Sync);
        })
        .check()
        .unwrap();
    }

    #[test]
    fn tls_is_on_or_off() {
        let tls = || vec![Listen::parse("rediss://127.0.0.1:1").unwrap()];
        refused(&options(|o| o.listen = tls()), "tls-cert and tls-key");
        refused(&options(|o| o.tls_cert = Some("c".into())), "go together");
        let both = |o: &mut Options| {
            o.tls_cert = Some("c".into());
            o.tls_key = Some("k".into());
        };
        refused(&options(both), "no listener uses it");
        options(|o| {
            o.listen = tls();
            both(o);
        })
        .check()
        .unwrap();
    }
}
