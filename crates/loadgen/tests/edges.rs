//! The edges: servers that do not accept, do not read, go and come back; sizes at the limits of
//! buffers; numbers at the ends of their ranges.

use std::io::Read;
use std::net::TcpListener;
use std::sync::atomic::Ordering;

use crate::support::{Manners, Real, Small, load, settings, try_load};
use keyrack_loadgen::plan::{Filling, Loading, Settings};
use keyrack_loadgen::target::{ErrorClass, Protocol};
use rustix::net::{AddressFamily, SocketType, bind, listen, socket};

/// Everything that was offered is somewhere in the account.
fn assert_whole(report: &keyrack_loadgen::account::Report) {
    let counts = &report.account.counts;
    let known = counts.ops + counts.unanswered + counts.unsent + report.account.errors.total();
    assert_eq!(counts.offered, known, "{report:?}");
}

#[test]
fn a_server_that_never_accepts_answers_nothing() {
    // The kernel connects for it, and takes what fits.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let report = load(Settings {
        rate: 200.0,
        time_s: 0.1,
        queries: 0,
        drain_s: 0.1,
        depth: 4,
        loading: Loading::No,
        ..settings(&address)
    });
    let counts = &report.account.counts;
    assert_eq!((counts.ops, counts.unanswered), (0, 4.min(counts.offered)), "{report:?}");
    assert_whole(&report);
}

#[test]
fn a_server_that_stops_reading_holds_nobody_up() {
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = deaf.local_addr().unwrap().to_string();
    // More than the buffers of both ends hold: the socket stays full in the middle of a value.
    let report = load(Settings {
        update: 1.0,
        valuesize: "8000000".to_owned(),
        records: 1,
        depth: 3,
        time_s: 0.1,
        queries: 0,
        drain_s: 0.1,
        loading: Loading::No,
        ..settings(&address)
    });
    assert_eq!(report.account.counts.unanswered, 3, "{report:?}");
    assert!(report.account.counts.sent_bytes < 24_000_000, "it did not take all");
}

#[test]
fn a_full_backlog_is_a_connection_that_times_out() {
    let server = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    bind(&server, &any).unwrap();
    listen(&server, 0).unwrap();
    let address = rustix::net::getsockname(&server).unwrap();
    let address = std::net::SocketAddr::try_from(address).unwrap();
    // It has room for one that nobody accepts. Further ones are not answered.
    let _first = std::net::TcpStream::connect(address).unwrap();
    let error = try_load(
        Settings { connect_timeout_s: 0.2, connections: 2, ..settings(&address.to_string()) },
        None,
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains(&address.to_string()) && error.contains("timed out"), "{error}");
}

#[test]
fn a_server_that_closes_at_once_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let report = load(Settings { loading: Loading::No, ..settings(&address) });
    assert_eq!(report.account.counts.ops, 0, "{report:?}");
    assert_eq!(report.account.counts.broken, 1);
    assert!(report.troubles[0].contains(&address), "{:?}", report.troubles);
}

#[test]
fn a_reset_in_the_middle_has_its_class() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut some = [0; 4];
        stream.read_exact(&mut some).unwrap();
        // Closing with bytes unread is a reset.
        drop(stream);
    });
    let report = load(Settings { loading: Loading::No, ..settings(&address) });
    assert_eq!(report.account.errors.count(ErrorClass::Reset), 1, "{report:?}");
    assert!(report.troubles[0].contains("reset"), "{:?}", report.troubles);
}

#[test]
fn a_server_that_comes_back_is_used_again() {
    let Some(mut real) = Real::memcached(&[]) else { return };
    let settings = Settings {
        queries: 60_000,
        depth: 4,
        reconnect: true,
        loading: Loading::No,
        ..settings(&real.address)
    };
    let run = std::thread::spawn(move || load(settings));
    real.wait_for_lookups(100);
    real.restart();
    let report = run.join().unwrap();
    let counts = &report.account.counts;
    // Once more where it accepted something while it died.
    assert!(counts.broken >= 1 && counts.reconnects == counts.broken, "{report:?}");
    assert_eq!(counts.offered, 60_000);
    assert_whole(&report);
}

#[test]
fn one_of_several_servers_dies_and_the_others_go_on() {
    let well = Small::start(Manners::default());
    let dying = Small::start(Manners { close_after: Some(100), ..Manners::default() });
    let report = load(Settings {
        servers: vec![well.address.clone(), dying.address.clone()],
        ..settings("")
    });
    assert_eq!(report.account.counts.broken, 1);
    assert!(report.troubles[0].contains(&dying.address), "{:?}", report.troubles);
    assert_eq!(report.account.counts.offered, 1000);
    assert!(well.shared.gets.load(Ordering::Relaxed) >= 900 - 1, "{report:?}");
    assert_whole(&report);
}

#[test]
fn five_hundred_connections_and_more_threads_than_processors() {
    let small = Real::memcached(&[]);
    let Some(small) = small else { return };
    let report = load(Settings { connections: 512, queries: 2000, ..settings(&small.address) });
    assert_eq!((report.account.counts.ops, report.account.errors.total()), (2000, 0));
    let report = load(Settings { threads: 16, queries: 2000, ..settings(&small.address) });
    assert_eq!((report.account.counts.ops, report.threads.len()), (2000, 16));
}

#[test]
fn values_around_the_size_of_a_buffer_pass_whole() {
    let Some(real) = Real::memcached(&[]) else { return };
    let limit = 64 << 10;
    for bytes in [0, 1, limit - 60, limit - 1, limit, limit + 1, (1 << 20) - 300] {
        for protocol in [Protocol::Text, Protocol::Binary, Protocol::Meta] {
            let report = load(Settings {
                protocol,
                valuesize: bytes.to_string(),
                verify: bytes > 0,
                update: 0.3,
                records: 2,
                queries: 30,
                depth: 3,
                ..settings(&real.address)
            });
            let counts = &report.account.counts;
            let told = format!("{bytes} bytes, {protocol:?}: {report:?}");
            assert_eq!((counts.ops, report.account.errors.total()), (30, 0), "{told}");
            assert_eq!(counts.misses, 0, "{told}");
            assert_eq!(counts.verified, if bytes > 0 { counts.gets } else { 0 }, "{told}");
        }
    }
}

#[test]
fn keys_of_the_shortest_and_the_longest_kind() {
    let Some(real) = Real::memcached(&[]) else { return };
    for (keysize, records) in [("1", 10), ("249", 50), ("250", 50)] {
        for protocol in [Protocol::Text, Protocol::Binary, Protocol::Meta] {
            let report = load(Settings {
                protocol,
                keysize: keysize.to_owned(),
                records,
                queries: 100,
                prefix: String::new(),
                ..settings(&real.address)
            });
            let told = format!("{keysize} bytes, {protocol:?}: {report:?}");
            assert_eq!(report.account.errors.total(), 0, "{told}");
            assert_eq!(report.account.counts.misses, 0, "{told}");
        }
    }
}

#[test]
fn one_record_and_more_than_32_bits_of_them() {
    let small = Small::start(Manners::default());
    let report = load(Settings { records: 1, queries: 50, ..settings(&small.address) });
    assert_eq!((report.loaded, report.account.counts.misses), (1, 0));
    let report = load(Settings {
        records: 1 << 33,
        queries: 50,
        filling: Filling::GetSet,
        loading: Loading::No,
        ..settings(&small.address)
    });
    assert_eq!(report.account.counts.misses, 50, "{report:?}");
    let data = small.shared.data.lock().unwrap();
    let is_beyond = |key: &Vec<u8>| std::str::from_utf8(key).unwrap().parse::<u64>().unwrap() >> 32;
    assert!(data.keys().any(|key| is_beyond(key) > 0), "indexes have more than 32 bits");
}

#[test]
fn what_a_server_evicts_is_missed_and_no_error() {
    let Some(real) = Real::memcached(&["-m", "1", "-I", "512k"]) else { return };
    let report = load(Settings {
        valuesize: "10000".to_owned(),
        records: 2000,
        queries: 1000,
        depth: 8,
        ..settings(&real.address)
    });
    let counts = &report.account.counts;
    assert_eq!((counts.ops, report.account.errors.total()), (1000, 0), "{report:?}");
    assert!(counts.misses > 100, "it holds less than it was given: {counts:?}");
}

#[test]
fn lookups_that_miss_a_key_at_once_each_store_it() {
    let small = Small::start(Manners::default());
    let report = load(Settings {
        filling: Filling::GetSet,
        records: 1,
        depth: 8,
        loading: Loading::No,
        ..settings(&small.address)
    });
    let counts = &report.account.counts;
    // The eight that were under way before the first store was.
    assert_eq!((counts.misses, counts.fills), (8, 8), "{counts:?}");
    assert_eq!(small.shared.sets.load(Ordering::Relaxed), 8);
}

#[test]
fn getsetorset_stores_by_itself_as_well() {
    let small = Small::start(Manners::default());
    let report = load(Settings {
        filling: Filling::GetSetOrSet,
        update: 0.3,
        records: 1000,
        loading: Loading::No,
        ..settings(&small.address)
    });
    let counts = &report.account.counts;
    let direct = counts.sets - counts.fills;
    assert_eq!(counts.fills, counts.misses);
    // Six standard deviations of a binomial count.
    assert!(direct.abs_diff(300) < 90, "{counts:?}");
    assert_eq!(counts.gets + direct, 1000);
}

#[test]
fn one_request_a_second_and_ten_million() {
    let small = Small::start(Manners::default());
    let base = Settings { queries: 0, time_s: 1.0, ..settings(&small.address) };
    let fixed = Settings { iadist: "fixed".to_owned(), rate: 1.0, ..base.clone() };
    assert_eq!(load(fixed).account.counts.ops, 1);
    let report = load(Settings { rate: 1e7, time_s: 0.05, drain_s: 0.05, ..base });
    let counts = &report.account.counts;
    assert!(counts.offered.abs_diff(500_000) < 10_000, "{counts:?}");
    assert!(counts.backlog > 0 && counts.unsent > 0, "{counts:?}");
    assert_whole(&report);
}

#[test]
fn moderation_keeps_a_mean_gap_behind_each_send_and_charges_the_server_with_its_own_time() {
    let small = Small::start(Manners { freeze_at: Some((20, 300)), ..Manners::default() });
    let report = load(Settings {
        rate: 200.0,
        time_s: 0.5,
        queries: 0,
        moderate: true,
        drain_s: 5.0,
        iadist: "fixed".to_owned(),
        ..settings(&small.address)
    });
    let (counts, response) = (&report.account.counts, &report.account.all().response);
    // What the freeze held up does not follow in one burst: a gap lies behind each send, so nothing
    // is made up for, and all 100 arrivals take their time behind the freeze.
    assert_eq!((counts.offered, counts.unsent), (100, 0), "{report:?}");
    // The request that met the freeze waited for the server. Those behind it waited for their gap.
    assert!(response.max().unwrap() > 250_000_000, "{report:?}");
    assert!(response.percentile(90.0).unwrap() < 150_000_000, "{report:?}");
}

/// At the replies of a server that takes as long as a gap, a gap behind each reply halves the rate.
#[test]
fn moderation_keeps_the_rate_of_a_slow_server() {
    let small = Small::start(Manners { slow_ms: 4, ..Manners::default() });
    let report = load(Settings {
        rate: 200.0,
        time_s: 1.0,
        queries: 0,
        moderate: true,
        drain_s: 5.0,
        iadist: "fixed".to_owned(),
        ..settings(&small.address)
    });
    // With the gap behind the reply half of the arrivals were still to be sent in the end.
    let counts = &report.account.counts;
    assert_eq!(counts.offered, 200, "{report:?}");
    assert!(counts.backlog < 50, "{report:?}");
}

#[test]
fn all_threads_wait_for_the_same_start() {
    let small = Small::start(Manners::default());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("samples");
    let settings = Settings { threads: 3, wait_s: 0.3, queries: 300, ..settings(&small.address) };
    let report = try_load(settings, Some(&path)).unwrap();
    assert_eq!(report.account.counts.ops, 300);
    let text = std::fs::read_to_string(&path).unwrap();
    let starts = text.lines().map(|line| line.split(' ').next().unwrap().parse::<f64>().unwrap());
    assert!(starts.fold(f64::MAX, f64::min) >= 0.3, "seconds since the start of the program");
}
