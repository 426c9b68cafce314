//! `--tui`: what runs, drawn over the whole terminal while it goes on.
//!
//! The picture is `keyrack-live`'s; here the events of a run become what it shows. It is drawn on
//! standard error, so results may go to a file meanwhile.

mod bench;
mod load;

pub(crate) use bench::BenchScreen;
pub(crate) use load::LoadScreen;

use keyrack_live::Screen;
use std::io::IsTerminal;

/// The screen, for those who print while it may be shown.
struct Cover;

impl keyrack_console::Screen for Cover {
    fn is_up(&self) -> bool {
        keyrack_live::is_up()
    }

    fn keep(&self, line: &str) -> bool {
        keyrack_live::keep(line)
    }

    fn restore(&self) {
        keyrack_live::restore();
    }
}

/// Lets output wait while the screen covers the terminal.
pub(crate) fn install() {
    keyrack_console::set_screen(&Cover);
}

/// Why there is no screen, where there is none.
pub(crate) fn refusal() -> Option<&'static str> {
    (!std::io::stderr().is_terminal())
        .then_some("--tui: standard error is no terminal; a line a second instead")
}

/// Takes the terminal; `quit` is what `q` does.
fn screen(quit: impl FnOnce() + Send + 'static) -> Result<Screen, String> {
    let failed = |error: std::io::Error| format!("--tui: cannot start a thread: {error}");
    let screen = Screen::start(quit).map_err(failed)?;
    screen.ok_or_else(|| "--tui: standard error is no terminal".to_owned())
}
