//! Several loops at once: transactions keep sums whole, and nobody sees half of one.

use crate::redis::tool::Site;
use keyrack_server::redis::Options;

const ROUNDS: usize = 300;
const LOOPS: usize = 4;

/// Every loop moves units between two accounts in transactions, and looks at both at once.
#[test]
fn no_loop_sees_half_a_transaction() {
    let site = Site::new(Options::default(), LOOPS);
    let mut first = site.a_loop(0);
    let mut client = first.client();
    first.ask(&mut client, &["MSET", "left", "1000", "right", "1000"]);
    std::thread::scope(|threads| {
        for index in 0..LOOPS {
            let site = &site;
            threads.spawn(move || {
                let mut the_loop = site.a_loop(index);
                let mut client = the_loop.client();
                for _ in 0..ROUNDS {
                    let bytes = b"MULTI\r\nDECR left\r\nINCR right\r\nEXEC\r\nMGET left right\r\n";
                    let replies = the_loop.feed(&mut client, bytes);
                    let text = String::from_utf8(replies).unwrap();
                    let numbers: Vec<i64> =
                        text.lines().filter_map(|line| line.parse().ok()).collect();
                    let [.., left, right] = numbers[..] else { panic!("{text}") };
                    assert_eq!(left + right, 2000);
                }
            });
        }
    });
    let moved = (LOOPS * ROUNDS) as i64;
    let reply = first.ask(&mut client, &["GET", "left"]);
    assert!(reply.ends_with(&(1000 - moved).to_string()), "{reply}");
}

/// The classical counter: read under WATCH, write in a transaction, try again when it fails. No
/// addition is lost.
#[test]
fn a_watched_counter_loses_no_addition() {
    let site = Site::new(Options::default(), LOOPS);
    std::thread::scope(|threads| {
        for index in 0..LOOPS {
            let site = &site;
            threads.spawn(move || {
                let mut the_loop = site.a_loop(index);
                let mut client = the_loop.client();
                let mut added = 0;
                while added < ROUNDS / 4 {
                    the_loop.ask(&mut client, &["WATCH", "counter"]);
                    let reply = the_loop.ask(&mut client, &["GET", "counter"]);
                    let old: u64 =
                        reply.split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
                    the_loop.ask(&mut client, &["MULTI"]);
                    the_loop.ask(&mut client, &["SET", "counter", &(old + 1).to_string()]);
                    added += usize::from(the_loop.ask(&mut client, &["EXEC"]) == "*1 +OK");
                }
            });
        }
    });
    let (_, mut the_loop, mut client) = site.serve();
    let expected = (LOOPS * (ROUNDS / 4)).to_string();
    let reply = the_loop.ask(&mut client, &["GET", "counter"]);
    assert!(reply.ends_with(&format!(" {expected}")), "{reply}");
}

/// MSETNX of the same two keys by all loops: exactly one of each pair's makers wins, and both keys
/// are of the same one.
#[test]
fn of_many_who_set_several_new_keys_one_wins() {
    let site = Site::new(Options::default(), LOOPS);
    let wins: i64 = std::thread::scope(|threads| {
        let makers: Vec<_> = (0..LOOPS)
            .map(|index| {
                let site = &site;
                threads.spawn(move || {
                    let mut the_loop = site.a_loop(index);
                    let mut client = the_loop.client();
                    let me = index.to_string();
                    let mut wins = 0;
                    for round in 0..ROUNDS {
                        let (a, b) = (format!("a{round}"), format!("b{round}"));
                        let reply = the_loop.ask(&mut client, &["MSETNX", &a, &me, &b, &me]);
                        wins += i64::from(reply == ":1");
                        let reply = the_loop.ask(&mut client, &["MGET", &a, &b]);
                        let words: Vec<&str> = reply.split(' ').collect();
                        assert_eq!(words[2], words[4], "{reply}");
                    }
                    wins
                })
            })
            .collect();
        makers.into_iter().map(|maker| maker.join().unwrap()).sum()
    });
    assert_eq!(wins, ROUNDS as i64);
}
