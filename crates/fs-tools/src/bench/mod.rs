//! The benchmark of DeltaFS: ranks create files, and ask for them.
//!
//! ```text
//!   ranks: processes of a job        threads: ranks in this process    mdtest: its phases, here
//!        |      plan, progress            |      in_process, walks          |
//!        v                                v                                 v
//!   target -- remote, write_behind     local <------------------------------'
//!        '----------> local, counter <----'
//! ```

mod counter;
mod in_process;
mod local;
mod mdtest;
mod names;
mod plan;
mod progress;
mod ranks;
mod remote;
mod target;
mod threads;
mod walks;
mod write_behind;

pub use in_process::InProcess;
pub use mdtest::Wishes;
pub use plan::Clients;
pub use ranks::measure_clients;
pub use threads::measure_in_process;
pub use write_behind::parse_create_behind;
