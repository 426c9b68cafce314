//! The manifest of an append-only file of several parts.
//!
//! ```text
//!   file appendonly.aof.1.base.rdb seq 1 type b
//!   file appendonly.aof.1.incr.aof seq 1 type i
//! ```
//!
//! One base, then increments in the order of their numbers. Parts of type `h` are history.

use crate::error::{Error, Result};
use keyrack_vfs::Fs;
use std::path::{Path, PathBuf};

const SUFFIX: &str = ".manifest";
/// Redis keeps a few parts; a manifest with more is not one.
const PARTS_MAX: usize = 4096;

/// The manifest in a directory, if it has exactly one.
pub(crate) fn manifest_in(fs: &dyn Fs, dir: &Path) -> Result<PathBuf> {
    let names = fs.list(dir)?;
    let mut found = names.iter().filter(|entry| entry.name.to_string_lossy().ends_with(SUFFIX));
    match (found.next(), found.next()) {
        (Some(entry), None) => Ok(dir.join(&entry.name)),
        (None, _) => Err(Error::usage(format!(
            "{}: a directory without a manifest; name a file, or the directory with *{SUFFIX}",
            dir.display()
        ))),
        (Some(_), Some(_)) => Err(Error::usage(format!(
            "{}: several manifests; name the one to import",
            dir.display()
        ))),
    }
}

/// The files of an append-only file, in the order in which they are read: those of the manifest,
/// or the file itself.
pub(crate) fn files(fs: &dyn Fs, path: &Path) -> Result<Vec<PathBuf>> {
    if !path.to_string_lossy().ends_with(SUFFIX) {
        return Ok(vec![path.to_owned()]);
    }
    let dir = path.parent().unwrap_or(Path::new(""));
    let text = fs.read_to_string(path)?;
    let damage = |offset, what: &str| Error::Damage {
        name: path.display().to_string(),
        offset,
        what: what.to_owned(),
    };
    let (mut base, mut increments) = (None, Vec::new());
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let at = offset;
        offset += line.len() as u64;
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let part = Part::of(line).ok_or_else(|| damage(at, "no line of a manifest"))?;
        match part.kind {
            "h" => {}
            "b" if base.is_none() => base = Some(part.name),
            "i" if increments.last().is_none_or(|(number, _)| *number < part.number) => {
                increments.push((part.number, part.name));
            }
            _ => return Err(damage(at, "a part out of order")),
        }
        if increments.len() > PARTS_MAX {
            return Err(damage(at, "too many parts"));
        }
    }
    let names = base.into_iter().chain(increments.into_iter().map(|(_, name)| name));
    Ok(names.map(|name| dir.join(name)).collect())
}

struct Part<'a> {
    name: &'a str,
    number: u64,
    kind: &'a str,
}

impl<'a> Part<'a> {
    /// A line, whose words are names and values by turns. The name of a file has no directory.
    fn of(line: &'a str) -> Option<Self> {
        let (mut name, mut number, mut kind) = (None, None, None);
        let mut words = line.split(' ');
        while let Some(word) = words.next() {
            let value = words.next()?;
            match word {
                "file" => name = Some(value),
                "seq" => number = value.parse().ok(),
                "type" => kind = Some(value),
                // Redis 8 adds offsets.
                _ => {}
            }
        }
        let name = name.filter(|name| !name.contains(['/', '"', '\\']) && *name != "..")?;
        Some(Part { name, number: number?, kind: kind? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_vfs::MemFs;

    fn read(text: &str) -> Result<Vec<PathBuf>> {
        let fs = MemFs::new();
        fs.write_atomic(Path::new("/a.manifest"), text.as_bytes())?;
        files(&fs, Path::new("/a.manifest"))
    }

    #[test]
    fn parts_come_in_order_and_history_is_left_out() {
        let text = "file a.1.incr.aof seq 1 type h\nfile a.2.base.rdb seq 2 type b\n\
                    file a.2.incr.aof seq 2 type i startoffset 7\nfile a.3.incr.aof seq 3 type i\n";
        let names = ["/a.2.base.rdb", "/a.2.incr.aof", "/a.3.incr.aof"].map(PathBuf::from);
        assert_eq!(read(text).unwrap(), names);
    }

    #[test]
    fn a_name_in_another_directory_and_parts_out_of_order_are_refused() {
        for (text, at) in [
            ("file ../etc/passwd seq 1 type b\n", 0),
            ("file .. seq 1 type b\n", 0),
            ("file a seq 1 type b\nfile b seq 1 type b\n", 20),
            ("file a seq 2 type i\nfile b seq 2 type i\n", 20),
            ("file a seq x type i\n", 0),
            ("file a seq\n", 0),
        ] {
            let error = read(text).unwrap_err();
            assert!(matches!(error, Error::Damage { offset, .. } if offset == at), "{error}");
        }
    }
}
