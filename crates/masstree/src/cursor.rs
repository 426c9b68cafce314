//! A cursor that a caller holds: one key at a time, in either direction, beside concurrent writers.
//!
//! ```text
//!   before the first key  <-->  on a key  <-->  on a key  ...  <-->  after the last key
//!                     next -->                                <-- prev
//! ```
//!
//! It has the copy of a border node (`path.rs`) and an index into that, so most moves touch no
//! node. At an end of the copy it moves along the path. If a node of the path has changed, or an
//! entry of the copy has lost its value, it seeks anew from the key on which it stands. The guard
//! of the caller protects the cells of the copy, and the values that were read.

use crate::path::{At, Copy, Direction, Path};
use crate::shape::Shape;
use crate::slot::Slot;
use crate::tree::lend;
use keyrack_concurrent::{Backoff, Guard};
use std::fmt;
use std::marker::PhantomData;

/// Where a cursor stands.
#[derive(Clone, Copy)]
enum Standing {
    /// Before the first key.
    Before,
    /// On the key of the entry with this word.
    On(u64),
    /// After the last key.
    After,
}

/// A cursor over words, whatever they mean.
pub(crate) struct RawCursor<'g> {
    guard: &'g Guard,
    path: Path<'g>,
    copy: Copy,
    /// Of the entry in the copy on which it stands.
    index: usize,
    standing: Standing,
    /// The key that was read last: the one on which it stands.
    key: Vec<u8>,
    /// The memory of another key, for [`RawCursor::seek_beyond`].
    spare: Vec<u8>,
}

impl<'g> RawCursor<'g> {
    /// Before the first key.
    pub(crate) fn new(shape: &'g Shape, guard: &'g Guard) -> Self {
        RawCursor {
            guard,
            path: Path::new(shape, Direction::Up),
            copy: Copy::EMPTY,
            index: 0,
            standing: Standing::Before,
            key: Vec::with_capacity(64),
            spare: Vec::new(),
        }
    }

    /// The key, if it stands on one.
    #[inline]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        matches!(self.standing, Standing::On(_)).then_some(&self.key[..])
    }

    /// The word of the value, if it stands on a key.
    #[inline]
    pub(crate) fn word(&self) -> Option<u64> {
        match self.standing {
            Standing::On(word) => Some(word),
            Standing::Before | Standing::After => None,
        }
    }

    /// Upward to the first key from `start` on, or downward to the last key below `start`. Without
    /// a start, to the first or last of all keys. Returns the word of its value.
    pub(crate) fn seek(&mut self, start: Option<&[u8]>, direction: Direction) -> Option<u64> {
        self.path.direction = direction;
        let mut backoff = Backoff::new();
        loop {
            let at = self.path.seek(start);
            if self.arrive(at, start).is_some() {
                return self.word();
            }
            backoff.wait();
        }
    }

    /// To the next key in this direction. Returns the word of its value.
    #[inline]
    pub(crate) fn step(&mut self, direction: Direction) -> Option<u64> {
        if let Standing::On(_) = self.standing {
            let next = match direction {
                Direction::Up => self.index + 1,
                Direction::Down => self.index.wrapping_sub(1),
            };
            if let Some(entry) = self.copy.entries().get(next)
                && let Some(word) = self.path.read(entry, false, &mut self.key, self.guard)
            {
                if next == self.copy.middle() {
                    self.path.direction = direction;
                    self.path.prefetch_below(&self.copy);
                }
                self.index = next;
                self.standing = Standing::On(word);
                return Some(word);
            }
        }
        self.leave_copy(direction)
    }

    /// As [`RawCursor::step`], where the copy does not have the next key.
    fn leave_copy(&mut self, direction: Direction) -> Option<u64> {
        match (self.standing, direction) {
            (Standing::On(_), _) => {}
            (Standing::Before, Direction::Up) | (Standing::After, Direction::Down) => {
                return self.seek(None, direction);
            }
            (Standing::Before, Direction::Down) | (Standing::After, Direction::Up) => return None,
        }
        let at_end = match direction {
            Direction::Up => self.index + 1 >= self.copy.entries().len(),
            Direction::Down => self.index == 0,
        };
        if at_end {
            self.path.direction = direction;
            let at = self.path.next();
            // If this fails, no key was read.
            if self.arrive(at, None).is_some() {
                return self.word();
            }
        }
        self.seek_beyond(direction)
    }

    /// From the key on which it stands to the next one, by a search.
    fn seek_beyond(&mut self, direction: Direction) -> Option<u64> {
        let mut start = std::mem::replace(&mut self.key, std::mem::take(&mut self.spare));
        if direction == Direction::Up {
            // The least key that is greater.
            start.push(0);
        }
        let word = self.seek(Some(&start), direction);
        self.spare = start;
        word
    }

    /// From where the path has come to, to the first key that is not before `start`, in the
    /// direction of the path. `None` at a concurrent change.
    fn arrive(&mut self, mut at: At<'g>, start: Option<&[u8]>) -> Option<()> {
        let up = self.path.direction == Direction::Up;
        loop {
            let (border, version) = match at {
                At::Border(border, version) => (border, version),
                At::Changed => return None,
                At::End => {
                    self.standing = if up { Standing::After } else { Standing::Before };
                    return Some(());
                }
            };
            self.copy = Copy::of(border, version, self.guard)?;
            self.path.prefetch(&self.copy);
            let count = self.copy.entries().len();
            for at in 0..count {
                let index = if up { at } else { count - 1 - at };
                let entry = &self.copy.entries()[index];
                let word = self.path.read(entry, at == 0, &mut self.key, self.guard)?;
                let inside = start.is_none_or(|start| match up {
                    true => &self.key[..] >= start,
                    false => &self.key[..] < start,
                });
                if inside {
                    self.index = index;
                    self.standing = Standing::On(word);
                    return Some(());
                }
            }
            at = self.path.next();
        }
    }
}

/// A position between or on the keys of a [`Tree`](crate::Tree), from
/// [`Tree::cursor`](crate::Tree::cursor).
///
/// A cursor stands on a key, before the first key, or after the last. Each move returns the key on
/// which it then stands, with its value; `None` if there is none. The key is lent until the next
/// move, so nothing is copied; the value as long as the guard.
///
/// Other threads, and this one, may change the tree meanwhile. A cursor reads the keys of one node
/// at a time, some ten, and makes its moves among them. So:
///
/// - moves in one direction come to each key at most once, in order;
/// - a key that is present all the time is not passed over;
/// - a key that was inserted or removed after the last search may be seen or not, with the value of
///   then or of now. [`Cursor::seek`] and its like search anew.
///
/// A search is O(layers^2 * log n), a move O(1) on average.
///
/// # Examples
///
/// ```
/// use keyrack_masstree::{Tree, pin};
///
/// let tree = Tree::<u64>::new();
/// let guard = pin();
/// for (key, value) in [("one", 1), ("three", 3), ("two", 2)] {
///     tree.insert(key.as_bytes(), value, &guard);
/// }
///
/// let mut cursor = tree.cursor(&guard);
/// assert_eq!(cursor.seek(b"p"), Some((&b"three"[..], 3)));
/// assert_eq!(cursor.next(), Some((&b"two"[..], 2)));
/// assert_eq!(cursor.next(), None);
/// assert_eq!(cursor.prev(), Some((&b"two"[..], 2)));
/// assert_eq!(cursor.prev(), Some((&b"three"[..], 3)));
/// assert_eq!(cursor.key(), Some(&b"three"[..]));
/// assert_eq!(cursor.value(), Some(3));
/// ```
pub struct Cursor<'g, V: Slot> {
    raw: RawCursor<'g>,
    kind: PhantomData<V>,
}

impl<'g, V: Slot> Cursor<'g, V> {
    pub(crate) fn new(shape: &'g Shape, guard: &'g Guard) -> Self {
        Cursor { raw: RawCursor::new(shape, guard), kind: PhantomData }
    }

    /// Moves to the first key that is `key` or greater. If there is none, the cursor stands after
    /// the last key.
    ///
    /// ```
    /// # use keyrack_masstree::Tree;
    /// # let (tree, guard) = (Tree::<u64>::new(), keyrack_masstree::pin());
    /// tree.insert(b"b", 2, &guard);
    /// let mut cursor = tree.cursor(&guard);
    /// assert_eq!(cursor.seek(b"a"), Some((&b"b"[..], 2)));
    /// assert_eq!(cursor.seek(b"b"), Some((&b"b"[..], 2)));
    /// assert_eq!(cursor.seek(b"c"), None);
    /// ```
    pub fn seek(&mut self, key: &[u8]) -> Option<(&[u8], V::Ref<'g>)> {
        self.raw.seek(Some(key), Direction::Up);
        self.item()
    }

    /// Moves to the last key that is less than `key`. If there is none, the cursor stands before
    /// the first key.
    ///
    /// ```
    /// # use keyrack_masstree::Tree;
    /// # let (tree, guard) = (Tree::<u64>::new(), keyrack_masstree::pin());
    /// tree.insert(b"b", 2, &guard);
    /// let mut cursor = tree.cursor(&guard);
    /// assert_eq!(cursor.seek_before(b"c"), Some((&b"b"[..], 2)));
    /// assert_eq!(cursor.seek_before(b"b"), None);
    /// ```
    pub fn seek_before(&mut self, key: &[u8]) -> Option<(&[u8], V::Ref<'g>)> {
        self.raw.seek(Some(key), Direction::Down);
        self.item()
    }

    /// Moves to the first of all keys.
    ///
    /// ```
    /// # use keyrack_masstree::Tree;
    /// # let (tree, guard) = (Tree::<u64>::new(), keyrack_masstree::pin());
    /// assert_eq!(tree.cursor(&guard).seek_first(), None);
    /// tree.insert(b"a", 1, &guard);
    /// tree.insert(b"b", 2, &guard);
    /// assert_eq!(tree.cursor(&guard).seek_first(), Some((&b"a"[..], 1)));
    /// ```
    pub fn seek_first(&mut self) -> Option<(&[u8], V::Ref<'g>)> {
        self.raw.seek(None, Direction::Up);
        self.item()
    }

    /// Moves to the last of all keys.
    ///
    /// ```
    /// # use keyrack_masstree::Tree;
    /// # let (tree, guard) = (Tree::<u64>::new(), keyrack_masstree::pin());
    /// tree.insert(b"a", 1, &guard);
    /// tree.insert(b"b", 2, &guard);
    /// assert_eq!(tree.cursor(&guard).seek_last(), Some((&b"b"[..], 2)));
    /// ```
    pub fn seek_last(&mut self) -> Option<(&[u8], V::Ref<'g>)> {
        self.raw.seek(None, Direction::Down);
        self.item()
    }

    /// Moves to the next greater key: to the first key if the cursor stands before that. A cursor
    /// after the last key stays there.
    ///
    /// ```
    /// # use keyrack_masstree::Tree;
    /// # let (tree, guard) = (Tree::<u64>::new(), keyrack_masstree::pin());
    /// for n in 0..100_u64 {
    ///     tree.insert(&n.to_be_bytes(), n, &guard);
    /// }
    /// let (mut cursor, mut sum) = (tree.cursor(&guard), 0);
    /// while let Some((key, value)) = cursor.next() {
    ///     assert_eq!(key, value.to_be_bytes());
    ///     sum += value;
    /// }
    /// assert_eq!(sum, 4950);
    /// ```
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend its key")]
    #[inline]
    pub fn next(&mut self) -> Option<(&[u8], V::Ref<'g>)> {
        self.raw.step(Direction::Up);
        self.item()
    }

    /// Moves to the next smaller key: to the last key if the cursor stands after that. A cursor
    /// before the first key stays there.
    ///
    /// ```
    /// # use keyrack_masstree::Tree;
    /// # let (tree, guard) = (Tree::<u64>::new(), keyrack_masstree::pin());
    /// tree.insert(b"a", 1, &guard);
    /// tree.insert(b"b", 2, &guard);
    /// let mut cursor = tree.cursor(&guard);
    /// assert_eq!(cursor.prev(), None, "it stands before the first key");
    /// cursor.seek(b"b");
    /// assert_eq!(cursor.prev(), Some((&b"a"[..], 1)));
    /// ```
    #[inline]
    pub fn prev(&mut self) -> Option<(&[u8], V::Ref<'g>)> {
        self.raw.step(Direction::Down);
        self.item()
    }

    /// The key on which the cursor stands.
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// tree.insert(b"key", 1, &guard);
    /// let mut cursor = tree.cursor(&guard);
    /// assert_eq!(cursor.key(), None);
    /// cursor.next();
    /// assert_eq!(cursor.key(), Some(&b"key"[..]));
    /// ```
    #[inline]
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.raw.key()
    }

    /// The value of the key on which the cursor stands: one that it had since the cursor read the
    /// node. [`Tree::get`](crate::Tree::get) has the latest.
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// tree.insert(b"key", 1, &guard);
    /// let mut cursor = tree.cursor(&guard);
    /// cursor.next();
    /// tree.insert(b"key", 2, &guard);
    /// assert_eq!(cursor.value(), Some(1));
    /// cursor.seek(b"key");
    /// assert_eq!(cursor.value(), Some(2));
    /// ```
    #[inline]
    #[must_use]
    pub fn value(&self) -> Option<V::Ref<'g>> {
        self.raw.word().map(|word| lend::<V>(word, self.raw.guard))
    }

    #[inline]
    fn item(&self) -> Option<(&[u8], V::Ref<'g>)> {
        Some((self.key()?, self.value()?))
    }
}

impl<V: Slot> fmt::Debug for Cursor<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor").field("key", &self.key()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::races::{CHANGES, among_layers, staying};
    use keyrack_concurrent::pin;

    const UP: Direction = Direction::Up;
    const DOWN: Direction = Direction::Down;

    /// The keys from where a cursor stands, without that one, in the order in which it finds them.
    fn rest(cursor: &mut RawCursor<'_>, direction: Direction) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        while cursor.step(direction).is_some() {
            keys.push(cursor.key().unwrap().to_vec());
        }
        keys
    }

    /// A cursor stands on a key of a copy while layers around it change, and then goes on in the
    /// same or in the other direction, to the end and back.
    #[test]
    fn a_cursor_finds_what_stays_on_both_sides_of_a_change() {
        let stays = staying();
        let count = rest(&mut RawCursor::new(&among_layers().shape, &pin()), UP).len();
        let moves = (1..count).step_by(5);
        for ((name, change), came) in
            CHANGES.into_iter().flat_map(|change| moves.clone().map(move |came| (change, came)))
        {
            for (before, after) in [(UP, UP), (UP, DOWN), (DOWN, UP), (DOWN, DOWN)] {
                let mut tree = among_layers();
                let guard = pin();
                let mut cursor = RawCursor::new(&tree.shape, &guard);
                match before {
                    UP => (0..came).for_each(|_| assert!(cursor.step(UP).is_some())),
                    DOWN => {
                        cursor.seek(None, DOWN);
                        (1..came).for_each(|_| assert!(cursor.step(DOWN).is_some()));
                    }
                }
                let stood = cursor.key().unwrap().to_vec();
                change(&tree);
                let context = format!("{name}, {came} {before:?}, then {after:?}");
                let mut one = rest(&mut cursor, after);
                let mut all = rest(&mut cursor, if after == UP { DOWN } else { UP });
                if after == DOWN {
                    one.reverse();
                } else {
                    all.reverse();
                }
                for keys in [&one, &all] {
                    assert!(keys.is_sorted_by(|a, b| a < b), "{context}");
                }
                let beyond =
                    |key: &[u8]| if after == UP { key > &stood[..] } else { key < &stood[..] };
                assert!(one.iter().all(|key| beyond(key)), "{context}");
                let missed = stays.iter().find(|key| {
                    all.binary_search(key).is_err()
                        || (beyond(key) && one.binary_search(key).is_err())
                });
                assert_eq!(missed, None, "{context}");
                drop(guard);
                tree.check().unwrap();
            }
        }
    }

    /// What a cursor reads from a copy may be gone by now.
    #[test]
    fn a_cursor_passes_over_an_entry_that_has_lost_its_value() {
        let tree = crate::Tree::<crate::Bytes>::new();
        let guard = pin();
        let keys = ["a", "b", "c", "d"].map(|key| format!("{key}, longer than two slices"));
        keys.iter()
            .for_each(|key| assert!(tree.insert(key.as_bytes(), b"value", &guard).is_none()));
        for (direction, expected) in [(UP, "c"), (DOWN, "b")] {
            let mut cursor = tree.cursor(&guard);
            let first = if direction == UP { cursor.seek_first() } else { cursor.seek_last() };
            assert!(first.is_some());
            let gone = if direction == UP { &keys[1] } else { &keys[2] };
            assert!(tree.remove(gone.as_bytes(), &guard).is_some());
            let next = if direction == UP { cursor.next() } else { cursor.prev() };
            let (key, value) = next.unwrap();
            assert!(key.starts_with(expected.as_bytes()), "{key:?}");
            assert_eq!(&*value, b"value");
            assert!(tree.insert(gone.as_bytes(), b"value", &guard).is_none());
        }
    }
}
