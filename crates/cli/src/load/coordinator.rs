//! The master's own fleet and its agents, measured as one.
//!
//! ```text
//!   fleet: load                      alone: records are written once
//!   team:  prepare, ready ... |      agents connect and warm up
//!   fleet:  ... warm up       |      meanwhile
//!   team:  start in 500 ms
//!   fleet: measure            |      both at one time; the team is looked after by a thread
//!   team:  collect            |
//! ```

use super::Options;
use keyrack_console::say;
use keyrack_loadgen::account::{AgentRate, Report};
use keyrack_loadgen::agents::{
    self, AgentOptions, Deadlines, FleetRunner, Lost, Member, Own, PORT, Team,
};
use keyrack_loadgen::plan::{Loading, Plan, Settings};
use keyrack_loadgen::run::{Fleet, Measurement, Surroundings};
use keyrack_loadgen::{Error, Result};
use keyrack_measure::Clock;
use keyrack_net::Endpoint;
use keyrack_vfs::{Fs, RealFs};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Everybody has heard of the start by then.
const START_IN: Duration = Duration::from_millis(500);
const TOKEN_BYTES_MAX: usize = 4096;

/// Those who send.
pub(super) struct Coordinator<'a> {
    plan: &'a Arc<Plan>,
    fleet: Fleet,
    team: Option<Team>,
    options: &'a Options,
    stop: Arc<AtomicBool>,
}

impl<'a> Coordinator<'a> {
    /// Connects our own threads; agents are reached as well, so that one that is missing is said
    /// before anything is written.
    pub(super) fn start(
        plan: &'a Arc<Plan>,
        options: &'a Options,
        surroundings: &mut Surroundings<'_>,
    ) -> Result<Coordinator<'a>> {
        let stop = Arc::clone(&surroundings.stop);
        if !options.agents.is_empty() {
            enlist(options)?.dismiss();
        }
        let fleet = Fleet::start(plan, surroundings)?;
        Ok(Coordinator { plan, fleet, team: None, options, stop })
    }

    /// Writes the records, with our own threads; without any the first agent does.
    pub(super) fn load(&mut self, surroundings: &mut Surroundings<'_>) -> Result<Report> {
        match self.plan.settings.threads {
            0 => Ok(Report::default()),
            _ => self.fleet.load(surroundings),
        }
    }

    /// Warms up and measures.
    pub(super) fn measure(
        &mut self,
        what: &Measurement,
        surroundings: &mut Surroundings<'_>,
    ) -> Result<Report> {
        if self.options.agents.is_empty() {
            self.fleet.warm_up(what, surroundings)?;
            return self.fleet.measure(what, surroundings);
        }
        let mut team = match self.team.take() {
            Some(team) => team,
            None => enlist(self.options)?,
        };
        let report = self.measure_with(&mut team, what, surroundings)?;
        // Probes follow each other at once; a team that is waited for longer is enlisted again.
        team.dismiss();
        Ok(report)
    }

    fn measure_with(
        &mut self,
        team: &mut Team,
        what: &Measurement,
        surroundings: &mut Surroundings<'_>,
    ) -> Result<Report> {
        let settings = &self.plan.settings;
        let prepared = team.prepare(&self.shipped(what))?;
        let master = Member {
            threads: settings.threads as u32,
            connections: self.plan.sources() as u32,
            lambda_mul: self.options.lambda_mul,
        };
        let measure_rate_per_s = self.options.measure_qps.filter(|rate| *rate > 0.0);
        let rates =
            agents::Fleet { rate_per_s: what.rate, measure_rate_per_s, master, agents: prepared }
                .rates()?;
        let own = Measurement { rate: rates.master_per_s.unwrap_or(0.0), ..*what };
        let stop = Arc::clone(&self.stop);
        let is_stopped = || stop.load(Ordering::Relaxed);
        let fleet = &mut self.fleet;
        std::thread::scope(|scope| {
            let ready = scope.spawn(|| team.ready(&rates.agents_per_s, &is_stopped));
            let warm = fleet.warm_up(&own, surroundings);
            let ready = ready.join().unwrap_or_else(|panic| resume_unwind(panic));
            warm.and(ready.map_err(Error::from))
        })?;
        team.start(START_IN)?;
        let clock = &surroundings.clock;
        let start = clock.ticks() + clock.ticks_of_ns(START_IN.as_nanos() as u64);
        let own = Measurement { start: Some(start), ..own };
        let length = Duration::from_secs_f64(if what.time_s > 0.0 { what.time_s } else { 3600.0 });
        let (report, mut collected) = std::thread::scope(|scope| {
            let collecting =
                scope.spawn(|| team.collect(START_IN + length, &is_stopped, &mut |_| {}));
            let report = fleet.measure(&own, surroundings);
            (report, collecting.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        let mut whole = report?;
        whole.offered_rate = (what.rate > 0.0).then_some(what.rate);
        let names: Vec<String> = team.names().map(str::to_owned).collect();
        for (name, outcome) in &collected.outcomes {
            let place = names.iter().position(|other| other == name);
            let offered_per_s = place.and_then(|place| rates.agents_per_s[place]);
            let theirs = match agents::report(name, outcome) {
                Ok(theirs) => theirs,
                Err(reason) => {
                    collected.lost.push(Lost { name: name.clone(), reason });
                    continue;
                }
            };
            let achieved_per_s = theirs.rate();
            whole.join(AgentRate { name: name.clone(), offered_per_s, achieved_per_s }, theirs);
        }
        for lost in collected.lost {
            let text = format!("agent {} is lost: {}; its part is missing", lost.name, lost.reason);
            whole.troubles.push(text);
        }
        Ok(whole)
    }

    /// What agents are told: our settings, but for what is ours alone.
    fn shipped(&self, what: &Measurement) -> serde_json::Value {
        let settings = &self.plan.settings;
        let senders = settings.agents as u64 + u64::from(settings.threads > 0);
        let ramp = self.plan.ramp().cloned();
        let shipped = Settings {
            // Of a ramp, the rate is no setting but its mean.
            rate: if ramp.is_some() { 0.0 } else { settings.rate },
            ramp,
            connections: self.options.connections,
            depth: self.options.depth,
            queries: settings.queries / senders.max(1),
            time_s: what.time_s,
            warmup_s: what.warmup_s,
            wait_s: 0.0,
            loading: if settings.threads == 0 { settings.loading } else { Loading::No },
            ..settings.clone()
        };
        serde_json::to_value(shipped).expect("settings are plain data")
    }
}

fn enlist(options: &Options) -> Result<Team> {
    let token = token(options).map_err(Error::Usage)?;
    let endpoints: Vec<Endpoint> = options
        .agents
        .iter()
        .map(|text| endpoint(text, options.agent_port).map_err(Error::Usage))
        .collect::<Result<_>>()?;
    Ok(Team::enlist(&endpoints, token.as_deref(), Deadlines::default())?)
}

/// `HOST`, `HOST:PORT`, an IPv6 address with or without brackets.
fn endpoint(text: &str, port: u16) -> std::result::Result<Endpoint, String> {
    let is_bare_v6 = text.parse::<std::net::Ipv6Addr>().is_ok();
    let has_port = !is_bare_v6 && !text.ends_with(']') && text.contains(':');
    let written = match (is_bare_v6, has_port) {
        (true, _) => format!("[{text}]:{port}"),
        (false, true) => text.to_owned(),
        (false, false) => format!("{text}:{port}"),
    };
    written.parse().map_err(|error: keyrack_net::Error| format!("--agent: {error}"))
}

/// The first line of the token's file.
fn token(options: &Options) -> std::result::Result<Option<String>, String> {
    let Some(path) = &options.agent_token else { return Ok(None) };
    let text = RealFs.read_to_string(path).map_err(|error| error.to_string())?;
    let line = text.lines().next().unwrap_or_default().trim();
    if line.is_empty() || line.len() > TOKEN_BYTES_MAX {
        return Err(format!(
            "{}: the first line is no token: write 1 to {TOKEN_BYTES_MAX} bytes",
            path.display()
        ));
    }
    Ok(Some(line.to_owned()))
}

/// Is an agent until a signal comes.
pub(super) fn serve(options: &Options) -> std::result::Result<u8, String> {
    let token = token(options)?;
    let host = match (&options.agent_listen, &token) {
        (Some(host), _) => host.clone(),
        (None, Some(_)) => "0.0.0.0".to_owned(),
        // Nobody else may send load from here.
        (None, None) => "127.0.0.1".to_owned(),
    };
    if options.threads == 0 {
        return Err("--threads is 0: an agent sends".to_owned());
    }
    let endpoint = endpoint(&host, options.agent_port)?;
    let own = Own {
        threads: options.threads,
        lambda_mul: options.lambda_mul,
        affinity: options.affinity,
        fs: Arc::new(RealFs),
    };
    let mut runner = FleetRunner::new(own, Clock::calibrated());
    let stop = Arc::<AtomicBool>::default();
    keyrack_console::set_on_signals(&stop)?;
    let settings = AgentOptions { endpoint, token, deadlines: Deadlines::default() };
    agents::serve(
        &settings,
        &mut runner,
        &mut |place| {
            say!("agent listening on {place}");
            say!("ready");
        },
        &|text| say!("agent: {text}"),
        &|| stop.load(Ordering::Relaxed),
    )
    .map_err(|error| error.to_string())?;
    Ok(keyrack_console::DONE)
}

pub(super) const AGENT_PORT: u16 = PORT;
