//! Pages of a manifest and the line of `CURRENT`, for the fuzzer of all files: with checksums that
//! are right, they are refused, or give what was written there.

use std::path::Path;

use keyrack_testkit::fuzz::{Dice, Shape, shape};
use keyrack_vfs::{Fs, MemFs, OpenOptions};

use crate::checksum::checksum;
use crate::error::Error;
use crate::manifest::current;
use crate::manifest::page::{PAGE_BYTES, Records, place, put_record};

const NUMBER: u64 = 9;

/// The records as pages, behind a page for the header.
pub(crate) fn pages(records: &[&[u8]]) -> Vec<u8> {
    let mut out = vec![0; PAGE_BYTES];
    for (index, record) in records.iter().enumerate() {
        let page = (out.len() / PAGE_BYTES) as u64;
        put_record(&mut out, NUMBER, page, index as u32, record);
    }
    out
}

pub(crate) fn line() -> String {
    current::line(1, "MANIFEST-000012")
}

/// Reads records from pages whose checksums are right, but for one now and then.
pub(crate) fn check_pages(input: &[u8], dice: &mut Dice) -> Shape {
    let mut bytes = input.to_vec();
    for (index, page) in bytes.chunks_exact_mut(PAGE_BYTES).enumerate() {
        if page.iter().any(|byte| *byte != 0) && !dice.once_in(40) {
            let sum = checksum(&page[8..], place(NUMBER, index as u64));
            page[..8].copy_from_slice(&sum.to_le_bytes());
        }
    }
    let (fs, path) = (MemFs::new(), Path::new("/MANIFEST-000009"));
    let file = fs.open(path, &OpenOptions::new().read(true).write(true).create(true)).unwrap();
    file.write_at(0, &bytes).unwrap();
    let mut records = Records::new(file, NUMBER, 0).unwrap();
    let (mut content, mut total) = (Vec::new(), 0);
    loop {
        let at = records.offset();
        match records.read(&mut content) {
            Ok(true) => {
                total += content.len();
                assert!(records.offset() > at, "a record has a page");
                assert!(total <= bytes.len(), "content lies in pages");
            }
            Ok(false) => {
                assert_eq!(records.offset(), at, "what is torn begins here");
                return shape((records.count(), records.torn_bytes() / PAGE_BYTES as u64));
            }
            Err(Error::Corruption { offset, what, .. }) => {
                assert!(offset <= bytes.len() as u64, "damage lies in the file");
                return shape((records.count(), what));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Reads a line whose checksum is right.
pub(crate) fn check_line(input: &[u8]) -> Shape {
    let parsed = |bytes: &[u8]| match current::parse(Path::new("/CURRENT"), bytes) {
        Ok(number) => format!("{number}").len().to_string(),
        Err(error) => {
            let text = error.to_string();
            text.chars().filter(|c| c.is_ascii_alphabetic() || *c == ' ').take(60).collect()
        }
    };
    let said = input.iter().rposition(|byte| *byte == b' ').map_or(input, |at| &input[..=at]);
    let sum = format!("{:016x}\n", checksum(said, 0));
    shape((parsed(input), parsed(&[said, sum.as_bytes()].concat())))
}
