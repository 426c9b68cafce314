//! Every format, every way in which a line can be wrong, files of all kinds, times.

use std::path::Path;

use keyrack_vfs::{Fs, MemFs, OpenOptions};

use super::*;

const PATH: &str = "/trace";

fn store(fs: &MemFs, name: &str, bytes: &[u8]) {
    let options = OpenOptions::new().write(true).create(true).truncate(true);
    fs.open(Path::new(name), &options).unwrap().append(bytes).unwrap();
}

fn open(bytes: &[u8], options: Options) -> Reader {
    let fs = MemFs::new();
    store(&fs, PATH, bytes);
    Reader::open(&fs, Path::new(PATH), options).unwrap()
}

/// The rows as text, and what was counted.
fn read(bytes: &[u8], options: Options) -> (Vec<String>, Counts) {
    let mut reader = open(bytes, options);
    let rows = all(&mut reader).unwrap();
    (rows, reader.counts().clone())
}

fn all(reader: &mut Reader) -> Result<Vec<String>, Error> {
    let mut rows = Vec::new();
    while let Some(row) = reader.next_row()? {
        let time = row.time_s.map_or("-".to_owned(), |time_s| time_s.to_string());
        let Row { op, key, value_bytes, ttl_s, client, .. } = row;
        let (op, key) = (op.name(), key.escape_ascii());
        rows.push(format!("{time} {op} {key} {value_bytes} {ttl_s} {client}"));
    }
    Ok(rows)
}

fn of(number: u32) -> Options {
    Options::new(Format::of_option(number).unwrap())
}

#[test]
fn all_formats_have_their_rows() {
    let (rows, _) = read(b"k1,10\nk2,0\n", of(0));
    assert_eq!(rows, ["- get k1 10 0 0", "- get k2 0 0 0"]);
    let (rows, _) = read(b"1,7,read,k1,10\n2.5,7,write,k2,20\n", of(0));
    assert_eq!(rows, ["1 get k1 10 0 7", "2.5 set k2 20 0 7"]);
    let (rows, _) = read(b"0,ab,5,100,3,get,0\n1,abcdef,3,0,4,set,60\n9,x,1,1,0,delete\n", of(1));
    let expected = ["0 get ab___ 100 0 3", "1 set abcdef 0 60 4", "9 delete x 1 0 0"];
    assert_eq!(rows, expected);
    for number in [2, 3] {
        let (rows, _) = read(b"1,2,1,k,10\n3,4,2,l,20\n", of(number));
        assert_eq!(rows, ["1 get k 10 0 2", "3 set l 20 0 4"]);
    }
    let (rows, _) = read(b"1,k,1,0,x\n2,l,2,7,\n", of(4));
    assert_eq!(rows, ["1 get k 50000 0 0", "2 set l 7 0 0"]);
    assert_eq!(Format::of_option(5), None);
}

#[test]
fn all_eleven_operations_of_twitter_are_known() {
    let lines: Vec<String> =
        Op::ALL.iter().map(|op| format!("5,key,3,10,1,{},30", op.name())).collect();
    let (rows, counts) = read(lines.join("\n").as_bytes(), of(1));
    let expected: Vec<String> =
        Op::ALL.iter().map(|op| format!("5 {} key 10 30 1", op.name())).collect();
    assert_eq!((rows, counts.faults_total()), (expected, 0));
    assert_eq!(Op::ALL.iter().filter(|op| op.is_read()).count(), 2);
    assert_eq!(Op::ALL.iter().filter(|op| op.takes_value()).count(), 6);
}

#[test]
fn lines_that_are_no_rows_are_counted_and_passed_over() {
    let long_key = "k".repeat(251);
    let long_line = format!("{},1", "k".repeat(70_000));
    let cases: [(&str, u32, Fault); 20] = [
        ("k", 0, Fault::Columns),
        ("k,1,2", 0, Fault::Columns),
        ("1,2,read,k,10,", 0, Fault::Columns),
        ("1,k,1,1,1,get,0,extra", 1, Fault::Columns),
        ("1,k,1,1,1", 1, Fault::Columns),
        ("1,2,1,k", 2, Fault::Columns),
        ("1,2,3,4,5,6,7,8,9,10,11,12", 4, Fault::Columns),
        ("k,x", 0, Fault::Number),
        ("k,-1", 0, Fault::Number),
        ("k,", 0, Fault::Number),
        ("k,99999999999999999999", 0, Fault::Number),
        ("soon,k,1,1,1,get,0", 1, Fault::Number),
        ("-5,k,1,1,1,get,0", 1, Fault::Number),
        ("1,k,1,1,1,get,99999999999", 1, Fault::Number),
        ("1,k,1,1,1,fetch,0", 1, Fault::Operation),
        ("1,2,3,k,10", 2, Fault::Operation),
        (",10", 0, Fault::KeyMissing),
        ("a b,10", 0, Fault::KeyBytes),
        (&format!("{long_key},10"), 0, Fault::KeyTooLong),
        (&long_line, 0, Fault::LineTooLong),
    ];
    let good = ["good,5", "1,good,4,5,0,get,0", "1,2,1,good,5", "", "1,good,1,5,"];
    for (line, number, fault) in cases {
        let good = good[number as usize];
        let (rows, counts) = read(format!("{good}\n{line}\n{good}\n").as_bytes(), of(number));
        let shown = &line[..line.len().min(40)];
        assert_eq!(rows.len(), 2, "{shown}: {rows:?}");
        assert!(rows.iter().all(|row| row.contains(" good 5 ")), "{shown}: {rows:?}");
        assert_eq!(counts.first_faults, [(2, fault)], "{shown}");
        assert_eq!((counts.lines, counts.faults_total()), (3, 1));
        // The same at the end, without an end of the line.
        let (rows, counts) = read(format!("{good}\n{line}").as_bytes(), of(number));
        assert_eq!((rows.len(), counts.faults_total()), (1, 1), "{shown}");
    }
}

#[test]
fn blank_lines_carriage_returns_and_a_missing_end_are_well() {
    let (rows, counts) = read(b"\na,1\r\n   \n\r\nb,2\r\n\nc,3", of(0));
    assert_eq!(rows, ["- get a 1 0 0", "- get b 2 0 0", "- get c 3 0 0"]);
    assert_eq!((counts.lines, counts.faults_total(), counts.rows), (7, 0, 3));
}

#[test]
fn keys_are_bytes() {
    let (rows, counts) = read(b"\xff\xfe\x80,3\n\xc3\xa4,4\n", of(0));
    assert_eq!(rows, ["- get \\xff\\xfe\\x80 3 0 0", "- get \\xc3\\xa4 4 0 0"]);
    assert_eq!(counts.faults_total(), 0);
    let redis = Options { any_byte: true, key_bytes_max: 65_536, ..of(0) };
    let (rows, _) = read(format!("a b,3\n{},4\n", "k".repeat(300)).as_bytes(), redis);
    assert_eq!((rows.len(), &rows[0][..]), (2, "- get a b 3 0 0"));
}

#[test]
fn sizes_are_cut_at_the_limit() {
    let options = Options { value_bytes_max: 1000, ..of(0) };
    let (rows, counts) = read(b"a,1000\nb,1001\nc,18446744073709551615\n", options);
    assert_eq!(rows, ["- get a 1000 0 0", "- get b 1000 0 0", "- get c 1000 0 0"]);
    assert_eq!(counts.cut, 2);
    // Keys are not padded beyond what there can be.
    let (rows, _) = read(b"1,k,99999,1,0,get,0\n", of(1));
    assert_eq!(rows[0].len(), "1 get  1 0 0".len() + 250);
}

#[test]
fn files_without_a_row_are_refused_with_the_first_reason() {
    for (bytes, words) in [
        (&b""[..], "row of the form key,valuelen or time,app,read|write,key,valuelen; it is empty"),
        (b"\n\n", "it is empty"),
        (b"\n1 2 3\nx\n", "line 2 has another number of columns"),
    ] {
        let mut reader = open(bytes, of(0));
        let message = all(&mut reader).unwrap_err().to_string();
        assert!(
            message.starts_with("/trace: no line is a row") && message.ends_with(words),
            "{message}"
        );
    }
    let fs = MemFs::new();
    let missing = Reader::open(&fs, Path::new("/none"), of(0)).unwrap_err().to_string();
    assert!(missing.contains("/none"), "{missing}");
}

fn compress(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

#[test]
fn compressed_files_have_any_number_of_frames() {
    let plain: String = (0..50_000).map(|i| format!("key{i},{}\n", i % 100)).collect();
    let (expected, _) = read(plain.as_bytes(), of(0));
    // The cut is within a line.
    let (first, second) = plain.as_bytes().split_at(plain.len() / 2 + 3);
    let frames = [compress(first), compress(b""), compress(second)].concat();
    let (rows, counts) = read(&frames, of(0));
    assert_eq!(rows.len(), 50_000);
    assert_eq!((rows, counts.lines), (expected, 50_000));
}

#[test]
fn a_compressed_file_that_is_cut_says_so_behind_its_last_line() {
    let plain: String = (0..200_000).map(|i| format!("key{i},{}\n", i * 7 % 1000)).collect();
    let mut bytes = compress(plain.as_bytes());
    bytes.truncate(bytes.len() / 2);
    let mut reader = open(&bytes, of(0));
    let error = all(&mut reader).unwrap_err();
    assert!(matches!(error, Error::Read { .. }), "{error}");
    assert!(error.to_string().contains("cannot be read beyond line"), "{error}");
    assert!(reader.counts().rows > 10_000, "{}", reader.counts());

    // What is named so but is none.
    let fs = MemFs::new();
    store(&fs, "/plain.zst", b"a,1\nb,2\n");
    let mut reader = Reader::open(&fs, Path::new("/plain.zst"), of(0)).unwrap();
    assert!(matches!(all(&mut reader), Err(Error::Read { line: 0, .. })));
}

#[test]
fn lines_are_whole_wherever_reads_are_cut() {
    // Lines of all lengths around the size of a read.
    let plain: String =
        (0..4000).map(|i: usize| format!("{}{i},{i}\n", "x".repeat(i * 37 % 200))).collect();
    assert!(plain.len() > 2 * 200_000);
    let (rows, counts) = read(plain.as_bytes(), of(0));
    assert_eq!((rows.len(), counts.faults_total()), (4000, 0));
    assert!(rows.iter().enumerate().all(|(i, row)| row.ends_with(&format!("{i} {i} 0 0"))));
}

#[test]
fn shares_are_disjoint_whole_and_keep_keys_together() {
    let plain: String = (0..9000).map(|i| format!("key{},{i}\n", i % 1000)).collect();
    let mut total = 0;
    let mut seen = std::collections::HashMap::new();
    for index in 0..3 {
        let share = Share { index, shares: 3 };
        let mut reader = open(plain.as_bytes(), Options { share, ..of(0) });
        let mut last = std::collections::HashMap::new();
        while let Some(row) = reader.next_row().unwrap() {
            let key = row.key.to_vec();
            assert_eq!(*seen.entry(key.clone()).or_insert(index), index, "in two shares");
            let before = last.insert(key, row.value_bytes);
            assert!(before.is_none_or(|before| before < row.value_bytes), "out of order");
        }
        let counts = reader.counts();
        assert_eq!(counts.rows + counts.others, 9000);
        assert!((2400..3600).contains(&counts.rows), "{}", counts.rows);
        total += counts.rows;
    }
    assert_eq!(total, 9000);
}

#[test]
fn a_reader_begins_again() {
    let mut reader = open(&compress(b"a,1\nb,2\n"), of(0));
    for _ in 0..3 {
        assert_eq!(all(&mut reader).unwrap().len(), 2);
        reader.rewind();
    }
    assert_eq!(reader.counts().rows, 6);
}

fn paced(bytes: &[u8], speed: f64, is_loop: bool, take: usize) -> Vec<(u64, String)> {
    let mut paced = Paced::new(open(bytes, of(1)), Pace { speed, is_loop });
    let mut rows = Vec::new();
    while rows.len() < take
        && let Some((at_ns, row)) = paced.next_row().unwrap()
    {
        rows.push((at_ns / 1_000_000, String::from_utf8(row.key.to_vec()).unwrap()));
    }
    rows
}

fn lines(rows: &[(u32, &str)]) -> Vec<u8> {
    let lines = rows.iter().map(|(time, key)| format!("{time},{key},1,5,0,get,0\n"));
    lines.collect::<String>().into_bytes()
}

#[test]
fn rows_of_one_second_are_spread_over_it() {
    let file = lines(&[(5, "a"), (5, "b"), (5, "c"), (5, "d"), (7, "e"), (7, "f"), (8, "g")]);
    let expected = [(0, "a"), (250, "b"), (500, "c"), (750, "d"), (2000, "e"), (2500, "f")];
    let rows = paced(&file, 1.0, false, 99);
    let expected: Vec<(u64, String)> =
        expected.iter().chain(&[(3000, "g")]).map(|(at, key)| (*at, (*key).to_owned())).collect();
    assert_eq!(rows, expected);
    let fast = paced(&file, 4.0, false, 99);
    assert!(fast.iter().zip(&rows).all(|(fast, row)| fast.0 == row.0 / 4), "{fast:?}");
}

#[test]
fn times_that_go_back_count_as_the_latest() {
    let file = lines(&[(10, "a"), (12, "b"), (11, "c"), (3, "d"), (13, "e")]);
    let rows = paced(&file, 1.0, false, 99);
    let offsets: Vec<u64> = rows.iter().map(|row| row.0).collect();
    assert!(offsets.is_sorted(), "{rows:?}");
    assert_eq!((offsets[0], offsets[1], offsets[4]), (0, 2000, 3000));
    let (_, counts) = read(&file, of(1));
    assert_eq!(counts.unsorted, 2);
    assert!(counts.to_string().ends_with("2 times that go back"), "{counts}");
}

#[test]
fn a_loop_goes_on_behind_the_last_second() {
    let file = lines(&[(100, "a"), (101, "b"), (101, "c")]);
    let rows = paced(&file, 1.0, true, 7);
    let text: Vec<String> = rows.iter().map(|(at, key)| format!("{at}{key}")).collect();
    assert_eq!(text, ["0a", "1000b", "1500c", "2000a", "3000b", "3500c", "4000a"]);
}

#[test]
fn more_rows_in_a_second_than_are_held_are_still_in_order() {
    let many: Vec<(u32, &str)> =
        (0..200_000).map(|_| (1, "k")).chain([(2, "l"), (2, "m")]).collect();
    let rows = paced(&lines(&many), 1.0, false, usize::MAX);
    let offsets: Vec<u64> = rows.iter().map(|row| row.0).collect();
    assert_eq!(rows.len(), 200_002);
    assert!(offsets.is_sorted() && offsets[199_999] < 1000, "{}", offsets[199_999]);
    assert_eq!(offsets[200_000..], [1000, 1500]);
}

#[test]
fn counts_are_told_in_a_line() {
    let (_, counts) = read(b"a,1\nb\nc,x\nd,9999999\n", of(0));
    assert_eq!(
        counts.to_string(),
        "2 rows, 2 lines passed over: 1 with another number of columns, 1 with a column that is no \
         number, or out of range (first: line 2), 1 values cut at the limit"
    );
}
