//! The decision of an atomic update whose closure returns the new value.

/// What the closure of an atomic update decides, with the new value.
///
/// ```
/// use keyrack_concurrent::Change;
///
/// assert_eq!(Change::Put(7).map(|n| n.to_string()), Change::Put("7".to_owned()));
/// assert_eq!(Change::<u64>::Remove.map(|n| n.to_string()), Change::Remove);
/// ```
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
