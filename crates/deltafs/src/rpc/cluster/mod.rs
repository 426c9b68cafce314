//! Several servers at once: directories that split, servers that crash, renames across them.
//!
//! Servers run in this process on file systems in memory, which keep at a crash what was synced.

mod moves;
mod power;
mod quota;

use super::tests::{address, alone};
use super::*;
use crate::caller::Kind;
use crate::id::LogId;
use crate::make::IfExists;
use crate::namespace::Namespace;
use crate::open::Settings;
use crate::quota::Quota;
use keyrack_net::{Endpoint, Listener};
use keyrack_vfs::{CrashPolicy, Fs, MemFs};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Servers that find each other.
struct Cluster {
    disks: Vec<Arc<MemFs>>,
    ports: Vec<Endpoint>,
    servers: Vec<Option<Served>>,
    split_at: u64,
    quota: Quota,
    now: Arc<AtomicU64>,
}

const GRACE: Duration = Duration::from_millis(10);

impl Cluster {
    fn new(count: u32, split_at: u64) -> Cluster {
        Cluster::with(count, split_at, Quota::default())
    }

    fn with(count: u32, split_at: u64, quota: Quota) -> Cluster {
        let disks = (0..count).map(|_| Arc::new(MemFs::new())).collect();
        let now = Arc::new(AtomicU64::new(1));
        let (ports, servers) = (Vec::new(), Vec::new());
        let mut cluster = Cluster { disks, ports, servers, split_at, quota, now };
        let any: Endpoint = "127.0.0.1:0".parse().unwrap();
        for server in 0..count as usize {
            let served = cluster.serve(server, any.clone());
            cluster.ports.push(address(&served));
            cluster.servers.push(Some(served));
        }
        for server in 0..count as usize {
            cluster.meet(server);
        }
        cluster
    }

    fn serve(&self, server: usize, at: Endpoint) -> Served {
        let fs: Arc<dyn Fs> = Arc::clone(&self.disks[server]) as Arc<dyn Fs>;
        let log = Some(LogId::from_bits(server as u64 + 1));
        let settings = Settings { log, quota: self.quota, ..Settings::default() };
        let space = Namespace::open_in(fs, Path::new("/log"), settings).unwrap();
        let options = ServeOptions {
            listen: vec![Listener::stream(at)],
            server: server as u32,
            servers: self.disks.len() as u32,
            split_at: self.split_at,
            lease_clock: LeaseClock::Given(Arc::clone(&self.now)),
            ..ServeOptions::default()
        };
        serve(Some(space), options).unwrap()
    }

    fn meet(&self, server: usize) {
        let addresses = self.ports.iter().map(Endpoint::to_string).collect();
        self.servers[server].as_ref().unwrap().set_map(addresses).unwrap();
    }

    /// Ends a server, with what it has written; nothing of what it knew.
    fn stop(&mut self, server: usize) {
        self.servers[server].take().unwrap().shutdown(GRACE).unwrap();
    }

    fn start(&mut self, server: usize) {
        let served = self.serve(server, self.ports[server].clone());
        self.servers[server] = Some(served);
        self.meet(server);
        // Nobody waits for the leases of the one before.
        self.pass(1000);
    }

    fn tree(&self) -> Tree {
        let lease_clock = LeaseClock::Given(Arc::clone(&self.now));
        Tree::new(self.ports.clone(), ClientOptions { lease_clock, ..ClientOptions::default() })
    }

    /// The machine of a server loses power, and comes back.
    fn lose_power(&mut self, server: usize) {
        let left = self.disks[server].crash_image(1, CrashPolicy::DropAll);
        self.stop(server);
        self.disks[server] = Arc::new(left);
        self.start(server);
    }

    /// Lets time go on, for leases.
    fn pass(&self, ms: u64) {
        self.now.fetch_add(ms * 1_000_000, Ordering::Relaxed);
    }
}

fn names(tree: &mut Tree, path: &[u8]) -> Vec<String> {
    let all = tree.list(path).unwrap();
    all.into_iter().map(|(name, _)| String::from_utf8(name).unwrap()).collect()
}

/// A directory has grown enough; this is when it has split.
fn wait_for_a_split(tree: &mut Tree, dir: DirNumber) {
    while tree.dirs_map(dir) == 1 {
        tree.learn_all(dir).unwrap();
    }
}

/// Makes empty files in a directory.
#[track_caller]
fn fill(tree: &mut Tree, dir: &str, prefix: &str, numbers: std::ops::Range<u32>) {
    for name in numbered(prefix, numbers) {
        tree.create(format!("{dir}/{name}").as_bytes(), 0o600, IfExists::Fail).unwrap();
    }
}

fn numbered(prefix: &str, numbers: std::ops::Range<u32>) -> Vec<String> {
    numbers.map(|number| format!("{prefix}{number:04}")).collect()
}

#[test]
fn a_tree_over_three_servers_is_one() {
    let cluster = Cluster::new(3, 8);
    let mut tree = Tree::discover(cluster.ports[0].clone(), ClientOptions::default()).unwrap();
    tree.mkdir(b"/a", 0o755).unwrap();
    tree.mkdir(b"/a/b/", 0o700).unwrap();
    let mut names: Vec<Vec<u8>> = (0..60).map(|n| format!("f{n:02}").into_bytes()).collect();
    for name in &names {
        let path = [b"/a/", &name[..]].concat();
        assert!(tree.create(&path, 0o640, IfExists::Fail).unwrap());
        assert!(!tree.create(&path, 0o640, IfExists::Open).unwrap());
        assert_eq!(tree.create(&path, 0, IfExists::Fail).unwrap_err().errno(), "EEXIST");
        assert_eq!(tree.stat(&path).unwrap().mode, 0o640);
    }
    names.insert(0, b"b".to_vec());
    let listed: Vec<Vec<u8>> = tree.list(b"/a").unwrap().into_iter().map(|entry| entry.0).collect();
    assert_eq!(listed, names);
    let dir = tree.open(b"/a").unwrap();
    wait_for_a_split(&mut tree, dir);
    let root = tree.stat(b"/").unwrap();
    assert_eq!((root.kind, root.nlink), (Kind::Dir, 3));
    assert_eq!(tree.stat(b"/a").unwrap().nlink, 3);
    // A file at one server keeps the directory everywhere.
    assert!(tree.create(b"/a/b/one", 0o600, IfExists::Fail).unwrap());
    assert_eq!(tree.rmdir(b"/a/b").unwrap_err().errno(), "ENOTEMPTY");
    for n in 0..20 {
        let path = format!("/a/b/again{n}");
        assert!(tree.create(path.as_bytes(), 0o600, IfExists::Fail).unwrap(), "{path}");
        tree.unlink(path.as_bytes()).unwrap();
    }
    tree.unlink(b"/a/b/one").unwrap();
    tree.rmdir(b"/a/b").unwrap();
    assert_eq!(tree.stat(b"/a/b").unwrap_err().errno(), "ENOENT");
    assert_eq!(tree.create(b"/a/b/x", 0, IfExists::Fail).unwrap_err().errno(), "ENOENT");
    // Made anew, it is empty, and the same everywhere.
    tree.mkdir(b"/a/b", 0o755).unwrap();
    assert_eq!(tree.list(b"/a/b").unwrap(), []);
    for n in 0..9 {
        tree.create(format!("/a/b/{n}").as_bytes(), 0o600, IfExists::Fail).unwrap();
    }
    let set = SetFields { mode: Some(0o711), ..SetFields::default() };
    tree.set_attributes(b"/a", set).unwrap();
    assert_eq!(tree.stat(b"/a").unwrap().mode, 0o711);
    tree.symlink(b"f01", b"/a/link").unwrap();
    assert_eq!(tree.read_link(b"/a/link").unwrap(), b"f01");
    tree.write(b"/a/f01", 0, b"data").unwrap();
    assert_eq!(tree.read(b"/a/f01", 0, 99).unwrap(), b"data");
    tree.sync().unwrap();
}

#[test]
fn a_directory_splits_under_clients_with_old_maps_and_loses_and_doubles_nothing() {
    for count in [2_u32, 3] {
        let cluster = Cluster::new(count, 16);
        let mut old = cluster.tree();
        old.mkdir(b"/d", 0o777).unwrap();
        old.mkdir(b"/d/sub", 0o777).unwrap();
        let dir = old.open(b"/d").unwrap();
        assert_eq!(old.dirs_map(dir), 1);
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let mut tree = cluster.tree();
                std::thread::spawn(move || {
                    for name in numbered(&format!("w{writer}-"), 0..150) {
                        let path = format!("/d/{name}");
                        let made = tree.create(path.as_bytes(), 0o640, IfExists::Fail);
                        assert!(made.unwrap(), "{path}");
                        assert_eq!(tree.stat(path.as_bytes()).unwrap().mode, 0o640);
                        if name.ends_with('7') {
                            tree.unlink(path.as_bytes()).unwrap();
                        }
                    }
                })
            })
            .collect();
        // A listing meanwhile has every name that was there before, once.
        tree_is_sorted(&names(&mut cluster.tree(), b"/d"));
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let mut expected: BTreeSet<String> = (0..3)
            .flat_map(|writer| numbered(&format!("w{writer}-"), 0..150))
            .filter(|name| !name.ends_with('7'))
            .collect();
        expected.insert("sub".to_owned());
        let expected: Vec<String> = expected.into_iter().collect();
        // One who has heard of no split is led on, and learns.
        assert_eq!(old.create(b"/d/w0-0003", 0, IfExists::Fail).unwrap_err().errno(), "EEXIST");
        for name in &expected {
            old.stat(format!("/d/{name}").as_bytes()).unwrap();
        }
        wait_for_a_split(&mut old, dir);
        assert_eq!(names(&mut old, b"/d"), expected);
        assert_eq!(old.mkdir(b"/d/w1-0001", 0o755).unwrap_err().errno(), "EEXIST");
        assert_eq!(old.create(b"/d/sub", 0, IfExists::Fail).unwrap_err().errno(), "EEXIST");
    }
}

fn tree_is_sorted(names: &[String]) {
    assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
}

#[test]
fn a_listing_is_taken_up_behind_any_name_while_partitions_move() {
    let cluster = Cluster::new(3, 8);
    let mut tree = cluster.tree();
    tree.mkdir(b"/d", 0o755).unwrap();
    fill(&mut tree, "/d", "f", 0..30);
    let dir = tree.open(b"/d").unwrap();
    let (mut seen, mut after) = (Vec::new(), None);
    let mut more = 0;
    loop {
        let page = tree.page(dir, after.as_deref(), 7, true).unwrap();
        seen.extend(page.entries.iter().map(|entry| entry.name.clone()));
        assert!(page.entries.iter().all(|entry| entry.stat.is_some_and(|s| s.kind == Kind::File)));
        // Names in front of the listing, which make the directory split on.
        for _ in 0..9 {
            let path = format!("/d/a{more:04}");
            tree.create(path.as_bytes(), 0o600, IfExists::Fail).unwrap();
            more += 1;
        }
        match page.next {
            // Another client goes on.
            Some(next) => {
                after = Some(next);
                tree = cluster.tree();
                assert_eq!(tree.open(b"/d").unwrap(), dir);
            }
            None => break,
        }
    }
    let expected: Vec<Vec<u8>> = numbered("f", 0..30).into_iter().map(String::into_bytes).collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_server_that_goes_away_during_a_split_loses_nothing() {
    // The source, the target, and either in turn, at whatever moment the split has come to.
    for round in 0..2_u64 {
        let mut cluster = Cluster::new(2, 32);
        let mut tree = cluster.tree();
        tree.mkdir(b"/d", 0o755).unwrap();
        let mut made = Vec::new();
        for (number, name) in numbered("f", 0..200).into_iter().enumerate() {
            if number % 50 == 33 + round as usize {
                // Just when the directory has grown enough.
                let who = (number / 50 + round as usize) % 2;
                cluster.stop(who);
                cluster.start(who);
            }
            let path = format!("/d/{name}");
            // A call that met the end of a server may have been done.
            match tree.create(path.as_bytes(), 0o600, IfExists::Fail) {
                Ok(true) => {}
                Err(error) if error.errno() == "EEXIST" => {}
                other => panic!("round {round}, {path}: {other:?}"),
            }
            made.push(name);
        }
        assert_eq!(names(&mut tree, b"/d"), made, "round {round}");
        for name in &made {
            tree.unlink(format!("/d/{name}").as_bytes()).unwrap();
        }
        assert_eq!(names(&mut cluster.tree(), b"/d"), Vec::<String>::new(), "round {round}");
        // The leases of clients that are gone have run out.
        cluster.pass(1001);
        tree.rmdir(b"/d").unwrap();
    }
}

#[test]
fn a_log_of_one_server_is_not_served_as_anothers() {
    let mut cluster = Cluster::new(2, 100);
    cluster.stop(0);
    cluster.stop(1);
    cluster.disks.swap(0, 1);
    let fs: Arc<dyn Fs> = Arc::clone(&cluster.disks[0]) as Arc<dyn Fs>;
    let space = Namespace::open_in(fs, Path::new("/log"), Settings::default()).unwrap();
    let options = ServeOptions { server: 0, servers: 2, ..ServeOptions::default() };
    let error = serve(Some(space), options).unwrap_err().to_string();
    assert!(error.contains("that of server 1 of 2") && error.contains("fs merge"), "{error}");
}

#[test]
fn a_number_of_before_a_restart_is_stale_and_a_tree_opens_its_directory_again() {
    let mut cluster = Cluster::new(1, 100);
    let mut tree = cluster.tree();
    tree.mkdir(b"/a", 0o755).unwrap();
    tree.mkdir(b"/b", 0o755).unwrap();
    let a = tree.open(b"/a").unwrap();
    let (_, number) = tree.locate(a, b"f").unwrap();
    cluster.stop(0);
    cluster.start(0);
    // Another directory is the first that is opened now.
    let mut raw = Client::new(cluster.ports.clone(), ClientOptions::default());
    raw.call(0, &Request::OpenDir { path: b"/b" }, |_| ()).unwrap();
    let create = Request::Create { dir: number, name: b"f", mode: 0o600, how: How::Fail };
    assert_eq!(raw.call(0, &create, |_| ()).unwrap_err().errno(), "ESTALE");
    tree.create(b"/a/f", 0o600, IfExists::Fail).unwrap();
    assert_eq!(names(&mut tree, b"/a"), ["f"]);
    assert_eq!(names(&mut tree, b"/b"), Vec::<String>::new());
}

#[test]
fn links_to_directories_are_followed_whichever_server_has_them() {
    let cluster = Cluster::new(3, 4);
    let mut tree = cluster.tree();
    tree.mkdir(b"/real", 0o755).unwrap();
    tree.mkdir(b"/real/deep", 0o755).unwrap();
    for n in 0..12 {
        tree.symlink(b"real/deep", format!("/link{n}").as_bytes()).unwrap();
        let path = format!("/link{n}/f{n}");
        tree.create(path.as_bytes(), 0o600, IfExists::Fail).unwrap();
        assert_eq!(tree.stat(path.as_bytes()).unwrap().mode, 0o600);
        tree.symlink(format!("../link{n}/..").as_bytes(), format!("/real/up{n}").as_bytes())
            .unwrap();
        assert!(tree.stat(format!("/real/up{n}/deep/f{n}").as_bytes()).is_ok());
    }
    assert_eq!(names(&mut tree, b"/real/deep").len(), 12);
    tree.symlink(b"loop", b"/loop").unwrap();
    assert_eq!(tree.stat(b"/loop/x").unwrap_err().errno(), "ELOOP");
    assert_eq!(tree.stat(b"/absent/x").unwrap_err().errno(), "ENOENT");
}

#[test]
fn links_at_the_end_of_a_path_are_followed_where_that_is_asked_for() {
    for count in [1, 3] {
        let cluster = Cluster::new(count, 4);
        let mut tree = cluster.tree();
        tree.mkdir(b"/real", 0o755).unwrap();
        for n in 0..12 {
            tree.create(format!("/real/f{n}").as_bytes(), 0o600, IfExists::Fail).unwrap();
            tree.symlink(format!("real/f{n}").as_bytes(), format!("/to{n}").as_bytes()).unwrap();
            tree.symlink(format!("../to{n}").as_bytes(), format!("/real/to{n}").as_bytes())
                .unwrap();
            let end = tree.follow(format!("/real/to{n}").as_bytes()).unwrap();
            assert_eq!(tree.stat(&end).unwrap().kind, Kind::File);
            assert!(end.ends_with(format!("/real/f{n}").as_bytes()), "{}", end.escape_ascii());
        }
        tree.symlink(b"/real", b"/dir").unwrap();
        for (path, end) in [
            (&b"/dir"[..], &b"/real"[..]),
            (b"/dir/", b"/real"),
            (b"/real/.", b"/real"),
            (b"/dir/..", b"/"),
            (b"/", b"/"),
            (b"/real/none", b"/real/none"),
        ] {
            assert_eq!(tree.follow(path).unwrap(), end, "{}", path.escape_ascii());
        }
        tree.symlink(b"absent", b"/dangling").unwrap();
        assert_eq!(tree.follow(b"/dangling").unwrap(), b"/absent");
        tree.symlink(b"loop", b"/loop").unwrap();
        for (path, errno) in
            [(&b"/loop"[..], "ELOOP"), (b"/real/f1/", "ENOTDIR"), (b"a", "EINVAL"), (b"", "EINVAL")]
        {
            let refused = tree.follow(path).unwrap_err();
            assert_eq!(refused.errno(), errno, "{}", path.escape_ascii());
        }
    }
}

#[test]
fn a_path_is_known_as_long_as_the_lease_runs_and_changes_wait_for_it() {
    for count in [1, 2] {
        let cluster = Cluster::new(count, 1000);
        let mut idle = cluster.tree();
        idle.mkdir(b"/a", 0o755).unwrap();
        idle.mkdir(b"/a/b", 0o755).unwrap();
        idle.create(b"/a/b/f", 0o600, IfExists::Fail).unwrap();
        let calls = || cluster.servers[0].as_ref().unwrap().calls();
        // Known: no call for the path. Run out: one more.
        let before = calls();
        idle.open(b"/a/b").unwrap();
        assert_eq!(calls(), before);
        cluster.pass(1001);
        idle.open(b"/a/b").unwrap();
        assert!(calls() > before);
        let mover = {
            let mut tree = cluster.tree();
            std::thread::spawn(move || tree.rename(b"/a", b"/c", false))
        };
        // The rename waits for one who asks nothing; time alone ends that.
        for _ in 0..20 {
            assert!(!mover.is_finished());
            cluster.tree().stat(b"/a").unwrap();
        }
        let dir = idle.by_known(b"/a/b");
        assert!(dir.is_some());
        cluster.pass(1001);
        mover.join().unwrap().unwrap();
        assert_eq!(idle.stat(b"/a/b/f").unwrap_err().errno(), "ENOENT");
        assert_eq!(idle.stat(b"/c/b/f").unwrap().mode, 0o600);
    }
}

#[test]
fn a_client_that_is_busy_is_called_back_at_once() {
    let cluster = Cluster::new(2, 1000);
    let mut busy = cluster.tree();
    busy.mkdir(b"/a", 0o755).unwrap();
    busy.mkdir(b"/a/b", 0o755).unwrap();
    busy.create(b"/a/b/f", 0o600, IfExists::Fail).unwrap();
    let changer = {
        let mut tree = cluster.tree();
        std::thread::spawn(move || {
            let set = SetFields { mode: Some(0o700), ..SetFields::default() };
            tree.set_attributes(b"/a", set).unwrap();
            tree.rmdir(b"/a/b")
        })
    };
    // Time stands still: only giving leases up lets the other go on.
    while !changer.is_finished() {
        busy.stat(b"/a/b/f").unwrap();
    }
    assert_eq!(changer.join().unwrap().unwrap_err().errno(), "ENOTEMPTY");
    assert_eq!(busy.stat(b"/a").unwrap().mode, 0o700);
}

#[test]
fn creates_sent_behind_are_there_for_the_next_call_and_failures_are_told_by_name() {
    let cluster = Cluster::new(2, 20);
    let lease_clock = LeaseClock::Given(Arc::clone(&cluster.now));
    let write_behind = Some(16);
    let options = ClientOptions { write_behind, lease_clock, ..ClientOptions::default() };
    let mut tree = Tree::new(cluster.ports.clone(), options);
    let mut other = cluster.tree();
    tree.mkdir(b"/d", 0o777).unwrap();
    let calls = || cluster.servers.iter().flatten().map(Served::calls).sum::<u64>();
    let before = calls();
    for name in numbered("f", 0..100) {
        assert!(tree.create(format!("/d/{name}").as_bytes(), 0o600, IfExists::Fail).unwrap());
    }
    assert!(calls() - before < 60, "{} calls for 100 files", calls() - before);
    assert_eq!(names(&mut tree, b"/d"), numbered("f", 0..100));
    // What is there is told once, by the next call, which is not carried out.
    other.create(b"/d/there", 0o600, IfExists::Fail).unwrap();
    for name in ["new1", "there", "f0003", "new2"] {
        tree.create(format!("/d/{name}").as_bytes(), 0o600, IfExists::Fail).unwrap();
    }
    let error = tree.unlink(b"/d/new1").unwrap_err();
    assert_eq!(error.errno(), "EEXIST");
    let text = error.to_string();
    assert!(text.contains("/d/there: EEXIST") && text.contains("/d/f0003: EEXIST"), "{text}");
    tree.unlink(b"/d/new1").unwrap();
    tree.stat(b"/d/new2").unwrap();
    tree.create(b"/d/last", 0o600, IfExists::Fail).unwrap();
    tree.create(b"/d/there", 0o600, IfExists::Fail).unwrap();
    assert_eq!(tree.close().unwrap_err().errno(), "EEXIST");
    other.stat(b"/d/last").unwrap();
}

#[test]
fn a_server_ends_while_the_one_that_should_take_a_partition_is_away() {
    let mut cluster = Cluster::new(2, 4);
    let mut tree = cluster.tree();
    tree.mkdir(b"/d", 0o755).unwrap();
    let dir = tree.open(b"/d").unwrap();
    let (source, _) = tree.locate(dir, b"f").unwrap();
    cluster.stop(1 - source);
    fill(&mut tree, "/d", "f", 0..10);
    // It was tried, in vain, and is tried again: that must not keep the server from its end.
    cluster.stop(source);
    cluster.start(source);
    cluster.start(1 - source);
    assert_eq!(names(&mut tree, b"/d"), numbered("f", 0..10));
}
