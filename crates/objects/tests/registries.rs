//! What registries do, in an object store.

use crate::server::Server;
use crate::support::{LARGE_BYTES, Lab, NO_FLAWS, ls, settings, touch, view};
use keyrack_deltafs::{GcOptions, Namespace, Reference, Registry, Settings};
use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

/// Publish, read, build on it, list, collect.
fn story(lab: &Lab, registry: &Registry) {
    let below = lab.log_with("below");
    let bytes: Vec<u8> = (0..LARGE_BYTES).map(|index| (index / 3) as u8).collect();
    touch(&below, "/large");
    let root = below.root().unwrap();
    below.as_root().write_at(&root, b"large", 0, &bytes).unwrap();
    let first = registry.publish(&below, "job", None).unwrap();
    assert_eq!((first.version, first.name.as_str()), (1, "job"));
    assert_eq!(registry.check().unwrap(), NO_FLAWS);
    let left = lab.fs().list(Path::new("/below/publishing")).unwrap();
    assert!(left.is_empty(), "{left:?}");

    let published = view(registry, &["job"]);
    assert_eq!(ls(&published), "below large");
    assert!(published.as_root().read(b"/large", 0, usize::MAX).unwrap() == bytes);
    assert_eq!(published.as_root().read(b"/large", 9_000_000, 3).unwrap(), bytes[9_000_000..][..3]);
    assert_eq!(published.as_root().unlink(b"/below").unwrap_err().errno(), "EROFS");
    assert_eq!(published.fsck().unwrap().flaws, []);

    // A log of this machine on top of what is there.
    let base = registry.with_bases(&registry.resolve(&["job"]).unwrap()).unwrap();
    let lower = registry.log_dirs(&base).unwrap();
    let on_it = Settings { lower, base: base.clone(), ..settings() };
    let above = Namespace::open_in(registry.fs(), Path::new("/above"), on_it).unwrap();
    registry.hold(above.log(), &base).unwrap();
    above.as_root().unlink(b"/below").unwrap();
    above.as_root().write_at(&above.root().unwrap(), b"large", 0, b"changed").unwrap();
    touch(&above, "/above");
    assert_eq!(registry.publish(&above, "next", None).unwrap().base, base);
    assert_eq!(ls(&view(registry, &["next"])), "above large");
    let changed = [b"changed", &bytes[7..]].concat();
    assert!(view(registry, &["next"]).as_root().read(b"/large", 0, usize::MAX).unwrap() == changed);

    registry.save_view("both", &registry.resolve(&["next", "job@1"]).unwrap()).unwrap();
    registry.save_view("both", &registry.resolve(&["job"]).unwrap()).unwrap();
    assert_eq!(ls(&view(registry, &["both"])), "below large");
    assert_eq!(
        (registry.names().unwrap(), registry.views().unwrap()),
        (vec!["job".to_owned(), "next".to_owned()], vec!["both".to_owned()],)
    );
    for (word, want) in [("nobody", "ENOENT"), ("job@3", "ENOENT"), ("job@x", "EINVAL")] {
        assert_eq!(registry.resolve(&[word]).unwrap_err().errno(), want);
    }

    for name in ["a", "b"] {
        touch(&below, &format!("/{name}"));
        registry.publish(&below, "job", None).unwrap();
    }
    let all = GcOptions { keep_versions: Some(1), older_than: Duration::ZERO, dry_run: true };
    let would = registry.gc(&all).unwrap();
    assert_eq!(would.publications, [Reference { name: "job".to_owned(), version: 2 }]);
    assert!(would.bytes > LARGE_BYTES as u64);
    assert_eq!(registry.gc(&GcOptions { dry_run: false, ..all }).unwrap(), would);
    assert_eq!(registry.versions("job").unwrap(), [1, 3]);
    assert_eq!(registry.check().unwrap(), NO_FLAWS);
    assert_eq!(registry.gc(&all).unwrap().logs, NO_FLAWS);
}

/// Each of several publishers has a log and a connection of its own. Each version has one owner,
/// the others are told, and have lost nothing.
fn race(lab: &Lab, connect: impl Fn() -> Registry + Sync) {
    let names = ["one", "two", "three", "four"];
    let spaces: Vec<Namespace> = names.iter().map(|name| lab.log_with(name)).collect();
    let start = Barrier::new(names.len());
    let results: Vec<_> = std::thread::scope(|scope| {
        let publish = |space| {
            let (registry, start) = (connect(), &start);
            scope.spawn(move || {
                start.wait();
                registry.publish(space, "job", Some(1))
            })
        };
        let threads: Vec<_> = spaces.iter().map(publish).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let registry = connect();
    let winner = results.iter().position(Result::is_ok).unwrap();
    let found = registry.publication(&Reference { name: "job".to_owned(), version: 1 }).unwrap();
    assert_eq!(found, *results[winner].as_ref().unwrap());
    assert_eq!(ls(&view(&registry, &["job"])), names[winner]);
    for (index, result) in results.iter().enumerate().filter(|(index, _)| *index != winner) {
        let error = result.as_ref().unwrap_err();
        assert_eq!(error.errno(), "EBUSY", "{error}");
        let line = error.to_string();
        assert!(line.contains("job@1 is published already") && !line.contains('\n'), "{line}");
        registry.publish(&spaces[index], "job", None).unwrap();
        assert_eq!(ls(&view(&registry, &["job"])), names[index]);
    }
    assert_eq!(registry.versions("job").unwrap(), [1, 2, 3, 4]);
    assert_eq!(registry.check().unwrap(), NO_FLAWS);
    let nobodys = GcOptions { older_than: Duration::ZERO, dry_run: true, ..GcOptions::default() };
    assert_eq!(registry.gc(&nobodys).unwrap().logs, NO_FLAWS, "a loser has left its copy behind");
}

#[test]
fn a_registry_in_memory() {
    let lab = Lab::new();
    story(&lab, &lab.memory());
}

#[test]
fn of_publishers_in_memory_one_wins() {
    let lab = Lab::new();
    let registry = lab.memory();
    race(&lab, || registry.clone());
}

#[test]
fn a_registry_on_a_server() {
    let Some(server) = Server::start("a_registry_on_a_server") else { return };
    let lab = Lab::new();
    story(&lab, &lab.on(&server, "some/prefix"));
    // Another prefix is another registry.
    assert_eq!(lab.on(&server, "some/pre").names().unwrap(), NO_FLAWS);
    assert_eq!(lab.on(&server, "some/prefix").names().unwrap(), ["job", "next"]);
}

#[test]
fn of_publishers_on_a_server_one_wins() {
    let Some(server) = Server::start("of_publishers_on_a_server_one_wins") else { return };
    let lab = Lab::new();
    race(&lab, || lab.on(&server, "race"));
}
