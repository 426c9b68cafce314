//! How far a copy is: a bar on a terminal, a line for each file with `--verbose`, else nothing.

use clap::ArgMatches;
use indicatif::{ProgressBar, ProgressStyle};
use keyrack_backup::Progress;
use keyrack_console::say;
use std::cell::Cell;
use std::io::IsTerminal;

/// Shows it to a person, on standard error.
pub(super) struct Shown {
    bar: Option<ProgressBar>,
    is_verbose: bool,
    files: Cell<u64>,
}

impl Shown {
    pub(super) fn new(matches: &ArgMatches) -> Shown {
        let is_verbose = matches.get_flag("verbose");
        let bar = (!is_verbose && std::io::stderr().is_terminal()).then(|| {
            let style = "{bar:30} {binary_bytes} of {binary_total_bytes}, {eta} left";
            let style = ProgressStyle::with_template(style).expect("the template is a constant");
            ProgressBar::new(0).with_style(style)
        });
        Shown { bar, is_verbose, files: Cell::new(0) }
    }

    pub(super) fn tell(&self, now: Progress) {
        if let Some(bar) = &self.bar {
            bar.set_length(now.bytes_total);
            bar.set_position(now.bytes);
        }
        if self.is_verbose && now.files > self.files.replace(now.files) {
            let Progress { files, files_total, bytes, bytes_total, .. } = now;
            say!("{files} of {files_total} files, {bytes} of {bytes_total} bytes");
        }
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
