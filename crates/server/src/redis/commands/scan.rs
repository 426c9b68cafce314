//! Walks over keys: SCAN, KEYS, RANDOMKEY, and Keyrack's own KR.RANGE and KR.COUNT.
//!
//! Keys have an order, which all of these use. A pattern that begins with plain bytes is looked for
//! among the keys that begin with them, not among all. How SCAN goes on is described in `cursor`,
//! how the others are cut into slices in `task`.

use keyrack_decimal::Decimal;
use keyrack_rowstore::Row;
use keyrack_wire::resp::Writer;
use std::ops::ControlFlow;

use crate::redis::call::{Call, type_name};
use crate::redis::context::CommandContext;
use crate::redis::fault::{Done, Fault};
use crate::redis::glob::{Glob, Match};
use crate::redis::key_range::prefix_end;
use crate::redis::number::natural;
use crate::redis::task::{Count, Range, SLICE_BYTES_MAX, Task};

/// Rows that one SCAN visits at most, and fields that one HSCAN does, however large its COUNT.
pub(crate) const COUNT_MAX: usize = 4096;

/// The options of SCAN and HSCAN.
#[derive(Debug)]
pub(crate) struct ScanOptions<'a> {
    glob: Option<Glob<'a>>,
    pub(crate) count: usize,
    /// Rows of which type; `Some(None)` is one that there is not.
    kind: Option<Option<&'static str>>,
}

impl<'a> ScanOptions<'a> {
    pub(crate) fn parse(call: &Call<'a>, first: usize, may_have_type: bool) -> Result<Self, Fault> {
        let mut options = ScanOptions { glob: None, count: 10, kind: None };
        for index in (first..call.count()).step_by(2) {
            let Some(value) = call.args.get(index + 1) else { return Err(Fault::SYNTAX) };
            if call.is(index, "count") {
                let count = call.integer(index + 1)?;
                let count = usize::try_from(count).ok().filter(|&count| count > 0);
                options.count = count.ok_or(Fault::SYNTAX)?.min(COUNT_MAX);
            } else if call.is(index, "match") {
                options.glob = Some(Glob::new(value)).filter(|glob| !glob.is_any());
            } else if call.is(index, "type") && may_have_type {
                let known = ["string", "hash"];
                let kind = known.into_iter().find(|k| value.eq_ignore_ascii_case(k.as_bytes()));
                options.kind = Some(kind);
            } else {
                return Err(Fault::SYNTAX);
            }
        }
        Ok(options)
    }

    pub(crate) fn matches(&self, text: &[u8]) -> Match {
        self.glob.as_ref().map_or(Match::Yes, |glob| glob.matches(text))
    }

    fn has_type(&self, row: &Row<'_>) -> bool {
        self.kind.is_none_or(|kind| kind == Some(type_name(row)))
    }
}

impl Call<'_> {
    /// The place of the cursor in argument `index`; nothing for the beginning.
    pub(crate) fn cursor(&self, index: usize) -> Result<Option<Box<[u8]>>, Fault> {
        match natural(self.arg(index)).ok_or(Fault::CURSOR)? {
            0 => Ok(None),
            cursor => {
                let cursors = self.ctx.shared.cursors();
                Ok(Some(cursors.place(cursor).ok_or(Fault::CURSOR)?.into()))
            }
        }
    }
}

pub(crate) fn scan(call: &mut Call<'_>) -> Done {
    let from = call.cursor(1)?;
    let options = ScanOptions::parse(call, 2, true)?;
    let prefix = options.glob.as_ref().map_or(&[][..], Glob::prefix);
    let low = from.as_deref().unwrap_or(prefix);
    let high = prefix_end(prefix);
    let protocol = call.reply.protocol();
    let CommandContext { rows, local, shared, .. } = &mut call.ctx;
    let (body, place) = (&mut local.bytes, &mut local.more_bytes);
    body.clear();
    place.clear();
    let mut found = Writer::new(body, protocol);
    let (mut count, mut visited, mut is_stuck) = (0, 0, false);
    rows.scan(low.max(prefix), high.as_deref(), &mut |key, row| {
        match options.matches(key) {
            Match::Yes if options.has_type(&row) => {
                found.bulk(key);
                count += 1;
            }
            Match::Yes | Match::No => {}
            Match::TooLong => {
                // The next call begins with this key, and steps enough for it.
                is_stuck = visited == 0;
                place.extend_from_slice(key);
                return ControlFlow::Break(());
            }
        }
        visited += 1;
        if visited < options.count && found.place() < SLICE_BYTES_MAX {
            return ControlFlow::Continue(());
        }
        place.extend_from_slice(key);
        place.push(0);
        ControlFlow::Break(())
    })?;
    if is_stuck {
        return Err(Fault::PATTERN);
    }
    let next = if place.is_empty() { 0 } else { shared.cursors().add(place) };
    call.reply.array(2);
    call.reply.bulk(&Decimal::new(next));
    call.reply.array(count);
    call.reply.append(body);
    Ok(())
}

pub(crate) fn keys(call: &mut Call<'_>) -> Done {
    call.begin(Task::keys(call.arg(1)))
}

pub(crate) fn range(call: &mut Call<'_>) -> Done {
    let (low, high) = (call.arg(1), call.arg(2));
    let mut range = Range::new(low, high);
    let mut index = 3;
    while index < call.count() {
        match () {
            () if call.is(index, "rev") => range.is_reverse = true,
            () if call.is(index, "withcolumns") => range.with_columns = true,
            () if call.is(index, "limit") && index + 1 < call.count() => {
                index += 1;
                range.limit = call.natural(index)?;
            }
            () => return Err(Fault::SYNTAX),
        }
        index += 1;
    }
    call.begin(Task::Range(range))
}

pub(crate) fn count(call: &mut Call<'_>) -> Done {
    call.begin(Task::Count(Count::new(call.arg(1), call.arg(2))))
}

/// Levels that RANDOMKEY goes down before it takes what is first there.
const LEVELS_MAX: usize = 64;

/// Draws a key; see [`draw`].
pub(crate) fn randomkey(call: &mut Call<'_>) -> Done {
    let CommandContext { rows, local, .. } = &mut call.ctx;
    let key = draw(&mut local.rng, &mut |low, high, is_reverse| {
        let mut found = None;
        let mut visit = |key: &[u8], _: Row<'_>| {
            found = Some(key.to_vec());
            ControlFlow::Break(())
        };
        if is_reverse {
            rows.scan_rev(low, high, &mut visit)?;
        } else {
            rows.scan(low, high, &mut visit)?;
        }
        Ok(found)
    })?;
    match key {
        Some(key) => call.reply.bulk(&key),
        None => call.reply.null(),
    }
    Ok(())
}

/// Returns the first key of a range, or the last one.
type End<'e> = dyn FnMut(&[u8], Option<&[u8]>, bool) -> Result<Option<Vec<u8>>, Fault> + 'e;

/// Draws a key byte by byte: among the bytes that may come next, one, then among the keys that
/// begin so, the byte behind it. Keys of digits, or of bytes drawn evenly, come about equally
/// often; others come the more often, the fewer share their first bytes. O(bytes of the key)
/// lookups by `end`.
pub(crate) fn draw(
    rng: &mut keyrack_workload::Rng,
    end: &mut End<'_>,
) -> Result<Option<Vec<u8>>, Fault> {
    let mut prefix = Vec::new();
    let mut key = None;
    for _ in 0..LEVELS_MAX {
        let high = prefix_end(&prefix);
        let first = end(&prefix, high.as_deref(), false)?;
        let last = end(&prefix, high.as_deref(), true)?;
        let (Some(first), Some(last)) = (first, last) else {
            // Keys were removed meanwhile. The key that was found before was there.
            break;
        };
        let shared = first.iter().zip(&last).take_while(|(a, b)| a == b).count();
        let first = &*key.insert(first);
        let Some(&high) = last.get(shared) else { break };
        // Where the first key ends here it is one of those to draw from.
        let low = first.get(shared).copied();
        let choices = u64::from(high - low.unwrap_or(0)) + 1 + u64::from(low.is_none());
        let drawn = rng.below(choices);
        let Some(step) = drawn.checked_sub(u64::from(low.is_none())) else { break };
        prefix.clear();
        prefix.extend_from_slice(&first[..shared]);
        prefix.push(low.unwrap_or(0) + u8::try_from(step).unwrap_or(0));
        // No key may begin so; then with what the next key begins.
        let Some(next) = end(&prefix, None, false)? else { break };
        prefix.clear();
        prefix.extend_from_slice(&next[..(shared + 1).min(next.len())]);
    }
    Ok(key)
}
