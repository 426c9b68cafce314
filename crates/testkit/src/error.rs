//! What can be wrong with a script itself. A wrong answer of an engine is not an error here: it
//! shows as a difference in the text.

/// Why a script could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A line of the script is not in the language.
    #[error("line {line}: {message}")]
    Script {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
}
