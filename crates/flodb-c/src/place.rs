//! A place in an ordered set of keys, within bounds: one object for the iterators of stores, of key
//! spaces and of transactions.
//!
//! ```text
//!          low               high
//!   a  b   [c  d  e  f  g)   h  i      first: seek low      last: seek back high, and off it
//! ```
//!
//! Keys are in the order of bytes, since a store with another order is not opened.

use keyrack_flodb::{Iter, Result, SpaceIter, SpacesTransactionIter, TransactionIter};

/// An iterator of any kind. Those of transactions borrow what `iterator` keeps beside them.
#[derive(Debug)]
pub(crate) enum Inner {
    Whole(Iter),
    Space(SpaceIter),
    Transaction(TransactionIter<'static>),
    SpacesTransaction(SpacesTransactionIter<'static>),
}

macro_rules! on_inner {
    ($inner:expr, $iter:ident => $call:expr) => {
        match $inner {
            Inner::Whole($iter) => $call,
            Inner::Space($iter) => $call,
            Inner::Transaction($iter) => $call,
            Inner::SpacesTransaction($iter) => $call,
        }
    };
}

/// Keys from the first on and before the second; `None` is no bound.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) low: Option<Vec<u8>>,
    pub(crate) high: Option<Vec<u8>>,
}

impl Bounds {
    /// All keys that begin with `prefix`.
    pub(crate) fn prefix(prefix: &[u8]) -> Bounds {
        let mut high = prefix.to_vec();
        while high.last() == Some(&u8::MAX) {
            high.pop();
        }
        if let Some(last) = high.last_mut() {
            *last += 1;
        }
        Bounds { low: Some(prefix.to_vec()), high: (!high.is_empty()).then_some(high) }
    }

    fn is_before(&self, key: &[u8]) -> bool {
        self.low.as_deref().is_some_and(|low| key < low)
    }

    fn is_behind(&self, key: &[u8]) -> bool {
        self.high.as_deref().is_some_and(|high| key >= high)
    }
}

/// A place. It begins nowhere.
#[derive(Debug)]
pub(crate) struct Place {
    inner: Inner,
    bounds: Bounds,
    is_valid: bool,
}

impl Place {
    pub(crate) fn new(inner: Inner, bounds: Bounds) -> Place {
        Place { inner, bounds, is_valid: false }
    }

    /// Key and value here; `None` nowhere.
    pub(crate) fn entry(&self) -> Option<(&[u8], &[u8])> {
        if self.is_valid { on_inner!(&self.inner, iter => iter.entry()) } else { None }
    }

    pub(crate) fn first(&mut self) -> Result<()> {
        self.moved(|inner, bounds| match &bounds.low {
            Some(low) => on_inner!(inner, iter => iter.seek(low)),
            None => on_inner!(inner, iter => iter.seek_first()),
        })
    }

    pub(crate) fn last(&mut self) -> Result<()> {
        self.moved(|inner, bounds| {
            let Some(high) = &bounds.high else {
                return on_inner!(inner, iter => iter.seek_last());
            };
            on_inner!(inner, iter => {
                iter.seek_back(high)?;
                if iter.entry().is_some_and(|(key, _)| key == high) { iter.prev() } else { Ok(()) }
            })
        })
    }

    pub(crate) fn seek(&mut self, target: &[u8]) -> Result<()> {
        if self.bounds.is_before(target) {
            return self.first();
        }
        self.moved(|inner, _| on_inner!(inner, iter => iter.seek(target)))
    }

    pub(crate) fn seek_back(&mut self, target: &[u8]) -> Result<()> {
        if self.bounds.is_behind(target) {
            return self.last();
        }
        self.moved(|inner, _| on_inner!(inner, iter => iter.seek_back(target)))
    }

    pub(crate) fn next(&mut self) -> Result<()> {
        if !self.is_valid {
            return Ok(());
        }
        self.moved(|inner, _| on_inner!(inner, iter => iter.next()))
    }

    pub(crate) fn prev(&mut self) -> Result<()> {
        if !self.is_valid {
            return Ok(());
        }
        self.moved(|inner, _| on_inner!(inner, iter => iter.prev()))
    }

    fn moved(&mut self, step: impl FnOnce(&mut Inner, &Bounds) -> Result<()>) -> Result<()> {
        self.is_valid = false;
        step(&mut self.inner, &self.bounds)?;
        let entry = on_inner!(&self.inner, iter => iter.entry());
        let is_within = |key: &[u8]| !self.bounds.is_before(key) && !self.bounds.is_behind(key);
        self.is_valid = entry.is_some_and(|(key, _)| is_within(key));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_flodb::{Db, Options};
    use keyrack_vfs::MemFs;
    use std::sync::Arc;

    /// The keys from both ends, and those that two seeks find.
    fn keys(db: &Db, bounds: Bounds) -> (String, String) {
        let mut place = Place::new(Inner::Whole(db.iter().unwrap()), bounds);
        let key =
            |place: &Place| place.entry().map(|(key, _)| String::from_utf8_lossy(key).into_owned());
        assert_eq!(key(&place), None, "it begins nowhere");
        let (mut up, mut down) = (String::new(), String::new());
        place.first().unwrap();
        while let Some(key) = key(&place) {
            up += &key;
            place.next().unwrap();
        }
        place.last().unwrap();
        while let Some(key) = key(&place) {
            down += &key;
            place.prev().unwrap();
        }
        let reversed: String = down.chars().rev().collect();
        assert_eq!(up, reversed);
        let mut found = String::new();
        for target in ["a", "c", "e", "z"] {
            place.seek(target.as_bytes()).unwrap();
            found += key(&place).as_deref().unwrap_or("-");
            place.seek_back(target.as_bytes()).unwrap();
            found += key(&place).as_deref().unwrap_or("-");
        }
        (up, found)
    }

    #[test]
    fn a_place_stays_within_its_bounds() {
        let db = Db::open_in(Arc::new(MemFs::new()), "/db".as_ref(), Options::new()).unwrap();
        for key in ["b", "d", "f", "h"] {
            db.put(key.as_bytes(), b"").unwrap();
        }
        let within = |low: &str, high: &str| {
            let bound = |key: &str| (!key.is_empty()).then(|| key.as_bytes().to_vec());
            let (keys, found) = keys(&db, Bounds { low: bound(low), high: bound(high) });
            format!("{keys} {found}")
        };
        assert_eq!(within("", ""), "bdfh b-dbfd-h");
        assert_eq!(within("d", "h"), "df d-d-fd-f");
        assert_eq!(within("c", "g"), "df d-d-fd-f");
        assert_eq!(within("", "b"), " --------");
        assert_eq!(within("i", ""), " --------");
        assert_eq!(within("g", "c"), " --------");
    }

    #[test]
    fn a_prefix_ends_before_the_next_one() {
        let high = |prefix: &[u8]| Bounds::prefix(prefix).high;
        assert_eq!(high(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(high(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(high(b"\xff"), None);
        assert_eq!(high(b""), None);
    }
}
