//! A request, as the encoders of all protocols take it.

use keyrack_wire::outcome::Kind;

/// Several keys, one behind the other.
#[derive(Debug, Default, Clone)]
pub struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    /// Forgets all keys, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Appends a key.
    pub fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Are there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The keys, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(self.ends.iter()).map(|(start, end)| &self.bytes[start..*end])
    }
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The command.
    pub kind: Kind,
    /// Its key; of several keys the first.
    pub key: &'a [u8],
    /// All keys of [`Kind::Mget`].
    pub keys: Option<&'a Keys>,
    /// What is written.
    pub value: &'a [u8],
    /// Seconds to live; 0 is for ever.
    pub ttl_s: u32,
    /// The token of [`Kind::Cas`], or the amount of arithmetic.
    pub number: u64,
    /// Comes back with a binary reply.
    pub opaque: u32,
    /// Redis alone: the last bytes of longer keys are a field of a hash named by the rest.
    pub assoc: Option<usize>,
}

impl<'a> Request<'a> {
    /// A request of one key.
    #[must_use]
    pub fn new(kind: Kind, key: &'a [u8], value: &'a [u8]) -> Request<'a> {
        Request { kind, key, keys: None, value, ttl_s: 0, number: 0, opaque: 0, assoc: None }
    }
}
