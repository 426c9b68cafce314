//! The replies, as a server writes them and as a client gets them.

use crate::memcached::meta;
use crate::number::write_u64;

/// One reply. To a retrieval there are as many as rows were found, and [`Reply::End`]; to `stats`
/// as many as there are numbers, and [`Reply::End`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply<'a> {
    /// A row that was asked for.
    Value {
        /// Its key.
        key: &'a [u8],
        /// What the client stored beside the value.
        flags: u32,
        /// The value.
        value: &'a [u8],
        /// Its version, to `gets` and `gats`.
        cas: Option<u64>,
    },
    /// No more rows.
    End,
    /// A value was stored.
    Stored,
    /// It was not, because of what there is.
    NotStored,
    /// It was not, because another one has been stored.
    Exists,
    /// There is no such row.
    NotFound,
    /// A row was removed.
    Deleted,
    /// An expiration time was set.
    Touched,
    /// Done.
    Ok,
    /// The number that was counted to.
    Number(u64),
    /// To a meta command.
    Meta(meta::Reply<'a>),
    /// One of the server's numbers.
    Stat {
        /// Its name, one word.
        name: &'a [u8],
        /// What it is now.
        value: &'a [u8],
    },
    /// The server's version.
    Version(&'a [u8]),
    /// `stats reset` was done.
    Reset,
    /// No such command.
    Error,
    /// The client did wrong: how, in words.
    ClientError(&'a [u8]),
    /// The server could not: why, in words.
    ServerError(&'a [u8]),
}

/// Appends a row to `out`, as `get` and its kin do.
#[inline]
pub fn write_value(out: &mut Vec<u8>, key: &[u8], flags: u32, value: &[u8], cas: Option<u64>) {
    // Three numbers and the words around them fit 64 bytes.
    out.reserve(64 + key.len() + value.len());
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    write_u64(out, u64::from(flags));
    out.push(b' ');
    write_u64(out, value.len() as u64);
    if let Some(cas) = cas {
        out.push(b' ');
        write_u64(out, cas);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

impl Reply<'_> {
    /// Appends the reply to `out`. Control characters in words for humans become blanks: no line of
    /// a reply can come from a client's bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        let line: &[u8] = match *self {
            Reply::Value { key, flags, value, cas } => {
                return write_value(out, key, flags, value, cas);
            }
            Reply::Number(number) => {
                write_u64(out, number);
                b"\r\n"
            }
            Reply::Meta(reply) => return reply.write(out),
            Reply::Stat { name, value } => {
                words(out, b"STAT ", name);
                return words_line(out, b" ", value);
            }
            Reply::Version(text) => return words_line(out, b"VERSION ", text),
            Reply::ClientError(text) => return words_line(out, b"CLIENT_ERROR ", text),
            Reply::ServerError(text) => return words_line(out, b"SERVER_ERROR ", text),
            Reply::End => b"END\r\n",
            Reply::Stored => b"STORED\r\n",
            Reply::NotStored => b"NOT_STORED\r\n",
            Reply::Exists => b"EXISTS\r\n",
            Reply::NotFound => b"NOT_FOUND\r\n",
            Reply::Deleted => b"DELETED\r\n",
            Reply::Touched => b"TOUCHED\r\n",
            Reply::Ok => b"OK\r\n",
            Reply::Reset => b"RESET\r\n",
            Reply::Error => b"ERROR\r\n",
        };
        out.extend_from_slice(line);
    }
}

fn words(out: &mut Vec<u8>, before: &[u8], text: &[u8]) {
    out.extend_from_slice(before);
    out.extend(text.iter().map(|&byte| if byte.is_ascii_control() { b' ' } else { byte }));
}

fn words_line(out: &mut Vec<u8>, before: &[u8], text: &[u8]) {
    words(out, before, text);
    out.extend_from_slice(b"\r\n");
}
