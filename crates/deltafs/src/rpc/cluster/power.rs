//! Servers whose machines lose power, each on its own: what was durable stays, wherever it went.

use super::*;

/// Makes durable what one server has.
fn flush(tree: &mut Tree, server: usize) {
    tree.client().call(server, &Request::Flush, |_| ()).unwrap();
}

/// Who gave a half away had removed it for good before the target had it for good.
#[test]
fn a_partition_that_was_durable_is_not_lost_with_the_power_of_who_took_it() {
    let mut cluster = Cluster::new(2, 8);
    let mut tree = cluster.tree();
    tree.mkdir(b"/d", 0o755).unwrap();
    let dir = tree.open(b"/d").unwrap();
    let (source, _) = tree.locate(dir, b"f").unwrap();
    fill(&mut tree, "/d", "f", 0..7);
    tree.write(b"/d/f0003", 0, &[7; 9000]).unwrap();
    tree.sync().unwrap();
    fill(&mut tree, "/d", "later", 0..8);
    wait_for_a_split(&mut tree, dir);
    // The source has let go once it says that all of it is elsewhere.
    while names(&mut tree, b"/d").len() < 15 {}
    flush(&mut tree, source);
    cluster.lose_power(1 - source);
    let mut tree = cluster.tree();
    let left: Vec<String> =
        names(&mut tree, b"/d").into_iter().filter(|name| name.starts_with('f')).collect();
    assert_eq!(left, numbered("f", 0..7));
    assert!(tree.read(b"/d/f0003", 0, 10_000).unwrap() == [7; 9000]);
}

/// Two directories, the files of each at another server.
fn two_homes(tree: &mut Tree) -> [String; 2] {
    let mut dirs = [None, None];
    for n in 0.. {
        let path = format!("/{n}");
        tree.mkdir(path.as_bytes(), 0o755).unwrap();
        let dir = tree.open(path.as_bytes()).unwrap();
        let (home, _) = tree.locate(dir, b"f").unwrap();
        dirs[home].get_or_insert(path);
        if dirs.iter().all(Option::is_some) {
            break;
        }
    }
    dirs.map(Option::unwrap)
}

/// Where the file came to lay in memory while the old name was gone from the disk.
#[test]
fn a_file_that_was_durable_has_one_name_after_a_rename_whoever_loses_power() {
    for (loses, is_large) in [(0, false), (1, false), (1, true)] {
        let mut cluster = Cluster::new(2, 1000);
        let mut tree = cluster.tree();
        let dirs = two_homes(&mut tree);
        let [from, to] = dirs.map(|dir| format!("{dir}/f"));
        tree.create(from.as_bytes(), 0o600, IfExists::Fail).unwrap();
        let data = vec![5; if is_large { 9000 } else { 9 }];
        tree.write(from.as_bytes(), 0, &data).unwrap();
        tree.sync().unwrap();
        tree.rename(from.as_bytes(), to.as_bytes(), false).unwrap();
        flush(&mut tree, 1 - loses);
        cluster.lose_power(loses);
        let mut tree = cluster.tree();
        let found: Vec<&String> =
            [&from, &to].into_iter().filter(|path| tree.stat(path.as_bytes()).is_ok()).collect();
        assert_eq!(found, [&to], "server {loses}");
        assert!(tree.read(to.as_bytes(), 0, 10_000).unwrap() == data, "server {loses}");
    }
}
