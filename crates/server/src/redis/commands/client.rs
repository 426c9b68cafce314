//! CLIENT: what a client says about itself, and what it may know and do about others.

use crate::redis::call::Call;
use crate::redis::clients::Client;
use crate::redis::fault::{Done, Fault};
use crate::redis::number::natural;
use crate::redis::state::Replies;

/// Bytes of a name that a client gives itself.
const NAME_BYTES_MAX: usize = 1024;

/// The name as text, if it may be one: visible characters without blanks.
pub(crate) fn check_name(name: &[u8]) -> Result<String, Fault> {
    let text = std::str::from_utf8(name).ok().filter(|_| name.len() <= NAME_BYTES_MAX);
    text.filter(|_| name.iter().all(u8::is_ascii_graphic)).map(str::to_owned).ok_or(Fault::Text(
        "ERR Client names cannot contain spaces, newlines or special characters.",
    ))
}

pub(crate) fn id(call: &mut Call<'_>) -> Done {
    call.reply.integer(call.state.client.id.cast_signed());
    Ok(())
}

pub(crate) fn getname(call: &mut Call<'_>) -> Done {
    match call.state.client.names().name.as_bytes() {
        b"" => call.reply.null(),
        name => call.reply.bulk(name),
    }
    Ok(())
}

pub(crate) fn setname(call: &mut Call<'_>) -> Done {
    call.state.client.names().name = check_name(call.arg(2))?;
    call.reply.ok();
    Ok(())
}

pub(crate) fn setinfo(call: &mut Call<'_>) -> Done {
    let value = std::str::from_utf8(call.arg(3)).ok().filter(|value| {
        value.len() <= NAME_BYTES_MAX && value.bytes().all(|byte| byte.is_ascii_graphic())
    });
    let names = |is_version: bool, value: &str| {
        let mut names = call.state.client.names();
        let slot = if is_version { &mut names.library_version } else { &mut names.library };
        value.clone_into(slot);
    };
    let (is_name, is_version) = (call.is(2, "lib-name"), call.is(2, "lib-ver"));
    if !is_name && !is_version {
        let option = String::from_utf8_lossy(call.arg(2)).into_owned();
        return Err(Fault::Made(format!("ERR Unrecognized option '{option}'")));
    }
    names(
        is_version,
        value.ok_or(Fault::Text(
            "ERR lib-name and lib-ver cannot contain spaces, newlines or special characters.",
        ))?,
    );
    call.reply.ok();
    Ok(())
}

pub(crate) fn info(call: &mut Call<'_>) -> Done {
    let mut text = String::new();
    call.state.client.describe(call.ctx.now_ms, &mut text);
    text.push('\n');
    call.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

pub(crate) fn list(call: &mut Call<'_>) -> Done {
    let mut wanted: Option<Vec<u64>> = None;
    let mut none = false;
    if call.is(2, "type") && call.count() == 4 {
        none = !call.is(3, "normal");
        check_type(call.arg(3))?;
    } else if call.is(2, "id") && call.count() > 3 {
        let ids = (3..call.count()).map(|index| natural(call.arg(index)));
        wanted = Some(ids.collect::<Option<_>>().ok_or(Fault::Text("ERR Invalid client ID"))?);
    } else if call.count() > 2 {
        return Err(Fault::SYNTAX);
    }
    let mut text = String::new();
    for client in call.ctx.shared.clients.all() {
        if none || wanted.as_ref().is_some_and(|wanted| !wanted.contains(&client.id)) {
            continue;
        }
        client.describe(call.ctx.now_ms, &mut text);
        text.push('\n');
    }
    call.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

/// Refuses what Redis does not call a type of clients.
fn check_type(kind: &[u8]) -> Done {
    let types = ["normal", "master", "replica", "slave", "pubsub"];
    if types.iter().any(|known| kind.eq_ignore_ascii_case(known.as_bytes())) {
        return Ok(());
    }
    let kind = String::from_utf8_lossy(kind).into_owned();
    Err(Fault::Made(format!("ERR Unknown client type '{kind}'")))
}

/// The connections that CLIENT KILL ends.
#[derive(Debug, Default)]
struct Victims<'a> {
    id: Option<u64>,
    peer: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    nobody: bool,
    and_me: bool,
}

impl<'a> Victims<'a> {
    fn parse(call: &Call<'a>) -> Result<Self, Fault> {
        let mut victims = Victims::default();
        for index in (2..call.count()).step_by(2) {
            let Some(value) = call.args.get(index + 1) else { return Err(Fault::SYNTAX) };
            match () {
                () if call.is(index, "id") => {
                    let id = natural(value).filter(|&id| id > 0);
                    victims.id =
                        Some(id.ok_or(Fault::Text("ERR client-id should be greater than 0"))?);
                }
                () if call.is(index, "addr") => victims.peer = Some(value),
                () if call.is(index, "laddr") => victims.local = Some(value),
                () if call.is(index, "type") => {
                    check_type(value)?;
                    victims.nobody |= !call.is(index + 1, "normal");
                }
                () if call.is(index, "user") && value != b"default" => {
                    let user = String::from_utf8_lossy(value).into_owned();
                    return Err(Fault::Made(format!("ERR No such user '{user}'")));
                }
                () if call.is(index, "user") => {}
                () if call.is(index, "skipme") && call.is(index + 1, "no") => victims.and_me = true,
                () if call.is(index, "skipme") && call.is(index + 1, "yes") => {}
                () => return Err(Fault::SYNTAX),
            }
        }
        Ok(victims)
    }

    fn includes(&self, client: &Client, me: u64) -> bool {
        !self.nobody
            && (self.and_me || client.id != me)
            && self.id.is_none_or(|id| id == client.id)
            && self.peer.is_none_or(|peer| peer == client.peer.as_bytes())
            && self.local.is_none_or(|local| local == client.local.as_bytes())
    }
}

pub(crate) fn kill(call: &mut Call<'_>) -> Done {
    let is_old = call.count() == 3;
    let victims = if is_old {
        Victims { peer: Some(call.arg(2)), and_me: true, ..Victims::default() }
    } else {
        Victims::parse(call)?
    };
    let me = call.state.client.id;
    let mut killed = 0;
    for client in call.ctx.shared.clients.all() {
        if !victims.includes(&client, me) {
            continue;
        }
        killed += 1;
        if client.id == me {
            // The reply is sent first.
            call.state.is_closing = true;
        } else {
            call.ctx.shared.clients.kill(&client);
        }
    }
    match (is_old, killed) {
        (true, 0) => return Err(Fault::Text("ERR No such client")),
        (true, _) => call.reply.ok(),
        (false, _) => call.reply.integer(killed),
    }
    Ok(())
}

pub(crate) fn reply(call: &mut Call<'_>) -> Done {
    call.state.replies = match () {
        () if call.is(2, "on") => Replies::All,
        () if call.is(2, "off") => Replies::None,
        () if call.is(2, "skip") && call.state.replies == Replies::None => Replies::None,
        () if call.is(2, "skip") => Replies::SkipNext,
        () => return Err(Fault::SYNTAX),
    };
    call.reply.ok();
    Ok(())
}

/// NO-EVICT and NO-TOUCH: nothing is evicted for the memory of connections, and reads leave no
/// trace in rows.
pub(crate) fn on_or_off(call: &mut Call<'_>) -> Done {
    if !call.is(2, "on") && !call.is(2, "off") {
        return Err(Fault::SYNTAX);
    }
    call.reply.ok();
    Ok(())
}

pub(crate) fn pause(_: &mut Call<'_>) -> Done {
    Err(Fault::unsupported("CLIENT PAUSE"))
}

pub(crate) fn unpause(call: &mut Call<'_>) -> Done {
    call.reply.ok();
    Ok(())
}

pub(crate) fn tracking(call: &mut Call<'_>) -> Done {
    if !call.is(2, "off") {
        return Err(Fault::unsupported("CLIENT TRACKING"));
    }
    call.reply.ok();
    Ok(())
}

pub(crate) fn trackinginfo(call: &mut Call<'_>) -> Done {
    call.reply.map(3);
    call.reply.bulk(b"flags");
    call.reply.set(1);
    call.reply.bulk(b"off");
    call.reply.bulk(b"redirect");
    call.reply.integer(-1);
    call.reply.bulk(b"prefixes");
    call.reply.array(0);
    Ok(())
}

pub(crate) fn getredir(call: &mut Call<'_>) -> Done {
    call.reply.integer(-1);
    Ok(())
}

/// No command of ours blocks its client.
pub(crate) fn unblock(call: &mut Call<'_>) -> Done {
    call.integer(2)?;
    call.reply.integer(0);
    Ok(())
}
