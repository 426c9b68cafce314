//! COMMAND: what the table of commands says, in the shapes that libraries expect.

use keyrack_wire::resp::Writer;

use crate::redis::call::Call;
use crate::redis::command::{
    ADMIN, CONNECTION, Command, DANGEROUS, DENY_OOM, FAST, Family, NO_AUTH, NO_MULTI, READ, WRITE,
};
use crate::redis::fault::{Done, Fault};
use crate::redis::glob::{Glob, Match};
use crate::redis::table::{self, COMMANDS};

/// Flags by the names that Redis gives them.
const FLAGS: [(u16, &str); 7] = [
    (WRITE, "write"),
    (READ, "readonly"),
    (DENY_OOM, "denyoom"),
    (ADMIN, "admin"),
    (NO_MULTI, "no_multi"),
    (NO_AUTH, "no_auth"),
    (FAST, "fast"),
];

pub(crate) fn all(call: &mut Call<'_>) -> Done {
    call.reply.array(COMMANDS.len());
    for command in COMMANDS {
        put_info(command, None, &mut call.reply);
    }
    Ok(())
}

pub(crate) fn count(call: &mut Call<'_>) -> Done {
    call.reply.integer(COMMANDS.len() as i64);
    Ok(())
}

pub(crate) fn info(call: &mut Call<'_>) -> Done {
    if call.count() == 2 {
        return all(call);
    }
    call.reply.array(call.count() - 2);
    for name in call.args.args().skip(2) {
        match named(name) {
            Some((command, parent)) => put_info(command, parent, &mut call.reply),
            None => call.reply.null(),
        }
    }
    Ok(())
}

/// The command of a name such as `get` or `config|get`, and its parent.
fn named(name: &[u8]) -> Option<(&'static Command, Option<&'static Command>)> {
    let bar = name.iter().position(|&byte| byte == b'|');
    let first = &name[..bar.unwrap_or(name.len())];
    let command = &COMMANDS[usize::from(table::find(first)?)];
    match bar {
        None => Some((command, None)),
        Some(bar) => Some((command.subcommand(&name[bar + 1..])?, Some(command))),
    }
}

fn full_name(command: &Command, parent: Option<&Command>) -> String {
    match parent {
        Some(parent) => format!("{}|{}", parent.name, command.name),
        None => command.name.to_owned(),
    }
}

fn put_info(command: &Command, parent: Option<&Command>, reply: &mut Writer<'_>) {
    reply.array(10);
    reply.bulk(full_name(command, parent).as_bytes());
    reply.integer(command.arity.into());
    let flags = FLAGS.iter().filter(|(flag, _)| command.is(*flag));
    reply.set(flags.clone().count());
    flags.for_each(|(_, name)| reply.simple(name));
    let keys = command.keys;
    reply.integer(keys.first as i64);
    reply.integer(keys.last as i64);
    reply.integer(keys.step as i64);
    put_categories(command, reply);
    // Tips for proxies: none.
    reply.set(0);
    put_key_specs(command, reply);
    reply.array(command.subcommands.len());
    for subcommand in command.subcommands {
        put_info(subcommand, Some(command), reply);
    }
}

fn put_categories(command: &Command, reply: &mut Writer<'_>) {
    let family = match command.family {
        Family::Strings => Some("@string"),
        Family::Hashes => Some("@hash"),
        Family::Generic => Some("@keyspace"),
        Family::Transactions => Some("@transaction"),
        Family::Connection | Family::Server | Family::Keyrack => None,
    };
    let flags = [
        (command.is(WRITE), "@write"),
        (command.is(READ), "@read"),
        (command.is(ADMIN), "@admin"),
        (command.is(ADMIN | DANGEROUS), "@dangerous"),
        (command.is(CONNECTION), "@connection"),
        (command.is(FAST), "@fast"),
        (!command.is(FAST), "@slow"),
    ];
    let names = flags.into_iter().filter(|(holds, _)| *holds).map(|(_, name)| name);
    let names: Vec<&str> = family.into_iter().chain(names).collect();
    reply.set(names.len());
    names.iter().for_each(|name| reply.simple(name));
}

/// Where the keys are, in the newer form: begin at an index, then a range.
fn put_key_specs(command: &Command, reply: &mut Writer<'_>) {
    let keys = command.keys;
    if keys.first == 0 {
        return reply.set(0);
    }
    reply.set(1);
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(1);
    reply.simple(if command.is(WRITE) { "RW" } else { "RO" });
    reply.bulk(b"begin_search");
    reply.map(2);
    put_pair("type", "index", reply);
    reply.bulk(b"spec");
    reply.map(1);
    reply.bulk(b"index");
    reply.integer(keys.first as i64);
    reply.bulk(b"find_keys");
    reply.map(2);
    put_pair("type", "range", reply);
    reply.bulk(b"spec");
    reply.map(3);
    let last = if keys.last < 0 { keys.last } else { keys.last - keys.first.cast_signed() };
    for (name, number) in [("lastkey", last as i64), ("keystep", keys.step as i64), ("limit", 0)] {
        reply.bulk(name.as_bytes());
        reply.integer(number);
    }
}

fn put_pair(name: &str, value: &str, reply: &mut Writer<'_>) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}

pub(crate) fn docs(call: &mut Call<'_>) -> Done {
    if call.count() == 2 {
        call.reply.map(COMMANDS.len());
        for command in COMMANDS {
            put_docs(command, None, &mut call.reply);
        }
        return Ok(());
    }
    let found: Vec<_> = call.args.args().skip(2).filter_map(named).collect();
    call.reply.map(found.len());
    for (command, parent) in found {
        put_docs(command, parent, &mut call.reply);
    }
    Ok(())
}

fn put_docs(command: &Command, parent: Option<&Command>, reply: &mut Writer<'_>) {
    reply.bulk(full_name(command, parent).as_bytes());
    reply.map(if command.subcommands.is_empty() { 3 } else { 4 });
    put_pair("summary", command.summary, reply);
    put_pair("since", command.since, reply);
    put_pair("group", command.family.name(), reply);
    if !command.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(command.subcommands.len());
        for subcommand in command.subcommands {
            put_docs(subcommand, Some(command), reply);
        }
    }
}

pub(crate) fn list(call: &mut Call<'_>) -> Done {
    let matches: Box<dyn Fn(&Command) -> bool> = match call.count() {
        2 => Box::new(|_| true),
        5 if call.is(2, "filterby") && call.is(3, "module") => Box::new(|_| false),
        5 if call.is(2, "filterby") && call.is(3, "aclcat") => {
            let category = String::from_utf8_lossy(call.arg(4)).to_ascii_lowercase();
            Box::new(move |command| match category.as_str() {
                "write" => command.is(WRITE),
                "read" => command.is(READ),
                "admin" => command.is(ADMIN),
                "dangerous" => command.is(ADMIN | DANGEROUS),
                "connection" => command.is(CONNECTION),
                "fast" => command.is(FAST),
                "slow" => !command.is(FAST),
                "string" => command.family == Family::Strings,
                "hash" => command.family == Family::Hashes,
                "keyspace" => command.family == Family::Generic,
                "transaction" => command.family == Family::Transactions,
                _ => false,
            })
        }
        5 if call.is(2, "filterby") && call.is(3, "pattern") => {
            let pattern = call.arg(4).to_ascii_lowercase();
            Box::new(move |command| {
                Glob::new(&pattern).matches(command.name.as_bytes()) == Match::Yes
            })
        }
        _ => return Err(Fault::SYNTAX),
    };
    let names: Vec<&str> =
        COMMANDS.iter().filter(|command| matches(command)).map(|command| command.name).collect();
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
    Ok(())
}

pub(crate) fn getkeys(call: &mut Call<'_>) -> Done {
    let Some(index) = table::find(call.arg(2)) else {
        return Err(Fault::Text("ERR Invalid command specified"));
    };
    let mut command = &COMMANDS[usize::from(index)];
    let words = call.count() - 2;
    if let Some(subcommand) = call.args.get(3).and_then(|name| command.subcommand(name)) {
        command = subcommand;
    }
    if command.keys.first == 0 {
        return Err(Fault::Text("ERR The command has no key arguments"));
    }
    if !command.takes(words) {
        return Err(Fault::Text("ERR Invalid number of arguments specified for command"));
    }
    let places: Vec<usize> = command.keys.places(words).collect();
    call.reply.array(places.len());
    places.iter().for_each(|&place| call.reply.bulk(call.args.arg(2 + place)));
    Ok(())
}
