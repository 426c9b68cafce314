//! The screen on a real terminal, a pane of tmux, when a thread panics.
//!
//! The program on the pane is this test binary itself, told by a variable to be the one that
//! panics. Without tmux the test says that it was skipped.
#![expect(
    clippy::disallowed_methods,
    reason = "a test says what went wrong by panicking, reads its own files, and talks to a person"
)]

use keyrack_live::{Screen, View, is_up, keep};
use std::process::Command;

const IS_CHILD: &str = "KEYRACK_LIVE_PANICS";

/// Not a test by itself: what runs on the pane.
#[test]
fn a_thread_that_panics() {
    if std::env::var_os(IS_CHILD).is_none() {
        return;
    }
    let mut screen = Screen::start(|| {}).unwrap().unwrap();
    screen.show(&View::new("on the screen", "ops/s"));
    assert!(is_up() && keep("said meanwhile"));
    let died = std::thread::spawn(|| panic!("oh no")).join();
    assert!(died.is_err() && !is_up());
    // Drawing goes on, to no effect.
    screen.show(&View::new("after the end", "ops/s"));
    drop(screen);
}

#[test]
fn a_panic_is_told_on_the_terminal_as_it_was() {
    if !Command::new("tmux").arg("-V").output().is_ok_and(|out| out.status.success()) {
        println!("SKIPPED a_panic_is_told_on_the_terminal_as_it_was: there is no tmux here");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let script = "unset TMUX; socket=keyrack-live-$$\n\
         t() { tmux -f /dev/null -L $socket \"$@\"; }\n\
         t new-session -d -s s -x 80 -y 24 'read go; KEYRACK_LIVE_PANICS=1 \"$CHILD\" \
         --exact a_thread_that_panics --nocapture; stty -a >stty; tmux wait-for -S done; \
         read stay' || exit 9\n\
         t pipe-pane -t s 'cat >seen' || exit 9\n\
         t send-keys -t s go Enter\n\
         t wait-for done\n\
         t capture-pane -p -t s >screen\n\
         t kill-server\n";
    let ran = Command::new("sh")
        .args(["-c", script])
        .env("CHILD", std::env::current_exe().unwrap())
        .current_dir(dir.path())
        .status()
        .unwrap();
    assert!(ran.success());
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let (seen, screen, stty) = (read("seen"), read("screen"), read("stty"));
    assert!(seen.contains("on the screen") && !seen.contains("after the end"), "{seen:?}");
    let left = seen.rfind("\u{1b}[?1049l").unwrap();
    assert!(seen.rfind("oh no").unwrap() > left, "told after the screen was left: {seen:?}");
    assert!(screen.contains("said meanwhile") && screen.contains("1 passed"), "{screen}");
    assert!(stty.split_whitespace().any(|word| word == "icanon"), "{stty}");
}
