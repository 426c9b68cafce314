//! When rows are due that have times.
//!
//! Most traces count in whole seconds, so many rows have the same time. They are spread evenly over
//! the second, or over what lies before the next time if that is less, in their order:
//!
//! ```text
//!   rows      5: a b c d       7: e f     8: ...
//!   offsets   0 .25 .5 .75     2  2.5     3        seconds from the first row, at speed 1
//! ```
//!
//! For that the rows of one time are read before the first of them is handed out, up to 65,536.
//! What is beyond has half of the room that is left, and so on. Times that go back count as the
//! latest one before. Behind the end a loop goes on where the last second ends.

use std::collections::VecDeque;

use super::{Error, Op, Reader, Row};

/// Rows that are held at most.
const ROWS_MAX: usize = 1 << 16;
/// The room of rows with one time.
const ROOM_S: f64 = 1.0;

/// How fast times pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// 2 is twice as fast as it was. More than 0.
    pub speed: f64,
    /// Whether the file begins again after its end.
    pub is_loop: bool,
}

#[derive(Debug)]
struct Held {
    at_s: f64,
    is_timed: bool,
    op: Op,
    key: Vec<u8>,
    value_bytes: u32,
    ttl_s: u32,
    client: u64,
}

/// A reader whose rows have offsets.
#[derive(Debug)]
pub struct Paced {
    reader: Reader,
    pace: Pace,
    rows: VecDeque<Held>,
    /// The first row of the time that follows those held.
    next: Option<Held>,
    current: Option<Held>,
    /// The time of the file that is offset `base_s`.
    origin_s: Option<f64>,
    base_s: f64,
    /// Where the rows held begin and what they have for themselves.
    latest_s: f64,
    is_over: bool,
    spare: Vec<Vec<u8>>,
}

impl Paced {
    /// Paces a reader.
    ///
    /// # Panics
    /// Unless the speed is more than 0.
    #[must_use]
    pub fn new(reader: Reader, pace: Pace) -> Paced {
        assert!(pace.speed > 0.0 && pace.speed.is_finite(), "time passes forwards");
        Paced {
            reader,
            pace,
            rows: VecDeque::new(),
            next: None,
            current: None,
            origin_s: None,
            base_s: 0.0,
            latest_s: 0.0,
            is_over: false,
            spare: Vec::new(),
        }
    }

    /// The next row and its offset from the start of the replay; `None` at the end. Offsets never
    /// go back. Rows of a format without times are all due at once.
    ///
    /// # Errors
    /// As [`Reader::next_row`].
    pub fn next_row(&mut self) -> Result<Option<(u64, Row<'_>)>, Error> {
        if let Some(done) = self.current.take() {
            self.spare.push(done.key);
        }
        if self.rows.is_empty() {
            self.gather()?;
        }
        self.current = self.rows.pop_front();
        Ok(self.current.as_ref().map(|row| {
            let at_ns = (row.at_s / self.pace.speed * 1e9).round() as u64;
            let Held { op, ref key, value_bytes, ttl_s, client, .. } = *row;
            (at_ns, Row { time_s: None, op, key, value_bytes, ttl_s, client })
        }))
    }

    /// The reader, for its counts.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Reads the rows of one time, and gives them their offsets.
    fn gather(&mut self) -> Result<(), Error> {
        let first = match self.next.take() {
            Some(row) => Some(row),
            None => self.read()?,
        };
        let Some(first) = first else { return Ok(()) };
        let at_s = first.at_s.max(self.latest_s);
        let is_timed = first.is_timed;
        self.rows.push_back(first);
        let mut end_s = at_s + if is_timed { ROOM_S } else { 0.0 };
        while is_timed && let Some(row) = self.read()? {
            if row.at_s > at_s {
                end_s = end_s.min(row.at_s);
                self.next = Some(row);
                break;
            }
            if self.rows.len() == ROWS_MAX {
                // It belongs to the same time, which from here on is the rest of it.
                end_s = at_s + (at_s.floor() + ROOM_S - at_s) / 2.0;
                self.next = Some(Held { at_s: end_s, ..row });
                break;
            }
            self.rows.push_back(row);
        }
        let count = self.rows.len() as f64;
        for (index, row) in self.rows.iter_mut().enumerate() {
            row.at_s = at_s + (end_s - at_s) * index as f64 / count;
        }
        self.latest_s = end_s;
        Ok(())
    }

    /// The next row of the file, its time as an offset at speed 1.
    fn read(&mut self) -> Result<Option<Held>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let mut key = self.spare.pop().unwrap_or_default();
        loop {
            if let Some(row) = self.reader.next_row()? {
                let is_timed = row.time_s.is_some();
                let time_s = row.time_s.unwrap_or(0.0);
                let origin_s = *self.origin_s.get_or_insert(time_s);
                let at_s = self.base_s + (time_s - origin_s).max(0.0);
                key.clear();
                key.extend_from_slice(row.key);
                let Row { op, value_bytes, ttl_s, client, .. } = row;
                return Ok(Some(Held { at_s, is_timed, op, key, value_bytes, ttl_s, client }));
            }
            // A share without a row would be read for ever.
            if !self.pace.is_loop || self.origin_s.is_none() {
                self.is_over = true;
                return Ok(None);
            }
            self.reader.rewind();
            self.origin_s = None;
            // Rows held are those of the last time; their second is still to come.
            self.base_s = match self.rows.back() {
                Some(row) => row.at_s.max(self.latest_s) + ROOM_S,
                None => self.latest_s,
            };
        }
    }
}
