//! The simulated file system against the real one: random operations on a handful of paths must
//! give the same results, errors included, and the same tree. Replay a failure with
//! `KEYRACK_SEED=n`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use keyrack_vfs::{Error, FileKind, Fs, MemFs, OpenOptions, RealFs};

use crate::at;
use keyrack_testkit::random::{Draw, successive_seeds};

const STEPS: u64 = 150;

/// The paths are few, so that operations meet.
fn path_of(draw: &mut Draw) -> PathBuf {
    let names = ["a", "b", "c"];
    let mut path = PathBuf::new();
    for _ in 0..=draw.below(3) {
        path.push(names[draw.below(3) as usize]);
    }
    path
}

/// One operation. The outcome is text, so that two can be compared and read.
fn step(fs: &dyn Fs, root: &Path, mut draw: Draw) -> String {
    let (first, second) = (root.join(path_of(&mut draw)), root.join(path_of(&mut draw)));
    let options = OpenOptions::new()
        .read(true)
        .write(true)
        .create(draw.below(2) == 0)
        .truncate(draw.below(5) == 0);
    let (offset, len) = (draw.below(10_000), draw.below(6_000));
    let tell = |result: Result<String, Error>| {
        result.unwrap_or_else(|error| match error.io_kind() {
            // POSIX leaves open which of two reasons is named.
            ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty => "taken".to_owned(),
            kind => format!("{kind:?}"),
        })
    };
    let done = |result: Result<(), Error>| tell(result.map(|()| "done".to_owned()));
    match draw.below(12) {
        0..=2 => done(fs.open(&first, &options).and_then(|file| {
            let bytes: Vec<u8> = (0..len).map(|at| (at * offset % 253) as u8).collect();
            file.write_at(offset, &bytes)
        })),
        3 => done(fs.open(&first, &options).and_then(|file| file.set_len(offset))),
        4 => done(fs.open(&first, &options).and_then(|file| file.allocate(offset, len))),
        5..=6 => done(fs.create_dir(&first)),
        7 => done(fs.rename(&first, &second)),
        8 => done(fs.hard_link(&first, &second)),
        9 => done(fs.remove_file(&first)),
        10 => done(fs.remove_dir(&first)),
        _ => tell(fs.read(&first).map(|bytes| format!("{} bytes", bytes.len()))),
    }
}

/// The tree below `dir` as text: one line for each name, with the length and a sum of the bytes.
fn draw(fs: &dyn Fs, dir: &Path, indent: usize, out: &mut String) {
    for entry in fs.list(dir).unwrap() {
        let path = dir.join(&entry.name);
        let name = entry.name.display();
        if entry.kind == FileKind::Dir {
            *out += &format!("{:indent$}{name}/\n", "");
            draw(fs, &path, indent + 2, out);
        } else {
            let bytes = fs.read(&path).unwrap();
            let sum = bytes
                .iter()
                .fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)));
            *out += &format!("{:indent$}{name} {} {sum:08x}\n", "", bytes.len());
        }
    }
}

#[test]
fn random_operations_agree_with_the_real_file_system() {
    let mut met = std::collections::BTreeSet::new();
    for seed in successive_seeds(100) {
        let scratch = tempfile::tempdir().unwrap();
        let memory = MemFs::new();
        for number in 0..STEPS {
            let draw = || Draw::new(seed << 32 | number);
            let real = step(&RealFs, scratch.path(), draw());
            let simulated = step(&memory, at("/"), draw());
            assert_eq!(real, simulated, "SEED={seed} step {number}");
            met.insert(real);
        }
        let (mut real, mut simulated) = (String::new(), String::new());
        draw(&RealFs, scratch.path(), 0, &mut real);
        draw(&memory, at("/"), 0, &mut simulated);
        assert_eq!(real, simulated, "SEED={seed}");
    }
    for outcome in ["done", "NotFound", "taken", "NotADirectory", "IsADirectory"] {
        assert!(met.contains(outcome), "the operations never gave {outcome}: {met:?}");
    }
}
