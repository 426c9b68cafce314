//! Each operation of the binary protocol, byte for byte.

use super::LIMITS;
use keyrack_wire::memcached::binary::{
    Command, HEADER_BYTES, NO_INITIAL, Opcode, Refusal, Reply, Request, Status, StoreMode, parse,
    parse_reply, write_status, write_value,
};
use keyrack_wire::memcached::text::Direction;
use keyrack_wire::memcached::{Limits, Parsed};

const OPAQUE: u32 = 0xDEAD_BEEF;
const CAS: u64 = 0x0102_0304_0506_0708;

/// A message by its parts, written down once more and apart from what is tested.
fn message(magic: u8, opcode: u8, status: u16, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let body = u32::try_from(extras.len() + key.len() + value.len()).unwrap();
    let mut bytes = vec![magic, opcode];
    bytes.extend(u16::try_from(key.len()).unwrap().to_be_bytes());
    bytes.push(u8::try_from(extras.len()).unwrap());
    bytes.push(0);
    bytes.extend(status.to_be_bytes());
    bytes.extend(body.to_be_bytes());
    bytes.extend(OPAQUE.to_be_bytes());
    bytes.extend(CAS.to_be_bytes());
    assert_eq!(bytes.len(), HEADER_BYTES);
    [&bytes, extras, key, value].concat()
}

/// The bytes of an operation are this command, and the command is written as these bytes.
fn golden(opcode: u8, quiet: bool, extras: &[u8], key: &[u8], value: &[u8], command: Command<'_>) {
    let bytes = message(0x80, opcode, 0, extras, key, value);
    let mut request = Request::new(command, quiet);
    request.opaque = OPAQUE;
    request.cas = CAS;
    assert_eq!(request.opcode.number(), opcode);
    assert_eq!(parse(&bytes, &LIMITS), Ok(Parsed::Complete(request, bytes.len())));
    let mut out = Vec::new();
    request.write(&mut out);
    assert_eq!(out, bytes, "{opcode:#x}");
}

#[test]
fn reads() {
    for (opcodes, with_key, exptime) in [
        ([0x00, 0x09], false, None),
        ([0x0c, 0x0d], true, None),
        ([0x1d, 0x1e], false, Some(7)),
        ([0x23, 0x24], true, Some(u32::MAX)),
    ] {
        let extras = exptime.map_or(Vec::new(), |exptime: u32| exptime.to_be_bytes().to_vec());
        let command = Command::Get { key: b"key", with_key, exptime };
        golden(opcodes[0], false, &extras, b"key", b"", command);
        golden(opcodes[1], true, &extras, b"key", b"", command);
    }
    golden(0x1c, false, &[0, 0, 1, 0], b"key", b"", Command::Touch { key: b"key", exptime: 256 });
}

#[test]
fn writes() {
    for (opcodes, mode) in [
        ([0x01, 0x11], StoreMode::Set),
        ([0x02, 0x12], StoreMode::Add),
        ([0x03, 0x13], StoreMode::Replace),
    ] {
        let (key, value) = (&b"key"[..], &b"value"[..]);
        let command = Command::Store { mode, key, flags: 0x0102_0304, exptime: 5, value };
        let extras = [1, 2, 3, 4, 0, 0, 0, 5];
        golden(opcodes[0], false, &extras, key, value, command);
        golden(opcodes[1], true, &extras, key, value, command);
    }
    for (opcodes, mode) in [([0x0e, 0x19], StoreMode::Append), ([0x0f, 0x1a], StoreMode::Prepend)] {
        let (key, value) = (&b"key"[..], &b""[..]);
        let command = Command::Store { mode, key, flags: 0, exptime: 0, value };
        golden(opcodes[0], false, b"", key, value, command);
        golden(opcodes[1], true, b"", key, value, command);
    }
    golden(0x04, false, b"", b"key", b"", Command::Delete { key: b"key" });
    golden(0x14, true, b"", b"key", b"", Command::Delete { key: b"key" });
    golden(0x08, false, b"", b"", b"", Command::Flush { delay: 0 });
    golden(0x18, true, &[0, 0, 0, 9], b"", b"", Command::Flush { delay: 9 });
}

#[test]
fn counts() {
    for (opcodes, direction) in [([0x05, 0x15], Direction::Up), ([0x06, 0x16], Direction::Down)] {
        let mut extras = [0; 20];
        extras[7] = 1;
        extras[8] = 0x80;
        extras[16..].fill(0xFF);
        let (delta, initial, exptime) = (1, 1 << 63, NO_INITIAL);
        let command = Command::Arithmetic { direction, key: b"key", delta, initial, exptime };
        golden(opcodes[0], false, &extras, b"key", b"", command);
        golden(opcodes[1], true, &extras, b"key", b"", command);
    }
}

#[test]
fn the_rest() {
    golden(0x07, false, b"", b"", b"", Command::Quit);
    golden(0x17, true, b"", b"", b"", Command::Quit);
    golden(0x0a, false, b"", b"", b"", Command::Noop);
    golden(0x0b, false, b"", b"", b"", Command::Version);
    golden(0x10, false, b"", b"", b"", Command::Stat { key: b"" });
    golden(0x10, false, b"", b"items", b"", Command::Stat { key: b"items" });
    golden(0x1b, false, &[0, 0, 0, 2], b"", b"", Command::Verbosity { level: 2 });
    golden(0x20, false, b"", b"", b"", Command::SaslList);
    let (mechanism, data) = (&b"PLAIN"[..], &b"\0user\0secret"[..]);
    golden(0x21, false, b"", mechanism, data, Command::SaslAuth { mechanism, data });
    golden(0x22, false, b"", mechanism, data, Command::SaslStep { mechanism, data });
}

#[test]
fn a_flush_may_say_that_it_is_not_delayed() {
    let bytes = message(0x80, 0x08, 0, &[0; 4], b"", b"");
    let Ok(Parsed::Complete(request, 28)) = parse(&bytes, &LIMITS) else { panic!("a flush") };
    assert_eq!(request.command, Command::Flush { delay: 0 });
}

#[test]
fn quiet_operations_leave_out_what_is_taken_for_granted() {
    let get = Command::Get { key: b"k", with_key: false, exptime: None };
    assert!(Request::new(get, true).silences(Status::KEY_NOT_FOUND));
    assert!(!Request::new(get, true).silences(Status::OK));
    assert!(!Request::new(get, false).silences(Status::KEY_NOT_FOUND));
    let delete = Command::Delete { key: b"k" };
    assert!(Request::new(delete, true).silences(Status::OK));
    assert!(!Request::new(delete, true).silences(Status::KEY_NOT_FOUND));
    assert!(!Request::new(delete, false).silences(Status::OK));
    assert!(!Request::new(Command::Noop, true).silences(Status::OK), "there is no quiet one");
}

#[test]
fn every_opcode_is_one_and_no_other() {
    let known = (0..=255).filter(|&number| Opcode::of(number).is_some()).count();
    assert_eq!(known, Opcode::ALL.len());
    for opcode in Opcode::ALL {
        assert_eq!(Opcode::of(opcode.number()), Some(opcode));
    }
}

fn refused(bytes: &[u8]) -> Refusal {
    match parse(bytes, &LIMITS) {
        Err(refusal) => refusal,
        other => panic!("{other:?} of {}", bytes.escape_ascii()),
    }
}

/// The header alone is refused, and the connection goes on behind the body.
fn refused_for(status: Status, opcode: u8, extras: usize, key: usize, value: usize) {
    let bytes = message(0x80, opcode, 0, &vec![0; extras], &vec![b'k'; key], &vec![b'v'; value]);
    let expected = Refusal {
        opcode,
        opaque: OPAQUE,
        status: Some(status),
        skip: bytes.len() as u64,
        close: false,
    };
    assert_eq!(refused(&bytes[..HEADER_BYTES]), expected, "{opcode:#x} {extras} {key} {value}");
    assert_eq!(refused(&bytes), expected);
}

/// CVE-2020-10931 and others: extras of a length that the operation does not have.
#[test]
fn a_body_has_the_shape_of_its_operation() {
    let shapes: [(&[u8], usize); 6] = [
        (&[0x00, 0x09, 0x0c, 0x0d, 0x04, 0x14, 0x0e, 0x0f, 0x19, 0x1a, 0x21, 0x22], 0),
        (&[0x01, 0x02, 0x03, 0x11, 0x12, 0x13], 8),
        (&[0x05, 0x06, 0x15, 0x16], 20),
        (&[0x1c, 0x1d, 0x1e, 0x23, 0x24], 4),
        (&[0x1b], 4),
        (&[0x07, 0x0a, 0x0b, 0x17, 0x20], 0),
    ];
    for (opcodes, extras) in shapes {
        for &opcode in opcodes {
            let key = usize::from(!matches!(opcode, 0x1b | 0x07 | 0x0a | 0x0b | 0x17 | 0x20));
            for other in (0..=255).filter(|&other| other != extras) {
                refused_for(Status::INVALID, opcode, other, key, 0);
            }
            refused_for(Status::INVALID, opcode, extras, 1 - key, 0);
            let takes_value =
                extras == 8 || matches!(opcode, 0x0e | 0x0f | 0x19 | 0x1a | 0x21 | 0x22);
            if !takes_value {
                refused_for(Status::INVALID, opcode, extras, key, 1);
            }
        }
    }
    for extras in [1, 3, 5, 8] {
        refused_for(Status::INVALID, 0x08, extras, 0, 0);
    }
    refused_for(Status::INVALID, 0x10, 4, 0, 0);
    refused_for(Status::INVALID, 0x10, 0, 4, 1);
}

#[test]
fn keys_end_at_250_bytes() {
    let bytes = message(0x80, 0, 0, b"", &[b'k'; 250], b"");
    assert!(matches!(parse(&bytes, &LIMITS), Ok(Parsed::Complete(_, 274))));
    refused_for(Status::INVALID, 0x00, 0, 251, 0);
    refused_for(Status::INVALID, 0x00, 0, 65_535, 0);
    refused_for(Status::INVALID, 0x01, 8, 251, 1);
}

#[test]
fn operations_that_are_none() {
    for opcode in [0x1f, 0x25, 0x30, 0x3c, 0x77, 0xff] {
        refused_for(Status::UNKNOWN_COMMAND, opcode, 0, 3, 2);
        refused_for(Status::UNKNOWN_COMMAND, opcode, 0, 0, 0);
    }
}

/// CVE-2016-8704, -8705, -8706: lengths that do not add up, or that overflow where they are added.
#[test]
fn a_body_is_as_long_as_its_parts() {
    let crooked = |extras: u8, key: u16, body: u32| {
        let mut bytes = message(0x80, 0x01, 0, b"", b"", b"");
        bytes[2..4].copy_from_slice(&key.to_be_bytes());
        bytes[4] = extras;
        bytes[8..12].copy_from_slice(&body.to_be_bytes());
        bytes
    };
    for (extras, key, body) in [(8, 3, 10), (8, 65_535, 0), (255, 65_535, 65_789), (8, 1, 0)] {
        let refusal = refused(&crooked(extras, key, body));
        assert_eq!((refusal.status, refusal.close), (Some(Status::INVALID), true));
    }
    for body in [u32::MAX, u32::MAX - 24, 1 << 31, 2000] {
        let refusal = refused(&crooked(8, 3, body));
        assert_eq!((refusal.status, refusal.close), (Some(Status::TOO_LARGE), true), "{body}");
    }
    // Its key says whose value is too large.
    let mut large = crooked(8, 3, 11 + 301);
    assert_eq!(parse(&large, &LIMITS), Ok(Parsed::Incomplete(24 + 11)));
    large.extend_from_slice(b"flagsexpkey");
    let refusal = refused(&large);
    assert_eq!((refusal.status, refusal.close), (Some(Status::TOO_LARGE), false));
    assert_eq!(refusal.skip, 24 + 11 + 301);
    assert_eq!(parse(&crooked(8, 3, 11 + 300), &LIMITS), Ok(Parsed::Incomplete(24 + 11 + 300)));
}

#[test]
fn other_magic_closes_without_a_reply() {
    for magic in (0..=255).filter(|&magic| magic != 0x80) {
        let refusal = refused(&[magic]);
        assert_eq!((refusal.status, refusal.close), (None, true));
        let mut out = Vec::new();
        refusal.write(&mut out);
        assert!(out.is_empty());
    }
    assert_eq!(parse(b"", &LIMITS), Ok(Parsed::Incomplete(24)));
    assert_eq!(parse(b"\x80", &LIMITS), Ok(Parsed::Incomplete(24)));
}

#[test]
fn replies() {
    let reply = Reply {
        opcode: 0x0c,
        status: Status::OK,
        opaque: OPAQUE,
        cas: CAS,
        extras: &[0, 0, 1, 2],
        key: b"key",
        value: b"\0\0\0\0\0\0\0\x09",
    };
    let bytes = message(0x81, 0x0c, 0, reply.extras, reply.key, reply.value);
    assert_eq!(parse_reply(&bytes, &LIMITS), Ok(Parsed::Complete(reply, bytes.len())));
    assert_eq!((reply.flags(), reply.number()), (Some(258), Some(9)));
    let mut out = Vec::new();
    reply.write(&mut out);
    assert_eq!(out, bytes);
    out.clear();
    write_value(&mut out, (0x0c, OPAQUE), b"key", 258, CAS, reply.value);
    assert_eq!(out, bytes);
    let bare = Reply { extras: b"", value: b"1", ..reply };
    assert_eq!((bare.flags(), bare.number()), (None, None));
}

#[test]
fn the_words_of_a_status() {
    let mut out = Vec::new();
    write_status(&mut out, 0x00, 7, Status::KEY_NOT_FOUND);
    let expected = b"\x81\0\0\0\0\0\0\x01\0\0\0\x09\0\0\0\x07\0\0\0\0\0\0\0\0Not found";
    assert_eq!(out, expected);
    out.clear();
    refused(&message(0x80, 0x77, 0, b"", b"", b"")).write(&mut out);
    let Ok(Parsed::Complete(reply, _)) = parse_reply(&out, &LIMITS) else { panic!("a reply") };
    assert_eq!((reply.opcode, reply.opaque, reply.status), (0x77, OPAQUE, Status(0x81)));
    assert_eq!(reply.value, b"Unknown command");
}

#[test]
fn bytes_that_are_no_reply() {
    assert!(parse_reply(b"\x80", &LIMITS).is_err());
    assert!(parse_reply(&message(0x81, 0, 0, b"", &[b'k'; 251], b""), &LIMITS).is_err());
    assert!(parse_reply(&message(0x81, 0, 0, b"", b"", &[b'v'; 301]), &LIMITS).is_err());
    let mut crooked = message(0x81, 0, 0, b"1234", b"", b"");
    crooked[11] = 3;
    assert!(parse_reply(&crooked, &LIMITS).is_err());
    let long = message(0x81, 0, 0, b"", b"", &[b'v'; 301]);
    assert!(parse_reply(&long, &Limits::DEFAULT).is_ok());
}
