//! HSCAN and HRANDFIELD.
//!
//! A small hash is returned by one HSCAN, whatever COUNT says, as Redis does; of a large one each
//! call returns COUNT fields in the order of names, and the cursor remembers the next name (see
//! `cursor`).

use std::sync::atomic::Ordering::Relaxed;

use crate::redis::call::Call;
use crate::redis::commands::hashes::read;
use crate::redis::commands::scan::ScanOptions;
use crate::redis::fault::{Done, Fault};
use crate::redis::glob::Match;

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
    let done = read(call, |hash, reply| {
        body.clear();
        let mut fields = keyrack_wire::resp::Writer::new(&mut body, protocol);
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

pub(crate) fn hrandfield(call: &mut Call<'_>) -> Done {
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
    let count = call.integer(2)?;
    let with_values = match call.count() {
        3 => false,
        4 if call.is(3, "withvalues") => true,
        _ => return Err(Fault::SYNTAX),
    };
    if count < 0 && count.unsigned_abs() > DRAWS_MAX {
        return Err(Fault::OUT_OF_RANGE);
    }
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
