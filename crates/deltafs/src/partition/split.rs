//! A directory that grows from one partition to many, after GIGA+ (FAST 2011).
//!
//! ```text
//!   partition 0, depth 0                    all hashes
//!      | splits
//!   0, depth 1    1, depth 1                lowest bit 0, lowest bit 1
//!      |              | splits
//!   0, depth 1    1, depth 2    3, depth 2  0; 01; 11
//! ```
//!
//! Partition `i` of depth `d` has the hashes whose lowest `d` bits are `i`; when it splits it gives
//! those with the next bit set to partition `i + 2^d`. A [`SplitMap`] is the set of partitions that
//! somebody has heard of. It may be old: then it leads to a partition that was there once, whose
//! [`Shard`] knows that the name went on, and its server answers with its own map. Each such answer
//! leads at least one partition deeper, so a client arrives after at most `DEPTH_MAX` of them,
//! however old its map is. Maps only grow, so they are merged by union, in any order.
//!
//! Where we differ: splitting has two steps, so that the half that moves has one owner at every
//! moment. From `begin` on it can be read where it was, and cannot be written; `commit`, after
//! the other side has it on disk, gives it away; `abort` goes back.

/// Partitions are at most two to this power.
pub(crate) const DEPTH_MAX: u32 = 14;

/// The partitions of a directory that somebody has heard of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitMap {
    /// A bit for each partition; the first is always set.
    bits: Vec<u64>,
}

impl Default for SplitMap {
    fn default() -> Self {
        SplitMap { bits: vec![1] }
    }
}

impl SplitMap {
    /// One partition.
    #[must_use]
    pub fn new() -> SplitMap {
        SplitMap::default()
    }

    /// All partitions of a depth.
    #[must_use]
    pub fn full(depth: u32) -> SplitMap {
        let mut map = SplitMap::new();
        (0..1 << depth.min(DEPTH_MAX)).for_each(|partition| {
            map.add(partition);
        });
        map
    }

    /// The partitions, the lowest first.
    pub fn partitions(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.bits.len() as u32 * 64).filter(|at| self.has(*at))
    }

    /// Whether the partition has been heard of.
    #[must_use]
    pub fn has(&self, partition: u32) -> bool {
        let word = self.bits.get(partition as usize / 64).copied().unwrap_or(0);
        word >> (partition % 64) & 1 == 1
    }

    /// Adds a partition, and the ones that it comes from. `false` if it cannot be one.
    pub fn add(&mut self, partition: u32) -> bool {
        if partition >= 1 << DEPTH_MAX {
            return false;
        }
        let mut at = partition;
        while !self.has(at) {
            let word = at as usize / 64;
            if self.bits.len() <= word {
                self.bits.resize(word + 1, 0);
            }
            self.bits[word] |= 1 << (at % 64);
            at = parent(at);
        }
        true
    }

    /// Adds what another has heard of.
    pub fn merge(&mut self, other: &SplitMap) {
        if self.bits.len() < other.bits.len() {
            self.bits.resize(other.bits.len(), 0);
        }
        for (bits, more) in self.bits.iter_mut().zip(&other.bits) {
            *bits |= more;
        }
    }

    /// The partition that a hash is in, as far as this map knows.
    #[must_use]
    pub fn partition_of(&self, hash: u64) -> u32 {
        let mut at = (hash & ((1 << DEPTH_MAX) - 1)) as u32;
        while !self.has(at) {
            at = parent(at);
        }
        at
    }

    /// How many partitions.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.bits.iter().map(|word| word.count_ones()).sum()
    }

    /// For a message: whole words of the bitmap, little-endian, the lowest first.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bits.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// From a message. `None` if it is no map: too long, or with a partition that comes from none.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<SplitMap> {
        let (words, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() || words.is_empty() || words.len() > (1 << DEPTH_MAX) / 64 {
            return None;
        }
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        if words[0] & 1 == 0 {
            return None;
        }
        let map = SplitMap { bits: words };
        let all = 0..(map.bits.len() as u32 * 64);
        all.filter(|at| map.has(*at)).all(|at| map.has(parent(at))).then_some(map)
    }
}

/// Whether partitions, by number and depth, have every hash between them.
#[must_use]
pub fn is_whole(shards: &[(u32, u8)]) -> bool {
    fn covers(shards: &[(u32, u8)], number: u32, depth: u8) -> bool {
        shards.contains(&(number, depth))
            || (u32::from(depth) < DEPTH_MAX
                && shards.iter().any(|shard| shard.1 > depth && matches(shard.0, number, depth))
                && covers(shards, number, depth + 1)
                && covers(shards, number | 1 << depth, depth + 1))
    }
    fn matches(shard: u32, number: u32, depth: u8) -> bool {
        shard & ((1 << depth) - 1) == number
    }
    covers(shards, 0, 0)
}

/// Where a partition comes from: without its highest bit.
fn parent(partition: u32) -> u32 {
    match partition {
        0 => 0,
        _ => partition & !(1 << (31 - partition.leading_zeros())),
    }
}

/// Where a name belongs, as one partition sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Here.
    Here,
    /// Here for reads; writes come again when the split is over.
    Moving,
    /// Not here: the sender's map is old.
    Elsewhere,
}

/// What a split does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The partition that splits.
    pub from: u32,
    /// The new one.
    pub to: u32,
    /// The depth of both afterwards.
    pub depth: u32,
}

impl Split {
    /// Whether it is one that a partition can do.
    #[must_use]
    pub fn is_sane(&self) -> bool {
        (1..=DEPTH_MAX).contains(&self.depth)
            && self.from < 1 << (self.depth - 1)
            && self.to == self.from | 1 << (self.depth - 1)
    }

    /// Whether the name with that hash is in the partition that splits, and goes to the new one.
    #[must_use]
    pub fn takes(&self, hash: u64) -> bool {
        hash & ((1 << self.depth) - 1) == u64::from(self.to)
    }

    /// Whether the name with that hash goes to the new partition.
    #[must_use]
    pub fn moves(&self, hash: u64) -> bool {
        hash >> (self.depth - 1) & 1 == 1
    }
}

/// One partition, where it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    number: u32,
    depth: u32,
    is_splitting: bool,
}

impl Shard {
    /// The first partition of a directory.
    #[must_use]
    pub fn first() -> Shard {
        Shard { number: 0, depth: 0, is_splitting: false }
    }

    /// The partition that a split made.
    #[must_use]
    pub fn made_by(split: &Split) -> Shard {
        Shard { number: split.to, depth: split.depth, is_splitting: false }
    }

    /// As it was written down. `None` if there is no such partition.
    #[must_use]
    pub fn restore(number: u32, depth: u32, is_splitting: bool) -> Option<Shard> {
        let is_sane = depth <= DEPTH_MAX && number < 1 << depth;
        is_sane.then_some(Shard { number, depth, is_splitting })
    }

    /// How many bits of a hash it has.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// The split that is under way.
    #[must_use]
    pub fn splitting(&self) -> Option<Split> {
        let depth = self.depth + 1;
        let split = Split { from: self.number, to: self.number | 1 << self.depth, depth };
        self.is_splitting.then_some(split)
    }

    /// Which one.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Where a name with that hash belongs.
    #[must_use]
    pub fn route(&self, hash: u64) -> Route {
        let mask = (1_u64 << self.depth) - 1;
        if hash & mask != u64::from(self.number) {
            return Route::Elsewhere;
        }
        if self.is_splitting && hash >> self.depth & 1 == 1 { Route::Moving } else { Route::Here }
    }

    /// Begins to split. `None` while it does already, and at the greatest depth.
    pub fn begin(&mut self) -> Option<Split> {
        if self.is_splitting || self.depth >= DEPTH_MAX {
            return None;
        }
        self.is_splitting = true;
        let to = self.number | 1 << self.depth;
        Some(Split { from: self.number, to, depth: self.depth + 1 })
    }

    /// The other side has its half: from here on it is not here. Coming twice changes nothing.
    /// `false` if this is not the split that was begun.
    pub fn commit(&mut self, split: &Split) -> bool {
        let is_ours = split.from == self.number;
        if is_ours && self.is_splitting && split.depth == self.depth + 1 {
            self.depth = split.depth;
            self.is_splitting = false;
            return true;
        }
        is_ours && split.depth <= self.depth
    }

    /// The other side does not have it, and will not: all is as before.
    pub fn abort(&mut self) {
        self.is_splitting = false;
    }
}
