//! `torture run`: writes until it is done, or killed.

use super::acks::{Acks, Log};
use super::script::{KEYS, name, value};
use super::subject::{Engine, Subject};
use crate::db::args::number;
use clap::ArgMatches;
use keyrack_console::{Failure, Outcome, say};
use keyrack_testkit::random::Draw;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What the writing threads share.
struct Shared<'a> {
    store: &'a dyn Subject,
    log: &'a Log,
    stop: &'a AtomicBool,
    /// Writes that nobody has begun.
    left: AtomicU64,
    acknowledged: AtomicU64,
    verbose: bool,
}

pub(super) fn run(engine: Engine, dir: &Path, ackfile: &Path, matches: &ArgMatches) -> Outcome {
    let writes = number(matches, "writes")?.unwrap_or_default();
    let seed = number(matches, "seed")?.unwrap_or(1);
    let threads = number(matches, "threads")?.unwrap_or(1);
    if threads == 0 || threads > u64::from(KEYS) {
        return Err(Failure::Usage(format!("--threads: from 1 to {KEYS}, not {threads}")));
    }
    let (acks, log) = Acks::open(ackfile)?;
    // A run that goes on with a store of an earlier one takes another course.
    let course = seed ^ acks.lines << 20;
    let draws = Draw::new(course).next();
    say!("torture: seed {seed}, {writes} writes by {threads} thread(s), {} before", acks.lines);
    let stop = keyrack_console::flag()?;
    let store = engine.open(dir, draws)?;
    let shared = Shared {
        store: &*store,
        log: &log,
        stop: &stop,
        left: AtomicU64::new(writes),
        acknowledged: AtomicU64::new(0),
        verbose: matches.get_flag("verbose"),
    };
    let outcomes: Vec<Result<(), Failure>> = std::thread::scope(|scope| {
        let start = |thread: u64| {
            let (shared, versions) = (&shared, acks.versions.clone());
            let course = Draw::new(course.wrapping_add(1 + thread));
            scope.spawn(move || shared.write(thread as u32, threads as u32, versions, course))
        };
        let workers: Vec<_> = (0..threads).map(start).collect();
        let failed = |_| Err(Failure::Failed("a writing thread has panicked".to_owned()));
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(failed)).collect()
    });
    outcomes.into_iter().collect::<Result<(), Failure>>()?;
    let done = shared.acknowledged.into_inner();
    store.close()?;
    Ok(keyrack_console::print(&format!("{done} writes acknowledged\n")))
}

impl Shared<'_> {
    /// Writes the keys of one thread, in an order that `course` draws. `versions` are those that
    /// were acknowledged before; nobody else writes these keys.
    fn write(
        &self,
        thread: u32,
        threads: u32,
        mut versions: Vec<u64>,
        mut course: Draw,
    ) -> Result<(), Failure> {
        let own = (KEYS - thread).div_ceil(threads);
        let mut writer = self.store.writer()?;
        while self.take_one() {
            keyrack_console::check(self.stop)?;
            let key = thread + course.below(own) * threads;
            let version = versions[key as usize] + 1;
            let name = name(key);
            match value(key, version) {
                Some(value) => writer.put(name.as_bytes(), &value)?,
                None => writer.remove(name.as_bytes())?,
            }
            self.log.note(key, version)?;
            versions[key as usize] = version;
            let done = self.acknowledged.fetch_add(1, Ordering::Relaxed) + 1;
            if self.verbose {
                say!("acknowledged {done}");
            }
        }
        Ok(())
    }

    fn take_one(&self) -> bool {
        let less = |left: u64| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}
