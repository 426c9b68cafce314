//! Lengths that are no lengths, in every place of the text protocol that has one.

use super::LIMITS;
use keyrack_wire::memcached::text::{Fault, Request, parse};
use keyrack_wire::memcached::{Limits, Parsed};

/// Lines with a block whose length is to be put in.
const LINES: [&str; 5] = [
    "set a 0 0 # noreply\r\n",
    "cas a 0 0 # 7\r\n",
    "prepend a 0 0 #\r\n",
    "ms a #\r\n",
    "ms a # q T0\r\n",
];

/// Whoever sends such a length sends data that nobody could tell from commands.
#[test]
fn a_length_that_is_none_closes() {
    for line in LINES {
        for length in [
            "x",
            "-1",
            "+1",
            "1x",
            "0x10",
            "1.5",
            "1e3",
            "18446744073709551616",
            "\u{b9}",
            &"0".repeat(25),
        ] {
            let bytes = format!("{}version\r\n", line.replace('#', length));
            let refusal = parse(bytes.as_bytes(), &LIMITS).unwrap_err();
            assert_eq!((refusal.fault, refusal.close), (Fault::Format, true), "{bytes:?}");
        }
    }
    for line in ["set\r\n", "set a\r\n", "set a 0 0\r\n", "cas  0 0 5\r\n", "ms\r\n", "ms a\r\n"] {
        let refusal = parse(line.as_bytes(), &LIMITS).unwrap_err();
        assert_eq!((refusal.fault, refusal.close), (Fault::Unknown, true), "{line:?}");
    }
}

/// No number of bytes is waited for that is above its limit, and none overflows.
#[test]
fn a_length_above_its_limit_is_refused_at_once() {
    for line in LINES {
        for (length, close) in [
            (301, false),
            (1000, false),
            (1001, true),
            (1 << 31, true),
            ((1 << 32) + 1, true),
            (u64::MAX - 1, true),
            (u64::MAX, true),
        ] {
            let line = line.replace('#', &length.to_string());
            let refusal = parse(line.as_bytes(), &LIMITS).unwrap_err();
            assert_eq!((refusal.fault, refusal.close), (Fault::TooLarge, close), "{line:?}");
            let skip = line.len() as u64 + if close { 0 } else { length + 2 };
            assert_eq!(refusal.skip, skip);
        }
    }
}

#[test]
fn a_server_that_skips_anything_still_adds_no_further_than_64_bits() {
    let limits = Limits { skip_bytes_max: u64::MAX, value_bytes_max: usize::MAX, ..LIMITS };
    let line = b"set a 0 0 18446744073709551615\r\n";
    let refusal = parse(line, &Limits { value_bytes_max: 10, ..limits }).unwrap_err();
    assert_eq!((refusal.fault, refusal.skip), (Fault::TooLarge, u64::MAX));
    assert_eq!(parse(line, &limits), Ok(Parsed::Incomplete(usize::MAX)));
}

#[test]
fn zeros_in_front_are_read_over() {
    for line in LINES {
        let bytes = format!("{}abc\r\n", line.replace('#', "0003"));
        let Ok(Parsed::Complete(request, _)) = parse(bytes.as_bytes(), &LIMITS) else {
            panic!("{bytes:?}");
        };
        match request {
            Request::Store(store) => assert_eq!(store.value, b"abc"),
            Request::Meta(request) => assert_eq!(request.value, b"abc"),
            other => panic!("{other:?}"),
        }
    }
}

/// The attributes that are wrong do not make the data into commands.
#[test]
fn data_of_a_refused_command_is_skipped() {
    for line in [
        "set a -1 0 9\r\n",
        "set a 4294967296 0 9\r\n",
        "set a 0 x 9\r\n",
        "cas a 0 0 9\r\n",
        "cas a 0 0 9 x\r\n",
        "set a 0 0 9 loudly\r\n",
        "set a 0 0 9 noreply noreply\r\n",
        "set \x7f 0 0 9\r\n",
        "set a\tb 0 0 9\r\n",
        "set a 0 9223372036854775808 9\r\n",
    ] {
        let bytes = format!("{line}flush_all\r\n");
        let refusal = parse(bytes.as_bytes(), &LIMITS).unwrap_err();
        assert_eq!((refusal.fault, refusal.close), (Fault::Format, false), "{line:?}");
        assert_eq!(refusal.skip, bytes.len() as u64);
        assert_eq!(parse(line.as_bytes(), &LIMITS), Err(refusal), "before the data is there");
    }
}

#[test]
fn a_large_value_is_not_read_again_and_again() {
    let limits = Limits { value_bytes_max: 1 << 20, ..LIMITS };
    let line = "set a 0 0 1000000\r\n";
    for arrived in [0, 1, 500_000, 1_000_001] {
        let bytes = [line.as_bytes(), &vec![b'\n'; arrived]].concat();
        assert_eq!(parse(&bytes, &limits), Ok(Parsed::Incomplete(1_000_021)));
    }
}

#[test]
fn before_authentication_little_is_read() {
    let limits = Limits::UNAUTHENTICATED;
    let refusal = parse(b"set auth 0 0 8193\r\n", &limits).unwrap_err();
    assert_eq!((refusal.fault, refusal.close), (Fault::TooLarge, true));
    assert_eq!(parse(b"set auth 0 0 8192\r\n", &limits), Ok(Parsed::Incomplete(8213)));
    let keys = format!("get {}", "key ".repeat(600));
    assert!(parse(keys.as_bytes(), &limits).unwrap_err().close);
}
