//! A Redis Cluster of three nodes on this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::support::{Real, patiently, settings, try_load, try_load_until};
use keyrack_loadgen::plan::{Filling, Loading, Settings};
use keyrack_loadgen::route::Sharding;
use keyrack_loadgen::target::Protocol;

/// Three masters that have found each other; the slots are dealt out in thirds.
struct Cluster {
    nodes: Vec<Real>,
}

/// The last slots of the first two nodes.
const ENDS: [u16; 2] = [5460, 10_922];

impl Cluster {
    /// `None` where Redis is not installed.
    fn start() -> Option<Cluster> {
        let nodes: Vec<Real> = (0..3).map(|_| Cluster::node()).collect::<Option<_>>()?;
        let cluster = Cluster { nodes };
        let ranges = [(0, ENDS[0]), (ENDS[0] + 1, ENDS[1]), (ENDS[1] + 1, 16_383)];
        for (node, (first, last)) in cluster.nodes.iter().zip(ranges) {
            let (first, last) = (first.to_string(), last.to_string());
            assert_eq!(ask(node, &["CLUSTER", "ADDSLOTSRANGE", &first, &last]), "+OK");
        }
        for other in &cluster.nodes[1..] {
            let bus = ask(other, &["CONFIG", "GET", "cluster-port"]);
            let (port, bus) = (port(other), bus.lines().last().unwrap().to_owned());
            assert_eq!(
                ask(&cluster.nodes[0], &["CLUSTER", "MEET", "127.0.0.1", &port, &bus]),
                "+OK"
            );
        }
        for node in &cluster.nodes {
            patiently("the cluster forms", || {
                let info = ask(node, &["CLUSTER", "INFO"]);
                let slots = ask(node, &["CLUSTER", "SLOTS"]);
                let knows = |other: &Real| slots.contains(&port(other));
                info.contains("cluster_state:ok") && cluster.nodes.iter().all(knows)
            });
        }
        Some(cluster)
    }

    fn node() -> Option<Real> {
        // The port of the bus is not 10,000 above that of the clients. It is below those that the
        // system gives away, so that nobody gets it before the server has it.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mut ports = std::iter::repeat_with(|| {
            let number = std::process::id() * 16 + NEXT.fetch_add(1, Ordering::Relaxed);
            20_000 + number % 12_000
        });
        let is_free = |port: &u32| TcpListener::bind(format!("127.0.0.1:{port}")).is_ok();
        let bus = ports.by_ref().take(1000).find(is_free).expect("a free port below 32,000");
        let bus = bus.to_string();
        Real::redis(&[
            "--cluster-enabled",
            "yes",
            "--cluster-port",
            &bus,
            "--cluster-node-timeout",
            "5000",
        ])
    }

    fn id(&self, node: usize) -> String {
        ask(&self.nodes[node], &["CLUSTER", "MYID"]).lines().last().unwrap().to_owned()
    }
}

fn port(node: &Real) -> String {
    node.address.rsplit_once(':').unwrap().1.to_owned()
}

/// One command on a connection of its own, and the lines of its answer.
fn ask(node: &Real, words: &[&str]) -> String {
    let mut stream = TcpStream::connect(&node.address).unwrap();
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    // Redis closes behind its answer.
    request.push_str("*1\r\n$4\r\nQUIT\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    BufReader::new(stream).read_to_string(&mut reply).unwrap();
    reply.trim_end().strip_suffix("+OK").unwrap().trim_end().replace("\r\n", "\n")
}

fn keys_in(node: &Real, slot: &str) -> Vec<String> {
    let reply = ask(node, &["CLUSTER", "GETKEYSINSLOT", slot, "1000"]);
    let lines = reply.as_bytes().lines().map_while(Result::ok);
    lines.filter(|line| !line.starts_with(['*', '$'])).collect()
}

fn over(cluster: &Cluster, protocol: Protocol) -> Settings {
    Settings {
        protocol,
        sharding: Sharding::Cluster,
        // One is enough: it knows the others.
        ..settings(&cluster.nodes[0].address)
    }
}

#[test]
fn a_cluster_is_loaded_and_asked_by_its_map() {
    let Some(cluster) = Cluster::start() else { return };
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        for (threads, connections, depth) in [(1, 1, 1), (2, 2, 8)] {
            let report = try_load(
                Settings {
                    threads,
                    connections,
                    depth,
                    update: 0.2,
                    verify: true,
                    records: 500,
                    ..over(&cluster, protocol)
                },
                None,
            )
            .unwrap();
            let counts = &report.account.counts;
            assert_eq!((report.loaded, counts.ops), (500, 1000), "{report:?}");
            assert_eq!(report.account.errors.total(), 0, "{report:?}");
            assert_eq!((counts.misses, counts.moved, counts.asked), (0, 0, 0), "{counts:?}");
        }
    }
    let held = cluster.nodes.iter().map(|node| ask(node, &["DBSIZE"])[1..].parse().unwrap());
    let held: Vec<u64> = held.collect();
    assert_eq!(held.iter().sum::<u64>(), 500, "{held:?}");
    assert!(held.iter().all(|records| *records > 100), "{held:?}");
    // Keys with one tag have one node, and the hash of --assoc is named by the first part.
    let tagged = Settings {
        prefix: "{tag}".to_owned(),
        filling: Filling::GetSet,
        loading: Loading::No,
        records: 50,
        ..over(&cluster, Protocol::Resp2)
    };
    let report = try_load(tagged, None).unwrap();
    assert_eq!((report.account.errors.total(), report.account.counts.moved), (0, 0), "{report:?}");
    let hashes = Settings { assoc: Some(4), ..over(&cluster, Protocol::Resp2) };
    let report = try_load(hashes, None).unwrap();
    assert_eq!((report.account.errors.total(), report.account.counts.moved), (0, 0), "{report:?}");
}

/// A slot moves to another node while it is asked for: first its keys, one after the other, when
/// those that are gone are asked for at the new place once (ASK); then the slot (MOVED).
#[test]
fn a_slot_that_moves_during_the_run_is_followed() {
    let Some(cluster) = Cluster::start() else { return };
    let stop = Arc::new(AtomicBool::new(false));
    // One tag: all keys are in one slot.
    let settings = Settings {
        prefix: "{12}".to_owned(),
        records: 40,
        queries: 0,
        time_s: 600.0,
        depth: 4,
        connections: 2,
        ..over(&cluster, Protocol::Resp2)
    };
    let run = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || try_load_until(settings, stop))
    };
    let slot = ask(&cluster.nodes[0], &["CLUSTER", "KEYSLOT", "{12}"])[1..].to_owned();
    let number: u16 = slot.parse().unwrap();
    let from = ENDS.iter().filter(|end| number > **end).count();
    let to = (from + 1) % 3;
    let (source, target) = (&cluster.nodes[from], &cluster.nodes[to]);
    patiently("records are there", || keys_in(source, &slot).len() == 40);
    let (from_id, to_id) = (cluster.id(from), cluster.id(to));
    assert_eq!(ask(target, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]), "+OK");
    assert_eq!(ask(source, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]), "+OK");
    for key in keys_in(source, &slot) {
        let moved = ask(source, &["MIGRATE", "127.0.0.1", &port(target), &key, "0", "5000"]);
        assert_eq!(moved, "+OK");
    }
    let calls = |name: &str| {
        let stats = ask(target, &["INFO", "commandstats"]);
        let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:")));
        let calls = line.and_then(|line| line.split(['=', ',']).nth(1)?.parse().ok());
        calls.unwrap_or(0u64)
    };
    patiently("requests ask at the new place", || calls("asking") > 50);
    assert_eq!(ask(target, &["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]), "+OK");
    assert_eq!(ask(source, &["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]), "+OK");
    let (asked, before) = (calls("asking"), calls("get"));
    patiently("requests go to the new place", || calls("get") > before + asked + 1000);
    stop.store(true, Ordering::Relaxed);
    let report = run.join().unwrap().unwrap();
    let counts = &report.account.counts;
    assert_eq!(report.account.errors.total(), 0, "{report:?}");
    assert_eq!(counts.misses, 0, "no record was lost on its way: {counts:?}");
    assert!(counts.asked > 50, "{counts:?}");
    // Each request that was under way when the slot had moved, and none after that.
    assert!((1..=2 * 4 * 2).contains(&counts.moved), "{counts:?}");
    assert_eq!(report.account.all().response.count(), counts.ops);
}

/// A node that the map did not have yet is connected to when a redirection names it.
#[test]
fn a_node_that_comes_later_is_found() {
    let Some(mut cluster) = Cluster::start() else { return };
    let Some(fourth) = Cluster::node() else { return };
    let bus = ask(&fourth, &["CONFIG", "GET", "cluster-port"]).lines().last().unwrap().to_owned();
    let met = ask(&cluster.nodes[0], &["CLUSTER", "MEET", "127.0.0.1", &port(&fourth), &bus]);
    assert_eq!(met, "+OK");
    cluster.nodes.push(fourth);
    let id = cluster.id(3);
    for node in &cluster.nodes {
        patiently("all know the fourth, and it them", || {
            let is_up = ask(node, &["CLUSTER", "INFO"]).contains("cluster_state:ok");
            is_up && ask(node, &["CLUSTER", "NODES"]).contains(&id)
        });
    }
    let stop = Arc::new(AtomicBool::new(false));
    let settings = Settings {
        filling: Filling::GetSet,
        loading: Loading::No,
        prefix: "{12}".to_owned(),
        records: 1000,
        queries: 0,
        time_s: 600.0,
        ..over(&cluster, Protocol::Resp2)
    };
    let run = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || try_load_until(settings, stop))
    };
    let slot = ask(&cluster.nodes[0], &["CLUSTER", "KEYSLOT", "{12}"])[1..].to_owned();
    let from = ENDS.iter().filter(|end| slot.parse::<u16>().unwrap() > **end).count();
    patiently("it runs", || !keys_in(&cluster.nodes[from], &slot).is_empty());
    // The slot goes without its keys: the lookups that miss write them again.
    let _ = ask(&cluster.nodes[from], &["FLUSHALL"]);
    for node in [3, from, 0, 1, 2] {
        patiently("the slot is given away", || {
            let _ = ask(&cluster.nodes[from], &["FLUSHALL"]);
            ask(&cluster.nodes[node], &["CLUSTER", "SETSLOT", &slot, "NODE", &id]) == "+OK"
        });
    }
    patiently("the fourth is asked", || keys_in(&cluster.nodes[3], &slot).len() > 20);
    stop.store(true, Ordering::Relaxed);
    let report = run.join().unwrap().unwrap();
    assert!(report.account.counts.moved > 0, "{report:?}");
    assert_eq!(report.account.counts.reconnects, 1, "one connection more: {report:?}");
    assert_eq!(report.account.errors.total(), 0, "{report:?}");
}

#[test]
fn what_is_no_cluster_is_said() {
    let Some(real) = Real::redis(&[]) else { return };
    let settings = Settings {
        protocol: Protocol::Resp2,
        sharding: Sharding::Cluster,
        ..settings(&real.address)
    };
    let error = try_load(settings.clone(), None).unwrap_err().to_string();
    assert!(error.contains(&real.address) && error.contains("cluster support disabled"), "{error}");
    let Some(node) = Cluster::node() else { return };
    let empty = Settings { servers: vec![node.address.clone()], ..settings };
    let error = try_load(empty, None).unwrap_err().to_string();
    assert!(error.contains(&node.address) && error.contains("no slots"), "{error}");
}
