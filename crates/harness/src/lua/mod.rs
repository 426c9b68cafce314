//! Lua workloads: the machine, its verbs, and what scripts find in it.
//!
//! Hot paths (`kv` verbs, the unit call) are raw C functions over [`raw::Stack`]; everything cold
//! (constructors, tables, errors) is safe `mlua`. This is the crate's only unsafe code.

mod bridge;
mod kb;
mod kv;
mod objects;
mod raw;
mod sandbox;
mod setup;
mod vm;

pub(crate) use kb::check_fields;
pub(crate) use objects::{Counters, KeyObject, ValueObject};
pub(crate) use setup::{Ctx, Script, ScriptError, VmSetup};
pub use setup::{Print, Sandbox};
pub(crate) use vm::Vm;

/// The script machine that this build has.
pub const VM: &str = if cfg!(feature = "lua54") { "Lua 5.4" } else { "LuaJIT" };
