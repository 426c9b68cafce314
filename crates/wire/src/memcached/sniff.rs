//! Which protocol a peer speaks, told from its first bytes.
//!
//! The binary protocol begins with 0x80, which begins no line of text. Web browsers can be made to
//! send requests anywhere, with commands in their body: what looks like HTTP is never a command.

/// The openings of HTTP's requests and of the one header that each has.
const HTTP: [&[u8]; 10] = [
    b"GET ",
    b"POST ",
    b"HEAD ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
    b"TRACE ",
    b"CONNECT ",
    b"Host:",
];

/// What the first bytes of a connection are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sniffed {
    /// Lines of text, or nothing that is known: the text protocol has the words to say so.
    Text,
    /// The binary protocol.
    Binary,
    /// HTTP: to be closed, without a reply.
    Http,
}

/// What `first`, the first bytes of a connection, are; nothing while they could still become more
/// than one thing.
#[must_use]
pub fn sniff(first: &[u8]) -> Option<Sniffed> {
    match first.first()? {
        0x80 => Some(Sniffed::Binary),
        _ if is_http(first) => Some(Sniffed::Http),
        _ if HTTP.iter().any(|opening| opening.starts_with(first)) => None,
        _ => Some(Sniffed::Text),
    }
}

/// Whether a line begins as HTTP's do.
pub(super) fn is_http(line: &[u8]) -> bool {
    HTTP.iter().any(|opening| line.starts_with(opening))
}

/// Whether a line ends as HTTP's first does, whatever it asks for.
pub(super) fn ends_as_http(line: &[u8]) -> bool {
    let last = line.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
    last.starts_with(b"HTTP/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell() {
        assert_eq!(sniff(b""), None);
        assert_eq!(sniff(b"\x80"), Some(Sniffed::Binary));
        assert_eq!(sniff(b"g"), Some(Sniffed::Text));
        assert_eq!(sniff(b"GET"), None);
        assert_eq!(sniff(b"GET /"), Some(Sniffed::Http));
        assert_eq!(sniff(b"GEX"), Some(Sniffed::Text));
        assert_eq!(sniff(b"POST /x HTTP/1.1\r\n"), Some(Sniffed::Http));
        assert_eq!(sniff(b"Host: a"), Some(Sniffed::Http));
        assert_eq!(sniff(b"\x16\x03\x01"), Some(Sniffed::Text));
        assert_eq!(sniff(b"\x81"), Some(Sniffed::Text));
    }
}
