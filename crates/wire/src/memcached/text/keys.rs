//! The keys of a retrieval, read from its line as they are asked for.

use super::line::Words;

/// Keys, each of which [`super::parse`] has found to be one. Copying them begins them anew.
#[derive(Clone, Copy)]
pub struct Keys<'a> {
    words: Words<'a>,
}

impl<'a> Keys<'a> {
    /// The keys of a line's rest, not checked.
    pub(super) fn new(text: &'a [u8]) -> Self {
        Keys { words: Words::new(text) }
    }

    /// A retrieval's one key.
    #[must_use]
    pub fn one(key: &'a [u8]) -> Self {
        Keys::new(key)
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.words.next()
    }
}

/// Keys are the same when they are the same words, however far apart they stand.
impl PartialEq for Keys<'_> {
    fn eq(&self, other: &Self) -> bool {
        Iterator::eq(*self, *other)
    }
}

impl Eq for Keys<'_> {}

impl std::fmt::Debug for Keys<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.map(<[u8]>::escape_ascii)).finish()
    }
}
