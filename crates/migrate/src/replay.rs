//! The commands of a server's history, and what each means for strings and hashes.
//!
//! | command | here |
//! |---|---|
//! | writes of strings, hashes and expiries | executed at the destination |
//! | writes of other types | counted by their names |
//! | any other | the key is unclear: the caller reads it again, or names it as lost |
//!
//! Redis replicates the effect of a command and not the command where both differ: scripts,
//! random choices, expiries and evictions come as plain writes.
//!
//! **Invariant:** a transaction is reported when its end has come, or not at all.

use crate::args::Args;
use crate::error::Result;
use crate::event::{Event, Visit};
use crate::input::Input;
use keyrack_wire::parse_u64;

/// Bytes of a transaction that has not ended.
const TRANSACTION_BYTES_MAX: usize = 256 << 20;
/// The longest name of a command.
const NAME_BYTES_MAX: usize = 64;

/// The state of a history: the database, and the transaction that is open.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    db: u32,
    open: Option<Transaction>,
    /// Commands so far.
    count: u64,
}

#[derive(Debug)]
struct Transaction {
    at: u64,
    commands: Vec<Args>,
    bytes: usize,
}

/// What a command means here.
enum Class {
    /// It changes strings, hashes or expiries, and the destination knows it.
    Forward,
    /// It changes no key.
    Ignore,
    /// It changes keys of types that are not carried over.
    OtherType,
    /// It may change the key at this index in a way that the destination cannot repeat.
    Unclear(usize),
    /// It changes the key at this index in the database of this number, perhaps another one.
    UnclearIn(usize, u32),
    /// It moves a key to the database of this number.
    Move(u32),
    /// It exchanges two databases.
    Swap,
    /// It changes keys that it does not name.
    Nameless,
    Select,
    Begin,
    Commit,
    Discard,
}

impl Replay {
    /// Commands that were read, those of the protocol itself included.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Whether a transaction has begun and not ended.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Where a transaction begins that has not ended; forgets it.
    pub(crate) fn take_open_transaction(&mut self) -> Option<u64> {
        self.open.take().map(|open| open.at)
    }

    /// Takes the command `args`, which stands at `at`.
    pub(crate) fn command(
        &mut self,
        args: &Args,
        at: u64,
        input: &Input<'_>,
        visit: Visit<'_>,
    ) -> Result<()> {
        self.count += 1;
        let slices = args.slices();
        match (class(&slices), &mut self.open) {
            (Class::Begin, None) => {
                self.open = Some(Transaction { at, commands: Vec::new(), bytes: 0 });
            }
            (Class::Begin, Some(_)) => {
                return Err(input.damage(at, "a transaction within another"));
            }
            (Class::Commit, open) => {
                let commands = open.take().map(|open| open.commands).unwrap_or_default();
                for args in &commands {
                    self.execute(&args.slices(), at, input, visit)?;
                }
            }
            (Class::Discard, open) => *open = None,
            (_, Some(open)) => {
                open.bytes += args.memory_bytes();
                if open.bytes > TRANSACTION_BYTES_MAX {
                    let what = format!("a transaction of more than {TRANSACTION_BYTES_MAX} bytes");
                    return Err(input.damage(open.at, what));
                }
                open.commands.push(args.clone());
            }
            (_, None) => self.execute(&slices, at, input, visit)?,
        }
        Ok(())
    }

    fn execute(
        &mut self,
        args: &[&[u8]],
        at: u64,
        input: &Input<'_>,
        visit: Visit<'_>,
    ) -> Result<()> {
        let db = self.db;
        let name = args[0].escape_ascii().to_string().to_ascii_uppercase();
        let name = &name[..name.len().min(NAME_BYTES_MAX)];
        match class(args) {
            Class::Forward => visit(Event::Command { db, args }),
            Class::OtherType | Class::Nameless => visit(Event::Unclear { db, name, key: None }),
            Class::Unclear(index) => {
                visit(Event::Unclear { db, name, key: args.get(index).copied() })
            }
            Class::UnclearIn(index, db) => {
                visit(Event::Unclear { db, name, key: args.get(index).copied() })
            }
            Class::Move(to) => {
                let key = args.get(1).copied();
                visit(Event::Unclear { db, name, key })?;
                visit(Event::Unclear { db: to, name, key })
            }
            Class::Swap => {
                for arg in args.iter().skip(1) {
                    let db =
                        number_of(arg).ok_or_else(|| input.damage(at, "SWAPDB of no database"))?;
                    visit(Event::Swapped { db })?;
                }
                Ok(())
            }
            Class::Select => {
                let number = args.get(1).and_then(|text| number_of(text));
                self.db = number.ok_or_else(|| input.damage(at, "SELECT of no database"))?;
                Ok(())
            }
            Class::Ignore | Class::Begin | Class::Commit | Class::Discard => Ok(()),
        }
    }
}

fn class(args: &[&[u8]]) -> Class {
    let Ok(name) = std::str::from_utf8(args[0]) else { return Class::Unclear(1) };
    match name.to_ascii_uppercase().as_str() {
        "SET" if !is_known_set(args) => Class::Unclear(1),
        "COPY" if args.iter().skip(3).any(|arg| arg.eq_ignore_ascii_case(b"DB")) => {
            let option = args.iter().rposition(|arg| arg.eq_ignore_ascii_case(b"DB"));
            let db = option.and_then(|at| args.get(at + 1)).and_then(|text| number_of(text));
            db.map_or(Class::Unclear(2), |db| Class::UnclearIn(2, db))
        }
        "MOVE" => {
            args.get(2).and_then(|text| number_of(text)).map_or(Class::Unclear(1), Class::Move)
        }
        "SWAPDB" => Class::Swap,
        "SET" | "COPY" | "SETEX" | "PSETEX" | "SETNX" | "GETSET" | "GETDEL" | "GETEX" | "MSET"
        | "MSETNX" | "APPEND" | "SETRANGE" | "INCR" | "DECR" | "INCRBY" | "DECRBY"
        | "INCRBYFLOAT" | "HSET" | "HMSET" | "HSETNX" | "HDEL" | "HINCRBY" | "HINCRBYFLOAT"
        | "DEL" | "UNLINK" | "EXPIRE" | "PEXPIRE" | "EXPIREAT" | "PEXPIREAT" | "PERSIST"
        | "RENAME" | "RENAMENX" | "FLUSHALL" | "FLUSHDB" => Class::Forward,
        "PING" | "REPLCONF" | "PUBLISH" | "SPUBLISH" | "SCRIPT" | "FUNCTION" | "ECHO" => {
            Class::Ignore
        }
        "SELECT" => Class::Select,
        "MULTI" => Class::Begin,
        "EXEC" => Class::Commit,
        "DISCARD" => Class::Discard,
        "LPUSH" | "RPUSH" | "LPUSHX" | "RPUSHX" | "LPOP" | "RPOP" | "LREM" | "LSET" | "LTRIM"
        | "LINSERT" | "RPOPLPUSH" | "LMOVE" | "BLMOVE" | "BRPOPLPUSH" | "LMPOP" | "BLMPOP"
        | "SADD" | "SREM" | "SPOP" | "SMOVE" | "ZADD" | "ZREM" | "ZINCRBY" | "ZPOPMIN"
        | "ZPOPMAX" | "ZMPOP" | "BZMPOP" | "ZREMRANGEBYSCORE" | "ZREMRANGEBYRANK"
        | "ZREMRANGEBYLEX" | "GEOADD" | "XADD" | "XDEL" | "XTRIM" | "XGROUP" | "XACK"
        | "XCLAIM" | "XAUTOCLAIM" | "XSETID" | "XREADGROUP" => Class::OtherType,
        "EVAL" | "EVALSHA" | "FCALL" => Class::Nameless,
        "BITOP" => Class::Unclear(2),
        "SORT" | "GEORADIUS" | "GEORADIUSBYMEMBER" => {
            let is_store = |arg: &&[u8]| {
                arg.eq_ignore_ascii_case(b"STORE") || arg.eq_ignore_ascii_case(b"STOREDIST")
            };
            Class::Unclear(args.iter().position(is_store).map_or(1, |index| index + 1))
        }
        _ => Class::Unclear(1),
    }
}

/// The number of a database.
fn number_of(text: &[u8]) -> Option<u32> {
    parse_u64(text).and_then(|number| u32::try_from(number).ok())
}

/// Whether a SET has only options that the destination knows.
fn is_known_set(args: &[&[u8]]) -> bool {
    let mut options = args.iter().skip(3);
    while let Some(option) = options.next() {
        match option.to_ascii_uppercase().as_slice() {
            b"NX" | b"XX" | b"GET" | b"KEEPTTL" => {}
            b"EX" | b"PX" | b"EXAT" | b"PXAT" => {
                options.next();
            }
            _ => return false,
        }
    }
    true
}
