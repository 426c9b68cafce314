//! The decision of an atomic update whose closure returns the new value.

/// What the closure of an update decides, with the new value. Where the closure writes the value
/// into a buffer instead, it is an [`Update`](crate::Update).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<V> {
    /// Leave the key as it is.
    Keep,
    /// Store the value.
    Put(V),
    /// Remove the key.
    Remove,
}

impl<V> Change<V> {
    /// The same decision, with another form of the value.
    #[inline]
    pub fn map<U>(self, make: impl FnOnce(V) -> U) -> Change<U> {
        match self {
            Change::Keep => Change::Keep,
            Change::Put(value) => Change::Put(make(value)),
            Change::Remove => Change::Remove,
        }
    }
}
