//! Short forms of what the contract asks of an engine: its callbacks by name, and its options.

use keyrack_store::{EngineOption, Update};
use std::ops::ControlFlow;

/// Gets a key and its value, and decides whether the scan goes on.
pub(crate) type RowVisitor<'v> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'v;

/// Gets the index of a key and its value, where there is one.
pub(crate) type ValueVisitor<'v> = dyn FnMut(usize, Option<&[u8]>) + 'v;

/// What [`keyrack_store::Session::update`] asks.
pub(crate) type Decide<'d> = dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> Update + 'd;

/// A row of an engine's options.
pub(crate) const fn option(
    key: &'static str,
    default: &'static str,
    about: &'static str,
) -> EngineOption {
    EngineOption { key, default, about }
}
