//! Requests of Redis' protocol: bytes in, arguments out.

use keyrack_wire::resp::{CommandWriter, Limits, ProtocolError, RequestParser, command};

type Args = Vec<Vec<u8>>;

/// The requests in `bytes`, which come in reads that end at `cuts`; how many bytes are left, or why
/// there is no way to go on.
pub(crate) fn parse(
    bytes: &[u8],
    cuts: impl IntoIterator<Item = usize>,
    limits: &Limits,
) -> (Vec<Args>, Result<usize, ProtocolError>) {
    let mut parser = RequestParser::new();
    let (mut requests, mut start, mut left) = (Vec::new(), 0, 0);
    for end in cuts {
        let mut input = &bytes[start..end];
        loop {
            let before = input.len();
            match parser.next(&mut input, limits) {
                Ok(Some(request)) => {
                    assert!(!request.is_empty() && request.message_bytes() <= before - input.len());
                    requests.push(request.args().map(<[u8]>::to_vec).collect());
                }
                Ok(None) => break,
                Err(error) => return (requests, Err(error)),
            }
        }
        // Memory is bounded by what came, whatever was announced.
        assert!(parser.memory_bytes() <= 64 * (end + 16), "{}", parser.memory_bytes());
        assert!(parser.wanted_bytes() as u64 <= limits.message_bytes_max);
        start = end - input.len();
        left = input.len();
    }
    (requests, Ok(left))
}

/// Parses whole and cut at each place in two, and byte by byte: all the same.
fn parse_anyhow(bytes: &[u8], limits: &Limits) -> (Vec<Args>, Result<usize, ProtocolError>) {
    let whole = parse(bytes, [bytes.len()], limits);
    for cut in 0..bytes.len() {
        assert_eq!(parse(bytes, [cut, bytes.len()], limits), whole, "cut at {cut}");
    }
    assert_eq!(parse(bytes, 1..=bytes.len(), limits), whole, "byte by byte");
    whole
}

fn args(of: &[&str]) -> Args {
    of.iter().map(|arg| arg.as_bytes().to_vec()).collect()
}

/// Parses to the end without an error.
fn requests(bytes: &str) -> Vec<Args> {
    let (requests, end) = parse_anyhow(bytes.as_bytes(), &Limits::default());
    assert_eq!(end, Ok(0));
    requests
}

fn error(bytes: &str) -> ProtocolError {
    parse_anyhow(bytes.as_bytes(), &Limits::default()).1.unwrap_err()
}

#[test]
fn an_array_of_strings_is_a_request() {
    let bytes = "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$13\r\nva\r\nl\0ue $1\r\n\r\n";
    assert_eq!(requests(bytes), [args(&["SET", "key", "va\r\nl\0ue $1\r\n"])]);
    assert_eq!(requests("*1\r\n$0\r\n\r\n"), [args(&[""])]);
}

#[test]
fn a_line_is_a_request() {
    assert_eq!(requests("PING\r\n"), [args(&["PING"])]);
    assert_eq!(requests(" set k  v \n"), [args(&["set", "k", "v"])]);
    let quoted = "set \"a b\\x41\\n\" 'it\\'s'\r\n";
    assert_eq!(requests(quoted), [args(&["set", "a bA\n", "it's"])]);
    assert_eq!(requests("get \"\"\r\n"), [args(&["get", ""])]);
}

#[test]
fn requests_follow_each_other_in_both_forms() {
    let bytes = "*1\r\n$4\r\nPING\r\nget 'a b'\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\n";
    let expected = [args(&["PING"]), args(&["get", "a b"]), args(&["GET", "k"]), args(&["PING"])];
    assert_eq!(requests(bytes), expected);
}

#[test]
fn requests_of_nothing_are_passed_over() {
    assert_eq!(requests("*0\r\n*-1\r\n\r\n\n  \r\n*-5\r\nPING\r\n*0\r\n"), [args(&["PING"])]);
}

/// They once would have been kept by a server that waits for a request to take its bytes.
#[test]
fn what_is_passed_over_leaves_the_input() {
    let mut parser = RequestParser::new();
    let bytes = b"\r\n*0\r\n*1\r\n$4\r\nPI";
    let mut input = &bytes[..];
    assert!(parser.next(&mut input, &Limits::default()).unwrap().is_none());
    assert_eq!(input, b"*1\r\n$4\r\nPI");
    assert_eq!(parser.wanted_bytes(), b"*1\r\n$4\r\nPING\r\n".len());
}

#[test]
fn errors_have_the_words_of_redis() {
    let long = format!("*{}", "1".repeat(70_000));
    let long_bulk = format!("*1\r\n${}", "1".repeat(70_000));
    let table: [(&str, &str); 22] = [
        ("*x\r\n", "invalid multibulk length"),
        ("*\r\n", "invalid multibulk length"),
        ("*+1\r\n", "invalid multibulk length"),
        ("*01\r\n", "invalid multibulk length"),
        ("*1 \r\n", "invalid multibulk length"),
        ("*1\rx", "invalid multibulk length"),
        ("*1048577\r\n", "invalid multibulk length"),
        ("*4294967297\r\n", "invalid multibulk length"),
        ("*18446744073709551615\r\n", "invalid multibulk length"),
        ("*1\r\n:1\r\n", "expected '$', got ':'"),
        ("*1\r\n\n", "expected '$', got '\\n'"),
        ("*1\r\n$\r\n", "invalid bulk length"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$+1\r\n", "invalid bulk length"),
        ("*1\r\n$536870913\r\n", "invalid bulk length"),
        ("*1\r\n$18446744073709551615\r\n", "invalid bulk length"),
        ("*1\r\n$9223372036854775807\r\n", "invalid bulk length"),
        ("*1\r\n$1\r\nabc", "invalid bulk length"),
        (&long, "too big mbulk count string"),
        (&long_bulk, "too big bulk count string"),
        ("get \"k\r\n", "unbalanced quotes in request"),
        ("get 'k'x\r\n", "unbalanced quotes in request"),
    ];
    for (bytes, expected) in table {
        let bytes = &bytes[..bytes.len().min(100)];
        assert_eq!(error(bytes).to_string(), expected, "{}", bytes.escape_debug());
    }
    let line = vec![b'x'; 65_536];
    let (_, end) = parse(&line, [100, 50_000, line.len()], &Limits::default());
    assert_eq!(end.unwrap_err().to_string(), "too big inline request");
    assert_eq!(parse(&line[1..], [65_535], &Limits::default()).1, Ok(65_535));
}

#[test]
fn a_length_that_is_not_where_the_string_ends_is_an_error() {
    for bytes in ["*1\r\n$3\r\nabcd\r\n", "*1\r\n$3\r\nab\r\n*1\r\n", "*1\r\n$1\r\na\n\n"] {
        assert_eq!(error(bytes), ProtocolError::BulkLength, "{}", bytes.escape_debug());
    }
}

/// Gives `bytes` in pieces of `step`; what comes out in its order, `refused` for a request whose
/// string is too long.
fn with_refusals(bytes: &[u8], step: usize, limits: &Limits) -> Result<Vec<String>, ProtocolError> {
    let mut parser = RequestParser::new();
    let (mut held, mut found) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(step) {
        held.extend_from_slice(piece);
        let mut input = &held[..];
        loop {
            if let Some(request) = parser.next(&mut input, limits)? {
                let words = request.args().map(|arg| String::from_utf8_lossy(arg).into_owned());
                found.push(words.collect::<Vec<_>>().join(" "));
                continue;
            }
            if !parser.take_refused() {
                break;
            }
            found.push("refused".to_owned());
        }
        held = input.to_vec();
        assert!(held.len() <= 64, "{} bytes are kept of what is dropped", held.len());
    }
    Ok(found)
}

#[test]
fn a_string_above_its_limit_refuses_its_request_and_no_other() {
    let limits = Limits { bulk_bytes_max: 10, skip_bytes_max: 1000, ..Limits::default() };
    let mut bytes = Vec::new();
    command(&mut bytes, &[b"SET", b"a", &[b'x'; 10]]);
    command(&mut bytes, &[b"SET", b"b", &[b'\r'; 11], b"EX", &[b'\n'; 700], b"10"]);
    command(&mut bytes, &[b"PING"]);
    command(&mut bytes, &[&[b'x'; 1000]]);
    command(&mut bytes, &[b"PING", b"2"]);
    for step in [1, 2, 3, 7, 11, 500, bytes.len()] {
        let found = with_refusals(&bytes, step.min(50), &limits).unwrap();
        let wanted = ["SET a xxxxxxxxxx", "refused", "PING", "refused", "PING 2"];
        assert_eq!(found, wanted, "in pieces of {step}");
    }
}

#[test]
fn what_is_dropped_has_limits_and_an_end() {
    let limits = Limits { bulk_bytes_max: 10, skip_bytes_max: 20, ..Limits::default() };
    for bytes in [
        &b"*1\r\n$21\r\n"[..],
        b"*2\r\n$11\r\n01234567890\r\n$21\r\n",
        b"*1\r\n$11\r\n012345678901\r\n",
        b"*1\r\n$11\r\n01234567890\n\n",
        b"*1\r\n$11\r\n01234567890\rx",
    ] {
        for step in [1, 2, 50] {
            let end = with_refusals(bytes, step, &limits);
            assert_eq!(end, Err(ProtocolError::BulkLength), "{}", bytes.escape_ascii());
        }
    }
    let end = with_refusals(b"*2\r\n$11\r\n01234567890\r\nx", 1, &limits);
    assert_eq!(end, Err(ProtocolError::ExpectedBulk(b'x')));
}

#[test]
fn little_is_taken_before_authentication() {
    let limits = Limits::before_authentication();
    let end = |bytes: &str| parse_anyhow(bytes.as_bytes(), &limits).1;
    let message = |bytes: &str| end(bytes).unwrap_err().to_string();
    assert_eq!(message("*11\r\n"), "unauthenticated multibulk length");
    assert_eq!(message("a b c d e f g h i j k\r\n"), "unauthenticated multibulk length");
    assert_eq!(message("*1\r\n$16385\r\n"), "unauthenticated bulk length");
    assert_eq!(end("a b c d e f g h i j\r\n"), Ok(0));
    // Each string is short enough, both together are not.
    let mut bytes = b"*2\r\n$16000\r\n".to_vec();
    bytes.extend(vec![b'x'; 16_000]);
    bytes.extend_from_slice(b"\r\n$1000\r\n");
    let (_, end) = parse(&bytes, [bytes.len()], &limits);
    assert_eq!(end, Err(ProtocolError::RequestTooLong));
    let line = vec![b'x'; 16 << 10];
    assert_eq!(parse(&line, [line.len()], &limits).1, Err(ProtocolError::InlineTooLong));
}

#[test]
fn a_browser_gets_no_further_than_its_first_line() {
    let bytes = "POST / HTTP/1.1\r\nHost: localhost\r\n\r\nset a b\r\n";
    assert_eq!(
        parse_anyhow(bytes.as_bytes(), &Limits::default()),
        (vec![], Err(ProtocolError::Http))
    );
    assert_eq!(error("host: x\r\n"), ProtocolError::Http);
    assert_eq!(requests("get post\r\n"), [args(&["get", "post"])]);
}

#[test]
fn a_huge_count_takes_no_memory_before_its_strings_come() {
    let mut parser = RequestParser::new();
    let mut input = &b"*1048576\r\n$536870912\r\n"[..];
    assert!(parser.next(&mut input, &Limits::default()).unwrap().is_none());
    assert_eq!(parser.memory_bytes(), 0);
}

#[test]
fn memory_of_a_large_request_is_given_back() {
    let mut bytes = Vec::new();
    command(&mut bytes, &vec![&b"x"[..]; 100_000]);
    bytes.extend_from_slice(b"*1\r\n$4\r\nPING\r\n");
    let mut parser = RequestParser::new();
    let mut input = &bytes[..];
    let limits = Limits::default();
    assert_eq!(parser.next(&mut input, &limits).unwrap().unwrap().len(), 100_000);
    assert!(parser.memory_bytes() > 1_000_000);
    assert_eq!(parser.next(&mut input, &limits).unwrap().unwrap().arg(0), b"PING");
    assert!(parser.memory_bytes() < 1_000);
}

#[test]
fn memory_for_quoted_words_is_used_again() {
    let bytes = b"set 'key' \"value of some bytes\"\r\n".repeat(1_000);
    let mut parser = RequestParser::new();
    let mut input = &bytes[..];
    while let Some(request) = parser.next(&mut input, &Limits::default()).unwrap() {
        assert_eq!((request.arg(1), request.borrowed(1)), (&b"key"[..], None));
    }
    assert!(input.is_empty() && parser.memory_bytes() < 500, "{}", parser.memory_bytes());
}

#[test]
fn arguments_can_outlive_their_request() {
    let bytes = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\nget b\r\nget 'c'\r\n";
    let mut parser = RequestParser::new();
    let mut input = &bytes[..];
    let mut keys = Vec::new();
    while let Some(request) = parser.next(&mut input, &Limits::default()).unwrap() {
        assert_eq!((request.len(), request.get(2), request.borrowed(2)), (2, None, None));
        keys.push(request.borrowed(1));
    }
    assert_eq!(keys, [Some(&b"a"[..]), Some(b"b"), None]);
}

#[test]
fn a_client_writes_what_a_server_reads() {
    let mut bytes = Vec::new();
    command(&mut bytes, &[b"GET", b"key"]);
    assert_eq!(bytes, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
    bytes.clear();
    let long = [b'x'; 1_000];
    let mut writer = CommandWriter::new(&mut bytes, 11);
    writer.arg(b"a").number(0).number(u64::MAX).arg(&long);
    assert_eq!(writer.missing(), 7);
    for _ in 0..7 {
        writer.arg(b"");
    }
    assert_eq!(writer.missing(), 0);
    let (requests, end) = parse(&bytes, [bytes.len()], &Limits::default());
    assert_eq!((requests.len(), end), (1, Ok(0)));
    assert_eq!(requests[0][2], b"18446744073709551615");
    assert_eq!((requests[0].len(), &requests[0][3][..]), (11, &long[..]));
}
