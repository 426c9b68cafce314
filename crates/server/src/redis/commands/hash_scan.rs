//! HSCAN and HRANDFIELD.
//!
//! A hash of few fields is returned by one HSCAN, whatever COUNT says, as Redis does; of a large
//! one each call returns COUNT fields in the order of names, and the cursor remembers the next name
//! (see `cursor`).

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

use keyrack_rowstore::Collection;
use keyrack_wire::resp::Writer;

use crate::redis::call::Call;
use crate::redis::commands::hashes::{check_reply, read};
use crate::redis::commands::scan::{ScanOptions, draw};
use crate::redis::context::CommandContext;
use crate::redis::fault::{Done, Fault};
use crate::redis::glob::Match;
use crate::redis::task::SLICE_BYTES_MAX;

/// Fields that one HRANDFIELD draws at most, when they may come again and again.
pub(crate) const DRAWS_MAX: u64 = 1 << 20;

pub(crate) fn hscan(call: &mut Call<'_>) -> Done {
    let from = call.cursor(2)?;
    let options = ScanOptions::parse(call, 3, false)?;
    let small_max = call.ctx.shared.settings.small_hash_fields_max.load(Relaxed);
    let small_max = usize::try_from(small_max).unwrap_or(usize::MAX);
    let (shared, protocol) = (call.ctx.shared, call.reply.protocol());
    let mut body = std::mem::take(&mut call.ctx.local.bytes);
    let mut too_long = false;
    let key = call.arg(1);
    let mut id = None;
    call.ctx.rows.get(key, &mut |row| id = row.collection())?;
    let collection = id.and_then(|id| call.ctx.rows.collection(id));
    if let Some(collection) = collection {
        call.ctx.local.bytes = body;
        return scan_large(call, &collection, from.as_deref().unwrap_or_default(), &options);
    }
    let done = read(call, |hash, reply| {
        body.clear();
        let mut fields = Writer::new(&mut body, protocol);
        let (mut count, mut next) = (0, 0);
        if let Some(hash) = hash {
            let first = from.as_ref().map_or(0, |name| hash.seek(name));
            let last = if hash.len() <= small_max {
                hash.len()
            } else {
                first.saturating_add(options.count).min(hash.len())
            };
            for (name, value) in (first..last).map(|index| hash.field(index)) {
                match options.matches(&name) {
                    Match::Yes => {
                        fields.bulk(&name);
                        fields.bulk(value);
                        count += 2;
                    }
                    Match::No => {}
                    Match::TooLong => too_long = true,
                }
            }
            if last < hash.len() {
                next = shared.cursors().add(&hash.field(last).0);
            }
        }
        reply.array(2);
        reply.bulk(&keyrack_decimal::Decimal::new(next));
        reply.array(count);
        reply.append(&body);
    });
    call.ctx.local.bytes = body;
    if too_long { Err(Fault::PATTERN) } else { done }
}

/// HSCAN of a large hash: COUNT fields, or 1 MiB of them.
fn scan_large(
    call: &mut Call<'_>,
    collection: &Collection,
    from: &[u8],
    options: &ScanOptions<'_>,
) -> Done {
    let protocol = call.reply.protocol();
    let CommandContext { rows, local, shared, .. } = &mut call.ctx;
    let (body, place) = (&mut local.bytes, &mut local.more_bytes);
    body.clear();
    place.clear();
    let mut fields = Writer::new(body, protocol);
    let (mut count, mut visited, mut is_stuck) = (0, 0, false);
    rows.scan_elements(collection.id(), (from, None), false, &mut |name, row| {
        if visited >= options.count || fields.place() >= SLICE_BYTES_MAX {
            place.extend_from_slice(name);
            return ControlFlow::Break(());
        }
        match options.matches(name) {
            Match::Yes => {
                fields.bulk(name);
                fields.bulk(row.value());
                count += 2;
            }
            Match::No => {}
            Match::TooLong => {
                // The next call begins with this name, and steps enough for it.
                is_stuck = visited == 0;
                place.extend_from_slice(name);
                return ControlFlow::Break(());
            }
        }
        visited += 1;
        ControlFlow::Continue(())
    })?;
    if is_stuck {
        return Err(Fault::PATTERN);
    }
    let next = if place.is_empty() { 0 } else { shared.cursors().add(place) };
    call.reply.array(2);
    call.reply.bulk(&keyrack_decimal::Decimal::new(next));
    call.reply.array(count);
    call.reply.append(body);
    Ok(())
}

pub(crate) fn hrandfield(call: &mut Call<'_>) -> Done {
    let mut id = None;
    call.ctx.rows.get(call.arg(1), &mut |row| id = row.collection())?;
    if let Some(collection) = id.and_then(|id| call.ctx.rows.collection(id)) {
        return draw_large(call, &collection);
    }
    if call.count() == 2 {
        let draw = call.ctx.local.rng.next_u64();
        return read(call, |hash, reply| match hash.filter(|hash| hash.len() > 0) {
            None => reply.null(),
            Some(hash) => {
                let index = (draw % hash.len() as u64) as usize;
                reply.bulk(&hash.field(index).0);
            }
        });
    }
    let (count, with_values) = draw_options(call)?;
    let bytes_max = call.ctx.shared.options.reply_bytes_max;
    let mut rng = call.ctx.local.rng.clone();
    let is_resp3 = call.reply.protocol() == keyrack_wire::resp::Protocol::Resp3;
    let mut too_large = false;
    let done = read(call, |hash, reply| {
        let length = hash.map_or(0, |hash| hash.len());
        let picked = pick(length, count, &mut rng);
        let place = reply.place();
        reply.array(if with_values && !is_resp3 { 2 * picked.len() } else { picked.len() });
        for (name, value) in hash.iter().flat_map(|hash| picked.iter().map(|&i| hash.field(i))) {
            too_large |= reply.place() - place > bytes_max;
            if too_large {
                return;
            }
            if with_values && is_resp3 {
                reply.array(2);
            }
            reply.bulk(&name);
            if with_values {
                reply.bulk(value);
            }
        }
    });
    call.ctx.local.rng = rng;
    if too_large { Err(Fault::REPLY_TOO_LARGE) } else { done }
}

/// How many fields HRANDFIELD draws, and whether with their values.
fn draw_options(call: &Call<'_>) -> Result<(i64, bool), Fault> {
    let count = call.integer(2)?;
    let with_values = match call.count() {
        3 => false,
        4 if call.is(3, "withvalues") => true,
        _ => return Err(Fault::SYNTAX),
    };
    if count < 0 && count.unsigned_abs() > DRAWS_MAX {
        return Err(Fault::OUT_OF_RANGE);
    }
    Ok((count, with_values))
}

/// Fields of a large hash that are drawn one by one, with as many searches as a name has bytes. For
/// more different ones, and at least this part of all, the hash is scanned once.
const SCANNED_PART: u64 = 8;

/// Fields of a large hash that one HRANDFIELD draws one by one at most: the loop serves no other
/// client meanwhile.
const LARGE_DRAWS_MAX: usize = 1 << 14;

/// HRANDFIELD of a large hash.
fn draw_large(call: &mut Call<'_>, collection: &Collection) -> Done {
    let id = collection.id();
    if call.count() == 2 {
        match draw_name(call, id)? {
            Some((name, _)) => call.reply.bulk(&name),
            None => call.reply.null(),
        }
        return Ok(());
    }
    let (count, with_values) = draw_options(call)?;
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let length = call.ctx.rows.element_count(collection);
    let bytes_max = call.ctx.shared.options.reply_bytes_max;
    let mut drawn = Drawn { fields: Vec::new(), bytes: 0, bytes_max };
    if count < 0 && wanted > LARGE_DRAWS_MAX {
        return Err(Fault::TOO_MANY_DRAWS);
    }
    if count < 0 {
        for _ in 0..wanted {
            let Some(field) = draw_name(call, id)? else { break };
            drawn.add(field)?;
        }
    } else if wanted > LARGE_DRAWS_MAX || wanted as u64 >= length / SCANNED_PART {
        sample(call, id, wanted, length, &mut drawn)?;
    } else {
        draw_different(call, id, wanted, &mut drawn)?;
    }
    let drawn = drawn.fields;
    let is_resp3 = call.reply.protocol() == keyrack_wire::resp::Protocol::Resp3;
    call.reply.array(if with_values && !is_resp3 { 2 * drawn.len() } else { drawn.len() });
    for (name, value) in drawn {
        if with_values && is_resp3 {
            call.reply.array(2);
        }
        call.reply.bulk(&name);
        if with_values {
            call.reply.bulk(&value);
        }
    }
    Ok(())
}

/// Fields that were drawn, up to the limit of a reply.
struct Drawn {
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
    bytes_max: usize,
}

impl Drawn {
    fn add(&mut self, field: (Vec<u8>, Vec<u8>)) -> Done {
        self.bytes += field.0.len() + field.1.len();
        self.fields.push(field);
        check_reply(self.bytes, self.bytes_max)
    }
}

/// Draws `wanted` of `length` fields by one scan: each is taken with the chance of those that are
/// wanted among those that are left.
fn sample(call: &mut Call<'_>, id: u64, wanted: usize, length: u64, drawn: &mut Drawn) -> Done {
    let CommandContext { rows, local, .. } = &mut call.ctx;
    let (mut left, mut done) = (length, Ok(()));
    rows.scan_elements(id, (b"", None), false, &mut |name, row| {
        let missing = (wanted - drawn.fields.len()) as u64;
        if missing >= left || local.rng.below(left) < missing {
            done = drawn.add((name.to_vec(), row.value().to_vec()));
        }
        left = left.saturating_sub(1);
        let is_end = drawn.fields.len() == wanted || done.is_err();
        if is_end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    done
}

/// Draws `wanted` different fields, which are few of all.
fn draw_different(call: &mut Call<'_>, id: u64, wanted: usize, drawn: &mut Drawn) -> Done {
    let mut names = BTreeSet::new();
    // Few draws are in vain, unless the names differ much in how often they are drawn.
    for _ in 0..wanted.saturating_mul(8) {
        if names.len() == wanted {
            return Ok(());
        }
        let Some(field) = draw_name(call, id)? else { break };
        if names.insert(field.0.clone()) {
            drawn.add(field)?;
        }
    }
    // The rest are the first that were not drawn.
    let mut done = Ok(());
    call.ctx.rows.scan_elements(id, (b"", None), false, &mut |name, row| {
        if drawn.fields.len() < wanted && !names.contains(name) {
            done = drawn.add((name.to_vec(), row.value().to_vec()));
        }
        let is_end = drawn.fields.len() == wanted || done.is_err();
        if is_end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    done
}

/// Draws a field as RANDOMKEY draws a key.
fn draw_name(call: &mut Call<'_>, id: u64) -> Result<Option<(Vec<u8>, Vec<u8>)>, Fault> {
    let CommandContext { rows, local, .. } = &mut call.ctx;
    let name = draw(&mut local.rng, &mut |low, high, is_reverse| {
        let mut found = None;
        rows.scan_elements(id, (low, high), is_reverse, &mut |name, _| {
            found = Some(name.to_vec());
            ControlFlow::Break(())
        })?;
        Ok(found)
    })?;
    let mut value = None;
    if let Some(name) = &name {
        rows.get_element(id, name, &mut |row| value = Some(row.value().to_vec()))?;
    }
    Ok(name.zip(value))
}

/// Places below `length`: `count` different ones, or all when there are fewer; below 0 so many, of
/// which some may be the same.
fn pick(length: usize, count: i64, rng: &mut keyrack_workload::Rng) -> Vec<usize> {
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if length == 0 {
        return Vec::new();
    }
    if count < 0 {
        return (0..wanted).map(|_| rng.below(length as u64) as usize).collect();
    }
    // The first `wanted` cards of a shuffled deck.
    let mut deck: Vec<usize> = (0..length).collect();
    let wanted = wanted.min(length);
    if wanted < length {
        for card in 0..wanted {
            deck.swap(card, card + rng.below((length - card) as u64) as usize);
        }
    }
    deck.truncate(wanted);
    deck
}

#[cfg(test)]
mod tests {
    use super::pick;
    use keyrack_workload::Rng;

    #[test]
    fn those_drawn_with_a_positive_count_differ() {
        let mut rng = Rng::from_seed(1);
        for count in 0..12 {
            let mut drawn = pick(10, count, &mut rng);
            assert_eq!(drawn.len(), usize::try_from(count).unwrap().min(10));
            drawn.sort_unstable();
            drawn.dedup();
            assert_eq!(drawn.len(), usize::try_from(count).unwrap().min(10));
            assert!(drawn.iter().all(|&index| index < 10));
        }
        assert_eq!(pick(2, -100, &mut rng).len(), 100);
        assert_eq!(pick(0, -100, &mut rng).len(), 0);
    }
}
