//! # keyrack-harness: `keyrack bench`
//!
//! Drives workloads over stores and writes down what happened. A workload is a Lua script, a
//! declarative mix, a native one, or a job, which each thread runs once; all go through the same
//! verbs, clocks and records.
//!
//! ```text
//!   settings --Plan::new--> plan --bench::run--> record, sinks
//!                             |
//!      grid: cells in order --+-- stage: a fresh store for each
//!                             +-- measurement: load, then run, on worker threads
//!                                    +-- worker: barrier, warm-up, closed or open loop
//!                                          +-- program: a Lua machine, a mix, or jobs
//!                                                +-- verbs: timed calls of the session
//! ```
//!
//! **Invariant:** nothing here names an engine. Engines come in a [`keyrack_store::Registry`].
//! **Invariant:** nothing here prints. Results go to sinks, talk goes to an [`Observer`].
//! **Invariant:** between the start tick and the last worker's end, the harness holds no lock that
//! a worker needs, allocates nothing per operation in verbs, and starts no machine.
//!
//! What the original measures, and where this differs, is in `docs/guide/original-names.md`.

mod bench;
mod config;
mod config_toml;
mod drop_caches;
#[cfg(test)]
mod fuzz;
mod grid;
mod interrupt;
mod live;
mod lua;
mod measurement;
mod mem_limit;
mod notebook_file;
mod observer;
mod outputs;
mod overhead;
mod params;
mod pin;
mod plan;
mod planned_engine;
pub mod probe;
mod program;
mod quiesce;
mod recording;
mod replay;
mod rows;
mod search;
mod seconds;
mod settings;
pub mod sink;
mod stage;
mod stop;
mod surroundings;
mod timed_phase;
mod verbs;
mod verify;
mod worker;
mod worker_message;

pub use bench::run;
pub use live::Kind;
pub use lua::{Print, Sandbox, VM};
pub use mem_limit::MemLimit;
pub use notebook_file::NotebookFile;
pub use observer::{At, Event, Observer, Silent};
pub use outputs::Outputs;
pub use overhead::{Overhead, measure as measure_overhead};
pub use params::Params;
pub use pin::Pin;
pub use plan::{PROBES, Plan};
pub use planned_engine::PlannedEngine;
pub use program::{Sweep, Workload};
pub use replay::{apply_config, render as render_replay};
pub use seconds::{OpSecond, Second};
pub use settings::{
    Bound, Form, Goal, KEYS, Key, MeasurementOrder, Override, ProgressMode, Settings,
};
pub use stop::Stop;
pub use surroundings::{Facts, Refusal, Surroundings};
pub use verify::Verify;
