//! What INFO, CONFIG and CLIENT tell: that it is true, and under which names Redis tells it.

use super::compare::{RealClient, redis};
use crate::glue::{Client, address, options, rest, start};
use keyrack_rowstore::{Eviction as RowEviction, ModelRows, Options as RowOptions, RowStore};
use keyrack_server::{Eviction, Options, Server};
use keyrack_store::Durability;
use std::collections::BTreeSet;

fn value<'i>(info: &'i str, name: &str) -> &'i str {
    let found: Vec<&str> =
        info.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':')).collect();
    assert_eq!(found.len(), 1, "{name} once in:\n{info}");
    found[0]
}

fn serve(change: impl FnOnce(&mut Options)) -> Server {
    let mut options = options(&["resp://127.0.0.1:0"]);
    change(&mut options);
    let rows = RowOptions {
        durability: Durability::None,
        memory_max: options.memory_bytes_max,
        eviction: match options.eviction {
            Eviction::Clock => RowEviction::Clock,
            Eviction::None => RowEviction::None,
        },
        ..RowOptions::default()
    };
    start(Box::new(RowStore::in_memory(rows).unwrap()), &options).0
}

#[test]
fn the_eviction_policy_is_the_one_that_holds() {
    for (eviction, policy) in [(Eviction::None, "noeviction"), (Eviction::Clock, "allkeys-lru")] {
        let server = serve(|options| {
            options.memory_bytes_max = 64 << 20;
            options.eviction = eviction;
        });
        let mut client = Client::of(&server);
        let told = client.ask("CONFIG GET maxmemory-policy");
        assert_eq!(told, format!("maxmemory-policy {policy}"));
        assert_eq!(value(&client.ask("INFO memory"), "maxmemory_policy"), policy);
        drop(client);
        server.end().unwrap();
    }
}

#[test]
fn info_counts_the_keys_that_expire() {
    let server = serve(|_| {});
    let mut client = Client::of(&server);
    client.ask("SET stays v");
    client.ask("SET goes v EX 1000");
    client.ask("SET goes2 v EX 3000");
    let info = client.ask("INFO keyspace");
    let (counts, ttl_ms) = value(&info, "db0").split_once(",avg_ttl=").unwrap();
    assert_eq!(counts, "keys=3,expires=2");
    let ttl_ms: u64 = ttl_ms.parse().unwrap();
    assert!((1_000_000..=2_000_000).contains(&ttl_ms), "{ttl_ms}");
    client.ask("PERSIST goes");
    assert!(client.ask("INFO keyspace").contains("keys=3,expires=1,"));
    drop(client);
    server.end().unwrap();
}

#[test]
fn info_tells_each_thing_once_and_the_time_of_commands() {
    let server = serve(|_| {});
    let mut client = Client::of(&server);
    for index in 0..100 {
        client.ask(&format!("SET k{index} v"));
    }
    assert!(client.ask("INCR k1").starts_with("-ERR value"));
    assert!(client.ask("GET").starts_with("-ERR wrong number"));
    assert_eq!(client.ask("GET k1"), "v");
    let info = client.ask("INFO everything");
    let mut names = BTreeSet::new();
    for line in info.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let name = line.split(':').next().unwrap();
        assert!(names.insert(name), "{name} is there twice:\n{info}");
    }
    for name in ["engine", "durability", "total_reads_processed", "used_cpu_user"] {
        assert!(names.contains(name), "no {name} in:\n{info}");
    }
    assert_eq!(value(&info, "cluster_enabled"), "0");
    assert!(value(&info, "total_reads_processed").parse::<u64>().unwrap() >= 100);
    let set = value(&info, "cmdstat_set");
    let usec: u64 = set.split(['=', ',']).nth(3).unwrap().parse().unwrap();
    assert!(set.starts_with("calls=100,usec=") && usec > 0, "{set}");
    assert!(set.ends_with(",rejected_calls=0,failed_calls=0"), "{set}");
    assert!(value(&info, "cmdstat_incr").ends_with("failed_calls=1"));
    assert!(value(&info, "cmdstat_get").contains("rejected_calls=1"));
    drop(client);
    server.end().unwrap();
}

#[test]
fn a_client_that_quit_or_was_killed_is_listed_no_more() {
    let server = serve(|_| {});
    let mut watcher = Client::of(&server);
    let mut quits = Client::of(&server);
    assert_eq!(quits.ask("QUIT"), "+OK");
    // Its socket is still open here: nobody has read the end yet.
    assert_eq!(watcher.ask("CLIENT LIST").lines().count(), 1);
    assert_eq!(value(&watcher.ask("INFO clients"), "connected_clients"), "1");
    let mut victim = Client::of(&server);
    let id = victim.ask("CLIENT ID");
    assert_eq!(watcher.ask(&format!("CLIENT KILL ID {}", &id[1..])), ":1");
    assert_eq!(watcher.ask("CLIENT LIST").lines().count(), 1);
    assert_eq!(rest(&mut victim.0), "");
    drop((watcher, quits));
    server.end().unwrap();
}

#[test]
fn a_client_is_told_with_both_addresses_and_its_own_age() {
    let server = serve(|_| {});
    let mut client = Client::of(&server);
    let line = client.ask("CLIENT LIST");
    let (peer, local) = (client.0.get_ref().local_addr().unwrap(), address(&server, 0));
    assert!(line.contains(&format!(" addr={peer} laddr={local} ")), "{line}");
    assert_eq!(client.ask(&format!("CLIENT KILL LADDR {local} SKIPME yes")), ":0");
    drop(client);
    server.end().unwrap();
}

#[test]
fn a_type_of_clients_that_there_is_not_is_an_error() {
    let server = serve(|_| {});
    let mut client = Client::of(&server);
    assert_eq!(client.ask("CLIENT KILL TYPE wrong"), "-ERR Unknown client type 'wrong'");
    assert_eq!(client.ask("CLIENT KILL TYPE pubsub"), ":0");
    assert_eq!(client.ask("CLIENT KILL USER nobody"), "-ERR No such user 'nobody'");
    drop(client);
    server.end().unwrap();
}

/// Names of Redis' INFO that are about what is not here, each group with its reason.
const NOT_HERE: [(&str, &[&str]); 9] = [
    (
        "its build and its process",
        &[
            "redis_git_",
            "redis_build_id",
            "monotonic_clock",
            "multiplexing_api",
            "atomicvar_api",
            "gcc_version",
            "process_supervised",
            "executable",
            "config_file",
            "io_threads_active",
        ],
    ),
    ("its timer", &["hz", "configured_hz", "lru_clock"]),
    ("buffers of connections", &["client_recent_max_", "reply_buffer_"]),
    (
        "its allocator; used_memory is what the rows take",
        &[
            "allocator_",
            "used_memory_",
            "rss_overhead_",
            "mem_",
            "active_defrag",
            "lazyfree",
            "total_system_memory",
            "total_active_defrag",
            "current_active_defrag",
        ],
    ),
    ("scripts, functions, modules", &["number_of_", "module_"]),
    (
        "children that write files; a checkpoint is written by a thread",
        &["current_", "rdb_", "aof_", "latest_fork_usec", "total_forks"],
    ),
    (
        "how it expires and evicts",
        &[
            "expired_stale_perc",
            "expired_time_cap",
            "expire_cycle",
            "total_eviction_exceeded_time",
            "dump_payload",
        ],
    ),
    (
        "replicas, channels, threads for input and output, a cluster",
        &[
            "total_net_repl",
            "instantaneous_",
            "sync_",
            "pubsub",
            "migrate_cached",
            "slave_",
            "tracking_total",
            "io_threaded",
        ],
    ),
    ("other", &["unexpected_error_replies", "used_cpu_sys_main", "used_cpu_user_main"]),
];

#[test]
fn names_of_info_and_client_list_are_those_of_redis() {
    let Some(real) = redis() else {
        println!("SKIPPED: redis-server 7.0 is not installed");
        return;
    };
    let server = serve(|_| {});
    let mut ours = Client::of(&server);
    ours.ask("SET a 1 EX 100");
    let mut theirs = RealClient::of(&real);
    theirs.ask(&[b"SET", b"a", b"1", b"EX", b"100"]);
    let names = |text: &str| -> BTreeSet<String> {
        let lines = text.lines().filter(|line| !line.starts_with(['#', '$']));
        lines.filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect()
    };
    for section in [
        "server",
        "clients",
        "memory",
        "persistence",
        "stats",
        "replication",
        "cpu",
        "cluster",
        "keyspace",
    ] {
        let theirs = theirs.ask(&[b"INFO", section.as_bytes()]);
        let ours = names(&ours.ask(&format!("INFO {section}")));
        let is_excused = |name: &str| {
            NOT_HERE.iter().any(|(_, starts)| starts.iter().any(|start| name.starts_with(start)))
        };
        let missing: Vec<String> = names(&String::from_utf8_lossy(&theirs))
            .into_iter()
            .filter(|name| !ours.contains(name) && !is_excused(name))
            .collect();
        assert!(missing.is_empty(), "INFO {section} lacks {missing:?}");
    }
    let fields = |line: &str| -> BTreeSet<String> {
        line.split_whitespace()
            .filter_map(|word| Some(word.split_once('=')?.0.to_owned()))
            .collect()
    };
    let theirs = fields(&String::from_utf8_lossy(&theirs.ask(&[b"CLIENT", b"LIST"])));
    let ours_listed = fields(&ours.ask("CLIENT LIST"));
    let missing: Vec<&String> = theirs.difference(&ours_listed).collect();
    // Buffers belong to the event loops and are lent for an iteration.
    let buffers = ["argv-mem", "obl", "oll", "omem", "qbuf-free", "rbp", "rbs", "tot-mem"];
    assert_eq!(missing, buffers);
    drop(ours);
    server.end().unwrap();
}

/// The model has no count of keys that expire: the number is an estimate, and never above the keys.
#[test]
fn rows_that_do_not_count_what_expires_are_estimated() {
    let (server, _) = start(Box::new(ModelRows::new()), &options(&["resp://127.0.0.1:0"]));
    let mut client = Client::of(&server);
    for index in 0..10 {
        client.ask(&format!("SET k{index} v"));
        client.ask(&format!("SET t{index} v EX 100"));
    }
    assert!(client.ask("INFO keyspace").contains("db0:keys=20,expires=10,avg_ttl="));
    drop(client);
    server.end().unwrap();
}
