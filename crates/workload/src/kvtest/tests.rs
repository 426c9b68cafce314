//! The jobs over a map: what they do, against recorded facts; that they end; and that a map which
//! lies is found out.

mod facts;
pub(crate) mod fake;
mod lies;
mod runs;
