//! `mtclient`, the client of Masstree's server: tests over the network, a line of JSON per child,
//! totals.
//!
//! ```text
//!   options --> children, each a thread with a connection of its own, run one test
//!                 standard output:  tcp, w 512, test rw1, children 2
//!                 standard error:   ID now getting
//!                                   ID total 7632001 763284 put/s 1263548 get/s
//!           --> standard output:    {"puts":7632001,"puts_per_sec":763284.211682,..}  a child each
//!                                   total 30489004
//!                                   puts: n 2, total 15244502, average 7622251, min .., max .., ..
//! ```
//!
//! Names, shapes and meanings are those of the original; exit status 1 says that something failed
//! or was refused. What differs, on purpose:
//!
//! - Children are threads of this process, not processes. The end of one by a failure ends the
//!   others at their next request.
//! - Random keys come from the generator of `mttest`, seeded with `--first_seed` plus the number of
//!   the child, so that no two children write the same keys. The original's C library takes seeds 0
//!   and 1 for one.
//! - A wrong answer is one line that names key, expected and found value; the original aborts.
//! - A server that does not answer for `--timeout` seconds is a failure, not a wait for ever.
//! - Unix sockets (`-s unix:PATH`), too.
//! - A datagram that is lost is sent again; the original waits for its answer for ever.

mod checkpoints;
mod client;
mod crash;
mod datagram_window;
mod long;
mod options;
mod passing;
mod plain;
mod settings;
mod slot;
mod stream_window;
mod table;
mod volt;
mod window;

use super::line::Tool;
use super::rows as report;
use client::{NetClient, PROGRAM, Run};
use keyrack_measure::Clock;
use keyrack_vfs::{Fs, RealFs};
use keyrack_workload::kvtest::{Halt, Lcg, Row};
use options::Options;
use std::panic::resume_unwind;
use std::path::PathBuf;
use table::{Body, Test};

const TOOL: Tool = Tool {
    name: PROGRAM,
    hint: "Usage: mtclient [-s SERVER] [-jN] TEST\nTry 'mtclient --help' for options.",
    refused: keyrack_console::NO,
};

/// `mtclient [OPTIONS] [PARAM=VALUE...] [TEST]`. Returns the exit status.
pub(super) fn main(argv: &[String]) -> u8 {
    TOOL.main(Options::parse(argv), options::help, run)
}

/// Runs all children and prints what they did.
fn run(options: &Options) -> Result<u8, String> {
    let test = options.test;
    let settings = &options.settings;
    let children = settings.children;
    let printed = keyrack_console::print(&format!(
        "{}, w {}, test {}, children {children}\n",
        settings.server.kind(),
        settings.window,
        test.name
    ));
    if printed != keyrack_console::DONE {
        return Ok(printed);
    }
    for line in &options.explained {
        keyrack_console::refuse(PROGRAM, line);
    }
    let read = |path: &PathBuf| RealFs.read(path).map_err(|error| error.to_string());
    let input = settings.input.as_ref().map(read).transpose()?;
    let run = Run::new(settings, Clock::vdso(), input);
    let mut clients = (0..children)
        .map(|id| NetClient::connect(&run, id, children))
        .collect::<Result<Vec<_>, String>>()?;
    run.start();
    let ends: Vec<(Row, Result<(), Halt>)> = std::thread::scope(|scope| {
        let spawn = |client| scope.spawn(move || child(test, client));
        let handles: Vec<_> = clients.drain(..).map(spawn).collect();
        // A panic in a child is a bug that goes on here.
        let joined = |end: std::thread::Result<_>| end.unwrap_or_else(|panic| resume_unwind(panic));
        handles.into_iter().map(|handle| joined(handle.join())).collect()
    });
    let (mut rows, mut status) = (Vec::new(), keyrack_console::DONE);
    for (id, (row, end)) in ends.into_iter().enumerate() {
        match end {
            Ok(()) => rows.push(report::json(row)),
            Err(Halt::Failed(why)) => {
                keyrack_console::refuse(PROGRAM, &format!("child {id}: {why}"));
                status = keyrack_console::NO;
            }
            // Another child's failure has ended this one.
            Err(_) => {}
        }
    }
    let mut text: String = rows.iter().map(|row| row.one_line() + "\n").collect();
    text.push_str(&report::totals(&rows));
    Ok(status.max(keyrack_console::print(&text)))
}

/// One child, from its first request to its last answer.
fn child(test: &Test, mut client: NetClient<'_>) -> (Row, Result<(), Halt>) {
    let mut random = Lcg::default();
    let result = match test.body {
        Body::Job(job) => job.run(&mut client, &mut random),
        Body::Own(run) => run(&mut client, &mut random),
    };
    let result = result.and_then(|()| client.finish());
    if result.is_err() {
        client.halt_others();
    }
    let row = client.into_row();
    (row, result)
}
