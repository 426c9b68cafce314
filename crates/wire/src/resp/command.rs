//! Requests, as a client writes them: always as an array of bulk strings, which has no quotes to
//! get wrong.

use super::writer::{put_head, put_string};
use keyrack_decimal::Decimal;

/// Appends a request of `args`, of which there is at least one: the command's name.
pub fn command(out: &mut Vec<u8>, args: &[&[u8]]) {
    put_head(out, b'*', args.len() as u64);
    for arg in args {
        put_string(out, b'$', arg);
    }
}

/// Appends one request, an argument at a time.
#[derive(Debug)]
pub struct CommandWriter<'a> {
    out: &'a mut Vec<u8>,
    missing: usize,
}

impl<'a> CommandWriter<'a> {
    /// Begins a request of `count` arguments, the command's name included; as many calls of
    /// [`CommandWriter::arg`] have to follow.
    #[inline]
    #[must_use = "the arguments have to follow"]
    pub fn new(out: &'a mut Vec<u8>, count: usize) -> Self {
        put_head(out, b'*', count as u64);
        Self { out, missing: count }
    }

    /// The next argument.
    ///
    /// # Panics
    /// In debug builds, when there are more than announced.
    #[inline]
    pub fn arg(&mut self, bytes: &[u8]) -> &mut Self {
        self.count();
        put_string(self.out, b'$', bytes);
        self
    }

    /// The next argument, a number.
    ///
    /// # Panics
    /// As [`CommandWriter::arg`].
    #[inline]
    pub fn number(&mut self, number: u64) -> &mut Self {
        self.count();
        put_string(self.out, b'$', &Decimal::new(number));
        self
    }

    /// Arguments that were announced and not written.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.missing
    }

    fn count(&mut self) {
        debug_assert!(self.missing > 0, "no more arguments than announced");
        self.missing = self.missing.saturating_sub(1);
    }
}
