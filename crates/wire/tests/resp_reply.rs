//! Replies of Redis' protocol, both ways: tokens from bytes, and bytes from calls.

use keyrack_wire::resp::{
    DEPTH_MAX, Limits, Protocol, ProtocolError, ReplyParser, Stream, Token, Writer, reply_bytes,
};

/// The tokens of the replies in `bytes`, which come in reads that end at `cuts`; how many bytes are
/// left, or why there is no way to go on.
pub(crate) fn parse<'a>(
    bytes: &'a [u8],
    cuts: impl IntoIterator<Item = usize>,
    limits: &Limits,
) -> (Vec<Vec<Token<'a>>>, Result<usize, ProtocolError>) {
    let mut parser = ReplyParser::new();
    let (mut replies, mut start, mut left) = (Vec::new(), 0, 0);
    for end in cuts {
        let mut input = &bytes[start..end];
        loop {
            let before = input;
            match parser.next(&mut input, limits) {
                Ok(Some(reply)) => {
                    assert_eq!(reply.bytes(), &before[..before.len() - input.len()]);
                    replies.push(reply.tokens().collect());
                }
                Ok(None) => break,
                Err(error) => return (replies, Err(error)),
            }
        }
        assert!(parser.wanted_bytes() as u64 <= limits.message_bytes_max);
        start = end - input.len();
        left = input.len();
    }
    (replies, Ok(left))
}

/// Parses one reply whole, cut at each place in two, and byte by byte: all the same.
fn tokens(bytes: &str) -> Result<Vec<Token<'_>>, ProtocolError> {
    let (bytes, limits) = (bytes.as_bytes(), Limits::default());
    let (mut replies, end) = parse(bytes, [bytes.len()], &limits);
    for cut in 0..bytes.len() {
        let (cut_replies, cut_end) = parse(bytes, [cut, bytes.len()], &limits);
        assert_eq!((&cut_replies, cut_end), (&replies, end), "cut at {cut}");
        if end == Ok(0) {
            assert_eq!(reply_bytes(&bytes[..cut], &limits), Ok(None), "cut at {cut}");
        }
    }
    assert_eq!(parse(bytes, 1..=bytes.len(), &limits), (replies.clone(), end), "byte by byte");
    assert_eq!((replies.len(), end?), (1, 0));
    assert_eq!(reply_bytes(bytes, &limits), Ok(Some(bytes.len())));
    Ok(replies.remove(0))
}

fn error(bytes: &str) -> String {
    tokens(bytes).unwrap_err().to_string()
}

#[test]
fn each_type_has_its_token() {
    let table: [(&str, Token<'_>); 30] = [
        ("+OK\r\n", Token::Simple(b"OK")),
        ("+\r\n", Token::Simple(b"")),
        ("-ERR no\r\n", Token::Error(b"ERR no")),
        (":0\r\n", Token::Integer(0)),
        (":-9223372036854775808\r\n", Token::Integer(i64::MIN)),
        (":+7\r\n", Token::Integer(7)),
        ("$0\r\n\r\n", Token::Bulk(b"")),
        ("$4\r\na\r\nb\r\n", Token::Bulk(b"a\r\nb")),
        ("$-1\r\n", Token::Null),
        ("*-1\r\n", Token::Null),
        ("_\r\n", Token::Null),
        ("*0\r\n", Token::Array(0)),
        ("%0\r\n", Token::Map(0)),
        ("~0\r\n", Token::Set(0)),
        (">0\r\n", Token::Push(0)),
        ("#t\r\n", Token::Boolean(true)),
        ("#f\r\n", Token::Boolean(false)),
        (",1.5\r\n", Token::Double(1.5)),
        (",-10\r\n", Token::Double(-10.0)),
        (",1.5E-7\r\n", Token::Double(1.5e-7)),
        (",1e+300\r\n", Token::Double(1e300)),
        (",inf\r\n", Token::Double(f64::INFINITY)),
        (",-inf\r\n", Token::Double(f64::NEG_INFINITY)),
        (
            "(123456789012345678901234567890\r\n",
            Token::BigNumber(b"123456789012345678901234567890"),
        ),
        ("(-1\r\n", Token::BigNumber(b"-1")),
        ("!5\r\nERR x\r\n", Token::Error(b"ERR x")),
        ("=8\r\ntxt:text\r\n", Token::Verbatim { format: *b"txt", text: b"text" }),
        ("=4\r\nmkd:\r\n", Token::Verbatim { format: *b"mkd", text: b"" }),
        ("$1\r\n\n\r\n", Token::Bulk(b"\n")),
        ("!0\r\n\r\n", Token::Error(b"")),
    ];
    for (bytes, token) in table {
        assert_eq!(tokens(bytes).unwrap(), [token], "{}", bytes.escape_debug());
    }
    let (replies, _) = parse(b",nan\r\n", [6], &Limits::default());
    assert!(matches!(replies[0][..], [Token::Double(number)] if number.is_nan()));
}

#[test]
fn aggregates_hold_their_elements() {
    let bytes = "*3\r\n:1\r\n%1\r\n+a\r\n~2\r\n_\r\n*0\r\n$1\r\nz\r\n";
    let expected = [
        Token::Array(3),
        Token::Integer(1),
        Token::Map(1),
        Token::Simple(b"a"),
        Token::Set(2),
        Token::Null,
        Token::Array(0),
        Token::Bulk(b"z"),
    ];
    assert_eq!(tokens(bytes).unwrap(), expected);
}

#[test]
fn streams_end_where_they_say() {
    let string = "$?\r\n;4\r\nHell\r\n;1\r\no\r\n;0\r\n";
    let expected =
        [Token::Stream(Stream::String), Token::Chunk(b"Hell"), Token::Chunk(b"o"), Token::End];
    assert_eq!(tokens(string).unwrap(), expected);
    let nested = "*?\r\n:1\r\n%?\r\n+k\r\n~?\r\n.\r\n.\r\n.\r\n";
    let expected = [
        Token::Stream(Stream::Array),
        Token::Integer(1),
        Token::Stream(Stream::Map),
        Token::Simple(b"k"),
        Token::Stream(Stream::Set),
        Token::End,
        Token::End,
        Token::End,
    ];
    assert_eq!(tokens(nested).unwrap(), expected);
    assert_eq!(error("%?\r\n+k\r\n.\r\n"), "misplaced end of a map in reply");
    assert_eq!(error(".\r\n"), "misplaced end of a stream in reply");
    assert_eq!(error("*1\r\n.\r\n"), "misplaced end of a stream in reply");
    assert_eq!(error(";1\r\na\r\n"), "misplaced chunk of a string in reply");
    assert_eq!(error("$?\r\n+a\r\n"), "misplaced element of a string in reply");
}

#[test]
fn attributes_are_about_what_follows_them() {
    let bytes = "|1\r\n+ttl\r\n:10\r\n*2\r\n|1\r\n+a\r\n|0\r\n*1\r\n:1\r\n:5\r\n:6\r\n";
    let expected = [
        Token::Attribute(1),
        Token::Simple(b"ttl"),
        Token::Integer(10),
        Token::Array(2),
        Token::Attribute(1),
        Token::Simple(b"a"),
        Token::Attribute(0),
        Token::Array(1),
        Token::Integer(1),
        Token::Integer(5),
        Token::Integer(6),
    ];
    assert_eq!(tokens(bytes).unwrap(), expected);
    let mut input = bytes.as_bytes();
    let reply = ReplyParser::new().next(&mut input, &Limits::default()).unwrap().unwrap();
    assert_eq!(reply.head(), Token::Array(2));
    assert!(!reply.is_push());
    let mut rest = reply.tokens();
    rest.skip_value();
    assert_eq!(rest.next(), None);
    assert_eq!(error("*?\r\n|1\r\n+a\r\n+b\r\n.\r\n"), "misplaced attribute in reply");
}

#[test]
fn values_can_be_passed_over() {
    let mut input = &b"*3\r\n*2\r\n:1\r\n*?\r\n:2\r\n.\r\n$1\r\nx\r\n:3\r\n"[..];
    let reply = ReplyParser::new().next(&mut input, &Limits::default()).unwrap().unwrap();
    let mut tokens = reply.tokens();
    assert_eq!(tokens.next(), Some(Token::Array(3)));
    tokens.skip_value();
    assert_eq!(tokens.next(), Some(Token::Bulk(b"x")));
    tokens.skip_value();
    assert_eq!(tokens.next(), None);
}

#[test]
fn messages_out_of_turn_are_told_apart() {
    let mut input = &b">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n+OK\r\n"[..];
    let (mut parser, limits) = (ReplyParser::new(), Limits::default());
    assert!(parser.next(&mut input, &limits).unwrap().unwrap().is_push());
    assert!(!parser.next(&mut input, &limits).unwrap().unwrap().is_push());
    assert!(parser.next(&mut input, &limits).unwrap().is_none());
    assert_eq!(error("*1\r\n>1\r\n+a\r\n"), "misplaced push in reply");
}

#[test]
fn what_is_no_reply_is_an_error() {
    let table = [
        ("HTTP/1.1 200 OK\r\n", "unknown type of reply 'H'"),
        ("\r\n", "unknown type of reply '\\r'"),
        (":\r\n", "malformed integer in reply"),
        (":1.0\r\n", "malformed integer in reply"),
        (":9223372036854775808\r\n", "malformed integer in reply"),
        ("#T\r\n", "malformed boolean in reply"),
        ("_x\r\n", "malformed null in reply"),
        (",\r\n", "malformed double in reply"),
        (",infinity\r\n", "malformed double in reply"),
        (",1e\r\n", "malformed double in reply"),
        ("(1x\r\n", "malformed big number in reply"),
        ("(\r\n", "malformed big number in reply"),
        ("=3\r\ntxt\r\n", "malformed verbatim string in reply"),
        ("=5\r\nmarkd\r\n", "malformed verbatim string in reply"),
        ("+a\rb\r\n", "malformed end of a line in reply"),
        ("+a\nb\r\n", "malformed line in reply"),
        ("$-2\r\n", "invalid bulk length"),
        ("$01\r\n", "invalid bulk length"),
        ("$1\r\nabc", "invalid bulk length"),
        ("!-1\r\n", "invalid bulk length"),
        ("$18446744073709551615\r\n", "invalid bulk length"),
        ("$9223372036854775807\r\n", "reply exceeds the limit of a string"),
        ("*-2\r\n", "invalid multibulk length"),
        ("%-1\r\n", "invalid multibulk length"),
        (">?\r\n", "invalid multibulk length"),
        ("*4294967297\r\n", "reply exceeds the limit of elements"),
        ("%9223372036854775807\r\n", "reply exceeds the limit of elements"),
        ("%600000\r\n", "reply exceeds the limit of elements"),
        (".x\r\n", "malformed end of a stream in reply"),
    ];
    for (bytes, expected) in table {
        assert_eq!(error(bytes), expected, "{}", bytes.escape_debug());
    }
}

#[test]
fn levels_are_counted_without_recursion() {
    for open in ["*1\r\n", "%1\r\n+k\r\n", "~?\r\n", "|1\r\n+k\r\n"] {
        let mut bytes = open.repeat(DEPTH_MAX);
        assert!(matches!(parse(bytes.as_bytes(), [bytes.len()], &Limits::default()), (_, Ok(_))));
        bytes.push_str(open);
        assert_eq!(error(&bytes), "reply exceeds the limit of levels");
    }
    let bytes = "*1\r\n".repeat(1_000_000);
    let (_, end) = parse(bytes.as_bytes(), [bytes.len()], &Limits::default());
    assert_eq!(end, Err(ProtocolError::ReplyTooLarge("levels")));
    let bytes = "*1\r\n".repeat(DEPTH_MAX - 1) + "*0\r\n";
    assert_eq!(tokens(&bytes).unwrap().len(), DEPTH_MAX);
}

#[test]
fn endless_replies_come_to_an_end() {
    let limits = Limits {
        elements_max: 100,
        message_bytes_max: 1_000,
        line_bytes_max: 50,
        ..Limits::default()
    };
    let table = [
        ("*?\r\n".to_owned() + &":1\r\n".repeat(101), "elements"),
        ("$?\r\n".to_owned() + &";20\r\n01234567890123456789\r\n".repeat(40), "bytes"),
        ("+".to_owned() + &"x".repeat(50), "a line"),
        ("*2\r\n:1\r\n$990\r\n".to_owned(), "bytes"),
    ];
    for (bytes, what) in table {
        let expected = Err(ProtocolError::ReplyTooLarge(what));
        assert_eq!(parse(bytes.as_bytes(), [bytes.len()], &limits).1, expected, "{bytes}");
        assert_eq!(parse(bytes.as_bytes(), 1..=bytes.len(), &limits).1, expected, "{bytes}");
    }
}

#[test]
fn limits_are_those_of_one_reply() {
    let limits = Limits { elements_max: 3, message_bytes_max: 12, ..Limits::default() };
    let bytes = b"*2\r\n:1\r\n:2\r\n".repeat(100);
    let (replies, end) = parse(&bytes, [bytes.len()], &limits);
    assert_eq!((replies.len(), end), (100, Ok(0)));
    assert_eq!(parse(&bytes, 1..=bytes.len(), &limits).0.len(), 100);
    for fewer in [Limits { elements_max: 2, ..limits }, Limits { message_bytes_max: 11, ..limits }]
    {
        assert!(parse(&bytes, [bytes.len()], &fewer).1.is_err());
    }
}

/// What `write` appends in either version.
fn written(write: impl Fn(&mut Writer<'_>)) -> [String; 2] {
    [Protocol::Resp2, Protocol::Resp3].map(|protocol| {
        let mut out = b"before".to_vec();
        let mut writer = Writer::new(&mut out, protocol);
        assert_eq!((writer.protocol(), writer.place()), (protocol, 6));
        write(&mut writer);
        String::from_utf8(out).unwrap().split_off(6)
    })
}

#[test]
fn replies_are_written_as_the_peer_knows_them() {
    let both = |bytes: &str| [bytes.to_owned(), bytes.to_owned()];
    let each = |two: &str, three: &str| [two.to_owned(), three.to_owned()];
    assert_eq!(written(|w| w.ok()), both("+OK\r\n"));
    assert_eq!(written(|w| w.simple("QUEUED")), both("+QUEUED\r\n"));
    assert_eq!(written(|w| w.error("ERR no")), both("-ERR no\r\n"));
    assert_eq!(written(|w| w.bulk_error(b"ERR no")), each("-ERR no\r\n", "!6\r\nERR no\r\n"));
    assert_eq!(written(|w| w.integer(-12)), both(":-12\r\n"));
    assert_eq!(written(|w| w.integer(i64::MIN)), both(":-9223372036854775808\r\n"));
    assert_eq!(written(|w| w.bulk(b"")), both("$0\r\n\r\n"));
    assert_eq!(written(|w| w.bulk(b"0123456789")), both("$10\r\n0123456789\r\n"));
    assert_eq!(written(|w| w.bulk_integer(-10)), both("$3\r\n-10\r\n"));
    assert_eq!(written(|w| w.bulk_integer(1 << 40)), both("$13\r\n1099511627776\r\n"));
    assert_eq!(written(|w| w.null()), each("$-1\r\n", "_\r\n"));
    assert_eq!(written(|w| w.null_array()), each("*-1\r\n", "_\r\n"));
    assert_eq!(written(|w| w.array(12)), both("*12\r\n"));
    assert_eq!(written(|w| w.map(5)), each("*10\r\n", "%5\r\n"));
    assert_eq!(written(|w| w.set(2)), each("*2\r\n", "~2\r\n"));
    assert_eq!(written(|w| w.push(3)), each("*3\r\n", ">3\r\n"));
    assert_eq!(written(|w| w.double(3.25)), each("$4\r\n3.25\r\n", ",3.25\r\n"));
    assert_eq!(written(|w| w.double(-1e300)), each("$7\r\n-1e+300\r\n", ",-1e+300\r\n"));
    assert_eq!(written(|w| w.double(f64::INFINITY)), each("$3\r\ninf\r\n", ",inf\r\n"));
    assert_eq!(written(|w| w.boolean(true)), each(":1\r\n", "#t\r\n"));
    assert_eq!(written(|w| w.boolean(false)), each(":0\r\n", "#f\r\n"));
    assert_eq!(written(|w| w.big_number("-123")), each("$4\r\n-123\r\n", "(-123\r\n"));
    assert_eq!(
        written(|w| w.verbatim(*b"txt", b"a\nb")),
        each("$3\r\na\nb\r\n", "=7\r\ntxt:a\nb\r\n")
    );
    let attribute = |w: &mut Writer<'_>| {
        if w.attribute(1) {
            w.simple("ttl");
            w.integer(1);
        }
        w.ok();
    };
    assert_eq!(written(attribute), each("+OK\r\n", "|1\r\n+ttl\r\n:1\r\n+OK\r\n"));
}

/// An error that quotes its request once could end in the midst, and begin another reply.
#[test]
fn what_a_peer_sent_cannot_end_a_line() {
    let expected = "-ERR unknown command 'a  +OK   '\r\n";
    assert_eq!(written(|w| w.error("ERR unknown command 'a\r\n+OK\0\x7f\t'"))[0], expected);
    assert_eq!(written(|w| w.simple(b"a\nb"))[1], "+a b\r\n");
    let expected = "-ERR Protocol error: expected '$', got '\\n'\r\n";
    assert_eq!(written(|w| w.protocol_error(&ProtocolError::ExpectedBulk(b'\n')))[0], expected);
}

#[test]
fn a_head_can_be_put_in_front_and_a_reply_taken_back() {
    let [two, _] = written(|w| {
        w.ok();
        let place = w.place();
        (0..12).for_each(|number| w.integer(number));
        w.array_at(place, 12);
        let place = w.place();
        w.bulk(b"to be dropped");
        w.cut(place);
        let place = w.place();
        w.array_at(place, 0);
    });
    let numbers: String = (0..12).map(|number| format!(":{number}\r\n")).collect();
    assert_eq!(two, format!("+OK\r\n*12\r\n{numbers}*0\r\n"));
}
