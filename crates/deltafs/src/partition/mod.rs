//! Which server has which name.
//!
//! ```text
//!   (directory, name) --XXH3--> 64 bits --the directory's map--> partition --home--> server
//! ```
//!
//! A directory begins with one partition, at a server that follows from its number, and splits as
//! it grows, the way of GIGA+ (FAST 2011): [`SplitMap`] and [`Shard`], without anybody who knows
//! all of it. Its partitions lie on the servers in turn. They are a power of two in the end, and
//! servers are any number: so where servers are not a power of two there are at least 16 for each,
//! and the fullest and the emptiest differ by some percent, where as many partitions as servers
//! would differ by a factor of two. Then a directory has its final shape, and splits no more.
//!
//! **Invariant:** where a partition is follows from the directory's number, the partition's, and
//! the count of servers. What clients can be stale about is only how far a directory has split.

mod split;

pub(crate) use split::DEPTH_MAX;
pub use split::{Route, Shard, Split, SplitMap, is_whole};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The hash of a name in the directory with that number.
#[must_use]
#[inline]
pub fn hash_name(dir: u128, name: &[u8]) -> u64 {
    xxh3_64_with_seed(name, (dir >> 64) as u64 ^ dir as u64)
}

/// Names over servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    servers: u32,
}

impl Placement {
    /// Over so many servers; none is taken for one.
    #[must_use]
    pub fn new(servers: u32) -> Placement {
        Placement { servers: servers.max(1) }
    }

    /// How many servers.
    #[must_use]
    pub fn servers(&self) -> u32 {
        self.servers
    }

    /// The server of a partition of the directory with that number.
    #[must_use]
    #[inline]
    pub fn home(&self, dir: u128, partition: u32) -> u32 {
        let first = spread((dir >> 64) as u64 ^ dir as u64) % u64::from(self.servers);
        ((first + u64::from(partition)) % u64::from(self.servers)) as u32
    }

    /// The depth at which partitions split no more.
    #[must_use]
    pub fn depth_max(&self) -> u32 {
        let wanted = if self.servers.is_power_of_two() {
            self.servers
        } else {
            self.servers.saturating_mul(16)
        };
        wanted.next_power_of_two().trailing_zeros().min(DEPTH_MAX)
    }
}

/// Makes far numbers of near ones: the finalizer of splitmix64.
fn spread(number: u64) -> u64 {
    let z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
