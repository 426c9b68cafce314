//! A phase of creates that are sent behind: each is an ordinary call of its own, which returns
//! before the file is there, and many go to the servers together.
//!
//! What an operation takes is then the time until it returns; the phase ends when all files are
//! made. What failed is told by its path when the client ends the phase, as it would be told by the
//! next call of a program.

use super::counter::{Counter, Measured};
use super::local::FILE_MODE;
use super::names::Name;
use super::plan::Clients;
use keyrack_deltafs::IfExists;
use keyrack_deltafs::rpc::{BATCH_NAMES_MAX, Error, Tree};

/// Creates of a call with `on`.
const DEFAULT: usize = 64;

/// `on`, `off`, or how many creates go together.
///
/// # Errors
/// One line if it is none of these.
pub fn parse_create_behind(text: &str) -> Result<Option<usize>, String> {
    let wrong = || {
        format!(
            "--create-behind {text}: give on, off, or how many go together: 1 to {BATCH_NAMES_MAX}"
        )
    };
    match text {
        "off" => Ok(None),
        "on" => Ok(Some(DEFAULT)),
        _ => match text.parse() {
            Ok(count) if (1..=BATCH_NAMES_MAX).contains(&count) => Ok(Some(count)),
            _ => Err(wrong()),
        },
    }
}

/// Makes the files with these names.
pub(super) fn create(
    plan: &Clients,
    tree: &mut Tree,
    path: &[u8],
    names: &[Name],
    mut counter: Counter<'_>,
) -> Result<Measured, String> {
    let create = |name: &Name| {
        let made = tree.create(&[path, b"/", name].concat(), FILE_MODE, IfExists::Fail);
        made.map(|_| ()).map_err(|error| error.to_string())
    };
    let write = |name: &Name| plan.write_data(name).map_err(|error| error.to_string());
    counter.each(names, create, write)?;
    match tree.flush_creates() {
        Ok(()) => {}
        Err(Error::WriteBehind { failed }) => {
            let why = Error::WriteBehind { failed: failed.clone() }.to_string();
            counter.failed_later(failed.len() as u64, why)?;
        }
        Err(error) => return Err(error.to_string()),
    }
    Ok(counter.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_create_behind() {
        assert_eq!(parse_create_behind("off"), Ok(None));
        assert_eq!(
            (parse_create_behind("on"), parse_create_behind("7")),
            (Ok(Some(64)), Ok(Some(7)))
        );
        for wrong in ["", "0", "yes", "-1", "99999999"] {
            let why = parse_create_behind(wrong).unwrap_err();
            assert!(why.starts_with(&format!("--create-behind {wrong}: give on, off")), "{why}");
        }
    }
}
