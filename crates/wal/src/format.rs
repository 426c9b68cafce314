//! The bytes of a segment: its header, its seal, and its records. `docs/formats/wal.md` has the
//! same with the reasons.
//!
//! ```text
//!   file    | front: 4 KiB                 | records: segment_bytes                        |
//!           | header: 512 | seal: 512 | 0  | record | record | ... | void to the very end  |
//!   record  | checksum: u32 | length: u32 | synced: u56, kind: u2, tag: u6 | payload | zeros |
//! ```
//!
//! All numbers are little-endian. A checksum is CRC-32C, masked (rotated and added to), so that the
//! checksum of bytes which contain checksums stays a good one. The checksum of a record also covers
//! the epoch of its segment and its LSN, which the record does not contain. So a record that lies
//! elsewhere, or is left over from an earlier incarnation of the file, does not match. The tag, a
//! few bits of both, rejects most of these without a checksum.

use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};

/// Bytes before the first record.
pub(crate) const FRONT_BYTES: u64 = 4_096;
/// Bytes of the header: one sector, which a disk writes whole or not at all.
pub(crate) const HEADER_BYTES: usize = 512;
/// Where the seal stands: in a sector of its own.
pub(crate) const SEAL_OFFSET: u64 = 512;
pub(crate) const SEAL_BYTES: usize = 36;
/// Bytes of a mark: one sector.
pub(crate) const MARK_BYTES: usize = 512;
/// Bytes before the payload of a record.
pub(crate) const RECORD_BYTES: usize = 16;
/// Records begin at multiples of this.
pub(crate) const ALIGN: usize = 8;

const MAGIC: [u8; 8] = *b"KEYRKWAL";
const SEAL_MAGIC: [u8; 8] = *b"KEYRSEAL";
const MARK_MAGIC: [u8; 8] = *b"KEYRMARK";
const VERSION: u32 = 1;
const HEADER_CHECKSUM: usize = HEADER_BYTES - 4;
const SEAL_CHECKSUM: usize = SEAL_BYTES - 4;
const MARK_CHECKSUM: usize = MARK_BYTES - 4;
/// The file was used before: the bytes after the end are not zeros.
const FLAG_RECYCLED: u32 = 1;
/// The low bits of a record's last word: what was synced when it was written.
const SYNCED_MASK: u64 = (1 << 56) - 1;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A payload.
    Data = 1,
    /// A range that was reserved and not used, or that was left at the end of a segment. Its bytes
    /// mean nothing, and the checksum does not cover them.
    Void = 2,
}

/// One use of a file as a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Incarnation {
    /// Grows each time that the log is opened.
    pub(crate) epoch: u64,
    /// 6 bits: consecutive incarnations of one file have different tags.
    tag: u8,
}

impl Incarnation {
    pub(crate) fn new(start: u64, segment_bytes: u64, epoch: u64) -> Self {
        Incarnation { epoch, tag: ((start / segment_bytes) ^ epoch) as u8 & 0x3f }
    }
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// LSN of the first byte.
    pub(crate) start: u64,
    /// Bytes of records.
    pub(crate) segment_bytes: u64,
    /// Distinguishes the incarnations of a file.
    pub(crate) epoch: u64,
    /// Where the log ended before this segment: at `start`, or earlier when it was opened again in
    /// between. 0 in the first segment of a log.
    pub(crate) previous_end: u64,
    /// Everything below was durable when the header was written.
    pub(crate) synced: u64,
    pub(crate) recycled: bool,
    /// The identity of the log; 0 if a program wrote it that gave none.
    pub(crate) id: u64,
}

/// A mark of the newest segment, see `marker`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The identity of the log.
    pub(crate) id: u64,
    /// The larger one of two marks counts.
    pub(crate) sequence: u64,
    /// Where the newest segment begins; 0 if there is none.
    pub(crate) start: u64,
    /// Bytes of its records.
    pub(crate) segment_bytes: u64,
    /// Where the records end, if the log was closed in that segment; 0 otherwise.
    pub(crate) end: u64,
}

/// The end of a log that was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    pub(crate) start: u64,
    pub(crate) epoch: u64,
    /// Everything below is durable.
    pub(crate) end: u64,
}

/// The first 16 bytes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) incarnation: Incarnation,
    pub(crate) kind: Kind,
    /// Bytes of the payload.
    pub(crate) length: u32,
    /// Everything below was durable when the record was written.
    pub(crate) synced: u64,
    pub(crate) checksum: u32,
}

fn mask(checksum: u32) -> u32 {
    checksum.rotate_right(15).wrapping_add(0xa282_ead8)
}

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    put(bytes, at, value.to_le_bytes());
}

fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    put(bytes, at, value.to_le_bytes());
}

/// Stores an array, which takes no call where copying a slice may take one.
#[inline]
fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    *bytes[at..].first_chunk_mut().expect("a header holds its fields") = value;
}

fn get_u32(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

fn get_u64(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// Bytes of the log that a record with `length` bytes of payload takes.
pub(crate) const fn log_bytes_of(length: usize) -> usize {
    (RECORD_BYTES + length).next_multiple_of(ALIGN)
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        put_u32(&mut bytes, 8, VERSION);
        put_u32(&mut bytes, 12, if self.recycled { FLAG_RECYCLED } else { 0 });
        put_u64(&mut bytes, 16, self.start);
        put_u64(&mut bytes, 24, self.segment_bytes);
        put_u64(&mut bytes, 32, self.epoch);
        put_u64(&mut bytes, 40, self.previous_end);
        put_u64(&mut bytes, 48, self.synced);
        put_u64(&mut bytes, 56, self.id);
        let checksum = mask(crc32_iscsi(&bytes[..HEADER_CHECKSUM]));
        put_u32(&mut bytes, HEADER_CHECKSUM, checksum);
        bytes
    }

    pub(crate) fn incarnation(&self) -> Incarnation {
        Incarnation::new(self.start, self.segment_bytes, self.epoch)
    }

    /// The checksum that belongs into these bytes.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn checksum(bytes: &[u8; HEADER_BYTES]) -> u32 {
        mask(crc32_iscsi(&bytes[..HEADER_CHECKSUM]))
    }

    /// Reads a header. The error says what is wrong, and at which byte.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, (u64, &'static str)> {
        if bytes[..8] != MAGIC {
            return Err((0, "not a segment of a log"));
        }
        if get_u32(bytes, HEADER_CHECKSUM) != mask(crc32_iscsi(&bytes[..HEADER_CHECKSUM])) {
            return Err((HEADER_CHECKSUM as u64, "the checksum of the header does not match"));
        }
        if get_u32(bytes, 8) != VERSION {
            return Err((8, "a version of the log that this program does not know"));
        }
        if get_u32(bytes, 12) & !FLAG_RECYCLED != 0 {
            return Err((12, "a feature of the log that this program does not know"));
        }
        Ok(Header {
            start: get_u64(bytes, 16),
            segment_bytes: get_u64(bytes, 24),
            epoch: get_u64(bytes, 32),
            previous_end: get_u64(bytes, 40),
            synced: get_u64(bytes, 48),
            recycled: get_u32(bytes, 12) & FLAG_RECYCLED != 0,
            id: get_u64(bytes, 56),
        })
    }
}

impl Seal {
    pub(crate) fn encode(&self) -> [u8; SEAL_BYTES] {
        let mut bytes = [0; SEAL_BYTES];
        bytes[..8].copy_from_slice(&SEAL_MAGIC);
        put_u64(&mut bytes, 8, self.start);
        put_u64(&mut bytes, 16, self.epoch);
        put_u64(&mut bytes, 24, self.end);
        let checksum = mask(crc32_iscsi(&bytes[..SEAL_CHECKSUM]));
        put_u32(&mut bytes, SEAL_CHECKSUM, checksum);
        bytes
    }

    /// Reads a seal. `None` where there is none, as in every segment but the last before a close.
    pub(crate) fn decode(bytes: &[u8; SEAL_BYTES]) -> Option<Self> {
        let whole = bytes[..8] == SEAL_MAGIC
            && get_u32(bytes, SEAL_CHECKSUM) == mask(crc32_iscsi(&bytes[..SEAL_CHECKSUM]));
        whole.then(|| Seal {
            start: get_u64(bytes, 8),
            epoch: get_u64(bytes, 16),
            end: get_u64(bytes, 24),
        })
    }
}

impl Mark {
    pub(crate) fn encode(&self) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        bytes[..8].copy_from_slice(&MARK_MAGIC);
        put_u32(&mut bytes, 8, VERSION);
        put_u64(&mut bytes, 16, self.id);
        put_u64(&mut bytes, 24, self.sequence);
        put_u64(&mut bytes, 32, self.start);
        put_u64(&mut bytes, 40, self.segment_bytes);
        put_u64(&mut bytes, 48, self.end);
        let checksum = mask(crc32_iscsi(&bytes[..MARK_CHECKSUM]));
        put_u32(&mut bytes, MARK_CHECKSUM, checksum);
        bytes
    }

    /// Reads a mark. `None` if the bytes are not a mark, or if no mark could follow it.
    pub(crate) fn decode(bytes: &[u8; MARK_BYTES]) -> Option<Self> {
        let whole = bytes[..8] == MARK_MAGIC
            && get_u32(bytes, 8) == VERSION
            && get_u64(bytes, 24) < u64::MAX
            && get_u32(bytes, MARK_CHECKSUM) == mask(crc32_iscsi(&bytes[..MARK_CHECKSUM]));
        whole.then(|| Mark {
            id: get_u64(bytes, 16),
            sequence: get_u64(bytes, 24),
            start: get_u64(bytes, 32),
            segment_bytes: get_u64(bytes, 40),
            end: get_u64(bytes, 48),
        })
    }
}

impl Record {
    /// Decodes the first 16 bytes. `None` if they cannot be a record at `lsn` with `bytes_left`
    /// to the end of the segment. Says nothing about the checksum.
    pub(crate) fn parse(
        bytes: &[u8; RECORD_BYTES],
        incarnation: Incarnation,
        lsn: u64,
        bytes_left: u64,
    ) -> Option<Self> {
        let word = get_u64(bytes, 8);
        let kind = match word >> 56 & 3 {
            1 => Kind::Data,
            2 => Kind::Void,
            _ => return None,
        };
        if (word >> 58) as u8 != incarnation.tag {
            return None;
        }
        let (length, synced) = (get_u32(bytes, 4), word & SYNCED_MASK);
        let fits = log_bytes_of(length as usize) as u64 <= bytes_left;
        let record = Record { incarnation, kind, length, synced, checksum: get_u32(bytes, 0) };
        (fits && synced <= lsn).then_some(record)
    }

    /// Bytes of the log that the record takes.
    pub(crate) fn log_bytes(&self) -> u64 {
        log_bytes_of(self.length as usize) as u64
    }

    /// The header bytes after the checksum.
    fn tail(&self) -> [u8; 12] {
        let mut bytes = [0; 12];
        put_u32(&mut bytes, 0, self.length);
        let what = self.kind as u64 | u64::from(self.incarnation.tag) << 2;
        put_u64(&mut bytes, 4, what << 56 | self.synced & SYNCED_MASK);
        bytes
    }
}

/// Computes the checksum of a record.
pub(crate) struct RecordChecksum(Digest);

impl RecordChecksum {
    /// Begins with the bytes before the payload.
    pub(crate) fn new(lsn: u64, record: &Record) -> Self {
        let mut prefix = [0; 28];
        put_u64(&mut prefix, 0, record.incarnation.epoch);
        put_u64(&mut prefix, 8, lsn);
        prefix[16..].copy_from_slice(&record.tail());
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        digest.update(&prefix);
        RecordChecksum(digest)
    }

    pub(crate) fn add(&mut self, payload: &[u8]) {
        self.0.update(payload);
    }

    pub(crate) fn sum(&self) -> u32 {
        mask(self.0.finalize() as u32)
    }
}

/// The first bytes of a data record whose payload was added up, or of a void one.
pub(crate) fn head(record: &Record) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    put_u32(&mut bytes, 0, record.checksum);
    bytes[4..].copy_from_slice(&record.tail());
    bytes
}

/// The first 16 bytes of a void record that takes `log_bytes` of the log.
pub(crate) fn void(
    incarnation: Incarnation,
    lsn: u64,
    synced: u64,
    log_bytes: u64,
) -> [u8; RECORD_BYTES] {
    debug_assert!(log_bytes >= RECORD_BYTES as u64 && log_bytes.is_multiple_of(ALIGN as u64));
    let length = log_bytes as u32 - RECORD_BYTES as u32;
    let mut record = Record { incarnation, kind: Kind::Void, length, synced, checksum: 0 };
    record.checksum = RecordChecksum::new(lsn, &record).sum();
    head(&record)
}

/// Bytes behind the head of a void record that is a time mark.
pub(crate) const TIME_BYTES: usize = 24;
const TIME_MAGIC: [u8; 8] = *b"KEYRTIME";

/// The bytes of a time mark behind its head. The checksum covers them, and where they lie, as that
/// of a void record does not.
pub(crate) fn encode_time(incarnation: Incarnation, lsn: u64, unix_ms: u64) -> [u8; TIME_BYTES] {
    let mut bytes = [0; TIME_BYTES];
    bytes[..8].copy_from_slice(&TIME_MAGIC);
    put_u64(&mut bytes, 8, unix_ms);
    let checksum = time_checksum(&bytes[..16], incarnation, lsn);
    put_u32(&mut bytes, 16, checksum);
    bytes
}

/// The milliseconds since 1970 of a time mark. `None` if the bytes are not one.
pub(crate) fn decode_time(bytes: &[u8], incarnation: Incarnation, lsn: u64) -> Option<u64> {
    let bytes: &[u8; TIME_BYTES] = bytes.first_chunk()?;
    let is_mark = bytes[..8] == TIME_MAGIC
        && get_u32(bytes, 16) == time_checksum(&bytes[..16], incarnation, lsn);
    is_mark.then(|| get_u64(bytes, 8))
}

fn time_checksum(bytes: &[u8], incarnation: Incarnation, lsn: u64) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&incarnation.epoch.to_le_bytes());
    digest.update(&lsn.to_le_bytes());
    digest.update(bytes);
    mask(digest.finalize() as u32)
}

/// Bytes of the payload that [`small`] takes.
pub(crate) const SMALL_BYTES_MAX: usize = 224;
/// The epoch and the LSN, which are summed up and not written, precede the record.
const SMALL_PREFIX: usize = 16;

/// The buffer in which a small record is encoded.
pub(crate) type SmallBuffer = [u8; SMALL_PREFIX + RECORD_BYTES + SMALL_BYTES_MAX];

/// Encodes a record with a payload of at most [`SMALL_BYTES_MAX`] bytes, in one piece and with one
/// checksum call. Returns the bytes to write.
pub(crate) fn small<'a>(
    buffer: &'a mut SmallBuffer,
    incarnation: Incarnation,
    lsn: u64,
    synced: u64,
    parts: &[&[u8]],
) -> &'a [u8] {
    // The summed bytes have to be contiguous. So epoch and LSN move up by the 4 bytes of the
    // checksum, which replaces their last 4 bytes afterwards.
    const SUM: usize = SMALL_PREFIX;
    const TAIL: usize = SUM + 4;
    let mut end = SMALL_PREFIX + RECORD_BYTES;
    for part in parts {
        buffer[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    let length = (end - SMALL_PREFIX - RECORD_BYTES) as u32;
    let record = Record { incarnation, kind: Kind::Data, length, synced, checksum: 0 };
    put_u64(buffer, 4, incarnation.epoch);
    put_u64(buffer, 12, lsn);
    put(buffer, TAIL, record.tail());
    let checksum = mask(crc32_iscsi(&buffer[4..end]));
    put_u32(buffer, SUM, checksum);
    &buffer[SMALL_PREFIX..SMALL_PREFIX + log_bytes_of(length as usize)]
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        start: 3 << 20,
        segment_bytes: 1 << 20,
        epoch: 7,
        previous_end: 12_345,
        synced: 11_111,
        recycled: true,
        id: 99,
    };

    #[test]
    fn checksums_are_those_of_the_standard() {
        // The check value of CRC-32C.
        assert_eq!(crc32_iscsi(b"123456789"), 0xe306_9283);
        assert_eq!(mask(0), 0xa282_ead8);
    }

    #[test]
    fn a_header_reads_back_and_no_flipped_bit_passes() {
        let bytes = HEADER.encode();
        assert_eq!(Header::decode(&bytes), Ok(HEADER));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn later_versions_and_features_are_refused() {
        for (at, what) in [(8, "version"), (12, "feature")] {
            let mut bytes = HEADER.encode();
            bytes[at] |= 2;
            let checksum = mask(crc32_iscsi(&bytes[..HEADER_CHECKSUM]));
            put_u32(&mut bytes, HEADER_CHECKSUM, checksum);
            let (offset, message) = Header::decode(&bytes).unwrap_err();
            assert_eq!(offset, at as u64);
            assert!(message.contains(what), "{message}");
        }
    }

    #[test]
    fn a_seal_reads_back_and_no_flipped_bit_passes() {
        let seal = Seal { start: 1 << 30, epoch: 3, end: (1 << 30) + 64 };
        let bytes = seal.encode();
        assert_eq!(Seal::decode(&bytes), Some(seal));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Seal::decode(&damaged), None, "bit {bit}");
        }
    }

    #[test]
    fn a_mark_reads_back_and_no_flipped_bit_passes() {
        let mark = Mark { id: 5, sequence: 9, start: 3 << 20, segment_bytes: 1 << 20, end: 7 };
        let bytes = mark.encode();
        assert_eq!(Mark::decode(&bytes), Some(mark));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Mark::decode(&damaged), None, "bit {bit}");
        }
    }

    fn incarnation(epoch: u64) -> Incarnation {
        Incarnation::new(4_096, 4_096, epoch)
    }

    #[test]
    fn both_encoders_of_a_record_agree() {
        for length in 0..=SMALL_BYTES_MAX {
            let payload: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
            let (front, back) = payload.split_at(length / 3);
            let mut buffer = [0; _];
            let bytes = small(&mut buffer, incarnation(9), 4_096, 512, &[front, b"", back]);
            assert_eq!(bytes.len(), log_bytes_of(length));
            let start = bytes.first_chunk().unwrap();
            let record = Record::parse(start, incarnation(9), 4_096, bytes.len() as u64).unwrap();
            assert_eq!((record.kind, record.synced), (Kind::Data, 512));
            assert_eq!(record.length as usize, length);
            assert_eq!(&bytes[RECORD_BYTES..RECORD_BYTES + length], payload);
            let mut checksum = RecordChecksum::new(4_096, &record);
            checksum.add(&payload);
            assert_eq!(checksum.sum(), record.checksum);
            assert_eq!(head(&record), *start);
        }
    }

    #[test]
    fn a_record_of_another_incarnation_or_lsn_has_another_checksum() {
        let sum = |epoch, lsn| {
            let bytes = void(incarnation(epoch), lsn, 0, 64);
            Record::parse(&bytes, incarnation(epoch), lsn, 64).unwrap().checksum
        };
        assert_ne!(sum(1, 4_096), sum(2, 4_096));
        assert_ne!(sum(1, 4_096), sum(1, 8_192));
    }

    #[test]
    fn bytes_that_cannot_be_a_record_are_refused() {
        let parse = |bytes, lsn, left| Record::parse(bytes, incarnation(1), lsn, left);
        assert_eq!(parse(&[0; RECORD_BYTES], 4_096, 4_096), None, "zeros");
        let bytes = void(incarnation(1), 4_096, 4_096, 64);
        assert!(parse(&bytes, 4_096, 64).is_some());
        assert_eq!(parse(&bytes, 4_096, 56), None, "longer than the segment");
        assert_eq!(parse(&bytes, 4_088, 64), None, "synced beyond itself");
        assert_eq!(
            Record::parse(&bytes, incarnation(2), 4_096, 64),
            None,
            "of another incarnation"
        );
        let longest = [0xff, 0xff, 0xff, 0xff];
        let mut huge = bytes;
        huge[4..8].copy_from_slice(&longest);
        assert_eq!(parse(&huge, 4_096, u64::from(u32::MAX)), None);
    }
}
