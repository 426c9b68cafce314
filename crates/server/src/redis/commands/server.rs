//! Commands to the server: time, checkpoints, shutdown; and those that have little to tell here.

use keyrack_decimal::Decimal;

use crate::redis::call::Call;
use crate::redis::fault::{Done, Fault};
use crate::redis::table;
use crate::redis::task::Task;

/// Seconds that DEBUG SLEEP may take.
const SLEEP_SECONDS_MAX: f64 = 60.0;

/// The time of the iteration: milliseconds, written as seconds and microseconds.
pub(crate) fn time(call: &mut Call<'_>) -> Done {
    let now_ms = call.ctx.now_ms;
    call.reply.array(2);
    call.reply.bulk(&Decimal::new(now_ms / 1000));
    call.reply.bulk(&Decimal::new(now_ms % 1000 * 1000));
    Ok(())
}

/// A checkpoint, and the reply when it is complete. Others are served meanwhile.
pub(crate) fn save(call: &mut Call<'_>) -> Done {
    if !call.ctx.shared.host.begin_checkpoint() {
        return Err(Fault::Text("ERR Background save already in progress"));
    }
    call.begin(Task::Save)
}

pub(crate) fn bgsave(call: &mut Call<'_>) -> Done {
    if call.count() > 2 || (call.count() == 2 && !call.is(1, "schedule")) {
        return Err(Fault::SYNTAX);
    }
    if !call.ctx.shared.host.begin_checkpoint() {
        return Err(Fault::Text("ERR Background save already in progress"));
    }
    call.reply.simple("Background saving started");
    Ok(())
}

/// The log is let go of up to a checkpoint, which is what rewriting it is for.
pub(crate) fn bgrewriteaof(call: &mut Call<'_>) -> Done {
    if !call.ctx.shared.host.begin_checkpoint() {
        return Err(Fault::Text("ERR Background append only file rewriting already in progress"));
    }
    call.reply.simple("Background append only file rewriting started");
    Ok(())
}

pub(crate) fn lastsave(call: &mut Call<'_>) -> Done {
    let shared = call.ctx.shared;
    let last_ms = match shared.host.checkpoint().last_ms {
        0 => shared.start_ms,
        last_ms => last_ms,
    };
    call.reply.integer((last_ms / 1000).cast_signed());
    Ok(())
}

/// Ends the process. Redis sends no reply: the client sees the end of its connection.
pub(crate) fn shutdown(call: &mut Call<'_>) -> Done {
    let options = ["nosave", "save", "now", "force"];
    for index in 1..call.count() {
        if call.is(index, "abort") {
            return Err(Fault::Text("ERR No shutdown in progress."));
        }
        if !options.iter().any(|option| call.is(index, option)) {
            return Err(Fault::SYNTAX);
        }
    }
    call.ctx.shared.host.shutdown();
    call.state.is_closing = true;
    Ok(())
}

pub(crate) fn debug_sleep(call: &mut Call<'_>) -> Done {
    if !call.ctx.shared.options.debug {
        return Err(Fault::Text(
            "ERR DEBUG command not allowed. The server has to be started with it enabled.",
        ));
    }
    let seconds = std::str::from_utf8(call.arg(2)).ok().and_then(|text| text.parse::<f64>().ok());
    let seconds = seconds.filter(|seconds| (0.0..=SLEEP_SECONDS_MAX).contains(seconds));
    let seconds = seconds.ok_or(Fault::OUT_OF_RANGE)?;
    // At most a minute: no number of milliseconds is too large.
    let until_ms = call.ctx.now_ms + (seconds * 1000.0) as u64;
    call.begin(Task::Sleep(until_ms))
}

pub(crate) fn ok(call: &mut Call<'_>) -> Done {
    call.reply.ok();
    Ok(())
}

pub(crate) fn memory_doctor(call: &mut Call<'_>) -> Done {
    call.reply.verbatim(*b"txt", b"Nothing stands out.\n");
    Ok(())
}

pub(crate) fn memory_stats(call: &mut Call<'_>) -> Done {
    let mut bytes = 0.0;
    call.ctx.store.stats(&mut |name, value| {
        if name == "memory_bytes" {
            bytes = value;
        }
    });
    let keys = call.ctx.store.len();
    let per_key = if keys == 0 { 0.0 } else { bytes / keys as f64 };
    call.reply.map(3);
    let whole = |number: f64| number as i64;
    for (name, value) in [
        ("total.allocated", whole(bytes)),
        ("keys.count", i64::try_from(keys).unwrap_or(i64::MAX)),
        ("keys.bytes-per-key", whole(per_key)),
    ] {
        call.reply.bulk(name.as_bytes());
        call.reply.integer(value);
    }
    Ok(())
}

/// The drawing of LOLWUT: a rack, and keys in their order.
const DRAWING: &str = "\
.---------.---------.
|  a .. f |  g .. q |
'---------'---------'
Keyrack ver. ";

pub(crate) fn lolwut(call: &mut Call<'_>) -> Done {
    let text = format!("{DRAWING}{}\n", env!("CARGO_PKG_VERSION"));
    call.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

/// There are no replicas, so none has acknowledged anything.
pub(crate) fn wait(call: &mut Call<'_>) -> Done {
    call.integer(1)?;
    let timeout = call
        .integer(2)
        .map_err(|_| Fault::Text("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(Fault::Text("ERR timeout is negative"));
    }
    call.reply.integer(0);
    Ok(())
}

pub(crate) fn role(call: &mut Call<'_>) -> Done {
    call.reply.array(3);
    call.reply.bulk(b"master");
    call.reply.integer(0);
    call.reply.array(0);
    Ok(())
}

pub(crate) fn no_cluster(_: &mut Call<'_>) -> Done {
    Err(Fault::Text("ERR This instance has cluster support disabled"))
}

/// A command that is nothing without its second word; the table has seen to the number of words.
pub(crate) fn incomplete(call: &mut Call<'_>) -> Done {
    Err(Fault::arity(call.command.name, None))
}

/// The subcommands of the first word.
pub(crate) fn help(call: &mut Call<'_>) -> Done {
    let Some(index) = table::find(call.arg(0)) else { return Err(Fault::SYNTAX) };
    let command = &table::COMMANDS[usize::from(index)];
    let name = command.name.to_ascii_uppercase();
    call.reply.array(1 + 2 * command.subcommands.len());
    call.reply.simple(format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for subcommand in command.subcommands {
        call.reply.simple(subcommand.name.to_ascii_uppercase());
        call.reply.simple(format!("    {}", subcommand.summary));
    }
    Ok(())
}
