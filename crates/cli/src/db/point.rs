//! `keyrack db get`, `put` and `delete`: one key.

use super::store::{open, open_to_read, space_arg};
use crate::db::args::{bytes, hex_flag, on_store};
use clap::{Arg, ArgMatches, Command};
use keyrack_console::{Failure, Outcome, Output, hex};

fn space() -> Arg {
    space_arg("The key space, in a store that has some")
}

fn key() -> Arg {
    Arg::new("key").value_name("KEY").required(true).allow_hyphen_values(true).help("The key")
}

pub(super) fn get_command() -> Command {
    on_store("get", "Print the value of a key, and a line feed")
        .arg(key())
        .arg(space())
        .arg(hex_flag())
}

pub(super) fn put_command() -> Command {
    let value = Arg::new("value").value_name("VALUE").required(true).allow_hyphen_values(true);
    on_store("put", "Store a value under a key, synced")
        .arg(key())
        .arg(value.help("The value"))
        .arg(space())
        .arg(hex_flag())
}

pub(super) fn delete_command() -> Command {
    on_store("delete", "Remove a key, synced, whether it is there or not")
        .arg(key())
        .arg(space())
        .arg(hex_flag())
}

pub(super) fn get(matches: &ArgMatches) -> Outcome {
    let key = bytes(matches, "key")?.unwrap_or_default();
    let Some(value) = open_to_read(matches)?.keys(matches)?.get(&key)? else {
        let shown = matches.get_one::<String>("key").map(String::as_str).unwrap_or_default();
        return Err(Failure::Failed(format!("there is no key '{shown}'")));
    };
    let mut out = Output::new();
    let is_hex = matches.get_flag("hex");
    out.write(&if is_hex { hex(&value).into_bytes() } else { value })?;
    out.write(b"\n")?;
    out.finish()
}

pub(super) fn put(matches: &ArgMatches) -> Outcome {
    let key = bytes(matches, "key")?.unwrap_or_default();
    let value = bytes(matches, "value")?.unwrap_or_default();
    let store = open(matches)?;
    store.keys(matches)?.put(&key, &value)?;
    store.close()?;
    Ok(keyrack_console::DONE)
}

pub(super) fn delete(matches: &ArgMatches) -> Outcome {
    let key = bytes(matches, "key")?.unwrap_or_default();
    let store = open(matches)?;
    store.keys(matches)?.delete(&key)?;
    store.close()?;
    Ok(keyrack_console::DONE)
}
