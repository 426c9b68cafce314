//! `url`: keys of real length and likeness, from a file.
//!
//! The parameter `file` names lines of two words, an operation, which is not looked at, and a URL.
//! The job inserts ten URLs from the file, then removes five from its start, and so on to its end
//! or the limit; the value is always `2014`. Then it gets those that it has not removed, and checks
//! them. All threads do the same.
//!
//! ```text
//!   inserts:   u0 .. u9       u10 .. u19       u20 ..         ten at a time
//!   removals:          u0 .. u4         u5 .. u9              five at a time
//!   gets:      from where the removals ended
//! ```
//!
//! Words are read as a C++ stream reads them. That shows at the end of a file: a last word with
//! nothing behind it ends the inserts at once; with a line end behind it, there is one more round,
//! of no inserts and up to five removals.

use super::check;
use super::client::{Client, Halt};
use super::row::{Row, Value};

const INSERTS: usize = 10;
const REMOVALS: usize = 5;
const VALUE: &[u8] = b"2014";

/// Reads pairs of words, and is good until it has touched the end.
struct Pairs<'f> {
    rest: &'f [u8],
    good: bool,
}

/// What C calls a space.
fn is_space(byte: &u8) -> bool {
    byte.is_ascii_whitespace() || *byte == 0x0b
}

impl<'f> Pairs<'f> {
    fn new(text: &'f [u8]) -> Self {
        Pairs { rest: text, good: true }
    }

    fn word(&mut self) -> Option<&'f [u8]> {
        let start = self.rest.iter().position(|byte| !is_space(byte)).filter(|_| self.good);
        let Some(start) = start else {
            self.good = false;
            return None;
        };
        let rest = &self.rest[start..];
        let end = rest.iter().position(is_space);
        self.good = end.is_some();
        let (word, rest) = rest.split_at(end.unwrap_or(rest.len()));
        self.rest = rest;
        Some(word)
    }

    /// The second word of the next pair.
    fn url(&mut self) -> Option<&'f [u8]> {
        self.word()?;
        self.word()
    }
}

pub(crate) fn url(client: &mut dyn Client) -> Result<(), Halt> {
    let Some(text) = client.file("file").map(<[u8]>::to_vec) else {
        let mut row = Row::new();
        row.set("ok", Value::Flag(false));
        row.set("error", Value::Text("need 'file=URLFILE' parameter".to_owned()));
        client.report(row);
        return Ok(());
    };
    let (mut inserts, mut removals) = (Pairs::new(&text), Pairs::new(&text));
    let (mut inserted, mut removed, mut got) = (0, 0, 0);
    let limit = client.limit();
    let begin = client.seconds();
    while inserted < limit && inserts.good {
        for _ in 0..INSERTS {
            let Some(url) = inserts.url() else { break };
            client.put(url, VALUE)?;
            inserted += 1;
        }
        for _ in 0..REMOVALS {
            let Some(url) = removals.url() else { break };
            client.remove(url)?;
            removed += 1;
        }
    }
    client.wait_all()?;
    let write_s = client.seconds() - begin;
    client.notice("insert done");
    let begin = client.seconds();
    while removed + got != inserted {
        let Some(url) = removals.url() else { break };
        check::get(client, url, VALUE)?;
        got += 1;
    }
    client.wait_all()?;
    let get_s = client.seconds() - begin;
    let mut row = Row::new();
    row.set("puts", Value::Count(inserted));
    row.set("removes", Value::Count(removed));
    row.set_rate("gets", got, get_s);
    row.set_rate("ops", inserted + removed, write_s);
    client.report(row);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_file_is_touched_by_a_word_without_a_blank_behind_it() {
        let mut pairs = Pairs::new(b" put  a\nput b\n");
        assert_eq!((pairs.url(), pairs.good), (Some(b"a".as_slice()), true));
        assert_eq!((pairs.url(), pairs.good), (Some(b"b".as_slice()), true));
        assert_eq!((pairs.url(), pairs.good), (None, false));
        let mut pairs = Pairs::new(b"put a\x0bput b");
        assert_eq!((pairs.url(), pairs.good), (Some(b"a".as_slice()), true));
        assert_eq!((pairs.url(), pairs.good), (Some(b"b".as_slice()), false));
        assert_eq!(pairs.url(), None);
        assert_eq!(Pairs::new(b"put").url(), None);
    }
}
