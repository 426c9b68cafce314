//! `keyrack serve`: a store on the network, for the clients people already have.
//!
//! ```text
//!   file, flags --> Options --check--> rows --> Server --> lines that say where ... signal --> end
//! ```
//!
//! Talk goes to standard error: a line `listening on URL` for each listener, then `ready`. The
//! first SIGINT or SIGTERM ends the server in order; one that comes later ends the process.
//!
//! | status | |
//! |---|---|
//! | 0 | ended in order |
//! | 1 | ended, since the store failed |
//! | 2 | the options, or what they name, are not right; nothing was served |
//! | 3 | files of the store are damaged |

mod engine;
mod log;

pub(crate) use engine::{row_options, show};
pub(crate) use log::start as start_log;

use clap::{Arg, ArgAction, ArgMatches, Command};
use keyrack_measure::{Clock, wall};
use keyrack_rowstore::Rows;
use keyrack_server::{Control, Error, Options, Password, SETTINGS, Server, apply_toml};
use keyrack_vfs::{Fs, RealFs};
use std::path::Path;
use std::sync::Arc;

/// Files of the store are damaged.
const DAMAGED: u8 = 3;

/// The permission bits of everybody but the owner.
const OTHERS: u32 = 0o077;

/// The number of the user who may do everything.
const ROOT: u32 = 0;

/// Bytes of a password file.
const PASSWORD_BYTES_MAX: usize = 4096;

/// After the first signal, how long others are taken for the same wish.
const SAME_WISH_NS: u64 = 1_000_000_000;

/// The subcommand: its flags are the table of settings.
pub(crate) fn command() -> Command {
    let file = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .help("Settings from a TOML file; flags override them");
    let check = Arg::new("check-config")
        .long("check-config")
        .action(ArgAction::SetTrue)
        .help("Say whether the settings are right, and end");
    let settings = SETTINGS.iter().map(|setting| {
        let arg = Arg::new(setting.name)
            .long(setting.name)
            .help(format!("{} [default: {}]", setting.about, setting.default));
        match (setting.value.is_empty(), setting.repeats) {
            (true, _) => arg.action(ArgAction::SetTrue),
            (false, true) => arg.value_name(setting.value).action(ArgAction::Append),
            (false, false) => arg.value_name(setting.value).action(ArgAction::Set),
        }
    });
    Command::new("serve")
        .about("Serve a store to clients of memcached, Redis and Masstree")
        .after_help(
            "Exit status: 0 ended in order; 1 the store failed; 2 usage, or what it names; \
             3 damage.",
        )
        .arg(file)
        .arg(check)
        .args(settings)
}

/// The name in messages.
const PROGRAM: &str = "keyrack serve";

/// Serves until a signal comes.
pub(crate) fn run(matches: &ArgMatches) -> u8 {
    serve(matches).unwrap_or_else(|error| failed(PROGRAM, &error))
}

/// Says why nothing was served. Returns the exit status.
pub(crate) fn failed(program: &str, error: &Error) -> u8 {
    crate::refuse(program, &error.to_string());
    match error {
        Error::Store(keyrack_store::Error::Corruption { .. }) => DAMAGED,
        _ => crate::COULD_NOT,
    }
}

fn serve(matches: &ArgMatches) -> Result<u8, Error> {
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let options = options(matches, &*fs)?;
    if matches.get_flag("check-config") {
        return Ok(crate::print("the settings are right\n"));
    }
    start_log(options.log_level, options.log_format);
    keyrack_vfs::keep_private();
    let control = Control::new();
    end_on_signals(&control)?;
    let rows = opened(|| engine::open(&options, &fs))?;
    let server = Server::start(rows, &options, &control, &*fs)?;
    say!(
        "keyrack {} serves with {} threads, durability {}, since {}",
        env!("CARGO_PKG_VERSION"),
        options.loops(),
        options.durability(),
        wall::rfc3339_now(),
    );
    for bound in server.bound() {
        say!("listening on {bound}");
    }
    say!("ready");
    Ok(until_end(PROGRAM, server, &control))
}

/// What `open` opens, with a line about it in the log.
pub(crate) fn opened(
    open: impl FnOnce() -> Result<Box<dyn Rows>, Error>,
) -> Result<Box<dyn Rows>, Error> {
    let clock = Clock::vdso();
    let began = clock.ticks();
    let rows = open()?;
    let opened_ms = clock.ns_between(began, clock.ticks()) / 1_000_000;
    tracing::info!(engine = rows.version(), rows = rows.len(), opened_ms, "store is open");
    Ok(rows)
}

/// Waits for a signal, or a failure, and ends the server. Returns the exit status.
pub(crate) fn until_end(program: &str, server: Server, control: &Control) -> u8 {
    let failure = control.wait_for_end();
    tracing::info!("ending");
    let ended = server.end();
    match failure.or_else(|| ended.err().map(|error| error.to_string())) {
        None => {
            say!("ended");
            crate::DONE
        }
        Some(why) => {
            crate::refuse(program, &why);
            crate::NO
        }
    }
}

/// What the file and the flags say, checked.
fn options(matches: &ArgMatches, fs: &dyn Fs) -> Result<Options, Error> {
    let mut options = Options::default();
    if let Some(path) = matches.get_one::<String>("config") {
        let text = fs.read_to_string(Path::new(path))?;
        apply_toml(&mut options, &text)
            .map_err(|error| Error::usage(format!("{path}: {error}")))?;
    }
    if matches.contains_id("listen") {
        options.listen.clear();
    }
    for setting in SETTINGS {
        if setting.value.is_empty() {
            if matches.get_flag(setting.name) {
                setting.apply(&mut options, "yes")?;
            }
            continue;
        }
        for value in matches.get_many::<String>(setting.name).into_iter().flatten() {
            setting.apply(&mut options, value)?;
        }
    }
    options.complete()?;
    if let Some(path) = &options.password_file {
        options.password = password(fs, path)?;
    }
    options.check()?;
    Ok(options)
}

/// The first line of the file.
fn password(fs: &dyn Fs, path: &Path) -> Result<Password, Error> {
    let bytes = fs.read(path)?;
    // A file that could be read can be looked at.
    let access = keyrack_vfs::access(path)?;
    let name = path.display();
    if access.mode & OTHERS != 0 {
        return Err(Error::usage(format!(
            "password-file {name} can be used by others (mode {:o}): chmod 600 {name}",
            access.mode
        )));
    }
    if access.owner != access.own && access.owner != ROOT {
        return Err(Error::usage(format!(
            "password-file {name} belongs to user {}, who can change it: chown {} {name}",
            access.owner, access.own
        )));
    }
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() || line.len() > PASSWORD_BYTES_MAX {
        return Err(Error::usage(format!(
            "{}: the first line is no password: write 1 to {PASSWORD_BYTES_MAX} bytes",
            path.display()
        )));
    }
    Ok(Password::new(line))
}

/// The first SIGINT or SIGTERM asks `control` for the end, a later one ends the process.
pub(crate) fn end_on_signals(control: &Control) -> Result<(), Error> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(Error::Thread)?;
    let control = control.clone();
    let watch = move || {
        let clock = Clock::vdso();
        let mut first = None;
        for _ in signals.forever() {
            control.end();
            let now = clock.ticks();
            if clock.ns_between(*first.get_or_insert(now), now) > SAME_WISH_NS {
                std::process::exit(i32::from(crate::INTERRUPTED));
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(watch).map_err(Error::Thread)?;
    Ok(())
}
