//! The words that may come second, for each command that has any.

use crate::redis::command::{ADMIN, Command, FAST, NO_MULTI, NONE, READ, SECOND, commands};
use crate::redis::{client, config, introspect, keys, server};

/// What OBJECT tells.
pub(super) static OBJECT: &[Command] = &commands! {
    Generic {
        "encoding", 3, READ, SECOND, "2.2.3", keys::object_encoding, "the name of a representation";
        "freq", 3, READ, SECOND, "4.0.0", keys::object_freq, "refused: not noted";
        "idletime", 3, READ, SECOND, "2.2.3", keys::object_idletime, "0: not noted";
        "refcount", 3, READ, SECOND, "2.2.3", keys::object_refcount, "1";
        "help", 2, 0, NONE, "5.0.0", server::help, "the subcommands";
    }
};

/// What CLIENT does.
pub(super) static CLIENT: &[Command] = &commands! {
    Connection {
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
    }
};

/// What CONFIG does.
pub(super) static CONFIG: &[Command] = &commands! {
    Server {
        "get", -3, ADMIN, NONE, "2.0.0", config::get, "parameters whose names match";
        "set", -4, ADMIN, NONE, "2.0.0", config::set, "changes parameters";
        "resetstat", 2, ADMIN, NONE, "2.0.0", config::resetstat, "counts from 0 again";
        "rewrite", 2, ADMIN, NONE, "2.8.0", config::rewrite, "refused: nothing is written";
        "help", 2, 0, NONE, "5.0.0", server::help, "the subcommands";
    }
};

/// What COMMAND tells.
pub(super) static COMMAND: &[Command] = &commands! {
    Server {
        "count", 2, 0, NONE, "2.8.13", introspect::count, "how many commands";
        "info", -2, 0, NONE, "2.8.13", introspect::info, "arity, flags, keys";
        "docs", -2, 0, NONE, "7.0.0", introspect::docs, "what commands are for";
        "list", -2, 0, NONE, "7.0.0", introspect::list, "names";
        "getkeys", -4, 0, NONE, "2.8.13", introspect::getkeys, "the keys of a request";
        "help", 2, 0, NONE, "5.0.0", server::help, "the subcommands";
    }
};

/// What MEMORY tells.
pub(super) static MEMORY: &[Command] = &commands! {
    Server {
        "usage", -3, READ, SECOND, "4.0.0", keys::memory_usage, "bytes of a key with its row";
        "doctor", 2, 0, NONE, "4.0.0", server::memory_doctor, "advice; none";
        "stats", 2, 0, NONE, "4.0.0", server::memory_stats, "bytes in all";
        "purge", 2, 0, NONE, "4.0.0", server::ok, "accepted: nothing to do";
        "help", 2, 0, NONE, "5.0.0", server::help, "the subcommands";
    }
};

/// What DEBUG does.
pub(super) static DEBUG: &[Command] = &commands! {
    Server {
        "sleep", 3, ADMIN | NO_MULTI, NONE, "1.0.0", server::debug_sleep, "answers later";
        "help", 2, 0, NONE, "5.0.0", server::help, "the subcommands";
    }
};

/// What SLOWLOG tells.
pub(super) static SLOWLOG: &[Command] = &commands! {
    Server {
        "get", -2, ADMIN, NONE, "2.2.12", server::empty_array, "none";
        "len", 2, ADMIN, NONE, "2.2.12", server::zero, "0";
        "reset", 2, ADMIN, NONE, "2.2.12", server::ok, "nothing to forget";
        "help", 2, 0, NONE, "5.0.0", server::help, "the subcommands";
    }
};

/// What LATENCY tells.
pub(super) static LATENCY: &[Command] = &commands! {
    Server {
        "latest", 2, ADMIN, NONE, "2.8.13", server::empty_array, "none";
        "history", 3, ADMIN, NONE, "2.8.13", server::empty_array, "none";
        "reset", -2, ADMIN, NONE, "2.8.13", server::zero, "0: nothing was noted";
        "doctor", 2, ADMIN, NONE, "2.8.13", server::latency_doctor, "where to look";
        "help", 2, 0, NONE, "5.0.0", server::help, "the subcommands";
    }
};
