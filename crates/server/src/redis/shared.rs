//! The state that all connections share: options, settings, counters, the list of connections.
//!
//! Nothing here is written once a command but the counters, and those each loop has for itself.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keyrack_net::ClientMemory;
use keyrack_wire::resp::Limits;
use keyrack_workload::Rng;

use crate::Password;
use crate::durations::{Kind, Sum};
use crate::log::events;
use crate::redis::clients::{Client, Clients};
use crate::redis::command::FAST;
use crate::redis::counters::{Counters, Totals};
use crate::redis::cursor::Cursors;
use crate::redis::latency::Latency;
use crate::redis::slowlog::{Entry, SlowLog};
use crate::redis::table;

/// How a server answers Redis' clients. All have defaults.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The password for AUTH; empty: no authentication.
    pub password: Password,
    /// Whether CONFIG SET may not take the password away: others can reach the server.
    pub needs_password: bool,
    /// Failed attempts to authenticate after which a connection is closed.
    pub auth_failures_max: u32,
    /// Whether DEBUG is allowed.
    pub debug: bool,
    /// Bytes of one value or argument.
    pub bulk_bytes_max: u64,
    /// Bytes of one request.
    pub request_bytes_max: u64,
    /// Bytes of a reply that is collected before it is sent: KEYS, KR.RANGE, HRANDFIELD.
    pub reply_bytes_max: usize,
    /// Bytes of output after which a connection yields to others.
    pub iteration_output_bytes_max: usize,
    /// The same before AUTH.
    pub iteration_output_bytes_max_before_auth: usize,
    /// Bytes of the commands that a transaction queues.
    pub queue_bytes_max: usize,
    /// The units of work that one transaction, or one command over several keys, may cost. A larger
    /// one is refused before anything is changed.
    pub transaction_work_max: u64,
    /// Keys that a connection may watch.
    pub watched_max: usize,
    /// Rows that a long command visits before others are served: a millisecond or two.
    pub slice_rows_max: u64,
    /// The memory of the connections of all loops, for INFO.
    pub memory: Arc<ClientMemory>,
    /// Further parameters of CONFIG GET, such as `maxmemory`, `port` or `dir`.
    pub config: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            password: Password::default(),
            needs_password: false,
            auth_failures_max: 10,
            debug: false,
            bulk_bytes_max: 512 << 20,
            request_bytes_max: 1 << 30,
            reply_bytes_max: 64 << 20,
            iteration_output_bytes_max: keyrack_net::OUTPUT_SLICE_BYTES,
            iteration_output_bytes_max_before_auth: 32 << 10,
            queue_bytes_max: 64 << 20,
            transaction_work_max: crate::work::TRANSACTION_UNITS,
            watched_max: 1 << 16,
            slice_rows_max: 4096,
            memory: ClientMemory::unlimited(),
            config: Vec::new(),
        }
    }
}

/// The process around the commands: what they can ask of it.
pub trait Host: Send + Sync {
    /// Starts a checkpoint on a thread that may wait. False while one is under way.
    fn begin_checkpoint(&self) -> bool;

    /// How the newest checkpoint went.
    fn checkpoint(&self) -> Checkpoint;

    /// Asks for the end of the process, after everything acknowledged is durable.
    fn shutdown(&self);

    /// Gives further lines of a section of INFO to `visit`: a name and its value.
    fn info(&self, section: &str, visit: &mut dyn FnMut(&str, &str));
}

/// How the newest checkpoint went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Whether one is being written.
    pub is_running: bool,
    /// When the last good one was complete, in milliseconds since 1970; 0 before the first.
    pub last_ms: u64,
    /// Why the last one failed, if it did.
    pub failure: Option<&'static str>,
}

/// The state that all connections of a server share.
pub struct Shared {
    pub(crate) options: Options,
    pub(crate) settings: Settings,
    pub(crate) clients: Arc<Clients>,
    pub(crate) host: Box<dyn Host>,
    pub(crate) start_ms: u64,
    pub(crate) run_id: String,
    pub(crate) slow_log: SlowLog,
    pub(crate) latency: Latency,
    counters: Box<[Counters]>,
    /// The sums at the last CONFIG RESETSTAT.
    baseline: Mutex<Totals>,
    cursors: Mutex<Cursors>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("clients", &self.clients).finish_non_exhaustive()
    }
}

impl Shared {
    /// For a server of `loops` threads that started at `now_ms`.
    #[must_use]
    pub fn new(options: Options, loops: usize, now_ms: u64, host: Box<dyn Host>) -> Self {
        let mut rng = Rng::from_seed(now_ms);
        let run_id = (0..5).map(|_| format!("{:08x}", rng.next_u64() >> 32)).collect();
        Shared {
            settings: Settings::new(&options),
            options,
            clients: Arc::default(),
            host,
            start_ms: now_ms,
            run_id,
            slow_log: SlowLog::new(),
            latency: Latency::default(),
            counters: (0..loops.max(1)).map(|_| Counters::default()).collect(),
            baseline: Mutex::default(),
            cursors: Mutex::new(Cursors::new(now_ms)),
        }
    }

    /// Connections that are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.clients.count()
    }

    /// Whether a command that took `ns` has to be noted.
    #[inline]
    pub(crate) fn is_slow(&self, ns: u64) -> bool {
        self.slow_log.is_slow(ns) || self.latency.is_slow(ns)
    }

    /// Notes a slow command in SLOWLOG, LATENCY and the log, each by its own threshold.
    #[cold]
    pub(crate) fn note_slow(
        &self,
        client: &Client,
        index: u16,
        ns: u64,
        now_ms: u64,
        args: Vec<Vec<u8>>,
    ) {
        let command = &table::COMMANDS[usize::from(index)];
        self.latency.note(command.is(FAST), ns, now_ms);
        if !self.slow_log.is_slow(ns) {
            return;
        }
        let key = command.keys.places(args.len()).next().map_or(&b""[..], |place| &args[place]);
        events::slow_command("redis", &client.peer, command.name, key, ns / 1000);
        let (peer, name) = (client.peer.clone(), client.names().name.clone());
        let (unix_s, duration_us) = (now_ms / 1000, ns / 1000);
        self.slow_log.enter(Entry { id: 0, unix_s, duration_us, args, peer, name });
    }

    /// The durations of commands since the start, by kind.
    pub(crate) fn durations(&self) -> [Sum; Kind::COUNT] {
        Totals::of(&self.counters).durations()
    }

    /// Gives every counter to `visit` with its name: `commands`, `failed`, `keyspace_hits`... and
    /// `calls_get` for each command that was called.
    pub fn counters(&self, visit: &mut dyn FnMut(&str, u64)) {
        visit_counters(&self.totals(), visit);
    }

    /// As [`Shared::counters`], whatever was reset.
    pub(crate) fn counters_since_start(&self, visit: &mut dyn FnMut(&str, u64)) {
        visit_counters(&Totals::of(&self.counters), visit);
    }

    pub(crate) fn counters_of(&self, loop_index: usize) -> &Counters {
        &self.counters[loop_index % self.counters.len()]
    }

    pub(crate) fn cursors(&self) -> MutexGuard<'_, Cursors> {
        self.cursors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counters of all loops since the last reset.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::of(&self.counters);
        let baseline = self.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        totals.subtract(&baseline);
        totals
    }

    pub(crate) fn reset_totals(&self) {
        *self.baseline.lock().unwrap_or_else(PoisonError::into_inner) = Totals::of(&self.counters);
    }
}

fn visit_counters(totals: &Totals, visit: &mut dyn FnMut(&str, u64)) {
    visit("commands", totals.calls.iter().sum());
    visit("failed", totals.failed);
    visit("rejected", totals.rejected);
    visit("protocol_errors", totals.protocol_errors);
    visit("keyspace_hits", totals.hits);
    visit("keyspace_misses", totals.misses);
    for (index, &calls) in totals.calls.iter().enumerate().filter(|(_, calls)| **calls > 0) {
        visit(&format!("calls_{}", table::COMMANDS[index].name), calls);
    }
}

/// The settings that CONFIG SET can change while the server runs.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The password of the whole server.
    pub(crate) password: Password,
    pub(crate) bulk_bytes_max: AtomicU64,
    /// Fields up to which a hash is called a `listpack` and is scanned at once.
    pub(crate) small_hash_fields_max: AtomicU64,
    /// Bytes of a name or value up to which it is.
    pub(crate) small_hash_bytes_max: AtomicU64,
}

impl Settings {
    fn new(options: &Options) -> Self {
        Settings {
            password: options.password.clone(),
            bulk_bytes_max: AtomicU64::new(options.bulk_bytes_max),
            small_hash_fields_max: AtomicU64::new(512),
            small_hash_bytes_max: AtomicU64::new(64),
        }
    }

    pub(crate) fn is_protected(&self) -> bool {
        self.password.is_set()
    }

    pub(crate) fn set_password(&self, password: &[u8]) {
        self.password.set(password);
    }

    /// Whether `guess` is the password. Takes a time that depends on the guess alone.
    pub(crate) fn is_password(&self, guess: &[u8]) -> bool {
        self.password.is(guess)
    }

    /// The limits of a client's requests.
    pub(crate) fn limits(&self, options: &Options, is_authenticated: bool) -> Limits {
        if !is_authenticated {
            return Limits::before_authentication();
        }
        Limits {
            bulk_bytes_max: self.bulk_bytes_max.load(Relaxed),
            message_bytes_max: options.request_bytes_max,
            ..Limits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_is_the_password() {
        let settings =
            Settings::new(&Options { password: Password::new(b"secret"), ..Options::default() });
        assert!(settings.is_protected() && settings.is_password(b"secret"));
        for guess in [&b""[..], b"secre", b"secrets", b"secretsecret", b"SECRET"] {
            assert!(!settings.is_password(guess));
        }
        settings.set_password(b"");
        assert!(!settings.is_protected());
    }
}
