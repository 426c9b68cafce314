//! `stats`: the numbers of the server under the names that memcached has for them.

use super::{Counts, Cx};
use keyrack_wire::memcached::text::Reply;
use std::fmt::Display;

/// One number with its name.
pub(super) type Visit<'v> = dyn FnMut(&str, &dyn Display) + 'v;

/// Answers `stats` with the words after it.
pub(super) fn write(cx: &Cx<'_>, words: &[u8], out: &mut Vec<u8>) {
    if words == b"reset" {
        cx.shared.reset();
        Reply::Reset.write(out);
        return;
    }
    let mut line = Vec::new();
    let known = visit(cx, words, &mut |name, value| {
        line.clear();
        // Writing to a vector does not fail.
        let _ = std::io::Write::write_fmt(&mut line, format_args!("{value}"));
        Reply::Stat { name: name.as_bytes(), value: &line }.write(out);
    });
    if known {
        Reply::End.write(out);
    } else {
        Reply::ClientError(b"bad stats argument").write(out);
    }
}

/// Gives the numbers of a group to `visit`. False when there is no such group.
pub(super) fn visit(cx: &Cx<'_>, group: &[u8], visit: &mut Visit<'_>) -> bool {
    match group {
        b"" => general(cx, visit),
        b"settings" => settings(cx, visit),
        b"items" => items(cx, visit),
        b"slabs" => slabs(cx, visit),
        // Connections are not listed one by one; sizes are not counted.
        b"conns" | b"sizes" => {}
        b"detail on" | b"detail off" | b"detail dump" | b"cachedump" => return false,
        _ => return false,
    }
    true
}

fn general(cx: &Cx<'_>, visit: &mut Visit<'_>) {
    let shared = cx.shared;
    visit("pid", &std::process::id());
    visit("uptime", &(cx.now_ms.saturating_sub(shared.started_ms) / 1000));
    visit("time", &(cx.now_ms / 1000));
    visit("version", &shared.version);
    visit("pointer_size", &usize::BITS);
    visit("max_connections", &shared.connections_max);
    visit("threads", &shared.threads);
    visit("limit_maxbytes", &shared.memory_bytes_max);
    for (name, value) in Counts::NAMES.iter().zip(shared.totals()) {
        visit(name, &value);
    }
    shared.facts.visit(&mut |name, value| visit(name, &value));
}

fn settings(cx: &Cx<'_>, visit: &mut Visit<'_>) {
    let shared = cx.shared;
    visit("maxbytes", &shared.memory_bytes_max);
    visit("maxconns", &shared.connections_max);
    visit("num_threads", &shared.threads);
    visit("item_size_max", &shared.limits.value_bytes_max);
    visit("cas_enabled", &"yes");
    visit("auth_enabled_sasl", &if shared.password.is_set() { "yes" } else { "no" });
    visit("auth_enabled_ascii", &if shared.password.is_set() { "yes" } else { "no" });
    visit("flush_enabled", &"yes");
    visit("binding_protocol", &"auto-negotiate");
}

/// All items are in one class.
fn items(cx: &Cx<'_>, visit: &mut Visit<'_>) {
    cx.shared.facts.visit(&mut |name, value| {
        if name == "curr_items" && value > 0 {
            visit("items:1:number", &value);
        }
    });
}

fn slabs(cx: &Cx<'_>, visit: &mut Visit<'_>) {
    visit("active_slabs", &1);
    cx.shared.facts.visit(&mut |name, value| {
        if name == "bytes" {
            visit("total_malloced", &value);
        }
    });
}
