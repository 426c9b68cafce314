//! All jobs, wherever they come from.

use crate::kvtest::{End, Job};
use crate::{dbbench, kvtest};

/// All jobs, in the order of lists.
pub fn jobs() -> impl Iterator<Item = &'static Job> {
    kvtest::jobs().iter().chain(dbbench::jobs())
}

/// The job called `name`. O(jobs).
#[must_use]
pub fn job(name: &str) -> Option<&'static Job> {
    jobs().find(|job| job.name == name)
}

/// The operations that a thread makes at most in any of `jobs` by their own counts, given their
/// parameters; `None` where one of them has none of its own. A parameter that does not parse counts
/// as not given.
#[must_use]
pub fn own_count<'p>(jobs: &[&Job], param: impl Fn(&str) -> Option<&'p str>) -> Option<u64> {
    if jobs.is_empty() || jobs.iter().any(|job| job.end != End::CountOrTime) {
        return None;
    }
    let number = |name| param(name).and_then(|text| text.parse::<u64>().ok());
    let num = number("num").unwrap_or(dbbench::NUM);
    Some(num.max(number("reads").unwrap_or(num)))
}
