//! Which server has which name.
//!
//! ```text
//!   (directory, name) --XXH3--> 64 bits --top 20--> virtual bucket --jump hash--> server
//! ```
//!
//! Buckets are a power of two, servers are any number. There are so many buckets that a server has
//! over 20,000 of them at 48 servers, so the fullest and the emptiest differ by some percent, where
//! partitions of GIGA+ put straight on servers differ by a factor of two when servers are not a
//! power of two. One more server takes its share from all others, and nothing else moves.
//!
//! A directory need not use all buckets from its first name on: [`SplitMap`] and [`Shard`] are the
//! way of GIGA+ (FAST 2011) from one partition to many, without anybody who knows all of it.
//!
//! **Invariant:** which server has a name follows from the directory's number, the name, and the
//! count of servers: no table is kept, and clients cannot be stale about it.

mod split;

pub use split::{Route, Shard, Split, SplitMap};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Virtual buckets are two to this power.
pub const BUCKET_BITS: u32 = 20;

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

    /// The server of a name with that hash.
    #[must_use]
    #[inline]
    pub fn server_of(&self, hash: u64) -> u32 {
        match self.servers {
            1 => 0,
            servers => jump(spread(hash >> (64 - BUCKET_BITS)), servers),
        }
    }
}

/// Makes far numbers of near ones: the finalizer of splitmix64.
fn spread(number: u64) -> u64 {
    let z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Jump consistent hash (Lamping and Veach, 2014): a key is followed over growing counts of
/// servers, and jumps to a new one with the probability that it should; O(log servers).
fn jump(key: u64, servers: u32) -> u32 {
    let mut key = key;
    let (mut at, mut next) = (0, 0_u64);
    while next < u64::from(servers) {
        at = next;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let draw = ((key >> 33) + 1) as f64 / (1_u64 << 31) as f64;
        next = ((at + 1) as f64 / draw) as u64;
    }
    at as u32
}

#[cfg(test)]
mod tests;
