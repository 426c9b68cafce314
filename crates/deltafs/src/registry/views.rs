//! Lists of publications: views, and what a log that is still being written was begun on.

use super::handle::Registry;
use super::list::List;
use super::names::{below, check_registry_name};
use super::publication::Reference;
use crate::error::{Error, Result};
use crate::id::LogId;

impl Registry {
    /// The names of lists.
    ///
    /// # Errors
    /// The machine's.
    pub fn views(&self) -> Result<Vec<String>> {
        self.listed("views")
    }

    /// What the list of that name has.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Corruption`].
    pub fn view(&self, name: &str) -> Result<Vec<Reference>> {
        check_registry_name(name)?;
        let listed = self.references(&format!("views/{name}"))?;
        listed.ok_or_else(|| Error::NotFound(format!("a view '{name}' in {}", self.location())))
    }

    /// Gives a list a name, or another list to the name. At one stroke.
    ///
    /// # Errors
    /// [`Error::Usage`] for a name that cannot be one, or that publications have;
    /// [`Error::Conflict`] if somebody changes the view meanwhile; the machine's.
    pub fn save_view(&self, name: &str, references: &[Reference]) -> Result<()> {
        check_registry_name(name)?;
        if !self.versions(name)?.is_empty() {
            return Err(Error::Usage(format!("'{name}' is the name of a publication already")));
        }
        if self.save(&format!("views/{name}"), references)? {
            Ok(())
        } else {
            Err(Error::Conflict(format!(
                "the view '{name}' was changed by somebody else meanwhile; look at it, and save it \
                 again"
            )))
        }
    }

    /// Notes that a log was begun on these, so that they stay.
    ///
    /// # Errors
    /// The machine's.
    pub fn hold(&self, log: LogId, references: &[Reference]) -> Result<()> {
        if self.save(&format!("holds/{log}"), references)? {
            Ok(())
        } else {
            Err(Error::Conflict(format!(
                "what the log {log} was begun on is being noted by somebody else; begin it again"
            )))
        }
    }

    /// A list of publications; `None` if there is none of that name.
    pub(super) fn references(&self, name: &str) -> Result<Option<Vec<Reference>>> {
        // First: a text is there before its note.
        let noted = self.noted(name)?.last().copied();
        let at = below(name)?;
        let Some(text) = self.storage.get(&at)? else {
            return match noted {
                Some(revision) => Err(self.gone(name, &format!("{name}/{revision}"))?),
                None => Ok(None),
            };
        };
        let list = List::read(name, &text.bytes)?.map_err(|flaw| self.damaged(&at, flaw))?;
        if let Some(noted) = noted.filter(|noted| list.revision < *noted) {
            let what = format!("it is revision {}, and {noted} was saved", list.revision);
            return Err(self.damaged(&at, what));
        }
        match list.references.iter().find_map(Reference::flaw) {
            None => Ok(Some(list.references)),
            Some(flaw) => Err(self.damaged(&at, flaw)),
        }
    }

    /// Whether nobody else has written it meanwhile. A list that is gone or damaged is replaced.
    fn save(&self, name: &str, references: &[Reference]) -> Result<bool> {
        let at = below(name)?;
        let noted = self.noted(name)?;
        let seen = self.storage.get(&at)?;
        let old = match &seen {
            Some(seen) => List::read(name, &seen.bytes)?.map_or(0, |list| list.revision),
            None => 0,
        };
        let revision = noted.last().copied().unwrap_or(0).max(old) + 1;
        let text = serde_json::to_vec(&List::new(name, revision, references)?)
            .map_err(|error| Error::Usage(error.to_string()))?;
        let is_saved = match seen {
            Some(seen) => self.storage.replace(&at, &text, &seen.tag)?,
            None => self.storage.create(&at, &text)?,
        };
        if is_saved {
            self.note(name, revision)?;
            noted.into_iter().try_for_each(|old| self.strike(name, old))?;
        }
        Ok(is_saved)
    }
}
