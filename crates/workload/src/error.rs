//! What can be wrong with a description of a workload.
//!
//! Everything in this crate is checked when a source is built. A source that was built never
//! fails: drawing from it returns a plain value. All errors are therefore the caller's mistake, and
//! each one names the offending text or number and says what was expected.

/// A mistake in the description of keys, values, sizes, arrivals or mixes.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pattern of a key format could not be read.
    #[error("key format {pattern:?}: {problem}")]
    KeyFormat {
        /// The pattern as given.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The text that names a distribution, an arrival process or a verb could not be read.
    #[error("{what} {text:?}: {problem}")]
    Syntax {
        /// What the text should have named, such as `key distribution`.
        what: &'static str,
        /// The text as given.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A number lies outside its range.
    #[error("{name} is {value}, expected {expected}")]
    Parameter {
        /// The parameter, such as `theta`.
        name: &'static str,
        /// Its value, as text.
        value: String,
        /// The range that is accepted, in words.
        expected: &'static str,
    },
    /// The distribution needs a shared counter and none was given.
    #[error("distribution `insert` needs a shared counter")]
    CounterMissing,
    /// A mix refers to something that it does not contain.
    #[error("workload {workload:?}: {problem}")]
    Mix {
        /// The name of the mix.
        workload: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Error {
    /// Builds an [`Error::Parameter`].
    pub(crate) fn parameter(
        name: &'static str,
        value: impl ToString,
        expected: &'static str,
    ) -> Self {
        Error::Parameter { name, value: value.to_string(), expected }
    }

    /// An [`Error::Parameter`] unless the value `is_fine`.
    pub(crate) fn check(
        name: &'static str,
        value: impl ToString,
        is_fine: bool,
        expected: &'static str,
    ) -> Result<(), Self> {
        if is_fine { Ok(()) } else { Err(Error::parameter(name, value, expected)) }
    }

    /// Builds an [`Error::Syntax`].
    pub(crate) fn syntax(what: &'static str, text: &str, problem: impl Into<String>) -> Self {
        Error::Syntax { what, text: text.to_owned(), problem: problem.into() }
    }
}
