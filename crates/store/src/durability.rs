//! The durability of acknowledged writes, and its text form.

use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// What an acknowledged write survives. Only equal durability is ever compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// At most a clean close, in a store with files. Nothing is promised before.
    None,
    /// A crash of the process: the write is in the page cache before the reply.
    #[default]
    Os,
    /// Power loss, but for the last so many milliseconds: synced in the background.
    Interval(u32),
    /// Power loss: the reply follows the sync.
    Sync,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::None => f.write_str("none"),
            Durability::Os => f.write_str("os"),
            Durability::Interval(ms) => write!(f, "interval:{ms}"),
            Durability::Sync => f.write_str("sync"),
        }
    }
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "none" => Ok(Durability::None),
            "os" => Ok(Durability::Os),
            "sync" => Ok(Durability::Sync),
            _ => text
                .strip_prefix("interval:")
                .and_then(|ms| ms.parse().ok())
                .filter(|&ms| ms > 0)
                .map(Durability::Interval)
                .ok_or_else(|| {
                    Error::usage(format!(
                        "durability '{text}' is not one of none, os, interval:MS, sync"
                    ))
                }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durability_prints_what_it_parses() {
        for text in ["none", "os", "interval:50", "sync"] {
            assert_eq!(text.parse::<Durability>().unwrap().to_string(), text);
        }
        for text in ["", "fsync", "interval", "interval:", "interval:0", "interval:-1", "OS"] {
            let error = text.parse::<Durability>().unwrap_err();
            assert!(error.to_string().contains("none, os, interval:MS, sync"), "{error}");
        }
    }
}
