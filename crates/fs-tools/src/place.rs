//! Where a tool works: a log, publications that are read instead of it, and who asks.
//!
//! | field | is |
//! |---|---|
//! | `db` | the log that is written to; the first change makes it |
//! | `view` | publications that are only read, instead |
//! | `registry` | the directory of publications; `registry` in `db` if it is not given |
//! | `store` | the same in an object store |

use keyrack_console::Failure;
use keyrack_deltafs::{LogHead, LogId, Namespace, Quota, Reference, Registry, Settings, User};
use keyrack_objects::{Access, Address};
use keyrack_vfs::{Fs, RealFs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a tool works. Lists of publications stand between commas, the highest first.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The directory of the log.
    pub db: Option<PathBuf>,
    /// The directory of publications.
    pub registry: Option<PathBuf>,
    /// The object store of publications.
    pub store: Option<String>,
    /// Publications to read instead of the log.
    pub view: Option<String>,
    /// Publications that a new log begins on.
    pub base: Option<String>,
    /// Who asks; user 0 if nobody is named.
    pub user: Option<User>,
    /// The limits of the log while it is open.
    pub quota: Quota,
}

/// The words of a list.
fn list(given: &str) -> Vec<&str> {
    given.split(',').filter(|word| !word.is_empty()).collect()
}

impl Place {
    /// Who asks.
    pub(crate) fn user(&self) -> User {
        self.user.clone().unwrap_or_else(User::root)
    }

    /// The directory of the log.
    pub(crate) fn log_dir(&self) -> Result<&Path, Failure> {
        self.db
            .as_deref()
            .ok_or_else(|| Failure::Usage("missing --db DIR, the directory of the log".to_owned()))
    }

    /// The registry of publications.
    pub(crate) fn registry(&self) -> Result<Registry, Failure> {
        if let Some(address) = &self.store {
            let (address, access) = (Address::parse(address)?, Access::of_environment());
            return Ok(keyrack_objects::registry(&address, &access, Arc::new(RealFs))?);
        }
        match (&self.registry, &self.db) {
            (Some(dir), _) => Ok(Registry::new(dir)),
            (None, Some(dir)) => Ok(Registry::new(dir.join("registry"))),
            (None, None) => Err(Failure::Usage(
                "missing --registry DIR or --store ADDRESS, where publications are".to_owned(),
            )),
        }
    }

    /// The directories of the logs that a log began on, and the file system that has all of them.
    fn lower_of(&self, head: &LogHead) -> Result<(Arc<dyn Fs>, Vec<PathBuf>), Failure> {
        if head.base.is_empty() {
            return Ok((Arc::new(RealFs), Vec::new()));
        }
        let registry = self.registry()?;
        Ok((registry.fs(), registry.log_dirs(&head.base)?))
    }

    /// Opens the log, which has to be there.
    pub(crate) fn open(&self) -> Result<Namespace, Failure> {
        let dir = self.log_dir()?;
        let head = LogHead::read(&(Arc::new(RealFs) as Arc<dyn Fs>), dir)?;
        self.open_with(&head.ok_or_else(|| no_log(dir))?)
    }

    /// Opens the log, and makes it if it is not there.
    pub(crate) fn open_or_begin(&self) -> Result<Namespace, Failure> {
        let dir = self.log_dir()?;
        let mut fs: Arc<dyn Fs> = Arc::new(RealFs);
        let head = LogHead::read(&fs, dir)?;
        match (&head, &self.base) {
            (Some(_), Some(_)) => Err(Failure::Usage(format!(
                "{}: the log exists, so --base comes too late; begin another log",
                dir.display()
            ))),
            (Some(head), None) => self.open_with(head),
            (None, base) => {
                let mut settings = Settings { quota: self.quota, ..Settings::default() };
                if let Some(words) = base {
                    let registry = self.registry()?;
                    settings.base = registry.with_bases(&registry.resolve(&list(words))?)?;
                    settings.lower = registry.log_dirs(&settings.base)?;
                    fs = registry.fs();
                    // The note comes before the log. A crash in between leaves a note too many, and
                    // no log without a note.
                    let log = LogId::draw_random();
                    registry.hold(log, &settings.base)?;
                    settings.log = Some(log);
                }
                Ok(Namespace::open_in(fs, dir, settings)?)
            }
        }
    }

    fn open_with(&self, head: &LogHead) -> Result<Namespace, Failure> {
        let (fs, lower) = self.lower_of(head)?;
        let settings = Settings { quota: self.quota, lower, ..Settings::default() };
        Ok(Namespace::open_in(fs, self.log_dir()?, settings)?)
    }

    /// Opens the view, or the log with what it began on, and changes no file.
    pub(crate) fn open_to_read(&self) -> Result<Namespace, Failure> {
        match &self.view {
            Some(words) => open_view(&self.registry()?, words),
            None => self.open_log(),
        }
    }

    /// Opens the log with what it began on, to be read.
    pub(crate) fn open_log(&self) -> Result<Namespace, Failure> {
        let dir = self.log_dir()?;
        let fs: Arc<dyn Fs> = Arc::new(RealFs);
        let head = LogHead::read(&fs, dir)?.ok_or_else(|| no_log(dir))?;
        let (fs, lower) = self.lower_of(&head)?;
        let logs: Vec<PathBuf> = std::iter::once(dir.to_owned()).chain(lower).collect();
        Ok(Namespace::open_read_only_in(fs, &logs, Settings::default())?)
    }
}

fn no_log(dir: &Path) -> Failure {
    Failure::Usage(format!(
        "{}: there is no log; keyrack fs mkdir, create, put or import begins one",
        dir.display()
    ))
}

/// Opens publications with all that they began on, to be read.
pub(crate) fn open_view(registry: &Registry, words: &str) -> Result<Namespace, Failure> {
    open_references(registry, &registry.with_bases(&registry.resolve(&list(words))?)?)
}

/// Opens exactly these publications, to be read.
pub(crate) fn open_references(
    registry: &Registry,
    references: &[Reference],
) -> Result<Namespace, Failure> {
    let logs = registry.log_dirs(references)?;
    Ok(Namespace::open_read_only_in(registry.fs(), &logs, Settings::default())?)
}

/// Ends a change: all of it is on disk afterwards.
pub(crate) fn finish(space: Namespace) -> Result<(), Failure> {
    space.sync()?;
    Ok(space.close()?)
}
