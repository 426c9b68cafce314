//! What lies where: names for addresses, for accounts of the cache lines that operations touch.

/// A part of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub name: &'static str,
    /// The address of its first byte.
    pub address: usize,
    /// How long it is.
    pub bytes: usize,
}

impl Part {
    /// Where `value` lies.
    #[must_use]
    pub fn of<T>(name: &'static str, value: &T) -> Self {
        Part { name, address: std::ptr::from_ref(value).addr(), bytes: size_of::<T>() }
    }
}
