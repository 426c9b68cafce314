//! `--quota-names`, `--quota-depth`, `--quota-name-bytes`: how far a name space may grow while this
//! command writes to it.

use clap::{Arg, ArgMatches, value_parser};
use keyrack_deltafs::{DEPTH_MAX, NAME_BYTES_MAX, Quota};

const NAMES: &str = "quota-names";
const DEPTH: &str = "quota-depth";
const NAME_BYTES: &str = "quota-name-bytes";

/// The options.
pub(super) fn quota_args() -> [Arg; 3] {
    let option = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("N").help(help)
    };
    [
        option(NAMES, "So many names in all, and no more; those that are there count")
            .value_parser(value_parser!(u64)),
        option(DEPTH, "New directories at most so deep [default: 1024]")
            .value_parser(value_parser!(u64).range(0..=DEPTH_MAX as u64)),
        option(NAME_BYTES, "New names of at most so many bytes [default: 255]")
            .value_parser(value_parser!(u64).range(1..=NAME_BYTES_MAX as u64)),
    ]
}

/// What they say; no limits of a command that does not have them.
pub(super) fn quota(matches: &ArgMatches) -> Quota {
    let given = |name: &str| matches.try_get_one::<u64>(name).ok().flatten().copied();
    let size = |name: &str, default: usize| {
        given(name).and_then(|number| usize::try_from(number).ok()).unwrap_or(default)
    };
    Quota {
        names: given(NAMES),
        name_bytes: size(NAME_BYTES, NAME_BYTES_MAX),
        depth: size(DEPTH, DEPTH_MAX),
    }
}
