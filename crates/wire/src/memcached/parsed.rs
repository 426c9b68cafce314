//! What comes of trying to read a message from the front of a buffer.

/// A message, or how much more of it there must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<T> {
    /// The message, and the bytes of the buffer that it took: at least one.
    Complete(T, usize),
    /// The message is not all there. The buffer must hold at least this many bytes, counted from
    /// its front, before another try can tell more: always more than it holds now, and never more
    /// than the limits let a message have.
    Incomplete(usize),
}

impl<T> Parsed<T> {
    /// The same with another message.
    #[inline]
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Parsed<U> {
        match self {
            Parsed::Complete(message, bytes) => Parsed::Complete(change(message), bytes),
            Parsed::Incomplete(bytes) => Parsed::Incomplete(bytes),
        }
    }
}
