//! What a protocol has to say for a session over it to work: requests as bytes, bytes as answers.

use super::pipe::Pipe;
use super::target::Target;
use crate::contract::{Decide, RowVisitor};
use keyrack_store::{Error, OpenOptions, Result};

/// The answer to one request of [`Protocol`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer<'a> {
    /// To a lookup: the value.
    Found(&'a [u8]),
    /// To a lookup: there is none.
    Missing,
    /// To a put.
    Stored,
    /// To a removal: whether there was something.
    Removed(bool),
    /// The server will not, or cannot: in its words.
    Refused(&'a [u8]),
}

/// Which rows a scan visits, and in which order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range<'k> {
    pub(crate) low: &'k [u8],
    pub(crate) high: Option<&'k [u8]>,
    pub(crate) is_reverse: bool,
}

/// A protocol of one connection.
pub(crate) trait Protocol: Clone + Send + Sync + 'static {
    /// The port that its servers listen on.
    const PORT: u16;

    /// Reads the options of the store.
    fn new(target: &Target, options: &OpenOptions) -> Result<Self>;

    /// What comes first on a connection. Returns the name and version of the server.
    fn greet(pipe: &mut Pipe<Self>) -> Result<String>;

    /// Refuses what cannot be sent: a key that is too long for the protocol.
    fn check(&self, key: &[u8]) -> Result<()>;

    /// Appends a lookup.
    fn get(&self, out: &mut Vec<u8>, key: &[u8]);

    /// Appends a put.
    fn put(&self, out: &mut Vec<u8>, key: &[u8], value: &[u8]);

    /// Appends a removal.
    fn remove(&self, out: &mut Vec<u8>, key: &[u8]);

    /// Takes the first answer from `input`, which it moves over it; `None` when it is not whole.
    /// An error in words means that the connection is of no use any more.
    fn answer<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> std::result::Result<Option<Answer<'a>>, String>;

    /// One atomic step on one key, with nothing else under way.
    fn update(_pipe: &mut Pipe<Self>, _key: &[u8], _decide: &mut Decide<'_>) -> Result<()> {
        Err(Error::usage("this protocol has no atomic update"))
    }

    /// The rows of a range, with nothing else under way.
    fn scan(_pipe: &mut Pipe<Self>, _range: Range<'_>, _visit: &mut RowVisitor<'_>) -> Result<u64> {
        Err(Error::usage("this protocol has no scans"))
    }
}
