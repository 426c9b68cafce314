//! A fleet of threads as an agent's work, and what it counted in a form that travels.
//!
//! | name of a count | is |
//! |---|---|
//! | `ops`, `gets`, ... | a field of [`Counts`](crate::account::Counts) |
//! | `error.CLASS` | failures of a class |
//!
//! | name of a histogram | is |
//! |---|---|
//! | `CLASS.response`, `CLASS.service` | latencies of a class |
//! | `delay`, `depth` | as in [`Account`] |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keyrack_measure::Clock;
use keyrack_vfs::Fs;
use serde_json::Value;

use super::agent::{Doing, Runner};
use super::message::Prepared;
use super::outcome::Outcome;
use crate::account::{Account, Report, ThreadUse};
use crate::plan::{Loading, Plan, Settings, check_rate};
use crate::run::{Event, Fleet, Measurement, Surroundings};
use crate::target::{Class, ErrorClass};

/// The longest time from the order to start to the start.
const START_IN_MAX: Duration = Duration::from_secs(3600);

/// What an agent has of its own; everything else comes from its master.
#[derive(Clone, Debug)]
pub struct Own {
    /// Threads.
    pub threads: usize,
    /// Its multiplier of the rate.
    pub lambda_mul: u32,
    /// Pins threads.
    pub affinity: bool,
    /// Where files are.
    pub fs: Arc<dyn Fs>,
}

/// The threads of an agent, once they are connected.
type Slot = Option<Fleet>;

/// The work of an agent, done by a fleet.
#[derive(Debug)]
pub struct FleetRunner {
    own: Own,
    clock: Clock,
    stop: Arc<AtomicBool>,
    plan: Option<Arc<Plan>>,
    fleet: Slot,
    rate: f64,
}

impl FleetRunner {
    /// A runner that waits for its first master.
    #[must_use]
    pub fn new(own: Own, clock: Clock) -> FleetRunner {
        let stop = Arc::new(AtomicBool::new(false));
        FleetRunner { own, clock, stop, plan: None, fleet: None, rate: 0.0 }
    }

    /// Does some work while a thread watches whether it is to end, and says how far it is.
    fn work<T>(
        &mut self,
        doing: &Doing,
        work: impl FnOnce(&mut Slot, &Arc<Plan>, &mut Surroundings<'_>) -> crate::Result<T>,
    ) -> Result<T, String> {
        let plan = self.plan.clone().ok_or("no settings came before")?;
        let (stop, clock) = (Arc::clone(&self.stop), self.clock.clone());
        let fs = Arc::clone(&self.own.fs);
        stop.store(false, Ordering::Relaxed);
        let is_over = AtomicBool::new(false);
        let mut ops = 0;
        let mut observer = |event: &Event<'_>| {
            if let Event::Second(second) = event {
                ops += second.ops;
                doing.progress(ops);
            }
        };
        let mut surroundings = Surroundings {
            began: clock.ticks(),
            clock,
            stop: Arc::clone(&stop),
            observer: &mut observer,
            fs: &*fs,
            save: None,
        };
        let fleet = &mut self.fleet;
        let watch = self.clock.clone();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    if doing.is_stopped() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    watch.wait_until(watch.ticks() + watch.ticks_of_ns(5_000_000));
                }
            });
            // Also where the work panics: the scope waits for the thread that looks.
            let _over = Over(&is_over);
            work(fleet, &plan, &mut surroundings).map_err(|error| error.to_string())
        })
    }
}

/// Says when it is dropped that some work is over.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Runner for FleetRunner {
    fn prepare(&mut self, agent: u32, settings: &Value, _: &Doing) -> Result<Prepared, String> {
        let mut settings: Settings =
            serde_json::from_value(settings.clone()).map_err(|error| error.to_string())?;
        settings.threads = self.own.threads;
        settings.affinity = self.own.affinity;
        settings.agent = agent;
        // The master writes the records, or where it has no threads the first agent.
        if agent > 1 {
            settings.loading = Loading::No;
        }
        let plan = Plan::new(settings, &*self.own.fs).map_err(|error| error.to_string())?;
        let connections = plan.sources() as u32;
        // Connections of an earlier step are another plan's.
        self.fleet = None;
        self.plan = Some(Arc::new(plan));
        let (threads, lambda_mul) = (self.own.threads as u32, self.own.lambda_mul);
        Ok(Prepared { threads, connections, lambda_mul })
    }

    fn ready(&mut self, rate_per_s: Option<f64>, doing: &Doing) -> Result<(), String> {
        let rate = rate_per_s.unwrap_or(0.0);
        check_rate(rate).map_err(|error| error.to_string())?;
        self.rate = rate;
        self.work(doing, |slot, plan, surroundings| {
            let mut fleet = Fleet::start(plan, surroundings)?;
            fleet.load(surroundings)?;
            fleet.warm_up(&Measurement { rate, ..Measurement::of(plan) }, surroundings)?;
            *slot = Some(fleet);
            Ok(())
        })
    }

    fn run(&mut self, start_in: Duration, doing: &Doing) -> Result<Outcome, String> {
        if start_in > START_IN_MAX {
            let (ms, most) = (start_in.as_millis(), START_IN_MAX.as_millis());
            return Err(format!("the start is {ms} ms away, and may be {most} ms"));
        }
        let start = self.clock.ticks() + self.clock.ticks_of_ns(start_in.as_nanos() as u64);
        let rate = self.rate;
        self.work(doing, |fleet, plan, surroundings| {
            let fleet = fleet.as_mut().ok_or_else(|| crate::Error::usage("not ready"))?;
            let what = Measurement { rate, start: Some(start), ..Measurement::of(plan) };
            fleet.measure(&what, surroundings)
        })
        .map(|report| outcome(&report))
    }

    fn dismiss(&mut self) {
        self.fleet = None;
        self.plan = None;
    }
}

/// A report as it travels.
#[must_use]
pub fn outcome(report: &Report) -> Outcome {
    let mut outcome = Outcome {
        window_s: report.window_s,
        is_interrupted: report.is_interrupted,
        ops_by_second: report.series.iter().map(|second| second.ops).collect(),
        threads: report.threads.iter().map(|used| (used.cpu_s, used.wall_s)).collect(),
        troubles: report.troubles.clone(),
        ..Outcome::default()
    };
    let account = &report.account;
    for (name, count) in account.counts.clone().fields() {
        outcome.counts.insert(name.to_owned(), *count);
    }
    for (class, count, _) in account.errors.iter() {
        outcome.counts.insert(format!("error.{}", class.name()), count);
    }
    let histograms = &mut outcome.histograms;
    for class in Class::ALL {
        let tally = account.tally(class);
        histograms.insert(format!("{}.response", class.name()), tally.response.clone());
        histograms.insert(format!("{}.service", class.name()), tally.service.clone());
    }
    histograms.insert("delay".to_owned(), account.delay.clone());
    histograms.insert("depth".to_owned(), account.depth.clone());
    outcome
}

/// What an agent counted, as if a thread of ours had. `name` is the agent's, for its troubles.
///
/// # Errors
/// The name of a count or a histogram that it has not sent: a 0 in its place would be a result.
pub fn report(name: &str, outcome: &Outcome) -> Result<Report, String> {
    let count = |key: &str| match outcome.counts.get(key) {
        Some(count) => Ok(*count),
        None => Err(format!("its outcome has no count '{key}'")),
    };
    let histogram = |key: &str| match outcome.histograms.get(key) {
        Some(histogram) => Ok(histogram.clone()),
        None => Err(format!("its outcome has no histogram '{key}'")),
    };
    let mut account = Account::default();
    for (key, own) in account.counts.fields() {
        *own = count(key)?;
    }
    for class in ErrorClass::ALL {
        // Classes without a failure do not travel.
        let key = format!("error.{}", class.name());
        let count = outcome.counts.get(&key).copied().unwrap_or(0);
        account.errors.add(class, count, || format!("at agent {name}"));
    }
    for class in Class::ALL {
        let tally = account.tally_mut(class);
        tally.response = histogram(&format!("{}.response", class.name()))?;
        tally.service = histogram(&format!("{}.service", class.name()))?;
    }
    account.delay = histogram("delay")?;
    account.depth = histogram("depth")?;
    Ok(Report {
        account,
        window_s: outcome.window_s,
        is_interrupted: outcome.is_interrupted,
        threads: outcome
            .threads
            .iter()
            .map(|(cpu_s, wall_s)| ThreadUse { cpu_s: *cpu_s, wall_s: *wall_s })
            .collect(),
        troubles: outcome.troubles.iter().map(|text| format!("agent {name}: {text}")).collect(),
        ..Report::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_vfs::{MemFs, RealFs};
    use std::path::Path;

    #[test]
    fn a_report_survives_its_journey() {
        let mut sent = Report { window_s: 2.5, ..Report::default() };
        sent.account.tally_mut(Class::Read).response.record_n(12_345, 7);
        sent.account.tally_mut(Class::Update).service.record(99);
        sent.account.delay.record(3);
        for (index, (_, count)) in sent.account.counts.fields().into_iter().enumerate() {
            *count = index as u64 + 1;
        }
        sent.account.errors.add(ErrorClass::Busy, 4, || "wait".to_owned());
        let text = serde_json::to_string(&outcome(&sent)).unwrap();
        let back = report("a:1", &serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(back.account.counts, sent.account.counts);
        assert_eq!(back.account.tally(Class::Read), sent.account.tally(Class::Read));
        assert_eq!(back.account.tally(Class::Update), sent.account.tally(Class::Update));
        assert_eq!(back.account.errors.count(ErrorClass::Busy), 4);
        assert_eq!(back.window_s, 2.5);
    }

    /// An outcome that lacked its latencies was a result of no requests.
    #[test]
    fn an_outcome_that_lacks_something_is_no_zero() {
        let whole = outcome(&Report::default());
        assert!(report("a:1", &whole).is_ok());
        let mut lacking = whole.clone();
        lacking.counts.remove("misses");
        assert!(report("a:1", &lacking).unwrap_err().contains("no count 'misses'"));
        let mut lacking = whole;
        lacking.histograms.remove("delay");
        assert!(report("a:1", &lacking).unwrap_err().contains("no histogram 'delay'"));
    }

    fn runner(fs: Arc<dyn Fs>) -> FleetRunner {
        let own = Own { threads: 1, lambda_mul: 1, affinity: false, fs };
        FleetRunner::new(own, Clock::calibrated())
    }

    /// What an agent with these files says to settings.
    fn refusal(fs: Arc<dyn Fs>, change: impl FnOnce(&mut Settings)) -> String {
        let mut settings =
            Settings { servers: vec!["127.0.0.1:1".to_owned()], ..Settings::default() };
        change(&mut settings);
        let settings = serde_json::to_value(settings).unwrap();
        runner(fs).prepare(1, &settings, &Doing::default()).unwrap_err()
    }

    /// The words of a refusal were a line of the file.
    #[test]
    fn a_master_does_not_learn_what_is_in_the_files_of_an_agent() {
        let disk = MemFs::new();
        disk.write_atomic(Path::new("/shadow"), b"0 0\nroot:secret:1\n").unwrap();
        let said = refusal(Arc::new(disk), |s| s.iadist = "cdf:/shadow".to_owned());
        assert!(said.contains("line 2") && said.contains("/shadow"), "{said}");
        assert!(!said.contains("secret"), "{said}");
    }

    /// A device has the length 0, and was read until memory ended.
    #[test]
    fn a_distribution_without_an_end_is_refused() {
        let said = refusal(Arc::new(RealFs), |s| s.valuesize = "cdf:/dev/zero".to_owned());
        assert!(said.contains("no regular file"), "{said}");
    }

    #[test]
    fn a_rate_or_a_start_that_cannot_be_is_refused() {
        let mut runner = runner(Arc::new(MemFs::new()));
        for rate in [-1.0, 1e13] {
            let said = runner.ready(Some(rate), &Doing::default()).unwrap_err();
            assert!(said.contains("expected 0 to 1e12"), "{said}");
        }
        let said = runner.run(Duration::from_millis(u64::MAX), &Doing::default()).unwrap_err();
        assert!(said.contains("may be 3600000 ms"), "{said}");
    }
}
