//! The file of acknowledgements.

use super::script::{self, KEYS};
use keyrack_console::Failure;
use keyrack_vfs::{File, Fs, OpenOptions, RealFs};
use std::path::Path;
use std::sync::Arc;

/// What was acknowledged: of each key the last version, 0 for none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Acks {
    pub(super) versions: Vec<u64>,
    pub(super) lines: u64,
    /// Bytes of whole lines.
    bytes: usize,
}

impl Acks {
    /// Reads the lines of `bytes`.
    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, Failure> {
        let mut acks = Acks { versions: vec![0; KEYS as usize], lines: 0, bytes: 0 };
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let Some(text) = line.strip_suffix(b"\n") else { break };
            acks.lines += 1;
            acks.bytes += line.len();
            let Some((key, version)) = parse_line(text) else {
                return Err(Failure::Usage(format!(
                    "{}: line {} is no acknowledgement: is it the file that torture run wrote?",
                    path.display(),
                    acks.lines
                )));
            };
            let known = &mut acks.versions[key as usize];
            *known = version.max(*known);
        }
        Ok(acks)
    }

    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        match RealFs.read(path) {
            Ok(bytes) => Acks::parse(path, &bytes),
            Err(error) if error.is_not_found() => {
                Err(Failure::Usage(format!("{}: there is no such file", path.display())))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the file to go on with it, and makes it if it is missing.
    pub(super) fn open(path: &Path) -> Result<(Self, Log), Failure> {
        let file = RealFs.open(path, &OpenOptions::new().read(true).write(true).create(true))?;
        let acks = Acks::parse(path, &RealFs.read(path)?)?;
        // A line that was cut short would spoil the next one.
        file.set_len(acks.bytes as u64)?;
        Ok((acks, Log { file }))
    }
}

fn parse_line(line: &[u8]) -> Option<(u32, u64)> {
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (kind, key, version) = (words.next()?, words.next()?, words.next()?);
    let key = script::key_of(key.as_bytes())?;
    let version = version.parse().ok()?;
    let is_right = kind == kind_of(key, version) && version > 0 && words.next().is_none();
    is_right.then_some((key, version))
}

fn kind_of(key: u32, version: u64) -> &'static str {
    if script::value(key, version).is_some() { "put" } else { "del" }
}

/// The file, to add to.
pub(super) struct Log {
    file: Arc<dyn File>,
}

impl Log {
    /// Notes an acknowledgement, by one write.
    pub(super) fn note(&self, key: u32, version: u64) -> Result<(), Failure> {
        let line = format!("{} {} {version}\n", kind_of(key, version), script::name(key));
        self.file.append(line.as_bytes())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Acks, Failure> {
        Acks::parse(Path::new("acks"), text.as_bytes())
    }

    #[test]
    fn the_last_version_of_each_key_counts() {
        let acks = parsed("put torture/00003 1\nput torture/00005 1\n").unwrap();
        assert_eq!((acks.lines, acks.versions[3], acks.versions[5]), (2, 1, 1));
        assert_eq!(acks.versions.iter().sum::<u64>(), 2);
        assert_eq!(parsed("").unwrap().lines, 0);
    }

    #[test]
    fn a_line_that_was_cut_is_none() {
        let acks = parsed("put torture/00003 1\nput torture/00005 1").unwrap();
        assert_eq!((acks.lines, acks.bytes, acks.versions[5]), (1, 20, 0));
    }

    #[test]
    fn other_lines_are_refused() {
        for bad in
            ["x\n", "del torture/00003 1\n", "put torture/00003 0\n", "put torture/00003 1 1\n"]
        {
            assert!(matches!(parsed(bad), Err(Failure::Usage(_))), "{bad:?}");
        }
    }
}
