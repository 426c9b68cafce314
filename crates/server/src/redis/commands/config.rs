//! CONFIG: what can be read, and the little that can be changed while the server runs.
//!
//! A parameter that Redis can change and we cannot is refused, unless it is set to what it is:
//! a client that believes it has changed something should not be left in that belief.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use keyrack_store::Durability;

use crate::redis::call::Call;
use crate::redis::fault::{Done, Fault};
use crate::redis::glob::{Glob, Match};
use crate::redis::number::{integer, natural};
use crate::redis::shared::Shared;
use crate::redis::slowlog::ENTRIES_MAX;

/// A parameter that is a number and can be changed.
fn number<'s>(shared: &'s Shared, name: &str) -> Option<&'s AtomicU64> {
    let settings = &shared.settings;
    match name {
        "proto-max-bulk-len" => Some(&settings.bulk_bytes_max),
        "slowlog-max-len" => Some(&shared.slow_log.entries_max),
        "latency-monitor-threshold" => Some(&shared.latency.threshold_ms),
        "hash-max-listpack-entries" | "hash-max-ziplist-entries" => {
            Some(&settings.small_hash_fields_max)
        }
        "hash-max-listpack-value" | "hash-max-ziplist-value" => {
            Some(&settings.small_hash_bytes_max)
        }
        _ => None,
    }
}

const NUMBERS: [&str; 7] = [
    "proto-max-bulk-len",
    "slowlog-max-len",
    "latency-monitor-threshold",
    "hash-max-listpack-entries",
    "hash-max-ziplist-entries",
    "hash-max-listpack-value",
    "hash-max-ziplist-value",
];

/// The threshold of SLOWLOG, in microseconds; -1 is off.
const SLOWER_THAN: &str = "slowlog-log-slower-than";

/// Below this no request could be understood any more.
const BULK_BYTES_MIN: u64 = 1 << 20;

/// All parameters and their values, those of the server's options last: they take precedence.
fn parameters(call: &Call<'_>) -> Vec<(String, String)> {
    let (appendonly, appendfsync) = match call.ctx.store.durability() {
        Durability::None => ("no", "no"),
        Durability::Os => ("yes", "no"),
        Durability::Sync => ("yes", "always"),
        _ => ("yes", "everysec"),
    };
    let fixed = [
        ("appendonly", appendonly),
        ("appendfsync", appendfsync),
        ("save", ""),
        ("databases", "1"),
        ("maxmemory", "0"),
        ("maxmemory-policy", "noeviction"),
        ("cluster-enabled", "no"),
        ("latency-tracking", "yes"),
        ("enable-debug-command", if call.ctx.shared.options.debug { "yes" } else { "no" }),
        // A client that may read it knows it already, and it should not show on a screen.
        ("requirepass", ""),
    ];
    let mut all: Vec<(String, String)> = Vec::new();
    let mut set = |name: &str, value: String| match all.iter_mut().find(|(n, _)| n == name) {
        Some(parameter) => parameter.1 = value,
        None => all.push((name.to_owned(), value)),
    };
    fixed.into_iter().for_each(|(name, value)| set(name, value.to_owned()));
    for name in NUMBERS {
        let value = number(call.ctx.shared, name).map_or(0, |value| value.load(Relaxed));
        set(name, value.to_string());
    }
    let slower_than = call.ctx.shared.slow_log.threshold_us.load(Relaxed);
    set(SLOWER_THAN, slower_than.to_string());
    for (name, value) in &call.ctx.shared.options.config {
        set(name, value.clone());
    }
    all.sort();
    all
}

/// Patterns that one CONFIG GET may have.
const PATTERNS_MAX: usize = 64;

pub(crate) fn get(call: &mut Call<'_>) -> Done {
    if call.count() - 2 > PATTERNS_MAX {
        return Err(Fault::Text("ERR too many patterns"));
    }
    let mut found = parameters(call);
    let patterns: Vec<Vec<u8>> = call.args.args().skip(2).map(<[u8]>::to_ascii_lowercase).collect();
    let globs: Vec<Glob<'_>> = patterns.iter().map(|pattern| Glob::new(pattern)).collect();
    found.retain(|(name, _)| globs.iter().any(|glob| glob.matches(name.as_bytes()) == Match::Yes));
    call.reply.map(found.len());
    for (name, value) in found {
        call.reply.bulk(name.as_bytes());
        call.reply.bulk(value.as_bytes());
    }
    Ok(())
}

pub(crate) fn set(call: &mut Call<'_>) -> Done {
    if !call.count().is_multiple_of(2) {
        return Err(Fault::arity("set", Some("config")));
    }
    // All is checked before anything is changed.
    let known = parameters(call);
    for index in (2..call.count()).step_by(2) {
        check(call, &known, index)?;
    }
    let settings = &call.ctx.shared.settings;
    for index in (2..call.count()).step_by(2) {
        let name = String::from_utf8_lossy(call.arg(index)).to_ascii_lowercase();
        let value = call.arg(index + 1);
        if name == "requirepass" {
            settings.set_password(value);
        } else if let (SLOWER_THAN, Some(us)) = (&*name, integer(value)) {
            call.ctx.shared.slow_log.threshold_us.store(us, Relaxed);
        } else if let (Some(slot), Some(value)) = (number(call.ctx.shared, &name), natural(value)) {
            slot.store(value, Relaxed);
        }
    }
    call.reply.ok();
    Ok(())
}

fn check(call: &Call<'_>, known: &[(String, String)], index: usize) -> Done {
    let name = String::from_utf8_lossy(call.arg(index)).to_ascii_lowercase();
    let value = call.arg(index + 1);
    let failed = |why: &str| {
        Err(Fault::Made(format!(
            "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
        )))
    };
    let Some((_, old)) = known.iter().find(|(known, _)| *known == name) else {
        return Err(Fault::Made(format!(
            "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
        )));
    };
    if name == "requirepass" {
        let is_exposed = call.ctx.shared.options.needs_password && value.is_empty();
        return if is_exposed { failed("others can reach this server") } else { Ok(()) };
    }
    if name == SLOWER_THAN {
        return match integer(value) {
            None => failed("argument couldn't be parsed into an integer"),
            Some(us) if us < -1 => {
                failed("argument must be between -1 and 9223372036854775807 inclusive")
            }
            Some(_) => Ok(()),
        };
    }
    if number(call.ctx.shared, &name).is_none() {
        return if old.as_bytes() == value { Ok(()) } else { failed("can't set immutable config") };
    }
    match natural(value) {
        None => failed("argument couldn't be parsed into an integer"),
        Some(bytes) if name == "proto-max-bulk-len" => {
            if (BULK_BYTES_MIN..=call.ctx.shared.options.bulk_bytes_max).contains(&bytes) {
                Ok(())
            } else {
                failed("argument must be between 1 MiB and what the server was given")
            }
        }
        Some(entries) if name == "slowlog-max-len" && entries > ENTRIES_MAX => {
            failed(&format!("argument must be between 0 and {ENTRIES_MAX}"))
        }
        Some(_) => Ok(()),
    }
}

pub(crate) fn resetstat(call: &mut Call<'_>) -> Done {
    call.ctx.shared.reset_totals();
    call.reply.ok();
    Ok(())
}

pub(crate) fn rewrite(_: &mut Call<'_>) -> Done {
    Err(Fault::Text("ERR The server is running without a config file"))
}
