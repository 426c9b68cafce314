//! What several servers do together: names that move, directories that are made and removed.

use super::*;

#[test]
fn files_are_renamed_across_servers() {
    let cluster = Cluster::new(3, 1000);
    let mut tree = cluster.tree();
    for dir in 0..6 {
        tree.mkdir(format!("/d{dir}").as_bytes(), 0o755).unwrap();
    }
    tree.create(b"/d0/f", 0o640, IfExists::Fail).unwrap();
    tree.write(b"/d0/f", 0, b"bytes").unwrap();
    let inode = tree.stat(b"/d0/f").unwrap().inode;
    let mut at = "/d0/f".to_owned();
    for step in 0..12 {
        let to = format!("/d{}/g{step}", (step + 1) % 6);
        tree.rename(at.as_bytes(), to.as_bytes(), false).unwrap();
        assert_eq!(tree.stat(at.as_bytes()).unwrap_err().errno(), "ENOENT", "{at}");
        let stat = tree.stat(to.as_bytes()).unwrap();
        assert_eq!((stat.inode, stat.mode, stat.nlink), (inode, 0o640, 1));
        assert_eq!(tree.read(to.as_bytes(), 0, 99).unwrap(), b"bytes");
        at = to;
    }
    // What is there is replaced, if that is wanted, and never a directory.
    for dir in 0..6 {
        let there = format!("/d{dir}/there");
        tree.create(there.as_bytes(), 0o600, IfExists::Fail).unwrap();
        let refused = tree.rename(at.as_bytes(), there.as_bytes(), false).unwrap_err();
        assert_eq!(refused.errno(), "EEXIST");
        tree.rename(at.as_bytes(), there.as_bytes(), true).unwrap();
        assert_eq!(tree.stat(there.as_bytes()).unwrap().inode, inode);
        at = there;
    }
    assert_eq!(tree.rename(at.as_bytes(), b"/d1", true).unwrap_err().errno(), "EISDIR");
    assert_eq!(tree.rename(b"/d1/absent", b"/d2/x", true).unwrap_err().errno(), "ENOENT");
    let left: usize = (0..6).map(|dir| names(&mut tree, format!("/d{dir}").as_bytes()).len()).sum();
    assert_eq!(left, 1);
}

/// It said EEXIST where the server of the new name was the first, and EINVAL elsewhere.
#[test]
fn a_directory_that_would_come_to_be_in_itself_is_refused_alike_wherever_the_new_name_is() {
    let cluster = Cluster::new(3, 2);
    let mut tree = cluster.tree();
    tree.mkdir(b"/d", 0o755).unwrap();
    let dir = tree.open(b"/d").unwrap();
    fill(&mut tree, "/d", "f", 0..12);
    wait_for_a_split(&mut tree, dir);
    for name in numbered("f", 0..12) {
        for replace in [false, true] {
            let to = format!("/d/{name}");
            let error = tree.rename(b"/d", to.as_bytes(), replace).unwrap_err();
            assert_eq!(error.errno(), "EINVAL", "{to}, {replace}: {error}");
        }
    }
}

#[test]
fn directories_are_renamed_on_all_servers() {
    let cluster = Cluster::new(3, 4);
    let (mut tree, mut other) = (cluster.tree(), cluster.tree());
    tree.mkdir(b"/a", 0o755).unwrap();
    tree.mkdir(b"/a/b", 0o755).unwrap();
    tree.mkdir(b"/z", 0o755).unwrap();
    fill(&mut tree, "/a/b", "f", 0..20);
    let before = tree.stat(b"/a/b").unwrap();
    tree.rename(b"/a/b", b"/z/c", false).unwrap();
    assert_eq!(tree.stat(b"/z/c").unwrap().inode, before.inode);
    assert_eq!(names(&mut tree, b"/z/c"), numbered("f", 0..20));
    assert_eq!(tree.stat(b"/a/b").unwrap_err().errno(), "ENOENT");
    let links = |tree: &mut Tree, path: &[u8]| tree.stat(path).unwrap().nlink;
    assert_eq!((links(&mut tree, b"/a"), links(&mut tree, b"/z")), (2, 3));
    // Into itself; over what has entries, at any server; over a file; over what is empty.
    assert_eq!(tree.rename(b"/z", b"/z/c/z", true).unwrap_err().errno(), "EINVAL");
    assert_eq!(tree.rename(b"/a", b"/z", true).unwrap_err().errno(), "ENOTEMPTY");
    for n in 0..6 {
        let file = format!("/file{n}");
        tree.create(file.as_bytes(), 0o600, IfExists::Fail).unwrap();
        assert_eq!(tree.rename(b"/a", file.as_bytes(), true).unwrap_err().errno(), "ENOTDIR");
    }
    other.mkdir(b"/empty", 0o755).unwrap();
    assert_eq!(tree.rename(b"/z/c", b"/empty", false).unwrap_err().errno(), "EEXIST");
    tree.rename(b"/z/c", b"/empty", true).unwrap();
    assert_eq!(names(&mut other, b"/empty"), numbered("f", 0..20));
    // Nothing is held any more.
    other.create(b"/empty/more", 0o600, IfExists::Fail).unwrap();
    other.mkdir(b"/z/c", 0o755).unwrap();
    cluster.pass(1001);
    other.rmdir(b"/z/c").unwrap();
    other.rmdir(b"/z").unwrap();
    assert_eq!(links(&mut other, b"/"), 4);
}

/// Its leases were taken back twice, by one who waited for the other.
#[test]
fn a_directory_is_renamed_onto_itself() {
    for count in [1, 2] {
        let cluster = Cluster::new(count, 1000);
        let mut tree = cluster.tree();
        tree.mkdir(b"/a", 0o755).unwrap();
        let before = tree.stat(b"/a").unwrap().inode;
        tree.rename(b"/a", b"/a", true).unwrap();
        assert_eq!(tree.stat(b"/a").unwrap().inode, before);
        tree.rename(b"/a", b"/b", true).unwrap();
    }
}

#[test]
fn two_renames_of_directories_make_no_circle() {
    let cluster = Cluster::new(2, 1000);
    let mut tree = cluster.tree();
    for _ in 0..5 {
        tree.mkdir(b"/x", 0o755).unwrap();
        tree.mkdir(b"/y", 0o755).unwrap();
        let movers = [(b"/x", b"/y/x"), (b"/y", b"/x/y")].map(|(from, to)| {
            let mut tree = cluster.tree();
            std::thread::spawn(move || tree.rename(from, to, false).is_ok())
        });
        let done = movers.map(|mover| mover.join().unwrap());
        assert_eq!(done.iter().filter(|done| **done).count(), 1);
        cluster.pass(1001);
        if done[0] {
            tree.rmdir(b"/y/x").unwrap();
            tree.rmdir(b"/y").unwrap();
        } else {
            tree.rmdir(b"/x/y").unwrap();
            tree.rmdir(b"/x").unwrap();
        }
        tree = cluster.tree();
    }
}

#[test]
fn a_server_that_goes_away_during_a_rename_leaves_one_name() {
    for round in 0..4_u64 {
        let mut cluster = Cluster::new(2, 1000);
        let mut tree = cluster.tree();
        tree.mkdir(b"/d", 0o755).unwrap();
        tree.mkdir(b"/e", 0o755).unwrap();
        tree.mkdir(b"/d/sub", 0o755).unwrap();
        fill(&mut tree, "/d", "f", 0..20);
        let mover = {
            let mut tree = cluster.tree();
            std::thread::spawn(move || {
                for name in numbered("f", 0..20) {
                    let (from, to) = (format!("/d/{name}"), format!("/e/{name}"));
                    // Whether it was done, nobody may know; that it was done whole is looked at.
                    let _ = tree.rename(from.as_bytes(), to.as_bytes(), false);
                }
                let _ = tree.rename(b"/d/sub", b"/e/sub", false);
            })
        };
        // At whatever rename it has come to.
        let who = round as usize % 2;
        while names(&mut tree, b"/e").len() < 2 + 2 * round as usize && !mover.is_finished() {}
        cluster.stop(who);
        cluster.start(who);
        mover.join().unwrap();
        let mut tree = cluster.tree();
        let mut all = [names(&mut tree, b"/d"), names(&mut tree, b"/e")].concat();
        all.sort_unstable();
        let mut expected = numbered("f", 0..20);
        expected.push("sub".to_owned());
        assert_eq!(all, expected, "round {round}");
        for name in &expected {
            let paths = [format!("/d/{name}"), format!("/e/{name}")];
            let here = paths.iter().filter(|path| tree.stat(path.as_bytes()).is_ok());
            assert_eq!(here.count(), 1, "round {round}: {name}");
        }
        // Every name can be used again: nothing is held for ever.
        for path in ["/d/f0000", "/e/f0000"] {
            let made = tree.create(path.as_bytes(), 0o600, IfExists::Open);
            made.unwrap_or_else(|error| panic!("round {round}: {path}: {error}"));
        }
    }
}

#[test]
fn a_partition_does_not_come_under_a_name_that_a_rename_holds() {
    // A file that moves to another server between two looks of a rename was replaced by it.
    for _ in 0..2 {
        let cluster = Cluster::new(3, 4);
        let mut tree = cluster.tree();
        tree.mkdir(b"/a", 0o755).unwrap();
        for n in 0..6 {
            let file = format!("/file{n}");
            tree.create(file.as_bytes(), 0o600, IfExists::Fail).unwrap();
            assert_eq!(tree.rename(b"/a", file.as_bytes(), true).unwrap_err().errno(), "ENOTDIR");
        }
        assert_eq!(names(&mut tree, b"/").len(), 7);
    }
}

fn bytes_of(number: u32) -> Vec<u8> {
    (0..9000_u32).map(|at| (at / 100 + number) as u8).collect()
}

#[test]
fn bytes_of_large_files_go_where_their_names_go() {
    let cluster = Cluster::new(3, 8);
    let mut tree = cluster.tree();
    for dir in [&b"/d"[..], b"/e"] {
        tree.mkdir(dir, 0o755).unwrap();
    }
    for (number, name) in (0..).zip(numbered("f", 0..40)) {
        let path = format!("/d/{name}");
        tree.create(path.as_bytes(), 0o600, IfExists::Fail).unwrap();
        tree.write(path.as_bytes(), 0, &bytes_of(number)).unwrap();
    }
    let dir = tree.open(b"/d").unwrap();
    wait_for_a_split(&mut tree, dir);
    let renamed = numbered("f", 0..10);
    for name in &renamed {
        tree.rename(format!("/d/{name}").as_bytes(), format!("/e/{name}").as_bytes(), false)
            .unwrap();
    }
    // One replaces another, which has bytes as well.
    tree.rename(b"/e/f0009", b"/e/f0008", true).unwrap();
    for (number, name) in (0..).zip(numbered("f", 0..40)) {
        let (dir, number) = match number {
            8 => ("e", 9),
            9 => continue,
            0..8 => ("e", number),
            _ => ("d", number),
        };
        let path = format!("/{dir}/{name}");
        assert!(tree.read(path.as_bytes(), 0, 10_000).unwrap() == bytes_of(number), "{path}");
        assert_eq!(tree.read(path.as_bytes(), 8999, 10).unwrap(), bytes_of(number)[8999..]);
    }
    // More than a message has.
    let much = vec![7; 1_300_000];
    tree.write(b"/d/f0030", 0, &much).unwrap();
    assert!(tree.read(b"/d/f0030", 0, u32::MAX).unwrap() == much);
    for (path, number) in [("/d", 10..40), ("/e", 0..9)] {
        for number in number {
            tree.unlink(format!("{path}/f{number:04}").as_bytes()).unwrap();
        }
    }
    // Nobody keeps what has no name.
    let kept: usize = cluster
        .disks
        .iter()
        .filter_map(|disk| disk.list(Path::new("/log/contents")).ok().map(|all| (disk, all)))
        .flat_map(|(disk, all)| all.into_iter().map(move |shard| (disk, shard.name)))
        .filter_map(|(disk, name)| disk.list(&Path::new("/log/contents").join(name)).ok())
        .map(|files| files.len())
        .sum();
    assert_eq!(kept, 0);
}

#[test]
fn a_client_that_dies_after_asking_leaves_no_half_of_a_directory() {
    let mut cluster = Cluster::new(3, 1000);
    for (round, who) in [None, Some(0), Some(1)].into_iter().enumerate() {
        let dir = format!("/d{round}");
        cluster.tree().mkdir(dir.as_bytes(), 0o755).unwrap();
        let (made, removed) = (format!("made{round}"), format!("d{round}"));
        for request in [
            Request::MkdirAcross { dir: 0, name: made.as_bytes(), mode: 0o700 },
            Request::RmdirAcross { dir: 0, name: removed.as_bytes() },
        ] {
            // It asks, and hears no answer.
            let mut client = Client::new(cluster.ports.clone(), ClientOptions::default());
            client.call(0, &request, |_| ()).unwrap();
            drop(client);
            if let Some(who) = who {
                cluster.stop(who);
                cluster.start(who);
            }
            // Whoever comes next waits for names that are held.
            let (name, is_made) = match request {
                Request::MkdirAcross { .. } => (&made, true),
                _ => (&removed, false),
            };
            cluster.pass(1001);
            let mut tree = cluster.tree();
            let probe = format!("/{name}");
            // Asking for the same settles what is under way.
            let again = if is_made {
                tree.mkdir(probe.as_bytes(), 0o700)
            } else {
                tree.rmdir(probe.as_bytes())
            };
            let expected = if is_made { "EEXIST" } else { "ENOENT" };
            if let Err(error) = again {
                assert_eq!(error.errno(), expected, "round {round}: {error}");
            }
            for server in 0..3 {
                let mut client = Client::new(cluster.ports.clone(), ClientOptions::default());
                let open = Request::OpenDir { path: probe.as_bytes() };
                // Who was not told yet says so.
                let found = loop {
                    match client.call(server, &open, |_| ()) {
                        Err(error) if error.errno() == "EAGAIN" => {}
                        found => break found,
                    }
                };
                assert_eq!(found.is_ok(), is_made, "round {round}, server {server}: {found:?}");
            }
        }
    }
}

/// Operations were counted from one at each start of a server: a client that waited for one of
/// before was told the outcome of another.
#[test]
fn an_operation_id_of_before_a_restart_is_not_taken_for_another() {
    let mut cluster = Cluster::new(2, 1000);
    let mut waits = Client::new(cluster.ports.clone(), ClientOptions::default());
    let number_of = |reply: Reply<'_>| match reply {
        Reply::Count(number) => number,
        _ => 0,
    };
    // The same name twice: one of the two is refused.
    cluster.tree().mkdir(b"/a", 0o755).unwrap();
    let mkdir = Request::MkdirAcross { dir: 0, name: b"a", mode: 0o755 };
    let number = waits.call(0, &mkdir, number_of).unwrap();
    cluster.stop(0);
    cluster.start(0);
    let mut tree = cluster.tree();
    for name in [b"/b", b"/c", b"/d"] {
        tree.mkdir(name, 0o755).unwrap();
    }
    let told = waits.call(0, &Request::Operation { number }, |_| ());
    assert_eq!(told.unwrap_err().errno(), "ESTALE");
}

/// The first server has no files of the others, and said that there was nothing.
#[test]
fn rmdir_of_a_file_of_another_server_says_that_it_is_no_directory() {
    let cluster = Cluster::new(3, 4);
    let mut tree = cluster.tree();
    tree.mkdir(b"/d", 0o755).unwrap();
    fill(&mut tree, "/d", "f", 0..24);
    for name in numbered("f", 0..24) {
        let refused = tree.rmdir(format!("/d/{name}").as_bytes()).unwrap_err();
        assert_eq!(refused.errno(), "ENOTDIR", "{name}");
    }
    assert_eq!(tree.rmdir(b"/d/none").unwrap_err().errno(), "ENOENT");
}

/// Who had not heard of a split asked the server that had the file before, which said that there
/// was no such file.
#[test]
fn a_file_that_went_to_another_server_is_renamed_by_one_who_has_not_heard() {
    let cluster = Cluster::new(3, 8);
    let mut tree = cluster.tree();
    tree.mkdir(b"/d", 0o755).unwrap();
    tree.mkdir(b"/e", 0o755).unwrap();
    tree.create(b"/d/first", 0o600, IfExists::Fail).unwrap();
    let mut others: Vec<Tree> = (0..24).map(|_| cluster.tree()).collect();
    for other in &mut others {
        other.stat(b"/d/first").unwrap();
        other.open(b"/e").unwrap();
    }
    fill(&mut tree, "/d", "f", 0..24);
    let dir = tree.open(b"/d").unwrap();
    wait_for_a_split(&mut tree, dir);
    for (other, name) in others.iter_mut().zip(numbered("f", 0..24)) {
        let (from, to) = (format!("/d/{name}"), format!("/e/{name}"));
        other.rename(from.as_bytes(), to.as_bytes(), false).unwrap();
    }
    assert_eq!(names(&mut tree, b"/e").len(), 24);
}

/// Bytes that were written to the name of a link came into its target.
#[test]
fn a_write_to_the_name_of_a_link_does_not_change_where_it_leads() {
    let cluster = Cluster::new(1, 8);
    let mut tree = cluster.tree();
    tree.symlink(b"there", b"/link").unwrap();
    assert_eq!(tree.write(b"/link", 1, b"x").unwrap_err().errno(), "EINVAL");
    assert_eq!(tree.write(b"/link", 0, &[b'x'; 5000]).unwrap_err().errno(), "EINVAL");
    assert_eq!(tree.read_link(b"/link").unwrap(), b"there");
}
