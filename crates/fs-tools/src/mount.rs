//! A log or a view as a file system of the kernel, until it is unmounted.

use crate::Place;
use crate::place::finish;
use keyrack_console::{DONE, Failure, INTERRUPTED, Outcome, say};
use keyrack_mount::{Error, Options, Unmounter};
use keyrack_vfs::{Fs, RealFs};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::Path;
use std::sync::Arc;

fn failure(error: Error) -> Failure {
    match error {
        Error::MountPoint(what) => Failure::Usage(what),
        error => Failure::Failed(error.to_string()),
    }
}

/// Mounts a log or a view at `at`, until it is unmounted or a signal comes.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn mount(place: &Place, at: &Path, read_only: bool, allow_other: bool) -> Outcome {
    if place.user.is_some() {
        return Err(Failure::Usage(
            "--as: on a mount the kernel says who asks; leave it out".to_owned(),
        ));
    }
    let disk: Arc<dyn Fs> = Arc::new(RealFs);
    // Before a log is begun for it.
    keyrack_mount::check_mount_point(&*disk, at).map_err(failure)?;
    let space = if place.view.is_some() || read_only {
        place.open_to_read()?
    } else {
        place.open_or_begin()?
    };
    // Free space is that around the mount point where the view is in an object store.
    let store = match space.stores()[0].dir() {
        dir if disk.exists(dir)? => dir.to_owned(),
        _ => at.parent().unwrap_or(at).to_owned(),
    };
    let db = || place.db.clone().unwrap_or_default().to_string_lossy().into_owned();
    let named = place.view.clone().unwrap_or_else(db);
    let options = Options { name: format!("keyrack:{named}"), allow_other };
    let mounted = keyrack_mount::mount(&space, &disk, &store, at, &options, |unmounter| {
        match on_signals(unmounter) {
            Ok(()) => say!("mounted at {}", at.display()),
            Err(error) => say!("keyrack fs mount: cannot handle signals: {error}"),
        }
    });
    // Whatever ended it, what was done is to be on disk.
    let finished = if space.is_read_only() { Ok(()) } else { finish(space) };
    mounted.map_err(failure)?;
    finished?;
    Ok(DONE)
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
                std::process::exit(i32::from(INTERRUPTED));
            }
            match unmounter.detach() {
                Ok(()) => is_detached = true,
                Err(error) => say!("keyrack fs mount: cannot unmount: {error}"),
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(handle).map(|_| ())
}
