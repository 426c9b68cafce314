//! Damage at rest: each file of a log and of a registry removed, cut, flipped, overwritten,
//! exchanged, replaced by one of others or of an earlier moment. What is read then is what was
//! written, or an error that names a file.

use crate::support::{Lab, assert_sound, path};
use keyrack_deltafs::merge::Merge;
use keyrack_deltafs::{Error, GcOptions, Kind, Namespace, Registry, Settings};
use keyrack_flodb::{Compression, Db, Durability, Options};
use keyrack_testkit::damage::{Directory, Sources, directory, disk_of, sweep};
use keyrack_testkit::random::given_seed;
use keyrack_vfs::{CrashPolicy, Fs, MemFs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ROOT: &str = "/d";
const LOG: &str = "d/log";
const REGISTRY: &str = "/d/registry";

fn settings(lab: &Lab) -> Settings {
    let store = Options {
        memtable_bytes: 64 << 10,
        segment_bytes: 16 << 10,
        table_bytes: 2 << 10,
        cache_bytes: 0,
        compression: vec![Compression::None],
        compaction_threads: 0,
        durability: Durability::Sync,
        ..Options::default()
    };
    Settings { store, ..lab.settings() }
}

fn open(lab: &Lab) -> Namespace {
    Namespace::open_in(lab.fs(), &path(LOG), settings(lab)).unwrap()
}

fn image(lab: &Lab) -> Directory {
    directory(&lab.disk, Path::new(ROOT))
}

/// Directories, small files and large ones, published twice, and more behind that. Name spaces of
/// different `flavour` differ in nothing but the bytes of files and in their identities.
fn build(flavour: u8) -> (Directory, Vec<Directory>) {
    let lab = Lab::new();
    lab.disk.create_dir_all(Path::new(REGISTRY)).unwrap();
    let registry = Registry::new_in(lab.fs(), REGISTRY);
    let mut earlier = Vec::new();
    let mut space = open(&lab);
    for round in 0..3_u8 {
        let fs = space.as_root();
        let dir = format!("/dir{round}");
        fs.mkdir(dir.as_bytes(), 0o755).unwrap();
        for n in 0..30_usize {
            fs.put(format!("{dir}/small{n}").as_bytes(), 0o644, &[flavour; 60]).unwrap();
        }
        for n in 0..2_usize {
            let bytes = vec![flavour; 6_000 + 70_000 * n + usize::from(round)];
            fs.put(format!("{dir}/large{n}").as_bytes(), 0o644, &bytes).unwrap();
        }
        // The same length as before, and other bytes.
        fs.write(b"/dir0/large1", 66_000, &[flavour + round; 9]).unwrap();
        if round < 2 {
            space.flush().unwrap();
            registry.publish(&space, "job", None).unwrap();
        }
        let last = registry.resolve(&["job"]).unwrap();
        registry.save_view("all", &last).unwrap();
        registry.hold(space.log(), &last).unwrap();
        space.close().unwrap();
        earlier.push(image(&lab));
        space = open(&lab);
    }
    space.close().unwrap();
    earlier.pop();
    (image(&lab), earlier)
}

fn is_below(path: &Path, directory: &str) -> bool {
    path.components().any(|part| part.as_os_str() == directory)
}

fn kind(path: &Path) -> String {
    let name = path.file_name().unwrap().to_str().unwrap();
    let dirs = ["contents", "ledger", "names", "views", "holds"];
    match (dirs.iter().find(|dir| is_below(path, dir)), path.extension()) {
        (Some(dir), _) => (*dir).to_owned(),
        (None, Some(extension)) => extension.to_str().unwrap().to_owned(),
        (None, None) => name.split('-').next().unwrap().to_owned(),
    }
}

/// All names, what they are, and all bytes.
fn everything(space: &Namespace, lines: &mut Vec<String>) -> keyrack_deltafs::Result<()> {
    let fs = space.as_root();
    for walked in fs.walk(b"/")? {
        let walked = walked.map_err(|(_, error)| error)?;
        let bytes = match walked.stat.kind {
            Kind::File => fs.read(&walked.path, 0, usize::MAX)?,
            _ => Vec::new(),
        };
        if let Some(file) = space.open_contents(&walked.stat)? {
            let mut same = vec![0; bytes.len()];
            file.read_at(0, &mut same)?;
            assert_eq!(same, bytes, "a handle reads the same");
        }
        let name = walked.path.escape_ascii();
        let (size, mode) = (walked.stat.size, walked.stat.mode);
        lines.push(format!("{name} {:?} {mode:o} {size} {bytes:?}", walked.stat.kind));
    }
    Ok(())
}

fn read(lab: &Lab) -> keyrack_deltafs::Result<Vec<String>> {
    let mut lines = Vec::new();
    let space = Namespace::open_in(lab.fs(), &path(LOG), settings(lab))?;
    everything(&space, &mut lines)?;
    let flaws = space.fsck()?.flaws;
    lines.extend(flaws.iter().map(|flaw| flaw.what.clone()));
    space.close()?;
    let registry = Registry::new_in(lab.fs(), REGISTRY);
    lines.push(format!("{:?} {:?}", registry.names()?, registry.views()?));
    lines.push(format!("{:?} {:?}", registry.versions("job")?, registry.view("all")?));
    let kept = registry.gc(&GcOptions { dry_run: true, ..GcOptions::default() })?;
    lines.push(format!("{kept:?}"));
    for version in registry.versions("job")? {
        let words = [format!("job@{version}")];
        let logs = registry.log_dirs(&registry.with_bases(&registry.resolve(&words)?)?)?;
        let view = Namespace::open_read_only_in(lab.fs(), &logs, settings(lab))?;
        everything(&view, &mut lines)?;
    }
    Ok(lines)
}

fn look(disk: MemFs) -> Result<Vec<String>, String> {
    let lab = Lab { disk, ..Lab::new() };
    read(&lab).map_err(|error| error.to_string())
}

fn seed() -> u64 {
    given_seed().unwrap_or(7)
}

#[test]
fn no_damage_of_a_name_space_is_silent() {
    let ((ours, earlier), (theirs, _)) = (build(1), build(2));
    let sources = Sources { ours: &ours, theirs: &theirs, earlier: &earlier, kind };
    let damages = sources.damages(seed(), 4);
    println!("SEED={}: {} files, {} damages", seed(), ours.len(), damages.len());
    let swept = sweep(Path::new(ROOT), &ours, &damages, &look);
    println!("{swept}");
    assert!(swept.silent.is_empty(), "SEED={}: {swept}", seed());
    assert!(swept.refused > damages.len() / 3, "{swept}");
}

/// A log with two large files of three blocks each, and its directory.
fn large(lab: &Lab) -> [Vec<u8>; 2] {
    let space = lab.open("log");
    let files = [1, 2].map(|seed| {
        let bytes: Vec<u8> = (0..150_000_u32).map(|at| (at / 7) as u8 ^ seed).collect();
        space.as_root().put(format!("/f{seed}").as_bytes(), 0o644, &bytes).unwrap();
        bytes
    });
    space.close().unwrap();
    // A power loss is to find it so.
    lab.open("log").sync().unwrap();
    files
}

/// Where the bytes of a large file are.
fn bytes_of(space: &Namespace, file: &[u8]) -> PathBuf {
    let inode = space.as_root().stat(file).unwrap().inode;
    path(&format!("log/contents/{:02x}/{inode}", inode.to_u128() as u8))
}

fn flip(lab: &Lab, at: &Path, offset: usize) {
    let mut bytes = lab.disk.read(at).unwrap();
    bytes[offset] ^= 1;
    lab.disk.write_atomic(at, &bytes).unwrap();
}

#[track_caller]
fn assert_damaged<T: std::fmt::Debug>(result: keyrack_deltafs::Result<T>, at: &Path) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Corruption { .. }), "{error}");
    assert!(error.to_string().contains(&at.display().to_string()), "{error}");
}

#[test]
fn a_large_file_that_is_short_does_not_read_as_zeros() {
    let lab = Lab::new();
    large(&lab);
    let space = lab.open("log");
    let at = bytes_of(&space, b"/f1");
    let whole = lab.disk.read(&at).unwrap();
    for len in [0, 1, 65_536, 149_999] {
        lab.disk.write_atomic(&at, &whole[..len]).unwrap();
        assert_damaged(space.as_root().read(b"/f1", 0, usize::MAX), &at);
        let stat = space.as_root().stat(b"/f1").unwrap();
        assert_damaged(space.open_contents(&stat), &at);
        let root = space.root().unwrap();
        assert_damaged(space.as_root().write_at(&root, b"f1", 149_000, b"x"), &at);
    }
    lab.disk.remove_file(&at).unwrap();
    assert_damaged(space.as_root().read(b"/f1", 0, 1), &at);
    // Without a seal, too: this one was never closed.
    let bytes = vec![7; 90_000];
    space.as_root().put(b"/open", 0o644, &bytes).unwrap();
    let image = lab.disk.crash_image(1, CrashPolicy::KeepAll);
    let again = Namespace::open_in(Arc::new(image.clone()), &path("log"), lab.settings()).unwrap();
    assert_eq!(again.as_root().read(b"/open", 0, usize::MAX).unwrap(), bytes);
    let at = bytes_of(&again, b"/open");
    image.write_atomic(&at, &bytes[..80_000]).unwrap();
    assert_damaged(again.as_root().read(b"/open", 79_999, 2), &at);
}

#[test]
fn a_write_gives_damage_no_checksum() {
    let lab = Lab::new();
    let [whole, _] = large(&lab);
    let space = lab.open("log");
    let at = bytes_of(&space, b"/f1");
    flip(&lab, &at, 140_000);
    let fs = space.as_root();
    let root = fs.dir(b"/").unwrap();
    let write = |offset: u64, bytes: &[u8]| fs.write_at(&root, b"f1", offset, bytes);
    // Beside the damage: what else the block has would be taken for sound.
    assert_damaged(write(140_001, b"beside"), &at);
    assert_damaged(fs.resize_at(&root, b"f1", 140_500, None), &at);
    // In another block: the damaged one is told from it in this use and in the next.
    write(10, b"elsewhere").unwrap();
    assert_eq!(fs.read(b"/f1", 10, 9).unwrap(), b"elsewhere");
    assert_eq!(fs.read(b"/f1", 70_000, 9).unwrap(), whole[70_000..70_009]);
    assert_damaged(fs.read(b"/f1", 149_000, 1), &at);
    space.close().unwrap();
    let space = lab.open("log");
    let fs = space.as_root();
    assert_eq!(fs.read(b"/f1", 0, 19).unwrap(), [&whole[..10], b"elsewhere"].concat());
    assert_damaged(fs.read(b"/f1", 149_000, 1), &at);
    // The whole block anew is sound again.
    let root = fs.dir(b"/").unwrap();
    fs.write_at(&root, b"f1", 131_072, &whole[131_072..]).unwrap();
    assert_eq!(fs.read(b"/f1", 131_072, 99_999).unwrap(), whole[131_072..]);
}

#[test]
fn a_crash_while_a_large_file_changes_is_no_damage() {
    for seed in 0..20 {
        let lab = Lab::new();
        let [mut one, two] = large(&lab);
        let space = lab.open("log");
        let root = space.root().unwrap();
        let new = [seed as u8; 3];
        space.as_root().write_at(&root, b"f1", 70_000, &new).unwrap();
        let at = bytes_of(&space, b"/f2");
        for policy in [CrashPolicy::KeepAll, CrashPolicy::DropAll, CrashPolicy::Reordered] {
            let image = lab.disk.crash_image(seed, policy);
            let open = || Namespace::open_in(Arc::new(image.clone()), &path("log"), lab.settings());
            let again = open().unwrap();
            let found = again.as_root().read(b"/f1", 0, usize::MAX).unwrap();
            if policy == CrashPolicy::KeepAll {
                one[70_000..70_003].copy_from_slice(&new);
                assert!(found == one);
            }
            assert!(again.as_root().read(b"/f2", 0, usize::MAX).unwrap() == two);
            again.close().unwrap();
            // Sealed by the end of that use.
            let again = open().unwrap();
            let sealed = again.as_root().read(b"/f1", 0, usize::MAX).unwrap();
            assert!(sealed == found);
            for file in [b"/f1", b"/f2"] {
                let at = bytes_of(&again, file);
                let mut bytes = image.read(&at).unwrap();
                bytes[99] ^= 4;
                image.write_atomic(&at, &bytes).unwrap();
                assert_damaged(again.as_root().read(file, 0, usize::MAX), &at);
            }
        }
        flip(&lab, &at, 0);
        assert_damaged(space.as_root().read(b"/f2", 0, 1), &at);
    }
}

#[test]
fn a_log_without_checksums_is_read_and_a_publication_gives_it_some() {
    let lab = Lab::new();
    let [one, _] = large(&lab);
    // As an older program leaves it.
    let store = Db::open_in(lab.fs(), &path("log"), Options::default()).unwrap();
    let rows = |end: &[u8]| [&[0; 16], end].concat();
    store.delete_range(&rows(b"sum"), &rows(b"sun")).unwrap();
    store.close().unwrap();
    let space = lab.open("log");
    assert!(space.as_root().read(b"/f1", 0, usize::MAX).unwrap() == one);
    let registry = Registry::new_in(lab.fs(), "/reg");
    registry.publish(&space, "job", None).unwrap();
    let at = bytes_of(&space, b"/f1");
    flip(&lab, &at, 77);
    assert_damaged(space.as_root().read(b"/f1", 0, 1), &at);
    let dirs = registry.log_dirs(&registry.resolve(&["job"]).unwrap()).unwrap();
    let view = Namespace::open_read_only_in(lab.fs(), &dirs, lab.settings()).unwrap();
    assert!(view.as_root().read(b"/f1", 0, usize::MAX).unwrap() == one);
    let copy = dirs[0].join(at.strip_prefix("/log").unwrap());
    flip(&lab, &copy, 77);
    assert_damaged(view.as_root().read(b"/f1", 0, 1), &copy);
}

#[test]
fn a_merge_takes_checksums_along_and_damage_not() {
    let lab = Lab::new();
    let [one, two] = large(&lab);
    let merge = |to: &str| {
        let merge = Merge::open(lab.fs(), &[path("log")]).unwrap();
        merge.part(&[], 0, &path(to))
    };
    merge("merged/r0").unwrap();
    let merged = lab.open("merged/r0");
    let found = [b"/f1", b"/f2"].map(|file| merged.as_root().read(file, 0, usize::MAX).unwrap());
    assert!(found == [one, two]);
    let at = bytes_of(&merged, b"/f1");
    let copy = path("merged/r0").join(at.strip_prefix("/log").unwrap());
    flip(&lab, &copy, 149_999);
    assert_damaged(merged.as_root().read(b"/f1", 149_998, 1), &copy);
    flip(&lab, &at, 3);
    assert_damaged(merge("again/r0"), &at);
}

#[test]
fn a_deep_check_names_every_large_file_that_is_damaged() {
    let lab = Lab::new();
    large(&lab);
    let space = lab.open("log");
    space.as_root().put(b"/small", 0o644, b"few").unwrap();
    assert_eq!(space.check_contents().unwrap(), []);
    let (one, two) = (bytes_of(&space, b"/f1"), bytes_of(&space, b"/f2"));
    flip(&lab, &one, 149_999);
    lab.disk.remove_file(&two).unwrap();
    assert_sound(&space);
    let flaws = space.check_contents().unwrap();
    let found: Vec<&[u8]> = flaws.iter().map(|flaw| &flaw.path[..]).collect();
    assert_eq!(found, [b"/f1", b"/f2"]);
    for (flaw, at) in flaws.iter().zip([one, two]) {
        assert!(flaw.what.starts_with(&format!("{}: ", at.display())), "{}", flaw.what);
    }
}

#[test]
fn a_publication_or_a_list_that_is_gone_or_went_back_is_told() {
    let (ours, earlier) = build(1);
    let registry = |files: &Directory| {
        let disk = disk_of(files);
        (Registry::new_in(Arc::new(disk.clone()), REGISTRY), disk)
    };
    let at = |name: &str| Path::new(REGISTRY).join(name);
    let (sound, _) = registry(&ours);
    assert_eq!(sound.check().unwrap(), [""; 0]);
    // The newest version is gone: the one before is not taken for it.
    let (broken, disk) = registry(&ours);
    disk.remove_file(&at("names/job/2")).unwrap();
    assert_damaged(broken.resolve(&["job"]), &at("names/job/2"));
    assert_damaged(broken.names().and_then(|_| broken.versions("job")), &at("names/job/2"));
    assert_damaged(broken.gc(&GcOptions::default()), &at("names/job/2"));
    assert_eq!(broken.check().unwrap().len(), 1);
    // With the note, it is as if it had never been.
    disk.remove_file(&at("ledger/names/job/2")).unwrap();
    assert_eq!(broken.versions("job").unwrap(), [1]);
    // A list as it was before, and none.
    let (broken, disk) = registry(&ours);
    disk.write_atomic(&at("views/all"), &earlier[0][&at("views/all")]).unwrap();
    assert_damaged(broken.resolve(&["all"]), &at("views/all"));
    disk.remove_file(&at("views/all")).unwrap();
    assert_damaged(broken.resolve(&["all"]), &at("views/all"));
    assert_eq!(broken.views().unwrap(), ["all"]);
    assert_eq!(broken.check().unwrap().len(), 1);
    // It can be saved anew, and is later than all before.
    let job = broken.resolve(&["job"]).unwrap();
    broken.save_view("all", &job).unwrap();
    assert_eq!(broken.view("all").unwrap(), job);
    disk.write_atomic(&at("views/all"), &ours[&at("views/all")]).unwrap();
    assert_damaged(broken.view("all"), &at("views/all"));
}

#[test]
fn a_copy_of_the_same_log_in_place_of_another_is_refused() {
    let (ours, _) = build(1);
    let disk = disk_of(&ours);
    let registry = Registry::new_in(Arc::new(disk.clone()), REGISTRY);
    let [one, two] = ["job@1", "job@2"].map(|word| {
        let references = registry.resolve(&[word]).unwrap();
        registry.log_dirs(&references).unwrap().remove(0)
    });
    disk.rename(&one, Path::new("/d/aside")).unwrap();
    disk.rename(&two, &one).unwrap();
    disk.rename(Path::new("/d/aside"), &two).unwrap();
    for (word, dir) in [("job@1", one), ("job@2", two)] {
        let references = registry.resolve(&[word]).unwrap();
        assert_damaged(registry.log_dirs(&references), &dir);
    }
}

#[test]
fn a_registry_of_an_older_program_is_read_and_gets_its_ledger() {
    let (ours, _) = build(1);
    let mut old = ours.clone();
    old.retain(|path, _| !is_below(path, "ledger"));
    for (path, text) in &mut old {
        let mut json: serde_json::Value = match serde_json::from_slice(text) {
            Ok(json) if is_below(path, "registry") => json,
            _ => continue,
        };
        if let Some(references) = json.get("references") {
            json = references.clone();
        } else if json["format"] == 2 {
            json["format"] = 1.into();
            json.as_object_mut().unwrap().remove("sha256");
        }
        *text = serde_json::to_vec(&json).unwrap();
    }
    let disk = disk_of(&old);
    assert!(look(disk.clone()).is_ok());
    let lab = Lab { disk: disk.clone(), ..Lab::new() };
    let registry = Registry::new_in(lab.fs(), REGISTRY);
    assert_eq!(registry.check().unwrap(), [""; 0]);
    assert_eq!(registry.publish(&open(&lab), "job", None).unwrap().version, 3);
    registry.save_view("all", &registry.resolve(&["job"]).unwrap()).unwrap();
    for version in 1..=3 {
        let text = Path::new(REGISTRY).join(format!("names/job/{version}"));
        let bytes = disk.read(&text).unwrap();
        disk.remove_file(&text).unwrap();
        assert_damaged(registry.versions("job"), &text);
        disk.write_atomic(&text, &bytes).unwrap();
    }
}
