//! Trees as archives of tar: headers of POSIX with PAX records for what does not fit them.
//!
//! A name or a target of more than 100 bytes, a time with a fraction of a second, an owner or a
//! group beyond the header's digits go into a PAX header before the entry. Read is what others
//! write as well: long names of GNU, PAX, plain headers. Devices, pipes and hard links have no
//! counterpart here; they are refused by name.

use super::item::{Item, ItemSink, ItemSource, end_output, entry_path, local};
use crate::paths::shown;
use ::tar::{Archive, Builder, Entry, EntryType, Header};
use keyrack_console::{Failure, Outcome};
use keyrack_deltafs::{INLINE_BYTES_MAX, Kind};
use std::io::{Read, Write};

const NS_PER_S: u64 = 1_000_000_000;
/// What seven octal digits hold, and eleven.
const SMALL_MAX: u64 = 0o7_777_777;
const LARGE_MAX: u64 = 0o77_777_777_777;

pub(super) fn write(to: impl Write, items: &mut ItemSource<'_>) -> Outcome {
    let mut builder = Builder::new(to);
    while let Some((item, bytes)) = items()? {
        if let Err(error) = append(&mut builder, &item, bytes) {
            return end_output(Err(error));
        }
    }
    end_output(builder.into_inner().and_then(|mut to| to.flush()))
}

fn append(
    builder: &mut Builder<impl Write>,
    item: &Item,
    bytes: Option<Box<dyn Read + '_>>,
) -> std::io::Result<()> {
    let mut name = if item.path.is_empty() { b".".to_vec() } else { item.path.clone() };
    let mut header = Header::new_ustar();
    header.set_entry_type(match item.kind {
        Kind::Dir => EntryType::Directory,
        Kind::File => EntryType::Regular,
        Kind::Symlink => EntryType::Symlink,
    });
    if item.kind == Kind::Dir {
        name.push(b'/');
    }
    let mut more: Vec<(&str, Vec<u8>)> = Vec::new();
    let old = header.as_old_mut();
    if !fill(&mut old.name, &name) {
        more.push(("path", name.clone()));
    }
    let (target, data): (&[u8], &[u8]) = match (item.kind, &item.data) {
        (Kind::Symlink, Some(target)) => (target, &[]),
        (Kind::File, Some(data)) => (&[], data),
        _ => (&[], &[]),
    };
    if !fill(&mut old.linkname, target) {
        more.push(("linkpath", target.to_vec()));
    }
    let (seconds, fraction) = (item.mtime_ns / NS_PER_S, item.mtime_ns % NS_PER_S);
    if fraction > 0 || seconds > LARGE_MAX {
        more.push(("mtime", format!("{seconds}.{fraction:09}").into_bytes()));
    }
    for (key, id) in [("uid", item.uid), ("gid", item.gid)] {
        if u64::from(id) > SMALL_MAX {
            more.push((key, id.to_string().into_bytes()));
        }
    }
    header.set_mode(item.mode);
    header.set_uid(u64::from(item.uid).min(SMALL_MAX));
    header.set_gid(u64::from(item.gid).min(SMALL_MAX));
    header.set_mtime(seconds.min(LARGE_MAX));
    let size = if bytes.is_some() { item.size } else { data.len() as u64 };
    header.set_size(size);
    if item.kind == Kind::File && item.data.is_none() && bytes.is_none() {
        more.push((SIZE_ELSEWHERE, item.size.to_string().into_bytes()));
    }
    if !more.is_empty() {
        builder.append_pax_extensions(more.iter().map(|(key, value)| (*key, &value[..])))?;
    }
    header.set_cksum();
    match bytes {
        Some(bytes) => builder.append(&header, bytes.take(size)),
        None => builder.append(&header, data),
    }
}

/// A record of our own: the size of a file whose bytes are not in the archive.
const SIZE_ELSEWHERE: &str = "KEYRACK.size";

/// Puts bytes into a field, cut if they do not fit. Whether they did.
fn fill(field: &mut [u8; 100], bytes: &[u8]) -> bool {
    let len = bytes.len().min(field.len());
    field[..len].copy_from_slice(&bytes[..len]);
    bytes.len() <= field.len()
}

/// What the machine said, or what the archive looks like.
fn broken(error: &std::io::Error) -> Failure {
    match error.get_ref() {
        Some(inner) if inner.is::<keyrack_vfs::Error>() => local("cannot read the archive", error),
        _ => Failure::Usage(format!("this is no archive of tar, or a damaged one: {error}")),
    }
}

pub(super) fn read(from: impl Read, sink: &mut ItemSink<'_>) -> Result<(), Failure> {
    let mut archive = Archive::new(from);
    for entry in archive.entries().map_err(|error| broken(&error))? {
        let mut entry = entry.map_err(|error| broken(&error))?;
        let Some(mut item) = read_header(&entry)? else { continue };
        let elsewhere = read_pax(&mut entry, &mut item)?;
        match (item.kind, elsewhere) {
            (Kind::File, Some(size)) => item.size = size,
            (Kind::File, None) if item.size <= INLINE_BYTES_MAX as u64 => {
                item.data = Some(read_data(&mut entry, &item)?);
            }
            (Kind::File, None) => {
                let left = item.size;
                sink(item, Some(&mut Whole { from: &mut entry, left }))?;
                continue;
            }
            _ => {}
        }
        sink(item, None)?;
    }
    Ok(())
}

/// The item that a header describes; none of a header that is about no entry.
fn read_header(entry: &Entry<'_, impl Read>) -> Result<Option<Item>, Failure> {
    let path = entry_path(&entry.path_bytes()).map_err(Failure::Usage)?;
    let shown = shown(&path);
    let header = entry.header();
    let kind = match header.entry_type() {
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => Kind::File,
        EntryType::Directory => Kind::Dir,
        EntryType::Symlink => Kind::Symlink,
        EntryType::XGlobalHeader => return Ok(None),
        other => {
            let (what, remedy) = what(other);
            return Err(Failure::Failed(format!(
                "{shown}: {what} have no place in a name space; {remedy}"
            )));
        }
    };
    let number = |value: std::io::Result<u64>| -> Result<u32, Failure> {
        let value = value.map_err(|error| broken(&error))?;
        u32::try_from(value)
            .map_err(|_| Failure::Usage(format!("{shown}: {value} is no user or group")))
    };
    let mode = header.mode().map_err(|error| broken(&error))? & 0o7777;
    let (uid, gid) = (number(header.uid())?, number(header.gid())?);
    let seconds = header.mtime().map_err(|error| broken(&error))?;
    let mtime_ns = seconds.saturating_mul(NS_PER_S);
    let (mut size, mut data) = (entry.size(), None);
    if kind == Kind::Symlink {
        let target = entry.link_name_bytes().ok_or_else(|| {
            Failure::Usage(format!("{shown}: the archive has a link without a target"))
        })?;
        size = target.len() as u64;
        data = Some(target.into_owned());
    }
    Ok(Some(Item { path, kind, mode, uid, gid, mtime_ns, size, data, facts: None }))
}

/// Takes PAX records into an item. Returns the size of a file whose bytes are not in the archive.
fn read_pax(entry: &mut Entry<'_, impl Read>, item: &mut Item) -> Result<Option<u64>, Failure> {
    let mut elsewhere = None;
    let records = entry.pax_extensions().map_err(|error| broken(&error))?;
    for record in records.into_iter().flatten() {
        let record = record.map_err(|error| broken(&error))?;
        let text = String::from_utf8_lossy(record.value_bytes());
        let path = &item.path;
        let wrong =
            || Failure::Usage(format!("{}: '{text}' in a PAX record is wrong", shown(path)));
        match record.key_bytes() {
            b"mtime" => item.mtime_ns = time(&text).ok_or_else(wrong)?,
            b"uid" => item.uid = text.parse().map_err(|_| wrong())?,
            b"gid" => item.gid = text.parse().map_err(|_| wrong())?,
            key if key == SIZE_ELSEWHERE.as_bytes() => {
                elsewhere = Some(text.parse::<u64>().map_err(|_| wrong())?);
            }
            _ => {}
        }
    }
    Ok(elsewhere)
}

/// All bytes of a small file.
fn read_data(entry: &mut Entry<'_, impl Read>, item: &Item) -> Result<Vec<u8>, Failure> {
    let mut data = Vec::with_capacity(item.size as usize);
    entry.read_to_end(&mut data).map_err(|error| broken(&error))?;
    if data.len() as u64 == item.size {
        return Ok(data);
    }
    Err(Failure::Usage(format!(
        "{}: the archive ends after {} of {} bytes",
        shown(&item.path),
        data.len(),
        item.size
    )))
}

/// The bytes of an entry: all of them, or an error.
struct Whole<'a> {
    from: &'a mut dyn Read,
    left: u64,
}

impl Read for Whole<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let count = self.from.read(buf)?;
        if count == 0 && !buf.is_empty() && self.left > 0 {
            let what = format!("the archive ends {} bytes before the file does", self.left);
            return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, what));
        }
        self.left = self.left.saturating_sub(count as u64);
        Ok(count)
    }
}

/// Seconds with a fraction, in nanoseconds; before 1970 it is 1970.
fn time(text: &str) -> Option<u64> {
    if text.starts_with('-') {
        return Some(0);
    }
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    seconds.parse::<u64>().ok()?.checked_mul(NS_PER_S)?.checked_add(digits.parse().ok()?)
}

/// What it is, and what helps.
fn what(kind: EntryType) -> (&'static str, &'static str) {
    match kind {
        EntryType::Link => ("hard links", "write the archive with tar --hard-dereference"),
        EntryType::Char | EntryType::Block => ("devices", "leave it out of the archive"),
        EntryType::Fifo => ("pipes", "leave it out of the archive"),
        _ => ("such entries", "leave it out of the archive"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_pax_records() {
        assert_eq!(time("12"), Some(12_000_000_000));
        assert_eq!(time("12.5"), Some(12_500_000_000));
        assert_eq!(time("12.1234567891"), Some(12_123_456_789));
        assert_eq!(time("-3.5"), Some(0));
        assert_eq!((time("x"), time("1.x"), time("99999999999999")), (None, None, None));
    }

    #[test]
    fn a_link_without_a_target_is_refused_and_no_link_to_nothing() {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Symlink);
        header.set_path("dir/link").unwrap();
        header.set_size(0);
        header.set_mode(0o777);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_cksum();
        let mut builder = Builder::new(Vec::new());
        builder.append(&header, &[][..]).unwrap();
        let archive = builder.into_inner().unwrap();
        let mut taken = 0;
        let read = read(&archive[..], &mut |_, _| {
            taken += 1;
            Ok(())
        });
        let Err(Failure::Usage(what)) = read else { panic!("it is refused") };
        assert!(what.contains("dir/link") && what.contains("without a target"), "{what}");
        assert_eq!(taken, 0);
    }
}
