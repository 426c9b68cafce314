//! Random calls of several clients on servers in one thread, against trees in memory; first in
//! a world where nothing goes wrong, then in one where messages are lost, doubled, late and in
//! another order, connections break, servers cannot be reached, crash, and start again with
//! what they had.
//!
//! Directories split after a few files, leases run, and clients reach servers over connections and
//! over datagrams. A difference is made small: calls are left out as long as it stays.
//!
//! `KEYRACK_SEED=N` runs one seed; `KEYRACK_SIMULATIONS=N` so many of each test, from that seed
//! on if both are given.

mod actor;
mod model;
mod state;
mod troubles;
mod world;

use crate::make::IfExists;
use crate::quota::count;
use actor::{Actor, differences, look, tree};
use keyrack_workload::Rng;
use model::{Model, Op};
use state::{Act, Faults, MS};
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::World;

const SHARED: [&str; 2] = ["/s0", "/s1"];
/// Files of a partition that make it split.
const SPLIT_AT: u64 = 6;
/// Calls of one run, for each client.
const CALLS: usize = 40;
/// Runs to make a difference small.
const SHRINKS_MAX: usize = 100;

/// What is run.
#[derive(Clone, Debug)]
struct Plan {
    seed: u64,
    servers: usize,
    faults: Faults,
    /// By the client that makes it.
    ops: Vec<(usize, Op)>,
    clients: usize,
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ran {
    answered: u64,
    unknown: u64,
    crashes: u64,
    events: u64,
}

fn own(client: usize) -> String {
    format!("/c{client}")
}

/// A name in a directory that others use too, or in one of its own, two levels deep.
fn path(rng: &mut Rng, client: usize) -> String {
    match rng.below(10) {
        0..6 => format!("{}/{client}-{}", SHARED[rng.below(2) as usize], rng.below(10)),
        6..9 => format!("{}/{}", own(client), rng.below(4)),
        _ => format!("{}/{}/{}", own(client), rng.below(4), rng.below(3)),
    }
}

fn draw(rng: &mut Rng, client: usize) -> Op {
    let path = |rng: &mut Rng| path(rng, client);
    match rng.below(100) {
        0..26 => Op::Create { path: path(rng), is_exclusive: rng.below(3) > 0 },
        26..36 => {
            let count = [1, 100, 3901, 5000][rng.below(4) as usize];
            let byte = rng.below(256) as u8;
            Op::Write { path: path(rng), offset: rng.below(9), count, byte }
        }
        36..42 => Op::Read { path: path(rng) },
        42..48 => Op::Stat { path: path(rng) },
        48..51 => Op::Chmod { path: path(rng), mode: 0o600 + rng.below(64) as u32 },
        51..60 => Op::Unlink { path: path(rng) },
        60..67 => Op::Mkdir { path: path(rng) },
        67..72 => Op::Rmdir { path: path(rng) },
        72..75 => Op::Symlink { target: format!("none{}", rng.below(9)), path: path(rng) },
        75..77 => Op::ReadLink { path: path(rng) },
        77..93 => Op::Rename { from: path(rng), to: path(rng), replace: rng.below(2) == 0 },
        93 => Op::Spread { dir: SHARED[rng.below(2) as usize].to_owned() },
        _ => {
            let dir = match rng.below(3) {
                0 => own(client),
                _ => SHARED[rng.below(2) as usize].to_owned(),
            };
            Op::List { dir, count: 1 + rng.below(12) as usize }
        }
    }
}

impl Plan {
    fn draw(seed: u64, has_faults: bool) -> Plan {
        let mut rng = Rng::from_seed(seed);
        let (servers, clients) = (2 + rng.below(2) as usize, 2 + rng.below(2) as usize);
        let faults = if has_faults {
            Faults {
                lost: [0.0, 0.05, 0.2][rng.below(3) as usize],
                breaks: [0.0, 0.01, 0.05][rng.below(3) as usize],
                delay_ms_max: [1, 10, 300][rng.below(3) as usize],
                mischief_ms: [0, 1500, 6000][rng.below(3) as usize],
            }
        } else {
            Faults { delay_ms_max: 5, ..Faults::default() }
        };
        let mut ops = Vec::new();
        for _ in 0..CALLS {
            for client in 0..clients {
                ops.push((client, draw(&mut rng, client)));
            }
        }
        Plan { seed, servers, faults, ops, clients }
    }

    /// Runs it; an error says what was wrong.
    fn run(&self) -> Result<Ran, String> {
        match catch_unwind(AssertUnwindSafe(|| self.try_run())) {
            Ok(ran) => ran,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|t| (*t).to_owned()));
                Err(format!("a panic: {}", text.unwrap_or_default()))
            }
        }
    }

    fn try_run(&self) -> Result<Ran, String> {
        let calm = Faults { delay_ms_max: 1, ..Faults::default() };
        let world = World::new(self.seed, self.servers, SPLIT_AT, calm);
        let mut first = tree(&world, 1000);
        let own: Vec<String> = (0..self.clients).map(own).collect();
        for dir in SHARED.into_iter().chain(own.iter().map(String::as_str)) {
            first.mkdir(dir.as_bytes(), 0o777).map_err(|error| format!("mkdir {dir}: {error}"))?;
        }
        let actor = |client: usize| {
            let ops = self.ops.iter().filter(|op| op.0 == client).map(|op| op.1.clone()).collect();
            let model = Model::new(&SHARED, &own[client], &format!("{client}-"));
            Box::new(Actor::new(&world, client, model, ops)) as Box<dyn Act>
        };
        let actors = (0..self.clients).map(actor).collect();
        world.set_faults(self.faults);
        let actors = world.run(actors)?;
        world.set_faults(calm);
        // Whatever is half done is finished, or undone.
        world.pass(20_000);
        let mut ran = Ran { crashes: world.crashes(), events: world.events(), ..Ran::default() };
        for (client, actor) in actors.iter().enumerate() {
            let (model, [answered, unknown]) = actor.outcome();
            ran.answered += answered;
            ran.unknown += unknown;
            let found = look(&mut tree(&world, 1001), model);
            let found = found.map_err(|error| format!("a look at the end: {error}"))?;
            if found != model.entries {
                let differs = differences(&model.entries, &found);
                return Err(format!("client {client}, at the end: {differs}"));
            }
        }
        for space in world.spaces() {
            let checked = space.fsck().map_err(|error| format!("fsck: {error}"))?;
            if !checked.flaws.is_empty() {
                return Err(format!("fsck: {:?}", checked.flaws));
            }
            let counted = count(&space.inner.layers).map_err(|error| error.to_string())?;
            if space.names() != Some(counted) {
                return Err(format!("{:?} names are counted, {counted} are there", space.names()));
            }
        }
        world.end();
        Ok(ran)
    }

    /// Leaves calls out as long as the run fails.
    fn shrink(mut self, mut why: String) -> (Plan, String) {
        let (mut size, mut runs) = (self.ops.len() / 2, 0);
        while size > 0 && runs < SHRINKS_MAX {
            let mut at = 0;
            while at < self.ops.len() && runs < SHRINKS_MAX {
                let mut less = self.clone();
                less.ops.drain(at..(at + size).min(self.ops.len()));
                runs += 1;
                match less.run() {
                    Ok(_) => at += size,
                    Err(reason) => (self, why) = (less, reason),
                }
            }
            size /= 2;
        }
        (self, why)
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text}: a number is wanted")))
}

/// Runs seeds, and makes the first that fails small.
fn simulate(first: u64, count: u64, has_faults: bool) -> Ran {
    let (first, count) = match number("KEYRACK_SEED") {
        Some(seed) => (seed, number("KEYRACK_SIMULATIONS").unwrap_or(1)),
        None => (first, number("KEYRACK_SIMULATIONS").unwrap_or(count)),
    };
    println!("SEED={first}, and {count} in all");
    let mut sum = Ran::default();
    for seed in first..first + count {
        let plan = Plan::draw(seed, has_faults);
        match plan.run() {
            Ok(ran) => {
                sum.answered += ran.answered;
                sum.unknown += ran.unknown;
                sum.crashes += ran.crashes;
                sum.events += ran.events;
            }
            Err(why) => {
                println!("SEED={seed}: {why}");
                let (plan, small) = plan.shrink(why.clone());
                let ops: Vec<String> = plan.ops.iter().map(|op| format!("  {op:?}")).collect();
                panic!(
                    "SEED={seed}: {why}\nmade small, {} servers, {:?}: {small}\n{}",
                    plan.servers,
                    plan.faults,
                    ops.join("\n")
                );
            }
        }
    }
    println!("{sum:?}");
    sum
}

#[test]
fn clients_of_servers_in_peace_are_told_what_trees_in_memory_say() {
    let ran = simulate(1, 30, false);
    assert_eq!((ran.unknown, ran.crashes), (0, 0));
}

#[test]
fn whatever_messages_and_servers_meet_an_answer_is_right_and_a_call_is_whole_or_not_there() {
    simulate(1, 20, true);
}

#[test]
fn a_seed_is_the_same_world_each_time() {
    let plan = Plan::draw(7, true);
    assert_eq!(plan.run(), plan.run());
}

/// Such a client was refused from then on, and never said hello again.
#[test]
fn a_client_over_datagrams_goes_on_with_a_server_that_was_started_anew() {
    let world = World::new(1, 2, SPLIT_AT, Faults { delay_ms_max: 1, ..Faults::default() });
    let mut tree = tree(&world, 1);
    tree.mkdir(b"/d", 0o755).unwrap();
    tree.create(b"/d/before", 0o600, IfExists::Fail).unwrap();
    for server in 0..2 {
        world.crash(server, MS);
        world.pass(1500);
    }
    for n in 0..8 {
        tree.create(format!("/d/{n}").as_bytes(), 0o600, IfExists::Fail).unwrap();
    }
    assert_eq!(tree.list(b"/d").unwrap().len(), 9);
    world.end();
}
