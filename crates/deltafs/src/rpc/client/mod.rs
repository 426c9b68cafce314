//! The client: connections to servers, and a tree of paths on top of them.

pub(super) mod bulk;
pub(super) mod connection;
pub(super) mod directories;
pub(super) mod files;
pub(super) mod listing;
pub(super) mod network;
pub(super) mod open;
pub(super) mod rename;
pub(super) mod tree;
pub(super) mod wire;
pub(super) mod write_behind;
