//! What came of a request.

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The key was there; its token, where one was asked for.
    Hit {
        /// For [`Kind::Cas`](super::Kind::Cas).
        token: u64,
    },
    /// It was not.
    Miss,
    /// So many of several keys were there.
    Hits(u32),
    /// Done.
    Stored,
    /// Not done, since the condition did not hold.
    NotStored,
    /// Refused.
    Failed(Failure),
}

/// Why the server refused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// Memcached's `SERVER_ERROR`, or a status that means it; an `ERR` of Redis.
    Server,
    /// `CLIENT_ERROR`: the request was not liked.
    Client,
    /// `ERROR`: the command is not known.
    UnknownCommand,
    /// The server has no memory for it.
    OutOfMemory,
    /// The value is longer than the server takes.
    TooLarge,
    /// The server asks for patience: `BUSY`, `LOADING`, temporary failures.
    Busy,
    /// `NOAUTH` and the like.
    Auth,
    /// `MOVED` where redirections are not followed, or too many of them.
    Moved,
    /// `ASK`, likewise.
    Ask,
    /// Another error of Redis.
    Other,
}
