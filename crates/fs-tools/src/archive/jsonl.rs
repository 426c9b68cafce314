//! Trees as lines of JSON: an object for each entry, a directory before what is in it.
//!
//! ```text
//!   {"path":"a/f","type":"f","mode":"0644","uid":0,"gid":0,"mtime_ns":1,"size":2,"data":"hi"}
//! ```
//!
//! Bytes that are no text have `_hex` behind the name of their field, and two digits each. A file
//! without `data` is one whose bytes are elsewhere.

use super::item::{Item, ItemSink, ItemSource, end_output, entry_path, local};
use keyrack_console::{Failure, Outcome, from_hex, hex};
use keyrack_deltafs::Kind;
use serde_json::{Value, json};
use std::io::{BufRead, Write};

/// Bytes of a line, at most: names and data as digits, with room for the rest.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Puts bytes under a name: as text where they are, else as digits.
pub(crate) fn put_bytes(object: &mut Value, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object[name] = text.into(),
        Err(_) => object[format!("{name}_hex")] = hex(bytes).into(),
    }
}

fn bytes_of(object: &Value, name: &str) -> Option<Vec<u8>> {
    match object.get(name) {
        Some(Value::String(text)) => Some(text.clone().into_bytes()),
        _ => from_hex(object.get(format!("{name}_hex"))?.as_str()?),
    }
}

pub(super) fn write(mut to: impl Write, items: &mut ItemSource<'_>) -> Outcome {
    while let Some((item, _)) = items()? {
        let mut object = json!({
            "type": item.kind.letter().to_string(),
            "mode": format!("{:04o}", item.mode),
            "uid": item.uid,
            "gid": item.gid,
            "mtime_ns": item.mtime_ns,
            "size": item.size,
        });
        put_bytes(&mut object, "path", &item.path);
        match (item.kind, &item.data) {
            (Kind::File, Some(data)) => put_bytes(&mut object, "data", data),
            (Kind::Symlink, Some(target)) => put_bytes(&mut object, "target", target),
            _ => {}
        }
        if let Err(error) = writeln!(to, "{object}") {
            return end_output(Err(error));
        }
    }
    end_output(to.flush())
}

pub(super) fn read(mut from: impl BufRead, sink: &mut ItemSink<'_>) -> Result<(), Failure> {
    let mut line = Vec::new();
    let mut number = 0_u64;
    loop {
        line.clear();
        number += 1;
        let limit = LINE_BYTES_MAX as u64 + 1;
        let count = std::io::Read::take(&mut from, limit)
            .read_until(b'\n', &mut line)
            .map_err(|error| local("cannot read the lines", &error))?;
        if count == 0 {
            return Ok(());
        }
        let wrong = |what: &str| Failure::Usage(format!("line {number}: {what}"));
        if count > LINE_BYTES_MAX {
            return Err(wrong(&format!("it has more than {LINE_BYTES_MAX} bytes")));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let object: Value =
            serde_json::from_slice(&line).map_err(|error| wrong(&format!("no JSON: {error}")))?;
        sink(item(&object).map_err(|what| wrong(&what))?, None)?;
    }
}

/// The item of an object, or what is wrong with it.
fn item(object: &Value) -> Result<Item, String> {
    let path = entry_path(&bytes_of(object, "path").ok_or("there is no path")?)?;
    let kind = match object.get("type").and_then(Value::as_str) {
        Some("f") => Kind::File,
        Some("d") => Kind::Dir,
        Some("l") => Kind::Symlink,
        _ => return Err("type is none of f, d, l".to_owned()),
    };
    let mode = match object.get("mode") {
        None => {
            if kind == Kind::Dir {
                0o755
            } else {
                0o644
            }
        }
        Some(mode) => {
            let octal = mode.as_str().and_then(|text| u32::from_str_radix(text, 8).ok());
            octal.filter(|mode| *mode <= 0o7777).ok_or("mode is no text of octal digits")?
        }
    };
    let number = |name: &str| match object.get(name) {
        None => Ok(0),
        Some(value) => value.as_u64().ok_or(format!("{name} is no whole number")),
    };
    let small = |name: &str| {
        number(name).and_then(|n| u32::try_from(n).map_err(|_| format!("{name} is too large")))
    };
    let data = match kind {
        Kind::Dir => None,
        Kind::Symlink => Some(bytes_of(object, "target").ok_or("a link needs a target")?),
        Kind::File => bytes_of(object, "data"),
    };
    let size = data.as_ref().map_or_else(|| number("size"), |data| Ok(data.len() as u64))?;
    // A file of no bytes has none elsewhere.
    let data = if kind == Kind::File && size == 0 { Some(Vec::new()) } else { data };
    let (uid, gid, mtime_ns) = (small("uid")?, small("gid")?, number("mtime_ns")?);
    Ok(Item { path, kind, mode, uid, gid, mtime_ns, size, data, facts: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let items = [
            Item {
                path: b"a".to_vec(),
                kind: Kind::Dir,
                mode: 0o1777,
                uid: 1,
                gid: u32::MAX,
                mtime_ns: u64::MAX,
                size: 0,
                data: None,
                facts: None,
            },
            Item {
                path: b"a/\xff".to_vec(),
                kind: Kind::File,
                mode: 0o600,
                uid: 0,
                gid: 0,
                mtime_ns: 5,
                size: 3,
                data: Some(b"\0\xfe\n".to_vec()),
                facts: None,
            },
            Item {
                path: b"a/l".to_vec(),
                kind: Kind::Symlink,
                mode: 0o777,
                uid: 0,
                gid: 0,
                mtime_ns: 5,
                size: 4,
                data: Some(b"../x".to_vec()),
                facts: None,
            },
        ];
        let mut left = items.clone().into_iter();
        let mut text = Vec::new();
        write(&mut text, &mut || Ok(left.next().map(|item| (item, None)))).unwrap();
        let mut found = Vec::new();
        read(&text[..], &mut |item, _| {
            found.push(item);
            Ok(())
        })
        .unwrap();
        assert_eq!(found, items);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (line, words) in [
            ("{", "no JSON"),
            (r#"{"type":"f"}"#, "no path"),
            (r#"{"path":"/a","type":"f"}"#, "/a: the path is absolute"),
            (r#"{"path":"a/../../b","type":"f"}"#, "a/../../b: the path goes up"),
            (r#"{"path":"a","type":"x"}"#, "type is none of"),
            (r#"{"path":"a","type":"f","mode":644}"#, "octal"),
            (r#"{"path":"a","type":"f","uid":-1}"#, "uid is no whole number"),
            (r#"{"path":"a","type":"f","gid":4294967296}"#, "gid is too large"),
            (r#"{"path":"a","type":"l"}"#, "target"),
        ] {
            let text = format!("\n{line}\n");
            let failure = read(text.as_bytes(), &mut |_, _| Ok(())).unwrap_err();
            assert_eq!(failure.status(), 2);
            let message = failure.message();
            assert!(message.starts_with("line 2: ") && message.contains(words), "{message}");
        }
        let long = vec![b' '; LINE_BYTES_MAX + 1];
        assert!(read(&long[..], &mut |_, _| Ok(())).unwrap_err().message().contains("more than"));
    }
}
