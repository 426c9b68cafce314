//! `stats`: the numbers of the server under the names that memcached has for them.

use super::counts::Counts;
use super::cx::Cx;
use super::dump;
use super::output::server_error;
use keyrack_wire::memcached::text::Reply;
use std::fmt::Display;

/// One number with its name.
pub(super) type Visit<'v> = dyn FnMut(&str, &dyn Display) + 'v;

/// Answers `stats` with the words after it.
pub(super) fn write(cx: &mut Cx<'_>, words: &[u8], out: &mut Vec<u8>) {
    if is_done(cx, words) {
        let reply = if words == b"reset" { Reply::Reset } else { Reply::Ok };
        return reply.write(out);
    }
    match words {
        b"detail dump" => {
            cx.shared.detail.write(out);
            return Reply::End.write(out);
        }
        _ if is_about(words, b"detail") => {
            return Reply::ClientError(b"usage: stats detail on|off|dump").write(out);
        }
        _ if is_about(words, b"cachedump") => return cachedump(cx, words, out),
        _ => {}
    }
    let mut line = Vec::new();
    let known = visit(cx, words, &mut |name, value| {
        line.clear();
        // Writing to a vector does not fail.
        let _ = std::io::Write::write_fmt(&mut line, format_args!("{value}"));
        Reply::Stat { name: name.as_bytes(), value: &line }.write(out);
    });
    if known { Reply::End.write(out) } else { Reply::Error.write(out) }
}

/// Carries out `stats` with words that change what is counted. False when these do not.
pub(super) fn is_done(cx: &Cx<'_>, words: &[u8]) -> bool {
    match words {
        b"reset" => cx.shared.reset(),
        b"detail on" => cx.shared.detail.switch(true),
        b"detail off" => cx.shared.detail.switch(false),
        _ => return false,
    }
    true
}

/// Whether `word` is the first of `words`.
fn is_about(words: &[u8], word: &[u8]) -> bool {
    words.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with(b" "))
}

/// `stats cachedump CLASS COUNT`. All items are of class 1; memcached has 63.
fn cachedump(cx: &mut Cx<'_>, words: &[u8], out: &mut Vec<u8>) {
    let mut numbers = words.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).skip(1);
    let mut number = || std::str::from_utf8(numbers.next()?).ok()?.parse::<u64>().ok();
    let (Some(class), Some(count)) = (number(), number()) else {
        return Reply::ClientError(b"bad command line").write(out);
    };
    if class > CLASS_MAX {
        return Reply::ClientError(b"Illegal slab id").write(out);
    }
    let begun = out.len();
    if class == 1
        && let Err(error) = dump::cachedump(cx, count, out)
    {
        out.truncate(begun);
        return server_error(&error, out);
    }
    Reply::End.write(out);
}

/// The largest number of a class of items in memcached.
const CLASS_MAX: u64 = 63;

/// What is 0 here for good: parts of memcached's that this server does not have, and what can not
/// happen without them.
const ZEROS: [&str; 42] = [
    // Memory of connections is lent for an iteration, not kept in objects that could run out.
    "response_obj_oom",
    "response_obj_count",
    "response_obj_bytes",
    "read_buf_count",
    "read_buf_bytes",
    "read_buf_bytes_free",
    "read_buf_oom",
    // A flush removes rows at once. Nobody finds one that was flushed.
    "get_flushed",
    // Above the limit of connections new ones are refused, and the listener goes on.
    "listen_disabled_num",
    "time_in_listen_disabled_us",
    // There is no hash table.
    "hash_power_level",
    "hash_bytes",
    "hash_is_expanding",
    // There are no slabs.
    "slab_reassign_rescues",
    "slab_reassign_chunk_rescues",
    "slab_reassign_evictions_nomem",
    "slab_reassign_inline_reclaim",
    "slab_reassign_busy_items",
    "slab_reassign_busy_deletes",
    "slab_reassign_running",
    "slabs_moved",
    "slab_global_page_pool",
    // There are no LRU lists, and no threads that go along them.
    "lru_crawler_running",
    "lru_crawler_starts",
    "lru_maintainer_juggles",
    "crawler_reclaimed",
    "crawler_items_checked",
    "lrutail_reflocked",
    "moves_to_cold",
    "moves_to_warm",
    "moves_within_lru",
    "direct_reclaims",
    "lru_bumps_dropped",
    // `watch` is not there.
    "log_worker_dropped",
    "log_worker_written",
    "log_watcher_skipped",
    "log_watcher_sent",
    "log_watchers",
    // An allocation that fails ends the process.
    "malloc_fails",
    // Connections are dealt out in turn, without NAPI.
    "unexpected_napi_ids",
    "round_robin_fallback",
    "reserved_fds",
];

/// Counters that are shown as something else.
const INNER: [&str; 1] = ["closed_connections"];

/// Gives the numbers of a group to `visit`. False when there is no such group.
pub(super) fn visit(cx: &Cx<'_>, group: &[u8], visit: &mut Visit<'_>) -> bool {
    match group {
        b"" => general(cx, visit),
        b"settings" => settings(cx, visit),
        b"items" => items(cx, visit),
        b"slabs" => slabs(cx, visit),
        // Connections are not listed one by one.
        b"conns" => {}
        b"sizes" => visit("sizes_status", &"disabled"),
        _ => return false,
    }
    true
}

fn general(cx: &Cx<'_>, visit: &mut Visit<'_>) {
    let shared = cx.shared;
    let usage = keyrack_measure::usage::process();
    visit("pid", &std::process::id());
    visit("uptime", &(cx.now_ms.saturating_sub(shared.started_ms) / 1000));
    visit("time", &(cx.now_ms / 1000));
    visit("version", &shared.version);
    visit("pointer_size", &usize::BITS);
    visit("rusage_user", &format_args!("{:.6}", usage.user_ns as f64 / 1e9));
    visit("rusage_system", &format_args!("{:.6}", usage.system_ns as f64 / 1e9));
    visit("max_connections", &shared.connections_max);
    let sum = |wanted: &str, sums: &[u64]| {
        let mut named = Counts::NAMES.iter().zip(sums);
        named.find(|(name, _)| **name == wanted).map_or(0, |(_, value)| *value)
    };
    // Not since the last reset: those that are open now.
    let sums = shared.sums();
    let open = sum("total_connections", &sums).saturating_sub(sum("closed_connections", &sums));
    visit("curr_connections", &open);
    visit("connection_structures", &open);
    visit("accepting_conns", &1);
    visit("threads", &shared.threads);
    visit("limit_maxbytes", &shared.memory_bytes_max);
    let totals = shared.totals();
    for (name, value) in Counts::NAMES.iter().zip(totals) {
        if !INNER.contains(name) {
            visit(name, &value);
        }
    }
    ZEROS.iter().for_each(|name| visit(name, &0));
    shared.facts.visit(&mut |name, value| visit(name, &value));
}

fn settings(cx: &Cx<'_>, visit: &mut Visit<'_>) {
    let shared = cx.shared;
    let yes_or_no = |yes: bool| if yes { "yes" } else { "no" };
    visit("maxbytes", &shared.memory_bytes_max);
    visit("maxconns", &shared.connections_max);
    visit("num_threads", &shared.threads);
    visit("item_size_max", &shared.limits.value_bytes_max);
    visit("auth_enabled_sasl", &yes_or_no(shared.password.is_set()));
    visit("auth_enabled_ascii", &yes_or_no(shared.password.is_set()));
    visit("detail_enabled", &yes_or_no(shared.detail.is_on()));
    for (name, value) in SETTINGS {
        visit(name, &value);
    }
    for (name, value) in &shared.settings {
        visit(name, value);
    }
}

/// Settings of memcached's that have one value here.
const SETTINGS: [(&str, &str); 20] = [
    ("udpport", "0"),
    ("verbosity", "0"),
    ("oldest", "0"),
    ("shutdown_command", "no"),
    ("stat_key_prefix", ":"),
    ("cas_enabled", "yes"),
    ("binding_protocol", "auto-negotiate"),
    ("maxconns_fast", "yes"),
    ("flush_enabled", "yes"),
    ("dump_enabled", "yes"),
    ("track_sizes", "no"),
    ("inline_ascii_response", "no"),
    ("slab_reassign", "no"),
    ("slab_automove", "0"),
    ("lru_crawler", "no"),
    ("lru_maintainer_thread", "no"),
    ("lru_segmented", "no"),
    ("temp_lru", "no"),
    ("ssl_kernel_tls", "no"),
    ("ssl_session_cache", "no"),
];

/// All items are in one class.
fn items(cx: &Cx<'_>, visit: &mut Visit<'_>) {
    cx.shared.facts.visit(&mut |name, value| match name {
        "curr_items" if value > 0 => visit("items:1:number", &value),
        "bytes" => visit("items:1:mem_requested", &value),
        "evictions" => visit("items:1:evicted", &value),
        "reclaimed" => visit("items:1:reclaimed", &value),
        _ => {}
    });
}

/// The class of all items, whose chunks are as large as their items.
fn slabs(cx: &Cx<'_>, visit: &mut Visit<'_>) {
    let shared = cx.shared;
    visit("1:chunk_size", &shared.limits.value_bytes_max);
    let counted = [
        "get_hits",
        "cmd_set",
        "delete_hits",
        "incr_hits",
        "decr_hits",
        "cas_hits",
        "cas_badval",
        "touch_hits",
    ];
    for (name, value) in Counts::NAMES.iter().zip(shared.totals()) {
        if counted.contains(name) {
            visit(&format!("1:{name}"), &value);
        }
    }
    visit("active_slabs", &1);
    shared.facts.visit(&mut |name, value| match name {
        "curr_items" => visit("1:used_chunks", &value),
        "bytes" => visit("total_malloced", &value),
        _ => {}
    });
}
