//! `/metrics`, read by a parser of its own: the rules of Prometheus' text format, version 0.0.4,
//! and of its client libraries for names. And the dashboard, whose expressions name what is there.

use crate::glue::{Client, address, options, start};
use keyrack_rowstore::{Options as RowOptions, RowStore};
use keyrack_server::{Control, Server};
use keyrack_vfs::{Fs, MemFs, RealFs};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

/// A server of a row store, with the admin page as its last listener.
fn served() -> (Server, Control) {
    let mut options =
        options(&["resp://127.0.0.1:0", "memcached://127.0.0.1:0", "masstree://127.0.0.1:0"]);
    options.engine = "rowstore".to_owned();
    options.data_dir = Some("/rows".into());
    options.admin = Some("127.0.0.1:0".to_owned());
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let row_options = RowOptions::default().with_segment_bytes(1 << 20);
    let rows = RowStore::open(fs, Path::new("/rows"), row_options, &|_| {}).unwrap();
    start(Box::new(rows), &options)
}

/// A page: its head and its body.
fn get(server: &Server, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address(server, server.bound().len() - 1)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn ask(server: &Server, index: usize, request: &str, reply: &str) {
    let stream = TcpStream::connect(address(server, index)).unwrap();
    let mut client = Client(BufReader::new(stream));
    client.send(request);
    let mut got = vec![0; reply.len()];
    client.0.read_exact(&mut got).unwrap();
    assert_eq!(String::from_utf8_lossy(&got), reply);
}

/// A line with a value.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// The samples below one TYPE.
#[derive(Debug)]
struct Family {
    kind: String,
    samples: Vec<Sample>,
}

impl Family {
    /// The values of the samples that have all of `labels`.
    fn sum(&self, suffix: &str, labels: &[(&str, &str)]) -> f64 {
        let has = |sample: &&Sample| {
            sample.name.ends_with(suffix)
                && labels.iter().all(|(name, value)| {
                    sample.labels.get(*name).is_some_and(|found| found == value)
                })
        };
        self.samples.iter().filter(has).map(|sample| sample.value).sum()
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').expect(line);
    let (name, labels) = match series.split_once('{') {
        None => (series, ""),
        Some((name, labels)) => (name, labels.strip_suffix('}').expect(line)),
    };
    assert!(is_name(name), "{line}");
    let mut found = BTreeMap::new();
    for pair in labels.split(',').filter(|pair| !pair.is_empty()) {
        let (label, value) = pair.split_once('=').expect(line);
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).expect(line);
        assert!(is_name(label) && !value.contains(['"', '\\']), "{line}");
        assert_eq!(found.insert(label.to_owned(), value.to_owned()), None, "{line}");
    }
    let value = value.parse().expect(line);
    Sample { name: name.to_owned(), labels: found, value }
}

/// Reads a page of metrics, and asserts every rule that does not depend on what it is about.
fn parse(text: &str) -> BTreeMap<String, Family> {
    assert!(text.ends_with('\n'));
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let (mut helped, mut open) = (BTreeSet::new(), String::new());
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect(line);
            assert!(helped.insert(name.to_owned()), "HELP twice: {line}");
            assert!(help.len() > 4 && help.ends_with('.'), "{line}");
            open.clear();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect(line);
            assert!(helped.contains(name), "no HELP before {line}");
            assert!(["counter", "gauge", "histogram", "summary", "untyped"].contains(&kind));
            let family = Family { kind: kind.to_owned(), samples: Vec::new() };
            assert!(families.insert(name.to_owned(), family).is_none(), "TYPE twice: {line}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            name.clone_into(&mut open);
        } else {
            let sample = sample(line);
            let suffix = sample.name.strip_prefix(&open).unwrap_or_else(|| panic!("stray {line}"));
            let family = families.get_mut(&open).unwrap_or_else(|| panic!("no TYPE for {line}"));
            let allowed: &[&str] = match family.kind.as_str() {
                "histogram" => &["_bucket", "_sum", "_count"],
                "summary" => &["", "_sum", "_count"],
                _ => &[""],
            };
            assert!(allowed.contains(&suffix), "{line}");
            assert!(seen.insert((sample.name.clone(), sample.labels.clone())), "twice: {line}");
            assert!(sample.value >= 0.0 || family.kind == "gauge", "{line}");
            family.samples.push(sample);
        }
    }
    for (name, family) in &families {
        assert!(!family.samples.is_empty(), "{name} has no samples");
        if family.kind == "histogram" {
            check_histogram(name, family);
        }
    }
    families
}

/// Buckets are cumulative, in the order of their bounds, and end with all.
fn check_histogram(name: &str, family: &Family) {
    let mut series: BTreeMap<BTreeMap<String, String>, Vec<(f64, f64)>> = BTreeMap::new();
    for sample in family.samples.iter().filter(|sample| sample.name.ends_with("_bucket")) {
        let mut labels = sample.labels.clone();
        let le = labels.remove("le").expect("a bucket has a bound");
        let le = if le == "+Inf" { f64::INFINITY } else { le.parse().unwrap() };
        series.entry(labels).or_default().push((le, sample.value));
    }
    let counts = family.samples.iter().filter(|sample| sample.name.ends_with("_count"));
    assert_eq!(counts.clone().count(), series.len(), "{name}");
    for count in counts {
        let buckets = &series[&count.labels];
        assert!(buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, count.value)), "{name} {count:?}");
        let sums = |s: &&Sample| s.name.ends_with("_sum") && s.labels == count.labels;
        assert_eq!(family.samples.iter().filter(sums).count(), 1, "{name} {count:?}");
    }
}

#[test]
fn metrics_follow_the_rules_and_are_true() {
    let (server, _) = served();
    ask(
        &server,
        1,
        "set a 0 0 1\r\nx\r\nget a\r\nget a b c\r\ndelete a\r\n",
        "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nVALUE a 0 1\r\nx\r\nEND\r\nDELETED\r\n",
    );
    ask(
        &server,
        0,
        "SET b 1\r\nGET b\r\nGET b\r\nHSET h f 1\r\nHGET h f\r\nKEYS *\r\nSAVE\r\nPING\r\n",
        "+OK\r\n$1\r\n1\r\n$1\r\n1\r\n:1\r\n$1\r\n1\r\n*2\r\n$1\r\nb\r\n$1\r\nh\r\n\
         +OK\r\n+PONG\r\n",
    );
    ask(&server, 0, "CONFIG RESETSTAT\r\n", "+OK\r\n");
    let (head, body) = get(&server, "/metrics");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    let families = parse(&body);

    let durations = &families["keyrack_command_duration_seconds"];
    assert_eq!(durations.kind, "histogram");
    for (protocol, kind, calls) in [
        ("memcached", "set", 1.0),
        ("memcached", "get", 2.0),
        ("memcached", "delete", 1.0),
        ("redis", "set", 1.0),
        ("redis", "get", 2.0),
        ("redis", "hash_write", 1.0),
        ("redis", "hash_read", 1.0),
        ("redis", "scan", 1.0),
        ("redis", "other", 3.0),
        ("masstree", "get", 0.0),
    ] {
        let labels = [("protocol", protocol), ("kind", kind)];
        assert_eq!(durations.sum("_count", &labels), calls, "{protocol} {kind}");
        assert_eq!(durations.sum("_sum", &labels) > 0.0, calls > 0.0, "{protocol} {kind}");
    }
    let value = |name: &str| {
        let family = families.get(name).unwrap_or_else(|| panic!("no {name} in\n{body}"));
        family.samples[0].value
    };
    assert_eq!(families["keyrack_redis_calls_total"].sum("", &[("command", "get")]), 2.0);
    assert_eq!(value("keyrack_memcached_get_misses_total"), 2.0);
    assert_eq!(value("keyrack_rows_checkpoints_total"), 1.0);
    assert_eq!(value("keyrack_rows_count"), 2.0);
    assert_eq!(value("keyrack_process_ready"), 1.0);
    assert!(value("keyrack_rows_log_file_bytes") > 0.0);
    // The process, as the client libraries name it, against what the system says of it.
    let fds = RealFs.list(Path::new("/proc/self/fd")).unwrap().len();
    assert!(value("process_open_fds") > 5.0 && fds > 5);
    assert!(value("process_max_fds") >= value("process_open_fds"));
    assert!(value("process_resident_memory_bytes") > 1e6);
    assert!(value("process_virtual_memory_bytes") > value("process_resident_memory_bytes"));
    assert!(value("process_cpu_seconds_total") > 0.0);
    let now = keyrack_measure::wall::unix_ms() as f64 / 1000.0;
    let age = now - value("process_start_time_seconds");
    assert!((-2.0..3600.0).contains(&age), "{age}");
    // Nothing that an engine of this server has is without its meaning.
    assert!(families.values().all(|family| family.kind != "untyped"), "{body}");
    server.end().unwrap();
}

/// The names of metrics in an expression of PromQL, each with its labels.
fn selectors(expression: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_') {
        rest = &rest[start..];
        let end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        rest = behind;
        if !word.starts_with("keyrack_") && !word.starts_with("process_") {
            // A function, a label, or the text of a label's value.
            if let Some(text) = rest.strip_prefix('"') {
                rest = text;
            }
            continue;
        }
        let mut labels = Vec::new();
        if let Some(inner) = rest.strip_prefix('{') {
            let (inner, behind) = inner.split_once('}').expect(expression);
            rest = behind;
            for pair in inner.split(',') {
                labels.push(pair.split(['=', '!']).next().unwrap().trim().to_owned());
            }
        }
        found.push((word.to_owned(), labels));
    }
    found
}

/// The labels that an expression groups by.
fn grouping(expression: &str) -> Vec<String> {
    let mut labels = Vec::new();
    for part in expression.split("by (").skip(1) {
        let (inner, _) = part.split_once(')').expect(expression);
        labels.extend(inner.split(',').map(|label| label.trim().to_owned()));
    }
    labels
}

#[test]
fn the_dashboard_shows_what_is_exposed() {
    let (server, _) = served();
    ask(&server, 0, "PING\r\n", "+PONG\r\n");
    let (_, body) = get(&server, "/metrics");
    let families = parse(&body);
    let mut labels_of: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for sample in families.values().flat_map(|family| &family.samples) {
        labels_of.entry(sample.name.clone()).or_default().extend(sample.labels.keys().cloned());
    }
    let root = env!("CARGO_MANIFEST_DIR");
    let path = Path::new(root).join("../../samples/grafana.json");
    let text = String::from_utf8(RealFs.read(&path).unwrap()).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    assert!(dashboard["schemaVersion"].as_u64() >= Some(38), "of Grafana 10");
    let panels = dashboard["panels"].as_array().unwrap();
    let rows: Vec<&str> = panels
        .iter()
        .filter(|panel| panel["type"] == "row")
        .map(|panel| panel["title"].as_str().unwrap())
        .collect();
    assert_eq!(
        rows,
        [
            "Traffic",
            "Latency",
            "Memory and evictions",
            "Log and checkpoints",
            "Connections and errors",
            "Process"
        ]
    );
    let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
    let mut expressions = 0;
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let place = &panel["gridPos"];
        assert!(places.insert((place["y"].as_u64(), place["x"].as_u64())), "{panel}");
        let none = Vec::new();
        for target in panel["targets"].as_array().unwrap_or(&none) {
            let expression = target["expr"].as_str().unwrap();
            let used = selectors(expression);
            assert!(!used.is_empty(), "{expression}");
            expressions += 1;
            for (name, labels) in used {
                let known = labels_of.get(&name);
                let known = known.unwrap_or_else(|| panic!("{name} is not exposed: {expression}"));
                // Prometheus itself adds these.
                let is_known =
                    |label: &String| known.contains(label) || label == "instance" || label == "job";
                assert!(labels.iter().all(is_known), "{labels:?} of {expression}");
                assert!(grouping(expression).iter().all(is_known), "{expression}");
                let family = families.keys().find(|family| name.starts_with(family.as_str()));
                let kind = &families[family.unwrap()].kind;
                let is_rate = expression.contains("rate(") || expression.contains("increase(");
                assert!(!is_rate || kind == "counter" || kind == "histogram", "{expression}");
            }
        }
    }
    assert!(expressions > 20, "{expressions}");
    assert!(!text.contains("localhost") && !matches!(dashboard["uid"], Value::Null));
    server.end().unwrap();
}

#[test]
fn probes_tell_life_and_readiness() {
    let (server, control) = served();
    assert_eq!(get(&server, "/health").1, "alive\n");
    assert_eq!(get(&server, "/ready").1, "ready\n");
    assert!(get(&server, "/nosuch").0.starts_with("HTTP/1.1 404"));
    control.end("a test");
    let (head, body) = get(&server, "/ready");
    assert!(head.starts_with("HTTP/1.1 503 Service Unavailable"), "{head}");
    assert_eq!(body, "stopping: a test\n");
    assert_eq!(get(&server, "/health").1, "alive\n");
    server.end().unwrap();
}

/// The page listens before the rows are open.
#[test]
fn a_server_that_recovers_is_alive_and_not_ready() {
    let mut options = options(&["resp://127.0.0.1:0"]);
    options.admin = Some("127.0.0.1:0".to_owned());
    let control = Control::new();
    let admin = keyrack_server::Admin::start(&options, &control).unwrap().unwrap();
    let get = |path: &str, host: &str| {
        let mut stream = TcpStream::connect(admin.address()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        (head[9..12].to_owned(), body.to_owned())
    };
    control.loading(40);
    let why = "recovering: 40 % of the rows are loaded\n".to_owned();
    assert_eq!(get("/health", "keyrack.internal"), ("200".to_owned(), "alive\n".to_owned()));
    assert_eq!(get("/ready", "keyrack.internal"), ("503".to_owned(), why.clone()));
    assert_eq!(get("/metrics", "localhost"), ("503".to_owned(), why));
    assert_eq!(get("/metrics", "attacker.example").0, "403");
    let rows = Box::new(keyrack_rowstore::ModelRows::new());
    let bound = admin.address();
    let server = Server::start_with(Some(admin), rows, &options, &control, &RealFs).unwrap();
    assert_eq!(server.bound().last().unwrap().endpoint.to_string(), bound);
    let (head, _) = self::get(&server, "/ready");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    server.end().unwrap();
}
