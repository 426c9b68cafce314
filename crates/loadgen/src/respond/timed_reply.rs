//! A reply that leaves at a given time.

/// What happens when a reply was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterSend {
    Nothing,
    Close,
    Reset,
}

/// Bytes that leave together, and when.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TimedReply {
    pub(super) due_ns: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) after: AfterSend,
}

impl TimedReply {
    pub(super) fn now(bytes: Vec<u8>) -> TimedReply {
        TimedReply::at(0, bytes)
    }

    pub(super) fn at(due_ns: u64, bytes: Vec<u8>) -> TimedReply {
        TimedReply { due_ns, bytes, after: AfterSend::Nothing }
    }
}
