//! The live status: on a terminal alone, unless plain lines are asked for.
//!
//! The terminal is a pane of tmux, on a server of its own (`-L` with the shell's number) that ends
//! with the pane. Without tmux these tests say that they were skipped.

use crate::support::{Lab, Outcome, ROTATION};

/// A lab for a test that needs a terminal; says so where there is no tmux to make one.
pub(crate) fn lab_with_tmux(test: &str) -> Option<Lab> {
    let found =
        std::process::Command::new("tmux").arg("-V").output().is_ok_and(|o| o.status.success());
    if !found {
        println!("SKIPPED {test}: there is no tmux on this machine");
    }
    found.then(Lab::new)
}

/// Runs `keyrack` with `words` in a pane.
#[track_caller]
fn on_a_terminal(lab: &Lab, words: &str) -> Outcome {
    in_a_pane(lab, &format!("$KEYRACK {words}"))
}

/// Runs `command` in a pane of 100 by 30. Every byte that the pane was sent is in the file `seen`,
/// and how it looked at the end in `screen`.
#[track_caller]
pub(crate) fn in_a_pane(lab: &Lab, command: &str) -> Outcome {
    in_a_pane_with(lab, command, "")
}

/// As [`in_a_pane`]. `meanwhile` are shell commands that run after `command` was started; `t` in
/// them is tmux on the pane's server, and `until_shown TEXT` waits until the pane shows a text.
#[track_caller]
pub(crate) fn in_a_pane_with(lab: &Lab, command: &str, meanwhile: &str) -> Outcome {
    // A server of its own for each call: one told to end is still there for a moment.
    // `pipe-pane` copies the pane's output from before the command starts; `wait-for` ends with it,
    // and the copy is whole when the last line is in it.
    let script = format!(
        "unset TMUX; socket=keyrack-test-$$; t() {{ tmux -f /dev/null -L $socket \"$@\"; }}\n\
         t new-session -d -s s -x 100 -y 30 'read go; {command}; echo \"status=$?\"; \
         tmux wait-for -S done; read stay' || exit 9\n\
         t pipe-pane -t s 'cat >seen' || exit 9\n\
         until_shown() {{ until t capture-pane -p -t s | grep -qF -- \"$1\"; do :; done; }}\n\
         t send-keys -t s go Enter\n\
         {meanwhile}\n\
         t wait-for done\n\
         until grep -q status= seen; do :; done\n\
         t capture-pane -p -t s >screen\n\
         t kill-server\n"
    );
    lab.shell(&script)
}

#[test]
fn a_terminal_shows_a_live_status() {
    let Some(lab) = lab_with_tmux("a_terminal_shows_a_live_status") else { return };
    lab.write("work.lua", ROTATION);
    on_a_terminal(&lab, "bench --backend btree --secs 2.5 --probe none work.lua").exits(0);
    let (seen, screen) = (lab.read("seen"), lab.read("screen"));
    assert!(seen.contains("wu/s"), "no rate while it ran:\n{seen}");
    assert!(seen.contains("rotation on btree"), "{seen}");
    assert!(seen.contains("t1"), "{seen}");
    assert!(screen.contains("status=0") && screen.contains("=== rotation ==="), "{screen}");
    assert!(
        !screen.contains("wu/s"),
        "the status line is gone when the result is there:\n{screen}"
    );
    // The result is whole: nothing was drawn over it.
    assert!(screen.lines().any(|line| line.starts_with("op ")), "{screen}");
    assert!(screen.lines().any(|line| line.starts_with("throughput: ")), "{screen}");
}

#[test]
fn a_terminal_gets_plain_lines_or_none_on_request() {
    let Some(lab) = lab_with_tmux("a_terminal_gets_plain_lines_or_none_on_request") else { return };
    lab.write("work.lua", ROTATION);
    let line = "bench --backend btree --secs 1.5 --probe none work.lua --progress";
    on_a_terminal(&lab, &format!("{line} none")).exits(0);
    assert!(!lab.read("seen").contains("wu/s"), "{}", lab.read("seen"));
    let lab = Lab::with("work.lua", ROTATION);
    on_a_terminal(&lab, &format!("{line} plain")).exits(0);
    let screen = lab.read("screen");
    assert!(screen.lines().any(|line| line.ends_with("wu/s")), "plain lines stay:\n{screen}");
}

#[test]
fn a_redirected_run_is_silent() {
    let lab = Lab::with("work.lua", ROTATION);
    let out = lab.run("bench --backend btree --secs 1.2 --probe none work.lua").exits(0);
    assert_eq!(out.stderr, "", "{}", out.told());
    assert!(!out.stdout.contains('\x1b') && !out.stdout.contains('\r'), "{}", out.told());
}

/// One line a second: what is being done, then how far it is.
#[test]
fn plain_progress_is_a_line_a_second() {
    let lab = Lab::with("work.lua", ROTATION);
    let line = "bench --backend btree --probe none --progress plain work.lua --secs 2.5";
    let out = lab.run(line).exits(0);
    let out = out.warns("  seeding rotation on btree").warns("  seeded rotation in ");
    let out = out.warns("  running rotation on btree").warns("run 1/1");
    let ticks: Vec<&str> = out.stderr.lines().filter(|line| line.ends_with(" wu/s")).collect();
    // Seconds 1 and 2; a machine in trouble may skip one, and none comes twice.
    assert!((1..=3).contains(&ticks.len()), "{}", out.told());
    assert!(ticks.iter().all(|tick| tick.contains(" t1 ") && tick.contains("/2")), "{ticks:?}");
    assert!(!out.stderr.contains('\x1b') && !out.stderr.contains('\r'), "{}", out.told());
    assert!(!out.stdout.contains("running rotation"), "{}", out.told());
}

/// In count mode a tick says the share that is done.
#[test]
fn plain_progress_counts() {
    let lab = Lab::with(
        "slow.lua",
        "return { name = 'slow', run = function(ctx, iter)\n\
         kv.get('k') kb.sleep_until(iter * 0.5) end }",
    );
    let line = "bench --backend null --ops 4 --probe none --progress plain slow.lua";
    let out = lab.run(line).exits(0);
    assert!(out.stderr.contains("/4)") && out.stderr.contains('%'), "{}", out.told());
}

#[test]
fn a_reader_of_standard_error_that_goes_away_does_not_end_the_run() {
    let lab = Lab::with("work.lua", ROTATION);
    let line = "bench --backend btree --secs 2.2 --repeat 2 --probe none --progress plain work.lua";
    let out = lab.shell(&format!(
        "( $KEYRACK {line} 2>&1 >result; echo \"status=$?\" >status ) | head -n 1 >/dev/null"
    ));
    out.exits(0);
    assert_eq!(lab.read("status"), "status=0\n");
    assert!(lab.read("result").contains("=== rotation ==="), "{}", lab.read("result"));
}
