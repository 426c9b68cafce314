//! The table of commands: a row for each, and how a name is found.
//!
//! A row has a command's name, its words, flags and keys, the version that had it first, its
//! handler, and its summary; rows in braces are its subcommands. This file reads all of a row but
//! the handler, so it depends on none of them. `dispatch` expands the same rows for the handlers.
//!
//! Finding a command costs a hash of its name and one comparison.

use crate::redis::command::{
    ADMIN, ALL, AT_ONCE, CONNECTION, Command, DANGEROUS, DENY_OOM, EXCLUSIVE, FAST, Family,
    NO_AUTH, NO_MULTI, NONE, ONE, PAIRS, READ, RUNS_QUEUE, SECOND, TWO, WRITE,
};

/// Writes that make rows larger.
const GROW: u16 = WRITE | DENY_OOM;
/// Allowed before the client has authenticated.
const GREETING: u16 = NO_AUTH | FAST | CONNECTION;
/// Begins, ends or watches a transaction.
const TRANSACTION: u16 = AT_ONCE | FAST;

/// Gives the rows of all commands, by their family, to the macro called `$expand`.
macro_rules! for_each_command {
    ($expand:ident) => { $expand! {
    Strings {
        "get", 2, READ | FAST, ONE, "1.0.0", gets::get, "the value of a key";
        "set", -3, GROW, ONE, "1.0.0", strings::set, "sets a key to a value";
        "setex", 4, GROW, ONE, "2.0.0", strings::setex, "sets a value that expires after seconds";
        "psetex", 4, GROW, ONE, "2.6.0", strings::psetex,
            "sets a value that expires after milliseconds";
        "setnx", 3, GROW | FAST, ONE, "1.0.0", strings::setnx, "sets a key that is not there";
        "getset", 3, GROW | FAST, ONE, "1.0.0", strings::getset,
            "sets a key, returns the old value";
        "getex", -2, WRITE | FAST, ONE, "6.2.0", strings::getex,
            "a value, and sets when it expires";
        "getdel", 2, WRITE | FAST, ONE, "6.2.0", strings::getdel, "a value, and removes its key";
        "mget", -2, READ | FAST, ALL, "1.0.0", gets::mget, "the values of many keys";
        "mset", -3, GROW | EXCLUSIVE, PAIRS, "1.0.1", strings::mset, "sets many keys as one step";
        "msetnx", -3, GROW | EXCLUSIVE, PAIRS, "1.0.1", strings::msetnx,
            "sets many keys, if none is there";
        "incr", 2, GROW | FAST, ONE, "1.0.0", arithmetic::incr, "adds 1";
        "decr", 2, GROW | FAST, ONE, "1.0.0", arithmetic::decr, "subtracts 1";
        "incrby", 3, GROW | FAST, ONE, "1.0.0", arithmetic::incrby, "adds a whole number";
        "decrby", 3, GROW | FAST, ONE, "1.0.0", arithmetic::decrby, "subtracts a whole number";
        "incrbyfloat", 3, GROW | FAST, ONE, "2.6.0", arithmetic::incrbyfloat,
            "adds a decimal number";
        "append", 3, GROW | FAST, ONE, "2.0.0", strings::append, "adds to the end of a value";
        "strlen", 2, READ | FAST, ONE, "2.2.0", strings::strlen, "bytes of a value";
        "getrange", 4, READ, ONE, "2.4.0", strings::getrange, "a part of a value";
        "substr", 4, READ, ONE, "1.0.0", strings::getrange, "a part of a value, by an older name";
        "setrange", 4, GROW, ONE, "2.2.0", strings::setrange, "overwrites a part of a value";
    }
    Hashes {
        "hset", -4, GROW | FAST, ONE, "2.0.0", hashes::hset,
            "sets fields, returns how many are new";
        "hsetnx", 4, GROW | FAST, ONE, "2.0.0", hashes::hsetnx, "sets a field that is not there";
        "hmset", -4, GROW | FAST, ONE, "2.0.0", hashes::hmset, "sets fields";
        "hget", 3, READ | FAST, ONE, "2.0.0", hashes::hget, "the value of a field";
        "hmget", -3, READ | FAST, ONE, "2.0.0", hashes::hmget, "the values of fields";
        "hgetall", 2, READ, ONE, "2.0.0", hashes::hgetall, "all fields and values";
        "hdel", -3, WRITE | FAST, ONE, "2.0.0", hashes::hdel, "removes fields";
        "hexists", 3, READ | FAST, ONE, "2.0.0", hashes::hexists, "whether a field is there";
        "hkeys", 2, READ, ONE, "2.0.0", hashes::hkeys, "all fields";
        "hvals", 2, READ, ONE, "2.0.0", hashes::hvals, "all values";
        "hlen", 2, READ | FAST, ONE, "2.0.0", hashes::hlen, "how many fields";
        "hstrlen", 3, READ | FAST, ONE, "3.2.0", hashes::hstrlen, "bytes of a field's value";
        "hincrby", 4, GROW | FAST, ONE, "2.0.0", hashes::hincrby, "adds a whole number to a field";
        "hincrbyfloat", 4, GROW | FAST, ONE, "2.6.0", hashes::hincrbyfloat,
            "adds a decimal number to a field";
        "hscan", -3, READ, ONE, "2.8.0", hash_scan::hscan, "some fields, and where to go on";
        "hrandfield", -2, READ, ONE, "6.2.0", hash_scan::hrandfield, "fields drawn at random";
        "hexpire", -6, GROW | FAST, ONE, "7.4.0", hash_expiry::hexpire,
            "fields expire after seconds";
        "hpexpire", -6, GROW | FAST, ONE, "7.4.0", hash_expiry::hpexpire,
            "fields expire after milliseconds";
        "hexpireat", -6, GROW | FAST, ONE, "7.4.0", hash_expiry::hexpireat,
            "fields expire at a second";
        "hpexpireat", -6, GROW | FAST, ONE, "7.4.0", hash_expiry::hpexpireat,
            "fields expire at a millisecond";
        "httl", -5, READ | FAST, ONE, "7.4.0", hash_expiry::httl, "seconds until fields expire";
        "hpttl", -5, READ | FAST, ONE, "7.4.0", hash_expiry::hpttl,
            "milliseconds until fields expire";
        "hexpiretime", -5, READ | FAST, ONE, "7.4.0", hash_expiry::hexpiretime,
            "the seconds at which fields expire";
        "hpexpiretime", -5, READ | FAST, ONE, "7.4.0", hash_expiry::hpexpiretime,
            "the milliseconds at which fields expire";
        "hpersist", -5, WRITE | FAST, ONE, "7.4.0", hash_expiry::hpersist,
            "lets fields never expire";
        "hgetdel", -5, WRITE | FAST, ONE, "8.0.0", hash_expiry::hgetdel,
            "the values of fields, and removes them";
        "hgetex", -5, GROW | FAST, ONE, "8.0.0", hash_expiry::hgetex,
            "the values of fields, and sets when they expire";
        "hsetex", -6, GROW | FAST, ONE, "8.0.0", hash_expiry::hsetex,
            "sets fields that expire";
    }
    Generic {
        "del", -2, WRITE, ALL, "1.0.0", keys::del, "removes keys";
        "unlink", -2, WRITE | FAST, ALL, "4.0.0", keys::del, "removes keys";
        "exists", -2, READ | FAST, ALL, "1.0.0", keys::exists, "how many of the keys are there";
        "touch", -2, READ | FAST, ALL, "3.2.1", keys::exists, "how many of the keys are there";
        "type", 2, READ | FAST, ONE, "1.0.0", keys::type_of, "what a key holds";
        "expire", -3, WRITE | FAST, ONE, "1.0.0", expiry::expire, "expires after seconds";
        "pexpire", -3, WRITE | FAST, ONE, "2.6.0", expiry::pexpire, "expires after milliseconds";
        "expireat", -3, WRITE | FAST, ONE, "1.2.0", expiry::expireat, "expires at a second";
        "pexpireat", -3, WRITE | FAST, ONE, "2.6.0", expiry::pexpireat, "expires at a millisecond";
        "ttl", 2, READ | FAST, ONE, "1.0.0", expiry::ttl, "seconds until a key expires";
        "pttl", 2, READ | FAST, ONE, "2.6.0", expiry::pttl, "milliseconds until a key expires";
        "expiretime", 2, READ | FAST, ONE, "7.0.0", expiry::expiretime,
            "the second at which a key expires";
        "pexpiretime", 2, READ | FAST, ONE, "7.0.0", expiry::pexpiretime,
            "the millisecond at which a key expires";
        "persist", 2, WRITE | FAST, ONE, "2.2.0", expiry::persist, "lets a key never expire";
        "rename", 3, WRITE | EXCLUSIVE, TWO, "1.0.0", keys::rename, "gives a row another key";
        "renamenx", 3, WRITE | EXCLUSIVE, TWO, "1.0.0", keys::renamenx,
            "gives a row a key that is not there";
        "copy", -3, GROW | EXCLUSIVE, TWO, "6.2.0", keys::copy, "copies a row";
        "keys", 2, READ | DANGEROUS, NONE, "1.0.0", scan::keys, "all keys that match a pattern";
        "scan", -2, READ, NONE, "2.8.0", scan::scan, "some keys, and where to go on";
        "randomkey", 1, READ, NONE, "1.0.0", scan::randomkey, "a key drawn at random";
        "dbsize", 1, READ | FAST, NONE, "1.0.0", keys::dbsize, "how many keys there are";
        "flushall", -1, WRITE | DANGEROUS | EXCLUSIVE, NONE, "1.0.0", keys::flush,
            "removes all keys";
        "flushdb", -1, WRITE | DANGEROUS | EXCLUSIVE, NONE, "1.0.0", keys::flush,
            "removes all keys";
        "object", -2, READ, NONE, "2.2.3", server::incomplete, "how a row is kept" {
            "encoding", 3, READ, SECOND, "2.2.3", keys::object_encoding,
                "the name of a representation";
            "freq", 3, READ, SECOND, "4.0.0", keys::object_freq, "refused: not noted";
            "idletime", 3, READ, SECOND, "2.2.3", keys::object_idletime, "0: not noted";
            "refcount", 3, READ, SECOND, "2.2.3", keys::object_refcount, "1";
            "help", 2, 0, NONE, "5.0.0", server::help, "the subcommands";
        };
    }
    Transactions {
        "multi", 1, TRANSACTION, NONE, "1.2.0", transaction::multi, "begins a transaction";
        "exec", 1, AT_ONCE | RUNS_QUEUE, NONE, "1.2.0", server::incomplete,
            "carries a transaction out";
        "discard", 1, TRANSACTION, NONE, "2.0.0", transaction::discard, "gives a transaction up";
        "watch", -2, TRANSACTION, ALL, "2.2.0", transaction::watch,
            "lets EXEC fail if a key changes";
        "unwatch", 1, FAST, NONE, "2.2.0", transaction::unwatch, "forgets the watched keys";
    }
    Connection {
        "hello", -1, GREETING | NO_MULTI, NONE, "6.0.0", session::hello, "chooses the protocol";
        "auth", -2, GREETING, NONE, "1.0.0", session::auth, "says who the client is";
        "reset", 1, GREETING | AT_ONCE, NONE, "6.2.0", session::reset, "as if newly connected";
        "quit", -1, GREETING | AT_ONCE, NONE, "1.0.0", session::quit, "closes the connection";
        "ping", -1, FAST | CONNECTION, NONE, "1.0.0", session::ping, "answers";
        "echo", 2, FAST | CONNECTION, NONE, "1.0.0", session::echo, "answers with the argument";
        "select", 2, FAST | CONNECTION, NONE, "1.0.0", session::select, "chooses database 0";
        "client", -2, CONNECTION, NONE, "2.4.0", server::incomplete, "about connections" {
            "id", 2, FAST, NONE, "5.0.0", client::id, "the number of this connection";
            "getname", 2, FAST, NONE, "2.6.9", client::getname, "the name of this connection";
            "setname", 3, FAST, NONE, "2.6.9", client::setname, "names this connection";
            "setinfo", 4, FAST, NONE, "7.2.0", client::setinfo, "names the library";
            "info", 2, 0, NONE, "6.2.0", client::info, "about this connection";
            "list", -2, ADMIN, NONE, "2.4.0", client::list, "about all connections";
            "kill", -3, ADMIN, NONE, "2.4.0", client::kill, "closes connections";
            "reply", 3, 0, NONE, "3.2.0", client::reply, "which replies to send";
            "no-evict", 3, ADMIN, NONE, "7.0.0", client::on_or_off,
                "accepted: no connection is evicted";
            "no-touch", 3, 0, NONE, "7.2.0", client::on_or_off, "accepted: reads leave no trace";
            "pause", -3, ADMIN, NONE, "3.0.0", client::pause, "refused";
            "unpause", 2, ADMIN, NONE, "6.2.0", client::unpause, "accepted: nothing is paused";
            "tracking", -3, 0, NONE, "6.0.0", client::tracking, "refused, but for OFF";
            "trackinginfo", 2, 0, NONE, "6.2.0", client::trackinginfo, "off";
            "getredir", 2, 0, NONE, "6.0.0", client::getredir, "-1: nothing is tracked";
            "unblock", -3, ADMIN, NONE, "5.0.0", client::unblock, "0: nothing blocks";
            "help", 2, 0, NONE, "5.0.0", server::help, "the subcommands";
        };
    }
    Server {
        "info", -1, DANGEROUS, NONE, "1.0.0", info::info, "what the server knows about itself";
        "config", -2, ADMIN, NONE, "2.0.0", server::incomplete, "parameters" {
            "get", -3, ADMIN, NONE, "2.0.0", config::get, "parameters whose names match";
            "set", -4, ADMIN, NONE, "2.0.0", config::set, "changes parameters";
            "resetstat", 2, ADMIN, NONE, "2.0.0", config::resetstat, "counts from 0 again";
            "rewrite", 2, ADMIN, NONE, "2.8.0", config::rewrite, "refused: nothing is written";
            "help", 2, 0, NONE, "5.0.0", server::help, "the subcommands";
        };
        "command", -1, CONNECTION, NONE, "2.8.13", introspect::all, "about commands" {
            "count", 2, 0, NONE, "2.8.13", introspect::count, "how many commands";
            "info", -2, 0, NONE, "2.8.13", introspect::info, "arity, flags, keys";
            "docs", -2, 0, NONE, "7.0.0", introspect::docs, "what commands are for";
            "list", -2, 0, NONE, "7.0.0", introspect::list, "names";
            "getkeys", -4, 0, NONE, "2.8.13", introspect::getkeys, "the keys of a request";
            "help", 2, 0, NONE, "5.0.0", server::help, "the subcommands";
        };
        "time", 1, FAST, NONE, "2.6.0", server::time, "the server's time";
        "save", 1, ADMIN | NO_MULTI, NONE, "1.0.0", server::save, "writes a checkpoint";
        "bgsave", -1, ADMIN, NONE, "1.0.0", server::bgsave, "begins a checkpoint";
        "bgrewriteaof", 1, ADMIN, NONE, "1.0.0", server::bgrewriteaof, "begins a checkpoint";
        "lastsave", 1, FAST | DANGEROUS, NONE, "1.0.0", server::lastsave,
            "when the last checkpoint was complete";
        "shutdown", -1, ADMIN | NO_MULTI, NONE, "1.0.0", server::shutdown, "ends the server";
        "memory", -2, 0, NONE, "4.0.0", server::incomplete, "about memory" {
            "usage", -3, READ, SECOND, "4.0.0", keys::memory_usage, "bytes of a key with its row";
            "doctor", 2, 0, NONE, "4.0.0", server::memory_doctor, "advice; none";
            "stats", 2, 0, NONE, "4.0.0", server::memory_stats, "bytes in all";
            "purge", 2, 0, NONE, "4.0.0", server::ok, "accepted: nothing to do";
            "help", 2, 0, NONE, "5.0.0", server::help, "the subcommands";
        };
        "debug", -2, ADMIN | NO_MULTI, NONE, "1.0.0", server::incomplete, "for tests" {
            "sleep", 3, ADMIN | NO_MULTI, NONE, "1.0.0", server::debug_sleep, "answers later";
            "help", 2, 0, NONE, "5.0.0", server::help, "the subcommands";
        };
        "slowlog", -2, ADMIN, NONE, "2.2.12", server::incomplete,
            "commands that took long" {
            "get", -2, ADMIN, NONE, "2.2.12", slow::slowlog_get, "the newest, with their arguments";
            "len", 2, ADMIN, NONE, "2.2.12", slow::slowlog_len, "how many are noted";
            "reset", 2, ADMIN, NONE, "2.2.12", slow::slowlog_reset, "forgets them";
            "help", 2, 0, NONE, "5.0.0", server::help, "the subcommands";
        };
        "latency", -2, ADMIN, NONE, "2.8.13", server::incomplete, "how long commands take" {
            "latest", 2, ADMIN, NONE, "2.8.13", slow::latest, "the newest of each event";
            "history", 3, ADMIN, NONE, "2.8.13", slow::history, "seconds with slow commands";
            "reset", -2, ADMIN, NONE, "2.8.13", slow::reset, "forgets events";
            "doctor", 2, ADMIN, NONE, "2.8.13", slow::doctor, "the events in words";
            "graph", 3, ADMIN, NONE, "2.8.13", slow::graph, "the events as a drawing";
            "histogram", -2, ADMIN, NONE, "7.0.0", slow::histogram, "durations of each command";
            "help", 2, 0, NONE, "5.0.0", server::help, "the subcommands";
        };
        "lolwut", -1, FAST, NONE, "5.0.0", server::lolwut, "a drawing and the version";
        "wait", 3, CONNECTION, NONE, "3.0.0", server::wait,
            "waits for replicas, of which there is none";
        "role", 1, FAST | ADMIN, NONE, "2.8.12", server::role, "master";
        "readonly", 1, FAST | CONNECTION, NONE, "3.0.0", server::no_cluster, "refused: no cluster";
        "readwrite", 1, FAST | CONNECTION, NONE, "3.0.0", server::no_cluster, "refused: no cluster";
    }
    Keyrack {
        "kr.range", -3, READ, NONE, "0.1.0", scan::range, "the rows from one key to before another";
        "kr.count", 3, READ, NONE, "0.1.0", scan::count, "how many keys from one to before another";
        "kr.stats", 1, FAST, NONE, "0.1.0", info::numbers, "all counters";
    }
    } };
}
pub(crate) use for_each_command;

/// The facts in the rows.
macro_rules! facts {
    ($($family:ident { $(
        $name:literal, $arity:literal, $flags:expr, $keys:expr, $since:literal, $run:path,
        $summary:literal $({ $(
            $sub_name:literal, $sub_arity:literal, $sub_flags:expr, $sub_keys:expr,
            $sub_since:literal, $sub_run:path, $sub_summary:literal;
        )* })?;
    )* })*) => {
        [$($(Command {
            name: $name,
            arity: $arity,
            flags: $flags,
            keys: $keys,
            family: Family::$family,
            since: $since,
            summary: $summary,
            subcommands: &[$($(Command {
                name: $sub_name,
                arity: $sub_arity,
                flags: $sub_flags,
                keys: $sub_keys,
                family: Family::$family,
                since: $sub_since,
                summary: $sub_summary,
                subcommands: &[],
            },)*)?],
        },)*)*]
    };
}

const LIST: &[Command] = &for_each_command!(facts);

/// How many commands there are.
pub(crate) const COUNT: usize = LIST.len();

/// Every command, by its family.
pub(crate) static COMMANDS: &[Command] = LIST;

/// The place of GET in the table.
pub(crate) const GET: u16 = 0;

/// The name of the command at `index`; `NULL` where there is none, as in CLIENT LIST.
pub(crate) fn name_of(index: u16) -> &'static str {
    COMMANDS.get(usize::from(index)).map_or("NULL", |command| command.name)
}

/// Slots of the hash table: few names share one.
const SLOTS: usize = 1024;

/// A slot with nothing in it.
const EMPTY: u16 = u16::MAX;

/// For each hash of a name its place in the table; what collides is in the next free slot.
static BY_HASH: [u16; SLOTS] = by_hash();

const fn by_hash() -> [u16; SLOTS] {
    let mut slots = [EMPTY; SLOTS];
    let mut index = 0;
    while index < COMMANDS.len() {
        let mut slot = hash(COMMANDS[index].name.as_bytes());
        while slots[slot] != EMPTY {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = index as u16;
        index += 1;
    }
    slots
}

/// A hash that does not tell upper case from lower.
const fn hash(name: &[u8]) -> usize {
    let mut hash = name.len() as u32;
    let mut at = 0;
    while at < name.len() {
        hash = (hash ^ (name[at] | 0x20) as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    ((hash >> 15) ^ hash) as usize % SLOTS
}

/// No command has a longer name.
const NAME_BYTES_MAX: usize = 12;

/// The place of the command called `name`, in any case.
#[inline]
pub(crate) fn find(name: &[u8]) -> Option<u16> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let mut slot = hash(name);
    loop {
        let index = BY_HASH[slot];
        let command = COMMANDS.get(usize::from(index))?;
        if command.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(index);
        }
        slot = (slot + 1) % SLOTS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_any_case() {
        for (index, command) in COMMANDS.iter().enumerate() {
            assert_eq!(find(command.name.as_bytes()).map(usize::from), Some(index));
            assert_eq!(find(command.name.to_uppercase().as_bytes()).map(usize::from), Some(index));
            assert!(command.name.len() <= NAME_BYTES_MAX && command.arity != 0);
            assert_eq!(command.name, command.name.to_lowercase());
        }
        for name in ["", "nosuch", "getget", "a-very-long-name-indeed"] {
            assert_eq!(find(name.as_bytes()), None);
        }
        assert_eq!(name_of(GET), "get");
    }

    #[test]
    fn keys_and_flags_agree() {
        for command in
            COMMANDS.iter().flat_map(|command| std::iter::once(command).chain(command.subcommands))
        {
            let name = command.name;
            assert!(!(command.is(READ) && command.is(WRITE)), "{name} reads or writes");
            let has_keys = command.keys.first > 0;
            assert!(!has_keys || command.is(READ | WRITE) || name == "watch", "{name}");
            assert!(
                !command.is(EXCLUSIVE) || command.is(WRITE),
                "{name} is exclusive though it reads"
            );
        }
    }
}
