//! Which user keys a table does not have: a Bloom filter in which a key touches one cache line.
//!
//! ```text
//!   hash: u64 --- high bits x lines ----> line: 512 bits
//!          \---- mixed, 9 bits at a time -> `probes` bits of that line
//! ```
//!
//! A lookup is one memory access, where a classic filter makes one for each probe. The price is a
//! few false positives more, because some lines get more keys than others: 1 % at 10 bits a key,
//! instead of 0.8 %.
//!
//! Stored: `probes: u8`, seven zero bytes, then the lines as eight little-endian words each. A
//! table of no keys or of 0 bits a key has no filter.
//!
//! Blocked filters: Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters"
//! (WEA 2007), with one word of hash for everything instead of a pattern table.

/// Bits of a line, which is a cache line.
const LINE_BITS: usize = 512;
const LINE_BYTES: usize = LINE_BITS / 8;
const HEADER_BYTES: usize = 8;

/// Bits of a mixed word that choose one of the bits of a line.
const PROBE_BITS: u32 = 9;
const PROBES_A_WORD: u32 = u64::BITS / PROBE_BITS;
const PROBES_MAX: u32 = 2 * PROBES_A_WORD;

/// The most lines: 512 MiB.
const LINES_MAX: usize = 1 << 23;

#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line([u64; LINE_BITS / 64]);

/// Answers "certainly not" or "perhaps".
#[derive(Debug)]
pub(crate) struct Filter {
    lines: Box<[Line]>,
    probes: u32,
}

/// The line of a hash: its high bits scaled to the number of lines.
#[inline]
fn line_of(hash: u64, lines: usize) -> usize {
    ((u128::from(hash) * lines as u128) >> 64) as usize
}

/// The bits of a line that belong to a hash, as masks for its words.
#[inline]
fn mask_of(hash: u64, probes: u32) -> Line {
    let mut mask = Line::default();
    // Keys of one line have their high bits in common; the product carries the low ones up.
    let mut word = mix(hash);
    let mut left = probes;
    loop {
        for probe in 0..left.min(PROBES_A_WORD) {
            let bit = (word >> (PROBE_BITS * probe)) as usize % LINE_BITS;
            mask.0[bit / 64] |= 1 << (bit % 64);
        }
        if left <= PROBES_A_WORD {
            return mask;
        }
        left -= PROBES_A_WORD;
        word = mix(word);
    }
}

#[inline]
fn mix(word: u64) -> u64 {
    let product = word.wrapping_mul(0xd6e8_feb8_6659_fd93);
    product ^ product >> 32
}

impl Filter {
    /// The stored filter of the keys with these hashes; `None` if there is nothing to store.
    /// O(keys).
    pub(crate) fn build(hashes: &[u64], bits_per_key: u32) -> Option<Vec<u8>> {
        if hashes.is_empty() || bits_per_key == 0 {
            return None;
        }
        let bits = hashes.len().saturating_mul(bits_per_key as usize);
        let lines = bits.div_ceil(LINE_BITS).min(LINES_MAX);
        // A little below bits x ln 2, the optimum of filters with evenly filled lines.
        let probes = (bits_per_key.saturating_mul(62) / 100).clamp(1, PROBES_MAX);
        let mut filter = Filter { lines: vec![Line::default(); lines].into(), probes };
        for &hash in hashes {
            let mask = mask_of(hash, probes);
            let line = &mut filter.lines[line_of(hash, lines)];
            line.0.iter_mut().zip(mask.0).for_each(|(word, bits)| *word |= bits);
        }
        let mut out = Vec::with_capacity(HEADER_BYTES + lines * LINE_BYTES);
        out.extend_from_slice(&u64::from(probes).to_le_bytes());
        out.extend(filter.lines.iter().flat_map(|line| line.0).flat_map(u64::to_le_bytes));
        Some(out)
    }

    /// The stored filter of no key, which contains nothing.
    pub(crate) fn of_nothing() -> Vec<u8> {
        let mut out = vec![0; HEADER_BYTES + LINE_BYTES];
        out[..HEADER_BYTES].copy_from_slice(&1_u64.to_le_bytes());
        out
    }

    /// Reads a stored filter; `None` if it is none.
    pub(crate) fn parse(stored: &[u8]) -> Option<Self> {
        let (header, bits) = stored.split_first_chunk::<HEADER_BYTES>()?;
        let probes = u32::try_from(u64::from_le_bytes(*header)).ok()?;
        let (lines, odd) = bits.as_chunks::<LINE_BYTES>();
        let is_whole = odd.is_empty() && (1..=LINES_MAX).contains(&lines.len());
        if !is_whole || !(1..=PROBES_MAX).contains(&probes) {
            return None;
        }
        let line = |bytes: &[u8; LINE_BYTES]| {
            let mut line = Line::default();
            let words = bytes.as_chunks::<8>().0;
            line.0.iter_mut().zip(words).for_each(|(word, le)| *word = u64::from_le_bytes(*le));
            line
        };
        Some(Filter { lines: lines.iter().map(line).collect(), probes })
    }

    /// Asks for the cache line that [`Filter::may_contain`] reads.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let line = &self.lines[line_of(hash, self.lines.len())];
        crate::memtable::mapping::prefetch(std::ptr::from_ref(line).cast());
    }

    /// Is the key with this hash perhaps there? If not, it certainly is not. One cache line.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let line = &self.lines[line_of(hash, self.lines.len())];
        let mask = mask_of(hash, self.probes);
        let missing =
            line.0.iter().zip(mask.0).fold(0, |missing, (word, bits)| missing | bits & !word);
        missing == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::hash;

    fn hashes(from: u64, count: u64) -> Vec<u64> {
        (from..from + count).map(|number| hash(format!("key{number:012}").as_bytes())).collect()
    }

    fn false_positives(keys: u64, bits_per_key: u32, asked: u64) -> f64 {
        let present = hashes(0, keys);
        let filter = Filter::parse(&Filter::build(&present, bits_per_key).unwrap()).unwrap();
        assert!(present.iter().all(|hash| filter.may_contain(*hash)), "a false negative");
        let wrong = hashes(1 << 40, asked).iter().filter(|hash| filter.may_contain(**hash)).count();
        wrong as f64 / asked as f64
    }

    #[test]
    fn ten_bits_a_key_let_one_of_a_hundred_pass() {
        for keys in [50, 1_000, 30_000] {
            let share = false_positives(keys, 10, 40_000);
            assert!(share < 0.0125, "{share} of {keys} keys");
        }
        assert!(false_positives(30_000, 10, 40_000) > 0.004, "too good: is everything probed?");
    }

    #[test]
    fn more_bits_let_less_pass() {
        let shares = [1, 2, 4, 8, 12, 16, 24].map(|bits| false_positives(20_000, bits, 20_000));
        assert!(shares.is_sorted_by(|a, b| a > b), "{shares:?}");
        assert!(shares[6] < 0.0005, "{shares:?}");
    }

    #[test]
    fn few_keys_and_many_bits() {
        for keys in 1..20 {
            assert!(false_positives(keys, 100, 1_000) < 0.01);
        }
        assert!(Filter::build(&[], 10).is_none());
        assert!(Filter::build(&[1], 0).is_none());
        let none = Filter::parse(&Filter::of_nothing()).unwrap();
        assert!(hashes(0, 1_000).iter().all(|hash| !none.may_contain(*hash)));
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        let stored = Filter::build(&hashes(0, 100), 10).unwrap();
        assert!(Filter::parse(&stored).is_some());
        assert!(Filter::parse(&stored[..HEADER_BYTES]).is_none(), "no line");
        assert!(Filter::parse(&stored[..stored.len() - 1]).is_none(), "half a line");
        assert!(Filter::parse(&stored[..7]).is_none());
        for probes in [0, PROBES_MAX as u8 + 1, 255] {
            let mut damaged = stored.clone();
            damaged[0] = probes;
            assert!(Filter::parse(&damaged).is_none(), "{probes} probes");
        }
        let mut damaged = stored;
        damaged[7] = 1;
        assert!(Filter::parse(&damaged).is_none());
    }
}
