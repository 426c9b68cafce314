//! Histograms in the interchange formats of HdrHistogram, for tools that read those: histogram log
//! analysers, plotters, and our own `compare`.
//!
//! The encoding is V2 with DEFLATE, three significant digits, in nanoseconds, as base64. A log is
//! text: a header, then one line per interval.
//!
//! ```text
//! #[Histogram log format version 1.3]
//! #[StartTime: 1700000000.000 (seconds since epoch)]
//! #[BaseTime: 1700000000.000 (seconds since epoch)]
//! #[MaxValueDivisor: 1000000.000]
//! "StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"
//! Tag=get,0.000,1.000,2.769,HISTFAAA...
//!         |     |     |     the histogram
//!         |     |     its maximum in milliseconds, for people
//!         |     length in seconds
//!         start in seconds after BaseTime
//! ```
//!
//! Three digits cut an octave into at least 1024 parts, ours into 128, and the borders coincide: a
//! bucket goes out as its midpoint, comes back into the same bucket, and percentiles survive the
//! journey. Minimum and maximum go out as values of their own; they, and the sum, come back within
//! 1/1024 (exactly below 2048).
//!
//! The formats and their bytes are the business of the `hdrhistogram` crate.
#![forbid(unsafe_code)]

mod error;

pub use error::Error;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, SystemTime};

use base64::DecodeError;
use base64::prelude::{BASE64_STANDARD, Engine};
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};
use keyrack_measure::Histogram;

type Peer = hdrhistogram::Histogram<u64>;

const SIGNIFICANT_DIGITS: u8 = 3;
const NS_PER_MS: f64 = 1e6;
/// Values and counts are signed in the format.
const SIGNED_MAX: u64 = i64::MAX as u64;
/// The first four bytes of an encoding, which say how it continues.
const V2_COOKIE: u32 = 0x1c84_9313;
const V2_DEFLATE_COOKIE: u32 = 0x1c84_9314;
/// Bytes before the part whose length the encoding declares, in its second four bytes.
const V2_HEADER_BYTES: usize = 40;
const V2_DEFLATE_HEADER_BYTES: usize = 8;
const VERSION: &str = "[Histogram log format version 1.3]";
const LEGEND: &str =
    r#""StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram""#;

/// The histogram as base64 of its V2 DEFLATE encoding, without a line end. O(buckets).
///
/// Counts above `i64::MAX` are written as `i64::MAX`, the limit of the format.
pub fn export(histogram: &Histogram) -> String {
    let line = log_line("", 0.0, 0.0, histogram);
    line.trim_end().rsplit(',').next().unwrap_or_default().to_owned()
}

/// One line of a log, with its line end. O(buckets).
///
/// `start_s` counts from the start given to [`log_header`]; both times are in seconds, kept to the
/// millisecond, and 0 when negative or not finite. Commas, spaces and control characters cannot
/// stand in a tag and become `_`; an empty tag is left out.
///
/// # Panics
/// Never on any histogram: what the format cannot hold has been limited before.
pub fn log_line(tag: &str, start_s: f64, interval_s: f64, histogram: &Histogram) -> String {
    let tag = tag.replace(|c: char| c == ',' || c.is_whitespace() || c.is_control(), "_");
    let tag = Some(tag.as_str()).filter(|tag| !tag.is_empty()).and_then(Tag::new);
    let mut line = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    IntervalLogWriterBuilder::new()
        .with_max_value_divisor(NS_PER_MS)
        .begin_log_with(&mut line, &mut serializer)
        .and_then(|mut writer| {
            writer
                .write_histogram(&to_peer(histogram), seconds(start_s), seconds(interval_s), tag)
                .map_err(std::io::Error::other)
        })
        .expect("a histogram within the limits of the format is written to memory");
    // The writer opens with a header of its own; the line itself is the last.
    let text = String::from_utf8_lossy(&line);
    let line = text.trim_end().rsplit('\n').next().unwrap_or_default();
    format!("{line}\n")
}

/// The header of a log whose intervals count from `start_unix_s` seconds since the epoch.
///
/// # Panics
/// Never: the text is written to memory.
pub fn log_header(start_unix_s: f64) -> String {
    let mut header = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let start =
        SystemTime::UNIX_EPOCH.checked_add(seconds(start_unix_s)).unwrap_or(SystemTime::UNIX_EPOCH);
    IntervalLogWriterBuilder::new()
        .add_comment(VERSION)
        .with_start_time(start)
        .with_base_time(start)
        .with_max_value_divisor(NS_PER_MS)
        .begin_log_with(&mut header, &mut serializer)
        .expect("text is written to memory");
    format!("{}{LEGEND}\n", String::from_utf8_lossy(&header))
}

/// Reads back what [`export`] wrote, or any base64 HdrHistogram in V2, compressed or not. Values
/// are taken as nanoseconds. O(length + buckets).
///
/// A text that was cut short is noticed; the format's decoder does not look at the checksum of the
/// compressed bytes, so not every other damage is.
///
/// # Errors
/// [`Error::Base64`] or [`Error::Encoding`] when the text is not an encoded histogram.
pub fn import(encoded: &str) -> Result<Histogram, Error> {
    let bytes = base64(encoded.trim())?;
    check_length(&bytes)?;
    // The decoder trusts its input in places: an overflow there must not end the program.
    let decoded =
        catch_unwind(AssertUnwindSafe(|| Deserializer::new().deserialize(&mut bytes.as_slice())));
    let peer: Peer = match decoded {
        Ok(Ok(peer)) => peer,
        Ok(Err(error)) => return Err(refusal(error.to_string())),
        Err(_) => return Err(refusal("a count is out of range")),
    };
    let mut histogram = Histogram::new();
    for step in peer.iter_recorded() {
        let value = peer.median_equivalent(step.value_iterated_to());
        histogram.record_n(value, step.count_at_value());
    }
    Ok(histogram)
}

/// Decodes standard base64 with its padding. O(length).
fn base64(text: &str) -> Result<Vec<u8>, Error> {
    BASE64_STANDARD.decode(text).map_err(|error| {
        let offset = match error {
            DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
            DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len(),
        };
        Error::Base64 { offset }
    })
}

/// Compares the length that an encoding declares with the bytes there are.
fn check_length(bytes: &[u8]) -> Result<(), Error> {
    let word = |at: usize| -> Option<u32> {
        bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes)
    };
    let (Some(cookie), Some(declared)) = (word(0), word(4)) else {
        return Err(refusal(format!("{} bytes are too few", bytes.len())));
    };
    let header = match cookie {
        V2_COOKIE => V2_HEADER_BYTES,
        V2_DEFLATE_COOKIE => V2_DEFLATE_HEADER_BYTES,
        _ => return Err(refusal(format!("unknown format {cookie:#010x}"))),
    };
    let found = bytes.len().saturating_sub(header);
    if declared as usize != found {
        return Err(refusal(format!("{declared} bytes declared, {found} found")));
    }
    Ok(())
}

fn refusal(reason: impl Into<String>) -> Error {
    Error::Encoding { reason: reason.into() }
}

/// The same counts in the other library's type.
fn to_peer(histogram: &Histogram) -> Peer {
    let (min, max) = (histogram.min().unwrap_or(0), histogram.max().unwrap_or(0));
    let high = max.clamp(Histogram::CLAMP_MIN, SIGNED_MAX);
    let mut peer = Peer::new_with_bounds(1, high, SIGNIFICANT_DIGITS)
        .expect("the bounds are in order and three digits are allowed");
    let ends = if min == max { vec![min] } else { vec![min, max] };
    for (bucket_low, bucket_high, count) in histogram.buckets() {
        let mut left = count.min(SIGNED_MAX);
        for &end in ends.iter().filter(|end| (bucket_low..=bucket_high).contains(end)) {
            if left > 0 {
                peer.saturating_record(end.min(high));
                left -= 1;
            }
        }
        if left > 0 {
            let value = bucket_low.midpoint(bucket_high).clamp(min, max);
            peer.saturating_record_n(value.min(high), left);
        }
    }
    peer
}

/// Seconds as a duration; 0 when there is none.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests;
