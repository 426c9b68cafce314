//! Responders by their bytes, oracles against theory, faults against what was asked for.

use std::io::{Read, Write};
use std::time::Duration;

use keyrack_net::{ConnectOptions, Stream as Client};
use keyrack_workload::{Distribution, Rng};

use super::faults::Faults;
use super::queue::QueueModel;
use super::timed_reply::{AfterSend, TimedReply};
use super::*;

const SEED: u64 = 20_261_122;
const PATIENCE: Duration = Duration::from_secs(60);

fn start(kind: &str) -> Responder {
    let settings = Settings {
        value_bytes: 3,
        seed: SEED,
        ..Settings::on_loopback(ResponderKind::parse(kind).unwrap())
    };
    Responder::start(&settings).unwrap()
}

fn connect(responder: &Responder) -> Client {
    Client::connect(&responder.addresses()[0], &ConnectOptions::with_timeout(PATIENCE)).unwrap()
}

fn ask(client: &mut Client, request: &[u8], reply: &[u8]) {
    client.write_all(request).unwrap();
    let mut got = vec![0; reply.len()];
    client.read_exact(&mut got).unwrap();
    assert_eq!(got.escape_ascii().to_string(), reply.escape_ascii().to_string());
}

/// The same conversations with every kind of responder.
fn conversations(responder: &Responder) {
    let mut text = connect(responder);
    ask(&mut text, b"get a\r\nget b c\r\n", b"VALUE a 0 3\r\nvvv\r\nEND\r\nVALUE b 0 3\r\nvvv\r\n");
    ask(&mut text, b"gets d\r\n", b"VALUE c 0 3\r\nvvv\r\nEND\r\nVALUE d 0 3 1\r\nvvv\r\nEND\r\n");
    ask(&mut text, b"set a 0 0 2\r\nxy\r\ndelete a\r\nincr n 1\r\n", b"STORED\r\nDELETED\r\n1\r\n");
    ask(&mut text, b"set q 0 0 1 noreply\r\nz\r\nmn\r\n", b"MN\r\n");
    ask(&mut text, b"mg a v\r\nmg a\r\nms a 2\r\nok\r\n", b"VA 3\r\nvvv\r\nHD\r\nHD\r\n");
    ask(&mut text, b"what\r\nversion\r\n", b"ERROR\r\nVERSION responder\r\n");
    // One that is too large is refused, and its bytes are passed over.
    let large = [&b"set a 0 0 1048577\r\n"[..], &vec![b'x'; 1_048_577], b"\r\nmn\r\n"].concat();
    ask(&mut text, &large, b"SERVER_ERROR object too large for cache\r\nMN\r\n");

    // Two requests in pieces of one byte.
    let mut slow = connect(responder);
    for byte in b"get key\r\nset k 0 0 1\r\n\n\r\n" {
        slow.write_all(&[*byte]).unwrap();
    }
    ask(&mut slow, b"", b"VALUE key 0 3\r\nvvv\r\nEND\r\nSTORED\r\n");

    let mut binary = connect(responder);
    let header = |opcode, key: u8, extras: u8, body: u8, opaque: u8| {
        let mut bytes = vec![0x80, opcode, 0, key, extras, 0, 0, 0, 0, 0, 0, body, 0, 0, 0, opaque];
        bytes.extend_from_slice(&[0; 8]);
        bytes
    };
    let get = [header(0x00, 1, 0, 1, 7), b"k".to_vec()].concat();
    let mut value = vec![0x81, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1];
    value.extend_from_slice(b"\0\0\0\0vvv");
    ask(&mut binary, &get, &value);
    let auth = [header(0x21, 5, 0, 9, 0), b"PLAIN\0u\0p".to_vec()].concat();
    binary.write_all(&auth).unwrap();
    let mut reply = [0; 24 + 13];
    binary.read_exact(&mut reply).unwrap();
    assert_eq!((&reply[6..8], &reply[24..]), (&[0, 0][..], &b"Authenticated"[..]));

    let mut redis = connect(responder);
    ask(&mut redis, b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", b"$3\r\nvvv\r\n");
    ask(
        &mut redis,
        b"*3\r\n$4\r\nmget\r\n$1\r\na\r\n$1\r\nb\r\n",
        b"*2\r\n$3\r\nvvv\r\n$3\r\nvvv\r\n",
    );
    ask(&mut redis, b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\r\n\r\nPING\r\n", b"+OK\r\n+PONG\r\n");
    let hello = b"%2\r\n$6\r\nserver\r\n$9\r\nresponder\r\n$5\r\nproto\r\n:3\r\n";
    ask(&mut redis, b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n", hello);
    ask(&mut redis, b"*1\r\n$4\r\nQUIT\r\n", b"+OK\r\n");
    assert_eq!(redis.read(&mut [0; 1]).unwrap(), 0, "it closes");
}

#[test]
fn all_protocols_are_answered() {
    for kind in ["null", "fault:", "oracle:fixed:1"] {
        let responder = start(kind);
        conversations(&responder);
        let counts = responder.shutdown().unwrap();
        assert_eq!((counts.connections, counts.faults), (4, 0), "{kind}");
        assert!(counts.requests >= 20, "{kind}: {counts:?}");
    }
}

#[test]
fn reads_miss_as_often_as_asked() {
    let settings = Settings {
        miss_share: 0.25,
        value_bytes: 0,
        seed: SEED,
        ..Settings::on_loopback(ResponderKind::Null)
    };
    let responder = Responder::start(&settings).unwrap();
    let mut client = connect(&responder);
    client.write_all(&b"get k\r\n".repeat(4000)).unwrap();
    client.write_all(b"quit\r\n").unwrap();
    let mut replies = Vec::new();
    client.read_to_end(&mut replies).unwrap();
    let replies = String::from_utf8(replies).unwrap();
    let hits = replies.matches("VALUE k 0 0\r\n\r\nEND\r\n").count();
    assert_eq!(replies.matches("END\r\n").count(), 4000);
    assert!((2850..3150).contains(&hits), "{hits} hits; SEED={SEED}");
}

#[test]
fn a_unix_socket_goes_when_its_responder_does() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    for kind in ["null", "fault:"] {
        let settings = Settings {
            endpoints: vec![Endpoint::Unix(path.clone())],
            ..Settings::on_loopback(ResponderKind::parse(kind).unwrap())
        };
        let responder = Responder::start(&settings).unwrap();
        ask(&mut connect(&responder), b"mn\r\n", b"MN\r\n");
        responder.shutdown().unwrap();
        assert!(!path.exists(), "{kind}");
    }
}

#[test]
fn connections_end_as_they_are_told_to() {
    // A part of the reply at most, then the end.
    let responder = start("fault:cut@1");
    let mut client = connect(&responder);
    client.write_all(b"get k\r\n").unwrap();
    let mut got = Vec::new();
    client.read_to_end(&mut got).unwrap();
    let whole = b"VALUE k 0 3\r\nvvv\r\nEND\r\n";
    assert!(got.len() < whole.len() && whole.starts_with(&got));

    let responder = start("fault:close@1");
    let mut client = connect(&responder);
    client.write_all(b"get k\r\n").unwrap();
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);

    let responder = start("fault:reset@1");
    let mut client = connect(&responder);
    client.write_all(b"get k\r\n").unwrap();
    let reset = client.read(&mut [0; 8]).unwrap_err();
    assert_eq!(reset.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(responder.shutdown().unwrap().faults, 1);

    // The first is swallowed for ever; whoever waits for it waits in vain, others do not.
    let responder = start("fault:swallow@1");
    let mut client = connect(&responder);
    client.write_all(b"get k\r\nquit\r\n").unwrap();
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
}

#[test]
fn replies_in_pieces_are_whole_in_the_end() {
    for kind in ["fault:partial=1ms@1", "fault:drip=0ms@1", "fault:delay=exponential:2@1"] {
        let responder = start(kind);
        let mut client = connect(&responder);
        let reply = b"VALUE k 0 3\r\nvvv\r\nEND\r\n";
        ask(&mut client, &b"get k\r\n".repeat(20), &reply.repeat(20));
        assert_eq!(responder.shutdown().unwrap().faults, 20, "{kind}");
    }
}

#[test]
fn errors_are_those_of_the_protocol() {
    let responder = start("fault:error@1");
    ask(&mut connect(&responder), b"get k\r\n", b"SERVER_ERROR made to fail\r\n");
    ask(&mut connect(&responder), b"*1\r\n$4\r\nPING\r\n", b"-ERR made to fail\r\n");
    let mut binary = connect(&responder);
    let mut noop = vec![0x80, 0x0a];
    noop.resize(24, 0);
    noop[15] = 9;
    binary.write_all(&noop).unwrap();
    let mut reply = [0; 24];
    binary.read_exact(&mut reply).unwrap();
    assert_eq!((reply[1], &reply[6..8], reply[15]), (0x0a, &[0, 0x82][..], 9));
}

#[test]
fn faults_come_as_often_as_asked_and_the_same_for_a_seed() {
    let faults = Faults::parse("delay=5ms@0.2,close@0.1,garbage@0.05").unwrap();
    let inject = |seed| {
        let mut rng = Rng::from_seed(seed);
        (0..20_000)
            .map(|_| {
                let mut replies = Vec::new();
                let put = &mut |reply| replies.push(reply);
                faults.inject(1000, b"END\r\n".to_vec(), false, false, &mut rng, put);
                replies
            })
            .collect::<Vec<Vec<TimedReply>>>()
    };
    let dealt = inject(SEED);
    let share = |holds: &dyn Fn(&TimedReply) -> bool| {
        dealt.iter().filter(|replies| replies.iter().any(holds)).count() as f64 / 20_000.0
    };
    assert!((share(&|p| p.due_ns == 5_001_000) - 0.2).abs() < 0.015, "SEED={SEED}");
    assert!((share(&|p| p.after == AfterSend::Close) - 0.1).abs() < 0.012, "SEED={SEED}");
    assert!((share(&|p| p.bytes == b"END\r\n" && p.due_ns == 0) - 0.65).abs() < 0.02);
    assert_eq!(dealt, inject(SEED));
}

#[test]
fn a_frozen_server_stands_still_at_the_end_of_each_period() {
    let faults = Faults::parse("freeze=1s/10s").unwrap();
    let second = 1_000_000_000;
    assert_eq!(faults.frozen_until_ns(0), None);
    assert_eq!(faults.frozen_until_ns(9 * second - 1), None);
    assert_eq!(faults.frozen_until_ns(9 * second), Some(10 * second));
    assert_eq!(faults.frozen_until_ns(19 * second + 5), Some(20 * second));
    assert_eq!(faults.frozen_until_ns(20 * second), None);
}

#[test]
fn texts_that_are_no_responder_are_refused() {
    let cases = [
        ("nil", "expected null"),
        ("null:1", "expected null"),
        ("oracle", "say how long"),
        ("oracle:fixed:0", "more than 0"),
        ("oracle:zipf:1", "expected a number"),
        ("fault:close", "say how often"),
        ("fault:close@many", "no number"),
        ("fault:close=1ms@0.1", "takes no length"),
        ("fault:delay@0.1", "say how long"),
        ("fault:vanish@0.1", "expected one of delay"),
        ("fault:close@0.6,reset@0.6", "not more than 1 together"),
        ("fault:close@-0.1", "0 to 1"),
        ("fault:freeze=1s", "LENGTH/PERIOD"),
        ("fault:freeze=2s/1s", "the length shorter"),
    ];
    for (text, problem) in cases {
        let message = ResponderKind::parse(text).unwrap_err().to_string();
        assert!(message.contains(problem), "{text}: {message}");
    }
    let nowhere = Settings { endpoints: Vec::new(), ..Settings::on_loopback(ResponderKind::Null) };
    assert!(Responder::start(&nowhere).unwrap_err().to_string().contains("where it listens"));
}

/// Response times of an oracle by Poisson arrivals in a time that passes on paper, in microseconds,
/// in order.
fn simulate(service: &str, rate_per_us: f64, count: usize) -> Vec<f64> {
    let mut rng = Rng::from_seed(SEED);
    let mut queue =
        QueueModel::new(Distribution::parse(service).unwrap(), Rng::from_seed(SEED + 1));
    let mut now_ns = 0.0;
    let mut responses: Vec<f64> = (0..count)
        .map(|_| {
            now_ns += rng.exponential() / rate_per_us * 1e3;
            let arrival = now_ns as u64;
            (queue.departure_ns(arrival) - arrival) as f64 / 1e3
        })
        .collect();
    responses.sort_by(f64::total_cmp);
    responses
}

#[test]
fn oracles_are_the_queues_of_theory() {
    // Half, and seven tenths, of what a server with 500 us a request can do.
    for load in [0.5, 0.7] {
        let rate = load / 500.0;
        let mm1 = simulate("exponential:0.002", rate, 400_000);
        let md1 = simulate("fixed:500", rate, 400_000);
        for q in [0.5, 0.9, 0.99] {
            let at = |sorted: &[f64]| sorted[(q * sorted.len() as f64) as usize];
            let (found, expected) = (at(&mm1), theory::mm1_response(rate, 0.002, q));
            assert!((found / expected - 1.0).abs() < 0.03, "M/M/1 {load} {q}: {found} {expected}");
            let (found, expected) = (at(&md1), theory::md1_response(rate, 500.0, q));
            assert!((found / expected - 1.0).abs() < 0.03, "M/D/1 {load} {q}: {found} {expected}");
        }
    }
    assert_eq!(theory::mm1_response(2.0, 2.0, 0.5), f64::INFINITY);
    assert_eq!(theory::md1_response(2.0, 0.5, 0.5), f64::INFINITY);
    // The mean wait of M/D/1 is load / (2 (1 - load)) service times; here by quantiles.
    let mean = (0..2000).map(|i| theory::md1_response(0.5, 1.0, (f64::from(i) + 0.5) / 2000.0));
    assert!((mean.sum::<f64>() / 2000.0 - 1.5).abs() < 0.01);
}
