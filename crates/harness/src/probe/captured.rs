//! A machine kept as text: the answers of a [`Host`] written down once and replayed in tests.
//!
//! One text describes one machine. A line that begins with `@` is a directive; the lines after
//! `@file` up to the next directive are that file's text. Before the first directive anything goes,
//! so a picture can open with words about the machine.
//!
//! ```text
//! @file PATH                              text of a file, on the lines below
//! @link PATH TARGET                       a symbolic link
//! @dev PATH MAJOR:MINOR                   device that holds exactly this path
//! @space PATH FREE TOTAL MAGIC            bytes, bytes, hexadecimal; also for all below PATH
//! @page BYTES                             page size
//! @usage CPU_S RSS MINFLT MAJFLT VOL INVOL
//! ```
//!
//! Directories are not written: a directory lists the names of the files and links below it.
//! Paths must not contain blanks, except that a link's target is the rest of the line.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::proc::strip_dir;
use super::{FsSpace, Host, Usage};

/// A [`Host`] that answers from memory. What is not written down does not exist.
///
/// Texts can be replaced while others hold a reference, so that a test can let time pass.
#[derive(Debug, Default)]
pub struct CapturedHost {
    answers: Mutex<Answers>,
}

#[derive(Debug, Default)]
struct Answers {
    files: BTreeMap<String, String>,
    links: BTreeMap<String, String>,
    devices: BTreeMap<String, (u32, u32)>,
    spaces: BTreeMap<String, FsSpace>,
    page_size: Option<u64>,
    usage: Option<Usage>,
}

impl CapturedHost {
    /// A machine that answers nothing.
    #[must_use]
    pub fn new() -> CapturedHost {
        CapturedHost::default()
    }

    /// Reads a machine from its text form (see `captured.rs`). O(n log n) in its length.
    ///
    /// # Errors
    ///
    /// Answers the number of the first line, from 1, whose directive is not understood.
    pub fn parse(text: &str) -> Result<CapturedHost, usize> {
        let host = CapturedHost::new();
        let mut open: Option<(String, String)> = None;
        for (index, line) in text.lines().enumerate() {
            let Some(directive) = line.strip_prefix('@') else {
                if let Some((_, body)) = &mut open {
                    body.push_str(line);
                    body.push('\n');
                }
                continue;
            };
            if let Some((path, body)) = open.take() {
                host.set_file(&path, &body);
            }
            match directive.strip_prefix("file ") {
                Some(path) => open = Some((path.trim().to_owned(), String::new())),
                None => host.obey(directive).ok_or(index + 1)?,
            }
        }
        if let Some((path, body)) = open {
            host.set_file(&path, &body);
        }
        Ok(host)
    }

    /// Adds or replaces the text of a file.
    pub fn set_file(&self, path: &str, text: &str) {
        self.lock().files.insert(path.to_owned(), text.to_owned());
    }

    /// Removes a file.
    pub fn remove_file(&self, path: &str) {
        self.lock().files.remove(path);
    }

    /// Adds or replaces a symbolic link.
    pub fn set_link(&self, path: &str, target: &str) {
        self.lock().links.insert(path.to_owned(), target.to_owned());
    }

    /// Adds or replaces the device numbers of one path.
    pub fn set_device(&self, path: &str, major: u32, minor: u32) {
        self.lock().devices.insert(path.to_owned(), (major, minor));
    }

    /// Adds or replaces the space of a path and of all below it that have none of their own.
    pub fn set_space(&self, path: &str, space: FsSpace) {
        self.lock().spaces.insert(path.to_owned(), space);
    }

    /// Sets the bytes in a page.
    pub fn set_page_size(&self, bytes: u64) {
        self.lock().page_size = Some(bytes);
    }

    /// Sets the resources used.
    pub fn set_usage(&self, usage: Usage) {
        self.lock().usage = Some(usage);
    }

    fn obey(&self, directive: &str) -> Option<()> {
        let (verb, rest) = directive.split_once(' ')?;
        if verb == "link" {
            let (path, target) = rest.split_once(' ')?;
            self.set_link(path, target.trim());
            return Some(());
        }
        let words: Vec<&str> = rest.split_whitespace().collect();
        match (verb, words.as_slice()) {
            ("dev", [path, numbers]) => {
                let (major, minor) = numbers.split_once(':')?;
                self.set_device(path, major.parse().ok()?, minor.parse().ok()?);
            }
            ("space", [path, free, total, magic]) => {
                let magic = u64::from_str_radix(magic.trim_start_matches("0x"), 16).ok()?;
                let (free, total) = (free.parse().ok()?, total.parse().ok()?);
                self.set_space(path, FsSpace { free, total, magic });
            }
            ("page", [bytes]) => self.set_page_size(bytes.parse().ok()?),
            ("usage", [cpu_s, rss, minflt, majflt, vol, invol]) => self.set_usage(Usage {
                cpu_s: cpu_s.parse().ok()?,
                peak_rss_bytes: rss.parse().ok()?,
                minflt: minflt.parse().ok()?,
                majflt: majflt.parse().ok()?,
                vol_ctxsw: vol.parse().ok()?,
                invol_ctxsw: invol.parse().ok()?,
            }),
            _ => return None,
        }
        Some(())
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host for CapturedHost {
    fn read(&self, path: &str) -> Option<String> {
        self.lock().files.get(path).cloned()
    }

    fn list(&self, path: &str) -> Vec<String> {
        let answers = self.lock();
        let names: BTreeSet<&str> = answers
            .files
            .keys()
            .chain(answers.links.keys())
            .filter_map(|known| strip_dir(known, path))
            .filter_map(|below| below.split('/').next())
            .filter(|name| !name.is_empty())
            .collect();
        names.into_iter().map(str::to_owned).collect()
    }

    fn link(&self, path: &str) -> Option<String> {
        self.lock().links.get(path).cloned()
    }

    fn canonical(&self, path: &str) -> Option<String> {
        path.starts_with('/').then(|| path.to_owned())
    }

    fn statfs(&self, path: &str) -> Option<FsSpace> {
        let answers = self.lock();
        let holding = answers.spaces.iter().filter(|(at, _)| strip_dir(path, at).is_some());
        holding.max_by_key(|(at, _)| at.len()).map(|(_, space)| *space)
    }

    fn dev_of(&self, path: &str) -> Option<(u32, u32)> {
        self.lock().devices.get(path).copied()
    }

    fn page_size(&self) -> Option<u64> {
        self.lock().page_size
    }

    fn rusage(&self) -> Option<Usage> {
        self.lock().usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_a_machine() {
        let host = CapturedHost::parse(
            "words\n\n@file /a/b\none\ntwo\n@link /a/c ../x y\n@dev / 8:3\n@page 4096\n\
             @space / 5 9 0xEF53\n@space /mnt 1 2 1\n@usage 1.5 2 3 4 5 6\n@file /a/d/e\n",
        )
        .unwrap();
        assert_eq!(host.read("/a/b").as_deref(), Some("one\ntwo\n"));
        assert_eq!(host.read("/a/d/e").as_deref(), Some(""));
        assert_eq!(host.read("/a"), None);
        assert_eq!(host.list("/a"), ["b", "c", "d"]);
        assert_eq!(host.link("/a/c").as_deref(), Some("../x y"));
        assert_eq!((host.dev_of("/"), host.dev_of("/a")), (Some((8, 3)), None));
        assert_eq!(host.statfs("/x").map(|space| space.magic), Some(0xef53));
        assert_eq!(host.statfs("/mnt/y").map(|space| space.free), Some(1));
        assert_eq!(host.page_size(), Some(4096));
        assert_eq!(host.rusage().map(|usage| usage.invol_ctxsw), Some(6));
        host.remove_file("/a/b");
        assert_eq!(host.read("/a/b"), None);
    }

    #[test]
    fn a_bad_directive_names_its_line() {
        for bad in ["@", "@what x", "@dev / 8", "@space / 1 2", "@page x", "@link /a", "@usage 1"] {
            assert_eq!(CapturedHost::parse(&format!("words\n{bad}\n")).unwrap_err(), 2, "{bad}");
        }
    }
}
