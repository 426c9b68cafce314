//! The server: sessions, leases and partitions, and the handlers of requests.

pub(super) mod background;
pub(super) mod call;
pub(super) mod core;
pub(super) mod dispatch;
pub(super) mod identity;
pub(super) mod leases;
pub(super) mod pages;
pub(super) mod parts;
pub(super) mod peers;
pub(super) mod replica;
pub(super) mod service;
pub(super) mod session;
pub(super) mod split;
