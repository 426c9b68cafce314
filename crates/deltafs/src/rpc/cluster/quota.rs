//! Quotas of servers: each has its own, of the names that it keeps. What one of them refuses is
//! done by none.

use super::*;
use crate::quota::count;
use crate::user::User;

impl Cluster {
    /// Names that each server keeps, as it counts them. A split may be moving some just now, so
    /// they are counted until nothing came in between.
    fn counted(&self) -> Vec<u64> {
        let space = |served: &Option<Served>| {
            served.as_ref().and_then(|served| served.core.space.clone()).unwrap()
        };
        let spaces: Vec<Namespace> = self.servers.iter().map(space).collect();
        let used = || spaces.iter().map(|space| space.names().unwrap()).collect::<Vec<_>>();
        let there = || spaces.iter().map(|space| count(&space.inner.layers).unwrap()).collect();
        for _ in 0..1000 {
            let (before, there, after) = (used(), there(), used());
            if before == there && there == after {
                return there;
            }
        }
        panic!("{:?} names are counted, {:?} are there", used(), there())
    }
}

fn create(tree: &mut Tree, path: &str) -> &'static str {
    match tree.create(path.as_bytes(), 0o600, IfExists::Fail) {
        Ok(_) => "done",
        Err(error) => error.errno(),
    }
}

#[test]
fn a_server_that_is_full_refuses_names_and_others_go_on() {
    let cluster = Cluster::with(3, 1 << 20, Quota { names: Some(20), ..Quota::default() });
    let mut tree = cluster.tree();
    for dir in 0..8 {
        tree.mkdir(format!("/d{dir}").as_bytes(), 0o755).unwrap();
    }
    assert_eq!(cluster.counted(), [8, 8, 8], "all servers have all directories");
    // The files of a directory are at one server as long as they are few.
    let made = (0..20).take_while(|n| create(&mut tree, &format!("/d0/{n}")) == "done").count();
    assert_eq!(made, 12);
    let full = cluster.counted().iter().position(|names| *names == 20).unwrap();
    let error = tree.create(b"/d0/more", 0o600, IfExists::Fail).unwrap_err();
    assert_eq!(error.errno(), "EDQUOT");
    assert_eq!(
        error.to_string(),
        "more: the quota of 20 names is used up: remove some, or raise it"
    );
    assert_eq!(tree.symlink(b"x", b"/d0/more").unwrap_err().errno(), "EDQUOT");
    assert_eq!(tree.stat(b"/d0/more").unwrap_err().errno(), "ENOENT");
    // A directory would be at all of them, so it is at none.
    assert_eq!(tree.mkdir(b"/d0/dir", 0o755).unwrap_err().errno(), "EDQUOT");
    assert_eq!(tree.mkdir(b"/d9", 0o755).unwrap_err().errno(), "EDQUOT");
    assert_eq!(tree.stat(b"/d9").unwrap_err().errno(), "ENOENT");
    assert_eq!(cluster.counted().iter().sum::<u64>(), 36);
    // A directory with its files at another server takes more, and gives none to the full one.
    let other = (1..8).map(|dir| format!("/d{dir}")).find(|dir| {
        let is_done = create(&mut tree, &format!("{dir}/f")) == "done";
        is_done && cluster.counted()[full] == 20
    });
    let other = other.expect("one of eight directories is at another server");
    let moved = |tree: &mut Tree, from: &str, to: &str| {
        tree.rename(from.as_bytes(), to.as_bytes(), false)
            .map_or_else(|error| error.errno(), |()| "done")
    };
    assert_eq!(moved(&mut tree, &format!("{other}/f"), "/d0/f"), "EDQUOT");
    assert!(tree.stat(format!("{other}/f").as_bytes()).is_ok());
    // Its own names it can change, and give away; then there is room for another.
    assert_eq!(moved(&mut tree, "/d0/1", "/d0/one"), "done");
    assert_eq!(moved(&mut tree, "/d0/2", &format!("{other}/2")), "done");
    assert_eq!(moved(&mut tree, &format!("{other}/f"), "/d0/f"), "done");
    assert_eq!(create(&mut tree, "/d0/more"), "EDQUOT");
    tree.unlink(b"/d0/3").unwrap();
    assert_eq!(create(&mut tree, "/d0/more"), "done");
    tree.unlink(b"/d0/4").unwrap();
    tree.mkdir(b"/d9", 0o755).unwrap();
    tree.rmdir(b"/d9").unwrap();
    assert_eq!(cluster.counted()[full], 19);
}

#[test]
fn what_a_split_moves_is_counted_where_it_is() {
    let cluster = Cluster::with(2, 16, Quota { names: Some(40), ..Quota::default() });
    let mut tree = cluster.tree();
    tree.mkdir(b"/d", 0o755).unwrap();
    let dir = tree.open(b"/d").unwrap();
    for name in numbered("f", 0..30) {
        assert_eq!(create(&mut tree, &format!("/d/{name}")), "done");
    }
    wait_for_a_split(&mut tree, dir);
    // As many more as both take.
    let refused = numbered("g", 0..200).into_iter().filter(|name| {
        match create(&mut tree, &format!("/d/{name}")) {
            "done" => false,
            errno => {
                assert_eq!(errno, "EDQUOT");
                true
            }
        }
    });
    assert!(refused.count() >= 100, "two servers have room for 80 names");
    let there = names(&mut tree, b"/d").len() as u64;
    assert!(there >= 40, "{there}");
    // The source takes its half out of the count when the target has it.
    while cluster.counted().iter().sum::<u64>() != there + 2 {
        tree.learn_all(dir).unwrap();
    }
}

#[test]
fn a_table_of_more_names_than_there_is_room_for_is_refused_whole() {
    let quota = Quota { names: Some(10), name_bytes: 6, ..Quota::default() };
    let disk = tempfile::tempdir().unwrap();
    let settings = Settings { quota, ..Settings::default() };
    let space = Namespace::open(disk.path().join("r0"), settings).unwrap();
    let (served, mut tree) = alone(space.clone());
    tree.mkdir(b"/d", 0o755).unwrap();
    let dir = tree.open(b"/d").unwrap();
    let take = |tree: &mut Tree, names: Vec<String>| {
        let mut bulk = Bulk::new(dir);
        names.iter().for_each(|name| bulk.add(name.as_bytes()).unwrap());
        bulk.commit(tree, &disk.path().join("area"), &User::root(), 0o600)
    };
    let error = take(&mut tree, numbered("f", 0..10)).unwrap_err();
    assert_eq!(error.to_string(), "d: the quota of 10 names is used up: remove some, or raise it");
    assert_eq!(error.errno(), "EDQUOT");
    let long = take(&mut tree, vec!["f".to_owned(), "longest".to_owned()]).unwrap_err();
    assert_eq!(long.errno(), "ENAMETOOLONG");
    assert_eq!(names(&mut tree, b"/d"), Vec::<String>::new());
    assert_eq!(take(&mut tree, numbered("f", 0..9)).unwrap(), 9);
    assert_eq!(space.names(), Some(10));
    served.shutdown(GRACE).unwrap();
}

#[test]
fn depth_and_length_are_refused_on_all_servers() {
    let quota = Quota { depth: 2, name_bytes: 6, ..Quota::default() };
    let cluster = Cluster::with(2, 1 << 20, quota);
    let mut tree = cluster.tree();
    for path in ["/a", "/a/b", "/x", "/x/y"] {
        tree.mkdir(path.as_bytes(), 0o755).unwrap();
    }
    for n in 0..6 {
        tree.create(format!("/x/{n}").as_bytes(), 0o600, IfExists::Fail).unwrap();
    }
    assert_eq!(tree.mkdir(b"/a/b/c", 0o755).unwrap_err().errno(), "ENAMETOOLONG");
    assert_eq!(tree.mkdir(b"/longest", 0o755).unwrap_err().errno(), "ENAMETOOLONG");
    assert_eq!(create(&mut tree, "/a/longest"), "ENAMETOOLONG");
    assert_eq!(tree.rename(b"/x", b"/a/x", false).unwrap_err().errno(), "ENAMETOOLONG");
    assert_eq!(tree.rename(b"/x", b"/longest", false).unwrap_err().errno(), "ENAMETOOLONG");
    for n in 0..6 {
        let (from, to) = (format!("/x/{n}"), format!("/a/b/longest{n}"));
        let refused = tree.rename(from.as_bytes(), to.as_bytes(), false).unwrap_err();
        assert_eq!(refused.errno(), "ENAMETOOLONG");
    }
    assert_eq!(names(&mut tree, b"/"), ["a", "x"]);
    assert_eq!(names(&mut tree, b"/x").len(), 7);
    tree.rename(b"/x/y", b"/a/y", false).unwrap();
    assert_eq!(names(&mut tree, b"/a"), ["b", "y"]);
}
