//! A batch of writes in one growing buffer, so that a reused batch allocates nothing.

/// Bytes beside key and value that an engine's log takes for a write, at most: a kind, two lengths,
/// and the head of a row.
const OP_BYTES_MAX: usize = 24;

/// One write of a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchOp<'a> {
    /// Store the value under the key.
    Put(&'a [u8], &'a [u8]),
    /// Remove the key.
    Remove(&'a [u8]),
}

impl<'a> BatchOp<'a> {
    /// The key that is written.
    #[must_use]
    pub fn key(self) -> &'a [u8] {
        match self {
            BatchOp::Put(key, _) | BatchOp::Remove(key) => key,
        }
    }
}

/// Writes to be applied together by [`crate::Session::apply`], in the order in which they were
/// added. Layout: the bytes of all keys and values, one after another, and their end offsets.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    ops: Vec<Op>,
}

#[derive(Clone, Copy, Debug)]
struct Op {
    key_start: usize,
    value_start: usize,
    end: usize,
    put: bool,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a put.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.push(key, value, true);
    }

    /// Adds a removal.
    pub fn remove(&mut self, key: &[u8]) {
        self.push(key, &[], false);
    }

    fn push(&mut self, key: &[u8], value: &[u8], put: bool) {
        let key_start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let value_start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ops.push(Op { key_start, value_start, end: self.bytes.len(), put });
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ops.clear();
    }

    /// How many writes it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Bytes that a write of such a key and value takes in the log of an engine, at most.
    #[must_use]
    pub fn logged_bytes_of(key_bytes: usize, value_bytes: usize) -> usize {
        OP_BYTES_MAX.saturating_add(key_bytes).saturating_add(value_bytes)
    }

    /// Bytes that the batch takes in the log of an engine, at most: what
    /// [`crate::StoreInfo::batch_bytes_max`] is compared with.
    #[must_use]
    pub fn logged_bytes(&self) -> usize {
        self.bytes.len().saturating_add(OP_BYTES_MAX.saturating_mul(self.ops.len()))
    }

    /// Bytes of all keys and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The writes, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = BatchOp<'_>> {
        self.ops.iter().map(|op| {
            let key = &self.bytes[op.key_start..op.value_start];
            if op.put {
                BatchOp::Put(key, &self.bytes[op.value_start..op.end])
            } else {
                BatchOp::Remove(key)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_returns_what_was_added_in_order() {
        let mut batch = Batch::new();
        for _ in 0..2 {
            batch.clear();
            assert!(batch.is_empty());
            batch.put(b"k", b"value");
            batch.remove(b"");
            batch.put(b"", b"");
            let ops: Vec<_> = batch.iter().collect();
            assert_eq!(
                ops,
                [BatchOp::Put(b"k", b"value"), BatchOp::Remove(b""), BatchOp::Put(b"", b"")]
            );
            assert_eq!((batch.len(), batch.bytes()), (3, 6));
        }
    }
}
