//! Servers as backends of `keyrack bench`, over real sockets.

use crate::masstree_server::MasstreeServer;
use crate::support::Lab;
use std::collections::BTreeMap;

#[test]
fn a_server_is_a_backend_by_its_url() {
    let server = MasstreeServer::start();
    let url = format!("masstree://{}", server.address);
    for depth in [1, 64] {
        let line = format!("bench rw1b --backend {url} --depth {depth} --ops 500 --threads 2");
        let out = Lab::new().run(&line).exits(0);
        assert!(out.stdout.contains(&url), "{}", out.stdout);
    }
    // Two threads, 501 or more keys each, and few of them the same.
    assert!(server.rows().len() > 900, "{} rows", server.rows().len());
    let scans = format!("bench rw3,rw1 --backend {url}?depth=8 --ops 100");
    Lab::new().run(&scans).exits(0);
}

#[test]
fn a_server_that_goes_away_fails_the_run_by_its_name() {
    for depth in [1, 32] {
        let server = MasstreeServer::with(BTreeMap::new(), 300);
        let url = format!("masstree://{}", server.address);
        let line = format!("bench rw1 --backend {url} --depth {depth} --ops 5000");
        let out = Lab::new().run(&line).exits(1);
        let said = out.stdout + &out.stderr;
        assert!(said.contains(&format!("{url}: ")), "{said}");
    }
}

#[test]
fn what_cannot_be_a_backend_is_refused_before_anything_runs() {
    let server = MasstreeServer::start();
    let url = format!("masstree://{}", server.address);
    for (line, why) in [
        ("bench rw1 --backend masstree+unix:///nobody/here".to_owned(), "connect"),
        ("bench rw1 --backend http://127.0.0.1:1".to_owned(), "unknown backend 'http://"),
        (format!("bench rw1 --backend {url}?deep=1"), "unknown key"),
        (format!("bench rw1 --backend {url}?depth=0"), "depth: '0' is not in 1..=65536"),
        (format!("bench rw1 --backend {url} --depth 0"), "--depth"),
        (format!("bench rw1 --backend {url} --durability sync"), "the server's setting"),
        (format!("bench --selftest --backend {url}"), "a server is not tested here"),
    ] {
        let out = Lab::new().run(&line).exits(2);
        assert!(out.stderr.contains(why), "{line}: {}", out.stderr);
    }
    assert_eq!(server.rows().len(), 0);
}
