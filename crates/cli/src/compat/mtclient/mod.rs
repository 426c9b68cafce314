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
//! - TCP and Unix sockets (`-s unix:PATH`) alone, no UDP.

mod client;
mod crash;
mod options;
mod report;
mod table;
mod tests;
mod window;

use client::{NetClient, Run};
use keyrack_harness::sink::Value;
use keyrack_measure::Clock;
use keyrack_workload::kvtest::{Halt, Lcg, Row};
use options::{Exit, Options};
use table::{Body, Test};

const PROGRAM: &str = "mtclient";

/// `mtclient [OPTIONS] [PARAM=VALUE...] [TEST]`. Returns the exit status.
pub(super) fn main(argv: &[String]) -> u8 {
    let options = match Options::parse(argv) {
        Ok(options) => options,
        Err(Exit::Help) => return crate::print(&options::help()),
        Err(Exit::Usage(why)) => {
            crate::refuse(PROGRAM, &why);
            say!("Usage: mtclient [-s SERVER] [-jN] TEST\nTry 'mtclient --help' for options.");
            return crate::NO;
        }
    };
    run(&options).unwrap_or_else(|why| {
        crate::refuse(PROGRAM, &why);
        crate::NO
    })
}

/// Runs all children and prints what they did.
fn run(options: &Options) -> Result<u8, String> {
    let test = options.test;
    let children = options.children;
    let printed = crate::print(&format!(
        "tcp, w {}, test {}, children {children}\n",
        options.window, test.name
    ));
    if printed != crate::DONE {
        return Ok(printed);
    }
    let run = Run::new(options, Clock::vdso());
    let mut clients = (0..children)
        .map(|id| NetClient::connect(&run, id, children))
        .collect::<Result<Vec<_>, String>>()?;
    run.start();
    let ends: Vec<(Row, Result<(), Halt>)> = std::thread::scope(|scope| {
        let spawn = |client| scope.spawn(move || child(test, client));
        let handles: Vec<_> = clients.drain(..).map(spawn).collect();
        handles.into_iter().map(joined).collect()
    });
    let (mut rows, mut status) = (Vec::new(), crate::DONE);
    for (id, (row, end)) in ends.into_iter().enumerate() {
        match end {
            Ok(()) => rows.push(report::json(row)),
            Err(Halt::Failed(why)) => {
                crate::refuse(PROGRAM, &format!("child {id}: {why}"));
                status = crate::NO;
            }
            // Another child's failure has ended this one.
            Err(_) => {}
        }
    }
    let mut text: String = rows.iter().map(|row| row.one_line() + "\n").collect();
    text.push_str(&report::totals(&rows));
    Ok(status.max(crate::print(&text)))
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

/// What a child came to; a panic in it is a bug that goes on here.
fn joined(
    handle: std::thread::ScopedJoinHandle<'_, (Row, Result<(), Halt>)>,
) -> (Row, Result<(), Halt>) {
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A number of a row, whatever its kind.
fn number(row: &Value, name: &str) -> Option<f64> {
    row.get(name).and_then(Value::as_f64)
}
