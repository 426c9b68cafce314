//! `--tui`: the run on the whole terminal, and the terminal as it was afterwards.
//!
//! The terminal is a pane of tmux, as in [`crate::terminal`].

use crate::load::{lab_with_responder, responder};
use crate::support::{Lab, ROTATION};
use crate::terminal::{in_a_pane_with, lab_with_tmux};

/// The other screen is shown, and left.
const ENTERED: &str = "\u{1b}[?1049h";
const LEFT: &str = "\u{1b}[?1049l";

/// Runs a command that draws, does something meanwhile, and checks that the terminal is as it was:
/// what was drawn is gone, keys come in lines and are seen. Returns what was shown, and the screen
/// at the end.
#[track_caller]
fn drawn(lab: &Lab, command: &str, meanwhile: &str) -> (String, String) {
    // `in_a_pane` says the status of the command, so `stty` looks before and it is passed on.
    let watched = format!("( {command}; status=$?; stty -a >stty; exit $status )");
    in_a_pane_with(lab, &watched, meanwhile).exits(0);
    let (seen, screen, stty) = (lab.read("seen"), lab.read("screen"), lab.read("stty"));
    let (entered, left) = (seen.find(ENTERED), seen.rfind(LEFT));
    assert!(entered.is_some() && left > entered, "the screen was taken and given back: {seen:?}");
    assert!(seen.contains("\u{1b}[?25h"), "there is a cursor again: {seen:?}");
    let words: Vec<&str> = stty.split(|c: char| c.is_whitespace() || c == ';').collect();
    for word in ["icanon", "echo", "isig"] {
        assert!(words.contains(&word), "{word} is on again: {stty}");
    }
    assert!(!screen.contains("q ends the run"), "nothing drawn is left:\n{screen}");
    (seen, screen)
}

#[test]
fn a_load_is_drawn_and_its_table_follows() {
    let Some(lab) = lab_with_tmux("a_load_is_drawn_and_its_table_follows") else { return };
    let (_server, address) = responder(&lab, "null");
    let command = format!("$KEYRACK load -s {address} -r 100 -u 0.2 -t 2.3 --tui");
    let (seen, screen) = drawn(&lab, &command, "");
    // Words that nothing was drawn over: of others, letters that stay are not sent again.
    for text in ["replies/s", "outstanding", "connections", "p99.9", "operation", "update"] {
        assert!(seen.contains(text), "no {text:?} was drawn: {seen:?}");
    }
    for text in ["#type", "Total QPS", "status=0"] {
        assert!(screen.contains(text), "no {text:?} in the result:\n{screen}");
    }
}

#[test]
fn q_ends_a_load_and_prints_what_was_measured() {
    let Some(lab) = lab_with_tmux("q_ends_a_load_and_prints_what_was_measured") else { return };
    let (_server, address) = responder(&lab, "null");
    let command = format!("$KEYRACK load -s {address} -r 100 -t 100 --tui");
    let (_, screen) =
        drawn(&lab, &command, "until_shown measuring; until_shown operation; t send-keys -t s q");
    assert!(screen.contains("Total QPS") && screen.contains("status=0"), "{screen}");
}

#[test]
fn a_signal_gives_the_terminal_back() {
    let Some(lab) = lab_with_tmux("a_signal_gives_the_terminal_back") else { return };
    let (_server, address) = responder(&lab, "null");
    let command = format!("$KEYRACK load -s {address} -r 100 -t 100 --tui");
    let (_, screen) = drawn(&lab, &command, "until_shown measuring; t send-keys -t s C-c");
    assert!(screen.contains("Total QPS") && screen.contains("status=130"), "{screen}");
}

#[test]
fn nobody_there_is_said_on_the_terminal_as_it_was() {
    let Some(lab) = lab_with_tmux("nobody_there_is_said_on_the_terminal_as_it_was") else { return };
    let (_, screen) = drawn(&lab, "$KEYRACK load -s 127.0.0.1:1 -t 1 --tui", "");
    assert!(screen.contains("127.0.0.1:1") && screen.contains("status=2"), "{screen}");
}

#[test]
fn without_a_terminal_there_is_a_line_a_second() {
    let (lab, _server, address) = lab_with_responder("null");
    let out = lab.run(&format!("load -s {address} -r 100 -t 1.3 --tui")).exits(0);
    let out = out.warns("--tui: standard error is no terminal").warns("QPS   p50").says("#type");
    assert!(!out.stderr.contains('\u{1b}'), "{}", out.told());
    let lab = Lab::with("work.lua", ROTATION);
    let out = lab.run("bench --backend btree --secs 1.2 --probe none work.lua --tui").exits(0);
    out.warns("--tui: standard error is no terminal").warns(" wu/s").says("=== rotation ===");
}

#[test]
fn a_bench_is_drawn_and_its_report_follows() {
    let Some(lab) = lab_with_tmux("a_bench_is_drawn_and_its_report_follows") else { return };
    lab.write("work.lua", ROTATION);
    let line = "$KEYRACK bench --backend btree,null --secs 1.2 --probe none --tui work.lua";
    let (seen, screen) = drawn(&lab, line, "");
    for text in ["1 of 2: rotation on btree", "null", "ops/s", "memory", "CPU", "p99.9"] {
        assert!(seen.contains(text), "no {text:?} was drawn: {seen:?}");
    }
    assert!(screen.contains("status=0"), "{screen}");
    let after = &seen[seen.rfind(LEFT).unwrap()..];
    for text in ["=== rotation ===", "throughput: "] {
        assert!(after.contains(text), "no {text:?} in the result: {after:?}");
    }
}

#[test]
fn q_ends_a_bench_with_a_partial_report() {
    let Some(lab) = lab_with_tmux("q_ends_a_bench_with_a_partial_report") else { return };
    lab.write("work.lua", ROTATION);
    let line = "$KEYRACK bench --backend btree --secs 100 --probe none --tui work.lua";
    let (seen, screen) = drawn(&lab, line, "until_shown MiB; t send-keys -t s q");
    assert!(screen.contains("status=1"), "{screen}");
    let after = &seen[seen.rfind(LEFT).unwrap()..];
    assert!(after.contains("q was pressed") && after.contains("PARTIAL"), "{after:?}");
}
