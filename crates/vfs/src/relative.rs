//! A path below a directory that cannot lead out of it.
//!
//! ```text
//!   "logs/0a1b-2"   ->  RelativePath  --under("/registry")-->  /registry/logs/0a1b-2
//!   "../x", "/x", "a//b", "a/./b", "", "a\0"  ->  NotRelative
//! ```
//!
//! Text that comes from a registry, a configuration or the network becomes a path only through this
//! type. Its one constructor checks, and [`RelativePath::under`] is the only way on.
//! Symbolic links are not its business: see [`Fs::refuse_links`](crate::Fs::refuse_links).

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Bytes of a relative path, at most: what object stores take as a key.
pub const RELATIVE_PATH_BYTES_MAX: usize = 1024;
/// Bytes of one of its components, at most.
const COMPONENT_BYTES_MAX: usize = 255;

/// A path of one or more names, separated by single slashes. No name is empty, `.` or `..`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelativePath(String);

/// Why a text is no [`RelativePath`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotRelative {
    shown: String,
    why: &'static str,
}

impl fmt::Display for NotRelative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no path below a directory: {}", self.shown.escape_debug(), self.why)
    }
}

impl std::error::Error for NotRelative {}

impl RelativePath {
    /// Checks a text.
    ///
    /// # Errors
    /// [`NotRelative`] for what is empty, absolute or too long, holds a NUL, or has a component
    /// that is empty, `.`, `..` or longer than 255 bytes.
    pub fn new(text: &str) -> Result<RelativePath, NotRelative> {
        let refused = |why| {
            let shown = text.chars().take(80).collect();
            Err(NotRelative { shown, why })
        };
        if text.is_empty() {
            return refused("it is empty");
        }
        if text.len() > RELATIVE_PATH_BYTES_MAX {
            return refused("it has more than 1024 bytes");
        }
        if text.starts_with('/') {
            return refused("it is absolute");
        }
        if text.contains('\0') {
            return refused("it holds a NUL byte");
        }
        for component in text.split('/') {
            match component {
                "" => return refused("a name in it is empty"),
                "." | ".." => return refused("a name in it is '.' or '..'"),
                long if long.len() > COMPONENT_BYTES_MAX => {
                    return refused("a name in it has more than 255 bytes");
                }
                _ => {}
            }
        }
        Ok(RelativePath(text.to_owned()))
    }

    /// Checks a text that has to be a single name.
    ///
    /// # Errors
    /// As for [`RelativePath::new`], and for a slash.
    pub fn single(text: &str) -> Result<RelativePath, NotRelative> {
        if text.contains('/') {
            Err(NotRelative {
                shown: text.chars().take(80).collect(),
                why: "it must be a single name, without a slash",
            })
        } else {
            RelativePath::new(text)
        }
    }

    /// The path in a directory.
    #[must_use]
    pub fn under(&self, root: &Path) -> PathBuf {
        root.join(&self.0)
    }

    /// A path below this one.
    ///
    /// # Errors
    /// [`NotRelative`] if both together are too long.
    pub fn join(&self, rest: &RelativePath) -> Result<RelativePath, NotRelative> {
        RelativePath::new(&format!("{self}/{rest}"))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RelativePath {
    type Err = NotRelative;

    fn from_str(text: &str) -> Result<RelativePath, NotRelative> {
        RelativePath::new(text)
    }
}

impl fmt::Display for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_path_stays_below_its_directory() {
        let long = "x".repeat(255);
        let deep = ["y"; 512].join("/");
        for good in ["a", "a/b/c", "...", "..a", ".lock", "a b", &long, &deep] {
            let path = RelativePath::new(good).unwrap();
            let under = path.under(Path::new("/root"));
            assert_eq!(under.strip_prefix("/root").unwrap(), Path::new(good));
            assert!(under.components().all(|part| part.as_os_str() != ".."));
        }
    }

    #[test]
    fn what_leads_out_of_a_directory_is_no_relative_path() {
        let long = "x".repeat(256);
        let deep = ["y"; 513].join("/");
        for (bad, why) in [
            ("", "it is empty"),
            ("/", "it is absolute"),
            ("/etc", "it is absolute"),
            (".", "'.' or '..'"),
            ("..", "'.' or '..'"),
            ("a/..", "'.' or '..'"),
            ("../a", "'.' or '..'"),
            ("a/./b", "'.' or '..'"),
            ("a//b", "is empty"),
            ("a/", "is empty"),
            ("a\0b", "NUL"),
            (&long, "255"),
            (&deep, "1024"),
        ] {
            let error = RelativePath::new(bad).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(RelativePath::single("a/b").unwrap_err().to_string().contains("a single name"));
        assert!(RelativePath::single("..").is_err());
        // A long one is shown in part, and no control character reaches a terminal.
        let error = RelativePath::new(&format!("/{}\n", "\u{1b}x".repeat(600))).unwrap_err();
        let error = error.to_string();
        assert!(error.len() < 1000 && !error.chars().any(char::is_control), "{error}");
    }
}
