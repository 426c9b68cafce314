//! Against what libmemcached and Redis themselves answer.

use super::slots::slot_of;
use super::*;

fn servers(places: &[&str]) -> Vec<Server> {
    let server = |place: &&str| {
        let endpoint: Endpoint = place.parse().unwrap();
        let host = match &endpoint {
            Endpoint::Ip(address) => address.ip().to_string(),
            Endpoint::Host { name, .. } => name.clone(),
            _ => "localhost".to_owned(),
        };
        Server { name: (*place).to_owned(), host, endpoint, is_shared: false }
    };
    places.iter().map(server).collect()
}

/// The servers of keys 0 to 63 in 30 digits, as one text.
fn dealt(shards: &Shards) -> String {
    let key = |index: usize| shards.server_of(format!("{index:030}").as_bytes()).to_string();
    (0..64).map(key).collect()
}

/// What `memcached_generate_hash` of libmemcached 1.1.4 says with `BEHAVIOR_KETAMA_WEIGHTED`.
#[test]
fn ketama_is_that_of_libmemcached() {
    for (places, expected) in [
        (
            vec!["127.0.0.1:11211", "127.0.0.1:11212", "127.0.0.1:11213"],
            "1001211201100221121000221202200112122101021220121201121210110110",
        ),
        (
            vec![
                "10.0.0.1:11211",
                "10.0.0.2:11211",
                "10.0.0.3:11211",
                "10.0.0.4:11211",
                "10.0.0.5:11211",
            ],
            "0200023021140430200231443134020001010033134434040404010002212221",
        ),
        (
            vec!["cache-a:11211", "cache-b:12000"],
            "1110000110001010110001100010001000000000110010000001010000000011",
        ),
        (
            vec!["unix:/tmp/a.sock", "unix:/tmp/b.sock", "unix:/tmp/c.sock"],
            "1211022020222111101202101020020201011021022111110102002002000220",
        ),
        (
            vec!["[::1]:11211", "[::1]:11212"],
            "1011101100001001101111010001011101000001001010110110001011001110",
        ),
    ] {
        let shards = Shards::new(Sharding::Ketama, &servers(&places)).unwrap();
        assert_eq!(dealt(&shards), expected, "{places:?}");
    }
    let shards = Shards::new(Sharding::Ketama, &servers(&["a:1", "b:1", "c:1"])).unwrap();
    let fewer = Shards::new(Sharding::Ketama, &servers(&["a:1", "b:1"])).unwrap();
    let key = |index: usize| format!("{index:030}");
    let stay = |index: &usize| {
        let before = shards.server_of(key(*index).as_bytes());
        before == 2 || before == fewer.server_of(key(*index).as_bytes())
    };
    assert!((0..1000).all(|index| stay(&index)), "only keys of the server that went move");
}

/// What it says without any behaviour set.
#[test]
fn modula_is_that_of_libmemcached() {
    for (places, expected) in [
        (
            vec!["127.0.0.1:11211", "127.0.0.1:11212", "127.0.0.1:11213"],
            "2002200000121112222221111111110000011110222222222110000000001111",
        ),
        (
            vec!["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1", "10.0.0.5:1"],
            "4444011342344242411010223433102114110411014440134402103242113413",
        ),
        (
            vec!["cache-a:11211", "cache-b:12000"],
            "1001101100011001100000100011000100110011010011001111000100101001",
        ),
    ] {
        let shards = Shards::new(Sharding::Modula, &servers(&places)).unwrap();
        assert_eq!(dealt(&shards), expected, "{places:?}");
    }
    assert_eq!(Shards::new(Sharding::None, &servers(&["a:1", "b:1"])), None);
    let one = Shards::new(Sharding::Modula, &servers(&["a:1"])).unwrap();
    assert_eq!(one.server_of(b"anything"), 0);
}

/// What `CLUSTER KEYSLOT` of redis-server 7.0 says.
#[test]
fn slots_are_those_of_redis() {
    for (key, slot) in [
        ("123456789", 12_739),
        ("foo", 12_182),
        ("", 0),
        ("{user1000}.following", slot_of(b"user1000")),
        ("foo{}{bar}", slot_of(b"foo{}{bar}")),
        ("foo{{bar}}zap", slot_of(b"{bar")),
        ("foo{bar}{zap}", slot_of(b"bar")),
        ("foo{bar", slot_of(b"foo{bar")),
    ] {
        assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
    }
    assert_ne!(slot_of(b"foo{}{bar}"), slot_of(b"bar"));
}

#[test]
fn the_map_of_a_cluster_is_read() {
    let reply = b"*2\r\n\
        *4\r\n:0\r\n:5460\r\n\
        *4\r\n$9\r\n127.0.0.1\r\n:7001\r\n$2\r\nid\r\n*0\r\n\
        *3\r\n$9\r\n127.0.0.1\r\n:7004\r\n$2\r\nid\r\n\
        *3\r\n:5461\r\n:16383\r\n*2\r\n$0\r\n\r\n:7002\r\n";
    let topology = parse_topology(reply, "::1").unwrap().unwrap();
    let expected = [(0, 5460, "127.0.0.1:7001"), (5461, 16_383, "[::1]:7002")];
    let found: Vec<(u16, u16, &str)> =
        topology.iter().map(|(first, last, place)| (*first, *last, place.as_str())).collect();
    assert_eq!(found, expected);
    for cut in 0..reply.len() {
        assert_eq!(parse_topology(&reply[..cut], "h"), Ok(None), "cut at {cut}");
    }
    for other in ["+OK\r\n", "*1\r\n:1\r\n", "*1\r\n*3\r\n:9\r\n:16384\r\n*2\r\n$0\r\n\r\n:1\r\n"] {
        assert!(parse_topology(other.as_bytes(), "h").is_err(), "{other}");
    }
    let refused = parse_topology(b"-ERR This instance has cluster support disabled\r\n", "h");
    assert!(refused.unwrap_err().contains("cluster support disabled"));
    let mut slots = Slots::new();
    assert_eq!(slots.node_of(b"foo"), 0);
    slots.assign(5461, 16_383, 1);
    assert_eq!(slots.node_of(b"foo"), 1);
    slots.assign(12_182, 12_182, 2);
    assert_eq!(slots.node_of(b"foo"), 2);
}

#[test]
fn redirections_are_read() {
    let read = |words: &str| Redirect::parse(words.as_bytes(), "here").map(|r| (r.slot, r.place));
    let place = |slot, place: &str| Some((slot, place.to_owned()));
    assert_eq!(read("MOVED 3999 127.0.0.1:6381"), place(3999, "127.0.0.1:6381"));
    assert_eq!(read("ASK 0 ::1:6381"), place(0, "[::1]:6381"));
    assert_eq!(read("MOVED 16383 :6381"), place(16_383, "here:6381"));
    for words in ["MOVED", "MOVED 16384 a:1", "MOVED 1 a", "MOVED x a:1", "ASK 1 a:70000"] {
        assert_eq!(read(words), None, "{words}");
    }
}
