//! The manifest of a backup: which objects are which files of the store.
//!
//! ```text
//!   keyrack backup 1
//!   engine flodb
//!   taken 1790000000000000000                        nanoseconds since 1970
//!   log 5bd1e9955bd1e995 65536                       identity and position, if it has a log
//!   files 3 41984                                    how many, and their bytes
//!   HEX 33272 flodb-..-table-4-.. 000004.table       object, bytes, identity or -, name
//!   HEX 8692 - MANIFEST-000007
//!   HEX 20 - CURRENT
//!   end HEX                                          SHA-256 of all lines before
//! ```
//!
//! It is text, so that a person can restore a backup with `cp`. `docs/formats/backup.md` has the
//! rules.
//!
//! **Invariant:** a decoded manifest has names that are paths below a directory, each once, none
//! below another; its counts are right; and encoding it gives the same bytes.

use crate::digest::Digest;
use crate::error::{Error, Result};
use keyrack_store::{IDENTITY_BYTES_MAX, LogPosition};
use keyrack_vfs::RelativePath;
use std::collections::HashSet;
use std::fmt::Write;

/// The version of the format.
const VERSION: &str = "1";
const FIRST: &str = "keyrack backup ";
const LOG: &str = "log ";
const END: &str = "end ";
/// Files of a backup, at most.
pub(crate) const FILES_MAX: usize = 1 << 20;
/// Bytes of a manifest, at most.
pub(crate) const MANIFEST_BYTES_MAX: usize = 512 << 20;
/// Bytes of the name of an engine, at most.
const ENGINE_BYTES_MAX: usize = 64;

/// What a backup is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) engine: String,
    /// Nanoseconds since 1970.
    pub(crate) taken_ns: u64,
    /// Where in its log the store is.
    pub(crate) log: Option<LogPosition>,
    /// In the order in which they are restored.
    pub(crate) files: Vec<FileEntry>,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileEntry {
    pub(crate) object: Digest,
    pub(crate) bytes: u64,
    pub(crate) identity: Option<String>,
    pub(crate) name: RelativePath,
}

impl Manifest {
    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).fold(0, u64::saturating_add)
    }

    /// The text.
    ///
    /// # Errors
    /// [`Error::Usage`]: names or identities that the format does not have, or too many.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        self.check().map_err(|what| Error::Usage(format!("a backup is not possible: {what}")))?;
        let Manifest { engine, taken_ns, log, files } = self;
        let mut text = format!("{FIRST}{VERSION}\nengine {engine}\ntaken {taken_ns}\n");
        if let Some(LogPosition { log_id, position }) = log {
            writeln!(text, "log {log_id:016x} {position}").expect("a string takes all");
        }
        let counts = (files.len(), self.bytes());
        writeln!(text, "files {} {}", counts.0, counts.1).expect("a string takes all");
        for FileEntry { object, bytes, identity, name } in files {
            let identity = identity.as_deref().unwrap_or("-");
            writeln!(text, "{object} {bytes} {identity} {name}").expect("a string takes all");
        }
        let end = Digest::of(text.as_bytes());
        writeln!(text, "{END}{end}").expect("a string takes all");
        Ok(text.into_bytes())
    }

    /// Reads the manifest that was found at `place`.
    ///
    /// # Errors
    /// [`Error::Corruption`]; [`Error::Usage`] if a later program wrote it.
    pub(crate) fn decode(place: &str, bytes: &[u8]) -> Result<Manifest> {
        let remedy = "delete this backup, and use another one";
        let wrong = |what: String| Error::corruption(place, format!("{what}; {remedy}"));
        let body = body(bytes)
            .ok_or_else(|| wrong("the manifest has another checksum than it states".to_owned()))?;
        let mut lines = body.lines().enumerate().map(|(index, line)| (index + 1, line));
        let version = lines.next().and_then(|(_, line)| line.strip_prefix(FIRST));
        match version {
            Some(VERSION) => {}
            Some(later) if number(later).is_some_and(|later| later > 1) => {
                let what = format!("has the later format version {later}; use a later keyrack");
                return Err(Error::Usage(format!("{place}: {what}")));
            }
            _ => return Err(wrong("line 1: not the manifest of a backup".to_owned())),
        }
        let mut lines = lines.peekable();
        let mut field = |prefix: &str| {
            let line = lines.next().and_then(|(_, line)| line.strip_prefix(prefix));
            line.ok_or_else(|| wrong(format!("there is no line '{prefix}'")))
        };
        let engine = field("engine ")?.to_owned();
        let taken = number(field("taken ")?);
        let log = match lines.next_if(|(_, line)| line.starts_with(LOG)) {
            None => None,
            Some((at, line)) => {
                let log = decode_log(line);
                Some(log.ok_or_else(|| wrong(format!("line {at}: no position in a log")))?)
            }
        };
        let counts = lines.next().and_then(|(_, line)| line.strip_prefix("files "));
        let counts = counts.ok_or_else(|| wrong("there is no line 'files '".to_owned()))?;
        let counts = counts.split_once(' ');
        let counts = counts.and_then(|(files, bytes)| Some((number(files)?, number(bytes)?)));
        let (Some(taken_ns), Some((count, total))) = (taken, counts) else {
            return Err(wrong("a number is none".to_owned()));
        };
        let mut files = Vec::new();
        for (at, line) in lines {
            let file =
                FileEntry::decode(line).map_err(|what| wrong(format!("line {at}: {what}")))?;
            files.push(file);
        }
        let manifest = Manifest { engine, taken_ns, log, files };
        manifest.check().map_err(&wrong)?;
        if (manifest.files.len() as u64, manifest.bytes()) != (count, total) {
            return Err(wrong("its counts are not those of its files".to_owned()));
        }
        Ok(manifest)
    }

    /// Holds the fields against the invariant.
    fn check(&self) -> std::result::Result<(), String> {
        let is_word = |text: &str, bytes_max: usize| {
            (1..=bytes_max).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if !is_word(&self.engine, ENGINE_BYTES_MAX) {
            return Err(format!("'{}' is no name of an engine", self.engine.escape_debug()));
        }
        if self.files.is_empty() || self.files.len() > FILES_MAX {
            return Err(format!("it has {} files, not 1 to {FILES_MAX}", self.files.len()));
        }
        let total = self.files.iter().try_fold(0_u64, |sum, file| sum.checked_add(file.bytes));
        if total.is_none() {
            return Err("the bytes of its files are more than fit into 64 bits".to_owned());
        }
        let mut names = HashSet::with_capacity(self.files.len());
        for file in &self.files {
            let name = file.name.as_str();
            if name.chars().any(char::is_control) {
                return Err(format!("the name '{}' has control characters", name.escape_debug()));
            }
            let identity = file.identity.as_deref();
            if identity.is_some_and(|text| text == "-" || !is_word(text, IDENTITY_BYTES_MAX)) {
                return Err(format!("the identity of {name} is none"));
            }
            if !names.insert(name) {
                return Err(format!("it has the name {name} twice"));
            }
        }
        for file in &self.files {
            let name = file.name.as_str();
            let above = name.match_indices('/').map(|(at, _)| &name[..at]);
            if let Some(file) = above.into_iter().find(|above| names.contains(above)) {
                return Err(format!("{file} is a file, and {name} is below it"));
            }
        }
        Ok(())
    }
}

impl FileEntry {
    fn decode(line: &str) -> std::result::Result<FileEntry, String> {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().ok_or("it has fewer than four fields");
        let object = Digest::parse(word()?).ok_or("the name of its object is no SHA-256")?;
        let bytes = number(word()?).ok_or("its length is no number")?;
        let identity = Some(word()?).filter(|identity| *identity != "-").map(str::to_owned);
        let name = RelativePath::new(word()?).map_err(|error| error.to_string())?;
        Ok(FileEntry { object, bytes, identity, name })
    }
}

/// The lines before the last one, if that has their checksum.
fn body(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let at = text.rfind('\n')? + 1;
    let (body, end) = text.split_at(at);
    let stated = Digest::parse(end.strip_prefix(END)?)?;
    (stated == Digest::of(body.as_bytes())).then_some(body)
}

/// The position in a log that a line states.
fn decode_log(line: &str) -> Option<LogPosition> {
    let (id, position) = line.strip_prefix(LOG)?.split_once(' ')?;
    Some(LogPosition { log_id: log_id(id)?, position: number(position)? })
}

/// The one text of the identity of a log: 16 small hexadecimal digits.
pub(crate) fn log_id(text: &str) -> Option<u64> {
    let id = u64::from_str_radix(text, 16).ok()?;
    (format!("{id:016x}") == text).then_some(id)
}

/// The one text of a number: no sign, no zero in front.
pub(crate) fn number(text: &str) -> Option<u64> {
    let value: u64 = text.parse().ok()?;
    (value.to_string() == text).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, identity: Option<&str>) -> FileEntry {
        FileEntry {
            object: Digest::of(name.as_bytes()),
            bytes: name.len() as u64,
            identity: identity.map(str::to_owned),
            name: RelativePath::new(name).unwrap(),
        }
    }

    fn sample() -> Manifest {
        let files = vec![
            entry("000004.table", Some("flodb-1-table-4-9")),
            entry("log/a name", None),
            entry("CURRENT", None),
        ];
        let log = Some(LogPosition { log_id: 0x0bad_cafe, position: 99 });
        Manifest { engine: "flodb".to_owned(), taken_ns: 17, log, files }
    }

    /// The text with a right checksum, so that what follows it is reached.
    fn sealed(body: &str) -> Vec<u8> {
        format!("{body}end {}\n", Digest::of(body.as_bytes())).into_bytes()
    }

    fn text() -> String {
        String::from_utf8(sample().encode().unwrap()).unwrap()
    }

    #[test]
    fn a_manifest_comes_back() {
        let bytes = sample().encode().unwrap();
        assert_eq!(Manifest::decode("/m", &bytes).unwrap(), sample());
        assert!(text().starts_with(
            "keyrack backup 1\nengine flodb\ntaken 17\nlog 000000000badcafe 99\nfiles 3 29\n"
        ));
    }

    #[test]
    fn every_changed_or_missing_byte_is_found() {
        let bytes = sample().encode().unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let error = Manifest::decode("/m", &changed).unwrap_err();
            assert!(matches!(error, Error::Corruption { .. }), "byte {at}: {error}");
            let error = Manifest::decode("/m", &bytes[..at]).unwrap_err();
            assert!(matches!(error, Error::Corruption { .. }), "cut at {at}: {error}");
        }
        assert!(Manifest::decode("/m", &[&bytes[..], b"\n"].concat()).is_err());
    }

    #[test]
    fn what_a_later_program_wrote_is_no_damage() {
        let error = Manifest::decode("/m", &sealed("keyrack backup 2\nanything\n")).unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{error}");
        assert!(error.to_string().contains("/m: has the later format version 2; use a"), "{error}");
    }

    /// Names become paths, so those that lead out of a directory never get through.
    #[test]
    fn contents_that_contradict_the_format_are_refused() {
        let whole = text();
        let body = &whole[..whole.rfind(END).unwrap()];
        for (from, to, what) in [
            ("CURRENT", "../CURRENT", "line 8"),
            ("CURRENT", "/CURRENT", "absolute"),
            ("CURRENT", "CURRE\u{7}T", "control"),
            ("CURRENT", "000004.table", "twice"),
            ("CURRENT", "log", "is a file, and log/a name is below it"),
            ("- CURRENT", "-", "four fields"),
            ("29", "30", "counts"),
            ("files 3", "files 2", "counts"),
            (" 12 ", " 18446744073709551615 ", "more than fit into 64 bits"),
            ("backup 1", "backup 0", "line 1"),
            ("files 3", "files +3", "a number is none"),
            ("taken 17", "taken 017", "a number is none"),
            ("badcafe 99", "badcafe 099", "line 4: no position"),
            ("0badcafe", "badcafe", "line 4: no position"),
            ("badcafe 99", "BADCAFE 99", "line 4: no position"),
            ("engine flodb", "engine ", "no name of an engine"),
            ("engine ", "motor ", "there is no line 'engine '"),
            ("keyrack", "keyring", "line 1"),
            (" 12 ", " twelve ", "no number"),
        ] {
            assert!(body.contains(from), "{from}");
            let error = Manifest::decode("/m", &sealed(&body.replacen(from, to, 1))).unwrap_err();
            assert!(matches!(error, Error::Corruption { .. }), "{to}: {error}");
            assert!(error.to_string().contains(what), "{to}: {error}");
        }
    }

    #[test]
    fn names_that_the_format_does_not_have_are_refused_when_written() {
        for (name, identity) in [("a\nb", None), ("a", Some("-")), ("a", Some("with space"))] {
            let mut manifest = sample();
            manifest.files.push(entry(name, identity));
            assert!(matches!(manifest.encode(), Err(Error::Usage(_))), "{name:?} {identity:?}");
        }
    }
}
