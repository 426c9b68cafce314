//! From text to the values of settings: strict, and in one line where it does not parse.

use super::{Goal, LIST_MAX};
use crate::pin::Pin;
use keyrack_store::{parse_bool, parse_size, unknown};
use std::path::PathBuf;

pub(super) fn names(value: &str) -> Result<Vec<String>, String> {
    list(value, |name| Ok(name.to_owned()))
}

/// A comma-separated list; empty elements are mistakes, not omissions.
pub(super) fn list<T: PartialEq>(
    value: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let parts: Vec<&str> = value.split(',').map(str::trim).collect();
    if parts.len() > LIST_MAX {
        return Err(format!("more than {LIST_MAX} entries in a list"));
    }
    let mut values = Vec::with_capacity(parts.len());
    for part in parts {
        if part.is_empty() {
            return Err(format!("'{value}' has an empty entry: write values separated by commas"));
        }
        let parsed = parse(part)?;
        // Twice the same cell would be compared with itself; repeats are for that.
        if values.contains(&parsed) {
            return Err(format!("'{part}' stands twice in '{value}'; --repeat measures again"));
        }
        values.push(parsed);
    }
    Ok(values)
}

pub(super) fn count(value: &str, least: u64) -> Result<u64, String> {
    count_up_to(value, least, 1 << 53)
}

/// A whole number; size suffixes are accepted as in files of the original.
pub(super) fn count_up_to(value: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = parse_size(value).map_err(|_| {
        format!("invalid number '{value}': write a whole number, K, M, G, T for powers of 1024")
    })?;
    if !(least..=most).contains(&number) {
        return Err(format!("'{value}' is out of range: {least} to {most}"));
    }
    Ok(number)
}

pub(super) fn seconds(value: &str, zero: bool) -> Result<f64, String> {
    match value.trim().parse::<f64>() {
        Ok(0.0) if zero => Ok(0.0),
        Ok(seconds) if seconds.is_finite() && (0.001..=1e7).contains(&seconds) => Ok(seconds),
        _ => Err(format!("invalid number of seconds '{value}': write 0.001 to 10000000")),
    }
}

/// How much faster than recorded; `None` for `max`.
pub(super) fn speed(value: &str) -> Result<Option<f64>, String> {
    match value.trim() {
        "max" => Ok(None),
        text => match text.parse::<f64>() {
            Ok(speed) if (1e-3..=1e6).contains(&speed) => Ok(Some(speed)),
            _ => {
                Err(format!("invalid speed '{value}': write max, or a number of 0.001 to 1000000"))
            }
        },
    }
}

pub(super) fn rate(value: &str) -> Result<f64, String> {
    let (number, factor) = match value.as_bytes().last() {
        Some(b'k' | b'K') => (&value[..value.len() - 1], 1e3),
        Some(b'm' | b'M') => (&value[..value.len() - 1], 1e6),
        _ => (value, 1.0),
    };
    match number.trim().parse::<f64>() {
        // Beyond this the schedule alone would take the whole processor.
        Ok(rate) if (0.01..=1e8).contains(&(rate * factor)) => Ok(rate * factor),
        _ => Err(format!(
            "invalid rate '{value}': write 0.01 to 100M units per second, k for thousands, M for \
             millions"
        )),
    }
}

pub(super) fn goal(value: &str) -> Result<Goal, String> {
    let refuse = || {
        format!(
            "invalid goal '{value}': write a percentile and a limit, e.g. p99<1ms or p99.9<250us"
        )
    };
    let (percentile, limit) = value.split_once('<').ok_or_else(refuse)?;
    let percentile: f64 =
        percentile.trim().strip_prefix('p').and_then(|p| p.parse().ok()).ok_or_else(refuse)?;
    let limit = limit.trim();
    let (number, ns) = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)]
        .into_iter()
        .find_map(|(unit, ns)| limit.strip_suffix(unit).map(|number| (number, ns)))
        .ok_or_else(refuse)?;
    let limit_ns = number.trim().parse::<f64>().map_err(|_| refuse())? * ns;
    if !(0.0..100.0).contains(&percentile) || !(1.0..1e13).contains(&limit_ns) {
        return Err(refuse());
    }
    Ok(Goal { percentile, limit_ns: limit_ns as u64 })
}

pub(super) fn directory(value: &str) -> Result<PathBuf, String> {
    if value.is_empty() { Err("the path is empty".to_owned()) } else { Ok(PathBuf::from(value)) }
}

pub(super) fn pin(value: &str) -> Result<Pin, String> {
    match parse_bool(value) {
        Ok(true) => Ok(Pin::Always),
        Ok(false) => Ok(Pin::Never),
        Err(_) if value.trim().eq_ignore_ascii_case(Pin::Auto.name()) => Ok(Pin::Auto),
        Err(why) => Err(format!("{why}, or auto")),
    }
}

pub(super) fn pair(value: &str) -> Result<(String, String), String> {
    match value.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(format!("'{value}' is not NAME=VALUE")),
    }
}

pub(super) fn choice<T: Copy>(value: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    let found = choices.iter().find(|(name, _)| *name == value);
    found.map(|(_, choice)| *choice).ok_or_else(|| unknown("value", value, &names))
}
