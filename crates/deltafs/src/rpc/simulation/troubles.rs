//! Troubles that random worlds seldom have: disks that are full, names that are held for long,
//! partitions that come back early.

use super::actor::tree;
use super::state::{Faults, MS};
use super::world::World;
use crate::make::IfExists;
use crate::rpc::codec::Request;
use keyrack_vfs::{Fault, FaultPlan, Operation};

const CALM: Faults = Faults { lost: 0.0, breaks: 0.0, delay_ms_max: 1, mischief_ms: 0 };

/// What needs room.
const NEEDS_SPACE: [Operation; 4] =
    [Operation::Open, Operation::Write, Operation::SetLen, Operation::Allocate];

/// What the thread that works with other servers was refused was dropped: names of renames were
/// held until the server was started anew, and a decided one was told as an error.
#[test]
fn names_are_not_held_for_ever_after_a_disk_was_full_during_a_rename() {
    let mut refused = 0;
    for round in 0..24_usize {
        let who = round % 2;
        let world = World::with_segments(1, (2, 1000, 4096), CALM);
        let mut tree = tree(&world, 0);
        // Two directories, each at another server.
        let mut dirs = [None, None];
        for n in 0.. {
            let path = format!("/{n}");
            tree.mkdir(path.as_bytes(), 0o755).unwrap();
            let dir = tree.open(path.as_bytes()).unwrap();
            let home = tree.server_of(dir, b"");
            dirs[home].get_or_insert(path);
            if dirs.iter().all(Option::is_some) {
                break;
            }
        }
        let [d, e] = dirs.map(Option::unwrap);
        // Segments end at another record of the rename in each round.
        for dir in [&d, &e] {
            let target = vec![b'x'; 1 + 37 * (round / 2)];
            tree.symlink(&target, format!("{dir}/link").as_bytes()).unwrap();
        }
        let names: Vec<String> = (0..60).map(|n| format!("f{n}")).collect();
        for name in &names {
            tree.create(format!("{d}/{name}").as_bytes(), 0o600, IfExists::Fail).unwrap();
        }
        let disk = world.disk(who);
        disk.arm(FaultPlan::from_then_on(1, Fault::NoSpace).only(&NEEDS_SPACE));
        let mut told = None;
        for name in &names {
            let (from, to) = (format!("{d}/{name}"), format!("{e}/{name}"));
            if let Err(error) = tree.rename(from.as_bytes(), to.as_bytes(), false) {
                told = Some((name.clone(), error.errno()));
                break;
            }
        }
        disk.disarm();
        refused += usize::from(told.is_some());
        world.pass(2000);
        for name in &names {
            let there = [format!("{d}/{name}"), format!("{e}/{name}")].map(|path| {
                match tree.stat(path.as_bytes()) {
                    Ok(_) => true,
                    Err(error) if error.errno() == "ENOENT" => false,
                    Err(error) => panic!("round {round}: {told:?}: {path}: {error}"),
                }
            });
            assert_ne!(there[0], there[1], "round {round}: {told:?}: {name}");
        }
        for space in world.spaces() {
            assert_eq!(space.fsck().unwrap().flaws, [], "round {round}");
        }
        world.end();
    }
    assert!(refused > 12, "{refused} renames met a full disk");
}

/// It was sealed before the other server tried to write it, with one record of its log, and nobody
/// could use its names any more.
#[test]
fn a_half_that_is_larger_than_a_record_of_the_log_stays_where_it_is() {
    let world = World::with_segments(1, (2, 12, 64 << 10), CALM);
    let mut tree = tree(&world, 0);
    tree.mkdir(b"/d", 0o755).unwrap();
    let dir = tree.open(b"/d").unwrap();
    let (source, _) = tree.locate(dir, b"f").unwrap();
    tree.number_at(dir, 1 - source).unwrap();
    // It grows while nobody is there to take a half.
    world.crash(1 - source, 3_000 * MS);
    let names: Vec<String> = (0..60).map(|n| format!("/d/f{n}")).collect();
    for name in &names {
        tree.create(name.as_bytes(), 0o600, IfExists::Fail).unwrap();
        tree.write(name.as_bytes(), 0, &[1; 3000]).unwrap();
    }
    world.pass(10_000);
    assert_eq!(tree.list(b"/d").unwrap().len(), 60);
    for name in &names {
        tree.unlink(name.as_bytes()).unwrap();
    }
    // A smaller one goes.
    for name in &names {
        tree.create(name.as_bytes(), 0o600, IfExists::Fail).unwrap();
    }
    world.pass(1000);
    tree.learn_all(dir).unwrap();
    assert_eq!(tree.dirs_map(dir), 2);
    assert_eq!(tree.list(b"/d").unwrap().len(), 60);
    world.end();
}

/// The source heard late that its half had come. By then a part of that half had split on and come
/// back to the source, and it went with what the source removed.
#[test]
fn a_part_that_comes_back_before_the_split_is_over_is_not_removed_with_what_went() {
    for seed in 1..=6 {
        let world = World::with_segments(seed, (3, 1000, 256 << 10), CALM);
        let mut tree = tree(&world, 0);
        tree.mkdir(b"/d", 0o755).unwrap();
        let names: Vec<String> = (0..80).map(|n| format!("/d/f{n}")).collect();
        for name in &names {
            tree.create(name.as_bytes(), 0o600, IfExists::Fail).unwrap();
        }
        world.set_faults(Faults { delay_ms_max: 50, ..CALM });
        let dir = tree.open(b"/d").unwrap();
        // Who gets a half gives a half of it away at once.
        tree.spread(dir).unwrap();
        world.set_faults(CALM);
        world.pass(10_000);
        tree.learn_all(dir).unwrap();
        assert_eq!(tree.dirs_map(dir), 64, "seed {seed}");
        for name in &names {
            tree.stat(name.as_bytes()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        assert_eq!(tree.list(b"/d").unwrap().len(), names.len(), "seed {seed}");
        world.end();
    }
}

/// A server that was asked to spread a directory forgot it when the target of the first split was
/// away.
#[test]
fn a_directory_spreads_once_the_other_server_is_back() {
    let world = World::with_segments(1, (2, 1000, 256 << 10), CALM);
    let mut tree = tree(&world, 0);
    tree.mkdir(b"/d", 0o755).unwrap();
    let dir = tree.open(b"/d").unwrap();
    let (source, number) = tree.locate(dir, b"f").unwrap();
    tree.number_at(dir, 1 - source).unwrap();
    world.crash(1 - source, 2_000 * MS);
    tree.client().call(source, &Request::Spread { dir: number }, |_| ()).unwrap();
    world.pass(20_000);
    tree.learn_all(dir).unwrap();
    assert!(tree.dirs_map(dir) > 1);
    world.end();
}
