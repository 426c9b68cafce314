//! Merges of small logs in memory, compared with reading the logs as a list.

use super::*;
use crate::make::IfExists;
use crate::namespace::Namespace;
use crate::open::Settings;
use crate::user::User;
use keyrack_vfs::MemFs;

struct Lab {
    fs: Arc<dyn Fs>,
}

impl Lab {
    fn new() -> Lab {
        Lab { fs: Arc::new(MemFs::new()) }
    }

    /// A log `src/r<rank>`; what is done to it follows.
    fn write(&self, rank: u32, is_flushed: bool, work: impl Fn(&Namespace, &User)) {
        let dir = PathBuf::from(format!("/src/r{rank}"));
        self.fs.create_dir_all(Path::new("/src")).unwrap();
        let space = Namespace::open_in(Arc::clone(&self.fs), &dir, Settings::default()).unwrap();
        work(&space, &User::root());
        if is_flushed {
            space.flush().unwrap();
        }
        space.close().unwrap();
    }

    fn merge(&self, parts: u32, order: &[u32]) -> PartCount {
        let dst = Path::new("/dst");
        Merge::begin(&*self.fs, dst, true).unwrap();
        let sources = logs_in(&*self.fs, Path::new("/src")).unwrap();
        let mut all = PartCount::default();
        for part in order {
            // Each part as a worker of its own would do it.
            let merge = Merge::open(Arc::clone(&self.fs), &sources).unwrap();
            let cuts = merge.cuts(parts).unwrap();
            assert_eq!(cuts.len() as u32, parts - 1);
            let count = merge.part(&cuts, *part, &dst.join(format!("r{part}"))).unwrap();
            all.read += count.read;
            all.written += count.written;
            all.conflicts += count.conflicts;
            all.shown.extend(count.shown);
        }
        let summary = Summary { parts, logs: sources.len() as u32, records: all.written };
        Merge::end(&*self.fs, dst, &summary).unwrap();
        all
    }

    /// Every path with its facts, as readers of the logs in `dir` see it.
    fn seen(&self, dir: &str) -> Vec<String> {
        let logs = logs_in(&*self.fs, Path::new(dir)).unwrap();
        let space =
            Namespace::open_read_only_in(Arc::clone(&self.fs), &logs, Settings::default()).unwrap();
        let fs = space.as_root();
        let mut lines = Vec::new();
        for walked in fs.walk(b"/").unwrap() {
            let walked = walked.unwrap();
            lines.push(format!("{} {:?}", walked.path.escape_ascii(), walked.stat));
        }
        lines.sort();
        lines
    }
}

fn shared_names(lab: &Lab, ranks: u32, count: u32, is_flushed: bool) {
    for rank in 0..ranks {
        lab.write(rank, is_flushed, |space, user| {
            let caller = space.by(user);
            let dir = caller.mkdir(b"/shared", 0o755).unwrap();
            caller.mkdir(format!("/own{rank}").as_bytes(), 0o700).unwrap();
            for n in 0..count {
                let name = format!("{:08x}-{rank}", n.wrapping_mul(0x9E37_79B9));
                caller.create_at(&dir, name.as_bytes(), 0o644, IfExists::Fail).unwrap();
            }
        });
    }
}

#[test]
fn any_width_gives_what_the_list_of_logs_gives() {
    for is_flushed in [true, false] {
        let lab = Lab::new();
        shared_names(&lab, 4, 250, is_flushed);
        let expected = lab.seen("/src");
        assert_eq!(expected.len(), 1 + 1 + 4 + 4 * 250);
        for parts in [1_u32, 3, 8] {
            let order: Vec<u32> = (0..parts).collect();
            let count = lab.merge(parts, &order);
            // Root and shared directory are in four logs and in one part.
            assert_eq!((count.written, count.conflicts), (1 + 1 + 1 + 4 * 2 + 4 * 250, 0));
            assert_eq!(count.read, count.written + 3 * 3);
            assert_eq!(lab.seen("/dst"), expected, "{parts} parts, flushed {is_flushed}");
        }
    }
}

#[test]
fn parts_are_about_even_when_tables_say_where_to_cut() {
    let lab = Lab::new();
    shared_names(&lab, 2, 4000, true);
    let sources = logs_in(&*lab.fs, Path::new("/src")).unwrap();
    let merge = Merge::open(Arc::clone(&lab.fs), &sources).unwrap();
    let cuts = merge.cuts(4).unwrap();
    let written: Vec<u64> = (0..4)
        .map(|part| merge.part(&cuts, part, Path::new(&format!("/out/r{part}"))).unwrap().written)
        .collect();
    let (least, most) = (written.iter().min().unwrap(), written.iter().max().unwrap());
    assert!(most < &(2 * least), "{written:?}");
}

#[test]
fn names_of_several_ranks_have_one_winner_whatever_the_timing() {
    let lab = Lab::new();
    for rank in 0..3_u32 {
        lab.write(rank, true, |space, user| {
            let caller = space.by(user);
            let root = space.root().unwrap();
            caller.create_at(&root, b"same", 0o600 + rank, IfExists::Fail).unwrap();
            if rank == 1 {
                caller.mkdir(b"/kind", 0o755).unwrap();
                caller.create(b"/kind/below", 0o600, IfExists::Fail).unwrap();
            } else {
                caller.create_at(&root, b"kind", 0o611, IfExists::Fail).unwrap();
            }
        });
    }
    let first = lab.merge(2, &[0, 1]);
    assert_eq!(first.conflicts, 4);
    assert!(first.shown[0].contains("/src/r2 wins over /src/r"), "{:?}", first.shown);
    let seen = lab.seen("/dst");
    assert!(seen.iter().any(|line| line.starts_with("/same") && line.contains("mode: 386")));
    assert!(!seen.iter().any(|line| line.starts_with("/kind/below")), "hidden by a file");
    assert_eq!(seen, lab.seen("/src"));
    for order in [[1, 0], [0, 1], [1, 0]] {
        assert_eq!(lab.merge(2, &order).conflicts, 4);
        assert_eq!(lab.seen("/dst"), seen);
    }
}

#[test]
fn removed_names_stay_removed_and_empty_logs_do_no_harm() {
    let lab = Lab::new();
    lab.write(0, true, |_, _| {});
    lab.write(1, true, |space, user| {
        let caller = space.by(user);
        for path in [&b"/a"[..], b"/b"] {
            caller.create(path, 0o600, IfExists::Fail).unwrap();
        }
        caller.unlink(b"/a").unwrap();
        caller.mkdir(b"/gone", 0o755).unwrap();
        caller.rmdir(b"/gone").unwrap();
    });
    let expected = lab.seen("/src");
    assert_eq!(expected.len(), 2);
    lab.merge(5, &[4, 3, 2, 1, 0]);
    assert_eq!(lab.seen("/dst"), expected);
    // Merged again it is the same.
    let sources = logs_in(&*lab.fs, Path::new("/dst")).unwrap();
    let merge = Merge::open(Arc::clone(&lab.fs), &sources).unwrap();
    merge.part(&[], 0, Path::new("/again/r0")).unwrap();
    assert_eq!(lab.seen("/again"), expected);
}

#[test]
fn what_is_missing_or_half_done_is_said() {
    let lab = Lab::new();
    let error = logs_in(&*lab.fs, Path::new("/nowhere")).unwrap_err().to_string();
    assert!(error.contains("/nowhere: there is no such directory"), "{error}");
    shared_names(&lab, 3, 2, true);
    lab.fs.remove_dir_all(Path::new("/src/r1")).unwrap();
    let error = logs_in(&*lab.fs, Path::new("/src")).unwrap_err().to_string();
    assert!(error.contains("r1 is missing"), "{error}");
    Merge::begin(&*lab.fs, Path::new("/dst"), false).unwrap();
    let error = logs_in(&*lab.fs, Path::new("/dst")).unwrap_err().to_string();
    assert!(error.contains("did not come to its end"), "{error}");
    lab.fs.create_dir_all(Path::new("/dst/r0")).unwrap();
    // What an interrupted merge left may be replaced; what a finished one made may not.
    Merge::begin(&*lab.fs, Path::new("/dst"), false).unwrap();
    lab.fs.create_dir_all(Path::new("/dst/r0")).unwrap();
    let summary = Summary { parts: 2, logs: 1, records: 0 };
    Merge::end(&*lab.fs, Path::new("/dst"), &summary).unwrap();
    let error = Merge::begin(&*lab.fs, Path::new("/dst"), false).unwrap_err().to_string();
    assert!(error.contains("there is something already"), "{error}");
    // One part of two is lost.
    let error = logs_in(&*lab.fs, Path::new("/dst")).unwrap_err().to_string();
    assert!(error.contains("r1 is missing"), "{error}");
    Merge::begin(&*lab.fs, Path::new("/dst"), true).unwrap();
}

#[test]
fn bytes_of_large_files_come_along_to_the_part_of_their_records() {
    let lab = Lab::new();
    for rank in 0..3_u32 {
        lab.write(rank, rank != 1, |space, user| {
            let caller = space.by(user);
            caller.mkdir(b"/d", 0o755).unwrap();
            // One name is everybody's: the highest rank's bytes are right.
            for name in ["/d/same".to_owned(), format!("/d/own{rank}"), format!("/large{rank}")] {
                caller.put(name.as_bytes(), 0o600, &vec![rank as u8; 5000]).unwrap();
            }
        });
    }
    for parts in [1, 4] {
        let order: Vec<u32> = (0..parts).collect();
        lab.merge(parts, &order);
        let logs = logs_in(&*lab.fs, Path::new("/dst")).unwrap();
        let space =
            Namespace::open_read_only_in(Arc::clone(&lab.fs), &logs, Settings::default()).unwrap();
        let bytes = |path: &str| space.as_root().read(path.as_bytes(), 0, usize::MAX).unwrap();
        assert!(bytes("/d/same") == vec![2; 5000]);
        for rank in 0..3 {
            assert!(bytes(&format!("/d/own{rank}")) == vec![rank; 5000]);
            assert!(bytes(&format!("/large{rank}")) == vec![rank; 5000]);
        }
        // Seven names, seven files: those of the losers stay behind.
        let mut kept = 0;
        for log in &logs {
            let dir = log.join("contents");
            if lab.fs.exists(&dir).unwrap() {
                let shards = lab.fs.list(&dir).unwrap();
                kept += shards
                    .iter()
                    .map(|shard| lab.fs.list(&dir.join(&shard.name)).unwrap().len())
                    .sum::<usize>();
            }
        }
        assert_eq!(kept, 7, "{parts} parts");
    }
}

#[test]
fn parts_that_the_summary_does_not_count_are_damage_and_not_left_out() {
    let fs = MemFs::new();
    let dir = Path::new("/merged");
    for part in ["r0", "r1"] {
        fs.create_dir_all(&dir.join(part)).unwrap();
    }
    let summary = |parts| Summary { parts, logs: 3, records: 9 };
    fs.write_atomic(&dir.join(MERGED), &serde_json::to_vec(&summary(2)).unwrap()).unwrap();
    assert_eq!(logs_in(&fs, dir).unwrap().len(), 2);
    for parts in [0, 1] {
        let text = serde_json::to_vec(&summary(parts)).unwrap();
        fs.write_atomic(&dir.join(MERGED), &text).unwrap();
        let error = logs_in(&fs, dir).unwrap_err().to_string();
        assert!(error.starts_with("/merged/MERGED: "), "{error}");
    }
}
