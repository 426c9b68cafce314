//! `keyrack fs find`: a walk with conditions, all of which must hold.

use super::{flag, local, open_to_read, option, path_bytes, paths_of};
use super::{reading, shown, text, user};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use keyrack_console::{Failure, Outcome, Output};
use keyrack_deltafs::{Kind, Stat, Walked};
use std::ffi::OsString;

pub(super) fn command() -> Command {
    reading("find", "Find entries; all conditions must hold")
        .arg(local("name", "GLOB", "The name fits: * is any text, ? one byte, [a-z] one of"))
        .arg(option("type", "f|d|l", "What it is"))
        .arg(
            option("size", "[+-]BYTES", "Exactly, more (+) or fewer (-) bytes; K, M, G")
                .allow_hyphen_values(true),
        )
        .arg(local("newer", "PATH", "Changed after this entry of the name space"))
        .arg(option("newer-ns", "NS", "Changed after this time, nanoseconds since 1970"))
        .arg(option("user", "UID", "Its owner"))
        .arg(option("group", "GID", "Its group"))
        .arg(option("mode", "MODE", "Its permissions, in octal"))
        .arg(flag("empty", "A file of no bytes, a directory without entries"))
        .arg(option("min-depth", "N", "Not less deep"))
        .arg(option("max-depth", "N", "Not deeper"))
        .arg(flag("count", "Print only how many there are"))
        .arg(flag("json", "An object a line, with all facts"))
        .arg(flag("print0", "A NUL byte behind each path, which is given as it is").short('0'))
        .arg(
            Arg::new("path")
                .value_name("PATH")
                .action(ArgAction::Append)
                .value_parser(value_parser!(OsString))
                .help("Where to begin [default: /]"),
        )
}

/// A size to compare with.
#[derive(Clone, Copy)]
enum Size {
    Is(u64),
    Above(u64),
    Below(u64),
}

struct Conditions {
    name: Option<Vec<u8>>,
    kind: Option<Kind>,
    size: Option<Size>,
    newer_ns: Option<u64>,
    user: Option<u64>,
    group: Option<u64>,
    mode: Option<u32>,
    empty: bool,
    min_depth: u64,
}

impl Conditions {
    fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        let kind = match text(matches, "type") {
            None => None,
            Some("f") => Some(Kind::File),
            Some("d") => Some(Kind::Dir),
            Some("l") => Some(Kind::Symlink),
            Some(other) => {
                return Err(Failure::Usage(format!(
                    "--type: '{other}' is none of f (file), d (directory), l (link)"
                )));
            }
        };
        let size = match text(matches, "size") {
            None => None,
            Some(given) => Some(match given.split_at_checked(1) {
                Some(("+", rest)) => Size::Above(parse_bytes("size", rest)?),
                Some(("-", rest)) => Size::Below(parse_bytes("size", rest)?),
                _ => Size::Is(parse_bytes("size", given)?),
            }),
        };
        Ok(Conditions {
            name: path_bytes(matches, "name").map(<[u8]>::to_vec),
            kind,
            size,
            newer_ns: number(matches, "newer-ns")?,
            user: number(matches, "user")?,
            group: number(matches, "group")?,
            mode: text(matches, "mode").map(super::mode).transpose()?,
            empty: matches.get_flag("empty"),
            min_depth: number(matches, "min-depth")?.unwrap_or(0),
        })
    }

    /// Whether all hold but that for emptiness, which may need a look into a directory.
    fn hold(&self, Walked { path, stat, depth }: &Walked) -> bool {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let name = if path == b"/" { b"/" } else { name };
        *depth as u64 >= self.min_depth
            && self.kind.is_none_or(|kind| kind == stat.kind)
            && self.user.is_none_or(|uid| uid == u64::from(stat.uid))
            && self.group.is_none_or(|gid| gid == u64::from(stat.gid))
            && self.mode.is_none_or(|mode| mode == stat.mode)
            && self.newer_ns.is_none_or(|ns| stat.mtime_ns > ns)
            && self.size.is_none_or(|size| fits(size, stat))
            && self.name.as_ref().is_none_or(|glob| matches_glob(glob, name))
    }
}

fn fits(size: Size, stat: &Stat) -> bool {
    match size {
        Size::Is(bytes) => stat.size == bytes,
        Size::Above(bytes) => stat.size > bytes,
        Size::Below(bytes) => stat.size < bytes,
    }
}

pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let mut conditions = Conditions::of(matches)?;
    let depth_max = number(matches, "max-depth")?.unwrap_or(u64::MAX);
    let (count_only, json) = (matches.get_flag("count"), matches.get_flag("json"));
    let as_it_is = matches.get_flag("print0");
    let user = user(matches)?;
    let space = open_to_read(matches)?;
    let fs = space.by(&user);
    if let Some(path) = path_bytes(matches, "newer") {
        let newer_ns = fs.lstat(path)?.mtime_ns;
        conditions.newer_ns = Some(conditions.newer_ns.unwrap_or(0).max(newer_ns));
    }
    let mut out = Output::new();
    let mut count = 0_u64;
    let mut given = paths_of(matches, "path");
    if given.is_empty() {
        given.push(b"/");
    }
    let status = super::for_each("find", given, |path| {
        let mut is_whole = true;
        let mut walk = fs.walk(path)?;
        while let Some(walked) = walk.next() {
            let walked = match walked {
                Ok(walked) => walked,
                Err((walked, error)) => {
                    keyrack_console::refuse("keyrack fs find", &error.to_string());
                    is_whole = false;
                    let Some(walked) = walked else { continue };
                    walked
                }
            };
            if walked.depth as u64 >= depth_max {
                walk.leave(&walked);
            }
            if !conditions.hold(&walked) {
                continue;
            }
            let stat = &walked.stat;
            if conditions.empty {
                let is_empty = match stat.kind {
                    Kind::File => stat.size == 0,
                    Kind::Symlink => false,
                    Kind::Dir => {
                        let dir = fs.dir(&walked.path)?;
                        fs.list_at(&dir, None, 1)?.entries.is_empty()
                    }
                };
                if !is_empty {
                    continue;
                }
            }
            count += 1;
            if count_only {
                continue;
            }
            let goes_on = if json {
                let object = super::query::object(&walked.path, stat, None);
                out.write((object.to_string() + "\n").as_bytes())?
            } else if as_it_is {
                out.write(&[&walked.path[..], b"\0"].concat())?
            } else {
                out.write((shown(&walked.path) + "\n").as_bytes())?
            };
            if !goes_on {
                return Ok(());
            }
        }
        match is_whole {
            true => Ok(()),
            false => {
                let path = shown(path);
                Err(Failure::Failed(format!("{path}: not all of it could be read")))
            }
        }
    })?;
    if count_only {
        out.write(format!("{count}\n").as_bytes())?;
    }
    Ok(status.max(out.finish()?))
}

/// Whether a name fits a pattern. Linear in both: a star that does not fit is tried one byte
/// further, and only the last one.
fn matches_glob(glob: &[u8], name: &[u8]) -> bool {
    let (mut g, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        let (fits, next) = match glob.get(g) {
            Some(b'*') => {
                retry = Some((g + 1, n));
                g += 1;
                continue;
            }
            Some(b'?') => (true, g + 1),
            Some(b'[') => class(&glob[g..], name[n])
                .map_or((name[n] == b'[', g + 1), |(fits, len)| (fits, g + len)),
            Some(b'\\') if g + 1 < glob.len() => (glob[g + 1] == name[n], g + 2),
            Some(byte) => (*byte == name[n], g + 1),
            None => (false, g),
        };
        if fits {
            (g, n) = (next, n + 1);
        } else if let Some((after_star, from)) = retry {
            retry = Some((after_star, from + 1));
            (g, n) = (after_star, from + 1);
        } else {
            return false;
        }
    }
    glob[g..].iter().all(|byte| *byte == b'*')
}

/// Whether a byte is in the class that `glob` begins with, and how long the class is. `None` if it
/// does not end.
fn class(glob: &[u8], byte: u8) -> Option<(bool, usize)> {
    let is_negated = matches!(glob.get(1), Some(b'!' | b'^'));
    let start = 1 + usize::from(is_negated);
    let mut at = start;
    let mut is_in = false;
    loop {
        let first = *glob.get(at)?;
        if first == b']' && at > start {
            return Some((is_in != is_negated, at + 1));
        }
        match (glob.get(at + 1), glob.get(at + 2)) {
            (Some(b'-'), Some(last)) if *last != b']' => {
                is_in |= (first..=*last).contains(&byte);
                at += 3;
            }
            _ => {
                is_in |= first == byte;
                at += 1;
            }
        }
    }
}

/// A whole number.
pub(super) fn number(matches: &ArgMatches, name: &str) -> Result<Option<u64>, Failure> {
    let Some(given) = text(matches, name) else { return Ok(None) };
    let wrong = |_| Failure::Usage(format!("--{name}: '{given}' is not a whole number"));
    given.parse().map(Some).map_err(wrong)
}

/// A number of bytes with K, M or G for powers of 1024.
pub(super) fn bytes(matches: &ArgMatches, name: &str) -> Result<Option<u64>, Failure> {
    text(matches, name).map(|given| parse_bytes(name, given)).transpose()
}

fn parse_bytes(name: &str, given: &str) -> Result<u64, Failure> {
    let shift = match given.as_bytes().last() {
        Some(b'k' | b'K') => 10,
        Some(b'm' | b'M') => 20,
        Some(b'g' | b'G') => 30,
        _ => 0,
    };
    let digits = if shift > 0 { &given[..given.len() - 1] } else { given };
    digits.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift)).ok_or_else(|| {
        Failure::Usage(format!("--{name}: '{given}' is no number of bytes, such as 3901 or 64K"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_names() {
        for (glob, name, fits) in [
            ("*", "", true),
            ("*01*", "file.01", true),
            ("*01*", "file.10", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*.rs", "x.rs.rs", true),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbXbX", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]x]", "]", true),
            ("[a", "[a", true),
            (r"\*", "*", true),
            (r"\*", "x", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches_glob(glob.as_bytes(), name.as_bytes()), fits, "{glob} {name}");
        }
        // No pattern takes long.
        let (glob, name) = ("*a".repeat(50), "a".repeat(20_000));
        assert!(!matches_glob((glob + "b").as_bytes(), name.as_bytes()));
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_bytes("size", "3901").unwrap(), 3901);
        assert_eq!(parse_bytes("size", "64K").unwrap(), 65_536);
        assert!(parse_bytes("size", "K").is_err());
        assert!(parse_bytes("size", "99999999999G").is_err());
    }
}
