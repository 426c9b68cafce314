//! What is written down of a history, and what can be said of it.

use crate::random::Draw;

/// What a transaction is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// To append an element to the list of this key.
    Append(u64),
    /// To read the list of this key.
    Read(u64),
    /// To read the lists of all keys, by a scan.
    Scan,
}

/// What a transaction has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It has appended an element to the list of a key.
    Append {
        /// Of the list.
        key: u64,
        /// No other append has the same, of any key.
        element: u64,
    },
    /// It has read the list of a key; an empty one if there was none.
    Read {
        /// Of the list.
        key: u64,
        /// The list.
        elements: Vec<u64>,
    },
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its commit was acknowledged.
    Committed,
    /// It has certainly written nothing.
    Aborted,
    /// Nobody knows: there was a failure in its commit.
    Unknown,
}

/// A transaction of a history.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// In their order.
    pub events: Vec<Event>,
    /// How it ended.
    pub outcome: Outcome,
    /// When it began, by a counter that all threads share.
    pub begun: u64,
    /// When its commit returned, by the same counter. [`u64::MAX`] if it did not.
    pub ended: u64,
}

/// What a history has to satisfy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Snapshot isolation.
    Snapshot,
    /// Serializability in real time.
    Serializable,
}

/// The sorts of violations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A transaction does not read what it has read or written itself before.
    Internal,
    /// An element that nobody has appended was read, or one twice.
    Garbage,
    /// Something of an aborted transaction was read (G1a).
    AbortedRead,
    /// A part of what a transaction appends was read (G1b).
    IntermediateRead,
    /// Two lists of one key are not the beginning one of the other.
    IncompatibleOrder,
    /// A committed append is in no list, also not in one read by a transaction that began later:
    /// a lost update, or an acknowledged commit that was lost.
    LostWrite,
    /// G0.
    DirtyWrite,
    /// G1c.
    CircularFlow,
    /// G-single.
    ReadSkew,
    /// G-nonadjacent.
    LongFork,
    /// G2.
    WriteSkew,
}

/// Something that must not be in a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What it is.
    pub kind: Kind,
    /// The transactions, by their indexes; those of a cycle in its order.
    pub transactions: Vec<usize>,
    /// In words.
    pub what: String,
}

/// The steps of a random transaction over `keys` keys.
pub fn draw_steps(draw: &mut Draw, keys: u64) -> Vec<Step> {
    let step = |draw: &mut Draw| match draw.below(20) {
        0 => Step::Scan,
        1..10 => Step::Append(draw.below(keys)),
        _ => Step::Read(draw.below(keys)),
    };
    (0..1 + draw.below(5)).map(|_| step(draw)).collect()
}
