//! Workloads: what a file or a name asks for, and one worker's share of it.
//!
//! ```text
//!   source text --Workload::open--> Workload     name, sweep, what load and run are
//!   Workload + cell --Prepared::new--> Prepared  counters shared by the workers of one measurement
//!   Prepared + thread --Prepared::task--> Task   a Lua machine, or a native mix; calls unit(iter)
//!                                                or a sequence of jobs, which runs once,
//!                                                or the operations of a trace
//! ```

mod job;
mod mix;
mod open;
mod phases;
mod playback;
mod prepared;
mod script;
mod share;
mod workload;

pub(crate) use job::{JobContext, JobTask};
pub(crate) use mix::MixTask;
pub(crate) use open::open_script;
pub(crate) use phases::{PhasePlan, RoleIndex, RolePlan};
pub(crate) use playback::{Differences, Offsets, Playback, PlaybackTask, share_of};
pub(crate) use prepared::{MakeVerbs, Prepared, Task};
pub(crate) use share::WorkerShare;
pub use workload::{Sweep, Workload};

use crate::lua::{Print, Sandbox};
use crate::params::Params;
use keyrack_measure::Clock;
use keyrack_store::unknown;

/// What every machine of a run shares.
#[derive(Clone, Debug)]
pub(crate) struct ScriptEnv {
    pub(crate) sandbox: Sandbox,
    pub(crate) params: Params,
    pub(crate) print: Option<Print>,
    pub(crate) clock: Clock,
    pub(crate) seed: u64,
}

/// The message for a name that is neither a file nor a native workload.
pub(crate) fn unknown_workload(source: &str) -> String {
    let mixes = keyrack_workload::native_names().iter().map(|(name, _)| *name);
    let names: Vec<&str> = mixes.chain(job_names()).collect();
    unknown("workload", source, &names)
}

fn job_names() -> Vec<&'static str> {
    keyrack_workload::jobs().map(|job| job.name).collect()
}
