//! What has to be there: a registry notices that a text is gone, or is an earlier one.
//!
//! ```text
//!   names/job/3            ledger/names/job/3       version 3 was published
//!   views/all              ledger/views/all/7       revision 7 of the list was saved
//!   holds/LOG              ledger/holds/LOG/1
//! ```
//!
//! A note is an empty text. It is made after the text that it is about, and removed before that, so
//! a crash leaves a text without a note and never the reverse. A reader asks for the notes first.
//! A registry of an older program has no notes; the next publication and the next list make them.
//!
//! **Invariant:** the text of a list has a revision that is not below any note of it.

use super::handle::Registry;
use super::names::below;
use crate::error::{Error, Result};

impl Registry {
    /// The numbers that are noted of something, ascending.
    pub(super) fn noted(&self, of: &str) -> Result<Vec<u64>> {
        Ok(numbers(&self.storage.list(&below(&format!("ledger/{of}"))?)?))
    }

    /// Notes a number, if it is not noted.
    pub(super) fn note(&self, of: &str, number: u64) -> Result<()> {
        // Somebody else may have noted it.
        let _is_new = self.storage.create(&below(&format!("ledger/{of}/{number}"))?, b"")?;
        Ok(())
    }

    /// Takes a note back.
    pub(super) fn strike(&self, of: &str, number: u64) -> Result<()> {
        self.storage.remove(&below(&format!("ledger/{of}/{number}"))?)
    }

    /// What is in `names`, `views` or `holds`, with what the ledger has of it and is gone.
    pub(super) fn listed(&self, kind: &str) -> Result<Vec<String>> {
        let noted = self.storage.list(&below(&format!("ledger/{kind}"))?)?;
        let mut listed = self.storage.list(&below(kind)?)?;
        for name in noted {
            if !listed.contains(&name) && !self.noted(&format!("{kind}/{name}"))?.is_empty() {
                listed.push(name);
            }
        }
        listed.sort_unstable();
        Ok(listed)
    }

    /// The versions of a name, those that are gone among them: the versions, and what is gone.
    pub(super) fn versions_noted(&self, name: &str) -> Result<(Vec<u64>, Vec<u64>)> {
        let of = format!("names/{name}");
        let noted = self.noted(&of)?;
        // Another spelling of a number, and whatever else is there, is no version.
        let versions = numbers(&self.storage.list(&below(&of)?)?);
        let is_gone = |number: &u64| !versions.contains(number);
        let mut gone: Vec<u64> = noted.into_iter().filter(is_gone).collect();
        if !gone.is_empty() {
            // Somebody may have removed a version meanwhile: its note goes first.
            let noted = self.noted(&of)?;
            gone.retain(|number| noted.contains(number));
        }
        Ok((versions, gone))
    }

    /// The error of a text that has to be there, as `note` in the ledger says.
    pub(super) fn gone(&self, text: &str, note: &str) -> Result<Error> {
        let note = below(&format!("ledger/{note}"))?.under(&self.storage.root());
        let what = format!(
            "it is missing, and {} says that it was written; restore it, or remove that note to do \
             without it",
            note.display()
        );
        Ok(self.damaged(&below(text)?, what))
    }

    /// The error of a version that has to be there.
    pub(super) fn version_gone(&self, name: &str, version: u64) -> Result<Error> {
        let at = format!("names/{name}/{version}");
        self.gone(&at, &at)
    }
}

fn numbers(names: &[String]) -> Vec<u64> {
    let number = |name: &String| name.parse().ok().filter(|n: &u64| n.to_string() == *name);
    let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}
