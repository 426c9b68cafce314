//! What a registry says is never a way out of it: not its texts, and not its links.

use crate::support::{Lab, path, small};
use keyrack_deltafs::{Error, GcOptions, IfExists, Namespace, Registry, Settings, User};
use keyrack_flodb::{Db, Options};
use keyrack_vfs::{Fs, OpenOptions, RealFs};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A registry on a disk with two versions of `job`, and a directory beside it.
struct Place {
    dir: tempfile::TempDir,
    registry: Registry,
}

const ALL: GcOptions =
    GcOptions { keep_versions: Some(1), older_than: Duration::ZERO, dry_run: false };

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::new(dir.path().join("registry"));
        let settings = Settings { store: small(), ..Settings::default() };
        let space = Namespace::open(dir.path().join("log"), settings).unwrap();
        for _ in 0..2 {
            registry.publish(&space, "job", None).unwrap();
        }
        space.close().unwrap();
        let victim = dir.path().join("victim");
        RealFs.create_dir_all(&victim).unwrap();
        write(&victim.join("1"), b"precious");
        Place { dir, registry }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Replaces a piece of the text of a version. It has no digest, as those of format 1.
    fn edit(&self, version: u64, edit: impl FnOnce(&mut serde_json::Value)) {
        let at = self.at(&format!("registry/names/job/{version}"));
        let mut text: serde_json::Value =
            serde_json::from_slice(&RealFs.read(&at).unwrap()).unwrap();
        text["format"] = 1.into();
        text.as_object_mut().unwrap().remove("sha256");
        edit(&mut text);
        RealFs.remove_file(&at).unwrap();
        write(&at, text.to_string().as_bytes());
    }

    /// All that is there.
    fn all(&self) -> Vec<PathBuf> {
        let (mut found, mut left) = (Vec::new(), vec![self.dir.path().to_owned()]);
        while let Some(dir) = left.pop() {
            for entry in RealFs.list(&dir).unwrap() {
                let path = dir.join(&entry.name);
                if entry.kind == keyrack_vfs::FileKind::Dir {
                    left.push(path.clone());
                }
                found.push(path);
            }
        }
        found.sort();
        found
    }

    fn directory(&self, version: u64) -> String {
        let text = RealFs.read(&self.at(&format!("registry/names/job/{version}"))).unwrap();
        let text: serde_json::Value = serde_json::from_slice(&text).unwrap();
        text["directory"].as_str().unwrap().to_owned()
    }
}

fn write(path: &Path, bytes: &[u8]) {
    let options = OpenOptions::new().write(true).create_new(true);
    RealFs.open(path, &options).unwrap().write_at(0, bytes).unwrap();
}

#[test]
fn gc_removes_no_directory_that_a_text_names_outside_of_the_logs() {
    let place = Place::new();
    let before = place.all();
    let absolute = place.at("victim").display().to_string();
    let long = "x".repeat(256);
    for directory in [
        "../../victim",
        &absolute,
        "",
        ".",
        "..",
        "x/../../../victim",
        "x//y",
        "../logs",
        "x/y",
        ".lock",
        "a\0b",
        &long,
    ] {
        place.edit(1, |text| text["directory"] = directory.into());
        let error = place.registry.gc(&ALL).unwrap_err();
        assert!(matches!(error, Error::Corruption { .. }), "{directory:?}: {error}");
        let message = error.to_string();
        assert!(message.contains("names/job/1") && message.contains("directory"), "{message}");
        assert_eq!(place.all(), before, "{directory:?}");
    }
}

#[test]
fn gc_keeps_the_log_of_a_needed_version_that_another_text_names_too() {
    let place = Place::new();
    let directory = place.directory(2);
    place.edit(1, |text| text["directory"] = directory.clone().into());
    place.registry.gc(&ALL).unwrap();
    assert_eq!(place.registry.versions("job").unwrap(), [2]);
    assert_eq!(place.registry.check().unwrap(), Vec::<String>::new());
}

#[test]
fn files_that_a_text_names_outside_of_the_log_are_not_opened() {
    let place = Place::new();
    for name in ["../../../victim/1", "/etc/passwd", "", "a/./b"] {
        place.edit(1, |text| text["files"][0]["name"] = name.into());
        let found = place.registry.check().unwrap();
        assert!(found.len() == 1 && found[0].contains("names/job/1"), "{found:?}");
    }
}

#[test]
fn texts_that_stand_under_another_name_or_name_nonsense_are_damage() {
    let place = Place::new();
    let reference = |version| keyrack_deltafs::Reference { name: "job".into(), version };
    let refused = |what: &str| {
        let error = place.registry.publication(&reference(1)).unwrap_err();
        assert!(matches!(error, Error::Corruption { .. }), "{what}: {error}");
        assert!(error.to_string().contains("names/job/1"), "{error}");
    };
    place.edit(1, |text| text["version"] = 2.into());
    refused("another version");
    place.edit(1, |text| (text["version"], text["name"]) = (1.into(), "other".into()));
    refused("another name");
    place.edit(1, |text| {
        text["name"] = "job".into();
        text["base"] = serde_json::json!([{ "name": "../../victim", "version": 1 }]);
    });
    refused("a base that is no name");
    place.edit(1, |text| (text["base"], text["format"]) = (serde_json::json!([]), 3.into()));
    refused("a format of the future");
    place.edit(1, |text| text["format"] = 2.into());
    refused("no digest");
    place.edit(1, |text| text["format"] = 1.into());
    place.registry.publication(&reference(1)).unwrap();
    let views = place.at("registry/views");
    RealFs.create_dir_all(&views).unwrap();
    write(&views.join("v"), br#"[{"name":"../../victim","version":1}]"#);
    let error = place.registry.view("v").unwrap_err();
    assert!(matches!(error, Error::Corruption { .. }), "{error}");
    assert!(matches!(place.registry.gc(&ALL), Err(Error::Corruption { .. })));
    assert_eq!(place.registry.versions("job").unwrap(), [1, 2]);
}

#[test]
fn gc_follows_no_symbolic_link_of_the_registry() {
    let link = |target: PathBuf, at: PathBuf| std::os::unix::fs::symlink(target, at).unwrap();
    for what in ["logs", "logs/copy", "names/job"] {
        let place = Place::new();
        let at = match what {
            "logs/copy" => format!("registry/logs/{}", place.directory(1)),
            _ => format!("registry/{what}"),
        };
        // What was there is moved away, and a link leads to it: nothing of it may go.
        let (at, away) = (place.at(&at), place.at("victim/away"));
        RealFs.rename(&at, &away).unwrap();
        link(away, at);
        let before = place.all();
        let error = place.registry.gc(&ALL).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{what}: {error}");
        assert_eq!(place.all(), before, "{what}");
    }
    // The registry itself may be reached by one.
    let place = Place::new();
    RealFs.rename(&place.at("registry"), &place.at("elsewhere")).unwrap();
    link(place.at("elsewhere"), place.at("registry"));
    assert_eq!(place.registry.gc(&ALL).unwrap().publications.len(), 1);
}

#[test]
fn gc_counts_nothing_behind_a_link_in_a_copy() {
    let place = Place::new();
    let copy = place.at(&format!("registry/logs/{}", place.directory(1)));
    std::os::unix::fs::symlink(place.at("victim"), copy.join("link")).unwrap();
    place.registry.gc(&ALL).unwrap();
    assert!(!RealFs.exists(&copy).unwrap());
    assert_eq!(RealFs.read(&place.at("victim/1")).unwrap(), b"precious");
}

#[test]
fn a_record_whose_name_leads_out_of_its_directory_is_damage() {
    for name in ["../x", "..", ".", "a/b", "a\0b"] {
        let lab = Lab::new();
        let user = User::root();
        let space = lab.open("log");
        space.by(&user).create(b"/f", 0o644, IfExists::Fail).unwrap();
        space.close().unwrap();
        let store = Db::open_in(lab.fs(), &path("log"), Options::default()).unwrap();
        let key_of = |name: &[u8]| [&1_u128.to_be_bytes()[..], name].concat();
        let record = store.get(&key_of(b"f")).unwrap().unwrap();
        store.put(&key_of(name.as_bytes()), &record).unwrap();
        store.close().unwrap();

        let listed = Namespace::open_in(lab.fs(), &path("log"), lab.settings())
            .and_then(|space| space.by(&user).list_at(&space.root()?, None, usize::MAX));
        let error = listed.unwrap_err();
        assert!(matches!(error, Error::Corruption { .. }), "{name:?}: {error}");
        assert!(error.to_string().contains("is none of a name space"), "{name:?}: {error}");
    }
}
