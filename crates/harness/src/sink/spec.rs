//! The `--report` list: which sinks, and where each writes.
//!
//! ```text
//!   list = item *("," item)        empty items are passed over
//!   item = name [":" path]         the first ":" splits; no path or "-" is standard output
//! ```
//!
//! There is no escape: a path with a comma cannot be given here. Callers that make paths of their
//! own, as a report directory does, build [`SinkSpec`] values and never go through the text.

use std::path::PathBuf;

/// The largest number of sinks of one run.
pub const SINKS_MAX: usize = 8;

/// A sink by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkKind {
    /// The report for people.
    Console,
    /// One row per verb and cell.
    Tsv,
    /// One row per metric and sample.
    Timeline,
    /// The whole record.
    Json,
    /// An HdrHistogram log.
    Hdr,
    /// An experiment in a notebook.
    Notebook,
    /// Candlesticks over threads.
    Gnuplot,
    /// A line per benchmark.
    DbBench,
}

impl SinkKind {
    /// Every name, in the order in which they are offered, which is that of the kinds.
    pub const NAMES: [&str; 8] =
        ["console", "tsv", "timeline", "json", "hdr", "notebook", "gnuplot", "dbbench"];
    const ALL: [SinkKind; 8] = {
        use SinkKind::{Console, DbBench, Gnuplot, Hdr, Json, Notebook, Timeline, Tsv};
        [Console, Tsv, Timeline, Json, Hdr, Notebook, Gnuplot, DbBench]
    };

    /// The sink of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<SinkKind> {
        SinkKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        SinkKind::NAMES[self as usize]
    }
}

/// Where a sink writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Standard output.
    Stdout,
    /// A file of its own.
    Path(PathBuf),
}

/// One sink of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkSpec {
    /// Which rendering.
    pub kind: SinkKind,
    /// Where to.
    pub target: Target,
}

/// Why a list of sinks was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// No sink has this name. The nearest of [`SinkKind::NAMES`] is for the caller to offer.
    #[error("unknown reporter '{word}' (have: {})", SinkKind::NAMES.join(", "))]
    Unknown {
        /// What was given.
        word: String,
    },
    /// More than [`SINKS_MAX`].
    #[error("{count} reporters given, at most {SINKS_MAX} are possible")]
    TooMany {
        /// How many were given.
        count: usize,
    },
    /// Two sinks would overwrite each other.
    #[error("two reporters write to '{}'", path.display())]
    SamePath {
        /// The file.
        path: PathBuf,
    },
    /// The list names nothing.
    #[error("no reporter given (have: {})", SinkKind::NAMES.join(", "))]
    Empty,
}

impl SinkSpec {
    /// Reads a list such as `console,tsv:points.tsv,json:run.json`.
    ///
    /// # Errors
    /// [`SpecError`].
    pub fn parse(list: &str) -> Result<Vec<SinkSpec>, SpecError> {
        let items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
        let specs = items.map(SinkSpec::parse_one).collect::<Result<Vec<_>, _>>()?;
        if specs.is_empty() {
            return Err(SpecError::Empty);
        }
        if specs.len() > SINKS_MAX {
            return Err(SpecError::TooMany { count: specs.len() });
        }
        for (index, spec) in specs.iter().enumerate() {
            if let Target::Path(path) = &spec.target
                && specs[..index].iter().any(|earlier| earlier.target == spec.target)
            {
                return Err(SpecError::SamePath { path: path.clone() });
            }
        }
        Ok(specs)
    }

    fn parse_one(item: &str) -> Result<SinkSpec, SpecError> {
        let (name, path) = item.split_once(':').unwrap_or((item, ""));
        let kind =
            SinkKind::named(name).ok_or_else(|| SpecError::Unknown { word: name.to_owned() })?;
        let target = match path {
            "" | "-" => Target::Stdout,
            path => Target::Path(PathBuf::from(path)),
        };
        Ok(SinkSpec { kind, target })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(kind: SinkKind, path: &str) -> SinkSpec {
        SinkSpec { kind, target: Target::Path(PathBuf::from(path)) }
    }

    fn stdout(kind: SinkKind) -> SinkSpec {
        SinkSpec { kind, target: Target::Stdout }
    }

    #[test]
    fn a_list_names_sinks_and_their_files() {
        assert_eq!(
            SinkSpec::parse("console,tsv:points.tsv,timeline:tl.tsv,json:r.json").unwrap(),
            [
                stdout(SinkKind::Console),
                path(SinkKind::Tsv, "points.tsv"),
                path(SinkKind::Timeline, "tl.tsv"),
                path(SinkKind::Json, "r.json"),
            ]
        );
    }

    #[test]
    fn a_dash_or_nothing_is_standard_output() {
        let wanted = [stdout(SinkKind::Hdr), stdout(SinkKind::Tsv), stdout(SinkKind::Tsv)];
        assert_eq!(SinkSpec::parse("hdr:-, tsv:,,tsv").unwrap(), wanted);
    }

    #[test]
    fn the_first_colon_splits() {
        assert_eq!(SinkSpec::parse("tsv:a:b").unwrap(), [path(SinkKind::Tsv, "a:b")]);
    }

    #[test]
    fn an_unknown_name_is_told_what_there_is() {
        let error = SinkSpec::parse("console,tvs:x").unwrap_err();
        assert_eq!(error, SpecError::Unknown { word: "tvs".to_owned() });
        assert_eq!(
            error.to_string(),
            "unknown reporter 'tvs' (have: console, tsv, timeline, json, hdr, notebook, gnuplot, \
             dbbench)"
        );
    }

    #[test]
    fn nine_sinks_are_too_many_and_none_too_few() {
        assert!(SinkSpec::parse(&["tsv"; 8].join(",")).is_ok());
        let error = SinkSpec::parse(&["tsv"; 9].join(",")).unwrap_err();
        assert_eq!(error, SpecError::TooMany { count: 9 });
        assert_eq!(SinkSpec::parse(" ,").unwrap_err(), SpecError::Empty);
    }

    #[test]
    fn two_sinks_cannot_share_a_file() {
        let error = SinkSpec::parse("tsv:x,console,json:x").unwrap_err();
        assert_eq!(error, SpecError::SamePath { path: PathBuf::from("x") });
    }

    #[test]
    fn every_name_is_its_kinds() {
        for name in SinkKind::NAMES {
            assert_eq!(SinkKind::named(name).unwrap().name(), name);
        }
    }
}
