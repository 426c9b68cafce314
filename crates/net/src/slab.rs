//! A table of connections with entries that are used again.
//!
//! A [`Key`] is an index and the generation of the entry. Whatever was noted about a connection (a
//! timer, a deferred reply) may outlive it: its key then finds nothing, even when the entry has a
//! new tenant.

/// The name of a value for as long as it is in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// The entry, which the kernel reports events for.
    pub(crate) fn index(self) -> usize {
        self.index as usize
    }
}

#[derive(Debug)]
struct Entry<T> {
    /// How many tenants have left.
    generation: u32,
    value: Option<T>,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Slab { entries: Vec::new(), free: Vec::new() }
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Puts a value in; `None` when the table is as large as its index.
    pub(crate) fn insert(&mut self, value: T) -> Option<Key> {
        if let Some(index) = self.free.pop() {
            let entry = &mut self.entries[index as usize];
            entry.value = Some(value);
            return Some(Key { index, generation: entry.generation });
        }
        let index = u32::try_from(self.entries.len()).ok()?;
        self.entries.push(Entry { generation: 0, value: Some(value) });
        Some(Key { index, generation: 0 })
    }

    pub(crate) fn key_at(&self, index: usize) -> Option<Key> {
        let entry = self.entries.get(index)?;
        entry.value.as_ref()?;
        Some(Key { index: u32::try_from(index).ok()?, generation: entry.generation })
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let entry = self.entries.get_mut(key.index())?;
        if entry.generation != key.generation {
            return None;
        }
        entry.value.as_mut()
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let entry = self.entries.get_mut(key.index())?;
        if entry.generation != key.generation {
            return None;
        }
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(value)
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        (0..self.entries.len()).filter_map(|index| self.key_at(index)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_key_finds_no_new_tenant() {
        let mut slab = Slab::new();
        let first = slab.insert("a").unwrap();
        let other = slab.insert("b").unwrap();
        assert_eq!(slab.remove(first), Some("a"));
        let second = slab.insert("c").unwrap();
        assert_eq!(second.index(), first.index(), "the entry was not used again");
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get_mut(second), Some(&mut "c"));
        assert_eq!((slab.len(), slab.keys()), (2, vec![second, other]));
        assert_eq!(slab.key_at(second.index()), Some(second));
        assert_eq!((slab.remove(second), slab.remove(other)), (Some("c"), Some("b")));
        assert_eq!((slab.len(), slab.key_at(0), slab.key_at(7)), (0, None, None));
    }
}
