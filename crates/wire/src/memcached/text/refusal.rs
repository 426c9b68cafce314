//! Lines that are no command, and what a server does about them.

/// What is wrong with a line, or with the data after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// No such command, or too few or too many words.
    Unknown,
    /// A key or a number that is none.
    Format,
    /// The data does not end where its length says.
    DataChunk,
    /// The value is longer than [`crate::memcached::Limits::value_bytes_max`].
    TooLarge,
    /// The line is longer than its limit.
    LineTooLong,
    /// A number by which to count up or down that is none.
    Delta,
    /// An expiration time that is no number.
    Exptime,
    /// `delete` with a time other than 0.
    DeleteTime,
    /// A letter that is no flag of a meta command.
    Flag,
    /// A flag of a meta command that is there twice.
    FlagTwice,
    /// The word after a flag's letter is not what the flag takes.
    FlagToken,
    /// A mode that the meta command does not have.
    Mode,
    /// An opaque word above 32 bytes.
    OpaqueTooLong,
    /// A key that is not base64 although it is said to be.
    Base64,
    /// A line of HTTP.
    Http,
}

impl Fault {
    /// The line that tells the client; for [`Fault::Http`] nothing.
    #[must_use]
    pub const fn line(self) -> &'static [u8] {
        match self {
            Fault::Unknown => b"ERROR\r\n",
            Fault::Format => b"CLIENT_ERROR bad command line format\r\n",
            Fault::DataChunk => b"CLIENT_ERROR bad data chunk\r\n",
            Fault::TooLarge => b"SERVER_ERROR object too large for cache\r\n",
            Fault::LineTooLong => b"CLIENT_ERROR line too long\r\n",
            Fault::Delta => b"CLIENT_ERROR invalid numeric delta argument\r\n",
            Fault::Exptime => b"CLIENT_ERROR invalid exptime argument\r\n",
            Fault::DeleteTime => {
                b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"
            }
            Fault::Flag => b"CLIENT_ERROR invalid flag\r\n",
            Fault::FlagTwice => b"CLIENT_ERROR duplicate flag\r\n",
            Fault::FlagToken => b"CLIENT_ERROR bad token in command line format\r\n",
            Fault::Mode => b"CLIENT_ERROR invalid mode\r\n",
            Fault::OpaqueTooLong => b"CLIENT_ERROR opaque token too long\r\n",
            Fault::Base64 => b"CLIENT_ERROR error decoding key\r\n",
            Fault::Http => b"",
        }
    }
}

/// A line that is no command: what to reply, and where the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong.
    pub fault: Fault,
    /// The command asked for no reply, and gets none to this either.
    pub noreply: bool,
    /// Bytes from the front of the buffer to where the next command begins; at least one, and more
    /// than the buffer holds when data is still to come that belongs to the refused command.
    pub skip: u64,
    /// Nobody can tell where the next command begins: the connection is to be closed.
    pub close: bool,
}

impl Refusal {
    /// What to send.
    #[must_use]
    pub const fn reply(&self) -> &'static [u8] {
        if self.noreply { b"" } else { self.fault.line() }
    }
}
