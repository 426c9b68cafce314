//! Settings checked against each other and made ready: what every thread reads and nobody changes.
//!
//! **Invariant:** nothing in a [`Plan`] can be refused any more for what the user wrote. What can
//! be said without a connection is said before one is made.

mod check;
mod endpoint;
mod settings;

pub(crate) use check::check_rate;
pub use check::{CONNECTIONS_MAX, DEPTH_MAX, MGET_MAX, THREADS_MAX};
pub use settings::{Filling, Headline, Loading, Settings, TlsFiles, TraceFile, Waiting};

use keyrack_net::ConnectOptions;
#[cfg(feature = "tls")]
use keyrack_net::TlsClient;
use keyrack_vfs::Fs;
use keyrack_wire::memcached;
use keyrack_workload::Distribution;
use std::time::Duration;

use crate::arrival::{self, Sizes, VALUE_BYTES_MAX};
use crate::content::{KeyText, Popularity, Sample, Values};
use crate::control::Ramp;
use crate::error::{Error, Result};
use crate::route::Shards;
use crate::server::Server;
use crate::trace;

/// The longest key of a server that is not memcached.
const KEY_BYTES_MAX: usize = 64 << 10;
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
        check::check(&settings)?;
        let ramp = settings.ramp.take();
        if let Some(ramp) = &ramp {
            settings.rate = mean_rate(ramp, &mut settings.time_s)?;
        }
        let servers = endpoint::servers(&settings)?;
        let connect: Vec<ConnectOptions> = servers
            .iter()
            .map(|server| connect_options(&settings, server, fs))
            .collect::<Result<_>>()?;
        let records = if settings.sharding.is_some() {
            settings.records
        } else {
            (settings.records / servers.len() as u64).max(1)
        };
        let gaps = named("--iadist", arrival::distribution(&settings.iadist, fs))?;
        if settings.rate > 0.0 {
            named("--iadist", gaps.with_mean(1.0 / settings.rate))?;
        }
        let key_sizes = named("--keysize", arrival::distribution(&settings.keysize, fs))?;
        let key_bytes_max =
            if settings.protocol.is_memcached() { memcached::KEY_BYTES_MAX } else { KEY_BYTES_MAX };
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
        let load_depth = if settings.tls.is_some() && settings.protocol.is_memcached() {
            let request = keys.len_max() + sizes.max() as usize + FRAMING_BYTES;
            (TLS_RECORD_BYTES / 2 / request).clamp(1, LOAD_DEPTH)
        } else {
            LOAD_DEPTH
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
        if self.settings.sharding.is_some() {
            self.settings.threads * self.settings.connections
        } else {
            self.connections()
        }
    }

    /// Records of all servers together.
    #[must_use]
    pub fn records_total(&self) -> u64 {
        if self.settings.sharding.is_some() {
            self.records
        } else {
            self.records * self.servers.len() as u64
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

#[cfg(test)]
mod tests;
