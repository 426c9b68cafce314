//! Answers, as a server writes them.

use super::op;
use crate::msgpack::{
    Int, put_array, put_array_at, put_bool, put_int, put_nil, put_str, reserve_array,
};

/// What the server says that its rows are: columns of bytes.
pub const ROW_TYPE: &str = "Bag";

/// Appends answers to a connection's output.
#[derive(Debug)]
pub struct ReplyWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> ReplyWriter<'a> {
    /// A writer for one peer.
    #[inline]
    #[must_use]
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// `[seq, 15, true, thread, "Bag"]`: welcome, served by `thread`.
    pub fn handshake(&mut self, seq: Int, thread: u32) {
        self.head(5, seq, op::HANDSHAKE + 1);
        put_bool(self.out, true);
        put_int(self.out, u64::from(thread));
        put_str(self.out, ROW_TYPE.as_bytes());
    }

    /// `[seq, 15, false, "bad maxkeylen"]`. The connection is closed behind it.
    pub fn refuse_handshake(&mut self, seq: Int) {
        self.head(4, seq, op::HANDSHAKE + 1);
        put_bool(self.out, false);
        put_str(self.out, b"bad maxkeylen");
    }

    /// `[seq, 3, value...]`: the answer to a get whose row is there. `count` calls of
    /// [`ReplyWriter::value`] have to follow. A row of no values looks as one that is not there.
    ///
    /// # Panics
    /// When `count` is above 2^32 - 3.
    #[inline]
    pub fn row(&mut self, seq: Int, count: u32) {
        self.head(count.checked_add(2).expect("fewer values than 2^32"), seq, op::GET + 1);
    }

    /// A value of a row; `None`: the row has no such column.
    #[inline]
    pub fn value(&mut self, value: Option<&[u8]>) {
        match value {
            Some(bytes) => put_str(self.out, bytes),
            None => put_nil(self.out),
        }
    }

    /// `[seq, 3]`: the answer to a get whose row is not there.
    #[inline]
    pub fn miss(&mut self, seq: Int) {
        self.head(2, seq, op::GET + 1);
    }

    /// `[seq, 7, 1]`, or 2 if there was a row before: the answer to a put.
    #[inline]
    pub fn put(&mut self, seq: Int, inserted: bool) {
        self.stored(seq, op::PUT + 1, inserted);
    }

    /// `[seq, 9, 1]`, or 2 if there was a row before: the answer to a replace.
    #[inline]
    pub fn replace(&mut self, seq: Int, inserted: bool) {
        self.stored(seq, op::REPLACE + 1, inserted);
    }

    /// `[seq, 11, removed]`.
    #[inline]
    pub fn remove(&mut self, seq: Int, removed: bool) {
        self.head(3, seq, op::REMOVE + 1);
        put_bool(self.out, removed);
    }

    /// `[seq, 5, key, value, ...]`: begins the answer to a scan. It is whole at any time, with the
    /// rows that were added so far.
    pub fn scan(&mut self, seq: Int) -> ScanWriter<'_> {
        let place = reserve_array(self.out);
        put_array_at(self.out, place, 2);
        put_int(self.out, seq);
        put_int(self.out, op::SCAN + 1);
        ScanWriter { out: self.out, place, rows: 0 }
    }

    /// `[seq, 13]`: a checkpoint has begun.
    pub fn checkpoint(&mut self, seq: Int) {
        self.head(2, seq, op::CHECKPOINT + 1);
    }

    /// `[seq, -1]`: that was no request. The connection is closed behind it.
    pub fn unknown(&mut self, seq: Int) {
        put_array(self.out, 2);
        put_int(self.out, seq);
        put_int(self.out, op::UNKNOWN);
    }

    fn stored(&mut self, seq: Int, operation: u64, inserted: bool) {
        self.head(3, seq, operation);
        put_int(self.out, if inserted { op::INSERTED } else { op::UPDATED });
    }

    #[inline]
    fn head(&mut self, count: u32, seq: Int, operation: u64) {
        put_array(self.out, count);
        put_int(self.out, seq);
        put_int(self.out, operation);
    }
}

/// Adds rows to the answer of a scan.
#[derive(Debug)]
pub struct ScanWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Where the answer begins.
    place: usize,
    rows: u32,
}

impl ScanWriter<'_> {
    /// A row of one value, or of the one column that was asked for.
    ///
    /// # Panics
    /// When there are 2^31 - 1 rows already.
    #[inline]
    pub fn one(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.key(key);
        self.value(value);
    }

    /// A row of several values; `count` calls of [`ScanWriter::value`] have to follow.
    ///
    /// # Panics
    /// As [`ScanWriter::one`].
    pub fn row(&mut self, key: &[u8], count: u32) {
        self.key(key);
        put_array(self.out, count);
    }

    /// A value of the row that was begun.
    #[inline]
    pub fn value(&mut self, value: Option<&[u8]>) {
        match value {
            Some(bytes) => put_str(self.out, bytes),
            None => put_nil(self.out),
        }
    }

    /// Rows so far.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Bytes of the answer so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.out.len() - self.place
    }

    fn key(&mut self, key: &[u8]) {
        assert!(self.rows < u32::MAX / 2 - 1, "an array has fewer than 2^32 elements");
        self.rows += 1;
        put_array_at(self.out, self.place, 2 + 2 * self.rows);
        put_str(self.out, key);
    }
}
