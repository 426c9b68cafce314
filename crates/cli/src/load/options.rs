//! The options of `keyrack load` and of `mutilate`: one list for both, with mutilate's letters,
//! defaults and meanings.

use clap::{Args, ValueEnum};
use keyrack_loadgen::control::Ramp;
use keyrack_loadgen::plan::{Filling, Headline, Loading, Settings, TlsFiles, TraceFile, Waiting};
use keyrack_loadgen::route::Sharding;
use keyrack_loadgen::target::{Credentials, Protocol};
use keyrack_loadgen::trace::Format;
use keyrack_vfs::{Fs, RealFs};
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of a key that name a field, where `--assoc` does not say.
const ASSOC_DEFAULT: &str = "4";
/// Seconds of a measurement, where nothing else ends it.
const TIME_S: f64 = 5.0;

/// How a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Polling {
    /// In the kernel
    Block,
    /// Never: a processor for each thread
    Spin,
    /// In the kernel until shortly before something is due
    Adaptive,
}

/// What latencies count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Latency {
    /// When the request was due
    Intended,
    /// When it left
    Send,
}

/// Which columns the table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableShape {
    /// Those of mutilate's README
    Readme,
    /// Those that mutilate prints in fact
    Std,
    /// Those of the fork for caches
    Fork,
    /// All of these, and the maximum
    Full,
}

/// How servers share the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shard {
    /// By points on a circle, as libmemcached has them
    Ketama,
    /// By the rest of a hash, as libmemcached does where nothing else is set
    Modula,
    /// Each server has all
    None,
}

/// Everything that can be given.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Say more; repeat for more
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Say nothing on standard error but what went wrong
    #[arg(long)]
    pub(crate) quiet: bool,

    /// Servers to load, in this order.
    #[arg(
        short,
        long = "server",
        value_name = "HOST[:PORT]",
        help = "Server: HOST[:PORT], [IPV6]:PORT, unix:PATH or shm:PATH; repeat for several",
        help_heading = "Servers"
    )]
    pub(crate) servers: Vec<String>,
    /// Servers are paths of Unix sockets
    #[arg(long = "unix_socket", alias = "unix-socket", help_heading = "Servers")]
    pub(crate) unix_socket: bool,
    /// Memcached's binary protocol
    #[arg(long, conflicts_with_all = ["redis", "resp3", "meta"], help_heading = "Servers")]
    pub(crate) binary: bool,
    /// Memcached's meta commands
    #[arg(long, conflicts_with_all = ["redis", "resp3"], help_heading = "Servers")]
    pub(crate) meta: bool,
    /// Redis, RESP2
    #[arg(long, help_heading = "Servers")]
    pub(crate) redis: bool,
    /// Redis, RESP3
    #[arg(long, help_heading = "Servers")]
    pub(crate) resp3: bool,
    /// How servers share the keys: each record has one server, by its key
    #[arg(long, value_enum, default_value = "none", help_heading = "Servers")]
    pub(crate) shard: Shard,
    /// Servers are nodes of a Redis Cluster, which tells who has which keys
    #[arg(long, conflicts_with = "shard", help_heading = "Servers")]
    pub(crate) cluster: bool,
    /// The first of two servers is a cache in front of the second, looked into by us
    #[arg(long, conflicts_with_all = ["shard", "cluster"], help_heading = "Servers")]
    pub(crate) tier: bool,
    /// User name: SASL with --binary, AUTH with --redis
    #[arg(short = 'U', long, value_name = "NAME", help_heading = "Servers")]
    pub(crate) username: Option<String>,
    /// Password
    #[arg(short = 'P', long, value_name = "WORD", help_heading = "Servers")]
    pub(crate) password: Option<String>,
    /// TLS; trusts the certificates of this PEM file
    #[arg(long = "tls-ca", value_name = "FILE", help_heading = "Servers")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Our own certificate chain for TLS, PEM
    #[arg(long = "tls-cert", value_name = "FILE", requires_all = ["tls_key", "tls_ca"],
        help_heading = "Servers")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of that certificate, PEM
    #[arg(long = "tls-key", value_name = "FILE", requires = "tls_cert", help_heading = "Servers")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The name that the server's certificate must have [default: its host]
    #[arg(long = "tls-name", value_name = "NAME", requires = "tls_ca", help_heading = "Servers")]
    pub(crate) tls_name: Option<String>,
    /// Do not set TCP_NODELAY
    #[arg(long = "no_nodelay", alias = "no-nodelay", help_heading = "Servers")]
    pub(crate) no_nodelay: bool,
    /// Make connections again when they break
    #[arg(long, help_heading = "Servers")]
    pub(crate) reconnect: bool,
    /// Seconds for a connection, and for the first answer on it
    #[arg(
        long = "connect-timeout",
        value_name = "SECONDS",
        default_value_t = 10.0,
        help_heading = "Servers"
    )]
    pub(crate) connect_timeout: f64,

    /// Requests a second over all threads; 0 is as many as are answered
    #[arg(short, long, value_name = "RATE", default_value_t = 0.0, help_heading = "Load")]
    pub(crate) qps: f64,
    /// A rate that changes: a file of lines SECONDS,RATE, straight between them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["qps", "qps_step", "search", "scan"],
        help_heading = "Load")]
    pub(crate) ramp: Option<PathBuf>,
    /// A rate in steps: FROM:TO:STEP:SECONDS
    #[arg(long = "qps-step", value_name = "FROM:TO:STEP:SECONDS",
        conflicts_with_all = ["qps", "search", "scan"], help_heading = "Load")]
    pub(crate) qps_step: Option<String>,
    /// Seconds to measure [default: 5; with --queries no limit, with a ramp its end]
    #[arg(short, long, value_name = "SECONDS", help_heading = "Load")]
    pub(crate) time: Option<f64>,
    /// Requests to make over all threads; 0 is no limit
    #[arg(short = 'N', long, value_name = "N", default_value_t = 0, help_heading = "Load")]
    pub(crate) queries: u64,
    /// Threads
    #[arg(short = 'T', long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub(crate) threads: usize,
    /// Pin threads to processors in turn
    #[arg(long, help_heading = "Load")]
    pub(crate) affinity: bool,
    /// Connections of a thread to each of its servers
    #[arg(short, long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub(crate) connections: usize,
    /// Requests under way on a connection
    #[arg(short, long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub(crate) depth: usize,
    /// Deal threads to servers instead of connecting each to all
    #[arg(short = 'R', long, help_heading = "Load")]
    pub(crate) roundrobin: bool,
    /// Distribution of the gaps between requests
    #[arg(short, long, value_name = "DIST", default_value = "exponential", help_heading = "Load")]
    pub(crate) iadist: String,
    /// Leave arrivals out that are more than 5 ms late
    #[arg(short = 'S', long, help_heading = "Load")]
    pub(crate) skip: bool,
    /// Keep a mean gap between a reply and the next request of its connection
    #[arg(long, help_heading = "Load")]
    pub(crate) moderate: bool,
    /// Seconds of the same load before, uncounted
    #[arg(short, long, value_name = "SECONDS", default_value_t = 0.0, help_heading = "Load")]
    pub(crate) warmup: f64,
    /// Start the measurement so many seconds after the program, on all threads
    #[arg(short = 'W', long, value_name = "SECONDS", default_value_t = 0.0, help_heading = "Load")]
    pub(crate) wait: f64,
    /// Seconds for replies after the end; later ones count as unanswered
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, help_heading = "Load")]
    pub(crate) drain: f64,
    /// Sleep in the kernel: the default
    #[arg(short = 'B', long, conflicts_with = "polling", help_heading = "Load")]
    pub(crate) blocking: bool,
    /// How threads wait
    #[arg(long, value_enum, default_value = "block", help_heading = "Load")]
    pub(crate) polling: Polling,
    /// Find the highest rate with this percentile below: 99:1000 (us) or p99.9<1.5ms
    #[arg(long, value_name = "GOAL", conflicts_with_all = ["scan", "until", "repeat"],
        help_heading = "Load")]
    pub(crate) search: Option<String>,
    /// Measure rates in turn: MIN:MAX:STEP, or MIN:MAX:FACTOR:geometric
    #[arg(long, value_name = "MIN:MAX:STEP", conflicts_with_all = ["until", "repeat"],
        help_heading = "Load")]
    pub(crate) scan: Option<String>,
    /// Go on in pieces of --time until intervals are small enough, such as p99:ci<2%
    #[arg(long, value_name = "WISH", conflicts_with = "repeat", help_heading = "Load")]
    pub(crate) until: Option<String>,
    /// Measure so often, and give medians with intervals
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub(crate) repeat: Option<u32>,

    /// Distribution of key lengths
    #[arg(short = 'K', long, value_name = "DIST", default_value = "30", help_heading = "Content")]
    pub(crate) keysize: String,
    /// Distribution of value lengths
    #[arg(short = 'V', long, value_name = "DIST", default_value = "200", help_heading = "Content")]
    pub(crate) valuesize: String,
    /// Records, divided among the servers
    #[arg(short, long, value_name = "N", default_value_t = 10_000, help_heading = "Content")]
    pub(crate) records: u64,
    /// Which keys are popular: uniform, zipf:0.99, hotspot:0.2,0.8, latest, sequential
    #[arg(long, value_name = "DIST", default_value = "uniform", help_heading = "Content")]
    pub(crate) popularity: String,
    /// Share of requests that store
    #[arg(short, long, value_name = "SHARE", default_value_t = 0.0, help_heading = "Content")]
    pub(crate) update: f64,
    /// In front of all keys
    #[arg(long, value_name = "TEXT", default_value = "", help_heading = "Content")]
    pub(crate) prefix: String,
    /// Keys of a lookup
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Content")]
    pub(crate) mget: usize,
    /// Seconds that records live; 0 is for ever
    #[arg(long, value_name = "SECONDS", default_value_t = 0, help_heading = "Content")]
    pub(crate) ttl: u32,
    /// Check every value that comes back
    #[arg(long, help_heading = "Content")]
    pub(crate) verify: bool,
    /// Look up, and store what is missed
    #[arg(long, help_heading = "Content")]
    pub(crate) getset: bool,
    /// As --getset, and store by --update as well
    #[arg(long, help_heading = "Content")]
    pub(crate) getsetorset: bool,
    /// Latencies and rates of hits and stores alone
    #[arg(long, help_heading = "Content")]
    pub(crate) successful: bool,
    /// Remove nine tenths of the records half-way (with --getset)
    #[arg(long, help_heading = "Content")]
    pub(crate) delete90: bool,
    /// Redis: the last bytes of longer keys are a field of a hash [default: 4]
    #[arg(long, value_name = "BYTES", num_args = 0..=1, default_missing_value = ASSOC_DEFAULT,
        require_equals = false, help_heading = "Content")]
    pub(crate) assoc: Option<usize>,
    /// Say the share of misses of each so many requests of a connection
    #[arg(short, long, value_name = "N", default_value_t = 0, help_heading = "Content")]
    pub(crate) misswindow: u64,
    /// Do not write the records first
    #[arg(long, conflicts_with = "loadonly", help_heading = "Content")]
    pub(crate) noload: bool,
    /// Write the records, and that is all
    #[arg(long, help_heading = "Content")]
    pub(crate) loadonly: bool,
    /// From it everything is drawn
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Content")]
    pub(crate) seed: u64,

    /// Make the requests of a trace instead of drawn ones; .zst is decompressed
    #[arg(long = "read_file", alias = "read-file", value_name = "FILE", help_heading = "Trace")]
    pub(crate) read_file: Option<PathBuf>,
    /// Columns of the trace: 0 key,size or time,app,op,key,size; 1 Twitter's; 2, 3 and 4 the fork's
    #[arg(
        long = "twitter_trace",
        alias = "twitter-trace",
        value_name = "N",
        default_value_t = 0,
        requires = "read_file",
        help_heading = "Trace"
    )]
    pub(crate) twitter_trace: u32,
    /// Pace the trace by its own times, so many times as fast
    #[arg(long, value_name = "FACTOR", requires = "read_file", help_heading = "Trace")]
    pub(crate) speed: Option<f64>,
    /// Begin the trace again at its end
    #[arg(long = "loop", requires = "read_file", help_heading = "Trace")]
    pub(crate) is_loop: bool,

    /// Be an agent: wait for a master, and send what it says
    #[arg(short = 'A', long, conflicts_with_all = ["servers", "agents"], help_heading = "Agents")]
    pub(crate) agentmode: bool,
    /// Let this agent send as well; repeat for several
    #[arg(short, long = "agent", value_name = "HOST[:PORT]", help_heading = "Agents")]
    pub(crate) agents: Vec<String>,
    /// Port of agents
    #[arg(short = 'p', long = "agent_port", alias = "agent-port", value_name = "PORT",
        default_value_t = super::coordinator::AGENT_PORT, help_heading = "Agents")]
    pub(crate) agent_port: u16,
    /// Where an agent listens [default: 127.0.0.1, with a token 0.0.0.0]
    #[arg(
        long = "agent-listen",
        value_name = "HOST",
        requires = "agentmode",
        help_heading = "Agents"
    )]
    pub(crate) agent_listen: Option<String>,
    /// File whose first line agents and their master must share
    #[arg(long = "agent-token", value_name = "FILE", help_heading = "Agents")]
    pub(crate) agent_token: Option<PathBuf>,
    /// Multiplies the share of the rate that this process has
    #[arg(
        short,
        long = "lambda_mul",
        alias = "lambda-mul",
        value_name = "N",
        default_value_t = 1,
        help_heading = "Agents"
    )]
    pub(crate) lambda_mul: u32,
    /// The master's connections of a thread to each server, instead of -c
    #[arg(
        short = 'C',
        long = "measure_connections",
        alias = "measure-connections",
        value_name = "N",
        help_heading = "Agents"
    )]
    pub(crate) measure_connections: Option<usize>,
    /// The master's own rate
    #[arg(
        short = 'Q',
        long = "measure_qps",
        alias = "measure-qps",
        value_name = "RATE",
        help_heading = "Agents"
    )]
    pub(crate) measure_qps: Option<f64>,
    /// The master's requests under way on a connection, instead of -d
    #[arg(
        short = 'D',
        long = "measure_depth",
        alias = "measure-depth",
        value_name = "N",
        help_heading = "Agents"
    )]
    pub(crate) measure_depth: Option<usize>,

    /// What latencies count from, with --qps
    #[arg(long, value_enum, default_value = "intended", help_heading = "Output")]
    pub(crate) latency: Latency,
    /// Columns of the table
    #[arg(long, value_enum, help_heading = "Output")]
    pub(crate) table: Option<TableShape>,
    /// Write latencies of lookups to this file: seconds and microseconds
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) save: Option<PathBuf>,
    /// Write the report as JSON; - is standard output, instead of the table
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,
    /// Write the seconds as CSV
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) csv: Option<PathBuf>,
    /// Write the latencies of lookups as a percentile distribution of HdrHistogram
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) hgrm: Option<PathBuf>,
    /// Show the figures here to Prometheus while it goes on [default host: 127.0.0.1]
    #[arg(long, value_name = "[HOST:]PORT", help_heading = "Output")]
    pub(crate) prometheus: Option<String>,
    /// Draw the run over the whole terminal while it goes on; q ends it and prints the results
    #[arg(long, conflicts_with = "quiet", help_heading = "Output")]
    pub(crate) tui: bool,
    /// End with status 3 when the verdict warns
    #[arg(long, help_heading = "Output")]
    pub(crate) strict: bool,

    /// Be a server instead: null, oracle:DIST or fault:LIST
    #[arg(long, value_name = "KIND", help_heading = "Instead of load")]
    pub(crate) respond: Option<String>,
    /// Where it listens, also unix:PATH or shm:PATH; repeat for several
    #[arg(long, value_name = "HOST:PORT", requires = "respond", help_heading = "Instead of load")]
    pub(crate) listen: Vec<String>,
    /// Its share of misses
    #[arg(
        long = "miss-share",
        value_name = "SHARE",
        default_value_t = 0.0,
        requires = "respond",
        help_heading = "Instead of load"
    )]
    pub(crate) miss_share: f64,
}

impl Options {
    /// The settings that were given.
    ///
    /// # Errors
    /// A number of a trace's columns that there is not.
    pub(crate) fn settings(&self) -> Result<Settings, String> {
        let ramp = self.ramp()?;
        if ramp.is_some() && self.measure_qps.is_some_and(|rate| rate > 0.0) {
            let why = "the master has its part of the ramp";
            return Err(format!("--ramp and --measure_qps exclude each other: {why}"));
        }
        let time_s = match (self.time, self.queries) {
            (Some(time), _) => time,
            (None, 0) if self.read_file.is_none() && ramp.is_none() => TIME_S,
            (None, _) => 0.0,
        };
        Ok(Settings {
            servers: self.servers.clone(),
            unix_socket: self.unix_socket,
            protocol: self.protocol(),
            credentials: self.credentials(),
            tls: self.tls(),
            rate: match self.measure_qps {
                // Without agents the master is all there is.
                Some(rate) if self.agents.is_empty() && rate > 0.0 => rate,
                _ => self.qps,
            },
            ramp,
            time_s,
            queries: self.queries,
            warmup_s: self.warmup,
            wait_s: self.wait,
            threads: self.threads,
            connections: self.measure_connections.unwrap_or(self.connections),
            depth: self.measure_depth.unwrap_or(self.depth),
            roundrobin: self.roundrobin,
            sharding: self.sharding(),
            records: self.records,
            keysize: self.keysize.clone(),
            valuesize: self.valuesize.clone(),
            iadist: self.iadist.clone(),
            popularity: self.popularity.clone(),
            prefix: self.prefix.clone(),
            update: self.update,
            filling: self.filling(),
            successful: self.successful,
            delete90: self.delete90,
            assoc: self.assoc,
            misswindow: self.misswindow,
            mget: self.mget,
            ttl_s: self.ttl,
            verify: self.verify,
            skip: self.skip,
            moderate: self.moderate,
            loading: self.loading(),
            waiting: self.waiting(),
            nodelay: !self.no_nodelay,
            affinity: self.affinity,
            reconnect: self.reconnect,
            headline: match self.latency {
                Latency::Intended => Headline::Intended,
                Latency::Send => Headline::Sent,
            },
            drain_s: self.drain,
            connect_timeout_s: self.connect_timeout,
            trace: self.trace()?,
            seed: self.seed,
            agent: 0,
            agents: self.agents.len() as u32,
        })
    }

    /// The trace to replay, if one is named.
    fn trace(&self) -> Result<Option<TraceFile>, String> {
        let format = Format::of_option(self.twitter_trace)
            .ok_or_else(|| format!("--twitter_trace is {}, expected 0 to 4", self.twitter_trace))?;
        Ok(self.read_file.clone().map(|path| TraceFile {
            fs: Arc::new(RealFs),
            path,
            format,
            speed: self.speed,
            is_loop: self.is_loop,
        }))
    }

    fn credentials(&self) -> Option<Credentials> {
        let is_named = self.username.is_some() || self.password.is_some();
        is_named.then(|| Credentials {
            user: self.username.clone().unwrap_or_default(),
            password: self.password.clone().unwrap_or_default(),
        })
    }

    fn tls(&self) -> Option<TlsFiles> {
        self.tls_ca.clone().map(|ca| TlsFiles {
            ca,
            identity: self.tls_cert.clone().zip(self.tls_key.clone()),
            name: self.tls_name.clone(),
        })
    }

    /// How keys are divided among servers.
    fn sharding(&self) -> Sharding {
        match self.shard {
            _ if self.cluster => Sharding::Cluster,
            _ if self.tier => Sharding::Tiers,
            Shard::Ketama => Sharding::Ketama,
            Shard::Modula => Sharding::Modula,
            Shard::None => Sharding::None,
        }
    }

    /// What follows a miss.
    fn filling(&self) -> Filling {
        match (self.getset, self.getsetorset) {
            (_, true) => Filling::GetSetOrSet,
            (true, false) => Filling::GetSet,
            // Between tiers what is missed is stored.
            (false, false) if self.tier => Filling::GetSetOrSet,
            (false, false) => Filling::Never,
        }
    }

    /// Whether records are written first.
    fn loading(&self) -> Loading {
        match (self.noload || self.read_file.is_some(), self.loadonly) {
            (_, true) => Loading::Only,
            (true, false) => Loading::No,
            (false, false) => Loading::Yes,
        }
    }

    /// How a thread waits for replies.
    fn waiting(&self) -> Waiting {
        match self.polling {
            Polling::Block => Waiting::Block,
            Polling::Spin => Waiting::Spin,
            Polling::Adaptive => Waiting::Adaptive,
        }
    }

    /// The rate over time, if it changes.
    fn ramp(&self) -> Result<Option<Ramp>, String> {
        if let Some(text) = &self.qps_step {
            let ramp = Ramp::staircase(text).map_err(|error| format!("--qps-step: {error}"))?;
            return Ok(Some(ramp));
        }
        let Some(path) = &self.ramp else { return Ok(None) };
        let text = RealFs.read_to_string(path).map_err(|error| format!("--ramp: {error}"))?;
        let ramp = Ramp::parse(&text);
        ramp.map(Some).map_err(|error| format!("--ramp {}: {error}", path.display()))
    }

    fn protocol(&self) -> Protocol {
        match (self.binary, self.meta, self.redis, self.resp3) {
            (true, ..) => Protocol::Binary,
            (_, true, ..) => Protocol::Meta,
            (.., true) => Protocol::Resp3,
            (_, _, true, _) => Protocol::Resp2,
            _ => Protocol::Text,
        }
    }
}
