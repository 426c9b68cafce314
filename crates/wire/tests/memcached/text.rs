//! Each command and each reply of the text protocol, byte for byte.

use super::LIMITS;
use keyrack_wire::memcached::text::{
    Arithmetic, Direction, Fault, Get, Refusal, Reply, Request, Store, StoreMode, parse,
    parse_reply, write_get, write_value,
};
use keyrack_wire::memcached::{Limits, Parsed};

fn command(bytes: &str) -> Request<'_> {
    match parse(bytes.as_bytes(), &LIMITS) {
        Ok(Parsed::Complete(request, all)) if all == bytes.len() => request,
        other => panic!("{other:?} of {bytes:?}"),
    }
}

/// `bytes` is this command, and the command is written as these bytes.
fn golden(bytes: &str, request: Request<'_>) {
    assert_eq!(command(bytes), request, "{bytes:?}");
    let mut out = Vec::new();
    request.write(&mut out);
    assert_eq!(out.escape_ascii().to_string(), bytes.as_bytes().escape_ascii().to_string());
}

fn refusal(bytes: &[u8]) -> Refusal {
    match parse(bytes, &LIMITS) {
        Err(refusal) => refusal,
        other => panic!("{other:?} of {}", bytes.escape_ascii()),
    }
}

/// A line is refused, and the connection goes on right after it.
fn refused(line: &str, fault: Fault) {
    let skip = line.len() as u64;
    let expected = Refusal { fault, noreply: false, skip, close: false };
    assert_eq!(refusal(line.as_bytes()), expected, "{line:?}");
}

#[test]
fn retrievals() {
    let keys = |line: &str| -> (Vec<String>, bool, Option<i64>) {
        let Request::Get(Get { keys, cas, exptime }) = command(line) else { panic!("{line}") };
        (keys.map(|key| key.escape_ascii().to_string()).collect(), cas, exptime)
    };
    assert_eq!(keys("get a\r\n"), (vec!["a".into()], false, None));
    assert_eq!(keys("gets a bb a\r\n"), (vec!["a".into(), "bb".into(), "a".into()], true, None));
    assert_eq!(keys("gat 30 a b\r\n"), (vec!["a".into(), "b".into()], false, Some(30)));
    assert_eq!(keys("gats -1 a\n"), (vec!["a".into()], true, Some(-1)));
    assert_eq!(keys("   get   a   b  \r\n").0, ["a", "b"]);
    assert_eq!(keys("get \u{fc}\r\n").0, ["\\xc3\\xbc"]);
    let mut out = Vec::new();
    write_get(&mut out, true, Some(5), [&b"a"[..], b"b"]);
    write_get(&mut out, false, None, [&b"c"[..]]);
    assert_eq!(out, b"gats 5 a b\r\nget c\r\n");
    for line in ["get\r\n", "get \r\n", "gets\n", "gat\r\n", "gat 1\r\n"] {
        refused(line, Fault::Unknown);
    }
    refused("gat x a\r\n", Fault::Exptime);
    refused("gat 9223372036854775808 a\r\n", Fault::Exptime);
}

#[test]
fn stores() {
    let store = |mode, flags, exptime, value, noreply| {
        Request::Store(Store { mode, key: b"key", flags, exptime, value, noreply })
    };
    golden("set key 0 0 5\r\nhello\r\n", store(StoreMode::Set, 0, 0, b"hello", false));
    golden("add key 7 -1 0 noreply\r\n\r\n", store(StoreMode::Add, 7, -1, b"", true));
    golden(
        "replace key 4294967295 2592001 2\r\n\r\n\r\n",
        store(StoreMode::Replace, u32::MAX, 2_592_001, b"\r\n", false),
    );
    golden("append key 0 0 1\r\n\0\r\n", store(StoreMode::Append, 0, 0, b"\0", false));
    golden("prepend key 0 0 1\r\nx\r\n", store(StoreMode::Prepend, 0, 0, b"x", false));
    golden(
        "cas key 0 0 1 18446744073709551615\r\nx\r\n",
        store(StoreMode::Cas(u64::MAX), 0, 0, b"x", false),
    );
    golden("cas key 0 0 1 9 noreply\r\nx\r\n", store(StoreMode::Cas(9), 0, 0, b"x", true));
}

#[test]
fn commands_of_one_line() {
    golden("delete key\r\n", Request::Delete { key: b"key", noreply: false });
    golden("delete key noreply\r\n", Request::Delete { key: b"key", noreply: true });
    golden("delete noreply\r\n", Request::Delete { key: b"noreply", noreply: false });
    assert_eq!(command("delete key 0\r\n"), Request::Delete { key: b"key", noreply: false });
    assert_eq!(command("delete key 0 noreply\n"), Request::Delete { key: b"key", noreply: true });
    let arithmetic = |direction, delta, noreply| {
        Request::Arithmetic(Arithmetic { direction, key: b"key", delta, noreply })
    };
    golden("incr key 1\r\n", arithmetic(Direction::Up, 1, false));
    golden(
        "decr key 18446744073709551615 noreply\r\n",
        arithmetic(Direction::Down, u64::MAX, true),
    );
    golden("touch key 60\r\n", Request::Touch { key: b"key", exptime: 60, noreply: false });
    golden("touch key 0 noreply\r\n", Request::Touch { key: b"key", exptime: 0, noreply: true });
    golden("flush_all\r\n", Request::FlushAll { delay: 0, noreply: false });
    golden("flush_all noreply\r\n", Request::FlushAll { delay: 0, noreply: true });
    golden("flush_all 10 noreply\r\n", Request::FlushAll { delay: 10, noreply: true });
    golden("stats\r\n", Request::Stats(b""));
    golden("stats detail on\r\n", Request::Stats(b"detail on"));
    golden("version\r\n", Request::Version);
    golden("verbosity 1\r\n", Request::Verbosity { noreply: false });
    golden("verbosity 1 noreply\r\n", Request::Verbosity { noreply: true });
    assert_eq!(command("verbosity noreply\r\n"), Request::Verbosity { noreply: true });
    golden("cache_memlimit 64\r\n", Request::CacheMemlimit { megabytes: 64, noreply: false });
    golden("shutdown\r\n", Request::Shutdown);
    golden("quit\r\n", Request::Quit);
    assert_eq!(command("version now\n"), Request::Version);
}

#[test]
fn lines_that_are_no_command() {
    for line in [
        "\r\n",
        "\n",
        "   \r\n",
        "nothing\r\n",
        "VERSION\r\n",
        "GETS a\r\n",
        "delete\r\n",
        "incr\r\n",
        "incr a\r\n",
        "touch\r\n",
        "touch a\r\n",
        "verbosity\r\n",
        "delete a b c d\r\n",
        "flush_all 1 2 3\r\n",
        "mz a\r\n",
        "\u{1}\r\n",
        "get\ta\r\n",
    ] {
        refused(line, Fault::Unknown);
    }
    refused("incr a x\r\n", Fault::Delta);
    refused("incr a -1\r\n", Fault::Delta);
    refused("incr a +1\r\n", Fault::Delta);
    refused("decr a 18446744073709551616\r\n", Fault::Delta);
    refused("touch a x\r\n", Fault::Exptime);
    refused("flush_all x\r\n", Fault::Exptime);
    refused("delete a 1\r\n", Fault::DeleteTime);
    refused("incr a 1 quietly\r\n", Fault::Format);
    refused("verbosity x\r\n", Fault::Format);
    refused("cache_memlimit x\r\n", Fault::Format);
    refused("stats a\tb\r\n", Fault::Format);
}

#[test]
fn a_refused_command_keeps_its_noreply() {
    let silent = refusal(b"incr a x noreply\r\n");
    assert_eq!((silent.fault, silent.noreply, silent.reply()), (Fault::Delta, true, &b""[..]));
    let silent = refusal(b"set a 0 x 2 noreply\r\nhi\r\n");
    assert_eq!((silent.fault, silent.noreply, silent.skip), (Fault::Format, true, 25));
    let silent = refusal(b"set a 0 0 2 noreply\r\nhello\r\n");
    assert_eq!((silent.fault, silent.noreply, silent.skip), (Fault::DataChunk, true, 25));
    let told = refusal(b"get a\tb noreply\r\n");
    assert_eq!((told.fault, told.noreply), (Fault::Format, false));
    let told = refusal(b"mg a Tx noreply\r\n");
    assert_eq!((told.fault, told.noreply), (Fault::FlagToken, false));
}

#[test]
fn the_words_of_a_refusal() {
    assert_eq!(refusal(b"x\r\n").reply(), b"ERROR\r\n");
    assert_eq!(refusal(b"set a 0 0 2\r\nabc\r\n").reply(), b"CLIENT_ERROR bad data chunk\r\n");
    assert_eq!(
        refusal(b"set a 0 0 301\r\n").reply(),
        b"SERVER_ERROR object too large for cache\r\n"
    );
    assert_eq!(refusal(b"get \x7f\r\n").reply(), b"CLIENT_ERROR bad command line format\r\n");
    assert_eq!(refusal(b"POST / HTTP/1.1\r\n").reply(), b"");
}

#[test]
fn http_closes() {
    for line in [
        "GET / HTTP/1.1\r\n",
        "POST /x HTTP/1.0\r\n",
        "Host: localhost\r\n",
        "PUT / \n",
        "PROPFIND /x HTTP/1.1\r\n",
    ] {
        let refusal = refusal(line.as_bytes());
        assert_eq!((refusal.fault, refusal.close), (Fault::Http, true), "{line:?}");
    }
    // A key may look like it.
    command("get HTTP/1.1\r\n");
    let long = [b"GET /".to_vec(), vec![b'x'; 2000]].concat();
    assert_eq!(refusal(&long).fault, Fault::Http);
}

#[test]
fn keys_end_at_250_bytes() {
    let (fits, long) = ("k".repeat(250), "k".repeat(251));
    let lines = ["get K\r\n", "get a K b\r\n", "delete K\r\n", "touch K 0\r\n", "incr K 1\r\n"];
    for line in lines.map(str::to_owned).iter().chain(&["gat 0 K\r\n".to_owned()]) {
        command(&line.replace('K', &fits));
        refused(&line.replace('K', &long), Fault::Format);
    }
    command(&format!("set {fits} 0 0 1\r\nx\r\n"));
    let refusal = refusal(format!("set {long} 0 0 1\r\nx\r\n").as_bytes());
    assert_eq!((refusal.fault, refusal.skip, refusal.close), (Fault::Format, 266, false));
}

#[test]
fn a_carriage_return_in_a_key_is_no_end_of_line() {
    refused("get a\rb\r\n", Fault::Format);
    refused("get a\r\r\n", Fault::Format);
    refused("delete a\rversion\r\n", Fault::Format);
    assert_eq!(parse(b"get a\r", &LIMITS), Ok(Parsed::Incomplete(7)));
    assert_eq!(parse(b"get a\rb", &LIMITS), Ok(Parsed::Incomplete(8)));
    refused("set\ra\r\n", Fault::Unknown);
}

#[test]
fn a_block_ends_where_its_length_says() {
    for bytes in ["set a 0 0 3\r\nabc\nx", "set a 0 0 3\r\nabcd\r\n", "set a 0 0 3\r\nab\r\n\r\n"] {
        let refusal = refusal(bytes.as_bytes());
        assert_eq!((refusal.fault, refusal.skip, refusal.close), (Fault::DataChunk, 18, false));
    }
    // A line may end with a bare newline, a block may not.
    command("set a 0 0 3\nabc\r\n");
}

#[test]
fn lines_have_limits() {
    let line = |length: usize| format!("delete {}", "x".repeat(length - 7));
    let long = refusal(line(600).as_bytes());
    assert_eq!((long.fault, long.close), (Fault::LineTooLong, true));
    assert_eq!(parse(line(599).as_bytes(), &LIMITS), Ok(Parsed::Incomplete(600)));
    let keys = |count: usize| format!("get{}\r\n", " keyrack".repeat(count));
    command(&keys(149));
    let refusal = refusal(keys(150).as_bytes());
    assert_eq!((refusal.fault, refusal.close, refusal.skip), (Fault::LineTooLong, true, 1200));
}

#[test]
fn many_keys_pass_the_limit_of_other_lines() {
    let line = format!("gets{}\r\n", " a_key_of_some_length".repeat(3000));
    assert!(line.len() > Limits::DEFAULT.line_bytes_max);
    let Ok(Parsed::Complete(Request::Get(get), _)) = parse(line.as_bytes(), &Limits::DEFAULT)
    else {
        panic!("a retrieval");
    };
    assert_eq!(get.keys.count(), 3000);
}

/// `bytes` is this reply, and the reply is written as these bytes.
fn golden_reply(bytes: &[u8], reply: Reply<'_>) {
    assert_eq!(parse_reply(bytes, &LIMITS), Ok(Parsed::Complete(reply, bytes.len())));
    let mut out = Vec::new();
    reply.write(&mut out);
    assert_eq!(out.escape_ascii().to_string(), bytes.escape_ascii().to_string());
}

#[test]
fn replies() {
    let value = |cas| Reply::Value { key: b"key", flags: 7, value: b"a\r\nb", cas };
    golden_reply(b"VALUE key 7 4\r\na\r\nb\r\n", value(None));
    golden_reply(b"VALUE key 7 4 99\r\na\r\nb\r\n", value(Some(99)));
    golden_reply(b"END\r\n", Reply::End);
    golden_reply(b"STORED\r\n", Reply::Stored);
    golden_reply(b"NOT_STORED\r\n", Reply::NotStored);
    golden_reply(b"EXISTS\r\n", Reply::Exists);
    golden_reply(b"NOT_FOUND\r\n", Reply::NotFound);
    golden_reply(b"DELETED\r\n", Reply::Deleted);
    golden_reply(b"TOUCHED\r\n", Reply::Touched);
    golden_reply(b"OK\r\n", Reply::Ok);
    golden_reply(b"RESET\r\n", Reply::Reset);
    golden_reply(b"18446744073709551615\r\n", Reply::Number(u64::MAX));
    golden_reply(b"STAT pid 7\r\n", Reply::Stat { name: b"pid", value: b"7" });
    golden_reply(b"VERSION 1.2.3\r\n", Reply::Version(b"1.2.3"));
    golden_reply(b"ERROR\r\n", Reply::Error);
    golden_reply(b"CLIENT_ERROR bad data chunk\r\n", Reply::ClientError(b"bad data chunk"));
    golden_reply(b"SERVER_ERROR no memory\r\n", Reply::ServerError(b"no memory"));
}

#[test]
fn replies_of_a_server_that_pads() {
    let number = parse_reply(b"5  \r\n", &LIMITS);
    assert_eq!(number, Ok(Parsed::Complete(Reply::Number(5), 5)));
    let stat = parse_reply(b"STAT empty \r\n", &LIMITS);
    assert_eq!(stat, Ok(Parsed::Complete(Reply::Stat { name: b"empty", value: b"" }, 13)));
    let error = parse_reply(b"ERROR: shutdown not enabled\r\n", &LIMITS);
    assert_eq!(error, Ok(Parsed::Complete(Reply::Error, 29)));
}

#[test]
fn bytes_that_are_no_reply() {
    for bytes in [
        "\r\n",
        "HELLO\r\n",
        "-1\r\n",
        "VALUE\r\n",
        "VALUE a 0\r\n",
        "VALUE a 0 x\r\n",
        "VALUE a 0 -1\r\n",
        "VALUE a 4294967296 0\r\n\r\n",
        "VALUE a 0 1 x\r\nb\r\n",
        "VALUE a 0 1\r\nbcd\r\n",
        "VA\r\n",
        "VA x\r\n",
        "STAT\r\n",
        "ME\r\n",
        "18446744073709551616\r\n",
        "VALUE a 0 301\r\n",
        "VALUE a 0 18446744073709551615\r\n",
        "VA 4294967297\r\n",
        "HD \u{1}\r\n",
    ] {
        assert!(parse_reply(bytes.as_bytes(), &LIMITS).is_err(), "{bytes:?}");
    }
    assert!(parse_reply(&[b'x'; 600], &LIMITS).is_err());
}

#[test]
fn no_line_of_a_reply_comes_from_a_client() {
    let mut out = Vec::new();
    Reply::ServerError(b"no such\r\nSTORED\r\nthing\0").write(&mut out);
    assert_eq!(out, b"SERVER_ERROR no such  STORED  thing \r\n");
    out.clear();
    Reply::Stat { name: b"a\nb", value: b"c\rd" }.write(&mut out);
    assert_eq!(out, b"STAT a b c d\r\n");
}

#[test]
fn a_row_is_written_whole() {
    let mut out = b"before".to_vec();
    write_value(&mut out, b"k", u32::MAX, b"", Some(u64::MAX));
    assert_eq!(out, b"beforeVALUE k 4294967295 0 18446744073709551615\r\n\r\n");
}
