//! What a run tells the program around it while it goes on. The harness prints nothing itself.

use crate::seconds::Second;
use keyrack_store::Store;

/// Something that a person watching would like to know.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// The load of a store begins.
    Seeding {
        /// Which cell.
        at: At<'a>,
        /// Threads that load.
        threads: u32,
    },
    /// The load goes on; once a second.
    SeedTick {
        /// Which cell.
        at: At<'a>,
        /// Seconds since it began.
        elapsed_s: f64,
        /// Primitive operations so far.
        keys: u64,
        /// Primitive operations a second over the last second.
        keys_per_s: f64,
        /// Primitive operations in all, where the workload says.
        total: Option<u64>,
    },
    /// The load is done.
    Seeded {
        /// Which cell.
        at: At<'a>,
        /// Seconds it took.
        elapsed_s: f64,
        /// Primitive operations.
        keys: u64,
    },
    /// The timed phase begins.
    Running {
        /// Which cell.
        at: At<'a>,
        /// Which repeat, from 1.
        repeat: u32,
        /// Of how many.
        repeats: u32,
    },
    /// The timed phase goes on; once a second.
    Tick {
        /// Which cell.
        at: At<'a>,
        /// Seconds since it began.
        elapsed_s: f64,
        /// Seconds that it will last, in clock mode.
        budget_s: Option<f64>,
        /// Units so far.
        units: u64,
        /// Units in all, in count mode.
        total: Option<u64>,
        /// Units a second over the last second.
        units_per_s: f64,
    },
    /// A job says how far it is.
    Notice {
        /// Which cell.
        at: At<'a>,
        /// Which worker.
        thread: u32,
        /// The line.
        text: &'a str,
    },
    /// A measurement is over.
    Finished,
    /// A line for the user.
    Note(&'a str),
}

/// The cell that an event is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct At<'a> {
    /// The workload's name.
    pub workload: &'a str,
    /// The engine, with its version.
    pub engine: &'a str,
    /// The phase that the workload declares, where one is running.
    pub phase: Option<&'a str>,
    /// Worker threads.
    pub threads: u32,
    /// The swept parameter, where there is one.
    pub sweep: Option<(&'a str, i64)>,
    /// The offered rate, where there is one.
    pub rate: Option<f64>,
}

/// A receiver of events. Called between measurements and about once a second within.
pub trait Observer {
    /// Takes note of `event`.
    fn event(&mut self, event: &Event<'_>);

    /// A measurement begins, the `number`th from 1 of the `count` of its workload.
    fn step(&mut self, number: usize, count: usize) {
        let _ = (number, count);
    }

    /// Whether [`Observer::second`] is to be called, which costs some time of the leading thread.
    fn wants_seconds(&self) -> bool {
        false
    }

    /// About a second of a phase is over, or its last part.
    fn second(&mut self, at: &At<'_>, second: &Second) {
        let _ = (at, second);
    }

    /// A store has been opened, and nothing has been written to it since.
    fn opened(&mut self, store: &dyn Store) {
        let _ = store;
    }

    /// A measurement has ended without a failure; the store is as its last worker left it, and no
    /// worker uses it any more.
    fn measured(&mut self, store: &dyn Store) {
        let _ = store;
    }
}

/// Takes note of nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _event: &Event<'_>) {}
}
