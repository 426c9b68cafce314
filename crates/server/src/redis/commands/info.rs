//! INFO and KR.STATS: what the server knows about itself.

use std::fmt::Write as _;

use crate::redis::call::Call;
use crate::redis::commands::session::REDIS_VERSION;
use crate::redis::fault::Done;
use crate::redis::table;

type Section = (&'static str, fn(&mut Call<'_>, &mut String));

/// The sections in their order, each with what writes its lines.
const SECTIONS: [Section; 10] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("CPU", cpu),
    ("Commandstats", command_stats),
    ("Cluster", cluster),
    ("Keyspace", keyspace),
];

/// The section that is written only on request.
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
        let host = &call.ctx.shared.host;
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

fn server(call: &mut Call<'_>, text: &mut String) {
    let shared = call.ctx.shared;
    let seconds = call.ctx.now_ms.saturating_sub(shared.start_ms) / 1000;
    line(text, format_args!("redis_version:{REDIS_VERSION}"));
    line(text, format_args!("redis_mode:standalone"));
    line(text, format_args!("keyrack_version:{}", env!("CARGO_PKG_VERSION")));
    line(text, format_args!("engine:{}", call.ctx.store.version()));
    line(text, format_args!("os:{} {}", std::env::consts::OS, std::env::consts::ARCH));
    line(text, format_args!("arch_bits:{}", usize::BITS));
    line(text, format_args!("process_id:{}", std::process::id()));
    line(text, format_args!("run_id:{}", shared.run_id));
    line(text, format_args!("server_time_usec:{}", call.ctx.now_ms * 1000));
    line(text, format_args!("uptime_in_seconds:{seconds}"));
    line(text, format_args!("uptime_in_days:{}", seconds / 86_400));
}

fn clients(call: &mut Call<'_>, text: &mut String) {
    line(text, format_args!("connected_clients:{}", call.ctx.shared.clients.count()));
    line(text, format_args!("cluster_connections:0"));
    line(text, format_args!("maxclients:{}", setting(call, "maxclients", "0")));
    line(text, format_args!("blocked_clients:0"));
    line(text, format_args!("tracking_clients:0"));
    line(text, format_args!("clients_in_timeout_table:0"));
}

fn memory(call: &mut Call<'_>, text: &mut String) {
    let bytes = stat(call, "memory_bytes").unwrap_or(0.0);
    line(text, format_args!("used_memory:{bytes:.0}"));
    line(text, format_args!("used_memory_human:{:.2}M", bytes / (1 << 20) as f64));
    let maxmemory = setting(call, "maxmemory", "0");
    line(text, format_args!("maxmemory:{maxmemory}"));
    let bytes: f64 = maxmemory.parse().unwrap_or(0.0);
    line(text, format_args!("maxmemory_human:{:.2}M", bytes / (1 << 20) as f64));
    line(text, format_args!("mem_clients_normal:{}", call.ctx.shared.options.memory.bytes()));
    let policy = setting(call, "maxmemory-policy", "noeviction");
    line(text, format_args!("maxmemory_policy:{policy}"));
}

/// The value of an option of the server, or `or` where it has none.
fn setting(call: &Call<'_>, name: &str, or: &str) -> String {
    let options = &call.ctx.shared.options.config;
    let found = options.iter().find(|(key, _)| key == name);
    found.map_or(or.to_owned(), |(_, value)| value.clone())
}

fn persistence(call: &mut Call<'_>, text: &mut String) {
    let checkpoint = call.ctx.shared.host.checkpoint();
    let status = if checkpoint.failure.is_none() { "ok" } else { "err" };
    line(text, format_args!("loading:0"));
    line(text, format_args!("async_loading:0"));
    line(text, format_args!("rdb_bgsave_in_progress:{}", u8::from(checkpoint.is_running)));
    line(text, format_args!("rdb_last_save_time:{}", checkpoint.last_ms / 1000));
    line(text, format_args!("rdb_last_bgsave_status:{status}"));
    let durability = call.ctx.store.durability();
    let has_log = u8::from(durability != keyrack_store::Durability::None);
    line(text, format_args!("aof_enabled:{has_log}"));
    line(text, format_args!("aof_rewrite_in_progress:{}", u8::from(checkpoint.is_running)));
    line(text, format_args!("aof_last_bgrewrite_status:{status}"));
    line(text, format_args!("durability:{durability}"));
    call.ctx.store.stats(&mut |name, value| {
        if name.starts_with("log_") || name.starts_with("checkpoint") {
            line(text, format_args!("{name}:{value:.0}"));
        }
    });
}

fn stats(call: &mut Call<'_>, text: &mut String) {
    let shared = call.ctx.shared;
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

fn replication(call: &mut Call<'_>, text: &mut String) {
    line(text, format_args!("role:master"));
    line(text, format_args!("connected_slaves:0"));
    line(text, format_args!("master_failover_state:no-failover"));
    line(text, format_args!("master_replid:{}", call.ctx.shared.run_id));
    line(text, format_args!("master_replid2:{}", "0".repeat(40)));
    line(text, format_args!("master_repl_offset:0"));
    line(text, format_args!("second_repl_offset:-1"));
    for name in ["active", "size", "first_byte_offset", "histlen"] {
        line(text, format_args!("repl_backlog_{name}:0"));
    }
}

/// The process has no children.
fn cpu(_: &mut Call<'_>, text: &mut String) {
    let usage = keyrack_measure::usage::process();
    let seconds = |ns: u64| ns as f64 / 1e9;
    line(text, format_args!("used_cpu_sys:{:.6}", seconds(usage.system_ns)));
    line(text, format_args!("used_cpu_user:{:.6}", seconds(usage.user_ns)));
    line(text, format_args!("used_cpu_sys_children:0.000000"));
    line(text, format_args!("used_cpu_user_children:0.000000"));
}

fn cluster(_: &mut Call<'_>, text: &mut String) {
    line(text, format_args!("cluster_enabled:0"));
}

fn command_stats(call: &mut Call<'_>, text: &mut String) {
    let totals = call.ctx.shared.totals();
    for (index, command) in table::COMMANDS.iter().enumerate() {
        let (calls, rejected) = (totals.calls[index], totals.rejected_calls[index]);
        if calls == 0 && rejected == 0 {
            continue;
        }
        let usec = totals.spent_ns[index] / 1000;
        let per_call = totals.spent_ns[index] as f64 / 1000.0 / calls.max(1) as f64;
        line(
            text,
            format_args!(
                "cmdstat_{}:calls={calls},usec={usec},usec_per_call={per_call:.2},\
                 rejected_calls={rejected},failed_calls={}",
                command.name, totals.failed_calls[index]
            ),
        );
    }
}

/// Keys that are looked at for the mean time to live.
const SAMPLE_KEYS: u64 = 1000;

/// How many keys have a time to live is what the rows count; for rows that do not it is estimated
/// from the first keys. The mean time is that of the first keys.
fn keyspace(call: &mut Call<'_>, text: &mut String) {
    let keys = call.ctx.store.len();
    if keys == 0 {
        return;
    }
    let (mut seen, mut expiring, mut ttl_ms) = (0_u64, 0_u64, 0_u64);
    let now_ms = call.ctx.now_ms;
    let counted = stat(call, "volatile_rows").map(|count| count as u64);
    if counted != Some(0) {
        let scanned = call.ctx.rows.scan(b"", None, &mut |_, row| {
            seen += 1;
            if row.expires_ms() != 0 {
                expiring += 1;
                ttl_ms = ttl_ms.saturating_add(row.expires_ms().saturating_sub(now_ms));
            }
            if seen < SAMPLE_KEYS {
                std::ops::ControlFlow::Continue(())
            } else {
                std::ops::ControlFlow::Break(())
            }
        });
        if let Err(error) = scanned {
            line(text, format_args!("keyspace_error:{error}"));
            return;
        }
    }
    let estimate = keys as f64 * expiring as f64 / seen.max(1) as f64;
    let expires = counted.unwrap_or(estimate as u64).min(keys);
    let avg_ttl = ttl_ms / expiring.max(1);
    line(text, format_args!("db0:keys={keys},expires={expires},avg_ttl={avg_ttl}"));
}

fn stat(call: &Call<'_>, wanted: &str) -> Option<f64> {
    let mut found = None;
    call.ctx.store.stats(&mut |name, value| {
        if name == wanted {
            found = Some(value);
        }
    });
    found
}

/// Every number of the rows and of the protocol, by its name.
pub(crate) fn numbers(call: &mut Call<'_>) -> Done {
    let mut found: Vec<(String, f64)> = Vec::new();
    call.ctx.store.stats(&mut |name, value| found.push((name.to_owned(), value)));
    let shared = call.ctx.shared;
    found.push(("redis_connections".to_owned(), shared.clients.count() as f64));
    shared.counters(&mut |name, value| found.push((format!("redis_{name}"), value as f64)));
    call.reply.map(found.len());
    for (name, value) in found {
        call.reply.bulk(name.as_bytes());
        call.reply.double(value);
    }
    Ok(())
}
