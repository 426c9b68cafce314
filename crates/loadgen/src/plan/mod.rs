//! Settings checked against each other and made ready: what every thread reads and nobody changes.
//!
//! **Invariant:** nothing in a [`Plan`] can be refused any more for what the user wrote. What can
//! be said without a connection is said before one is made.

mod endpoint;
mod settings;

pub use settings::{Filling, Headline, Loading, Settings, TlsFiles, TraceFile, Waiting};

use keyrack_net::ConnectOptions;
#[cfg(feature = "tls")]
use keyrack_net::TlsClient;
use keyrack_vfs::Fs;
use keyrack_workload::Distribution;
use std::time::Duration;

use crate::arrival::{self, Sizes, VALUE_BYTES_MAX};
use crate::content::{KeyText, Popularity, Sample, Values};
use crate::control::Ramp;
use crate::error::{Error, Result};
use crate::route::{Sharding, Shards};
use crate::server::Server;
use crate::target::MEMCACHED_KEY_BYTES_MAX;
use crate::trace;

/// Connections of a thread to a server, as the original has it.
pub const CONNECTIONS_MAX: usize = 512;
/// Threads at most.
pub const THREADS_MAX: usize = 1024;
/// Requests under way on a connection at most: each is some bytes of memory.
pub const DEPTH_MAX: usize = 1 << 20;
/// Keys of a lookup at most.
pub const MGET_MAX: usize = 10_000;
/// The longest key of a server that is not memcached.
const KEY_BYTES_MAX: usize = 64 << 10;
/// Longest run: a year.
const TIME_S_MAX: f64 = 366.0 * 86_400.0;
/// Requests under way on a connection while it loads.
const LOAD_DEPTH: usize = 1024;
/// Memcached 1.6 loses what comes behind a record of TLS until more comes: while loading there is
/// never so much under way.
const TLS_RECORD_BYTES: usize = 16 << 10;
/// What a store has besides its key and its value, at most.
const FRAMING_BYTES: usize = 64;
/// The share that `--delete90` removes.
const PURGED_SHARE: f64 = 0.9;

/// What is to be done.
#[derive(Debug)]
pub struct Plan {
    /// As the user has it.
    pub settings: Settings,
    /// Where, resolved.
    pub servers: Vec<Server>,
    /// How to connect, for each server.
    pub(crate) connect: Vec<ConnectOptions>,
    /// Records of each server, or of all together where they share the keys.
    pub records: u64,
    pub(crate) gaps: Distribution,
    pub(crate) keys: KeyText,
    pub(crate) sizes: Sizes,
    pub(crate) popularity: Popularity,
    pub(crate) values: Values,
    pub(crate) purged: Sample,
    /// Requests under way on a connection while it loads.
    pub(crate) load_depth: usize,
    /// Who has which keys, where servers share them in a way that does not change.
    pub(crate) shards: Option<Shards>,
    /// The rate over time.
    pub(crate) ramp: Option<Ramp>,
}

impl Plan {
    /// Checks everything, resolves names, reads certificates and distributions.
    ///
    /// # Errors
    /// [`Error::Usage`] and its like, one line each, naming the option.
    pub fn new(mut settings: Settings, fs: &dyn Fs) -> Result<Plan> {
        check(&settings)?;
        let ramp = settings.ramp.take();
        if let Some(ramp) = &ramp {
            settings.rate = mean_rate(ramp, &mut settings.time_s)?;
        }
        let servers = endpoint::servers(&settings)?;
        let connect: Vec<ConnectOptions> = servers
            .iter()
            .map(|server| connect_options(&settings, server, fs))
            .collect::<Result<_>>()?;
        let records = match settings.sharding.is_some() {
            true => settings.records,
            false => (settings.records / servers.len() as u64).max(1),
        };
        let gaps = named("--iadist", arrival::distribution(&settings.iadist, fs))?;
        if settings.rate > 0.0 {
            named("--iadist", gaps.with_mean(1.0 / settings.rate))?;
        }
        let key_sizes = named("--keysize", arrival::distribution(&settings.keysize, fs))?;
        let key_bytes_max = match settings.protocol.is_memcached() {
            true => MEMCACHED_KEY_BYTES_MAX,
            false => KEY_BYTES_MAX,
        };
        if let Distribution::Fixed(bytes) = key_sizes
            && bytes + settings.prefix.len() as f64 > key_bytes_max as f64
        {
            return Err(Error::usage(format!(
                "--keysize {}: keys of {} have at most {key_bytes_max} bytes, --prefix included",
                settings.keysize,
                settings.protocol.name(),
            )));
        }
        let prefix = settings.prefix.as_bytes();
        let keys = named("--keysize", KeyText::new(&key_sizes, records, prefix, key_bytes_max))?;
        let value_sizes = named("--valuesize", arrival::distribution(&settings.valuesize, fs))?;
        let sizes = named("--valuesize", Sizes::new(&value_sizes, None))?;
        let popularity = named("--popularity", Popularity::parse(&settings.popularity))?;
        let traced = if settings.trace.is_some() { VALUE_BYTES_MAX } else { 0 };
        let values = Values::new(sizes.max().max(traced) as usize, settings.seed);
        let purged = Sample::new(PURGED_SHARE, settings.seed);
        let shards = Shards::new(settings.sharding, &servers);
        let load_depth = match settings.tls.is_some() && settings.protocol.is_memcached() {
            true => {
                let request = keys.len_max() + sizes.max() as usize + FRAMING_BYTES;
                (TLS_RECORD_BYTES / 2 / request).clamp(1, LOAD_DEPTH)
            }
            false => LOAD_DEPTH,
        };
        Ok(Plan {
            settings,
            servers,
            connect,
            records,
            gaps,
            keys,
            sizes,
            popularity,
            values,
            purged,
            load_depth,
            shards,
            ramp,
        })
    }

    /// Are the gaps between requests to be those of a Poisson process?
    #[must_use]
    pub fn is_poisson(&self) -> bool {
        let settings = &self.settings;
        let is_left =
            settings.skip || settings.moderate || settings.trace.is_some() || self.ramp.is_some();
        matches!(self.gaps, Distribution::Exponential { .. }) && !is_left
    }

    /// The deviation of the gaps between requests, divided by their mean. Traces and ramps are as
    /// random as a Poisson process, for all that is known.
    #[must_use]
    pub fn variation(&self) -> f64 {
        let rate = self.settings.rate;
        if rate <= 0.0 || self.settings.trace.is_some() {
            return 1.0;
        }
        self.gaps.with_mean(1.0 / rate).map_or(1.0, |distribution| distribution.variation())
    }

    /// The servers of a thread, by their places.
    #[must_use]
    pub fn servers_of(&self, thread: usize) -> Vec<usize> {
        let count = self.servers.len();
        if self.settings.roundrobin {
            return (thread % count..count).step_by(self.settings.threads.max(1)).collect();
        }
        (0..count).collect()
    }

    /// How many threads serve a server before this one, and how many in all: who loads which part.
    pub(crate) fn place_at(&self, thread: usize, server: usize) -> (u64, u64) {
        let serves = |thread: &usize| self.servers_of(*thread).contains(&server);
        let before = (0..thread).filter(serves).count();
        let all = (0..self.settings.threads).filter(serves).count();
        (before as u64, all as u64)
    }

    /// How a trace is read for the protocol.
    pub(crate) fn trace_options(&self, trace: &TraceFile) -> trace::Options {
        let is_memcached = self.settings.protocol.is_memcached();
        let mut options = trace::Options::new(trace.format);
        if !is_memcached {
            (options.key_bytes_max, options.any_byte) = (KEY_BYTES_MAX, true);
        }
        options
    }

    /// Connections of threads below this one.
    pub(crate) fn connections_before(&self, thread: usize) -> usize {
        (0..thread).map(|thread| self.servers_of(thread).len() * self.settings.connections).sum()
    }

    /// Connections of all threads.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections_before(self.settings.threads)
    }

    /// Streams of requests of all threads, which share the rate: the connections, or where keys say
    /// where they go the clients that have one to each server.
    #[must_use]
    pub fn sources(&self) -> usize {
        match self.settings.sharding.is_some() {
            true => self.settings.threads * self.settings.connections,
            false => self.connections(),
        }
    }

    /// Records of all servers together.
    #[must_use]
    pub fn records_total(&self) -> u64 {
        match self.settings.sharding.is_some() {
            true => self.records,
            false => self.records * self.servers.len() as u64,
        }
    }

    /// The rate over time, where it changes.
    #[must_use]
    pub fn ramp(&self) -> Option<&Ramp> {
        self.ramp.as_ref()
    }

    /// The part of a number of requests that a thread has.
    pub(crate) fn budget_of(&self, thread: usize) -> Option<u64> {
        let (queries, threads) = (self.settings.queries, self.settings.threads.max(1) as u64);
        (queries > 0).then(|| queries / threads + u64::from((thread as u64) < queries % threads))
    }

    /// The same with another rate, for a search or a scan.
    ///
    /// # Errors
    /// A rate that the distribution of gaps cannot have.
    pub fn set_rate(&mut self, rate: f64) -> Result<()> {
        if rate > 0.0 {
            named("--iadist", self.gaps.with_mean(1.0 / rate))?;
        }
        self.settings.rate = rate;
        Ok(())
    }
}

fn named<T>(option: &str, result: std::result::Result<T, keyrack_workload::Error>) -> Result<T> {
    result.map_err(|error| Error::usage(format!("{option}: {error}")))
}

#[cfg(feature = "tls")]
fn connect_options(settings: &Settings, server: &Server, fs: &dyn Fs) -> Result<ConnectOptions> {
    let timeout = Duration::from_secs_f64(settings.connect_timeout_s);
    let mut options = ConnectOptions::with_timeout(timeout);
    if let Some(files) = &settings.tls {
        let identity = files.identity.as_ref().map(|(chain, key)| (chain.as_path(), key.as_path()));
        let name = files.name.clone().unwrap_or_else(|| server.host.clone());
        options.tls = Some(TlsClient::from_pem(fs, &files.ca, &name, identity)?);
    }
    Ok(options)
}

#[cfg(not(feature = "tls"))]
fn connect_options(settings: &Settings, _: &Server, _: &dyn Fs) -> Result<ConnectOptions> {
    if settings.tls.is_some() {
        return Err(Error::usage("--tls: this build has no TLS; build it with the feature `tls`"));
    }
    Ok(ConnectOptions::with_timeout(Duration::from_secs_f64(settings.connect_timeout_s)))
}

/// The mean rate of a ramp over the time of the measurement, which is that of the ramp where there
/// is no other.
fn mean_rate(ramp: &Ramp, time_s: &mut f64) -> Result<f64> {
    if *time_s == 0.0 {
        *time_s = ramp.end_s();
    }
    if *time_s == 0.0 {
        return Err(Error::usage(
            "--ramp ends at second 0: give --time to say how long to measure",
        ));
    }
    let rate = ramp.count_at(*time_s) / *time_s;
    if rate <= 0.0 {
        return Err(Error::usage("--ramp: no request is due within --time"));
    }
    Ok(rate)
}

/// Whether there can be so many requests a second; 0 is as many as are answered.
pub(crate) fn check_rate(rate: f64) -> Result<()> {
    match (0.0..=1e12).contains(&rate) {
        true => Ok(()),
        false => Err(Error::usage(format!("--qps is {rate}, expected 0 to 1e12"))),
    }
}

/// What can be said of single settings, and of pairs.
fn check(settings: &Settings) -> Result<()> {
    let refuse = |text: String| Err(Error::Usage(text));
    let within = |option: &str, value: usize, max: usize| match (1..=max).contains(&value) {
        true => Ok(()),
        false => Err(Error::usage(format!("{option} is {value}, expected 1 to {max}"))),
    };
    let seconds = |option: &str, value: f64| match (0.0..=TIME_S_MAX).contains(&value) {
        true => Ok(()),
        false => Err(Error::usage(format!("{option} is {value}, expected 0 to {TIME_S_MAX} s"))),
    };
    if settings.threads > 0 || settings.agents == 0 {
        within("--threads", settings.threads, THREADS_MAX)?;
    }
    if settings.agents > 0 && settings.trace.is_some() {
        return refuse("--read_file and --agent exclude each other".to_owned());
    }
    within("--connections", settings.connections, CONNECTIONS_MAX)?;
    within("--depth", settings.depth, DEPTH_MAX)?;
    within("--mget", settings.mget, MGET_MAX)?;
    seconds("--time", settings.time_s)?;
    seconds("--warmup", settings.warmup_s)?;
    seconds("--wait", settings.wait_s)?;
    seconds("--drain", settings.drain_s)?;
    seconds("--connect-timeout", settings.connect_timeout_s)?;
    if settings.connect_timeout_s == 0.0 {
        return refuse("--connect-timeout is 0: nothing connects in no time".to_owned());
    }
    if let Some(trace) = &settings.trace {
        if trace.speed.is_some_and(|speed| !(speed > 0.0 && speed.is_finite())) {
            return refuse("--speed is not more than 0: time passes forwards".to_owned());
        }
        if trace.speed.is_some() && settings.rate > 0.0 {
            return refuse("--speed and --qps exclude each other: a trace has one pace".to_owned());
        }
        if settings.mget > 1 || settings.delete90 {
            return refuse("--read_file excludes --mget and --delete90".to_owned());
        }
        if trace.is_loop && settings.time_s == 0.0 && settings.queries == 0 {
            return refuse("--loop needs --time or --queries: it has no end".to_owned());
        }
    }
    let has_end = settings.trace.is_some() || settings.ramp.is_some();
    if settings.time_s == 0.0 && settings.queries == 0 && !has_end {
        return refuse("--time is 0: give it, or --queries, to say how long to measure".to_owned());
    }
    check_rate(settings.rate)?;
    if !(0.0..=1.0).contains(&settings.update) {
        return refuse(format!("--update is {}, expected a share from 0 to 1", settings.update));
    }
    if settings.records == 0 {
        return refuse("--records is 0: there is no key to ask for".to_owned());
    }
    let memcached = settings.protocol.is_memcached();
    let name = settings.protocol.name();
    if settings.assoc.is_some() && memcached {
        return refuse("--assoc needs --redis: memcached has no hashes".to_owned());
    }
    if settings.assoc.is_some() && settings.mget > 1 {
        return refuse("--assoc and --mget exclude each other: fields have no MGET".to_owned());
    }
    if settings.delete90 && settings.filling == Filling::Never {
        return refuse("--delete90 needs --getset: what was removed has to come back".to_owned());
    }
    if settings.filling != Filling::Never && settings.mget > 1 {
        return refuse(
            "--mget and --getset exclude each other: which key missed is not told".to_owned(),
        );
    }
    if settings.verify && settings.mget > 1 {
        return refuse("--verify and --mget exclude each other".to_owned());
    }
    check_sharding(settings)?;
    if settings.ramp.is_some() {
        if settings.rate > 0.0 {
            return refuse("--ramp and --qps exclude each other: both are the rate".to_owned());
        }
        if settings.trace.as_ref().is_some_and(|trace| trace.speed.is_some()) {
            return refuse(
                "--ramp and --speed exclude each other: a trace has one pace".to_owned(),
            );
        }
    }
    let is_paced = settings.rate > 0.0 || settings.ramp.is_some();
    if (settings.skip || settings.moderate) && !is_paced {
        return refuse(
            "--skip and --moderate need --qps: there is no schedule to leave".to_owned(),
        );
    }
    if settings.loading == Loading::Only && settings.servers.is_empty() {
        return refuse("--loadonly needs --server".to_owned());
    }
    if let Some(them) = &settings.credentials {
        if memcached && them.user.is_empty() {
            return refuse(format!("--password needs --username with {name}"));
        }
        if them.user.len() > 255 || them.password.len() > 32_768 {
            return refuse("--username or --password is too long".to_owned());
        }
        if them.user.contains('\0') || them.password.contains('\0') {
            return refuse("--username and --password cannot hold NUL".to_owned());
        }
    }
    Ok(())
}

/// Keys that say where they go.
fn check_sharding(settings: &Settings) -> Result<()> {
    if !settings.sharding.is_some() {
        return Ok(());
    }
    let option = match settings.sharding {
        Sharding::Cluster => "--cluster",
        Sharding::Tiers => "--tier",
        _ => "--shard",
    };
    if settings.sharding == Sharding::Cluster && settings.protocol.is_memcached() {
        return Err(Error::usage("--cluster needs --redis or --resp3: memcached has none"));
    }
    if settings.sharding == Sharding::Tiers {
        let servers = settings.servers.len();
        if servers != 2 {
            return Err(Error::usage(format!("--tier needs two servers, and there are {servers}")));
        }
        if settings.filling == Filling::Never {
            return Err(Error::usage("--tier stores what both tiers miss: it needs --getset"));
        }
        if settings.delete90 {
            return Err(Error::usage("--tier and --delete90 exclude each other"));
        }
    }
    if settings.roundrobin {
        return Err(Error::usage(format!(
            "{option} and --roundrobin exclude each other: a thread needs every server"
        )));
    }
    if settings.mget > 1 {
        return Err(Error::usage(format!(
            "{option} and --mget exclude each other: the keys of a lookup have many servers"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
