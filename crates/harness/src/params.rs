//! Parameters of scripts: `kb.param("name", default)` in the script, `-P name=value` on the command
//! line. The default gives the type; a value that does not parse as it is an error, and so is a
//! name that no script asks for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The values given, and which names scripts have asked for.
#[derive(Clone, Debug, Default)]
pub struct Params {
    given: Vec<(String, String)>,
    asked: Arc<Mutex<BTreeSet<String>>>,
}

impl Params {
    /// Parameters with the given values; of one name given twice the last counts.
    #[must_use]
    pub fn new(given: Vec<(String, String)>) -> Self {
        Params { given, asked: Arc::default() }
    }

    /// These parameters, overridden by `more`, with the same memory of what was asked for.
    #[must_use]
    pub fn with(&self, more: &[(String, String)]) -> Self {
        let mut given = self.given.clone();
        given.extend_from_slice(more);
        Params { given, asked: Arc::clone(&self.asked) }
    }

    /// The value given for `name`; remembers that it was asked for.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        self.given.iter().rev().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Values given.
    #[must_use]
    pub fn given(&self) -> &[(String, String)] {
        &self.given
    }

    /// Names given that nothing has asked for, and the names that were asked for.
    #[must_use]
    pub fn unasked(&self) -> (Vec<String>, Vec<String>) {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let unasked = self.given.iter().map(|(name, _)| name).filter(|name| !asked.contains(*name));
        (unasked.cloned().collect(), asked.iter().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn the_last_value_counts_and_a_workloads_own_comes_last() {
        let params = Params::new(pairs(&[("a", "1"), ("a", "2"), ("b", "3")]));
        assert_eq!(
            (params.get("a"), params.get("b"), params.get("c")),
            (Some("2"), Some("3"), None)
        );
        let own = params.with(&pairs(&[("b", "4")]));
        assert_eq!((own.get("a"), own.get("b")), (Some("2"), Some("4")));
        assert_eq!(params.get("b"), Some("3"));
    }

    #[test]
    fn names_that_nobody_asks_for_are_known_through_every_copy() {
        let params = Params::new(pairs(&[("used", "1"), ("typo", "2")]));
        let copy = params.with(&[]);
        assert_eq!(copy.get("used"), Some("1"));
        assert_eq!(copy.get("absent"), None);
        let (unasked, asked) = params.unasked();
        assert_eq!(unasked, ["typo"]);
        assert_eq!(asked, ["absent", "used"]);
    }
}
