//! Replies to memcached's meta commands. They are told apart by two letters.

use super::kind::Kind;
use super::result::Outcome;
use super::state::{Malformed, Phase, ReplyState, Step, line, number};
use super::text;

#[inline]
pub(super) fn step(state: &mut ReplyState, buffer: &[u8], kind: Kind) -> Result<Step, Malformed> {
    let Some((text, line_bytes)) = line(buffer)? else { return Ok(Step::More) };
    if let Some(rest) = text.strip_prefix(b"VA ") {
        let mut words = rest.split(|byte| *byte == b' ');
        let bytes = words.next().and_then(number).ok_or(Malformed("a VA line"))?;
        let token = words.find_map(|word| word.strip_prefix(b"c")).and_then(number);
        state.token = token.unwrap_or(0);
        state.hits += 1;
        let here = (buffer.len() - line_bytes) as u64;
        if here < bytes {
            if state.keeps_values {
                state.hits -= 1;
                return Ok(Step::More);
            }
            state.phase = Phase::Value { left: bytes - here };
            return Ok(Step::Eaten(buffer.len()));
        }
        let value_end = line_bytes + bytes as usize;
        state.value = Some(line_bytes..value_end);
        state.phase = Phase::ValueEnd;
        return Ok(Step::Eaten(value_end));
    }
    let outcome = match text.get(..2) {
        Some(b"MN") if kind == Kind::Mget => state.lookup(kind),
        Some(b"EN" | b"NF") => Outcome::Miss,
        Some(b"HD") => Outcome::Stored,
        Some(b"NS" | b"EX") => Outcome::NotStored,
        Some(b"OK") => Outcome::Stored,
        _ => text::failure(text).ok_or(Malformed("a line"))?,
    };
    state.note_failure(outcome, text);
    Ok(Step::Done(line_bytes, outcome))
}
