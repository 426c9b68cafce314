//! Where the workspace lies and how its tools are called: the root folder, `cargo` with the root as
//! its working directory, `git` for the list of files and the name of the commit, programs that may
//! be missing.
//!
//! Git refuses to work in a folder that belongs to another user, which is common in containers.
//! The root is therefore named as safe on every call, for that call alone. Without git (a source
//! archive) the tree is walked instead, leaving out the folders that `.gitignore` names.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::stage::{Outcome, Stop};

/// Folders at the root that hold outputs or other people's data, for the walk without git.
const UNTRACKED_FOLDERS: &[&str] = &[".git", ".whl", "results", "target"];

/// Golden tests rewrite their expectations under this variable; no run that counts may do so.
pub(crate) const REWRITE_VARIABLE: &str = "KEYRACK_REWRITE";

/// The checkout that the chores work on.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// The workspace that this program was built from.
    ///
    /// # Errors
    /// `Broken` when neither cargo's environment nor a parent of the working directory leads to a
    /// manifest with a `[workspace]` table.
    pub(crate) fn find() -> Outcome<Workspace> {
        let by_cargo = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let start = match by_cargo {
            Some(folder) => folder,
            None => std::env::current_dir()
                .map_err(|error| Stop::Broken(format!("no working directory: {error}")))?,
        };
        start
            .ancestors()
            .find(|folder| is_root(folder))
            .map(Workspace::at)
            .ok_or_else(|| Stop::Broken(format!("no workspace above {}", start.display())))
    }

    /// The workspace at a known folder.
    pub(crate) fn at(root: &Path) -> Workspace {
        Workspace { root: root.to_path_buf() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A call of the cargo that started this program.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = self.tool(cargo);
        command.args(arguments);
        command
    }

    /// A call of a program at the root.
    pub(crate) fn tool(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        command
    }

    /// A folder inside cargo's target directory for what is built with other flags.
    pub(crate) fn target(&self, name: &str) -> PathBuf {
        self.target_under(std::env::var_os("CARGO_TARGET_DIR"), name)
    }

    /// As [`Workspace::target`], where `moved` is the directory that the caller has named. A
    /// relative one begins at the root, as it does for every cargo that is started there.
    fn target_under(&self, moved: Option<OsString>, name: &str) -> PathBuf {
        let moved = moved.filter(|folder| !folder.is_empty());
        self.root.join(moved.unwrap_or_else(|| "target".into())).join(name)
    }

    /// The 40 hexadecimal digits of the commit, or nothing without git or without a commit.
    pub(crate) fn commit(&self) -> Option<String> {
        let text = self.git(&["rev-parse", "--verify", "--quiet", "HEAD"])?;
        let name = String::from_utf8(text).ok()?.trim().to_string();
        (!name.is_empty()).then_some(name)
    }

    /// Every file of the source tree, relative to the root with `/` between names, sorted: tracked
    /// ones and new ones that git does not ignore.
    ///
    /// # Errors
    /// `Broken` when a folder cannot be listed.
    pub(crate) fn files(&self) -> Outcome<Vec<String>> {
        let listed = self.git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let mut paths = match listed {
            Some(bytes) => String::from_utf8_lossy(&bytes)
                .split('\0')
                .filter(|path| !path.is_empty() && self.root.join(path).is_file())
                .map(String::from)
                .collect(),
            None => {
                let mut paths = Vec::new();
                self.walk(Path::new(""), &mut paths)
                    .map_err(|error| Stop::Broken(format!("cannot list the tree: {error}")))?;
                paths
            }
        };
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    /// Standard output of a git command that succeeded.
    fn git(&self, arguments: &[&str]) -> Option<Vec<u8>> {
        // A `.git` further up belongs to another project, which does not know these files.
        if !self.root.join(".git").exists() {
            return None;
        }
        let output = Command::new("git")
            .arg("-c")
            .arg(format!("safe.directory={}", self.root.display()))
            .args(arguments)
            .current_dir(&self.root)
            .output()
            .ok()?;
        output.status.success().then_some(output.stdout)
    }

    fn walk(&self, folder: &Path, paths: &mut Vec<String>) -> io::Result<()> {
        for entry in fs::read_dir(self.root.join(folder))? {
            let entry = entry?;
            let name = entry.file_name();
            let path = folder.join(&name);
            let kind = entry.file_type()?;
            let at_root = folder.as_os_str().is_empty();
            if kind.is_dir() {
                let untracked = name.to_str().is_some_and(|name| UNTRACKED_FOLDERS.contains(&name));
                if !(at_root && untracked) {
                    self.walk(&path, paths)?;
                }
            } else if kind.is_file()
                && let Some(path) = path.to_str()
            {
                paths.push(path.to_string());
            }
        }
        Ok(())
    }
}

fn is_root(folder: &Path) -> bool {
    fs::read_to_string(folder.join("Cargo.toml"))
        .is_ok_and(|text| text.lines().any(|line| line.trim() == "[workspace]"))
}

/// The seed of a commit: its first 16 hexadecimal digits.
pub(crate) fn seed_of_commit(name: &str) -> Option<u64> {
    u64::from_str_radix(name.get(..16)?, 16).ok()
}

pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn programs_are_looked_up_on_the_search_path() {
        assert!(find_program("sh").is_some_and(|path| path.ends_with("sh")));
        assert_eq!(find_program("no-such-program-here"), None);
    }

    #[test]
    fn other_builds_go_where_the_target_directory_is() {
        let workspace = Workspace::at(Path::new("/w"));
        let folder =
            |moved: Option<&str>| workspace.target_under(moved.map(OsString::from), "loom");
        assert_eq!(folder(None), Path::new("/w/target/loom"));
        assert_eq!(folder(Some("")), Path::new("/w/target/loom"));
        assert_eq!(folder(Some("/t")), Path::new("/t/loom"));
        assert_eq!(folder(Some("t")), Path::new("/w/t/loom"));
    }

    #[test]
    fn the_seed_is_the_head_of_the_commit_name() {
        let name = "00000000000000ffdeadbeefdeadbeefdeadbeef";
        assert_eq!(seed_of_commit(name), Some(255));
        assert_eq!(seed_of_commit("ffffffffffffffff0000"), Some(u64::MAX));
        assert_eq!(seed_of_commit("abc"), None);
        assert_eq!(seed_of_commit("not a commit name at all"), None);
    }

    #[test]
    fn without_git_the_tree_is_walked_and_outputs_are_left_out() {
        let scratch = Scratch::new("walk");
        scratch.write("Cargo.toml", "[workspace]\n");
        scratch.write("crates/store/src/lib.rs", "//! x\n");
        scratch.write("crates/store/target/kept.txt", "x\n");
        scratch.write("target/debug/left-out.txt", "x\n");
        let workspace = Workspace::at(scratch.path());
        let files = workspace.files().expect("listed");
        assert_eq!(
            files,
            ["Cargo.toml", "crates/store/src/lib.rs", "crates/store/target/kept.txt"]
        );
        assert_eq!(workspace.commit(), None);
    }

    #[test]
    fn with_git_new_files_count_and_ignored_ones_do_not() {
        let scratch = Scratch::new("git");
        let git = |arguments: &[&str]| {
            let mut command = Command::new("git");
            command.current_dir(scratch.path()).arg("-c").arg("user.name=A B");
            command.args(["-c", "user.email=a@b.invalid", "-c", "commit.gpgsign=false"]);
            command.args(arguments).output()
        };
        if git(&["init", "--quiet"]).is_err() {
            eprintln!("SKIPPED: git is not installed");
            return;
        }
        scratch.write(".gitignore", "/out\n");
        scratch.write("old name.rs", "//! x\n");
        scratch.write("removed.rs", "//! x\n");
        assert!(git(&["add", "--all"]).is_ok_and(|output| output.status.success()));
        let committed = git(&["commit", "--quiet", "--no-verify", "--message=one"]);
        assert!(committed.is_ok_and(|output| output.status.success()));
        scratch.write("out/ignored.rs", "x\n");
        scratch.write("new.rs", "//! x\n");
        fs::remove_file(scratch.path().join("removed.rs")).expect("removed");
        let workspace = Workspace::at(scratch.path());
        let files = workspace.files().expect("listed");
        assert_eq!(files, [".gitignore", "new.rs", "old name.rs"]);
        let commit = workspace.commit().expect("committed");
        assert!(seed_of_commit(&commit).is_some(), "{commit}");
    }

    #[test]
    fn the_root_is_found_by_its_workspace_table() {
        let workspace = Workspace::find().expect("found");
        assert!(workspace.root().join("xtask/Cargo.toml").is_file());
        assert!(!is_root(&workspace.root().join("xtask")));
    }
}
