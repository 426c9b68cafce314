//! Each meta command and each reply to one, byte for byte.

use super::LIMITS;
use keyrack_wire::memcached::meta::{
    Code, Facts, FlagWords, Key, Reply, ReplyLine, Request, SetMode, Verb, write_reply,
};
use keyrack_wire::memcached::text::{self, Direction, Fault, parse, parse_reply};
use keyrack_wire::memcached::{KEY_BYTES_MAX, Parsed};

fn meta(bytes: &[u8]) -> Request<'_> {
    match parse(bytes, &LIMITS) {
        Ok(Parsed::Complete(text::Request::Meta(request), all)) if all == bytes.len() => request,
        other => panic!("{other:?} of {}", bytes.escape_ascii()),
    }
}

fn fault(bytes: &str) -> Fault {
    match parse(bytes.as_bytes(), &LIMITS) {
        Err(refusal) => {
            assert_eq!((refusal.skip, refusal.close), (bytes.len() as u64, false), "{bytes:?}");
            refusal.fault
        }
        other => panic!("{other:?} of {bytes:?}"),
    }
}

#[test]
fn commands() {
    for (bytes, verb) in [
        ("mg key\r\n", Verb::Get),
        ("mg key v q Oabc T60\r\n", Verb::Get),
        ("ms key 2\r\nhi\r\n", Verb::Set(SetMode::Set)),
        ("ms key 2 MS\r\nhi\r\n", Verb::Set(SetMode::Set)),
        ("ms key 0 ME T0\r\n\r\n", Verb::Set(SetMode::Add)),
        ("ms key 2 MR\r\n\r\n\r\n", Verb::Set(SetMode::Replace)),
        ("ms key 2 MA N9\r\nhi\r\n", Verb::Set(SetMode::Append)),
        ("ms key 2 MP\r\nhi\r\n", Verb::Set(SetMode::Prepend)),
        ("md key q I T30 x\r\n", Verb::Delete),
        ("ma key\r\n", Verb::Arithmetic(Direction::Up)),
        ("ma key MI\r\n", Verb::Arithmetic(Direction::Up)),
        ("ma key M+ D7\r\n", Verb::Arithmetic(Direction::Up)),
        ("ma key MD\r\n", Verb::Arithmetic(Direction::Down)),
        ("ma key M- N0 J13 v\r\n", Verb::Arithmetic(Direction::Down)),
        ("me key\r\n", Verb::Debug),
        ("me a2V5 b\r\n", Verb::Debug),
    ] {
        let request = meta(bytes.as_bytes());
        assert_eq!(request.verb, verb, "{bytes:?}");
        assert_eq!(request.key.bytes(&mut [0; KEY_BYTES_MAX]), b"key");
        let mut out = Vec::new();
        request.write(&mut out);
        assert_eq!(out, bytes.as_bytes());
    }
    assert_eq!(meta(b"mn\r\n"), Request::NOOP);
    assert_eq!(meta(b"mn and more\n"), Request::NOOP);
}

#[test]
fn the_flags_of_a_command() {
    let request = meta(b"mg key s v  Oxy  N30 R-1 C5 E6 \r\n");
    let flags = request.flags;
    assert!(flags.value() && flags.has(b's') && !flags.quiet() && !flags.invalidate());
    assert_eq!((flags.cas(), flags.new_cas()), (Some(5), Some(6)));
    assert_eq!((flags.vivify_ttl(), flags.recache_ttl(), flags.ttl()), (Some(30), Some(-1), None));
    let letters: Vec<u8> = flags.words().map(|flag| flag.letter).collect();
    assert_eq!(letters, b"svONRCE");
    assert_eq!(flags.opaque(), Some(&b"xy"[..]));
}

#[test]
fn commands_that_are_none() {
    assert_eq!(fault("mg\r\n"), Fault::Unknown);
    assert_eq!(fault("me\r\n"), Fault::Unknown);
    assert_eq!(fault("mg a Z\r\n"), Fault::Flag);
    assert_eq!(fault("mg a v v\r\n"), Fault::FlagTwice);
    assert_eq!(fault("mg a T\r\n"), Fault::FlagToken);
    assert_eq!(fault("mg a !! b\r\n"), Fault::Flag);
    assert_eq!(fault("mg !! b\r\n"), Fault::Base64);
    assert_eq!(fault("mg a\tb\r\n"), Fault::Format);
    assert_eq!(fault("mg a Ox\ty\r\n"), Fault::Format);
    assert_eq!(fault("ma a MS\r\n"), Fault::Mode);
    assert_eq!(fault("ma a Mi\r\n"), Fault::Mode);
    assert_eq!(fault("ms a 3 MI\r\nabc\r\n"), Fault::Mode);
    assert_eq!(fault("ms a 3 ?\r\nabc\r\n"), Fault::Flag);
    assert_eq!(fault("ms a 3 F-1\r\nabc\r\n"), Fault::FlagToken);
    assert_eq!(fault("ms ==== 3 b\r\nabc\r\n"), Fault::Base64);
    assert_eq!(fault(&format!("mg {}\r\n", "k".repeat(251))), Fault::Format);
    assert_eq!(fault(&format!("mg a O{}\r\n", "k".repeat(33))), Fault::OpaqueTooLong);
    assert_eq!(fault(&format!("ms {} 3\r\nabc\r\n", "k".repeat(251))), Fault::Format);
}

#[test]
fn keys_in_base64() {
    let key: Vec<u8> = (0..=186).collect();
    let mut text = Vec::new();
    Key::encode(&key, &mut text);
    assert_eq!(text.len(), 252, "too long as text, and so it is as a key");
    assert_eq!(Key::new(&text, true), Err(Fault::Format));
    for text in ["Zg", "Zg=", "Z===", "Zg==Zg==", "Zm=v", "Zm-v", "Zh==", "Zm9="] {
        assert_eq!(Key::new(text.as_bytes(), true), Err(Fault::Base64), "{text}");
    }
    text.clear();
    Key::encode(&key[..186], &mut text);
    let request = Request::new(b'g', &text, b"b k", b"").unwrap();
    assert_eq!(request.key.text(), text);
    assert_eq!(request.key.bytes(&mut [0; KEY_BYTES_MAX]), &key[..186]);
    let mut out = Vec::new();
    write_reply(&mut out, &request, Code::En, None, None);
    assert_eq!(out, [b"EN k", &text[..], b" b\r\n"].concat());
}

const FACTS: Facts = Facts {
    cas: 9,
    client_flags: 5,
    value_bytes: 3,
    ttl_s: None,
    hit_before: true,
    idle_s: 2,
    won: false,
    stale: false,
    win_sent: false,
};

fn replied(command: &[u8], code: Code, facts: Option<&Facts>, value: Option<&[u8]>) -> String {
    let mut out = Vec::new();
    write_reply(&mut out, &meta(command), code, facts, value);
    out.escape_ascii().to_string()
}

#[test]
fn flags_come_back_in_the_order_asked() {
    let get = b"mg a t f v c s k O123 q h l\r\n";
    assert_eq!(
        replied(get, Code::Hd, Some(&FACTS), Some(b"abc")),
        "VA 3 t-1 f5 c9 s3 ka O123 h1 l2\\r\\nabc\\r\\n"
    );
    let marks = Facts { ttl_s: Some(30), won: true, stale: true, win_sent: true, ..FACTS };
    assert_eq!(replied(b"mg a t\r\n", Code::Hd, Some(&marks), None), "HD t30 Z X W\\r\\n");
    assert_eq!(replied(b"mg YQ== O1 k v b\r\n", Code::En, None, None), "EN O1 kYQ== b\\r\\n");
    let set = b"ms a 3 k O9 s c f t I\r\nabc\r\n";
    assert_eq!(replied(set, Code::Hd, Some(&FACTS), None), "HD ka O9 s3 c9\\r\\n");
    assert_eq!(replied(b"md a k O2 q c\r\n", Code::Nf, None, None), "NF ka O2\\r\\n");
    assert_eq!(
        replied(b"ma n v t c k\r\n", Code::Va, Some(&FACTS), Some(b"13")),
        "VA 2 t-1 c9 kn\\r\\n13\\r\\n"
    );
}

#[test]
fn quiet_commands_leave_out_what_is_taken_for_granted() {
    let loud = |command: &[u8], code, value| !replied(command, code, None, value).is_empty();
    assert!(!loud(b"mg a q\r\n", Code::En, None));
    assert!(loud(b"mg a q\r\n", Code::Hd, None));
    assert!(loud(b"mg a v q\r\n", Code::Hd, Some(b"x")));
    for (code, is_loud) in [(Code::Hd, false), (Code::Ns, true), (Code::Ex, true), (Code::Nf, true)]
    {
        assert_eq!(loud(b"ms a 0 q\r\n\r\n", code, None), is_loud);
        assert_eq!(loud(b"md a q\r\n", code, None), is_loud);
        assert_eq!(loud(b"ma a q\r\n", code, None), is_loud);
        assert!(loud(b"ma a\r\n", code, None));
    }
}

#[test]
fn a_reply_with_a_value_is_never_without_one() {
    assert_eq!(replied(b"mg a v\r\n", Code::Va, None, None), "HD\\r\\n");
    assert_eq!(replied(b"mg a v\r\n", Code::En, None, Some(b"")), "VA 0\\r\\n\\r\\n");
}

#[test]
fn replies() {
    let flags = FlagWords::new(b"t-1 kabc W");
    for (bytes, reply) in [
        (&b"HD t-1 kabc W\r\n"[..], Reply::Head { code: Code::Hd, flags }),
        (b"EN\r\n", Reply::Head { code: Code::En, flags: FlagWords::new(b"") }),
        (b"NS t-1 kabc W\r\n", Reply::Head { code: Code::Ns, flags }),
        (b"EX t-1 kabc W\r\n", Reply::Head { code: Code::Ex, flags }),
        (b"NF t-1 kabc W\r\n", Reply::Head { code: Code::Nf, flags }),
        (b"VA 2 t-1 kabc W\r\n\r\n\r\n", Reply::Value { flags, value: b"\r\n" }),
        (b"ME key exp=-1 la=3\r\n", Reply::Debug { key: b"key", facts: b"exp=-1 la=3" }),
        (b"MN\r\n", Reply::Noop),
    ] {
        let parsed = parse_reply(bytes, &LIMITS);
        assert_eq!(parsed, Ok(Parsed::Complete(text::Reply::Meta(reply), bytes.len())));
        let mut out = Vec::new();
        reply.write(&mut out);
        assert_eq!(out, bytes);
    }
    assert_eq!((flags.token(b'k'), flags.token(b'x')), (Some(&b"abc"[..]), None));
    assert_eq!((flags.number(b't'), flags.number(b'W')), (None, None));
    assert_eq!(FlagWords::new(b"c7 s9").number(b's'), Some(9));
}

#[test]
fn a_reply_is_written_flag_by_flag() {
    let mut out = Vec::new();
    let line = ReplyLine::begin(&mut out, Code::Ex).flag(b'b').number(b'c', 0).signed(b't', -1);
    line.token(b'k', b"key").end();
    ReplyLine::begin_value(&mut out, 1).end_value(b"x");
    assert_eq!(out, b"EX b c0 t-1 kkey\r\nVA 1\r\nx\r\n");
}
