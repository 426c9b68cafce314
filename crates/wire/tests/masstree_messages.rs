//! Masstree's messages: the bytes of each, both ways, and what is refused.

use keyrack_wire::masstree::{
    Command, DATAGRAM_BYTES_MAX, Error, Limits, Reply, ReplyParser, ReplyWriter, Request,
    RequestParser, ScanValue, datagram, datagram_reply_bytes_max,
};
use keyrack_wire::msgpack::{FormatError, Int, put_array, put_int, put_map, put_nil, put_str};

/// A message in words, so that it can be compared whatever it borrows from.
type Said = String;

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

pub(crate) fn say_request(request: &Request<'_>) -> Said {
    match request {
        Request::Handshake { seq, handshake } => {
            format!("{seq} hello {:?} {:?}", handshake.core, handshake.agree(usize::MAX))
        }
        Request::Get { seq, key, columns } => {
            assert_eq!(columns.len(), columns.count());
            format!("{seq} get {} {:?}", text(key), columns.collect::<Vec<_>>())
        }
        Request::Put { seq, key, changes } => {
            assert_eq!(changes.len(), changes.count());
            let changes: Vec<String> =
                changes.map(|(column, value)| format!("{column}={}", text(value))).collect();
            format!("{seq} put {} {changes:?}", text(key))
        }
        Request::Replace { seq, key, value } => {
            format!("{seq} replace {} {}", text(key), text(value))
        }
        Request::Remove { seq, key } => format!("{seq} remove {}", text(key)),
        Request::Scan { seq, first, count, columns } => {
            format!("{seq} scan {} {count} {:?}", text(first), columns.collect::<Vec<_>>())
        }
        Request::Checkpoint { seq } => format!("{seq} checkpoint"),
        other => format!("{} unknown", other.seq()),
    }
}

fn say_value(value: Option<&[u8]>) -> String {
    value.map_or("nil".to_owned(), text)
}

pub(crate) fn say_reply(reply: &Reply<'_>) -> Said {
    match reply {
        Reply::Handshake { seq, thread, row_type } => {
            format!("{seq} hello {thread} {}", text(row_type))
        }
        Reply::Refused { seq, why } => format!("{seq} refused {}", text(why)),
        Reply::Row { seq, values } => {
            assert_eq!(values.len(), values.count());
            format!("{seq} row {:?}", values.map(say_value).collect::<Vec<_>>())
        }
        Reply::Stored { seq, inserted } => format!("{seq} stored {inserted}"),
        Reply::Removed { seq, removed } => format!("{seq} removed {removed}"),
        Reply::Scanned { seq, pairs } => {
            assert_eq!(pairs.len(), pairs.count());
            let pair = |(key, value): (&[u8], ScanValue<'_>)| match value {
                ScanValue::One(value) => format!("{}={}", text(key), say_value(value)),
                ScanValue::Row(values) => {
                    format!("{}={:?}", text(key), values.map(say_value).collect::<Vec<_>>())
                }
            };
            format!("{seq} scanned {:?}", pairs.map(pair).collect::<Vec<_>>())
        }
        Reply::Checkpoint { seq } => format!("{seq} checkpoint"),
        other => format!("{} unknown", other.seq()),
    }
}

/// What is said in `bytes`, which come in reads that end at `cuts`; how many bytes are left, or why
/// there is no way to go on.
fn parse(
    bytes: &[u8],
    cuts: impl IntoIterator<Item = usize>,
    mut next: impl FnMut(&mut &[u8]) -> Result<Option<Said>, Error>,
) -> (Vec<Said>, Result<usize, Error>) {
    let (mut said, mut start, mut left) = (Vec::new(), 0, 0);
    for end in cuts {
        let mut input = &bytes[start..end];
        loop {
            match next(&mut input) {
                Ok(Some(message)) => said.push(message),
                Ok(None) => break,
                Err(error) => return (said, Err(error)),
            }
        }
        start = end - input.len();
        left = input.len();
    }
    (said, Ok(left))
}

pub(crate) fn requests(
    bytes: &[u8],
    cuts: impl IntoIterator<Item = usize>,
    limits: &Limits,
) -> (Vec<Said>, Result<usize, Error>) {
    let mut parser = RequestParser::new();
    parse(bytes, cuts, |input| {
        let request = parser.next(input, limits)?;
        assert!(parser.wanted_bytes() as u64 <= limits.message_bytes_max);
        Ok(request.map(|request| say_request(&request)))
    })
}

pub(crate) fn replies(
    bytes: &[u8],
    cuts: impl IntoIterator<Item = usize>,
    limits: &Limits,
) -> (Vec<Said>, Result<usize, Error>) {
    let mut parser = ReplyParser::new();
    parse(bytes, cuts, |input| Ok(parser.next(input, limits)?.map(|reply| say_reply(&reply))))
}

/// Reads one message whole, cut at each place, and byte by byte.
fn one(
    bytes: &[u8],
    parse: impl Fn(&[u8], Vec<usize>) -> (Vec<Said>, Result<usize, Error>),
) -> Result<Said, Error> {
    let whole = parse(bytes, vec![bytes.len()]);
    for cut in 0..bytes.len() {
        assert_eq!(parse(bytes, vec![cut, bytes.len()]), whole, "cut at {cut}");
    }
    assert_eq!(parse(bytes, (1..=bytes.len()).collect()), whole);
    let (mut said, end) = whole;
    assert_eq!((said.len(), end?), (1, 0));
    Ok(said.remove(0))
}

fn request(bytes: &[u8]) -> Result<Said, Error> {
    one(bytes, |bytes, cuts| requests(bytes, cuts, &Limits::default()))
}

fn reply(bytes: &[u8]) -> Result<Said, Error> {
    one(bytes, |bytes, cuts| replies(bytes, cuts, &Limits::default()))
}

fn seq(number: u64) -> Int {
    Int::from(number)
}

#[test]
fn each_request_has_its_bytes() {
    let table: [(Command<'_>, &[u8], &str); 11] = [
        (
            Command::Handshake { core: None, max_key_bytes: 255 },
            b"\x93\x07\x0e\x82\xa4core\xff\xa9maxkeylen\xcc\xff",
            "7 hello None Some(255)",
        ),
        (
            Command::Handshake { core: Some(3), max_key_bytes: 16 },
            b"\x93\x07\x0e\x82\xa4core\x03\xa9maxkeylen\x10",
            "7 hello Some(3) Some(16)",
        ),
        (Command::Get { key: b"key", columns: &[] }, b"\x93\x07\x02\xa3key", "7 get key []"),
        (
            Command::Get { key: b"", columns: &[2, 0, 200] },
            b"\x96\x07\x02\xa0\x02\x00\xcc\xc8",
            "7 get  [2, 0, 200]",
        ),
        (
            Command::Put { key: b"k", changes: &[(0, b"a"), (3, b"")] },
            b"\x97\x07\x06\xa1k\x00\xa1a\x03\xa0",
            "7 put k [\"0=a\", \"3=\"]",
        ),
        (
            Command::Replace { key: b"k", value: b"value" },
            b"\x94\x07\x08\xa1k\xa5value",
            "7 replace k value",
        ),
        (Command::Remove { key: b"k" }, b"\x93\x07\x0a\xa1k", "7 remove k"),
        (
            Command::Scan { first: b"k", count: 100, columns: &[] },
            b"\x94\x07\x04\xa1k\x64",
            "7 scan k 100 []",
        ),
        (
            Command::Scan { first: b"", count: 0, columns: &[1] },
            b"\x95\x07\x04\xa0\x00\x01",
            "7 scan  0 [1]",
        ),
        (Command::Checkpoint, b"\x92\x07\x0c", "7 checkpoint"),
        (
            Command::Scan { first: b"", count: u64::MAX, columns: &[] },
            b"\x94\x07\x04\xa0\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
            "7 scan  18446744073709551615 []",
        ),
    ];
    for (command, bytes, said) in table {
        let mut out = Vec::new();
        command.write(&mut out, seq(7));
        assert_eq!(text(&out), text(bytes));
        assert_eq!(request(bytes).unwrap(), said);
    }
}

#[test]
fn each_reply_has_its_bytes() {
    let wide = Int::from(u64::MAX);
    type Write<'a> = &'a dyn Fn(&mut ReplyWriter<'_>);
    let table: [(Write<'_>, &[u8], &str); 14] = [
        (&|w| w.handshake(seq(1), 2), b"\x95\x01\x0f\xc3\x02\xa3Bag", "1 hello 2 Bag"),
        (
            &|w| w.refuse_handshake(seq(1)),
            b"\x94\x01\x0f\xc2\xadbad maxkeylen",
            "1 refused bad maxkeylen",
        ),
        (&|w| w.miss(seq(1)), b"\x92\x01\x03", "1 row []"),
        (
            &|w| {
                w.row(seq(1), 3);
                w.value(Some(b"a"));
                w.value(None);
                w.value(Some(b""));
            },
            b"\x95\x01\x03\xa1a\xc0\xa0",
            "1 row [\"a\", \"nil\", \"\"]",
        ),
        (&|w| w.put(seq(1), true), b"\x93\x01\x07\x01", "1 stored true"),
        (&|w| w.put(seq(1), false), b"\x93\x01\x07\x02", "1 stored false"),
        (&|w| w.replace(seq(1), true), b"\x93\x01\x09\x01", "1 stored true"),
        (&|w| w.replace(Int::from(-1_i64), false), b"\x93\xff\x09\x02", "-1 stored false"),
        (&|w| w.remove(seq(1), true), b"\x93\x01\x0b\xc3", "1 removed true"),
        (&|w| w.remove(seq(1), false), b"\x93\x01\x0b\xc2", "1 removed false"),
        (&|w| w.checkpoint(seq(1)), b"\x92\x01\x0d", "1 checkpoint"),
        (&|w| w.unknown(seq(1)), b"\x92\x01\xff", "1 unknown"),
        (
            &|w| w.unknown(wide),
            b"\x92\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            "18446744073709551615 unknown",
        ),
        (
            &|w| assert_eq!(w.scan(seq(1)).rows(), 0),
            b"\xdd\x00\x00\x00\x02\x01\x05",
            "1 scanned []",
        ),
    ];
    for (write, bytes, said) in table {
        let mut out = Vec::new();
        write(&mut ReplyWriter::new(&mut out));
        assert_eq!(text(&out), text(bytes));
        assert_eq!(reply(bytes).unwrap(), said);
    }
}

#[test]
fn a_scan_gives_strings_or_rows() {
    let mut out = b"before".to_vec();
    let mut writer = ReplyWriter::new(&mut out);
    let mut rows = writer.scan(seq(300));
    rows.one(b"a", Some(b"1"));
    rows.one(b"b", None);
    rows.row(b"c", 2);
    rows.value(Some(b"2"));
    rows.value(None);
    assert_eq!(rows.rows(), 3);
    let bytes = rows.bytes();
    let expected = b"\xdd\x00\x00\x00\x08\xcd\x01\x2c\x05\xa1a\xa11\xa1b\xc0\xa1c\x92\xa12\xc0";
    assert_eq!((text(&out[6..]), bytes), (text(expected), expected.len()));
    let said = "300 scanned [\"a=1\", \"b=nil\", \"c=[\\\"2\\\", \\\"nil\\\"]\"]";
    assert_eq!(reply(expected).unwrap(), said);
}

#[test]
fn strings_and_numbers_are_read_in_all_forms() {
    assert_eq!(request(b"\xdc\x00\x03\xcd\x00\x07\xd0\x02\xc4\x01k").unwrap(), "7 get k []");
    assert_eq!(request(b"\xdd\x00\x00\x00\x03\xff\x02\xc5\x00\x01k").unwrap(), "-1 get k []");
    assert_eq!(request(b"\x93\x07\x02\xdb\x00\x00\x00\x01k").unwrap(), "7 get k []");
    // The original answers a miss with the key: nothing tells that from a row of one column.
    assert_eq!(reply(b"\x93\x07\x03\xa3key").unwrap(), "7 row [\"key\"]");
}

#[test]
fn a_request_without_sense_is_unknown_and_echoes_its_number() {
    let table: [&[u8]; 24] = [
        b"\x91\x07",                              // no operation
        b"\x92\x07\x03",                          // a reply's number
        b"\x92\x07\x63",                          // no operation's number
        b"\x92\x07\xa3get",                       // not a number
        b"\x92\x07\x02",                          // no key
        b"\x93\x07\x02\x05",                      // a key that is no string
        b"\x94\x07\x02\xa1k\xff",                 // column -1
        b"\x94\x07\x02\xa1k\x91\x00",             // columns nested
        b"\x94\x07\x02\xa1k\xcd\x04\x00",         // column 1,024
        b"\x93\x07\x06\xa1k",                     // nothing to put
        b"\x94\x07\x06\xa1k\x00",                 // a column without a value
        b"\x95\x07\x06\xa1k\x00\xc0",             // a value that is nil
        b"\x97\x07\x06\xa1k\x01\xa0\x00\xa0",     // columns descend
        b"\x97\x07\x06\xa1k\x01\xa0\x01\xa0",     // a column twice
        b"\x93\x07\x08\xa1k",                     // nothing to replace by
        b"\x95\x07\x08\xa1k\xa0\xa0",             // too much
        b"\x92\x07\x0a",                          // nothing to remove
        b"\x94\x07\x0a\xa1k\xa1k",                // two keys
        b"\x93\x07\x04\xa1k",                     // a scan without a count
        b"\x94\x07\x04\xa1k\xff",                 // a count of -1
        b"\x93\x07\x0c\x00",                      // a checkpoint of something
        b"\x92\x07\x0e",                          // a handshake of nothing
        b"\x93\x07\x0e\x90",                      // options that are no map
        b"\x94\x07\x06\xa1k\xcb\0\0\0\0\0\0\0\0", // floating point
    ];
    for bytes in table {
        assert_eq!(request(bytes).unwrap(), "7 unknown", "{}", text(bytes));
    }
    let mut out = Vec::new();
    Command::Get { key: &[b'k'; 256], columns: &[] }.write(&mut out, seq(7));
    assert_eq!(request(&out).unwrap(), "7 unknown");
    out.clear();
    Command::Get { key: &[b'k'; 255], columns: &[] }.write(&mut out, seq(7));
    assert!(request(&out).unwrap().starts_with("7 get kkk"));
}

#[test]
fn a_value_beyond_the_limit_is_refused_before_it_comes() {
    let limits = Limits { key_bytes_max: 300, value_bytes_max: 100, ..Limits::default() };
    let mut out = Vec::new();
    Command::Replace { key: b"k", value: &[b'v'; 101] }.write(&mut out, seq(7));
    assert_eq!(requests(&out, [out.len()], &limits), (vec!["7 unknown".to_owned()], Ok(0)));
    out.clear();
    Command::Put { key: b"k", changes: &[(0, &[b'v'; 101])] }.write(&mut out, seq(7));
    assert_eq!(requests(&out, [out.len()], &limits), (vec!["7 unknown".to_owned()], Ok(0)));
    let announced = b"\x94\x07\x08\xa1k\xdb\xff\xff\xff\xff";
    let refused = Err(Error::Format(FormatError::Bytes));
    assert_eq!(requests(announced, [announced.len()], &limits).1, refused);
    assert_eq!(requests(announced, [announced.len()], &Limits::default()).1, refused);
}

#[test]
fn bytes_that_are_no_request_are_an_error() {
    let format = |error| Err(Error::Format(error));
    let table: [(&[u8], Result<Said, Error>); 12] = [
        (b"GET / HTTP/1.1\r\n", Err(Error::NoArray(b'G'))),
        (b"\x80", Err(Error::NoArray(0x80))),
        (b"\x90", Err(Error::NoSequence)),
        (b"\x92\xc0\x02", Err(Error::NoSequence)),
        (b"\x92\xa1a\x02", Err(Error::NoSequence)),
        (b"\x92\x07\xc1", format(FormatError::Unused)),
        (b"\xdc\x10\x00", format(FormatError::Elements)),
        (b"\xdd\xff\xff\xff\xff", format(FormatError::Elements)),
        (b"\x92\x07\xdf\xff\xff\xff\xff", format(FormatError::Elements)),
        (b"\x92\x07\xc9\xff\xff\xff\xff", format(FormatError::Bytes)),
        (b"\x92\x07\xc6\x01\x00\x00\x00", format(FormatError::Bytes)),
        (b"\x91\x91\x91\x91\x91\x91\x91\x91\x91", format(FormatError::Depth)),
    ];
    for (bytes, expected) in table {
        assert_eq!(request(bytes), expected, "{}", text(bytes));
    }
    let deep = vec![0x91; 1_000_000];
    let (_, end) = requests(&deep, [deep.len()], &Limits::default());
    assert_eq!(end, Err(Error::Format(FormatError::Depth)));
    // Eight levels are passed over, and make no sense.
    assert_eq!(request(b"\x92\x07\x91\x91\x91\x91\x91\x91\x90").unwrap(), "7 unknown");
}

#[test]
fn a_message_of_many_short_strings_has_a_limit() {
    let limits = Limits { message_bytes_max: 100, ..Limits::default() };
    let mut out = Vec::new();
    let values = vec![(0, &b"0123456789"[..]); 12];
    Command::Put { key: b"k", changes: &values }.write(&mut out, seq(7));
    let refused = Err(Error::Format(FormatError::Bytes));
    assert_eq!(requests(&out, [out.len()], &limits).1, refused);
    assert_eq!(requests(&out, 1..=out.len(), &limits).1, refused);
}

/// A message that comes whole is read another way than one that is cut.
#[test]
fn limits_are_those_of_one_message_however_it_comes() {
    let mut asked = Vec::new();
    Command::Get { key: b"key", columns: &[0, 1] }.write(&mut asked, seq(7));
    let mut answered = Vec::new();
    let mut writer = ReplyWriter::new(&mut answered);
    writer.row(seq(7), 1);
    writer.value(Some(b"value"));
    let limits = Limits { key_bytes_max: 9, value_bytes_max: 9, ..Limits::default() };
    let parsed = |bytes: &[u8], limits: &Limits| {
        let bytes = bytes.repeat(20);
        let whole =
            (requests(&bytes, [bytes.len()], limits), replies(&bytes, [bytes.len()], limits));
        let each = 1..=bytes.len();
        assert_eq!(requests(&bytes, each.clone(), limits), whole.0, "{limits:?}");
        assert_eq!(replies(&bytes, each, limits), whole.1, "{limits:?}");
        [whole.0.0.len(), whole.1.0.len()]
    };
    // An answer is a request without sense.
    for (bytes, elements, expected) in [(&asked, 6, [20, 0]), (&answered, 4, [20, 20])] {
        for less in 0..2 {
            let expected = if less == 0 { expected } else { [0, 0] };
            let elements_max = elements - less;
            assert_eq!(parsed(bytes, &Limits { elements_max, ..limits }), expected);
            let message_bytes_max = bytes.len() as u64 - less;
            assert_eq!(parsed(bytes, &Limits { message_bytes_max, ..limits }), expected);
        }
    }
    let short = Limits { key_bytes_max: 4, value_bytes_max: 4, ..limits };
    assert_eq!(parsed(&answered, &short), [0, 0]);
}

#[test]
fn replies_of_no_known_shape_are_errors() {
    let table: [&[u8]; 12] = [
        b"\x92\x07\x02",
        b"\x93\x07\x03\x05",
        b"\x93\x07\x05\xa1k",
        b"\x94\x07\x05\xa1k\x05",
        b"\x94\x07\x05\xa1k\x91\x05",
        b"\x93\x07\x07\x03",
        b"\x93\x07\x0b\x01",
        b"\x93\x07\x0d\x01",
        b"\x93\x07\x0f\xc3",
        b"\x94\x07\x0f\xc3\xa0",
        b"\x95\x07\x0f\xc2\xa0\xa0",
        b"\x93\x07\xff\x01",
    ];
    for bytes in table {
        assert_eq!(reply(bytes), Err(Error::Reply), "{}", text(bytes));
    }
}

#[test]
fn a_handshake_is_agreed_on_or_refused() {
    let agreed = |bytes: &[u8]| {
        let mut input = bytes;
        let limits = Limits::before_handshake();
        match RequestParser::new().next(&mut input, &limits).unwrap().unwrap() {
            Request::Handshake { handshake, .. } => (handshake.core, handshake.agree(255)),
            other => panic!("{other:?}"),
        }
    };
    let write = |options: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        put_array(&mut out, 3);
        put_int(&mut out, 0_u64);
        put_int(&mut out, 14_u64);
        options(&mut out);
        agreed(&out)
    };
    assert_eq!(write(&|out| put_map(out, 0)), (None, Some(255)));
    for (length, expected) in
        [(1, Some(1)), (255, Some(255)), (256, None), (0, None), (-1, None), (i64::MAX, None)]
    {
        let answer = write(&|out| {
            put_map(out, 2);
            put_str(out, b"maxkeylen");
            put_int(out, length);
            put_str(out, b"core");
            put_int(out, -1_i64);
        });
        assert_eq!(answer, (None, expected), "{length}");
    }
    let answer = write(&|out| {
        put_map(out, 3);
        put_nil(out);
        put_array(out, 1);
        put_map(out, 0);
        put_str(out, b"core");
        put_int(out, 1_u64 << 40);
        put_str(out, b"maxkeylen");
        put_str(out, b"255");
    });
    assert_eq!(answer, (None, None));
    // Whatever is longer than a handshake is none.
    let mut out = Vec::new();
    Command::Replace { key: b"k", value: &[0; 2_000] }.write(&mut out, seq(7));
    let mut input = &out[..];
    assert!(RequestParser::new().next(&mut input, &Limits::before_handshake()).is_err());
}

#[test]
fn a_datagram_is_one_request() {
    let limits = Limits::default();
    let bytes = b"\x93\x07\x02\xa3key";
    assert_eq!(say_request(&datagram(bytes, &limits).unwrap()), "7 get key []");
    let padded = [&bytes[..], &[0xc0; 100]].concat();
    assert_eq!(say_request(&datagram(&padded, &limits).unwrap()), "7 get key []");
    for cut in 0..bytes.len() {
        assert_eq!(datagram(&bytes[..cut], &limits).unwrap_err(), Error::Datagram);
    }
    let two = [&bytes[..], bytes].concat();
    assert_eq!(datagram(&two, &limits).unwrap_err(), Error::Datagram);
    let long = [&bytes[..], &[0xc0; DATAGRAM_BYTES_MAX]].concat();
    assert_eq!(datagram(&long, &limits).unwrap_err(), Error::Datagram);
}

#[test]
fn an_answer_to_a_datagram_never_amplifies() {
    for request_bytes in 0..10_000 {
        let max = datagram_reply_bytes_max(request_bytes);
        assert!(max <= DATAGRAM_BYTES_MAX && max <= request_bytes.max(64));
    }
    let mut out = Vec::new();
    ReplyWriter::new(&mut out).unknown(Int::from(i64::MIN));
    assert!(out.len() <= datagram_reply_bytes_max(0));
}
