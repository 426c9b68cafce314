//! Clients of different protocols on the same keys.

use super::{ALL, done, host_and_port, program};
use crate::serve::Served;
use crate::support::Lab;

const HANDSHAKE: &[u8] = b"\x93\x00\x0e\x82\xa4core\xff\xa9maxkeylen\xcc\xff";

#[test]
fn what_one_client_writes_all_others_see() {
    let test = "what_one_client_writes_all_others_see";
    let (Some(cp), Some(cat), Some(cli)) =
        (program(test, "memccp"), program(test, "memccat"), program(test, "redis-cli"))
    else {
        return;
    };
    let lab = Lab::new();
    let served = Served::start(&lab, ALL);
    let servers = format!("--servers={}", served.address("memcached"));
    let (host, port) = host_and_port(&served, "resp");
    let redis = |words: &[&str]| done(&lab, &cli, &[&["-h", &host, "-p", &port], words].concat());

    lab.write("note", "from a file");
    done(&lab, &cp, &[&servers, "note"]);
    assert_eq!(redis(&["get", "note"]), "from a file\n");
    assert_eq!(redis(&["append", "note", ", longer"]), "19\n");
    assert_eq!(done(&lab, &cat, &[&servers, "note"]).trim_end(), "from a file, longer");

    let mut masstree = served.connect("masstree");
    masstree.send(HANDSHAKE);
    assert!(masstree.take(9).ends_with("Bag"));
    masstree.send(b"\x93\x01\x02\xa4note");
    let seen = masstree.take(23);
    assert!(seen.ends_with("from a file, longer"), "{seen:?}");

    // A hash is a row of columns to the one, and a miss to the other.
    assert_eq!(redis(&["hset", "h", "f", "v"]), "1\n");
    assert!(!lab.tool(&cat, &[&servers, "h"]).stdout.contains('v'));
    masstree.send(b"\x93\x02\x02\xa1h");
    let seen = masstree.take(5);
    assert!(seen.ends_with('v'), "{seen:?}");

    // What one removes is gone for all.
    assert_eq!(redis(&["del", "note", "h"]), "2\n");
    served.connect("memcached").ask("get note h\r\n", "END\r\n");
    let told = served.end();
    assert!(told.contains("ended"), "{told}");
}
