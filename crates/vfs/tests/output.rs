//! Results at paths that a user names: what is replaced, what is written into, what is refused.

#![expect(
    clippy::disallowed_methods,
    reason = "other programs read and write these files while a result is written"
)]

use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use keyrack_vfs::{Fs, MemFs, OutputFile, RealFs, write_output};

fn real() -> Arc<dyn Fs> {
    Arc::new(RealFs)
}

fn names(dir: &Path) -> Vec<String> {
    let listed = RealFs.list(dir).unwrap();
    listed.into_iter().map(|entry| entry.name.into_string().unwrap()).collect()
}

fn text(path: &Path) -> String {
    RealFs.read_to_string(path).unwrap()
}

fn fifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

#[test]
fn an_absent_file_is_made_and_a_regular_one_replaced_when_it_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    write_output(&real(), &path, b"one").unwrap();
    assert_eq!(text(&path), "one");
    let mut output = OutputFile::whole(&real(), &path).unwrap();
    assert_eq!(names(dir.path()), ["out"], "nothing lies about while a measurement runs");
    output.append(b"tw").unwrap();
    output.write_all(b"o").unwrap();
    assert_eq!(text(&path), "one");
    output.finish().unwrap();
    assert_eq!((text(&path).as_str(), names(dir.path())), ("two", vec!["out".to_owned()]));
    output.append(b"three").unwrap();
    drop(output);
    assert_eq!((text(&path).as_str(), names(dir.path())), ("two", vec!["out".to_owned()]));
}

#[test]
fn a_growing_file_shows_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    write_output(&real(), &path, b"something longer").unwrap();
    let mut output = OutputFile::growing(&RealFs, &path).unwrap();
    assert_eq!(text(&path), "");
    output.append(b"a").unwrap();
    output.append(b"b").unwrap();
    assert_eq!(text(&path), "ab");
    output.finish().unwrap();
    assert_eq!(text(&path), "ab");
}

#[test]
fn a_symbolic_link_stays_and_its_target_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    RealFs.create_dir(&at("sub")).unwrap();
    write_output(&real(), &at("sub/target"), b"old").unwrap();
    // Two links in a row, the second relative to its own directory.
    symlink("target", at("sub/second")).unwrap();
    symlink("sub/second", at("first")).unwrap();
    write_output(&real(), &at("first"), b"new").unwrap();
    assert_eq!(text(&at("sub/target")), "new");
    assert_eq!(at("first").read_link().unwrap(), PathBuf::from("sub/second"));
    assert_eq!(at("sub/second").read_link().unwrap(), PathBuf::from("target"));
    OutputFile::growing(&RealFs, &at("first")).unwrap().append(b"grown").unwrap();
    assert_eq!(text(&at("sub/target")), "grown");
    assert_eq!(names(&at("sub")), ["second", "target"]);
}

#[test]
fn a_dangling_link_gets_its_target() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    symlink("target", at("link")).unwrap();
    write_output(&real(), &at("link"), b"new").unwrap();
    assert_eq!((text(&at("target")).as_str(), at("link").is_symlink()), ("new", true));
    symlink("none/target", at("lost")).unwrap();
    let refused = OutputFile::whole(&real(), &at("lost")).unwrap_err();
    assert_eq!(refused.path(), at("lost"));
    assert!(refused.is_not_found(), "{refused}");
    symlink("ring", at("ring")).unwrap();
    let refused = OutputFile::whole(&real(), &at("ring")).unwrap_err().to_string();
    assert!(refused.contains("ring") && refused.contains("symbolic links"), "{refused}");
}

#[test]
fn a_fifo_is_written_into() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    fifo(&path);
    let reader = {
        let path = path.clone();
        std::thread::spawn(move || {
            let mut found = String::new();
            std::fs::File::open(path).unwrap().read_to_string(&mut found).unwrap();
            found
        })
    };
    let mut output = OutputFile::whole(&real(), &path).unwrap();
    assert!(!output.is_replaced());
    output.append(b"one ").unwrap();
    output.append(b"two").unwrap();
    output.finish().unwrap();
    drop(output);
    assert_eq!(reader.join().unwrap(), "one two");
    assert!(path.metadata().unwrap().file_type().is_fifo());
    assert_eq!(names(dir.path()), ["fifo"]);
}

#[test]
fn a_device_remains_a_device() {
    let path = Path::new("/dev/null");
    write_output(&real(), path, b"gone").unwrap();
    OutputFile::growing(&RealFs, path).unwrap().append(b"gone").unwrap();
    assert!(path.metadata().unwrap().file_type().is_char_device());
}

#[test]
#[cfg(target_os = "linux")]
fn an_open_descriptor_is_written_behind_and_not_replaced() {
    use std::os::fd::AsRawFd;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let mut shell = std::fs::File::create(&path).unwrap();
    shell.write_all(b"before ").unwrap();
    let descriptor = PathBuf::from(format!("/dev/fd/{}", shell.as_raw_fd()));
    write_output(&real(), &descriptor, b"result").unwrap();
    assert_eq!(text(&path), "before result");
    assert_eq!(names(dir.path()), ["out"]);
}

#[test]
fn what_cannot_be_written_is_refused_at_once_under_the_users_name() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    RealFs.create_dir(&at("dir")).unwrap();
    for (name, reason) in [
        ("none/out", "No such file or directory"),
        ("dir", "Is a directory"),
        ("free/", "Is a directory"),
        ("socket", "is a socket"),
    ] {
        let path = at(name);
        for opened in [OutputFile::whole(&real(), &path), OutputFile::growing(&RealFs, &path)] {
            let refused = opened.unwrap_err();
            let expected = format!("cannot write '{}': {reason}", path.display());
            assert_eq!(refused.to_string(), expected);
        }
    }
    let refused = OutputFile::whole(&real(), Path::new("")).unwrap_err().to_string();
    assert_eq!(refused, "cannot write '': has no final name");
    drop(socket);
    assert_eq!(names(dir.path()), ["dir", "socket"]);
}

#[test]
fn the_umask_and_the_rights_of_an_existing_file_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let mode = |name: &str| at(name).metadata().unwrap().permissions().mode() & 0o7777;
    std::fs::File::create(at("plain")).unwrap();
    let users = mode("plain");
    std::fs::File::create(at("open")).unwrap();
    std::fs::set_permissions(at("open"), std::fs::Permissions::from_mode(0o604)).unwrap();
    keyrack_vfs::keep_private();
    keyrack_vfs::keep_private();
    for name in ["whole", "open"] {
        write_output(&real(), &at(name), b"").unwrap();
    }
    OutputFile::growing(&RealFs, &at("grown")).unwrap();
    RealFs.write_atomic(&at("private"), b"").unwrap();
    assert_eq!((mode("whole"), mode("grown")), (users, users));
    assert_eq!((mode("open"), mode("private")), (0o604, 0o600));
}

#[test]
fn a_directory_that_came_to_the_path_meanwhile_is_left_alone() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let mut output = OutputFile::whole(&fs, Path::new("/out")).unwrap();
    fs.create_dir(Path::new("/out")).unwrap();
    output.append(b"x").unwrap();
    let refused = output.finish().unwrap_err().to_string();
    assert_eq!(refused, "cannot write '/out': is no longer a regular file");
}
