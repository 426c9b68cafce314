//! Merge operators: values that grow by operands which nobody reads before writing.
//!
//! ```text
//!   written   put 5   merge +1   merge +2          one entry each, no read
//!   read      5 <------- +1 <------ +2   = 8       from the newest entry down to the first value
//!   compacted put 8                                or `merge +3` where the value lies elsewhere
//! ```
//!
//! **The rule.** What an operand makes of a key is seen by those who see the operand. A reader
//! folds the operands that it sees down to the first put, tombstone or range tombstone, or to the
//! end. A build folds operands only up to the oldest moment in use, as it drops replaced versions:
//! with the value below them where it is at hand, with nothing where nothing lies below, and else
//! with each other. An expiry is of the value that was put: when that has expired, the operands
//! after it stand on nothing. So a build leaves operands on a value that may still expire.
//!
//! An operator has a name, which the store keeps with the first operand: it opens only with the
//! same. The operators of this module are found by their names.

use crate::coding::{Reader, put_string};
use crate::error::{Error, Result};
use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

const COUNTER: &str = "keyrack.counter";
const SET_UNION: &str = "keyrack.set-union";
/// Behind it comes the separator, in hexadecimal digits.
const APPEND: &str = "keyrack.append:";

/// Bytes of a counter.
const COUNTER_BYTES: usize = 8;

/// What operands make of a value. It depends on its arguments alone, and is associative: a value
/// may be made of operands that were combined before, in their order.
///
/// It is called by readers, and by the threads that flush and compact, so it must be quick and must
/// not use the store. A panic of a reader is the reader's; one of a background thread makes the
/// store read-only, with the name of the operator as the reason.
pub trait MergeOperator: Send + Sync {
    /// Names the rule. A changed rule needs a new name.
    fn name(&self) -> &str;

    /// The value of `key` after all `operands`, the oldest first, on top of `existing`. `None` if
    /// they do not fit each other: reads of the key fail then, and nothing of it is dropped.
    fn merge(&self, key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>>;

    /// One operand that does what `first` does, and then `second`. `None` if there is none: then
    /// both are kept until the value is at hand.
    fn combine(&self, key: &[u8], first: &[u8], second: &[u8]) -> Option<Vec<u8>> {
        let _ = (key, first, second);
        None
    }
}

impl fmt::Debug for dyn MergeOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MergeOperator").field(&self.name()).finish()
    }
}

/// Adds to a counter of 8 bytes, little-endian, `i64` or `u64`: operands are the same. A key that
/// is not there is 0. A sum beyond the numbers wraps around.
///
/// ```
/// use keyrack_flodb::{Counter, Db, Options};
/// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
/// let db = Db::open_in(fs, "/store".as_ref(), Options::new().merge_operator(Counter))?;
/// db.merge(b"visits", &1_i64.to_le_bytes())?;
/// db.merge(b"visits", &2_i64.to_le_bytes())?;
/// assert_eq!(db.get(b"visits")?, Some(3_i64.to_le_bytes().to_vec()));
/// # Ok::<(), keyrack_flodb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Counter;

fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(<[u8; COUNTER_BYTES]>::try_from(bytes).ok()?))
}

impl MergeOperator for Counter {
    fn name(&self) -> &str {
        COUNTER
    }

    fn merge(&self, _key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let begin = existing.map_or(Some(0), number)?;
        let sum = operands.iter().try_fold(begin, |sum, it| Some(sum.wrapping_add(number(it)?)))?;
        Some(sum.to_le_bytes().to_vec())
    }

    fn combine(&self, _key: &[u8], first: &[u8], second: &[u8]) -> Option<Vec<u8>> {
        Some(number(first)?.wrapping_add(number(second)?).to_le_bytes().to_vec())
    }
}

/// Appends to a value, with a separator before all that is appended to a value that is there.
///
/// ```
/// use keyrack_flodb::{Append, Db, Options};
/// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
/// let options = Options::new().merge_operator(Append::new(b","));
/// let db = Db::open_in(fs, "/store".as_ref(), options)?;
/// db.merge(b"names", b"ada")?;
/// db.merge(b"names", b"bob")?;
/// assert_eq!(db.get(b"names")?, Some(b"ada,bob".to_vec()));
/// # Ok::<(), keyrack_flodb::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Append {
    separator: Vec<u8>,
    name: String,
}

impl Append {
    /// With this separator, which may be empty. It is part of the operator's name.
    ///
    /// ```
    /// # use keyrack_flodb::{Append, MergeOperator};
    /// let lines = Append::new(b"\n");
    /// assert_eq!(lines.merge(b"key", Some(b"a"), &[b"b"]), Some(b"a\nb".to_vec()));
    /// ```
    #[must_use]
    pub fn new(separator: &[u8]) -> Self {
        let digits: String = separator.iter().map(|byte| format!("{byte:02x}")).collect();
        Append { separator: separator.to_vec(), name: format!("{APPEND}{digits}") }
    }

    fn of_digits(digits: &str) -> Option<Self> {
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let separator: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        separator.filter(|_| rest.is_empty()).map(|separator| Append::new(&separator))
    }
}

impl MergeOperator for Append {
    fn name(&self) -> &str {
        &self.name
    }

    fn merge(&self, _key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let parts: Vec<&[u8]> = existing.into_iter().chain(operands.iter().copied()).collect();
        Some(parts.join(&self.separator[..]))
    }

    fn combine(&self, _key: &[u8], first: &[u8], second: &[u8]) -> Option<Vec<u8>> {
        Some([first, &self.separator, second].concat())
    }
}

/// Adds members to a set. Values and operands are sets: [`SetUnion::encode`] makes one, and
/// [`SetUnion::members`] reads one, in the order of bytes.
///
/// ```
/// use keyrack_flodb::{Db, Options, SetUnion};
/// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
/// let db = Db::open_in(fs, "/store".as_ref(), Options::new().merge_operator(SetUnion))?;
/// db.merge(b"tags", &SetUnion::encode([b"red", b"big"]))?;
/// db.merge(b"tags", &SetUnion::encode([b"red", b"old"]))?;
/// let value = db.get(b"tags")?.expect("it was just written");
/// assert_eq!(SetUnion::members(&value), Some(vec![&b"big"[..], b"old", b"red"]));
/// # Ok::<(), keyrack_flodb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SetUnion;

impl SetUnion {
    /// The set of these members: each with its length before it, as a varint.
    ///
    /// ```
    /// # use keyrack_flodb::SetUnion;
    /// assert_eq!(SetUnion::encode([&b"b"[..], b"aa"]), b"\x02aa\x01b");
    /// ```
    #[must_use]
    pub fn encode<M: AsRef<[u8]>>(members: impl IntoIterator<Item = M>) -> Vec<u8> {
        let members: Vec<M> = members.into_iter().collect();
        let sorted: BTreeSet<&[u8]> = members.iter().map(AsRef::as_ref).collect();
        let mut set = Vec::new();
        sorted.into_iter().for_each(|member| put_string(&mut set, member));
        set
    }

    /// The members of a set, in the order of bytes. `None` if it is not one.
    ///
    /// ```
    /// # use keyrack_flodb::SetUnion;
    /// assert_eq!(SetUnion::members(b"\x02aa\x01b"), Some(vec![&b"aa"[..], b"b"]));
    /// assert_eq!(SetUnion::members(b"\x05aa"), None);
    /// ```
    #[must_use]
    pub fn members(set: &[u8]) -> Option<Vec<&[u8]>> {
        let mut reader = Reader::new(set);
        let mut members = Vec::new();
        while !reader.is_empty() {
            members.push(reader.string()?);
        }
        Some(members)
    }
}

impl MergeOperator for SetUnion {
    fn name(&self) -> &str {
        SET_UNION
    }

    fn merge(&self, _key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let sets = existing.into_iter().chain(operands.iter().copied());
        let members: Option<Vec<Vec<&[u8]>>> = sets.map(SetUnion::members).collect();
        Some(SetUnion::encode(members?.concat()))
    }

    fn combine(&self, key: &[u8], first: &[u8], second: &[u8]) -> Option<Vec<u8>> {
        self.merge(key, Some(first), &[second])
    }
}

/// The operator of this module that has a name.
fn built_in(name: &str) -> Option<Arc<dyn MergeOperator>> {
    match name {
        COUNTER => Some(Arc::new(Counter)),
        SET_UNION => Some(Arc::new(SetUnion)),
        _ => {
            let append = name.strip_prefix(APPEND).and_then(Append::of_digits)?;
            Some(Arc::new(append))
        }
    }
}

/// The operator of an open store, and whether the store has operands.
#[derive(Debug)]
pub(crate) struct Merges {
    /// Empty if the store has none. It never changes.
    operator: OnceLock<Arc<dyn MergeOperator>>,
    is_used: AtomicBool,
}

impl Merges {
    /// Of a store that is opened with `given`, and has had operands of the operator `stored`.
    ///
    /// # Errors
    /// [`Error::Usage`] if there are operands, and it is not their operator.
    pub(crate) fn new(
        given: Option<Arc<dyn MergeOperator>>,
        stored: Option<&str>,
        has_operands: bool,
        dir: &Path,
    ) -> Result<Self> {
        let dir = dir.display();
        let operator = match (given, stored) {
            (Some(given), Some(stored)) if given.name() != stored => {
                let given = given.name();
                return Err(Error::Usage(format!(
                    "{dir}: written with the merge operator '{stored}', not with '{given}'"
                )));
            }
            (Some(given), _) => Some(given),
            (None, Some(stored)) => match built_in(stored) {
                Some(operator) => Some(operator),
                None => {
                    return Err(Error::Usage(format!(
                        "{dir}: written with the merge operator '{stored}'; open it with that"
                    )));
                }
            },
            (None, None) => None,
        };
        if operator.is_none() && has_operands {
            return Err(Error::Usage(format!(
                "{dir}: holds operands; open it with the merge operator that they are for"
            )));
        }
        let is_used = AtomicBool::new(stored.is_some() || has_operands);
        Ok(Merges { operator: operator.map_or_else(OnceLock::new, OnceLock::from), is_used })
    }

    /// Takes the operator `name`, whose operands come next from the log of another store, unless it
    /// has that one.
    ///
    /// # Errors
    /// [`Error::Usage`] if it has another one, or if no operator of this module has the name.
    pub(crate) fn adopt(&self, name: &str, dir: &Path) -> Result<()> {
        if self.operator.get().is_none()
            && let Some(operator) = built_in(name)
        {
            self.operator.get_or_init(|| operator);
        }
        let dir = dir.display();
        match self.operator.get().map(|operator| operator.name()) {
            Some(own) if own == name => Ok(()),
            Some(own) => Err(Error::Usage(format!(
                "{dir}: the log has operands of the merge operator '{name}', not of '{own}'"
            ))),
            None => Err(Error::Usage(format!(
                "{dir}: the log has operands of the merge operator '{name}'; restore it with a \
                 program that has this operator"
            ))),
        }
    }

    /// The name that the manifest has to have before the first operand; `None` if it has it.
    ///
    /// # Errors
    /// [`Error::Usage`] without an operator.
    pub(crate) fn name_to_store(&self) -> Result<Option<&str>> {
        // Acquire, pairs with `set_used`.
        if self.is_used.load(Ordering::Acquire) {
            return Ok(None);
        }
        self.operator().map(|operator| Some(operator.name()))
    }

    pub(crate) fn set_used(&self) {
        self.is_used.store(true, Ordering::Release);
    }

    /// The name that is stored.
    pub(crate) fn stored_name(&self) -> Option<&str> {
        let operator = self.operator.get()?;
        self.is_used.load(Ordering::Acquire).then(|| operator.name())
    }

    fn operator(&self) -> Result<&dyn MergeOperator> {
        self.operator.get().map(AsRef::as_ref).ok_or_else(|| {
            Error::Usage("merge needs a store that is opened with a merge_operator".to_owned())
        })
    }

    /// The value after operands, the oldest first.
    ///
    /// # Errors
    /// [`Error::Usage`] if they do not fit each other.
    pub(crate) fn merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>> {
        let operator = self.operator()?;
        operator.merge(key, existing, operands).ok_or_else(|| {
            let (name, key) = (operator.name(), key.escape_ascii());
            Error::Usage(format!(
                "the merge operator '{name}' cannot merge what the key '{key}' has with its \
                 operands"
            ))
        })
    }

    /// One operand for several, the oldest first. `None` if there is none.
    pub(crate) fn combine_all(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let operator = self.operator.get()?;
        let (first, later) = operands.split_first()?;
        later.iter().try_fold(first.to_vec(), |all, next| operator.combine(key, &all, next))
    }

    /// The value after operands for a build. `None` if they do not fit each other.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if the operator panics.
    pub(crate) fn try_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Option<Vec<u8>>> {
        let operator = self.operator()?;
        caught(operator, || operator.merge(key, existing, operands))
    }

    /// One operand for two, for a build.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if the operator panics.
    pub(crate) fn try_combine(
        &self,
        key: &[u8],
        first: &[u8],
        second: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let operator = self.operator()?;
        caught(operator, || operator.combine(key, first, second))
    }
}

fn caught(
    operator: &dyn MergeOperator,
    call: impl FnOnce() -> Option<Vec<u8>>,
) -> Result<Option<Vec<u8>>> {
    // What it leaves half done is its own.
    catch_unwind(AssertUnwindSafe(call)).map_err(|_| {
        Error::Poisoned(format!("the merge operator '{}' has panicked", operator.name()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_testkit::random::{Announced, Draw, seeds};

    /// However operands are combined, the value is the same.
    #[test]
    fn the_built_in_operators_are_associative() {
        let operators: [&dyn MergeOperator; 4] =
            [&Counter, &SetUnion, &Append::new(b","), &Append::new(b"")];
        for seed in seeds() {
            let (mut draw, _announced) = (Draw::new(seed), Announced(seed));
            for operator in operators {
                let operand = |draw: &mut Draw| match operator.name() {
                    COUNTER => draw.next().to_le_bytes().to_vec(),
                    SET_UNION => SetUnion::encode((0..draw.below(4)).map(|_| draw.bytes(1))),
                    _ => draw.bytes(3),
                };
                let mut operands: Vec<Vec<u8>> = (0..6).map(|_| operand(&mut draw)).collect();
                let existing = (draw.below(2) == 0).then(|| operand(&mut draw));
                let merged = |operands: &[Vec<u8>]| {
                    let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
                    operator.merge(b"key", existing.as_deref(), &operands).unwrap()
                };
                let expected = merged(&operands);
                while operands.len() > 1 {
                    let at = draw.below(operands.len() - 1);
                    let second = operands.remove(at + 1);
                    operands[at] = operator.combine(b"key", &operands[at], &second).unwrap();
                    assert_eq!(merged(&operands), expected, "{}", operator.name());
                }
            }
        }
    }

    #[test]
    fn what_is_no_counter_and_no_set_is_not_merged() {
        assert_eq!(Counter.merge(b"", Some(b"seven"), &[&[0; 8]]), None);
        assert_eq!(Counter.merge(b"", None, &[b"x"]), None);
        assert_eq!(Counter.combine(b"", &[0; 8], b"x"), None);
        assert_eq!(SetUnion.merge(b"", Some(b"\x09"), &[]), None);
        let most = u64::MAX.to_le_bytes();
        assert_eq!(Counter.merge(b"", Some(&most), &[&1_u64.to_le_bytes()]), Some(vec![0; 8]));
    }

    #[test]
    fn built_in_operators_are_found_by_their_names() {
        for name in [COUNTER, SET_UNION, "keyrack.append:", "keyrack.append:2c0a"] {
            assert_eq!(built_in(name).unwrap().name(), name);
        }
        for name in ["", "keyrack.append:2", "keyrack.append:zz", "keyrack.counters"] {
            assert!(built_in(name).is_none(), "{name}");
        }
    }

    #[test]
    fn a_store_opens_with_its_own_operator() {
        let dir = Path::new("/store");
        let open = |given: Option<Arc<dyn MergeOperator>>, stored, has_operands| {
            Merges::new(given, stored, has_operands, dir).map_err(|error| error.to_string())
        };
        assert!(open(None, None, false).unwrap().name_to_store().is_err());
        let counter: Arc<dyn MergeOperator> = Arc::new(Counter);
        let fresh = open(Some(Arc::clone(&counter)), None, false).unwrap();
        assert_eq!((fresh.name_to_store().unwrap(), fresh.stored_name()), (Some(COUNTER), None));
        fresh.set_used();
        assert_eq!((fresh.name_to_store().unwrap(), fresh.stored_name()), (None, Some(COUNTER)));
        assert!(open(None, Some(COUNTER), true).is_ok(), "found by its name");
        let refused = open(Some(counter), Some("theirs"), true).unwrap_err();
        assert!(refused.contains("'theirs', not with 'keyrack.counter'"), "{refused}");
        assert!(open(None, Some("theirs"), false).unwrap_err().contains("'theirs'"));
        assert!(open(None, None, true).unwrap_err().contains("holds operands"));
    }

    #[test]
    fn a_store_without_an_operator_takes_that_of_a_log() {
        let dir = Path::new("/store");
        let none = Merges::new(None, None, false, dir).unwrap();
        let refused = none.adopt("theirs", dir).unwrap_err().to_string();
        assert!(refused.contains("'theirs'; restore it with a program"), "{refused}");
        assert!(none.name_to_store().is_err(), "it still has none");
        none.adopt("keyrack.append:2c", dir).unwrap();
        none.adopt("keyrack.append:2c", dir).unwrap();
        assert_eq!(none.name_to_store().unwrap(), Some("keyrack.append:2c"));
        let refused = none.adopt(COUNTER, dir).unwrap_err().to_string();
        assert!(refused.contains("'keyrack.counter', not of 'keyrack.append:2c'"), "{refused}");
    }
}
