//! The arguments of a command, or the fields of a hash, in one piece of memory.

/// Byte strings one behind the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Args {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Args {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(crate) fn push(&mut self, arg: &[u8]) {
        self.bytes.extend_from_slice(arg);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of memory in use.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.ends.len() * size_of::<usize>()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.bytes[std::mem::replace(&mut start, end)..end])
    }

    pub(crate) fn slices(&self) -> Vec<&[u8]> {
        self.iter().collect()
    }
}
