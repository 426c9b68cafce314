//! INFO and KR.STATS: what the server knows about itself.

use std::fmt::Write as _;

use crate::redis::call::Call;
use crate::redis::fault::Done;
use crate::redis::session::REDIS_VERSION;
use crate::redis::table;

type Section = (&'static str, fn(&Call<'_>, &mut String));

/// The sections in their order, each with what writes its lines.
const SECTIONS: [Section; 8] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("Commandstats", command_stats),
    ("Keyspace", keyspace),
];

/// What is left out unless it is asked for.
const NOT_BY_DEFAULT: &str = "Commandstats";

pub(crate) fn info(call: &mut Call<'_>) -> Done {
    let mut text = String::new();
    for (name, lines) in SECTIONS {
        if !is_wanted(call, name) {
            continue;
        }
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        line(&mut text, format_args!("# {name}"));
        lines(call, &mut text);
        let host = &call.desk.shared.host;
        host.info(&name.to_ascii_lowercase(), &mut |name, value| {
            line(&mut text, format_args!("{name}:{value}"));
        });
    }
    call.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

fn is_wanted(call: &Call<'_>, section: &str) -> bool {
    if call.count() == 1 {
        return section != NOT_BY_DEFAULT;
    }
    (1..call.count()).any(|index| {
        call.is(index, section)
            || call.is(index, "all")
            || call.is(index, "everything")
            || (call.is(index, "default") && section != NOT_BY_DEFAULT)
    })
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = text.write_fmt(line);
    text.push_str("\r\n");
}

fn server(call: &Call<'_>, text: &mut String) {
    let shared = call.desk.shared;
    let seconds = call.desk.now_ms.saturating_sub(shared.start_ms) / 1000;
    line(text, format_args!("redis_version:{REDIS_VERSION}"));
    line(text, format_args!("redis_mode:standalone"));
    line(text, format_args!("keyrack_version:{}", env!("CARGO_PKG_VERSION")));
    line(text, format_args!("engine:{}", call.desk.store.version()));
    line(text, format_args!("os:{} {}", std::env::consts::OS, std::env::consts::ARCH));
    line(text, format_args!("arch_bits:{}", usize::BITS));
    line(text, format_args!("process_id:{}", std::process::id()));
    line(text, format_args!("run_id:{}", shared.run_id));
    line(text, format_args!("server_time_usec:{}", call.desk.now_ms * 1000));
    line(text, format_args!("uptime_in_seconds:{seconds}"));
    line(text, format_args!("uptime_in_days:{}", seconds / 86_400));
}

fn clients(call: &Call<'_>, text: &mut String) {
    line(text, format_args!("connected_clients:{}", call.desk.shared.clients.count()));
    line(text, format_args!("blocked_clients:0"));
    line(text, format_args!("tracking_clients:0"));
}

fn memory(call: &Call<'_>, text: &mut String) {
    let bytes = stat(call, "memory_bytes").unwrap_or(0.0);
    line(text, format_args!("used_memory:{bytes:.0}"));
    line(text, format_args!("used_memory_human:{:.2}M", bytes / (1 << 20) as f64));
    let setting = |name: &str, or: &'static str| {
        let options = &call.desk.shared.options.config;
        let found = options.iter().find(|(key, _)| key == name);
        found.map_or(or.to_owned(), |(_, value)| value.clone())
    };
    line(text, format_args!("maxmemory:{}", setting("maxmemory", "0")));
    line(text, format_args!("maxmemory_policy:{}", setting("maxmemory-policy", "noeviction")));
}

fn persistence(call: &Call<'_>, text: &mut String) {
    let checkpoint = call.desk.shared.host.checkpoint();
    let status = if checkpoint.failure.is_none() { "ok" } else { "err" };
    line(text, format_args!("loading:0"));
    line(text, format_args!("rdb_bgsave_in_progress:{}", u8::from(checkpoint.is_running)));
    line(text, format_args!("rdb_last_save_time:{}", checkpoint.last_ms / 1000));
    line(text, format_args!("rdb_last_bgsave_status:{status}"));
    line(text, format_args!("durability:{}", call.desk.store.durability()));
    call.desk.store.stats(&mut |name, value| {
        if name.starts_with("log_") || name.starts_with("checkpoint") {
            line(text, format_args!("{name}:{value:.0}"));
        }
    });
}

fn stats(call: &Call<'_>, text: &mut String) {
    let shared = call.desk.shared;
    let totals = shared.totals();
    let commands: u64 = totals.calls.iter().sum();
    line(text, format_args!("total_connections_received:{}", shared.clients.opened()));
    line(text, format_args!("total_commands_processed:{commands}"));
    line(text, format_args!("expired_keys:{:.0}", stat(call, "expired").unwrap_or(0.0)));
    line(text, format_args!("evicted_keys:{:.0}", stat(call, "evicted").unwrap_or(0.0)));
    line(text, format_args!("keyspace_hits:{}", totals.hits));
    line(text, format_args!("keyspace_misses:{}", totals.misses));
    line(text, format_args!("total_error_replies:{}", totals.failed + totals.rejected));
    line(text, format_args!("protocol_errors:{}", totals.protocol_errors));
}

fn replication(_: &Call<'_>, text: &mut String) {
    line(text, format_args!("role:master"));
    line(text, format_args!("connected_slaves:0"));
}

fn command_stats(call: &Call<'_>, text: &mut String) {
    let totals = call.desk.shared.totals();
    for (command, &calls) in table::COMMANDS.iter().zip(&totals.calls) {
        if calls > 0 {
            line(text, format_args!("cmdstat_{}:calls={calls}", command.name));
        }
    }
}

fn keyspace(call: &Call<'_>, text: &mut String) {
    let keys = call.desk.store.len();
    if keys > 0 {
        line(text, format_args!("db0:keys={keys},expires=0,avg_ttl=0"));
    }
}

/// The number that the rows call `wanted`.
fn stat(call: &Call<'_>, wanted: &str) -> Option<f64> {
    let mut found = None;
    call.desk.store.stats(&mut |name, value| {
        if name == wanted {
            found = Some(value);
        }
    });
    found
}

/// Every number of the rows and of the protocol, by its name.
pub(crate) fn numbers(call: &mut Call<'_>) -> Done {
    let mut found: Vec<(String, f64)> = Vec::new();
    call.desk.store.stats(&mut |name, value| found.push((name.to_owned(), value)));
    let shared = call.desk.shared;
    found.push(("redis_connections".to_owned(), shared.clients.count() as f64));
    shared.counters(&mut |name, value| found.push((format!("redis_{name}"), value as f64)));
    call.reply.map(found.len());
    for (name, value) in found {
        call.reply.bulk(name.as_bytes());
        call.reply.double(value);
    }
    Ok(())
}
