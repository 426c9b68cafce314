//! Traces of others, written here as their programs write them.

use keyrack_trace::{Format, Outcome, Record, Trace, Verb, Which, Write, survey};
use keyrack_vfs::{Fs, MemFs};
use std::path::Path;

const PATH: &str = "/trace";

fn read(bytes: &[u8], format: Format) -> Result<(Vec<Record>, Option<String>), String> {
    let fs = MemFs::new();
    let path = Path::new(PATH);
    fs.write_atomic(path, bytes).unwrap();
    let which = Which { timed: true, thread: None };
    let mut trace = Trace::open(&fs, path, format, which).map_err(|e| e.to_string())?;
    let (mut all, mut record) = (Vec::new(), Record::default());
    while trace.next(&mut record).map_err(|e| e.to_string())? {
        all.push(record.clone());
    }
    Ok((all, trace.skipped()))
}

/// One line an operation: `put a=3 @1000` and so on.
fn drawn(records: &[Record]) -> Vec<String> {
    let one = |record: &Record| {
        let entries = record.entries().map(|entry| {
            let key = entry.key.escape_ascii();
            match entry.write {
                Write::Nothing => key.to_string(),
                Write::Remove => format!("{key}-"),
                Write::Put(bytes) => format!("{key}={bytes}"),
            }
        });
        let keys: Vec<String> = entries.collect();
        format!("{:?} {} s{} @{}", record.verb, keys.join(" "), record.space, record.at_ns)
    };
    records.iter().map(one).collect()
}

fn record(out: &mut Vec<u8>, at_us: u64, kind: u8, payload: &[u8]) {
    out.extend_from_slice(&at_us.to_le_bytes());
    out.push(kind);
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(payload);
}

fn text(bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 128);
    [&[bytes.len() as u8][..], bytes].concat()
}

/// A batch with `body` behind its sequence number and count.
fn batch(body: &[&[u8]]) -> Vec<u8> {
    [&[0; 8][..], &(body.len() as u32).to_le_bytes(), &body.concat()].concat()
}

fn header(version: &str) -> Vec<u8> {
    let text = format!(
        "feedcafedeadbeef\tTrace Version: {version}\tRocksDB Version: 9.1\tFormat: Timestamp \
         OpType Payload\n"
    );
    let mut out = Vec::new();
    record(&mut out, 1_000, 1, text.as_bytes());
    out
}

/// A trace of version 0.2 with everything in it.
fn rocksdb() -> Vec<u8> {
    let mut out = header("0.2");
    let fields = |bits: &[u32]| bits.iter().map(|bit| 1u64 << bit).sum::<u64>().to_le_bytes();
    let put = [&[1][..], &text(b"alpha"), &text(b"123")].concat();
    let one = [&fields(&[1])[..], &text(&batch(&[&put]))].concat();
    record(&mut out, 1_002, 3, &one);
    let family_put = [&[5, 7][..], &text(b"beta"), &text(b"")].concat();
    let merge = [&[2][..], &text(b"gamma"), &text(b"1234")].concat();
    let del = [&[0][..], &text(b"alpha")].concat();
    let single = [&[7][..], &text(b"delta")].concat();
    let range = [&[15][..], &text(b"a"), &text(b"b")].concat();
    let log = [&[3][..], &text(b"for the log")].concat();
    let many = batch(&[&put, &log, &put, &family_put, &merge, &del, &single, &range, &put]);
    record(&mut out, 1_005, 3, &[&fields(&[1])[..], &text(&many)].concat());
    let get = [&fields(&[2, 3])[..], &3u32.to_le_bytes(), &text(b"alpha")].concat();
    record(&mut out, 1_010, 4, &get);
    let seek = [&fields(&[4, 5, 7])[..], &0u32.to_le_bytes(), &text(b"al"), &text(b"b")].concat();
    record(&mut out, 1_011, 5, &seek);
    let back = [&fields(&[4, 5])[..], &0u32.to_le_bytes(), &text(b"al")].concat();
    record(&mut out, 1_012, 6, &back);
    let families = [0u32.to_le_bytes(), 0u32.to_le_bytes()].concat();
    let keys = [text(b"x"), text(b"y")].concat();
    let mget = [&fields(&[8, 9, 10])[..], &2u32.to_le_bytes(), &text(&families), &text(&keys)];
    record(&mut out, 1_013, 13, &mget.concat());
    record(&mut out, 1_014, 2, &[]);
    out
}

#[test]
fn a_trace_of_rocksdb_is_read_operation_by_operation() {
    let (records, skipped) = read(&rocksdb(), Format::RocksDb).unwrap();
    let expected = [
        "Put alpha=3 s0 @2000",
        "Mput alpha=3 alpha=3 s0 @5000",
        "Put beta=0 s7 @5000",
        "Rmw gamma=4 s0 @5000",
        "Mdel alpha- delta- s0 @5000",
        "Put alpha=3 s0 @5000",
        "Get alpha s3 @10000",
        "Range al b s0 @11000",
        "RangeDown  al\\x00 s0 @12000",
        "Mget x y s0 @13000",
    ];
    assert_eq!(drawn(&records), expected);
    assert_eq!(skipped.as_deref(), Some("1 removals of ranges"));
}

#[test]
fn the_first_version_of_rocksdbs_traces_has_no_fields() {
    let mut out = header("0.1");
    record(&mut out, 1_002, 3, &batch(&[&[&[1][..], &text(b"k"), &text(b"12")].concat()]));
    record(&mut out, 1_003, 4, &[&0u32.to_le_bytes()[..], &text(b"k")].concat());
    record(&mut out, 1_004, 2, &[]);
    let (records, _) = read(&out, Format::RocksDb).unwrap();
    assert_eq!(drawn(&records), ["Put k=2 s0 @2000", "Get k s0 @3000"]);
}

#[test]
fn a_binary_trace_that_is_cut_or_foreign_is_refused_with_its_place() {
    let whole = rocksdb();
    for end in 1..whole.len() {
        let error = read(&whole[..end], Format::RocksDb).unwrap_err();
        assert!(error.starts_with("/trace:") && error.lines().count() == 1, "{end}: {error}");
    }
    let error = read(&header("0.3"), Format::RocksDb).unwrap_err();
    assert!(error.contains("0.3") && error.contains("0.1 and 0.2"), "{error}");
    let mut unknown = header("0.2");
    record(&mut unknown, 1_001, 77, &[]);
    let error = read(&unknown, Format::RocksDb).unwrap_err();
    assert!(error.contains("at byte") && error.contains("77"), "{error}");
}

#[test]
fn the_printed_form_of_rocksdbs_traces_is_read_line_by_line() {
    let lines = "0x6b31 1 0 100 5000\n\n1 2 7 5001 0x6b32\n0x6b31 0 0 100 5003\n0x6b31 2 0 0 5004\n\
                 0x6b31 4 0 0 5004\n0x6b31 5 0 9 5005\n0x6b31 6 0 0 5006\n0x6b31 7 0 0 5007\n\
                 0x6b31 8 0 3 5008\n";
    let (records, skipped) = read(lines.as_bytes(), Format::RocksDb).unwrap();
    let expected = [
        "Put k1=100 s0 @0",
        "Put k2=7 s2 @1000",
        "Get k1 s0 @3000",
        "Del k1- s0 @4000",
        "Rmw k1=9 s0 @5000",
        "Range k1 s0 @6000",
        "RangeDown  k1\\x00 s0 @7000",
        "Get k1 s0 @8000",
    ];
    assert_eq!(drawn(&records), expected);
    assert_eq!(skipped.as_deref(), Some("1 lines of removals of ranges"));
}

#[test]
fn cachelibs_rows_stand_for_as_many_calls_as_they_count() {
    let first = "key,op,size,op_count,key_size\n17,SET,82,1,5\n17,GET,82,3,5\n18,DELETE,0,1,2\n";
    let (records, _) = read(first.as_bytes(), Format::CacheLib).unwrap();
    let get = "Get 17000 s0 @0";
    assert_eq!(drawn(&records), ["Put 17000=82 s0 @0", get, get, get, "Del 18- s0 @0"]);
    let later = "op_time,key,key_size,op,op_count,size,cache_hits,ttl,usecase,sub_usecase\n\
                 604038471,8213,6,GET_LEASE,1,87,1,0,366387042,3003229276\n\
                 604038473,82,2,SET_LEASE,2,65,0,7200,2777918327,655456894\n";
    let (records, _) = read(later.as_bytes(), Format::CacheLib).unwrap();
    let put = "Put 82=65 s0 @2000000000";
    assert_eq!(drawn(&records), ["Get 821300 s0 @0", put, put]);
    assert_eq!(records[0].result, Outcome::Done);
    // Without names the columns are those of the first form.
    let (records, _) = read(b"17,SET,82,1,2\n", Format::CacheLib).unwrap();
    assert_eq!(records[0].verb, Verb::Put);
}

#[test]
fn a_malformed_line_is_named_with_file_and_number() {
    let head = "key,op,size,op_count,key_size\n1,GET,1,1,1\n";
    let cachelib = [
        ("1,GET,1,1", "4 columns, expected 5"),
        ("1,GET,x,1,1", "size is no number"),
        ("1,SAT,1,1,1", "unknown op 'SAT'"),
        ("1,GET,1,0,1", "op_count is 0"),
        (",GET,1,1,1", "no key"),
        ("1,GET,1,1,99999999", "key_size is no number up to 65536"),
    ];
    for (line, why) in cachelib {
        let error = read(format!("{head}{line}\n").as_bytes(), Format::CacheLib).unwrap_err();
        assert!(error.starts_with("/trace:3: ") && error.contains(why), "{line}: {error}");
    }
    let rocksdb = [
        ("1 0 100 5000", "no key"),
        ("0x6b 1 0 100", "expected 0xKEY"),
        ("0x6b 1 0 much 5000", "expected 0xKEY"),
        ("0x6 1 0 100 5000", "not hexadecimal"),
        ("0x6b 9 0 100 5000", "unknown type 9"),
    ];
    for (line, why) in rocksdb {
        let text = format!("0x6b 1 0 100 5000\n{line}\n");
        let error = read(text.as_bytes(), Format::RocksDb).unwrap_err();
        assert!(error.starts_with("/trace:2: ") && error.contains(why), "{line}: {error}");
    }
}

#[test]
fn formats_are_told_by_how_files_begin_and_an_empty_one_is_refused() {
    let fs = MemFs::new();
    let path = Path::new(PATH);
    let packed = zstd::encode_all(&rocksdb()[..], 1).unwrap();
    for (bytes, format) in [
        (&rocksdb()[..], Some(Format::RocksDb)),
        (&packed, Some(Format::RocksDb)),
        (b"0x6b31 1 0 100 5000\n", Some(Format::RocksDb)),
        (b"key,op,size,op_count,key_size\n", Some(Format::CacheLib)),
        (b"17,SET,82,1,5\n", None),
    ] {
        fs.write_atomic(path, bytes).unwrap();
        assert_eq!(Format::detect(&fs, path).ok(), format);
    }
    fs.write_atomic(path, b"key,op,size,op_count,key_size\n").unwrap();
    let error = survey(&fs, path, Format::CacheLib, &|_, _| 0).unwrap_err().to_string();
    assert!(error.contains("no operation"), "{error}");
}
