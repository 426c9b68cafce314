//! # keyrack-live: a run that goes on, drawn on a terminal
//!
//! ```text
//!   what is known of the run --> View --draw--> cells --Ansi--> terminal
//!                                                 |
//!                                      Screen: takes the terminal, gives it back
//! ```
//!
//! A [`View`] is data: who follows a run puts a second into it when one is over. [`draw`] lays it
//! out in whatever room there is. A [`Screen`] has taken the terminal over, on standard error, and
//! gives it back when it is dropped, when a thread panics, and before a signal ends the process.
//!
//! **Invariant:** nothing here counts, or looks at a clock: figures come in as they are shown.
#![forbid(unsafe_code)]

mod ansi;
mod draw;
mod screen;
mod units;
mod view;

pub use draw::draw;
pub use screen::{Screen, is_up, keep, restore};
pub use view::{Operation, Second, View};
