//! The handlers of requests, one file for each family of operations.
//!
//! A handler finds the open directory, and keeps its partition locked while it uses a name, so that
//! the name stays on this server. Then it calls the name space, and appends the fields of the
//! reply.

pub(super) mod attributes;
pub(super) mod bulk;
pub(super) mod contents;
pub(super) mod context;
pub(super) mod create;
pub(super) mod directories;
pub(super) mod listing;
pub(super) mod names;
pub(super) mod operations;
pub(super) mod peers;
