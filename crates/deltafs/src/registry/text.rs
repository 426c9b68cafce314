//! What texts of a registry are made of: names that anybody may choose, and hexadecimal digits.

use crate::error::{Error, Result};

/// Bytes of the name of a publication or a view, at most.
const NAME_MAX: usize = 64;

/// Refuses what cannot be the name of a publication or a view.
pub(super) fn check_registry_name(name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_sound = (1..=NAME_MAX).contains(&name.len())
        && name.chars().all(is_plain)
        && !name.starts_with('.');
    if is_sound {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "'{name}' cannot be a name here: use 1 to {NAME_MAX} of A-Z, a-z, 0-9, '-', '_' and '.', \
         the last not at the beginning"
    )))
}

/// Two digits a byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        // Writing to a string does not fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}
