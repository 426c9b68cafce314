//! A table of connections with places that are used again.
//!
//! A [`Key`] is an index and the generation of the place. Whatever was noted about a connection
//! (a timer, a parked reply) may outlive it: its key then finds nothing, even when the place has a
//! new tenant.

/// The name of a value for as long as it is in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// The place, which the kernel reports events for.
    pub(crate) fn index(self) -> usize {
        self.index as usize
    }
}

#[derive(Debug)]
struct Place<T> {
    /// How many tenants have left.
    generation: u32,
    value: Option<T>,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Self {
        Slots { places: Vec::new(), free: Vec::new() }
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Puts a value in; `None` when the table is as large as its index.
    pub(crate) fn insert(&mut self, value: T) -> Option<Key> {
        if let Some(index) = self.free.pop() {
            let place = &mut self.places[index as usize];
            place.value = Some(value);
            return Some(Key { index, generation: place.generation });
        }
        let index = u32::try_from(self.places.len()).ok()?;
        self.places.push(Place { generation: 0, value: Some(value) });
        Some(Key { index, generation: 0 })
    }

    /// The key of whoever is at an index.
    pub(crate) fn key_at(&self, index: usize) -> Option<Key> {
        let place = self.places.get(index)?;
        place.value.as_ref()?;
        Some(Key { index: u32::try_from(index).ok()?, generation: place.generation })
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.index())?;
        if place.generation != key.generation {
            return None;
        }
        place.value.as_mut()
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.places.get_mut(key.index())?;
        if place.generation != key.generation {
            return None;
        }
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(value)
    }

    /// The keys of all values.
    pub(crate) fn keys(&self) -> Vec<Key> {
        (0..self.places.len()).filter_map(|index| self.key_at(index)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_key_finds_no_new_tenant() {
        let mut slots = Slots::new();
        let first = slots.insert("a").unwrap();
        let other = slots.insert("b").unwrap();
        assert_eq!(slots.remove(first), Some("a"));
        let second = slots.insert("c").unwrap();
        assert_eq!(second.index(), first.index(), "the place was not used again");
        assert_eq!(slots.get_mut(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.get_mut(second), Some(&mut "c"));
        assert_eq!((slots.len(), slots.keys()), (2, vec![second, other]));
        assert_eq!(slots.key_at(second.index()), Some(second));
        assert_eq!((slots.remove(second), slots.remove(other)), (Some("c"), Some("b")));
        assert_eq!((slots.len(), slots.key_at(0), slots.key_at(7)), (0, None, None));
    }
}
