//! Counters of the processor and of the kernel's scheduler over a phase, for the whole process.
//!
//! ```text
//!   before the workers start   a counter for each event on each thread there is: the leader, and
//!                              the engine's own; threads that these start are counted with them
//!   at the start tick          read: the baseline
//!   when workers were joined   read: the difference is the phase's
//! ```
//!
//! What the kernel refuses, or the machine has not, is `None` and has a reason; it is never 0.
//! Where a user may count only what runs outside of the kernel, that is counted and said, but for
//! context switches, which happen inside. With more counters than the processor has, the kernel
//! takes turns: counts are then scaled to the whole time.

use super::Host;
use super::perf_sys::{Counter, Event, Reading};
use keyrack_record::Counters;
use std::io;

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;

/// Name, event, and whether it can be seen from outside of the kernel.
const EVENTS: [(&str, Event, bool); 6] = [
    ("cycles", Event { kind: HARDWARE, config: 0 }, true),
    ("instructions", Event { kind: HARDWARE, config: 1 }, true),
    ("cache_misses", Event { kind: HARDWARE, config: 3 }, true),
    ("branch_misses", Event { kind: HARDWARE, config: 5 }, true),
    ("page_faults", Event { kind: SOFTWARE, config: 2 }, true),
    ("context_switches", Event { kind: SOFTWARE, config: 3 }, false),
];

/// Threads beyond which a process is not counted: each takes six open files.
const THREADS_MAX: usize = 256;

/// How an event can be counted here.
#[derive(Clone, Debug, PartialEq)]
enum Access {
    /// Everything that the process causes.
    All,
    /// What runs outside of the kernel.
    User,
    /// Not at all, and why.
    Refused(String),
}

/// Counters of the events that this process may count.
#[derive(Debug)]
pub(crate) struct PerfCounters {
    /// For each event the counters of all threads; empty where it cannot be counted.
    open: Vec<Vec<Counter>>,
    access: Vec<Access>,
    baseline: Vec<Option<Reading>>,
}

impl PerfCounters {
    /// Counters on every thread of this process, and on those that they start from now on.
    pub(crate) fn open(host: &dyn Host) -> PerfCounters {
        let tids: Vec<i32> =
            host.list("/proc/self/task").iter().filter_map(|name| name.parse().ok()).collect();
        let mut access = Vec::new();
        let mut open = Vec::new();
        for (_, event, has_user) in EVENTS {
            let (counters, how) = match tids.len() {
                0 => (
                    Vec::new(),
                    Access::Refused("the threads of the process are not listed".into()),
                ),
                count if count > THREADS_MAX => (
                    Vec::new(),
                    Access::Refused(format!("the process has {count} threads, too many")),
                ),
                _ => on_threads(event, has_user, &tids, host),
            };
            open.push(counters);
            access.push(how);
        }
        let baseline = vec![None; open.len()];
        PerfCounters { open, access, baseline }
    }

    /// What is counted from now on counts.
    pub(crate) fn start(&mut self) {
        self.baseline = self.sums();
    }

    /// What was counted since; `None` where nothing can be.
    pub(crate) fn since(&self) -> Option<Counters> {
        let now = self.sums();
        let mut values =
            now.iter().zip(&self.baseline).map(|(now, then)| scaled((*now)?, (*then)?));
        let mut next = || values.next().flatten();
        let counters = Counters {
            cycles: next(),
            instructions: next(),
            cache_misses: next(),
            branch_misses: next(),
            page_faults: next(),
            context_switches: next(),
            with_kernel: !self.access.contains(&Access::User),
        };
        counters.any().then_some(counters)
    }

    /// How each event is counted here, in words.
    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        let said = EVENTS.iter().zip(&self.access).map(|((name, ..), access)| {
            let how = match access {
                Access::All => "counted".to_owned(),
                Access::User => "counted outside of the kernel alone".to_owned(),
                Access::Refused(why) => format!("{}: {why}", super::NOT_AVAILABLE),
            };
            ((*name).to_owned(), how)
        });
        said.collect()
    }

    fn sums(&self) -> Vec<Option<Reading>> {
        self.open.iter().map(|counters| sum(counters)).collect()
    }
}

/// The facts of a probe: what can be counted on this machine, by trying.
pub(crate) fn perf_info(host: &dyn Host) -> Vec<(String, String)> {
    PerfCounters::open(host).facts()
}

fn on_threads(
    event: Event,
    has_user: bool,
    tids: &[i32],
    host: &dyn Host,
) -> (Vec<Counter>, Access) {
    let all = |with_kernel: bool| -> io::Result<Vec<Counter>> {
        let mut counters = Vec::new();
        for tid in tids {
            match Counter::open(event, *tid, with_kernel) {
                Ok(counter) => counters.push(counter),
                // It ended since it was listed.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(counters)
    };
    let error = match all(true) {
        Ok(counters) => return (counters, Access::All),
        Err(error) => error,
    };
    if has_user
        && is_forbidden(&error)
        && let Ok(counters) = all(false)
    {
        return (counters, Access::User);
    }
    (Vec::new(), Access::Refused(reason(&error, host)))
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

/// Why a counter did not open, for people.
fn reason(error: &io::Error, host: &dyn Host) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            let level = host.line("/proc/sys/kernel/perf_event_paranoid");
            let level = level.map(|level| format!(" (kernel.perf_event_paranoid = {level})"));
            format!("the kernel does not allow it{}", level.unwrap_or_default())
        }
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::EINVAL) => {
            "the machine has no such counter".to_owned()
        }
        Some(libc::ENOSYS) => "the kernel has no such call".to_owned(),
        Some(libc::EMFILE | libc::ENFILE) => "too many open files".to_owned(),
        _ => error.to_string(),
    }
}

fn sum(counters: &[Counter]) -> Option<Reading> {
    let mut all = Reading::default();
    for counter in counters {
        let one = counter.read().ok()?;
        all.count += one.count;
        all.enabled_ns += one.enabled_ns;
        all.running_ns += one.running_ns;
    }
    (!counters.is_empty()).then_some(all)
}

/// The count between two readings, for the time in which the counter was wanted; `None` where it
/// never was on a processor in that time, which is no count of 0.
fn scaled(now: Reading, then: Reading) -> Option<u64> {
    let enabled_ns = now.enabled_ns.saturating_sub(then.enabled_ns);
    let running_ns = now.running_ns.saturating_sub(then.running_ns);
    let count = now.count.saturating_sub(then.count);
    match running_ns {
        0 => None,
        _ if running_ns >= enabled_ns => Some(count),
        _ => Some((count as f64 * (enabled_ns as f64 / running_ns as f64)).round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{CapturedHost, LinuxHost};
    use std::hint::black_box;

    fn reading(count: u64, enabled_ns: u64, running_ns: u64) -> Reading {
        Reading { count, enabled_ns, running_ns }
    }

    #[test]
    fn turns_are_scaled_and_no_turn_is_no_count() {
        let then = reading(10, 100, 100);
        assert_eq!(scaled(reading(60, 200, 200), then), Some(50));
        assert_eq!(scaled(reading(60, 300, 150), then), Some(200));
        assert_eq!(scaled(reading(10, 300, 100), then), None, "never on a processor");
    }

    #[test]
    fn what_is_refused_is_said_by_reason() {
        let host = CapturedHost::new();
        host.set_file("/proc/sys/kernel/perf_event_paranoid", "3\n");
        let of = |code| reason(&io::Error::from_raw_os_error(code), &host);
        assert_eq!(
            of(libc::EACCES),
            "the kernel does not allow it (kernel.perf_event_paranoid = 3)"
        );
        assert_eq!(of(libc::ENOENT), "the machine has no such counter");
        assert_eq!(of(libc::ENOSYS), "the kernel has no such call");
        let silent = PerfCounters::open(&host);
        assert_eq!(silent.since(), None);
        assert!(silent.facts().iter().all(|(_, how)| how.starts_with("n/a: the threads")));
    }

    #[test]
    fn a_counter_of_a_machine_that_has_it_counts_threads_that_come_later() {
        let mut counters = PerfCounters::open(&LinuxHost);
        counters.start();
        const BYTES: usize = 16 << 20;
        let worker = std::thread::spawn(|| black_box(vec![1_u8; BYTES]).len());
        assert_eq!(worker.join().unwrap(), BYTES);
        // Whether this machine lets us count is its affair; what it counts must hold the work.
        let Some(found) = counters.since() else { return };
        assert_eq!(counters.facts().len(), EVENTS.len());
        if let Some(instructions) = found.instructions {
            assert!(instructions > BYTES as u64 / 64, "{instructions}");
        }
        if let Some(faults) = found.page_faults {
            // Huge pages make them fewer.
            assert!(faults >= BYTES as u64 / (2 << 20), "{faults}");
        }
    }
}
