//! Transactions that several servers take part in, by two-phase commit.

pub(super) mod apply;
pub(super) mod coordinator;
pub(super) mod participant;
pub(super) mod record;
pub(super) mod recovery;
pub(super) mod table;
