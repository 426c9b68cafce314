//! kill -9 of a rank that writes, at drawn moments; then its log is merged with another's and
//! read.
//!
//! The rank is this test program, started again. It tells what is done over a socket, after it is
//! done: what came through is acknowledged. The kill may come between a step and its word, so the
//! log has the acknowledged steps, or one more; and nothing else.
//!
//! `KEYRACK_KILLS=100` kills so often; without it, 5 times.

use crate::support::small;
use keyrack_deltafs::merge::{Merge, Summary};
use keyrack_deltafs::{IfExists, IfTaken, Namespace, Settings};
use keyrack_vfs::{Fs, RealFs};
use keyrack_workload::Rng;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Says to the rank where its log is, where its words go, and which step comes next.
const PART: &str = "KEYRACK_TEST_WRITER";

/// What a step does to the names of `/shared`.
fn expect(names: &mut BTreeSet<String>, step: u64) {
    match step % 10 {
        7 => names.insert(format!("d{step}")),
        8 => names.remove(&format!("f{}", step - 2)),
        9 => {
            names.remove(&format!("f{}", step - 4));
            names.insert(format!("m{step}"))
        }
        _ => names.insert(format!("f{step}")),
    };
}

fn path(name: String) -> Vec<u8> {
    format!("/shared/{name}").into_bytes()
}

fn run(space: &Namespace, step: u64) -> keyrack_deltafs::Result<()> {
    let fs = space.as_root();
    match step % 10 {
        7 => fs.mkdir(&path(format!("d{step}")), 0o755).map(|_| ()),
        8 => fs.unlink(&path(format!("f{}", step - 2))),
        9 => {
            let (from, to) = (path(format!("f{}", step - 4)), path(format!("m{step}")));
            fs.rename(&from, &to, IfTaken::Fail)
        }
        _ => fs.create(&path(format!("f{step}")), 0o644, IfExists::Fail).map(|_| ()),
    }
}

fn settings() -> Settings {
    Settings { store: small(), ..Settings::default() }
}

/// Not a test of its own: what the rank runs. Without a part it has nothing to do.
#[test]
fn a_writing_rank() {
    let Ok(part) = std::env::var(PART) else { return };
    let [dir, address, next] = part.split(' ').collect::<Vec<_>>()[..] else { panic!("{part}") };
    let mut words = TcpStream::connect(address).unwrap();
    words.set_nodelay(true).unwrap();
    let space = Namespace::open(dir, settings()).unwrap();
    // It is there from the second life on.
    let _ = space.as_root().mkdir(b"/shared", 0o755);
    for step in next.parse::<u64>().unwrap().. {
        run(&space, step).unwrap();
        words.write_all(&step.to_le_bytes()).unwrap();
    }
}

/// The names of `/shared` in a merge of both logs.
fn merged(dir: &Path) -> BTreeSet<String> {
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let target = dir.join("merged");
    Merge::begin(&RealFs, &target, true).unwrap();
    let sources = ["r0", "r1"].map(|name| dir.join(name));
    let merge = Merge::open(fs, &sources).unwrap();
    let cuts = merge.cuts(2).unwrap();
    let parts: Vec<PathBuf> = (0..2).map(|part| target.join(format!("r{part}"))).collect();
    let mut records = 0;
    for (part, path) in (0..).zip(&parts) {
        records += merge.part(&cuts, part, path).unwrap().written;
    }
    Merge::end(&RealFs, &target, &Summary { parts: 2, logs: 2, records }).unwrap();
    let space = Namespace::open_read_only(&parts, settings()).unwrap();
    assert_eq!(space.fsck().unwrap().flaws, []);
    let fs = space.as_root();
    let shared = fs.dir(b"/shared").unwrap();
    let page = fs.list_at(&shared, None, usize::MAX).unwrap();
    page.entries.into_iter().map(|entry| String::from_utf8(entry.name).unwrap()).collect()
}

#[test]
fn what_a_killed_rank_has_acknowledged_is_in_the_merge() {
    let kills = std::env::var("KEYRACK_KILLS").map_or(5, |text| text.parse().unwrap());
    let seed = 20_261_122;
    println!("SEED={seed} KEYRACK_KILLS={kills}");
    let mut random = Rng::from_seed(seed);
    let lab = tempfile::tempdir().unwrap();
    let other = Namespace::open(lab.path().join("r1"), settings()).unwrap();
    other.as_root().mkdir(b"/shared", 0o755).unwrap();
    other.as_root().create(b"/shared/other", 0o644, IfExists::Fail).unwrap();
    other.close().unwrap();
    let mut names = BTreeSet::from(["other".to_owned()]);
    let mut next = 0;
    for kill in 0..kills {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (dir, address) = (lab.path().join("r0"), listener.local_addr().unwrap());
        let mut rank = Command::new(std::env::current_exe().unwrap())
            .args(["kill::a_writing_rank", "--exact", "--quiet"])
            .env(PART, format!("{} {address} {next}", dir.display()))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (mut words, _) = listener.accept().unwrap();
        let mut word = [0; 8];
        for _ in 0..random.below(400) {
            words.read_exact(&mut word).unwrap();
            assert_eq!(u64::from_le_bytes(word), next);
            expect(&mut names, next);
            next += 1;
        }
        rank.kill().unwrap();
        // What it said before it died counts as well.
        while words.read_exact(&mut word).is_ok() {
            expect(&mut names, next);
            next += 1;
        }
        rank.wait().unwrap();
        let found = merged(lab.path());
        if found != names {
            expect(&mut names, next);
            next += 1;
        }
        assert_eq!(found, names, "SEED={seed}, kill {kill}, {next} steps");
    }
}
