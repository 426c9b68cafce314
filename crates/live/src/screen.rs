//! The terminal while it is ours: taken over, drawn on, and given back whatever happens.
//!
//! ```text
//!   start:   other screen, no cursor, keys come at once and unseen; a hook for panics
//!   restore: all that undone, then the lines that were said meanwhile; more than once is once
//!     called by   Drop of Screen      the run is over, or the thread that draws panics
//!                 the hook            any thread panics: its message lands on the own screen
//!                 whoever ends the process at a signal
//! ```
//!
//! Ctrl-C stays what it is, a signal; Ctrl-Z does nothing while the screen is up.
//!
//! The terminal is one thing of the process, and so is what is known of it: [`is_up`], [`keep`] and
//! [`restore`] are functions, because a hook and a signal's thread have no screen at hand.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread::JoinHandle;

use ratatui_core::terminal::Terminal;
use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex, Termios};

use crate::ansi::Ansi;
use crate::draw::draw;
use crate::view::{View, keep_last};

/// Lines kept until the screen is gone.
const SAID_MAX: usize = 10_000;
const KEYS: &str = "q ends the run and prints the results";
const NO_KEYS: &str = "Ctrl-C ends the run and prints the results";

/// What is to be undone.
struct Taken {
    /// How keys came before, where standard input is the terminal.
    keys: Option<Termios>,
    said: VecDeque<String>,
}

/// `None` while the terminal is not ours.
static TAKEN: Mutex<Option<Taken>> = Mutex::new(None);
static HOOK: Once = Once::new();

fn taken() -> MutexGuard<'static, Option<Taken>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a screen has the terminal.
#[must_use]
pub fn is_up() -> bool {
    taken().is_some()
}

/// Keeps a line for a person: it is shown at the foot of the screen, and written to standard error
/// when the screen is gone. False where there is no screen: then it is the caller's to write.
#[must_use]
pub fn keep(line: &str) -> bool {
    match &mut *taken() {
        Some(taken) => {
            line.lines().for_each(|line| keep_last(&mut taken.said, line.to_owned(), SAID_MAX));
            true
        }
        None => false,
    }
}

/// Gives the terminal back, if a screen has it. Code that ends the process by force calls this.
pub fn restore() {
    let Some(taken) = taken().take() else { return };
    let mut out = io::stderr().lock();
    // A terminal that is gone has nothing to get back, here and below.
    let _ = out.write_all(b"\x1b[0m\x1b[?25h\x1b[?1049l");
    if let Some(keys) = taken.keys {
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Flush, &keys);
    }
    for line in taken.said {
        let _ = writeln!(out, "{line}");
    }
}

/// A terminal that is ours until this is dropped. One a process at a time.
#[derive(Debug)]
pub struct Screen {
    terminal: Terminal<Ansi>,
    has_quit: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    keys: Option<JoinHandle<()>>,
}

impl Screen {
    /// Takes the terminal of standard error. `on_quit` is called once, on a thread of its own, when
    /// `q` is pressed. `None` when standard error is no terminal.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn start(on_quit: impl FnOnce() + Send + 'static) -> io::Result<Option<Screen>> {
        if !io::stderr().is_terminal() {
            return Ok(None);
        }
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                before(panic);
            }));
        });
        let has_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let terminal = Terminal::new(Ansi::new(has_colour))?;
        let before = unseen_keys();
        *taken() = Some(Taken { keys: before.clone(), said: VecDeque::new() });
        let mut screen =
            Screen { terminal, has_quit: Arc::default(), is_over: Arc::default(), keys: None };
        let _ = io::stderr().write_all(b"\x1b[?1049h\x1b[?25l\x1b[2J");
        if before.is_some() {
            let (has_quit, is_over) = (Arc::clone(&screen.has_quit), Arc::clone(&screen.is_over));
            let body = move || watch(&has_quit, &is_over, on_quit);
            screen.keys = Some(std::thread::Builder::new().name("keys".to_owned()).spawn(body)?);
        }
        Ok(Some(screen))
    }

    /// Whether `q` has been pressed.
    #[must_use]
    pub fn has_quit(&self) -> bool {
        self.has_quit.load(Ordering::Relaxed)
    }

    /// Draws the run as it is now. Nothing once the terminal has been given back.
    pub fn show(&mut self, view: &View) {
        let said = match &*taken() {
            Some(taken) => taken.said.iter().rev().take(8).rev().cloned().collect::<Vec<_>>(),
            None => return,
        };
        let keys = match (&self.keys, self.has_quit()) {
            (_, true) => "ending",
            (Some(_), false) => KEYS,
            (None, false) => NO_KEYS,
        };
        // The backend does not fail.
        let _ = self.terminal.draw(|frame| {
            let area = frame.area();
            draw(view, &said, keys, area, frame.buffer_mut());
        });
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // It looks ten times a second, and must not read once keys come in lines again; where that
        // is so already, it may wait for one for ever.
        if let Some(keys) = self.keys.take().filter(|_| is_up()) {
            let _ = keys.join();
        }
        restore();
    }
}

/// Lets keys come at once, unseen, and lets a read end after a tenth of a second. Returns how it
/// was; `None` where standard input is no terminal.
fn unseen_keys() -> Option<Termios> {
    let before = termios::tcgetattr(io::stdin()).ok()?;
    let mut now = before.clone();
    now.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
    now.special_codes[SpecialCodeIndex::VMIN] = 0;
    now.special_codes[SpecialCodeIndex::VTIME] = 1;
    now.special_codes[SpecialCodeIndex::VSUSP] = 0;
    termios::tcsetattr(io::stdin(), OptionalActions::Now, &now).ok()?;
    Some(before)
}

/// Reads keys until one is `q`, or the screen is gone.
fn watch(has_quit: &AtomicBool, is_over: &AtomicBool, on_quit: impl FnOnce()) {
    let mut on_quit = Some(on_quit);
    let mut bytes = [0; 64];
    while !is_over.load(Ordering::Relaxed) && is_up() {
        match rustix::io::read(io::stdin(), &mut bytes) {
            Ok(count) if bytes[..count].iter().any(|byte| matches!(byte, b'q' | b'Q')) => {
                has_quit.store(true, Ordering::Relaxed);
                if let Some(on_quit) = on_quit.take() {
                    on_quit();
                }
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
