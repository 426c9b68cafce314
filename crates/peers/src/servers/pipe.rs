//! A connection with a window of writes under way.
//!
//! ```text
//!   written, not flushed | under way            | answered
//!   <----- unsent -----> |                      |
//!   <------------- waiting, at most depth ----->
//! ```
//!
//! Half of the window is written at once, and when the window is full the answers to half of it
//! are waited for: the server always has the other half to work on.
//!
//! A connection that has failed stays failed: each later call says why.

use super::protocol::{Answer, Protocol};
use keyrack_net::Link;
use keyrack_store::{Error, Result};
use std::io;

/// Requests are sent when they have so many bytes, however few they are.
const UNSENT_BYTES_MAX: usize = 64 << 10;

/// A connection, its protocol, and the writes whose answers have not been read.
pub(crate) struct Pipe<P> {
    pub(crate) protocol: P,
    link: Link,
    shown: String,
    depth: usize,
    /// Writes without an answer.
    waiting: usize,
    /// Requests that were not sent.
    unsent: usize,
    /// Why the connection is of no use.
    broken: Option<(io::ErrorKind, String)>,
}

impl<P: Protocol> Pipe<P> {
    pub(crate) fn new(link: Link, protocol: P, shown: &str, depth: usize) -> Self {
        let shown = shown.to_owned();
        Pipe { protocol, link, shown, depth, waiting: 0, unsent: 0, broken: None }
    }

    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Appends a request.
    #[inline]
    pub(crate) fn write(&mut self, request: impl FnOnce(&P, &mut Vec<u8>)) {
        // Nothing is kept for a server that is gone.
        if self.broken.is_none() {
            request(&self.protocol, self.link.output());
            self.unsent += 1;
        }
    }

    /// Sends what was appended, if that is half a window.
    #[inline]
    pub(crate) fn flush_half(&mut self) -> Result<()> {
        if self.unsent * 2 >= self.depth || self.link.output().len() >= UNSENT_BYTES_MAX {
            return self.flush();
        }
        Ok(())
    }

    /// Sends what was appended.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.check_alive()?;
        self.unsent = 0;
        self.link.flush().map_err(|error| self.fail(&error))
    }

    /// Waits for one message that `parse` understands; it is called again with more bytes as long
    /// as it answers `None`.
    pub(crate) fn read<R>(
        &mut self,
        mut parse: impl FnMut(&mut P, &mut &[u8]) -> std::result::Result<Option<R>, String>,
    ) -> Result<R> {
        self.check_alive()?;
        loop {
            let input = self.link.input();
            let mut rest = input;
            match parse(&mut self.protocol, &mut rest) {
                Ok(Some(message)) => {
                    let bytes = input.len() - rest.len();
                    self.link.consume(bytes);
                    return Ok(message);
                }
                Ok(None) => self.link.fill().map_err(|error| self.fail(&error))?,
                Err(why) => {
                    let error = io::Error::new(io::ErrorKind::InvalidData, why);
                    return Err(self.fail(&error));
                }
            }
        }
    }

    /// Waits for the answer to one request.
    #[inline]
    pub(crate) fn answer<R>(&mut self, mut take: impl FnMut(Answer<'_>) -> R) -> Result<R> {
        self.read(|protocol, input| Ok(protocol.answer(input)?.map(&mut take)))
    }

    /// Counts a write that was appended, and sends the half of the window that is complete by it.
    #[inline]
    pub(crate) fn written(&mut self) -> Result<()> {
        self.waiting += 1;
        if self.depth == 1 { self.settle(0) } else { self.flush_half() }
    }

    /// Makes room for one more write.
    #[inline]
    pub(crate) fn make_room(&mut self) -> Result<()> {
        self.check_alive()?;
        if self.waiting < self.depth { Ok(()) } else { self.settle(self.depth / 2) }
    }

    /// Waits until at most `left` writes have no answer. All of them are read, and the first that
    /// says no is the error.
    pub(crate) fn settle(&mut self, left: usize) -> Result<()> {
        self.check_alive()?;
        if self.waiting <= left {
            return Ok(());
        }
        self.flush()?;
        let mut result = Ok(());
        while self.waiting > left {
            self.waiting -= 1;
            let no = self.answer(|answer| match answer {
                Answer::Stored | Answer::Removed(_) => None,
                Answer::Refused(words) => Some(String::from_utf8_lossy(words).into_owned()),
                Answer::Found(_) | Answer::Missing => Some("an answer to no write".to_owned()),
            })?;
            if let (Some(words), Ok(())) = (no, &result) {
                result = Err(self.refused("write", &words));
            }
        }
        result
    }

    /// The error for an answer that says no. The kind is in the words of the server alone.
    #[cold]
    pub(crate) fn refused(&self, what: &str, words: &str) -> Error {
        let attempt = format!("{}: {what}", self.shown);
        // Redis's word, then memcached's, which begins with a capital in the binary protocol.
        if words.starts_with("OOM ") || words.to_ascii_lowercase().contains("out of memory") {
            return Error::out_of_memory(format!("{attempt}: {words}"));
        }
        Error::io(attempt, io::Error::other(words.to_owned()))
    }

    /// What the server cannot do at all.
    pub(crate) fn cannot(&self, what: &str) -> Error {
        Error::usage(format!("{}: {what}", self.shown))
    }

    /// Whether some call has been told that the connection is of no use.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    fn check_alive(&self) -> Result<()> {
        match &self.broken {
            None => Ok(()),
            Some((kind, words)) => {
                Err(Error::io(self.shown.clone(), io::Error::new(*kind, words.clone())))
            }
        }
    }

    #[cold]
    fn fail(&mut self, error: &io::Error) -> Error {
        self.waiting = 0;
        let (kind, words) = self.broken.insert((error.kind(), error.to_string()));
        Error::io(self.shown.clone(), io::Error::new(*kind, words.clone()))
    }
}
