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

pub(crate) use engine::open;

use clap::{Arg, ArgAction, ArgMatches, Command};
use keyrack_console::Failure;
use keyrack_server::{Admin, Control, Error, Options, Password, SETTINGS, Server, apply_toml};
use keyrack_vfs::{Fs, RealFs};
use std::path::Path;
use std::sync::Arc;

/// The permission bits of everybody but the owner.
const OTHERS: u32 = 0o077;

/// The number of the user who may do everything.
const ROOT: u32 = 0;

const PASSWORD_BYTES_MAX: usize = 4096;

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
    serve(matches).unwrap_or_else(|error| {
        keyrack_server::log::finish();
        Failure::from(error).explain(PROGRAM)
    })
}

fn serve(matches: &ArgMatches) -> Result<u8, Error> {
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let options = options(matches, &*fs)?;
    if matches.get_flag("check-config") {
        return Ok(keyrack_console::print("the settings are right\n"));
    }
    keyrack_console::start_log(options.log_level, options.log_format);
    keyrack_console::log_start(&options);
    keyrack_vfs::keep_private();
    let control = Control::new();
    let ender = control.clone();
    keyrack_console::on_signals(move || ender.end("signal")).map_err(Error::usage)?;
    let admin = Admin::start(&options, &control)?;
    let rows = keyrack_console::open_logged(|| open(&options, &fs, &control))?;
    let server = Server::start_with(admin, rows, &options, &control, &*fs)?;
    keyrack_console::announce(&server);
    Ok(keyrack_console::serve_until_end(PROGRAM, server, &control))
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

fn password(fs: &dyn Fs, path: &Path) -> Result<Password, Error> {
    secret(fs, path).map(|secret| Password::new(&secret))
}

/// The first line of a file that nobody else can use.
pub(crate) fn secret(fs: &dyn Fs, path: &Path) -> Result<Vec<u8>, Error> {
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
    Ok(line.to_vec())
}
