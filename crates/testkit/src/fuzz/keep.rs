//! Inputs as files: the corpus that a crate keeps, and what failed.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use keyrack_vfs::{FileKind, Fs, RealFs};

use super::shape;

/// The variable that names the one input to check.
const INPUT_VARIABLE: &str = "KEYRACK_FUZZ_INPUT";

/// The inputs that a crate keeps for a target, in the order of their names: the files of
/// `tests/corpus/TARGET`. None when there is no such folder.
///
/// # Panics
/// When the folder is there and cannot be read.
#[must_use]
pub fn corpus(target: &str, folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(folder).join("tests/corpus").join(target);
    if !RealFs.exists(&folder).expect("can be asked for") {
        return Vec::new();
    }
    let entries = RealFs.list(&folder).expect("the corpus can be listed");
    let files = entries.into_iter().filter(|entry| entry.kind == FileKind::File);
    let mut paths: Vec<PathBuf> = files.map(|entry| folder.join(entry.name)).collect();
    paths.sort();
    paths.iter().map(read).collect()
}

/// The input that the caller asks for alone.
pub(super) fn only() -> Option<Vec<u8>> {
    std::env::var_os(INPUT_VARIABLE).map(|path| read(Path::new(&path)))
}

pub(super) fn read(path: impl AsRef<Path>) -> Vec<u8> {
    let path = path.as_ref();
    RealFs.read(path).unwrap_or_else(|error| panic!("an input cannot be read: {error}"))
}

#[cfg(test)]
pub(super) fn forget(path: impl AsRef<Path>) {
    RealFs.remove_file(path.as_ref()).expect("removed");
}

/// Checks an input. When the check panics, the input is written to a file, and a panic follows
/// whose text names it.
///
/// # Panics
/// When `check` does.
pub fn kept<T>(target: &str, seed: u64, input: &[u8], check: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(check)) {
        Ok(found) => found,
        Err(cause) => panic!("{}", told(target, seed, input, &*cause)),
    }
}

fn told(target: &str, seed: u64, input: &[u8], cause: &(dyn Any + Send)) -> String {
    let cause = match (cause.downcast_ref::<String>(), cause.downcast_ref::<&str>()) {
        (Some(text), _) => text.as_str(),
        (_, Some(text)) => text,
        _ => "a panic without words",
    };
    match written(target, input) {
        Ok(path) => format!(
            "fuzz {target}: failing input kept as {} (KEYRACK_SEED={seed}); to see it again: \
             {INPUT_VARIABLE} with that path; to keep it: move it to tests/corpus/{target}: \
             {cause}",
            path.display()
        ),
        Err(error) => format!(
            "fuzz {target}: KEYRACK_SEED={seed}: {cause}: {} (not kept: {error})",
            input.escape_ascii()
        ),
    }
}

/// Writes an input under the folder of outputs of this workspace.
fn written(target: &str, input: &[u8]) -> Result<PathBuf, keyrack_vfs::Error> {
    let outputs = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
    };
    let folder = outputs.join("fuzz").join(target);
    RealFs.create_dir_all(&folder)?;
    let folder = RealFs.canonicalize(&folder)?;
    let path = folder.join(format!("{:016x}", shape(input)));
    RealFs.write_atomic(&path, input)?;
    Ok(path)
}
