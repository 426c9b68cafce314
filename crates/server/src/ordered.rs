//! Answers of a lookup of many keys, which come in any order, put into the order of the keys.
//!
//! ```text
//!   answers    2     0     1     4 ...
//!   output           0     1 2            the next in order is written at once
//!   scratch    2                 4        what comes early waits, and follows at once
//! ```
//!
//! **Invariant:** the output grows to `full_at` and one answer at most; so does the scratch buffer.
//! Answers behind that are left: [`Ordered::written`] says how many were not.

/// Keys that are looked up together.
pub(crate) const TOGETHER_MAX: usize = 32;

/// Answers being put in order.
pub(crate) struct Ordered<'a> {
    out: &'a mut Vec<u8>,
    full_at: usize,
    scratch: &'a mut Vec<u8>,
    /// The key whose answer the output waits for.
    next: usize,
    /// Where early answers lie in the scratch buffer.
    early: [Option<(u32, u32)>; TOGETHER_MAX],
}

impl<'a> Ordered<'a> {
    /// To be written behind what `out` holds, which may grow to `full_at` bytes.
    pub(crate) fn new(out: &'a mut Vec<u8>, full_at: usize, scratch: &'a mut Vec<u8>) -> Self {
        scratch.clear();
        Ordered { out, full_at, scratch, next: 0, early: [None; TOGETHER_MAX] }
    }

    /// Has `write` append the answer to key `index`, now or never.
    #[inline]
    pub(crate) fn add(&mut self, index: usize, write: impl FnOnce(&mut Vec<u8>)) {
        if index != self.next {
            if self.out.len().saturating_add(self.scratch.len()) < self.full_at {
                let begin = self.scratch.len() as u32;
                write(self.scratch);
                self.early[index] = Some((begin, self.scratch.len() as u32));
            }
            return;
        }
        if index > 0 && self.out.len() >= self.full_at {
            return;
        }
        write(self.out);
        self.next += 1;
        while self.out.len() < self.full_at
            && let Some((begin, end)) = self.early.get(self.next).copied().flatten()
        {
            self.out.extend_from_slice(&self.scratch[begin as usize..end as usize]);
            self.next += 1;
        }
    }

    /// How many keys, counted from the first, have their answer in the output.
    pub(crate) fn written(&self) -> usize {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_stand_in_the_order_of_their_keys() {
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2], [2, 0, 3, 1]] {
            let (mut out, mut scratch) = (b"x".to_vec(), Vec::new());
            let mut ordered = Ordered::new(&mut out, 100, &mut scratch);
            for index in order {
                ordered.add(index, |out| out.push(b'0' + index as u8));
            }
            assert_eq!(ordered.written(), 4);
            assert_eq!(out, b"x0123");
        }
    }

    #[test]
    fn what_does_not_fit_is_left_and_the_first_always_fits() {
        for order in [[0, 1, 2], [2, 1, 0]] {
            let (mut out, mut scratch) = (Vec::new(), Vec::new());
            let mut ordered = Ordered::new(&mut out, 10, &mut scratch);
            for index in order {
                ordered.add(index, |out| out.extend_from_slice(&[b'0' + index as u8; 8]));
            }
            let written = ordered.written();
            assert!((1..3).contains(&written), "{written}");
            assert_eq!(out.len(), 8 * written);
        }
    }
}
