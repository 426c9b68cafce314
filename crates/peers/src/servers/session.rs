//! A session over a connection: which requests the calls of the contract become.

use super::pipe::Pipe;
use super::protocol::{Answer, Protocol, Range};
use crate::contract::{Decide, RowVisitor, ValueVisitor};
use keyrack_store::{Batch, BatchOp, Error, Removed, Result, Session};
use std::sync::{Mutex, PoisonError};

/// A session.
pub(crate) struct ServerSession<'s, P: Protocol> {
    pipe: Pipe<P>,
    /// Where a failure goes that is found when the session ends.
    lost: &'s Mutex<Option<Error>>,
}

impl<'s, P: Protocol> ServerSession<'s, P> {
    /// Says hello. Returns what the server is, too.
    pub(crate) fn greet(
        mut pipe: Pipe<P>,
        lost: &'s Mutex<Option<Error>>,
    ) -> Result<(Self, String)> {
        let version = P::greet(&mut pipe)?;
        Ok((ServerSession { pipe, lost }, version))
    }

    /// Reads the answers to the writes before a request, which was sent with them, and leaves the
    /// request's answer as the next one.
    fn after_writes(&mut self) -> Result<()> {
        self.pipe.flush()?;
        self.pipe.settle(0)
    }

    /// Looks one key up, behind all writes that are under way.
    fn look_up(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.pipe.protocol.check(key)?;
        self.pipe.write(|protocol, out| protocol.get(out, key));
        let before = self.after_writes();
        let found = self.pipe.answer(|answer| lookup(answer, visit))?;
        before?;
        found.map_err(|words| self.pipe.refused("get", &words))
    }
}

/// Whether a lookup found something, or the words of an answer that is none.
#[inline]
fn lookup(answer: Answer<'_>, visit: &mut dyn FnMut(&[u8])) -> std::result::Result<bool, String> {
    match answer {
        Answer::Found(value) => {
            visit(value);
            Ok(true)
        }
        Answer::Missing => Ok(false),
        Answer::Refused(words) => Err(String::from_utf8_lossy(words).into_owned()),
        Answer::Stored | Answer::Removed(_) => Err("an answer to no lookup".to_owned()),
    }
}

impl<P: Protocol> Session for ServerSession<'_, P> {
    #[inline]
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.look_up(key, visit)
    }

    fn multi_get(&mut self, keys: &[&[u8]], visit: &mut ValueVisitor<'_>) -> Result<()> {
        keys.iter().try_for_each(|key| self.pipe.protocol.check(key))?;
        let before = self.pipe.settle(self.pipe.depth() / 2);
        let (mut sent, mut answered, mut no) = (0, 0, None);
        while answered < keys.len() {
            let pipe = &mut self.pipe;
            while sent < keys.len() && pipe.waiting() + sent - answered < pipe.depth() {
                pipe.write(|protocol, out| protocol.get(out, keys[sent]));
                pipe.flush_half()?;
                sent += 1;
            }
            pipe.flush()?;
            if let Err(error) = pipe.settle(0) {
                no.get_or_insert(error);
            }
            let left = if sent < keys.len() { pipe.depth() / 2 } else { 0 };
            while sent - answered > left {
                let mut found = false;
                let answer = pipe
                    .answer(|answer| lookup(answer, &mut |value| visit(answered, Some(value))))?;
                match answer {
                    Ok(is_there) => found = is_there,
                    Err(words) => _ = no.get_or_insert(pipe.refused("get", &words)),
                }
                if !found {
                    visit(answered, None);
                }
                answered += 1;
            }
        }
        before?;
        no.map_or(Ok(()), Err)
    }

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.pipe.protocol.check(key)?;
        self.pipe.make_room()?;
        self.pipe.write(|protocol, out| protocol.put(out, key, value));
        self.pipe.written()
    }

    fn remove(&mut self, key: &[u8]) -> Result<Removed> {
        self.pipe.protocol.check(key)?;
        self.pipe.write(|protocol, out| protocol.remove(out, key));
        let before = self.after_writes();
        let removed = self.pipe.answer(|answer| match answer {
            Answer::Removed(true) => Ok(Removed::Existed),
            Answer::Removed(false) => Ok(Removed::Absent),
            Answer::Refused(words) => Err(String::from_utf8_lossy(words).into_owned()),
            _ => Err("an answer to no removal".to_owned()),
        })?;
        before?;
        removed.map_err(|words| self.pipe.refused("remove", &words))
    }

    fn update(&mut self, key: &[u8], decide: &mut Decide<'_>) -> Result<()> {
        self.pipe.protocol.check(key)?;
        self.pipe.settle(0)?;
        P::update(&mut self.pipe, key, decide)
    }

    fn scan(&mut self, low: &[u8], high: Option<&[u8]>, visit: &mut RowVisitor<'_>) -> Result<u64> {
        if high.is_some_and(|high| high <= low) {
            return Ok(0);
        }
        self.pipe.settle(0)?;
        P::scan(&mut self.pipe, Range { low, high, is_reverse: false }, visit)
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut RowVisitor<'_>,
    ) -> Result<u64> {
        if high.is_some_and(|high| high <= low) {
            return Ok(0);
        }
        self.pipe.settle(0)?;
        P::scan(&mut self.pipe, Range { low, high, is_reverse: true }, visit)
    }

    fn apply(&mut self, batch: &Batch) -> Result<()> {
        for op in batch.iter() {
            self.pipe.protocol.check(op.key())?;
        }
        let mut result = Ok(());
        for op in batch.iter() {
            // An answer that says no does not keep the rest of the batch from being sent.
            result = result.and(self.pipe.make_room());
            self.pipe.write(|protocol, out| match op {
                BatchOp::Put(key, value) => protocol.put(out, key, value),
                BatchOp::Remove(key) => protocol.remove(out, key),
            });
            result = result.and(self.pipe.written());
        }
        result.and(self.pipe.settle(0))
    }

    fn flush(&mut self) -> Result<()> {
        self.pipe.settle(0)
    }
}

impl<P: Protocol> Drop for ServerSession<'_, P> {
    fn drop(&mut self) {
        if self.pipe.is_broken() {
            // Whoever broke it was told.
            return;
        }
        if let Err(error) = self.pipe.settle(0) {
            self.lost.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }
}
