//! The options of a chore, as its function sees them: switches, numbers, one operand.

/// The options given to a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) given: Vec<(&'static str, Option<u64>)>,
    pub(crate) operand: Option<String>,
}

impl Options {
    /// Whether a switch was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.iter().any(|(given, _)| *given == name)
    }

    /// The word without dashes.
    pub(crate) fn operand(&self) -> Option<&str> {
        self.operand.as_deref()
    }

    /// The number given with an option. The last one wins.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.given.iter().rev().find(|(given, _)| *given == name).and_then(|(_, number)| *number)
    }
}
