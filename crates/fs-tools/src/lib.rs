//! `keyrack fs`: name spaces of files, as jobs write them and others read them.
//!
//! ```text
//!   command line --> one file per group of commands --> keyrack_deltafs
//!      --db DIR          the log that is written to, made by the first change
//!      --view LIST       publications that are only read, instead
//!      --registry DIR    where publications are; DIR/registry of --db if it is not given
//!      --store ADDRESS   the same in an object store
//! ```
//!
//! | status | |
//! |---|---|
//! | 0 | done |
//! | 1 | failed, or the answer is no: a name that is not there, a right that is missing |
//! | 2 | the command line, or what it names, is not right; nothing was done |
//! | 3 | a file or a record is damaged |
//! | 130 | interrupted |

#![forbid(unsafe_code)]

mod archive;
mod bench;
mod find;
mod job;
mod jsonl;
mod logs;
#[cfg(all(feature = "fuse", target_os = "linux"))]
mod mount;
mod mutate;
#[cfg(feature = "parquet")]
mod parquet;
mod query;
mod quota;
mod tar;

pub use job::{client, compactor, server};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use keyrack_console::{Failure, escaped};
use keyrack_deltafs::{LogHead, LogId, Namespace, Reference, Registry, Settings, User};
use keyrack_objects::{Access, Address};
use keyrack_vfs::{Fs, RealFs};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const STATUSES: &str = "\
Exit status: 0 done; 1 failed, or no (a name that is not there, a right that is missing); 2 usage; \
3 damage; 130 interrupted.";

#[must_use]
/// The subcommand.
pub fn command() -> Command {
    let command = Command::new("fs")
        .about("Name spaces of files in logs: change them, look at them, publish and measure them")
        .after_help(STATUSES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommands(mutate::commands())
        .subcommands(query::commands())
        .subcommand(find::command())
        .subcommands(archive::commands())
        .subcommands(logs::commands())
        .subcommand(bench::command())
        .subcommands(job::commands());
    #[cfg(all(feature = "fuse", target_os = "linux"))]
    let command = command.subcommand(mount::command());
    command
}

#[must_use]
/// Runs the subcommand, and says what went wrong.
pub fn run(matches: &ArgMatches) -> u8 {
    keyrack_vfs::keep_private();
    let Some((name, matches)) = matches.subcommand() else { return keyrack_console::COULD_NOT };
    if let Some(status) = job::run(name, matches) {
        return status;
    }
    let outcome = mutate::run(name, matches)
        .or_else(|| query::run(name, matches))
        .or_else(|| archive::run(name, matches))
        .or_else(|| logs::run(name, matches));
    let outcome = match (name, outcome) {
        (_, Some(outcome)) => outcome,
        ("find", None) => find::run(matches),
        ("bench", None) => bench::run(matches),
        #[cfg(all(feature = "fuse", target_os = "linux"))]
        ("mount", None) => mount::run(matches),
        (_, None) => Err(Failure::Usage("no such command; see keyrack fs --help".to_owned())),
    };
    outcome.unwrap_or_else(|failure| failure.explain(&format!("keyrack fs {name}")))
}

/// An option with a path of the machine, which need not be text.
fn local(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    option(name, value, help).value_parser(value_parser!(OsString))
}

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// A command on a log.
fn on_log(name: &'static str, about: &'static str) -> Command {
    Command::new(name)
        .about(about)
        .after_help(STATUSES)
        .arg(local("db", "DIR", "The directory of the log"))
        .arg(local("registry", "DIR", "Where publications are [default: registry in --db]"))
        .arg(
            option(
                "store",
                "ADDRESS",
                "Where publications are: s3://, gs://, az:// or a directory",
            )
            .conflicts_with("registry"),
        )
        .arg(option("as", "UID:GID[,GID]", "Who asks [default: 0:0, who may do everything]"))
}

/// A command that only reads: a log, or a list of publications.
fn reading(name: &'static str, about: &'static str) -> Command {
    on_log(name, about).arg(option(
        "view",
        "NAME[@VERSION],..",
        "Publications to read instead of the log, the highest first",
    ))
}

/// A command that changes a log, and may begin one.
fn beginning(name: &'static str, about: &'static str) -> Command {
    on_log(name, about)
        .arg(option(
            "base",
            "NAME[@VERSION],..",
            "Publications that a new log begins on, the highest first",
        ))
        .args(quota::args())
}

fn paths() -> Arg {
    Arg::new("path")
        .value_name("PATH")
        .action(ArgAction::Append)
        .required(true)
        .value_parser(value_parser!(OsString))
        .help("Paths, from /")
}

fn path_arg(name: &'static str, help: &'static str) -> Arg {
    let parser = value_parser!(OsString);
    Arg::new(name).value_name("PATH").required(true).value_parser(parser).help(help)
}

fn text<'a>(matches: &'a ArgMatches, name: &str) -> Option<&'a str> {
    matches.get_one::<String>(name).map(String::as_str)
}

fn words<'a>(matches: &'a ArgMatches, name: &str) -> Vec<&'a str> {
    matches.get_many::<String>(name).into_iter().flatten().map(String::as_str).collect()
}

/// What was given as bytes.
fn os<'a>(matches: &'a ArgMatches, name: &str) -> Option<&'a OsStr> {
    matches.get_one::<OsString>(name).map(OsString::as_os_str)
}

/// A path of the name space, as it was given.
fn path_bytes<'a>(matches: &'a ArgMatches, name: &str) -> Option<&'a [u8]> {
    os(matches, name).map(OsStrExt::as_bytes)
}

fn paths_of<'a>(matches: &'a ArgMatches, name: &str) -> Vec<&'a [u8]> {
    let all = matches.get_many::<OsString>(name).into_iter().flatten();
    all.map(|path| path.as_bytes()).collect()
}

/// What stands between commas.
fn list(given: &str) -> Vec<&str> {
    given.split(',').filter(|word| !word.is_empty()).collect()
}

fn log_dir(matches: &ArgMatches) -> Result<PathBuf, Failure> {
    match os(matches, "db") {
        Some(dir) => Ok(PathBuf::from(dir)),
        None => Err(Failure::Usage("missing --db DIR, the directory of the log".to_owned())),
    }
}

fn registry(matches: &ArgMatches) -> Result<Registry, Failure> {
    if let Some(address) = text(matches, "store") {
        let (address, access) = (Address::parse(address)?, Access::of_environment());
        return Ok(keyrack_objects::registry(&address, &access, Arc::new(RealFs))?);
    }
    match (os(matches, "registry"), os(matches, "db")) {
        (Some(dir), _) => Ok(Registry::new(dir)),
        (None, Some(dir)) => Ok(Registry::new(Path::new(dir).join("registry"))),
        (None, None) => Err(Failure::Usage(
            "missing --registry DIR or --store ADDRESS, where publications are".to_owned(),
        )),
    }
}

fn user(matches: &ArgMatches) -> Result<User, Failure> {
    let Some(given) = text(matches, "as") else { return Ok(User::root()) };
    let wrong = || {
        Failure::Usage(format!("--as: '{given}' is not UID:GID, such as 1000:1000 or 1000:1000,27"))
    };
    let (uid, gids) = given.split_once(':').ok_or_else(wrong)?;
    let mut gids = gids.split(',').map(|gid| gid.parse::<u32>().map_err(|_| wrong()));
    let gid = gids.next().ok_or_else(wrong)??;
    let groups = gids.collect::<Result<Vec<u32>, Failure>>()?;
    Ok(User { uid: uid.parse().map_err(|_| wrong())?, gid, groups })
}

/// What a log was begun on, as directories, and the file system that has them and the log.
fn lower_of(matches: &ArgMatches, head: &LogHead) -> Result<(Arc<dyn Fs>, Vec<PathBuf>), Failure> {
    if head.base.is_empty() {
        return Ok((Arc::new(RealFs), Vec::new()));
    }
    let registry = registry(matches)?;
    Ok((registry.fs(), registry.log_dirs(&head.base)?))
}

/// The log, opened to be changed. It is made if `may_begin` says so.
fn open(matches: &ArgMatches, may_begin: bool) -> Result<Namespace, Failure> {
    let dir = log_dir(matches)?;
    let mut fs: Arc<dyn Fs> = Arc::new(RealFs);
    let head = LogHead::read(&fs, &dir)?;
    let base = match may_begin {
        true => text(matches, "base").map(list),
        false => None,
    };
    let mut settings = Settings { quota: quota::of(matches), ..Settings::default() };
    match (&head, base) {
        (Some(_), Some(_)) => {
            return Err(Failure::Usage(format!(
                "{}: the log was begun already, so --base comes too late; begin another one",
                dir.display()
            )));
        }
        (Some(head), None) => (fs, settings.lower) = lower_of(matches, head)?,
        (None, _) if !may_begin => return Err(no_log(&dir)),
        (None, None) => {}
        (None, Some(words)) => {
            let registry = registry(matches)?;
            settings.base = registry.with_bases(&registry.resolve(&words)?)?;
            settings.lower = registry.log_dirs(&settings.base)?;
            fs = registry.fs();
            // Before the log is there: a crash in between leaves a note too many, and no log
            // without.
            let log = LogId::draw_random();
            registry.hold(log, &settings.base)?;
            settings.log = Some(log);
        }
    }
    Ok(Namespace::open_in(fs, &dir, settings)?)
}

fn no_log(dir: &Path) -> Failure {
    Failure::Usage(format!(
        "{}: there is no log; keyrack fs mkdir, create, put or import begins one",
        dir.display()
    ))
}

/// What is to be read: the view, or the log with what it was begun on. No file changes.
fn open_to_read(matches: &ArgMatches) -> Result<Namespace, Failure> {
    if let Some(given) = text(matches, "view") {
        return open_view(&registry(matches)?, &list(given));
    }
    open_log(matches)
}

/// The log with what it was begun on, to be read.
fn open_log(matches: &ArgMatches) -> Result<Namespace, Failure> {
    let dir = log_dir(matches)?;
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let head = LogHead::read(&fs, &dir)?.ok_or_else(|| no_log(&dir))?;
    let mut logs = vec![dir];
    let (fs, lower) = lower_of(matches, &head)?;
    logs.extend(lower);
    Ok(Namespace::open_read_only_in(fs, &logs, Settings::default())?)
}

fn open_view(registry: &Registry, words: &[&str]) -> Result<Namespace, Failure> {
    open_references(registry, &registry.with_bases(&registry.resolve(words)?)?)
}

fn open_references(registry: &Registry, references: &[Reference]) -> Result<Namespace, Failure> {
    let logs = registry.log_dirs(references)?;
    Ok(Namespace::open_read_only_in(registry.fs(), &logs, Settings::default())?)
}

/// Ends a change: what was done is on disk afterwards.
fn finish(space: Namespace) -> Result<(), Failure> {
    space.sync()?;
    Ok(space.close()?)
}

/// Does something for each word, and goes on behind what fails.
fn for_each<W>(
    program: &str,
    words: impl IntoIterator<Item = W>,
    mut body: impl FnMut(W) -> Result<(), Failure>,
) -> Result<u8, Failure> {
    let mut status = keyrack_console::DONE;
    for word in words {
        match body(word) {
            Ok(()) => {}
            Err(Failure::Interrupted) => return Err(Failure::Interrupted),
            Err(failure) => {
                status = status.max(failure.explain(&format!("keyrack fs {program}")));
            }
        }
    }
    Ok(status)
}

/// Permission bits in octal.
fn mode(given: &str) -> Result<u32, Failure> {
    match u32::from_str_radix(given, 8) {
        Ok(mode) if mode <= keyrack_deltafs::MODE_BITS => Ok(mode),
        _ => Err(Failure::Usage(format!("'{given}' is no mode; give octal digits, such as 755"))),
    }
}

/// A path for people: printable, on one line.
fn shown(path: &[u8]) -> String {
    escaped(path)
}
