//! Transactions: what several servers do to a name together, by two-phase commit. These are renames
//! of a file whose new name another server has, and renames, makes and removals of directories,
//! which all servers have.
//!
//! ```text
//!   coordinator                                    participants
//!   checks, locks the names, writes "begun"
//!                        -- prepare  -->           check, lock, write "prepared"
//!   a large file:        -- bytes    -->           keep them, not named yet
//!   writes "decided"                                                       <- the decision
//!   does its part        -- decision -->           do their parts; records and locks go
//!   record and locks go
//! ```
//!
//! A server that has locked a name answers all calls on it with "later", reads too. So nobody sees
//! a file under both names, or under none.
//!
//! A coordinator that starts again aborts what it finds begun, and finishes what it finds decided.
//! A participant that finds a transaction prepared locks the names, and asks the coordinator.
//!
//! Where something moves, the records and the parts of the participants are synced, if there is a
//! log: the servers are several machines, and one has given up what another must not lose.
//!
//! The server of the old name coordinates for a file. The first server does for directories, one
//! transaction after another, so that no two of them make a circle, and no directory is made in
//! one that is being removed.
//!
//! Presumed abort: a coordinator that knows nothing of a transaction has aborted it.

pub(crate) mod apply;
pub(crate) mod commit;
pub(crate) mod coordinator;
pub(crate) mod locks;
pub(crate) mod operations;
pub(crate) mod participant;
pub(crate) mod record;
pub(crate) mod recovery;
pub(crate) mod restore;
pub(crate) mod table;
