//! Where rank 0 listens, as a text for the other ranks: `HOST:PORT/TOKEN`.
//!
//! The text comes to them through a launcher or a file, so it is checked before a rank connects.

use super::collectives;
use super::error::Result;
use std::net::TcpListener;

/// Bytes of the text, at most: the longest name of a machine, a port and a token.
pub(super) const TEXT_BYTES_MAX: usize = 512;

/// A free port at which rank 0 listens.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) listener: TcpListener,
    pub(super) token: [u8; 16],
    /// What the other ranks need.
    pub(super) text: String,
}

impl Offer {
    /// Listens, on 127.0.0.1 alone if all ranks run on this machine.
    pub(super) fn listen(is_one_machine: bool) -> Result<Offer> {
        let host = if is_one_machine { "127.0.0.1" } else { "0.0.0.0" };
        let listener = collectives::listen(&format!("{host}:0"))?;
        let port = collectives::port_of(&listener)?;
        let shown = if is_one_machine { host.to_owned() } else { collectives::host_name() };
        let token = super::random_token();
        let text = format!("{shown}:{port}/{}", collectives::hex(&token));
        Ok(Offer { listener, token, text })
    }
}

/// The address and the token in the text; `None` if it is anything else.
pub(super) fn parse(text: &str) -> Option<(String, [u8; 16])> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let (address, token) = text.split_once('/')?;
    let token = collectives::unhex(token)?;
    let (host, port) = address.rsplit_once(':')?;
    let port: u16 = port.parse().ok().filter(|port| *port != 0)?;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    if host.is_empty() || !host.chars().all(is_plain) {
        return None;
    }
    // A machine reaches itself, whatever its name resolves to.
    let host = if host == collectives::host_name() { "127.0.0.1" } else { host };
    Some((format!("{host}:{port}"), token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_rank_0_is_read_back() {
        for is_one_machine in [true, false] {
            let offer = Offer::listen(is_one_machine).unwrap();
            let (address, token) = parse(&offer.text).unwrap();
            assert_eq!(token, offer.token);
            let port = collectives::port_of(&offer.listener).unwrap();
            assert_eq!(address, format!("127.0.0.1:{port}"), "the machine itself");
        }
        let elsewhere = format!("node-7.a_b:65535/{}", "ab".repeat(16));
        assert_eq!(parse(&elsewhere), Some(("node-7.a_b:65535".to_owned(), [0xab; 16])));
    }

    #[test]
    fn a_text_that_is_no_address_is_refused() {
        let token = "ab".repeat(16);
        for address in
            ["", ":1", "a:", "a:0", "a:65536", "a:-1", "a:b", "a b:1", "a\n:1", "\u{e9}:1"]
        {
            assert_eq!(parse(&format!("{address}/{token}")), None, "{address}");
        }
        for text in ["a:1", "a:1/", "a:1/abcd", &format!("a:1/{token}0"), &format!("a/b:1/{token}")]
        {
            assert_eq!(parse(text), None, "{text}");
        }
        let room = TEXT_BYTES_MAX - format!(":1/{token}").len();
        let of = |length: usize| parse(&format!("{}:1/{token}", "a".repeat(length)));
        assert!(of(room).is_some());
        assert!(of(room + 1).is_none(), "the limit is exact");
    }
}
