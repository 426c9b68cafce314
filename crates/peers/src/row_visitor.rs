//! The callback that gets the rows of a scan.

use std::ops::ControlFlow;

/// Gets a key and its value, and decides whether the scan goes on.
pub(crate) type RowVisitor<'v> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'v;
