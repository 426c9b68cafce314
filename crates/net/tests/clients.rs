//! What clients do, well and badly, and that it is nobody else's problem.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use keyrack_net::{CloseReason, Limits, OUTPUT_SLICE_BYTES, Options, Stream, Timeouts};

use crate::support::{
    address, ask, connect, is_closed, read_all, read_line, read_until_closed, start,
};

const GRACE: Duration = Duration::from_secs(60);

#[test]
fn a_request_that_comes_byte_by_byte_is_one_request() {
    let (board, server) = start(Options::default());
    let mut client = connect(&address(&server));
    for byte in b"echo one\necho two\nput 5\nabc\n" {
        client.write_all(&[*byte]).unwrap();
    }
    assert_eq!((read_line(&mut client), read_line(&mut client)), ("one".into(), "two".into()));
    client.write_all(b"d").unwrap();
    assert_eq!(read_line(&mut client), "stored 5 404");
    drop(client);
    board.wait("the client is closed", |facts| facts.closed == 1);
    assert_eq!(server.shutdown(GRACE).unwrap().closed_for(CloseReason::Peer), 1);
}

#[test]
fn replies_stay_in_the_order_of_requests() {
    let (_board, server) = start(Options::default());
    let mut client = connect(&address(&server));
    let mut reader = client.try_clone().unwrap();
    let writer = thread::spawn(move || {
        let mut text = String::new();
        for number in 0..50_000 {
            text += &format!("echo {number}\n");
            if number % 1_000 == 0 {
                text += "big 3000\n";
            }
        }
        client.write_all(text.as_bytes()).unwrap();
        client
    });
    for number in 0..50_000 {
        assert_eq!(read_line(&mut reader), number.to_string());
        if number % 1_000 == 0 {
            assert_eq!(read_line(&mut reader), "x".repeat(3_000));
        }
    }
    drop(writer.join().unwrap());
}

#[test]
fn a_client_that_closes_its_side_gets_all_replies() {
    let (_board, server) = start(Options::default());
    let mut client = connect(&address(&server));
    client.write_all(b"echo a\nbig 3000000\necho z\nech").unwrap();
    client.shutdown_write().unwrap();
    let replies = read_all(&mut client);
    assert_eq!(replies.len(), 2 + 3_000_001 + 2);
    assert!(replies.starts_with(b"a\nx") && replies.ends_with(b"x\nz\n"));
    assert_eq!(server.shutdown(GRACE).unwrap().closed_for(CloseReason::Peer), 1);
}

#[test]
fn the_last_reply_arrives_though_the_client_goes_on_sending() {
    let (_board, server) = start(Options::default());
    for _ in 0..20 {
        let mut client = connect(&address(&server));
        let mut text = b"quit\n".to_vec();
        text.resize(8 << 20, b'y');
        client.write_all(&text).unwrap();
        assert_eq!(read_line(&mut client), "bye");
        assert_eq!(read_all(&mut client), b"", "the end is said, not a reset");
    }
    assert_eq!(server.shutdown(GRACE).unwrap().closed_for(CloseReason::Worker), 20);
}

#[test]
fn a_large_request_is_taken_whole_and_in_parts() {
    let (_board, server) = start(Options::default());
    let mut client = connect(&address(&server));
    for size in [1, 16_000, 65_536, 70_000, 1 << 20, 10 << 20] {
        let mut request = format!("put {size}\n").into_bytes();
        request.resize(request.len() + size, 3);
        request.extend_from_slice(b"echo after\n");
        client.write_all(&request).unwrap();
        assert_eq!(read_line(&mut client), format!("stored {size} {}", 3 * size));
        assert_eq!(read_line(&mut client), "after");
    }
}

#[test]
fn a_client_that_never_reads_costs_bounded_memory_and_no_time_of_others() {
    const OUTPUT_MAX: usize = 1 << 20;
    let limits = Limits { output_bytes_max: OUTPUT_MAX, ..Limits::default() };
    let timeouts = Timeouts { stalled_output: None, ..Timeouts::default() };
    let (board, server) = start(Options { limits, timeouts, ..Options::default() });
    let mut glutton = connect(&address(&server));
    glutton.write_all("big 100000\n".repeat(2_000).as_bytes()).unwrap();
    let mut other = connect(&address(&server));
    let mut for_other = 0;
    // When nothing is served for it between two requests of another, it is stopped.
    let for_glutton = loop {
        let before = board.facts().served;
        for _ in 0..50 {
            assert_eq!(ask(&mut other, "echo there"), "there");
        }
        for_other += 50;
        let after = board.facts().served;
        if after == before + 50 {
            break after - for_other;
        }
    };
    // What was served for it has left, or is below the limit and what one step adds to that.
    let stats = server.stats();
    let kept = (for_glutton * 100_001) as u64 - (stats.bytes_out - 6 * for_other as u64);
    assert!(kept <= (OUTPUT_MAX + OUTPUT_SLICE_BYTES + 100_001) as u64, "{kept} bytes, {stats:?}");
    let asked = (2_000 * 100_001) as u64;
    assert!(stats.bytes_out < asked / 4, "{stats:?}");
    // It gets everything when it reads at last.
    let mut received = 0;
    let mut memory = vec![0; 1 << 20];
    while received < asked as usize {
        let count = glutton.read(&mut memory).unwrap();
        assert!(count > 0, "the end after {received} bytes");
        received += count;
    }
    assert_eq!(received, asked as usize);
    assert_eq!(ask(&mut glutton, "echo still here"), "still here");
}

#[test]
fn many_slow_clients_do_not_keep_others_waiting() {
    let (board, server) = start(Options { threads: 2, ..Options::default() });
    let mut slow: Vec<_> = (0..500).map(|_| connect(&address(&server))).collect();
    board.wait("all are open", |facts| facts.opened == 500);
    let mut fast = connect(&address(&server));
    let request = b"put 20\nabcdefghijklmnopqrst";
    for byte in request {
        for client in &mut slow {
            client.write_all(&[*byte]).unwrap();
        }
        assert_eq!(ask(&mut fast, "echo quick"), "quick");
    }
    for client in &mut slow {
        assert_eq!(read_line(client), "stored 20 2130");
    }
    let facts = board.facts();
    let by_first = facts.opened_by.iter().filter(|index| **index == 0).count();
    assert!((245..=256).contains(&by_first), "loops have {by_first} of 501");
}

#[test]
fn few_clients_are_spread_over_the_loops() {
    let (board, server) = start(Options { threads: 4, ..Options::default() });
    for round in 1..=3 {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                let mut client = connect(&address(&server));
                assert_eq!(ask(&mut client, "echo 1"), "1");
                client
            })
            .collect();
        let mut loops = board.facts().opened_by.split_off(4 * (round - 1));
        loops.sort_unstable();
        assert_eq!(loops, [0, 1, 2, 3]);
        drop(clients);
        board.wait("all are closed", |facts| facts.closed == 4 * round);
        assert_eq!(server.stats().open, 0);
    }
}

#[test]
fn a_reset_while_replies_wait_closes_the_connection() {
    let (board, server) = start(Options::default());
    let mut client = connect(&address(&server));
    client.write_all(b"big 50000000\n").unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 1);
    // Unread bytes make the kernel reset it.
    drop(client);
    board.wait("it is closed", |facts| facts.closed == 1);
    assert_eq!(ask(&mut connect(&address(&server)), "echo on"), "on");
}

#[test]
fn timeouts_close_the_silent_and_keep_the_busy() {
    let timeouts = Timeouts {
        first_request: Some(Duration::from_millis(150)),
        request: Some(Duration::from_millis(300)),
        idle: Some(Duration::from_millis(600)),
        stalled_output: Some(Duration::from_millis(450)),
    };
    let limits = Limits { output_bytes_max: 1 << 16, ..Limits::default() };
    let (board, server) = start(Options { timeouts, limits, ..Options::default() });
    let mut silent = connect(&address(&server));
    let mut halfway = connect(&address(&server));
    assert_eq!(ask(&mut halfway, "echo 1"), "1");
    halfway.write_all(b"echo ha").unwrap();
    let mut idle = connect(&address(&server));
    assert_eq!(ask(&mut idle, "echo 1"), "1");
    let mut stalled = connect(&address(&server));
    stalled.write_all(b"big 100000000\n").unwrap();
    for client in [&mut silent, &mut halfway, &mut idle] {
        assert_eq!(read_until_closed(client), b"");
    }
    board.wait("all are closed", |facts| facts.closed == 4);
    let stats = server.shutdown(GRACE).unwrap();
    for reason in [
        CloseReason::FirstRequest,
        CloseReason::Request,
        CloseReason::Idle,
        CloseReason::StalledOutput,
    ] {
        assert_eq!(stats.closed_for(reason), 1, "{reason}: {stats:?}");
    }
}

#[test]
fn a_near_deadline_is_not_hidden_by_a_far_one() {
    let timeouts = Timeouts {
        request: Some(Duration::from_millis(100)),
        idle: Some(Duration::from_secs(10)),
        ..Timeouts::default()
    };
    let (board, server) = start(Options { timeouts, ..Options::default() });
    let mut idle = connect(&address(&server));
    assert_eq!(ask(&mut idle, "echo 1"), "1");
    let mut halfway = connect(&address(&server));
    assert_eq!(ask(&mut halfway, "echo 1"), "1");
    halfway.write_all(b"echo ha").unwrap();
    board.wait("one is closed", |facts| facts.closed > 0);
    let stats = server.shutdown(GRACE).unwrap();
    let closed = [CloseReason::Request, CloseReason::Idle].map(|reason| stats.closed_for(reason));
    assert_eq!(closed, [1, 0]);
}

#[test]
fn a_client_that_passes_descriptors_is_served_or_closed_and_harms_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let endpoint = format!("unix:{}", path.display());
    let listeners = vec![keyrack_net::Listener::stream(endpoint.parse().unwrap())];
    let (_board, server) = start(Options { listeners, ..Options::default() });
    let sender = UnixStream::connect(&path).unwrap();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
    let descriptors = [std::os::fd::AsFd::as_fd(&sender)];
    assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(&descriptors)));
    let text = [std::io::IoSlice::new(b"echo with a gift\n")];
    rustix::net::sendmsg(&sender, &text, &mut control, rustix::net::SendFlags::empty()).unwrap();
    let mut reply = [0; 12];
    match (&sender).read_exact(&mut reply) {
        Ok(()) => assert_eq!(&reply, b"with a gift\n"),
        Err(cause) => assert!(is_closed(&cause), "{cause}"),
    }
    assert_eq!(ask(&mut connect(&address(&server)), "echo on"), "on");
}

#[test]
fn anybody_may_end_a_connection_that_is_idle() {
    let (board, server) = start(Options { threads: 2, ..Options::default() });
    let mut clients: Vec<Stream> = (0..4).map(|_| connect(&address(&server))).collect();
    clients.iter_mut().for_each(|client| assert_eq!(ask(client, "echo here"), "here"));
    // Twice, from a thread that is no loop: the second time there is nobody.
    let closers = board.facts().closers;
    closers.iter().for_each(|closer| closer.close());
    clients.iter_mut().for_each(|client| assert!(read_until_closed(client).is_empty()));
    closers.iter().for_each(|closer| closer.close());
    // Those who come to the same places stay.
    let mut later: Vec<Stream> = (0..4).map(|_| connect(&address(&server))).collect();
    closers.iter().for_each(|closer| closer.close());
    later.iter_mut().for_each(|client| assert_eq!(ask(client, "echo still"), "still"));
    let stats = server.shutdown(GRACE).unwrap();
    assert_eq!(stats.closed_for(CloseReason::Worker), 4, "{stats:?}");
}
