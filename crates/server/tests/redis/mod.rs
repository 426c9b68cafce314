//! Redis' commands, without sockets, on rows in memory.

mod compare;
mod concurrency;
mod kinds;
mod large;
mod limits;
mod memory;
mod pipelines;
mod scripts;
mod slow;
mod told;
mod tool;
