//! Many threads in one name space: races with one winner, moves without a circle, nothing lost.

use crate::support::{assert_sound, errno, ls, opened};
use keyrack_deltafs::{Error, IfExists, IfTaken};
use keyrack_workload::Rng;
use std::collections::BTreeSet;
use std::sync::Barrier;

const THREADS: usize = 4;

fn run<T: Send>(body: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (body, barrier) = (&body, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    body(thread)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn of_one_name_one_creator_wins() {
    let (_, space) = opened();
    let dir = space.as_root().mkdir(b"/d", 0o755).unwrap();
    const NAMES: usize = 300;
    let won = run(|_| {
        let fs = space.as_root();
        (0..NAMES)
            .map(|n| {
                let name = format!("n{n}");
                match fs.create_at(&dir, name.as_bytes(), 0o644, IfExists::Fail) {
                    Ok(made) => Some(made.stat.inode),
                    Err(Error::Exists(_)) => None,
                    Err(error) => panic!("{error}"),
                }
            })
            .collect::<Vec<_>>()
    });
    for n in 0..NAMES {
        let winners: Vec<_> = won.iter().filter_map(|thread| thread[n]).collect();
        assert_eq!(winners.len(), 1, "n{n}");
        let stat = space.as_root().stat_at(&dir, format!("n{n}").as_bytes()).unwrap();
        assert_eq!(stat.inode, winners[0]);
    }
}

#[test]
fn of_one_directory_one_maker_wins_and_everybody_can_use_it() {
    let (_, space) = opened();
    let made = run(|thread| {
        let fs = space.as_root();
        let mut won = 0;
        for n in 0..100 {
            let dir = format!("/d{n}");
            match fs.mkdir(dir.as_bytes(), 0o755) {
                Ok(_) => won += 1,
                Err(error) => assert_eq!(error.errno(), "EEXIST"),
            }
            let file = format!("{dir}/f{thread}");
            fs.create(file.as_bytes(), 0o644, IfExists::Fail).unwrap();
        }
        won
    });
    assert_eq!(made.iter().sum::<i32>(), 100);
    for n in 0..100 {
        assert_eq!(ls(space.as_root(), &format!("/d{n}")), "f0 f1 f2 f3");
    }
    assert_eq!(space.as_root().stat(b"/").unwrap().nlink, 102);
    assert_sound(&space);
}

/// Removing a directory against creating in it: either the entry is there, or the directory is not.
#[test]
fn a_directory_is_not_removed_under_a_create() {
    let (_, space) = opened();
    let fs = space.as_root();
    for n in 0..150 {
        let path = format!("/d{n}");
        let dir = fs.mkdir(path.as_bytes(), 0o755).unwrap();
        let results = run(|thread| {
            let fs = space.as_root();
            match thread {
                0 => errno(fs.rmdir(path.as_bytes())),
                1 => errno(fs.mkdir_at(&dir, b"s", 0o755)),
                _ => {
                    errno(fs.create_at(&dir, thread.to_string().as_bytes(), 0o644, IfExists::Fail))
                }
            }
        });
        let made = results[1..].iter().filter(|result| **result == "done").count();
        match results[0] {
            "done" => assert_eq!(results[1..], ["ESTALE"; 3]),
            result => assert_eq!((result, made), ("ENOTEMPTY", 3)),
        }
    }
    assert_sound(&space);
}

/// Threads move directories into each other. Nothing waits for ever, no circle comes about, and
/// every directory stays on the tree.
#[test]
fn moves_of_directories_make_no_circle() {
    const DIRS: u64 = 8;
    let (_, space) = opened();
    let fs = space.as_root();
    let dirs: Vec<_> =
        (0..DIRS).map(|n| fs.mkdir(format!("/d{n}").as_bytes(), 0o755).unwrap()).collect();
    let moved = run(|thread| {
        let fs = space.as_root();
        let mut rng = Rng::from_seed(thread as u64);
        let mut moved = 0;
        for _ in 0..400 {
            let (from, to) = (rng.below(DIRS) as usize, rng.below(DIRS + 1) as usize);
            let Ok(from) = fs.path_of(&dirs[from]) else { continue };
            let to = match dirs.get(to) {
                Some(dir) => fs.path_of(dir).unwrap(),
                None => Vec::new(),
            };
            let name = from.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            let to = [&to[..], b"/", name].concat();
            match fs.rename(&from, &to, IfTaken::Replace) {
                Ok(()) => moved += 1,
                Err(error) => assert!(
                    ["ENOENT", "EINVAL", "ENOTEMPTY", "ESTALE"].contains(&error.errno()),
                    "{error}"
                ),
            }
        }
        moved
    });
    assert!(moved.iter().sum::<i32>() > 100, "{moved:?}");
    let numbers: BTreeSet<_> = dirs.iter().map(|dir| dir.inode()).collect();
    let walked = fs.walk(b"/").unwrap().map(|walked| walked.unwrap().stat.inode);
    let found = walked.filter(|inode| numbers.contains(inode)).count();
    assert_eq!(found, DIRS as usize);
    assert_sound(&space);
}

/// Files are moved to and fro, removed and made by all threads; at the end the counts are right and
/// each file has one name.
#[test]
fn files_moved_by_many_have_one_name() {
    let (_, space) = opened();
    let fs = space.as_root();
    let dirs = [fs.mkdir(b"/a", 0o755).unwrap(), fs.mkdir(b"/b", 0o755).unwrap()];
    run(|thread| {
        let fs = space.as_root();
        let mut rng = Rng::from_seed(77 + thread as u64);
        for _ in 0..600 {
            let mut place = || (rng.below(2) as usize, format!("f{}", rng.below(6)));
            let ((from, old), (to, new)) = (place(), place());
            let (old, new) = (old.as_bytes(), new.as_bytes());
            let done = match rng.below(4) {
                0 => errno(fs.create_at(&dirs[from], old, 0o644, IfExists::Fail)),
                1 => errno(fs.unlink_at(&dirs[from], old)),
                2 => errno(fs.write_at(&dirs[from], old, 0, b"x")),
                _ => errno(fs.rename_at(&dirs[from], old, &dirs[to], new, IfTaken::Replace)),
            };
            assert!(["done", "ENOENT", "EEXIST"].contains(&done), "{done}");
        }
    });
    // The check finds a number that two names have.
    assert_sound(&space);
}
