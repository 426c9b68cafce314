//! The commands, borrowed from the bytes they were read from, and written for a client.

use super::keys::Keys;
use crate::memcached::direction::Direction;
use crate::memcached::meta;
use crate::number::{write_i64, write_u64};

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request<'a> {
    /// `get`, `gets`, `gat`, `gats`.
    Get(Get<'a>),
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`.
    Store(Store<'a>),
    /// `delete`.
    Delete {
        /// The key.
        key: &'a [u8],
        /// No reply is wanted.
        noreply: bool,
    },
    /// `incr` and `decr`.
    Arithmetic(Arithmetic<'a>),
    /// `touch`.
    Touch {
        /// The key.
        key: &'a [u8],
        /// As in [`Store::exptime`].
        exptime: i64,
        /// No reply is wanted.
        noreply: bool,
    },
    /// One of the meta commands.
    Meta(meta::Request<'a>),
    /// `flush_all`.
    FlushAll {
        /// Seconds from now, or since 1970, as [`Store::exptime`]; 0 and below is now.
        delay: i64,
        /// No reply is wanted.
        noreply: bool,
    },
    /// `stats`, with the words that followed.
    Stats(&'a [u8]),
    /// `lru_crawler`, with the words that followed.
    LruCrawler(&'a [u8]),
    /// `version`.
    Version,
    /// `verbosity`, which changes nothing here.
    Verbosity {
        /// No reply is wanted.
        noreply: bool,
    },
    /// `cache_memlimit`.
    CacheMemlimit {
        /// Megabytes.
        megabytes: u64,
        /// No reply is wanted.
        noreply: bool,
    },
    /// `shutdown`.
    Shutdown,
    /// `quit`: to be closed, without a reply.
    Quit,
}

/// A retrieval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get<'a> {
    /// At least one.
    pub keys: Keys<'a>,
    /// Each value is sent with its `cas unique`.
    pub cas: bool,
    /// Rows found get this expiration time, as in [`Store::exptime`].
    pub exptime: Option<i64>,
}

/// A command that stores a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// When it stores.
    pub mode: StoreMode,
    /// The key.
    pub key: &'a [u8],
    /// What the client keeps beside the value.
    pub flags: u32,
    /// 0 is never; below 0 at once; up to 30 days seconds from now; above that since 1970.
    pub exptime: i64,
    /// The value.
    pub value: &'a [u8],
    /// No reply is wanted.
    pub noreply: bool,
}

/// When and how a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    /// Always.
    Set,
    /// When the key has none.
    Add,
    /// When the key has one.
    Replace,
    /// Behind the one that the key has.
    Append,
    /// In front of the one that the key has.
    Prepend,
    /// When the one that the key has is of this version.
    Cas(u64),
}

/// A command that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic<'a> {
    /// Up or down.
    pub direction: Direction,
    /// The key.
    pub key: &'a [u8],
    /// By how much.
    pub delta: u64,
    /// No reply is wanted.
    pub noreply: bool,
}

impl StoreMode {
    /// The command's name.
    fn name(self) -> &'static [u8] {
        match self {
            StoreMode::Set => b"set",
            StoreMode::Add => b"add",
            StoreMode::Replace => b"replace",
            StoreMode::Append => b"append",
            StoreMode::Prepend => b"prepend",
            StoreMode::Cas(_) => b"cas",
        }
    }
}

impl Request<'_> {
    /// Appends the command to `out`. What it is made of must be fit for it: keys that are keys.
    pub fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Request::Get(get) => write_get(out, get.cas, get.exptime, get.keys),
            Request::Store(store) => store.write(out),
            Request::Delete { key, noreply } => {
                out.extend_from_slice(b"delete ");
                out.extend_from_slice(key);
                end(out, noreply);
            }
            Request::Arithmetic(arithmetic) => arithmetic.write(out),
            Request::Touch { key, exptime, noreply } => {
                out.extend_from_slice(b"touch ");
                out.extend_from_slice(key);
                out.push(b' ');
                write_i64(out, exptime);
                end(out, noreply);
            }
            Request::Meta(request) => request.write(out),
            Request::FlushAll { delay, noreply } => {
                out.extend_from_slice(b"flush_all");
                if delay != 0 {
                    out.push(b' ');
                    write_i64(out, delay);
                }
                end(out, noreply);
            }
            Request::Stats(words) => {
                out.extend_from_slice(b"stats");
                if !words.is_empty() {
                    out.push(b' ');
                    out.extend_from_slice(words);
                }
                end(out, false);
            }
            Request::LruCrawler(words) => {
                out.extend_from_slice(b"lru_crawler ");
                out.extend_from_slice(words);
                end(out, false);
            }
            Request::Version => out.extend_from_slice(b"version\r\n"),
            Request::Verbosity { noreply } => {
                out.extend_from_slice(b"verbosity 1");
                end(out, noreply);
            }
            Request::CacheMemlimit { megabytes, noreply } => {
                out.extend_from_slice(b"cache_memlimit ");
                write_u64(out, megabytes);
                end(out, noreply);
            }
            Request::Shutdown => out.extend_from_slice(b"shutdown\r\n"),
            Request::Quit => out.extend_from_slice(b"quit\r\n"),
        }
    }
}

/// Appends a retrieval of `keys` to `out`: `get`, `gets` with `cas`, `gat` and `gats` with an
/// expiration time.
pub fn write_get<'k>(
    out: &mut Vec<u8>,
    cas: bool,
    exptime: Option<i64>,
    keys: impl IntoIterator<Item = &'k [u8]>,
) {
    out.extend_from_slice(if exptime.is_some() { b"gat" } else { b"get" });
    if cas {
        out.push(b's');
    }
    if let Some(exptime) = exptime {
        out.push(b' ');
        write_i64(out, exptime);
    }
    for key in keys {
        out.push(b' ');
        out.extend_from_slice(key);
    }
    end(out, false);
}

impl Store<'_> {
    /// Appends the command and its value to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.mode.name());
        out.push(b' ');
        out.extend_from_slice(self.key);
        out.push(b' ');
        write_u64(out, u64::from(self.flags));
        out.push(b' ');
        write_i64(out, self.exptime);
        out.push(b' ');
        write_u64(out, self.value.len() as u64);
        if let StoreMode::Cas(unique) = self.mode {
            out.push(b' ');
            write_u64(out, unique);
        }
        end(out, self.noreply);
        out.extend_from_slice(self.value);
        out.extend_from_slice(b"\r\n");
    }
}

impl Arithmetic<'_> {
    /// Appends the command to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self.direction {
            Direction::Up => b"incr ",
            Direction::Down => b"decr ",
        });
        out.extend_from_slice(self.key);
        out.push(b' ');
        write_u64(out, self.delta);
        end(out, self.noreply);
    }
}

fn end(out: &mut Vec<u8>, noreply: bool) {
    out.extend_from_slice(if noreply { b" noreply\r\n" } else { b"\r\n" });
}
