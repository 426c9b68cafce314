//! Logs that a small writer makes, whole and damaged.

use super::*;
use keyrack_vfs::MemFs;

/// A writer of the format.
#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn fragment(&mut self, part: u8, content: &[u8]) {
        let covered = [&[part], content].concat();
        self.bytes.extend_from_slice(&masked_crc(&covered).to_le_bytes());
        self.bytes.extend_from_slice(&(content.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(&covered);
    }

    /// Bytes to the end of the block.
    fn room(&self) -> usize {
        BLOCK_BYTES - self.bytes.len() % BLOCK_BYTES
    }

    fn record(&mut self, mut content: &[u8]) {
        let mut is_first = true;
        loop {
            if self.room() < HEADER_BYTES {
                let end = self.bytes.len() + self.room();
                self.bytes.resize(end, 0);
            }
            let now = content.len().min(self.room() - HEADER_BYTES);
            let is_last = now == content.len();
            let part = match (is_first, is_last) {
                (true, true) => 1,
                (true, false) => 2,
                (false, false) => 3,
                (false, true) => 4,
            };
            self.fragment(part, &content[..now]);
            content = &content[now..];
            is_first = false;
            if is_last {
                return;
            }
        }
    }
}

/// Lengths of the records, and what was left out: whether it is a tail, and where.
fn read(bytes: &[u8]) -> (Vec<usize>, Vec<(bool, u64)>) {
    let fs = MemFs::new();
    let path = Path::new("/1.log");
    let file = fs.open(path, &OpenOptions::new().write(true).create(true)).unwrap();
    file.append(bytes).unwrap();
    let mut log = LogReader::open(&fs, path).unwrap();
    let mut lengths = Vec::new();
    while let Some((_, record)) = log.next().unwrap() {
        assert!(record.iter().all(|byte| *byte == record.len() as u8), "wrong bytes");
        lengths.push(record.len());
    }
    assert!(log.next().unwrap().is_none(), "the end is the end");
    let lost = log.take_lost();
    (lengths, lost.into_iter().map(|lost| (lost.is_cut_tail, lost.offset)).collect())
}

fn written(lengths: &[usize]) -> Vec<u8> {
    let mut writer = Writer::default();
    lengths.iter().for_each(|length| writer.record(&vec![*length as u8; *length]));
    writer.bytes
}

#[test]
fn records_of_all_lengths() {
    // A header fills the rest of the block; it does not fit by one byte; it fits with one byte.
    let edge = BLOCK_BYTES - 2 * HEADER_BYTES;
    for lengths in [
        vec![],
        vec![0],
        vec![1, 0, 500, 3],
        vec![edge, 9, 9],
        vec![edge - 6, 9],
        vec![edge + 1, 9],
        vec![edge + 6, 9],
        vec![edge + 7, 9],
        vec![100_000, 7, 70_000, 32_761, 32_768],
    ] {
        assert_eq!(read(&written(&lengths)), (lengths, vec![]));
    }
}

#[test]
fn a_cut_at_each_byte_is_a_tail() {
    let lengths = [100, 40, 33_000, 5];
    let bytes = written(&lengths);
    let starts: Vec<usize> = (0..=lengths.len()).map(|n| written(&lengths[..n]).len()).collect();
    let near = |len: usize| starts.iter().any(|start| len.abs_diff(*start) < 20);
    for len in (0..bytes.len()).filter(|len| near(*len) || len % 499 == 0) {
        let (records, lost) = read(&bytes[..len]);
        let whole = starts.iter().filter(|start| **start <= len).count() - 1;
        assert_eq!(records, lengths[..whole], "{len} bytes");
        assert_eq!(lost.is_empty(), starts.contains(&len), "{len} bytes: {lost:?}");
        assert!(lost.iter().all(|(is_tail, _)| *is_tail), "{len} bytes: {lost:?}");
    }
}

#[test]
fn zeros_at_the_end_are_a_tail() {
    let mut bytes = written(&[100, 40]);
    let end = bytes.len() as u64;
    bytes.resize(80_000, 0);
    let (records, lost) = read(&bytes);
    assert_eq!(records, [100, 40]);
    assert_eq!(lost, [(true, end), (true, 32_768), (true, 65_536)]);
}

#[test]
fn zeros_in_the_middle_are_damage() {
    let mut bytes = written(&[100, 40_000, 5]);
    bytes[..300].fill(0);
    let (records, lost) = read(&bytes);
    assert_eq!(records, [5]);
    assert!(!lost.is_empty() && lost.iter().all(|(is_tail, _)| !is_tail), "{lost:?}");
}

#[test]
fn a_flipped_bit_takes_the_rest_of_its_block() {
    let lengths = [30, 30, 40_000, 30, 30];
    let good = written(&lengths);
    for at in 0..111 {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        let (records, lost) = read(&bytes);
        let whole = usize::from(at >= 37) + usize::from(at >= 74);
        // The last two stand in the second block, behind the end of the large one.
        assert_eq!(records, [&lengths[..whole], &lengths[3..]].concat(), "byte {at}");
        assert!(!lost.is_empty() && lost.iter().all(|(is_tail, _)| !is_tail), "{at}: {lost:?}");
    }
}

/// A length that reaches beyond the end would look like a cut.
#[test]
fn a_long_length_before_sound_records_is_damage() {
    let mut bytes = written(&[30, 30, 30]);
    bytes[37 + 5] = 0x10;
    assert_eq!(read(&bytes), (vec![30], vec![(false, 37)]));
    let mut bytes = written(&[30, 30]);
    bytes[37 + 5] = 0x10;
    assert_eq!(read(&bytes), (vec![30], vec![(true, 37)]), "nothing sound follows");
}

#[test]
fn parts_out_of_turn_are_damage() {
    let parts = |parts: &[u8]| {
        let mut writer = Writer::default();
        parts.iter().for_each(|part| writer.fragment(*part, &[30; 30]));
        read(&writer.bytes)
    };
    assert_eq!(parts(&[3, 1]), (vec![30], vec![(false, 0)]));
    assert_eq!(parts(&[4, 1]), (vec![30], vec![(false, 0)]));
    assert_eq!(parts(&[2, 1]), (vec![30], vec![(false, 0)]));
    assert_eq!(parts(&[1, 2]), (vec![30], vec![(true, 37)]), "a record that is not done");
    assert_eq!(parts(&[5, 1]), (vec![], vec![(false, 0)]), "an unknown type");
}

#[test]
fn an_empty_first_part_is_no_loss() {
    let mut writer = Writer::default();
    writer.fragment(2, b"");
    writer.fragment(1, b"\x01");
    assert_eq!(read(&writer.bytes), (vec![1], vec![]));
}
