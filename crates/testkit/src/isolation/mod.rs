//! A checker of isolation: a history of transactions over lists, and the cycles in it.
//!
//! ```text
//!   T1: append x 1, commit            x = [1, 2]: the lists that were read tell the order of the
//!   T2: read x [1], append x 2        writes, and which write each read has seen
//!   T3: read x [1], read y [7]
//!
//!   T1 --ww--> T2   T1 --wr--> T2     written over, read
//!   T3 --rw--> T2                     T3 has read what T2 has written over
//! ```
//!
//! The idea is that of Elle (Kingsbury and Alvaro, VLDB 2020, sections 3 and 4): each transaction
//! appends elements that nobody else appends, so a list shows its whole past. An edge says that one
//! transaction comes before another one in any serial order. A cycle is an anomaly, and its edges
//! say which (Adya, MIT 1999). Transactions that did not overlap have an edge as well, `rt`.
//!
//! | cycle of | name | forbidden by |
//! |---|---|---|
//! | `ww` and `rt` | dirty write, G0 | both levels |
//! | these and `wr` | circular information flow, G1c | both |
//! | these and one `rw` | read skew, lost update, G-single | both |
//! | these, and `rw` that do not follow each other | long fork, G-nonadjacent | both |
//! | any | write skew, phantom, G2 | serializable |
//!
//! An append that no read has shown has no place in the order, and no edge. So a committed append
//! must be in the lists of its key, once a transaction that began later has read that key: the last
//! transaction of a history should read everything.
//!
//! A scan is a read of every key that it might have shown, so a phantom is a read of an empty list.
//! Not there from Elle: registers and sets as values, and orders within a session.

mod check;
mod graph;
mod history;
mod lists;
mod model;

pub use check::check;
pub use history::{Event, Kind, Level, Outcome, Step, Transaction, Violation, draw_steps};
pub use model::{Bug, run_model};
