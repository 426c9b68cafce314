//! One operation of a trace, in a buffer that is used again for the next.

/// What was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Verb {
    /// Look one key up.
    #[default]
    Get = 0,
    /// Store one key.
    Put = 1,
    /// Store one key so that it survives a power loss.
    PutSynced = 2,
    /// Remove one key.
    Del = 3,
    /// Read, modify and write one key.
    Rmw = 4,
    /// Visit rows upwards.
    Range = 5,
    /// Visit rows downwards.
    RangeDown = 6,
    /// Look a batch of keys up.
    Mget = 7,
    /// Apply a batch that began as one of puts.
    Mput = 8,
    /// Apply a batch that began as one of removals.
    Mdel = 9,
}

impl Verb {
    /// All of them, by their number.
    pub const ALL: [Verb; 10] = [
        Verb::Get,
        Verb::Put,
        Verb::PutSynced,
        Verb::Del,
        Verb::Rmw,
        Verb::Range,
        Verb::RangeDown,
        Verb::Mget,
        Verb::Mput,
        Verb::Mdel,
    ];

    /// Whether a record has any number of keys.
    pub(crate) fn is_batch(self) -> bool {
        matches!(self, Verb::Mget | Verb::Mput | Verb::Mdel)
    }

    /// Whether it visits rows.
    #[must_use]
    pub fn is_range(self) -> bool {
        matches!(self, Verb::Range | Verb::RangeDown)
    }

    /// Whether each key comes with what is written.
    pub(crate) fn writes(self) -> bool {
        matches!(self, Verb::Put | Verb::PutSynced | Verb::Rmw | Verb::Mput | Verb::Mdel)
    }
}

/// What came of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Result {
    /// It is not known, or there is nothing to say but that it was done.
    #[default]
    Done = 0,
    /// The key was there; of a batch of lookups, all were.
    Hit = 1,
    /// The key was not there; of a batch of lookups, at least one was not.
    Miss = 2,
    /// The store failed the call.
    Failed = 3,
}

impl Result {
    /// All of them, by their number.
    pub const ALL: [Result; 4] = [Result::Done, Result::Hit, Result::Miss, Result::Failed];
}

/// When in a measurement an operation was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Phase {
    /// The store was filled.
    Load = 0,
    /// Before the timed part: the set-up of scripts, and the warm-up.
    Warmup = 1,
    /// The timed part.
    Run = 2,
}

impl Phase {
    /// All of them, by their number.
    pub const ALL: [Phase; 3] = [Phase::Load, Phase::Warmup, Phase::Run];
}

/// What is done to a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Write {
    /// Nothing.
    #[default]
    Nothing,
    /// It is removed.
    Remove,
    /// It gets a value of so many bytes.
    Put(u32),
}

/// A key of a record with what is done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// What is done to it.
    pub write: Write,
}

/// An operation.
///
/// Ranges have the lower bound as their first entry and the upper one, which does not belong to the
/// range, as their second; without a second there is no upper bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// When it began, in nanoseconds since the trace began.
    pub at_ns: u64,
    /// What it was.
    pub verb: Verb,
    /// What came of it.
    pub result: Result,
    /// The number of the space of keys; 0 is the one that every store has.
    pub space: u32,
    /// Bytes of values that a lookup found.
    pub value_bytes: u64,
    /// Rows that a range may visit at most; 0 is no limit.
    pub limit: u64,
    /// Rows that a range visited.
    pub rows: u64,
    bytes: Vec<u8>,
    ends: Vec<(usize, Write)>,
}

impl Record {
    /// Makes it one without keys, of `verb` at `at_ns`.
    pub fn clear(&mut self, verb: Verb, at_ns: u64) {
        (self.verb, self.at_ns) = (verb, at_ns);
        (self.result, self.space) = (Result::Done, 0);
        (self.value_bytes, self.limit, self.rows) = (0, 0, 0);
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds a key.
    pub fn push(&mut self, key: &[u8], write: Write) {
        self.bytes.extend_from_slice(key);
        self.ends.push((self.bytes.len(), write));
    }

    /// Adds a key that begins with the first `shared` bytes of `before` and goes on with `rest`.
    pub(crate) fn push_parts(&mut self, shared: &[u8], rest: &[u8], write: Write) {
        self.bytes.extend_from_slice(shared);
        self.push(rest, write);
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// A key and what is done to it; nothing behind the last one.
    #[must_use]
    pub fn entry(&self, index: usize) -> Option<Entry<'_>> {
        let &(end, write) = self.ends.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1].0 };
        Some(Entry { key: &self.bytes[start..end], write })
    }

    /// The keys in their order.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        (0..self.ends.len()).filter_map(|index| self.entry(index))
    }

    /// The first key; empty where there is none.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.entry(0).map_or(&[], |entry| entry.key)
    }

    /// Primitive operations: the keys of a batch, else one.
    #[must_use]
    pub fn operations(&self) -> u64 {
        if self.verb.is_batch() { self.ends.len() as u64 } else { 1 }
    }
}
