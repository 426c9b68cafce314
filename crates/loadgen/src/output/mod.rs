//! Renderings of a [`crate::account::Report`]: pure functions from figures to text.
//!
//! **Invariant:** every number is finite. What does not exist is 0 in a table, whose readers count
//! columns, and `null` in JSON.

mod hgrm;
mod json;
mod series;
mod table;

pub use hgrm::hgrm;
pub use json::json;
pub use series::csv;
pub use table::{Columns, row, scan_header, scan_row, table};
