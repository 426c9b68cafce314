//! By which prefixes tables get filters: what the program chooses.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The longest name of a rule.
const NAME_BYTES_MAX: usize = 255;

/// Names that begin so are those of the extractors here.
const OWN_NAMES: &str = "keyrack.";

/// Which prefix a key has, for
/// [`Options::prefix_extractor`](field@crate::Options::prefix_extractor).
///
/// ```
/// use keyrack_flodb::{Db, Options, PrefixExtractor};
/// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
///
/// // Keys are `user/event`: the prefix is `user/`.
/// let options = Options::new().prefix_extractor(PrefixExtractor::Separator(b'/'));
/// let db = Db::open_in(fs, "/store".as_ref(), options)?;
/// db.put(b"ada/2026-01-01", b"login")?;
/// db.put(b"cyd/2026-01-02", b"login")?;
/// db.flush()?;
/// // The table's filter knows that nothing begins with `bob/`: no block is read.
/// assert_eq!(db.prefix("bob/").count(), 0);
/// assert_eq!(db.property("keyrack.prefix_filters_refused").as_deref(), Some("1"));
/// # Ok::<(), keyrack_flodb::Error>(())
/// ```
#[derive(Clone)]
pub enum PrefixExtractor {
    /// The first so many bytes, at least 1. A shorter key has no prefix.
    Fixed(usize),
    /// The bytes up to the first one of this value, which is included. A key without it has no
    /// prefix.
    Separator(u8),
    /// By a rule of the program's.
    Custom(Arc<dyn PrefixRule>),
}

/// A rule by which keys have prefixes; [`PrefixExtractor::Custom`] takes it.
///
/// # The law
/// Every key that begins with the prefix of some key has that prefix itself. So the keys of a
/// prefix stand together, and no other key is among them. A rule that breaks this hides keys from
/// reads of ranges. Builds with debug assertions check it on the keys that they write and ask for,
/// and panic; [`verify`](crate::verify()) with the rule reports keys that are hidden.
///
/// ```
/// use keyrack_flodb::{Options, PrefixExtractor, PrefixRule};
/// use std::sync::Arc;
///
/// /// Keys begin with a byte that says how long the tenant's name behind it is.
/// struct Tenant;
///
/// impl PrefixRule for Tenant {
///     fn name(&self) -> &str {
///         "example.tenant"
///     }
///
///     fn prefix_bytes(&self, key: &[u8]) -> Option<usize> {
///         let bytes = 1 + usize::from(*key.first()?);
///         (bytes <= key.len()).then_some(bytes)
///     }
/// }
///
/// let options = Options::new().prefix_extractor(PrefixExtractor::Custom(Arc::new(Tenant)));
/// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
/// # let db = keyrack_flodb::Db::open_in(fs, "/store".as_ref(), options)?;
/// # db.put(b"\x03adaevent", b"")?;
/// # db.flush()?;
/// # assert_eq!((db.prefix(b"\x03ada").count(), db.prefix(b"\x03bob").count()), (1, 0));
/// # Ok::<(), keyrack_flodb::Error>(())
/// ```
pub trait PrefixRule: Send + Sync {
    /// Names the rule: 1 to 255 bytes, stored in each table. A changed rule needs a new name.
    /// Names that begin with `keyrack.` are taken.
    fn name(&self) -> &str;

    /// How many bytes of `key` its prefix has, at most all; `None` if it has none. A key is as the
    /// program has it: without what a key space puts before it.
    fn prefix_bytes(&self, key: &[u8]) -> Option<usize>;
}

impl fmt::Debug for PrefixExtractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PrefixExtractor").field(&self.name()).finish()
    }
}

impl PrefixExtractor {
    /// As stored in tables.
    ///
    /// ```
    /// use keyrack_flodb::PrefixExtractor;
    ///
    /// assert_eq!(PrefixExtractor::Fixed(8).name(), "keyrack.fixed-8");
    /// assert_eq!(PrefixExtractor::Separator(b'/').name(), "keyrack.separator-2f");
    /// ```
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            PrefixExtractor::Fixed(bytes) => format!("{OWN_NAMES}fixed-{bytes}").into(),
            PrefixExtractor::Separator(byte) => format!("{OWN_NAMES}separator-{byte:02x}").into(),
            PrefixExtractor::Custom(rule) => rule.name().into(),
        }
    }

    /// The prefix of `key`, if it has one.
    ///
    /// ```
    /// use keyrack_flodb::PrefixExtractor;
    ///
    /// let extractor = PrefixExtractor::Separator(b'/');
    /// assert_eq!(extractor.prefix_of(b"ada/2026/01"), Some(&b"ada/"[..]));
    /// assert_eq!(extractor.prefix_of(b"ada"), None);
    /// assert_eq!(PrefixExtractor::Fixed(3).prefix_of(b"ada/2026"), Some(&b"ada"[..]));
    /// ```
    #[must_use]
    #[inline]
    pub fn prefix_of<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let bytes = match self {
            PrefixExtractor::Fixed(bytes) => Some(*bytes),
            PrefixExtractor::Separator(byte) => {
                key.iter().position(|it| it == byte).map(|at| at + 1)
            }
            PrefixExtractor::Custom(rule) => rule.prefix_bytes(key),
        };
        // A fixed prefix may be longer than the key.
        key.get(..bytes?)
    }

    /// Why no store can have it, if that is so.
    pub(crate) fn fault(&self) -> Option<String> {
        match self {
            PrefixExtractor::Fixed(0) => Some("a fixed prefix must have at least 1 byte".into()),
            PrefixExtractor::Fixed(_) | PrefixExtractor::Separator(_) => None,
            PrefixExtractor::Custom(rule) => {
                let name = rule.name();
                if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
                    let bytes = name.len();
                    return Some(format!(
                        "the name of a rule must have 1 to 255 bytes (got {bytes})"
                    ));
                }
                let is_taken = name.starts_with(OWN_NAMES);
                is_taken.then(|| format!("a rule must not be named {OWN_NAMES}* (got {name:?})"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_testkit::random::{Draw, seeds};

    #[test]
    fn prefixes_are_cut_where_the_extractor_says() {
        let fixed = PrefixExtractor::Fixed(2);
        assert_eq!(
            ["", "a", "ab", "abc"].map(|key| fixed.prefix_of(key.as_bytes()).is_some()),
            [false, false, true, true]
        );
        assert_eq!(fixed.prefix_of(b"abc"), Some(&b"ab"[..]));
        let separator = PrefixExtractor::Separator(0);
        assert_eq!(separator.prefix_of(b"\0\0"), Some(&b"\0"[..]));
        assert_eq!(separator.prefix_of(b"ab\0c\0"), Some(&b"ab\0"[..]));
        assert_eq!(separator.prefix_of(b"ab"), None);
    }

    #[test]
    fn the_extractors_here_keep_the_law() {
        let extractors = [1, 2, 3].map(PrefixExtractor::Fixed).into_iter();
        let extractors: Vec<_> = extractors.chain([PrefixExtractor::Separator(1)]).collect();
        for seed in seeds() {
            let mut draw = Draw::new(seed);
            let key = |draw: &mut Draw| -> Vec<u8> {
                (0..draw.below(6)).map(|_| draw.below(3) as u8).collect()
            };
            for _ in 0..20_000 {
                let (one, other) = (key(&mut draw), key(&mut draw));
                for extractor in &extractors {
                    let Some(prefix) = extractor.prefix_of(&one) else { continue };
                    let what = format!("SEED={seed}: {extractor:?} {one:?} {other:?}");
                    assert_eq!(extractor.prefix_of(prefix), Some(prefix), "{what}");
                    let is_of = extractor.prefix_of(&other) == Some(prefix);
                    assert_eq!(other.starts_with(prefix), is_of, "{what}");
                }
            }
        }
    }
}
