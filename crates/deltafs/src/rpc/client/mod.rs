//! The client: connections to servers, and a tree of paths on top of them.

pub(crate) mod backoff;
pub(crate) mod bulk;
pub(crate) mod connection;
pub(crate) mod directories;
pub(crate) mod directory;
pub(crate) mod files;
pub(crate) mod links;
pub(crate) mod listing;
pub(crate) mod network;
pub(crate) mod open;
pub(crate) mod rename;
pub(crate) mod replies;
pub(crate) mod tree;
pub(crate) mod wire;
pub(crate) mod write_behind;
