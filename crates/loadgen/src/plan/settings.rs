//! What a user may ask for, as values. Nothing is checked here: that is [`super::Plan::new`].

use std::path::PathBuf;
use std::sync::Arc;

use keyrack_vfs::Fs;
use serde::{Deserialize, Serialize};

use crate::control::Ramp;
use crate::route::Sharding;
use crate::target::{Credentials, Protocol};
use crate::trace::Format;

/// What becomes of the data set before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Loading {
    /// It is written.
    Yes,
    /// It is there already.
    No,
    /// It is written, and that is all.
    Only,
}

/// How a thread waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waiting {
    /// In the kernel.
    Block,
    /// Never: it looks again and again, and takes a processor for itself.
    Spin,
    /// In the kernel until shortly before something is due.
    Adaptive,
}

/// Which latency is the headline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Headline {
    /// From the intended start.
    Intended,
    /// From the send.
    Sent,
}

/// Lookups that write what they miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Filling {
    /// Lookups and stores by `--update`; misses stay misses.
    Never,
    /// Lookups alone; a miss is written.
    GetSet,
    /// As before, and stores of their own by `--update`.
    GetSetOrSet,
}

/// Certificates and names for TLS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsFiles {
    /// Whom to trust.
    pub ca: PathBuf,
    /// Our own chain and key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// As whom the server is expected; its host where it is left out.
    pub name: Option<String>,
}

/// A trace to replay.
#[derive(Debug, Clone)]
pub struct TraceFile {
    /// Where files are.
    pub fs: Arc<dyn Fs>,
    /// The file.
    pub path: PathBuf,
    /// How its lines are laid out.
    pub format: Format,
    /// Paces rows by their own times, so many times as fast as they were.
    pub speed: Option<f64>,
    /// Begins again at the end.
    pub is_loop: bool,
}

/// What a user asks for. It travels to agents, but for a trace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settings {
    /// `HOST[:PORT]`, `[IPV6]:PORT`, `unix:PATH`.
    pub servers: Vec<String>,
    /// The servers are paths of Unix sockets.
    pub unix_socket: bool,
    /// Their language.
    pub protocol: Protocol,
    /// Who we are.
    pub credentials: Option<Credentials>,
    /// Speaks TLS.
    pub tls: Option<TlsFiles>,
    /// Requests a second over all threads; 0 is as many as are answered.
    pub rate: f64,
    /// A rate that changes, instead of `rate`.
    pub ramp: Option<Ramp>,
    /// Seconds of the measurement.
    pub time_s: f64,
    /// Requests of the measurement, over all threads; 0 is no limit.
    pub queries: u64,
    /// Seconds of the same load before, uncounted.
    pub warmup_s: f64,
    /// Seconds from the start of the program to the measurement, at least.
    pub wait_s: f64,
    /// Threads.
    pub threads: usize,
    /// Connections of a thread to each of its servers.
    pub connections: usize,
    /// Requests under way on a connection.
    pub depth: usize,
    /// Threads are dealt to servers.
    pub roundrobin: bool,
    /// How servers share the keys.
    pub sharding: Sharding,
    /// Records, over all servers.
    pub records: u64,
    /// The distribution of key sizes.
    pub keysize: String,
    /// The distribution of value sizes.
    pub valuesize: String,
    /// The distribution of gaps.
    pub iadist: String,
    /// Which keys are popular.
    pub popularity: String,
    /// In front of all keys.
    pub prefix: String,
    /// The share of requests that store.
    pub update: f64,
    /// What becomes of misses.
    pub filling: Filling,
    /// Latencies and rates of successes alone.
    pub successful: bool,
    /// Removes nine tenths of the records half-way.
    pub delete90: bool,
    /// Redis: so many last bytes of a key are a field of a hash.
    pub assoc: Option<usize>,
    /// Lookups of a window; 0 is none.
    pub misswindow: u64,
    /// Keys of a lookup.
    pub mget: usize,
    /// Seconds that records live; 0 is for ever.
    pub ttl_s: u32,
    /// Checks values.
    pub verify: bool,
    /// Leaves arrivals out when late.
    pub skip: bool,
    /// Keeps a distance between requests of a connection.
    pub moderate: bool,
    /// What becomes of the data set.
    pub loading: Loading,
    /// How threads wait.
    pub waiting: Waiting,
    /// Sends small writes at once.
    pub nodelay: bool,
    /// Pins threads.
    pub affinity: bool,
    /// Makes broken connections again.
    pub reconnect: bool,
    /// Which latency is the headline.
    pub headline: Headline,
    /// Seconds for replies after the end.
    pub drain_s: f64,
    /// Seconds for a connection, and for each answer at its start.
    pub connect_timeout_s: f64,
    /// Requests out of a file instead of drawn ones.
    #[serde(skip)]
    pub trace: Option<TraceFile>,
    /// From it everything is drawn.
    pub seed: u64,
    /// Which process of a run this is; 0 is the master.
    pub agent: u32,
    /// How many agents take part.
    pub agents: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            servers: Vec::new(),
            unix_socket: false,
            protocol: Protocol::Text,
            credentials: None,
            tls: None,
            rate: 0.0,
            ramp: None,
            time_s: 5.0,
            queries: 0,
            warmup_s: 0.0,
            wait_s: 0.0,
            threads: 1,
            connections: 1,
            depth: 1,
            roundrobin: false,
            sharding: Sharding::None,
            records: 10_000,
            keysize: "30".to_owned(),
            valuesize: "200".to_owned(),
            iadist: "exponential".to_owned(),
            popularity: "uniform".to_owned(),
            prefix: String::new(),
            update: 0.0,
            filling: Filling::Never,
            successful: false,
            delete90: false,
            assoc: None,
            misswindow: 0,
            mget: 1,
            ttl_s: 0,
            verify: false,
            skip: false,
            moderate: false,
            loading: Loading::Yes,
            waiting: Waiting::Block,
            nodelay: true,
            affinity: false,
            reconnect: false,
            headline: Headline::Intended,
            drain_s: 1.0,
            connect_timeout_s: 10.0,
            trace: None,
            seed: 1,
            agent: 0,
            agents: 0,
        }
    }
}
