//! Commands about the session: HELLO, AUTH, SELECT, RESET, QUIT; and PING and ECHO.

use keyrack_wire::resp::Protocol;

use crate::log::events;
use crate::redis::call::Call;
use crate::redis::commands::client::check_name;
use crate::redis::fault::{Done, Fault};
use crate::redis::number::integer;
use crate::redis::state::{Replies, State};

/// The version of Redis whose commands are spoken; libraries choose commands by it.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

const USER: &[u8] = b"default";

pub(crate) fn ping(call: &mut Call<'_>) -> Done {
    match call.count() {
        1 => call.reply.simple("PONG"),
        2 => call.reply.bulk(call.arg(1)),
        _ => return Err(Fault::arity("ping", None)),
    }
    Ok(())
}

pub(crate) fn echo(call: &mut Call<'_>) -> Done {
    call.reply.bulk(call.arg(1));
    Ok(())
}

pub(crate) fn quit(call: &mut Call<'_>) -> Done {
    call.state.is_closing = true;
    call.reply.ok();
    Ok(())
}

pub(crate) fn select(call: &mut Call<'_>) -> Done {
    if call.integer(1)? != 0 {
        return Err(Fault::DB_INDEX);
    }
    call.reply.ok();
    Ok(())
}

pub(crate) fn auth(call: &mut Call<'_>) -> Done {
    let (user, password) = match call.count() {
        2 => (USER, call.arg(1)),
        3 => (call.arg(1), call.arg(2)),
        _ => return Err(Fault::SYNTAX),
    };
    if call.count() == 2 && !call.ctx.shared.settings.is_protected() {
        return Err(Fault::Text(
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        ));
    }
    authenticate(call, user, password)?;
    call.reply.ok();
    Ok(())
}

/// Lets the client in, or notes a failure; too many of them close the connection.
fn authenticate(call: &mut Call<'_>, user: &[u8], password: &[u8]) -> Done {
    let shared = call.ctx.shared;
    let is_password = !shared.settings.is_protected() || shared.settings.is_password(password);
    if is_password && user == USER {
        call.state.is_authenticated = true;
        call.state.auth_failures = 0;
        return Ok(());
    }
    call.state.auth_failures += 1;
    events::auth_refused("redis", &call.state.client.peer, user);
    call.state.is_closing = call.state.auth_failures >= shared.options.auth_failures_max;
    Err(Fault::WRONG_PASS)
}

pub(crate) fn hello(call: &mut Call<'_>) -> Done {
    let protocol = match call.args.get(1).map(integer) {
        None => call.state.protocol(),
        Some(Some(2)) => Protocol::Resp2,
        Some(Some(3)) => Protocol::Resp3,
        Some(Some(_)) => return Err(Fault::Text("NOPROTO unsupported protocol version")),
        Some(None) => {
            return Err(Fault::Text("ERR Protocol version is not an integer or out of range"));
        }
    };
    let mut name = None;
    let mut index = 2;
    while index < call.count() {
        if call.is(index, "auth") && index + 2 < call.count() {
            authenticate(call, call.arg(index + 1), call.arg(index + 2))?;
            index += 3;
        } else if call.is(index, "setname") && index + 1 < call.count() {
            name = Some(check_name(call.arg(index + 1))?);
            index += 2;
        } else {
            let option = String::from_utf8_lossy(call.arg(index)).into_owned();
            return Err(Fault::Made(format!("ERR Syntax error in HELLO option '{option}'")));
        }
    }
    if !call.state.is_authenticated && call.ctx.shared.settings.is_protected() {
        return Err(Fault::Text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        call.state.client.names().name = name;
    }
    call.state.set_protocol(protocol);
    call.reply.set_protocol(protocol);
    welcome(call, protocol);
    Ok(())
}

fn welcome(call: &mut Call<'_>, protocol: Protocol) {
    let reply = &mut call.reply;
    reply.map(7);
    for (name, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(call.state.client.id.cast_signed());
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
}

/// Everything as it was when the connection was opened.
pub(crate) fn reset(call: &mut Call<'_>) -> Done {
    let state: &mut State = call.state;
    state.end_transaction();
    state.set_protocol(Protocol::Resp2);
    state.replies = Replies::All;
    state.is_authenticated = !call.ctx.shared.settings.is_protected();
    state.client.names().name.clear();
    call.reply.simple("RESET");
    Ok(())
}
