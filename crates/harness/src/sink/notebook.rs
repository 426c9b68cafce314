//! The notebook sink: a JSON file to which every run adds an experiment.
//!
//! ```text
//!   {"experiments": {"x0": {"git-revision", "time", "gid", "machine", "cores", "runs": [key..]}},
//!    "data":        {key: [row per thread], ..}}            key = "x0/test/table/trial"
//! ```
//!
//! An experiment is named `x` and the number of experiments before it. Where that name is taken,
//! since somebody removed an experiment, the next free number counts: nothing is overwritten.
//! Members that are not ours stay where and as they are. The layout of the text is that of
//! [`Value::notebook`]; the file format is in `docs/formats/notebook.md`.
//!
//! A text that is not a notebook is refused and left alone: this is a file that people keep for
//! years, and a mistyped name must not cost them another one.
//!
//! **Invariant:** the text is read again when the run ends, right before it is replaced, so that
//! another run which ended meanwhile is kept. Two that end within the same milliseconds can still
//! lose one experiment; each is whole.

use super::Sink;
use super::experiment::Experiment;
use super::value::Value;
use keyrack_record::Run;
use std::fmt;
use std::io::{self, Write};

const EXPERIMENTS: &str = "experiments";
const DATA: &str = "data";

/// A notebook in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Notebook {
    /// Its members; [`EXPERIMENTS`] and [`DATA`] are there and are objects.
    members: Vec<(String, Value)>,
}

/// Why a text is not a notebook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotebookError {
    /// Not JSON.
    #[error("not a notebook, left as it is: {reason}")]
    Malformed {
        /// What is wrong with it and where.
        reason: String,
    },
    /// JSON of another shape.
    #[error("not a notebook, left as it is: {missing}")]
    Shape {
        /// What was looked for.
        missing: &'static str,
    },
}

impl Notebook {
    /// Reads a notebook. An empty text is an empty notebook.
    ///
    /// # Errors
    /// [`NotebookError`] when the text is no JSON object with an object `experiments`.
    pub fn parse(text: &str) -> Result<Notebook, NotebookError> {
        let mut members = Vec::new();
        if !text.trim().is_empty() {
            let value = Value::parse(text).map_err(|reason| NotebookError::Malformed { reason })?;
            let Value::Object(found) = value else {
                return Err(NotebookError::Shape { missing: "no JSON object" });
            };
            if !found.iter().any(|(name, _)| name == EXPERIMENTS) {
                return Err(NotebookError::Shape { missing: "no 'experiments' in it" });
            }
            members = found;
        }
        for (name, missing) in
            [(EXPERIMENTS, "'experiments' is no object"), (DATA, "'data' is no object")]
        {
            match members.iter().find(|(key, _)| key == name) {
                None => members.push((name.to_owned(), Value::Object(Vec::new()))),
                Some((_, Value::Object(_))) => {}
                Some(_) => return Err(NotebookError::Shape { missing }),
            }
        }
        Ok(Notebook { members })
    }

    /// Adds an experiment and returns its name. O(size of the notebook).
    pub fn append(&mut self, experiment: &Experiment) -> String {
        let name = self.free_name();
        let keys: Vec<String> =
            experiment.trials.iter().map(|trial| format!("{name}/{}", trial.key())).collect();
        let mut facts = vec![
            ("git-revision".to_owned(), Value::text(&experiment.revision)),
            ("time".to_owned(), Value::text(&experiment.time)),
        ];
        facts.extend(experiment.gid.iter().map(|gid| ("gid".to_owned(), Value::text(gid))));
        let machine = experiment.machine.iter();
        facts.extend(machine.map(|name| ("machine".to_owned(), Value::text(name))));
        facts.push(("cores".to_owned(), Value::Count(u64::from(experiment.cores))));
        let runs = keys.iter().map(|key| Value::text(key)).collect();
        facts.push(("runs".to_owned(), Value::List(runs)));
        self.object(EXPERIMENTS).push((name.clone(), Value::Object(facts)));
        let rows = experiment.trials.iter().map(|trial| Value::List(trial.rows.clone()));
        self.object(DATA).extend(keys.into_iter().zip(rows));
        name
    }

    /// The text of the file.
    #[must_use]
    pub fn text(&self) -> String {
        Value::Object(self.members.clone()).notebook()
    }

    /// Key and rows of everything measured, in order.
    pub fn data(&self) -> impl Iterator<Item = (&str, &[Value])> {
        self.member(DATA).iter().map(|(key, rows)| (key.as_str(), rows.items()))
    }

    fn free_name(&self) -> String {
        let (experiments, data) = (self.member(EXPERIMENTS), self.member(DATA));
        let is_free = |name: &String| {
            let below = format!("{name}/");
            experiments.iter().all(|(taken, _)| taken != name)
                && data.iter().all(|(key, _)| !key.starts_with(&below))
        };
        let mut names = (experiments.len()..).map(|number| format!("x{number}"));
        names.find(is_free).expect("there are more numbers than experiments")
    }

    fn member(&self, name: &str) -> &[(String, Value)] {
        let found = self.members.iter().find(|(key, _)| key == name);
        found.map_or(&[], |(_, value)| value.members())
    }

    /// The members of an object that [`Notebook::parse`] has made sure of.
    fn object(&mut self, name: &str) -> &mut Vec<(String, Value)> {
        match self.members.iter_mut().find(|(key, _)| key == name) {
            Some((_, Value::Object(members))) => members,
            _ => unreachable!("a notebook has its two objects"),
        }
    }
}

/// Where a notebook is kept.
pub trait Page {
    /// Its text; empty where there is none yet.
    ///
    /// # Errors
    /// Those of the medium; a text that is not UTF-8.
    fn read(&mut self) -> io::Result<String>;

    /// Puts `text` in the place of what was there.
    ///
    /// # Errors
    /// Those of the medium; then the old text is still there.
    fn replace(&mut self, text: &str) -> io::Result<()>;
}

/// A page that is read from one stream and written to another.
pub struct Stream {
    old: String,
    out: Box<dyn Write>,
}

impl Stream {
    /// A page whose text was `old` and whose new one goes to `out`.
    #[must_use]
    pub fn new(old: String, out: Box<dyn Write>) -> Stream {
        Stream { old, out }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("old_bytes", &self.old.len()).finish_non_exhaustive()
    }
}

impl Page for Stream {
    fn read(&mut self) -> io::Result<String> {
        Ok(self.old.clone())
    }

    fn replace(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

/// Adds `experiment` to the notebook of `page` and returns the experiment's name; `None` when it
/// measured nothing, and then nothing is written.
///
/// # Errors
/// Those of the page, and [`NotebookError`] when its text is not a notebook.
pub fn append(page: &mut dyn Page, experiment: &Experiment) -> io::Result<Option<String>> {
    if experiment.trials.is_empty() {
        return Ok(None);
    }
    let mut notebook = Notebook::parse(&page.read()?).map_err(io::Error::other)?;
    let name = notebook.append(experiment);
    page.replace(&notebook.text())?;
    Ok(Some(name))
}

/// See the module.
pub(crate) struct NotebookSink {
    page: Box<dyn Page>,
    /// The name of the experiment that was added.
    added: Option<String>,
}

impl NotebookSink {
    pub(crate) fn new(page: Box<dyn Page>) -> NotebookSink {
        NotebookSink { page, added: None }
    }
}

impl Sink for NotebookSink {
    fn end(&mut self, run: &Run) -> io::Result<()> {
        self.added = append(&mut *self.page, &Experiment::of(run))?;
        Ok(())
    }

    fn said(&self) -> Option<String> {
        self.added.as_ref().map(|name| format!("EXPERIMENT {name}"))
    }
}
