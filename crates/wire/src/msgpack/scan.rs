//! Where a value ends that comes in parts.
//!
//! The stack holds, for each array that is open, how many of its elements are missing; a map counts
//! as twice as many. It has room for [`DEPTH_MAX`] levels. What is understood is not looked at
//! again.

use super::item::{FormatError, head};

/// Arrays and maps within each other.
pub const DEPTH_MAX: usize = 8;

/// What a value may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanLimits {
    /// Bytes of one string.
    pub str_bytes_max: u64,
    /// Elements at all levels together, the heads of arrays included.
    pub elements_max: u64,
    /// Bytes of the whole value.
    pub bytes_max: u64,
}

/// The state of finding an end. A fresh one stands at the first byte of a value.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Bytes that are understood.
    at: usize,
    /// Bytes of input with which there is more to say.
    wanted: usize,
    /// Elements seen.
    elements: u64,
    /// Levels that are open: `missing[..depth]` are above zero.
    depth: usize,
    missing: [u64; DEPTH_MAX],
}

impl Scan {
    /// Goes on over `input`, which begins with the bytes of the call before. Returns the bytes of
    /// the value when it is whole, and is fresh again then.
    ///
    /// # Errors
    /// [`FormatError`]: no value, or one beyond `limits`.
    #[inline]
    pub fn advance(
        &mut self,
        input: &[u8],
        limits: &ScanLimits,
    ) -> Result<Option<usize>, FormatError> {
        if input.len() < self.wanted {
            return Ok(None);
        }
        loop {
            let Some(head) = head(&input[self.at..])? else { return Ok(None) };
            if u64::from(head.body_bytes) > limits.str_bytes_max {
                return Err(FormatError::Bytes);
            }
            // Below 2^63 + 2^33: no overflow.
            let end = self.at as u64 + head.bytes as u64 + u64::from(head.body_bytes);
            if end > limits.bytes_max {
                return Err(FormatError::Bytes);
            }
            if self.elements + head.elements >= limits.elements_max {
                return Err(FormatError::Elements);
            }
            let end = usize::try_from(end).map_err(|_| FormatError::Bytes)?;
            if input.len() < end {
                self.wanted = end;
                return Ok(None);
            }
            self.elements += 1;
            self.at = end;
            if head.elements > 0 {
                *self.missing.get_mut(self.depth).ok_or(FormatError::Depth)? = head.elements;
                self.depth += 1;
            } else if self.close() {
                // No level is open.
                (self.at, self.wanted, self.elements) = (0, 0, 0);
                return Ok(Some(end));
            }
        }
    }

    /// Whether it stands at the first byte of a value.
    #[inline]
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.at == 0
    }

    /// Bytes that have to be there, from the first of the value, before there is more to say.
    #[must_use]
    pub fn wanted_bytes(&self) -> usize {
        self.wanted
    }

    /// Counts an element that is whole, and the arrays that are whole by it. Returns whether that
    /// was all.
    #[inline]
    fn close(&mut self) -> bool {
        while let Some(top) = self.depth.checked_sub(1) {
            self.missing[top] -= 1;
            if self.missing[top] > 0 {
                return false;
            }
            self.depth = top;
        }
        true
    }
}
