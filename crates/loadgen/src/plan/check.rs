//! What can be said of settings by themselves, before a name is resolved or a file is read.

use super::settings::{Filling, Loading, Settings};
use crate::error::{Error, Result};
use crate::route::Sharding;

/// Connections of a thread to a server, as the original has it.
pub const CONNECTIONS_MAX: usize = 512;
/// Threads at most.
pub const THREADS_MAX: usize = 1024;
/// Requests under way on a connection at most: each is some bytes of memory.
pub const DEPTH_MAX: usize = 1 << 20;
/// Keys of a lookup at most.
pub const MGET_MAX: usize = 10_000;
/// Longest run: a year.
const TIME_S_MAX: f64 = 366.0 * 86_400.0;

/// Refuses settings that contradict each other, and values out of range. The first rule that is
/// broken is the error.
pub(super) fn check(settings: &Settings) -> Result<()> {
    check_limits(settings)?;
    check_trace(settings)?;
    let has_end = settings.trace.is_some() || settings.ramp.is_some();
    refuse_if(
        settings.time_s == 0.0 && settings.queries == 0 && !has_end,
        "--time is 0: give it, or --queries, to say how long to measure",
    )?;
    check_rate(settings.rate)?;
    check_content(settings)?;
    check_sharding(settings)?;
    check_pace(settings)?;
    refuse_if(
        settings.loading == Loading::Only && settings.servers.is_empty(),
        "--loadonly needs --server",
    )?;
    check_credentials(settings)
}

fn refuse_if(is_wrong: bool, why: &str) -> Result<()> {
    if is_wrong { Err(Error::usage(why)) } else { Ok(()) }
}

fn check_limits(settings: &Settings) -> Result<()> {
    let within = |option: &str, value: usize, max: usize| {
        if (1..=max).contains(&value) {
            Ok(())
        } else {
            Err(Error::usage(format!("{option} is {value}, expected 1 to {max}")))
        }
    };
    let seconds = |option: &str, value: f64| {
        if (0.0..=TIME_S_MAX).contains(&value) {
            Ok(())
        } else {
            Err(Error::usage(format!("{option} is {value}, expected 0 to {TIME_S_MAX} s")))
        }
    };
    if settings.threads > 0 || settings.agents == 0 {
        within("--threads", settings.threads, THREADS_MAX)?;
    }
    refuse_if(
        settings.agents > 0 && settings.trace.is_some(),
        "--read_file and --agent exclude each other",
    )?;
    within("--connections", settings.connections, CONNECTIONS_MAX)?;
    within("--depth", settings.depth, DEPTH_MAX)?;
    within("--mget", settings.mget, MGET_MAX)?;
    seconds("--time", settings.time_s)?;
    seconds("--warmup", settings.warmup_s)?;
    seconds("--wait", settings.wait_s)?;
    seconds("--drain", settings.drain_s)?;
    seconds("--connect-timeout", settings.connect_timeout_s)?;
    refuse_if(
        settings.connect_timeout_s == 0.0,
        "--connect-timeout is 0: nothing connects in no time",
    )
}

fn check_trace(settings: &Settings) -> Result<()> {
    let Some(trace) = &settings.trace else { return Ok(()) };
    refuse_if(
        trace.speed.is_some_and(|speed| !(speed > 0.0 && speed.is_finite())),
        "--speed is not more than 0: time passes forwards",
    )?;
    refuse_if(
        trace.speed.is_some() && settings.rate > 0.0,
        "--speed and --qps exclude each other: a trace has one pace",
    )?;
    refuse_if(
        settings.mget > 1 || settings.delete90,
        "--read_file excludes --mget and --delete90",
    )?;
    refuse_if(
        trace.is_loop && settings.time_s == 0.0 && settings.queries == 0,
        "--loop needs --time or --queries: it has no end",
    )
}

fn check_content(settings: &Settings) -> Result<()> {
    if !(0.0..=1.0).contains(&settings.update) {
        let update = settings.update;
        return Err(Error::usage(format!("--update is {update}, expected a share from 0 to 1")));
    }
    refuse_if(settings.records == 0, "--records is 0: there is no key to ask for")?;
    refuse_if(
        settings.assoc.is_some() && settings.protocol.is_memcached(),
        "--assoc needs --redis: memcached has no hashes",
    )?;
    refuse_if(
        settings.assoc.is_some() && settings.mget > 1,
        "--assoc and --mget exclude each other: fields have no MGET",
    )?;
    refuse_if(
        settings.delete90 && settings.filling == Filling::Never,
        "--delete90 needs --getset: what was removed has to come back",
    )?;
    refuse_if(
        settings.filling != Filling::Never && settings.mget > 1,
        "--mget and --getset exclude each other: which key missed is not told",
    )?;
    refuse_if(settings.verify && settings.mget > 1, "--verify and --mget exclude each other")
}

/// The rate and what changes it.
fn check_pace(settings: &Settings) -> Result<()> {
    let has_speed = settings.trace.as_ref().is_some_and(|trace| trace.speed.is_some());
    refuse_if(
        settings.ramp.is_some() && settings.rate > 0.0,
        "--ramp and --qps exclude each other: both are the rate",
    )?;
    refuse_if(
        settings.ramp.is_some() && has_speed,
        "--ramp and --speed exclude each other: a trace has one pace",
    )?;
    let is_paced = settings.rate > 0.0 || settings.ramp.is_some();
    refuse_if(
        (settings.skip || settings.moderate) && !is_paced,
        "--skip and --moderate need --qps: there is no schedule to leave",
    )
}

fn check_credentials(settings: &Settings) -> Result<()> {
    let Some(them) = &settings.credentials else { return Ok(()) };
    if settings.protocol.is_memcached() && them.user.is_empty() {
        let name = settings.protocol.name();
        return Err(Error::usage(format!("--password needs --username with {name}")));
    }
    refuse_if(
        them.user.len() > 255 || them.password.len() > 32_768,
        "--username or --password is too long",
    )?;
    refuse_if(
        them.user.contains('\0') || them.password.contains('\0'),
        "--username and --password cannot hold NUL",
    )
}

/// Whether there can be so many requests a second; 0 is as many as are answered.
pub(crate) fn check_rate(rate: f64) -> Result<()> {
    if (0.0..=1e12).contains(&rate) {
        Ok(())
    } else {
        Err(Error::usage(format!("--qps is {rate}, expected 0 to 1e12")))
    }
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
