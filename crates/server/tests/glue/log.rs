//! The log of a server in this process, as lines. There is one log a process, so other tests may be
//! in it, too: names of users tell the lines apart.

use crate::glue::{Client, address, options, start};
use keyrack_rowstore::ModelRows;
use keyrack_server::{LogFormat, LogLevel, Password, log};
use serde_json::Value;
use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_clients_cause_is_limited_counted_and_escaped() {
    let sink = Sink::default();
    log::start(LogLevel::Info, LogFormat::Json, Box::new(sink.clone()));
    assert_eq!(log::level(), Some(LogLevel::Info));
    let mut options = options(&["resp://127.0.0.1:0", "memcached://127.0.0.1:0"]);
    options.password = Password::new(b"open sesame");
    let (server, _) = start(Box::new(ModelRows::new()), &options);
    let to =
        |index: usize| Client(BufReader::new(TcpStream::connect(address(&server, index)).unwrap()));
    let hostile = b"a\n{\"event\":\"made-up\"}\x1b[2J\xff\0";
    let mut client = to(0);
    client.send(&format!("*3\r\n$4\r\nAUTH\r\n${}\r\n", hostile.len()));
    client.0.get_mut().write_all(hostile).unwrap();
    client.send("\r\n$3\r\nbad\r\n");
    assert!(client.line().starts_with("-WRONGPASS"));
    let mut client = to(1);
    client.send("set auth 0 0 11\r\nopen sesame\r\n");
    let mut rest = String::new();
    client.0.read_to_string(&mut rest).unwrap();
    assert!(rest.starts_with("CLIENT_ERROR authentication failure"), "{rest}");
    for _ in 0..100 {
        assert!(to(0).ask("AUTH guess").contains("WRONGPASS"));
    }
    server.end().unwrap();
    log::finish();
    let bytes = sink.0.lock().unwrap().clone();
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)), "{text:?}");
    assert!(!text.contains("sesame") && !text.contains("guess"), "{text}");
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.iter().all(|event| event["event"] != "made-up"));
    // The beginning of a password that has a blank is not taken for a name.
    let refused = events.iter().find(|event| event["protocol"] == "memcached").unwrap();
    assert_eq!((&refused["event"], &refused["user"]), (&"auth-refused".into(), &"".into()));
    let shown = "a\\x0a{\"event\":\"made-up\"}\\x1b[2J\\xff\\x00";
    let found = events.iter().find(|event| event["user"] == shown).unwrap();
    assert_eq!((&found["event"], &found["level"]), (&"auth-refused".into(), &"warn".into()));
    assert!(found["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
    // Each was written, or counted. Tests beside this one may have added to them.
    let written = events.iter().filter(|event| event["event"] == "auth-refused").count() as u64;
    let left_out: u64 = events
        .iter()
        .filter(|event| event["event"] == "left-out" && event["of"] == "auth-refused")
        .map(|event| event["lines"].as_u64().unwrap())
        .sum();
    assert!(written + left_out >= 102 && left_out > 0, "{written} {left_out}");
    log::set_level(LogLevel::Error);
    assert_eq!(log::level(), Some(LogLevel::Error));
    log::set_level(LogLevel::Info);
}
