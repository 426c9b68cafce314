//! Reading recorded runs, and how that fails.

use keyrack_record::Run;

/// Why a comparison could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text is not a run that this version reads.
    #[error("cannot read run '{name}': {source}")]
    Unreadable {
        /// What the caller called it: its path.
        name: String,
        /// Why.
        source: keyrack_record::Error,
    },
    /// A run without a single measured cell.
    #[error("run '{name}' holds no measured cell")]
    Nothing {
        /// What the caller called it: its path.
        name: String,
    },
    /// A `timeline.tsv` that is none.
    #[error("cannot read samples '{name}', line {line}: {what}")]
    Samples {
        /// What the caller called it: its path.
        name: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong there.
        what: String,
    },
    /// A palette that is none.
    #[error("cannot read palette '{name}', line {line}: {what}")]
    Palette {
        /// What the caller called it: its path.
        name: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong there.
        what: String,
    },
}

/// Reads a run from its JSON text. `name` is for messages.
///
/// # Errors
/// [`Error::Unreadable`] for a text that is not a run, [`Error::Nothing`] for one without points.
pub fn load(name: &str, text: &str) -> Result<Run, Error> {
    let run = Run::from_json(text)
        .map_err(|source| Error::Unreadable { name: name.to_owned(), source })?;
    if run.points.is_empty() {
        return Err(Error::Nothing { name: name.to_owned() });
    }
    Ok(run)
}
