//! What a request costs the generator: processor time of its thread, system calls included, against
//! our null responder on loopback and in shared memory.
//!
//! ```sh
//! cargo bench -p keyrack-loadgen --bench requests              # all cells
//! cargo bench -p keyrack-loadgen --bench requests redis 16     # one, as for callgrind
//! ```
//!
//! `general` is the same load by the way that mixed loads take, request by request.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench says what it has found")]

use std::path::PathBuf;
use std::sync::Arc;

use keyrack_loadgen::plan::{Loading, Plan, Settings, Waiting};
use keyrack_loadgen::respond::{self, Responder, ResponderKind};
use keyrack_loadgen::run::{Surroundings, run};
use keyrack_loadgen::target::Protocol;
use keyrack_measure::Clock;
use keyrack_vfs::{Fs, RealFs};

const REQUESTS: u64 = 200_000;
const CONNECTIONS: usize = 16;

/// Nanoseconds of the thread for each request.
fn cost_ns(settings: Settings) -> f64 {
    let plan = Arc::new(Plan::new(settings, &RealFs).unwrap());
    let clock = Clock::calibrated();
    let began = clock.ticks();
    let mut surroundings = Surroundings {
        clock,
        stop: Arc::default(),
        observer: &mut |_| {},
        fs: &RealFs as &dyn Fs,
        save: None,
        began,
    };
    let report = run(&plan, &mut surroundings).unwrap();
    assert_eq!(report.account.counts.ops, REQUESTS, "{:?}", report.troubles);
    report.threads[0].cpu_s * 1e9 / REQUESTS as f64
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let directory = RealFs.create_unique_dir(&std::env::temp_dir(), "keyrack-requests").unwrap();
    let shared: PathBuf = directory.join("shm");
    let responder = Responder::start(&respond::Settings {
        shared: vec![shared.clone()],
        ..respond::Settings::on_loopback(ResponderKind::Null)
    })
    .unwrap();
    let places = [
        ("tcp", responder.addresses()[0].to_string(), Waiting::Block),
        ("shm", format!("shm:{}", shared.display()), Waiting::Spin),
    ];
    println!("{:<10} {:<8} {:>5} {:>9} {:>9}", "protocol", "over", "depth", "ns", "general");
    for (name, protocol) in
        [("memcached", Protocol::Text), ("meta", Protocol::Meta), ("redis", Protocol::Resp2)]
    {
        for (over, server, waiting) in &places {
            for depth in [1, 16, 64] {
                let words = [name.to_owned(), (*over).to_owned(), depth.to_string()];
                if !wanted.iter().all(|word| words.contains(word)) {
                    continue;
                }
                let settings = |misswindow| Settings {
                    servers: vec![server.clone()],
                    protocol,
                    depth,
                    connections: CONNECTIONS,
                    queries: REQUESTS,
                    time_s: 0.0,
                    loading: Loading::No,
                    waiting: *waiting,
                    misswindow,
                    ..Settings::default()
                };
                // A window that never closes asks for each reply alone.
                let (plain, general) = (cost_ns(settings(0)), cost_ns(settings(u64::MAX)));
                println!("{name:<10} {over:<8} {depth:>5} {plain:>9.0} {general:>9.0}");
            }
        }
    }
    drop(responder);
    RealFs.remove_dir_all(&directory).unwrap();
}
