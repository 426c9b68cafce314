//! `lru_crawler metadump` and `stats cachedump`: what keys there are. Clients that copy or look at
//! a cache ask so (memcached-tool, libmemcached's `memcdump`).
//!
//! A metadump goes through all rows in slices, so that other connections are served; what is
//! written meanwhile may be in it or not. A cachedump is one reply of at most a megabyte.

use super::cx::Cx;
use super::items::visible;
use super::output::Output;
use keyrack_store::Error;
use std::io::Write;
use std::ops::ControlFlow;

const SLICE_ROWS_MAX: usize = 4096;

/// Bytes of a cachedump, as in memcached's classes of items.
const CACHEDUMP_BYTES_MAX: usize = 1 << 20;

/// Writes the lines of the keys from `low` on, as far as the iteration goes. Gives the key to go on
/// from, or nothing at the end.
pub(super) fn metadump(
    cx: &mut Cx<'_>,
    low: &[u8],
    out: &mut Output<'_>,
) -> Result<Option<Vec<u8>>, Error> {
    let (now_ms, reads) = (cx.now_ms, &cx.shared.reads);
    let mut rows = 0;
    let mut next = None;
    cx.rows.scan(low, None, &mut |key, row| {
        if rows == SLICE_ROWS_MAX || out.is_full() {
            next = Some(key.to_vec());
            return ControlFlow::Break(());
        }
        rows += 1;
        let Some(row) = visible(Some(row)) else { return ControlFlow::Continue(()) };
        let last = reads.last(key, now_ms);
        out.bytes.extend_from_slice(b"key=");
        encode(key, out.bytes);
        let _ = match row.expires_ms() {
            0 => write!(out.bytes, " exp=-1"),
            expires_ms => write!(out.bytes, " exp={}", expires_ms / 1000),
        };
        // Writing to a vector does not fail.
        let _ = write!(
            out.bytes,
            " la={} cas={} fetch={} cls=1 size={}\r\n",
            (now_ms / 1000).saturating_sub(last.idle_s),
            row.cas(),
            if last.was_read { "yes" } else { "no" },
            key.len() + row.value().len(),
        );
        ControlFlow::Continue(())
    })?;
    Ok(next)
}

/// Letters, digits and `-._~` as they are, other bytes as `%` and two digits.
fn encode(key: &[u8], out: &mut Vec<u8>) {
    for byte in key {
        match byte {
            b'-' | b'.' | b'_' | b'~' => out.push(*byte),
            byte if byte.is_ascii_alphanumeric() => out.push(*byte),
            byte => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
}

/// Writes the lines of the first `count` keys, of all when it is 0, and as many as fit.
pub(super) fn cachedump(cx: &mut Cx<'_>, count: u64, out: &mut Vec<u8>) -> Result<(), Error> {
    let full_at = out.len().saturating_add(CACHEDUMP_BYTES_MAX);
    let (mut left, mut rows) = (count, 0);
    cx.rows.scan(b"", None, &mut |key, row| {
        rows += 1;
        if out.len() >= full_at || rows > SLICE_ROWS_MAX {
            return ControlFlow::Break(());
        }
        // A key that a line cannot hold is left out.
        let is_plain = !key.iter().any(|byte| byte.is_ascii_control() || *byte == b' ');
        let Some(row) = visible(Some(row)).filter(|_| is_plain) else {
            return ControlFlow::Continue(());
        };
        out.extend_from_slice(b"ITEM ");
        out.extend_from_slice(key);
        // Writing to a vector does not fail.
        let _ = write!(out, " [{} b; {} s]\r\n", row.value().len(), row.expires_ms() / 1000);
        left = left.wrapping_sub(1);
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(())
}
