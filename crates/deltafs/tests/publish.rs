//! The registry: publications, views, what differs, what goes.

use crate::support::{Lab, errno, ls, opened, path, touch};
use keyrack_deltafs::{
    Difference, GcOptions, Kind, LogHead, Namespace, Reference, Registry, Said, Settings,
};
use keyrack_vfs::{CrashPolicy, Fault, FaultFs, FaultPlan, Fs, OpenOptions};
use std::sync::Arc;
use std::time::Duration;

fn registry(lab: &Lab) -> Registry {
    Registry::new_in(lab.fs(), "/registry")
}

/// The publications of those words, and what they are built on, as a view.
fn view(lab: &Lab, words: &[&str]) -> Namespace {
    let registry = registry(lab);
    let references = registry.resolve(words).unwrap();
    let references = registry.with_bases(&references).unwrap();
    let logs = registry.log_dirs(&references).unwrap();
    Namespace::open_read_only_in(lab.fs(), &logs, lab.settings()).unwrap()
}

/// A new log on publications.
fn begin(lab: &Lab, log: &str, words: &[&str]) -> Namespace {
    let registry = registry(lab);
    let base = registry.with_bases(&registry.resolve(words).unwrap()).unwrap();
    let lower = registry.log_dirs(&base).unwrap();
    let settings = Settings { lower, base: base.clone(), ..lab.settings() };
    let space = Namespace::open_in(lab.fs(), &path(log), settings).unwrap();
    registry.hold(space.log(), &base).unwrap();
    space
}

fn at(name: &str, version: u64) -> Reference {
    Reference { name: name.to_owned(), version }
}

#[test]
fn what_is_published_is_what_was_there() {
    let (lab, space) = opened();
    touch(space.as_root(), "/one");
    let first = registry(&lab).publish(&space, "job", None).unwrap();
    assert_eq!((first.version, first.epoch, first.records), (1, 1, 2));
    assert!(!first.files.is_empty() && first.base.is_empty());
    touch(space.as_root(), "/two");
    registry(&lab).publish(&space, "job", None).unwrap();
    touch(space.as_root(), "/three");
    assert_eq!(ls(view(&lab, &["job@1"]).as_root(), "/"), "one");
    assert_eq!(ls(view(&lab, &["job"]).as_root(), "/"), "one two");
    assert_eq!(registry(&lab).versions("job").unwrap(), [1, 2]);
    assert_eq!(registry(&lab).check().unwrap(), Vec::<String>::new());
    for (word, want) in [("nobody", "ENOENT"), ("job@3", "ENOENT"), ("job@x", "EINVAL")] {
        assert_eq!(errno(registry(&lab).resolve(&[word])), want);
    }
    for name in ["", ".x", "a/b", "a b", &"x".repeat(65)] {
        assert_eq!(errno(registry(&lab).publish(&space, name, None)), "EINVAL", "{name}");
    }
}

#[test]
fn of_two_publishers_of_a_version_one_wins() {
    let lab = Lab::new();
    let spaces = [lab.open("one"), lab.open("two")];
    registry(&lab).publish(&spaces[0], "job", Some(1)).unwrap();
    let error = registry(&lab).publish(&spaces[1], "job", Some(1)).unwrap_err();
    assert_eq!(error.errno(), "EBUSY");
    assert!(error.to_string().contains("job@1 is published already"), "{error}");
    assert_eq!(errno(registry(&lab).publish(&spaces[1], "job", Some(5))), "EINVAL");
    // Many at once: every version has one owner, and nobody overwrites.
    let results: Vec<_> = std::thread::scope(|scope| {
        let registry = registry(&lab);
        let publish = |space| {
            let registry = registry.clone();
            scope.spawn(move || registry.publish(space, "job", Some(2)))
        };
        let threads: Vec<_> = spaces.iter().map(publish).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let won: Vec<_> = results.iter().flatten().collect();
    let lost = results.iter().filter_map(|result| result.as_ref().err());
    assert_eq!(won.len(), 1);
    assert!(lost.into_iter().all(|error| error.errno() == "EBUSY"));
    assert_eq!(registry(&lab).publication(&at("job", 2)).unwrap(), *won[0]);
}

#[test]
fn views_are_lists_and_logs_remember_theirs() {
    let lab = Lab::new();
    for name in ["a", "b"] {
        let space = lab.open(name);
        touch(space.as_root(), &format!("/{name}"));
        registry(&lab).publish(&space, name, None).unwrap();
    }
    let registry = registry(&lab);
    registry.save_view("both", &registry.resolve(&["b", "a"]).unwrap()).unwrap();
    assert_eq!(registry.view("both").unwrap(), [at("b", 1), at("a", 1)]);
    assert_eq!(errno(registry.save_view("a", &[])), "EINVAL");
    let space = begin(&lab, "job", &["both"]);
    assert_eq!(ls(space.as_root(), "/"), "a b");
    touch(space.as_root(), "/c");
    space.as_root().unlink(b"/a").unwrap();
    let published = registry.publish(&space, "job", None).unwrap();
    assert_eq!(published.base, [at("b", 1), at("a", 1)]);
    let head = LogHead::read(&lab.fs(), &path("job")).unwrap().unwrap();
    assert_eq!((head.log, head.base), (space.log(), published.base));
    // The name alone is enough: what it was built on comes with it.
    assert_eq!(ls(view(&lab, &["job"]).as_root(), "/"), "b c");
    let mut said = Vec::new();
    space
        .changes(|path, what, _| {
            said.push((path.escape_ascii().to_string(), what));
            true
        })
        .unwrap();
    assert_eq!(said, [("/a".into(), Said::IsNot), ("/c".into(), Said::Is(Kind::File))]);
}

#[test]
fn differences_of_two_views() {
    let (lab, space) = opened();
    let fs = space.as_root();
    for path in ["/d", "/old", "/old/in", "/same"] {
        fs.mkdir(path.as_bytes(), 0o755).unwrap();
    }
    for path in ["/d/f", "/d/g", "/same/f", "/old/in/f"] {
        touch(fs, path);
    }
    registry(&lab).publish(&space, "v", None).unwrap();
    lab.tick();
    fs.write(b"/d/f", 0, b"x").unwrap();
    fs.remove_tree_at(&space.root().unwrap(), b"old").unwrap();
    fs.mkdir(b"/new", 0o755).unwrap();
    touch(fs, "/new/f");
    let differences = |one: &Namespace, other: &Namespace| {
        let mut found = Vec::new();
        one.diff(other, |path, difference, _| {
            let sign = match difference {
                Difference::Added => '+',
                Difference::Removed => '-',
                Difference::Changed => '~',
            };
            found.push(format!("{sign}{}", path.escape_ascii()));
            true
        })
        .unwrap();
        found.sort();
        found.join(" ")
    };
    let before = view(&lab, &["v"]);
    assert_eq!(differences(&before, &space), "+/new +/new/f -/old -/old/in -/old/in/f ~/d/f");
    assert_eq!(differences(&space, &before), "+/old +/old/in +/old/in/f -/new -/new/f ~/d/f");
    assert_eq!(differences(&space, &space), "");
}

#[test]
fn what_nobody_needs_goes_and_nothing_else() {
    let (lab, space) = opened();
    for n in 1..=4 {
        touch(space.as_root(), &format!("/f{n}"));
        registry(&lab).publish(&space, "job", None).unwrap();
    }
    let registry = registry(&lab);
    registry.save_view("kept", &[at("job", 2)]).unwrap();
    let other = begin(&lab, "other", &["job@1"]);
    lab.disk.create_dir_all(std::path::Path::new("/registry/logs/nobodys")).unwrap();
    let all = GcOptions { keep_versions: Some(1), older_than: Duration::ZERO, dry_run: true };
    let would = registry.gc(&all).unwrap();
    assert_eq!(would.publications, [at("job", 3)]);
    assert_eq!(registry.versions("job").unwrap(), [1, 2, 3, 4]);
    let young = GcOptions { older_than: Duration::MAX, ..all };
    assert_eq!(registry.gc(&young).unwrap().logs.len(), 1, "the copy may be about to be published");
    let done = registry.gc(&GcOptions { dry_run: false, ..all }).unwrap();
    assert_eq!(done, would);
    assert_eq!(done.logs.len(), 2);
    assert!(done.bytes > 0);
    assert_eq!(registry.versions("job").unwrap(), [1, 2, 4]);
    assert_eq!(registry.check().unwrap(), Vec::<String>::new());
    assert_eq!(ls(other.as_root(), "/"), "f1");
    assert_eq!(ls(view(&lab, &["kept"]).as_root(), "/"), "f1 f2");
    assert_eq!(registry.gc(&GcOptions::default()).unwrap().logs, Vec::<String>::new());
}

#[test]
fn damage_of_what_was_published_is_found_and_named() {
    let (lab, space) = opened();
    let published = registry(&lab).publish(&space, "job", None).unwrap();
    let dir = published.directory.under(&path("registry").join("logs"));
    let table = published.files.iter().find(|file| file.name.as_str().ends_with(".table")).unwrap();
    let file = lab.disk.open(&table.name.under(&dir), &OpenOptions::new().read(true).write(true));
    let file = file.unwrap();
    let mut byte = [0];
    file.read_exact_at(table.bytes / 2, &mut byte).unwrap();
    file.write_at(table.bytes / 2, &[byte[0] ^ 1]).unwrap();
    let found = registry(&lab).check().unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].contains(table.name.as_str()) && found[0].ends_with("not what was published"));
    lab.disk.remove_file(&table.name.under(&dir)).unwrap();
    assert!(registry(&lab).check().unwrap()[0].ends_with("it is missing"));
}

/// Power is lost at every operation of a publication: afterwards the version is there whole, or not
/// at all, and the next publisher gets it.
#[test]
fn a_crash_while_publishing_leaves_a_version_or_none() {
    let setup = || {
        let lab = Lab::new();
        let space = lab.open("log");
        touch(space.as_root(), "/f");
        space.close().unwrap();
        lab
    };
    let publish = |lab: &Lab, fs: &FaultFs| {
        let fs: Arc<dyn Fs> = Arc::new(fs.clone());
        let space = Namespace::open_in(Arc::clone(&fs), &path("log"), lab.settings())?;
        Registry::new_in(fs, "/registry").publish(&space, "job", Some(1))
    };
    let lab = setup();
    let fs = FaultFs::new(lab.fs());
    publish(&lab, &fs).unwrap();
    let operations = fs.operations();
    let mut outcomes = [0, 0];
    // The last one among them: there the version is named already.
    for at in (1..=operations).rev().step_by(3) {
        let lab = setup();
        let fs = FaultFs::new(lab.fs());
        fs.arm(FaultPlan::from_then_on(at, Fault::PowerOut));
        let acknowledged = publish(&lab, &fs).is_ok();
        let disk = lab.disk.crash_image(at, CrashPolicy::Ordered);
        let after = Lab { disk, now: Arc::clone(&lab.now) };
        let versions = registry(&after).versions("job").unwrap();
        outcomes[versions.len()] += 1;
        assert!(versions.len() == 1 || !acknowledged, "operation {at}");
        if versions.is_empty() {
            let space = after.open("log");
            registry(&after).publish(&space, "job", Some(1)).unwrap();
        }
        assert_eq!(registry(&after).check().unwrap(), Vec::<String>::new(), "operation {at}");
        assert_eq!(ls(view(&after, &["job"]).as_root(), "/"), "f");
    }
    assert!(outcomes[0] > 10 && outcomes[1] > 0, "{outcomes:?}");
}
