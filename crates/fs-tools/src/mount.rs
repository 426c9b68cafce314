//! `keyrack fs mount`: a log or a view as a file system of the kernel, until it is unmounted.

use super::{beginning, finish, flag, open, open_to_read, option, os, text};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use keyrack_console::{Failure, Outcome, say};
use keyrack_mount::{Error, Options, Unmounter};
use keyrack_vfs::{Fs, RealFs};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn failure(error: Error) -> Failure {
    match error {
        Error::MountPoint(what) => Failure::Usage(what),
        error => Failure::Failed(error.to_string()),
    }
}

pub(super) fn command() -> Command {
    beginning("mount", "Mount the log, or a view, until it is unmounted or a signal comes")
        .arg(option("view", "NAME[@VERSION],..", "Publications to mount instead, read-only"))
        .arg(flag("read-only", "Mount the log as it is, beside whoever writes it"))
        .arg(flag("allow-other", "Let all users in; otherwise only who mounts it"))
        .arg(
            Arg::new("path")
                .value_name("[DIR] MOUNTPOINT")
                .action(ArgAction::Append)
                .num_args(1..=2)
                .value_parser(value_parser!(OsString))
                .required(true)
                .help("The log, unless --db or --view is given; an empty directory"),
        )
}

/// The command as if the directory of the log had been given as `--db`.
pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let given: Vec<&OsStr> = matches
        .get_many::<OsString>("path")
        .into_iter()
        .flatten()
        .map(OsString::as_os_str)
        .collect();
    let is_named = os(matches, "db").is_some() || text(matches, "view").is_some();
    let at = match (&given[..], is_named) {
        ([at], true) | ([_, at], false) => PathBuf::from(at),
        ([_], false) => {
            return Err(Failure::Usage(
                "give the directory of the log and the mount point, or --view and the mount point"
                    .to_owned(),
            ));
        }
        _ => {
            return Err(Failure::Usage(
                "give only the mount point beside --db or --view".to_owned(),
            ));
        }
    };
    let Some(dir) = given.first().filter(|_| !is_named) else { return mount(matches, &at) };
    let mut argv: Vec<OsString> = vec!["mount".into(), "--db".into(), dir.into()];
    if let Some(registry) = os(matches, "registry") {
        argv.extend(["--registry".into(), registry.to_owned()]);
    }
    for name in ["store", "as", "base"] {
        argv.extend(text(matches, name).map(|value| format!("--{name}={value}").into()));
    }
    for name in ["read-only", "allow-other"] {
        argv.extend(matches.get_flag(name).then(|| format!("--{name}").into()));
    }
    argv.extend(super::quota::words(matches).into_iter().map(OsString::from));
    argv.extend(["--".into(), at.as_os_str().to_owned()]);
    let again = command().try_get_matches_from(argv);
    mount(&again.map_err(|error| Failure::Usage(error.to_string()))?, &at)
}

fn mount(matches: &ArgMatches, at: &Path) -> Outcome {
    if text(matches, "as").is_some() {
        return Err(Failure::Usage(
            "--as: on a mount the kernel says who asks; leave it out".to_owned(),
        ));
    }
    let disk: Arc<dyn Fs> = Arc::new(RealFs);
    // Before a log is begun for it.
    keyrack_mount::check_mount_point(&*disk, at).map_err(failure)?;
    let is_view = text(matches, "view").is_some();
    let space = match is_view || matches.get_flag("read-only") {
        true => open_to_read(matches)?,
        false => open(matches, true)?,
    };
    // Free space is that around the mount point where the view is in an object store.
    let store = match space.stores()[0].dir() {
        dir if disk.exists(dir)? => dir.to_owned(),
        _ => at.parent().unwrap_or(at).to_owned(),
    };
    let named = match text(matches, "view") {
        Some(view) => view.to_owned(),
        None => os(matches, "db").unwrap_or_default().to_string_lossy().into_owned(),
    };
    let options =
        Options { name: format!("keyrack:{named}"), allow_other: matches.get_flag("allow-other") };
    let mounted = keyrack_mount::mount(&space, &disk, &store, at, &options, |unmounter| {
        match on_signals(unmounter) {
            Ok(()) => say!("mounted at {}", at.display()),
            Err(error) => say!("keyrack fs mount: cannot handle signals: {error}"),
        }
    });
    // Whatever ended it, what was done is to be on disk.
    let finished = match space.is_read_only() {
        true => Ok(()),
        false => finish(space),
    };
    mounted.map_err(failure)?;
    finished?;
    Ok(keyrack_console::DONE)
}

/// The first signal takes the mount away; it ends when its last file is closed. The second does not
/// wait for that.
fn on_signals(unmounter: Unmounter) -> std::io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let handle = move || {
        let mut is_detached = false;
        for _ in signals.forever() {
            if is_detached {
                say!("keyrack fs mount: ends with files open");
                std::process::exit(i32::from(keyrack_console::INTERRUPTED));
            }
            match unmounter.detach() {
                Ok(()) => is_detached = true,
                Err(error) => say!("keyrack fs mount: cannot unmount: {error}"),
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(handle).map(|_| ())
}
