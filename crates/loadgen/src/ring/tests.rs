//! Two sides in one process: every cut of bytes over the ends of a ring, sleep and wake-up, the end
//! of either side, and a side that lies.

use super::end::Wants;
use super::*;
use std::io::Read;
use std::time::Duration;

use keyrack_workload::Rng;
use tempfile::TempDir;

const SEED: u64 = 20_261_122;
const PATIENCE: Duration = Duration::from_secs(60);

/// A client that blocks, and a responder that does not.
fn pair() -> (End, End, TempDir) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("ring");
    let listener = Listener::bind(&path).unwrap();
    let client = std::thread::spawn(move || End::connect(&path, PATIENCE).unwrap());
    let clock = keyrack_measure::Clock::vdso();
    let responder = loop {
        if let Some(end) = listener.accept() {
            break end;
        }
        clock.wait_until(clock.ticks() + 1_000_000);
    };
    (client.join().unwrap(), responder, directory)
}

/// Echoes until the client is gone; sleeps whenever there is nothing.
fn echo(mut end: End, mut rng: Rng) {
    let mut buffer = vec![0; 100_000];
    loop {
        let room = buffer.len() as u64 - 1;
        let part = 1 + rng.below(room) as usize;
        let count = match end.read(&mut buffer[..part]) {
            Ok(0) => return,
            Ok(count) => count,
            Err(_) => {
                wait(&mut end, Wants { bytes: true, room: false });
                continue;
            }
        };
        let mut sent = 0;
        while sent < count {
            match end.write(&buffer[sent..count]) {
                Ok(more) => sent += more,
                Err(_) => wait(&mut end, Wants { bytes: false, room: true }),
            }
        }
    }
}

fn wait(end: &mut End, wants: Wants) {
    if end.sleep(wants) {
        let mut places = [rustix::event::PollFd::new(&*end, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut places, None).unwrap();
    }
    end.wake();
    end.drain_wakeups();
}

#[test]
fn bytes_come_as_they_were_sent_around_the_ring_and_through_every_sleep() {
    println!("SEED={SEED}");
    let (mut client, responder, directory) = pair();
    assert_eq!(RealFs.list(directory.path()).unwrap().len(), 0, "names are gone");
    let echoing = std::thread::spawn(move || echo(responder, Rng::from_seed(SEED)));
    let mut rng = Rng::from_seed(SEED + 1);
    let (mut sent, mut got) = (vec![0; 300_000], vec![0; 300_000]);
    // Three hundred rounds of up to a whole ring: around it many times, in odd pieces.
    for round in 0..300 {
        let bytes = match round % 3 {
            0 => 1 + rng.below(16),
            1 => 1 + rng.below(5000),
            _ => RING_BYTES - rng.below(9),
        } as usize;
        rng.fill(&mut sent[..bytes]);
        client.write_all(&sent[..bytes]).unwrap();
        client.read_exact(&mut got[..bytes]).unwrap();
        assert!(sent[..bytes] == got[..bytes], "round {round}: {bytes} bytes");
    }
    drop(client);
    echoing.join().unwrap();
}

#[test]
fn a_full_ring_waits_for_room() {
    let (mut client, mut responder, _directory) = pair();
    client.set_nonblocking();
    let bytes = vec![7; 2 * RING_BYTES as usize];
    assert_eq!(client.write(&bytes).unwrap() as u64, RING_BYTES);
    assert_eq!(client.write(&bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let wants = Wants { bytes: true, room: true };
    assert!(client.sleep(wants), "there is nothing to do");
    let mut some = [0; 3];
    responder.read_exact(&mut some).unwrap();
    let mut places = [rustix::event::PollFd::new(&client, rustix::event::PollFlags::IN)];
    assert_eq!(rustix::event::poll(&mut places, None).unwrap(), 1, "it was woken");
    assert!(!client.sleep(wants), "there is room, so nobody sleeps");
    assert_eq!(client.write(&bytes).unwrap(), 3);
}

#[test]
fn what_was_written_before_the_end_is_read_before_the_end() {
    let (mut client, mut responder, _directory) = pair();
    responder.write_all(b"last words").unwrap();
    drop(responder);
    let mut words = Vec::new();
    client.read_to_end(&mut words).unwrap();
    assert_eq!(words, b"last words");
    assert_eq!(client.write(b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn positions_that_cannot_be_are_an_error() {
    let (mut client, responder, _directory) = pair();
    // What a responder gone mad may write: more than a ring ahead, and behind.
    for position in [RING_BYTES + 1, u64::MAX] {
        responder.lie(position);
        let error = client.read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
        assert!(error.to_string().contains("damaged the shared memory"), "{error}");
    }
}

#[test]
fn somebody_else_at_the_path_is_told_from_a_responder() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("s");
    let cases: [(&[u8], &str); 4] = [
        (b"+OK\r\n", "another greeting"),
        (b"keyrack-ring 1 ../up\n", "another greeting"),
        (b"keyrack-ring refused: no space\n", "refuses: no space"),
        (&[b'x'; 2000], "without end"),
    ];
    for (line, words) in cases {
        let listener = UnixListener::bind(&path).unwrap();
        let client = std::thread::spawn({
            let path = path.clone();
            move || End::connect(&path, PATIENCE).unwrap_err().to_string()
        });
        // The client hangs up once it has seen enough.
        let _ = listener.accept().unwrap().0.write_all(line);
        let message = client.join().unwrap();
        assert!(message.contains(words), "{message}");
        RealFs.remove_file(&path).unwrap();
    }
}

#[test]
fn a_path_that_a_dead_responder_left_is_taken_over_and_one_in_use_is_not() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("s");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "a socket that nobody listens at any more");
    let listener = Listener::bind(&path).unwrap();
    assert_eq!(Listener::bind(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    drop(listener);
    assert!(!path.exists());
    RealFs.write_atomic(&path, b"a file").unwrap();
    assert!(Listener::bind(&path).is_err());
    assert!(path.exists(), "what is no socket is left alone");
}
