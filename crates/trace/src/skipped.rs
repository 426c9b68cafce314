//! The operations that a reader skips.

/// Counts of skipped operations, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped(Vec<(&'static str, u64)>);

impl Skipped {
    pub(crate) fn add(&mut self, what: &'static str, count: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == what) {
            Some((_, sum)) => *sum += count,
            None => self.0.push((what, count)),
        }
    }

    /// One line, such as `3 removals of ranges`; `None` if nothing was skipped.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        let parts: Vec<String> =
            self.0.iter().map(|(what, count)| format!("{count} {what}")).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}
