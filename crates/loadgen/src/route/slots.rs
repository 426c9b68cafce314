//! Redis Cluster's part of arithmetic and text: the slot of a key, the answer to `CLUSTER SLOTS`,
//! the words of a redirection.
//!
//! ```text
//!   user:{42}:name          only what stands in the first braces is hashed, unless it is empty
//!   CRC-16/XMODEM mod 16384
//!   MOVED 3999 10.0.0.2:6381        the slot is there from now on
//!   ASK 3999 10.0.0.2:6381          this key is there, this once, behind ASKING
//! ```

use keyrack_wire::resp::{Limits, ReplyParser, Token};

pub(crate) const SLOTS: usize = 16_384;
/// No node: as far as we know nobody has the slot.
const NOBODY: u16 = u16::MAX;

/// The table of CRC-16/XMODEM: the polynomial x^16 + x^12 + x^5 + 1, highest bit first.
const CRC: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[inline]
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    let crc = tag(key)
        .iter()
        .fold(0u16, |crc, byte| crc << 8 ^ CRC[usize::from((crc >> 8) as u8 ^ byte)]);
    crc % SLOTS as u16
}

fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = memchr::memchr(b'{', key) else { return key };
    match memchr::memchr(b'}', &key[open + 1..]) {
        Some(bytes) if bytes > 0 => &key[open + 1..open + 1 + bytes],
        _ => key,
    }
}

/// The nodes of slots, by places in somebody's list of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slots {
    nodes: Vec<u16>,
}

impl Slots {
    /// Nobody has any.
    pub(crate) fn new() -> Slots {
        Slots { nodes: vec![NOBODY; SLOTS] }
    }

    pub(crate) fn assign(&mut self, first: u16, last: u16, node: usize) {
        let node = u16::try_from(node).unwrap_or(NOBODY);
        if let Some(range) = self.nodes.get_mut(usize::from(first)..=usize::from(last)) {
            range.fill(node);
        }
    }

    /// The node of a key; the first where nobody is known to have it, which will say who does.
    #[inline]
    pub(crate) fn node_of(&self, key: &[u8]) -> usize {
        match self.nodes[usize::from(slot_of(key))] {
            NOBODY => 0,
            node => usize::from(node),
        }
    }
}

/// Who has which slots: first, last, host and port of the master.
pub(crate) type Topology = Vec<(u16, u16, String)>;

/// Reads the answer to `CLUSTER SLOTS` of a node at `host`. `None`: it has not come whole.
///
/// # Errors
/// What the server says instead, or that it is no such answer.
pub(crate) fn parse_topology(bytes: &[u8], host: &str) -> Result<Option<Topology>, String> {
    let mut rest = bytes;
    let reply = ReplyParser::new().next(&mut rest, &Limits::default());
    let Some(reply) = reply.map_err(|error| error.to_string())? else { return Ok(None) };
    let mut tokens = reply.tokens();
    let other = || "the answer to CLUSTER SLOTS is none".to_owned();
    let ranges = match tokens.next() {
        Some(Token::Array(ranges)) => ranges,
        Some(Token::Error(words)) => return Err(String::from_utf8_lossy(words).into_owned()),
        _ => return Err(other()),
    };
    let mut topology = Topology::with_capacity(ranges);
    for _ in 0..ranges {
        let Some(Token::Array(parts @ 3..)) = tokens.next() else { return Err(other()) };
        let mut number = || match tokens.next() {
            Some(Token::Integer(slot)) => u16::try_from(slot).ok(),
            _ => None,
        };
        let ends = (number(), number());
        let (Some(first), Some(last)) = ends else { return Err(other()) };
        if first > last || usize::from(last) >= SLOTS {
            return Err(other());
        }
        // The master comes first: address, port, and more that differs by version.
        let Some(Token::Array(fields @ 2..)) = tokens.next() else { return Err(other()) };
        let place = match (tokens.next(), tokens.next()) {
            (Some(Token::Bulk(named)), Some(Token::Integer(port))) => place(named, port, host),
            // A node that does not know its own address is where it was asked.
            (Some(Token::Null), Some(Token::Integer(port))) => place(b"", port, host),
            _ => return Err(other()),
        };
        (2..fields).for_each(|_| tokens.skip_value());
        (3..parts).for_each(|_| tokens.skip_value());
        topology.push((first, last, place));
    }
    Ok(Some(topology))
}

fn place(named: &[u8], port: i64, host: &str) -> String {
    let named = String::from_utf8_lossy(named);
    let host = if named.is_empty() || named == "?" { host } else { &named };
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// A redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redirect {
    /// The slot.
    pub(crate) slot: u16,
    /// Where to go.
    pub(crate) place: String,
}

impl Redirect {
    /// Reads the words of a redirection, as a node at `host` sent them.
    pub(crate) fn parse(words: &[u8], host: &str) -> Option<Redirect> {
        let text = std::str::from_utf8(words).ok()?;
        let mut words = text.split(' ').skip(1);
        let slot = words.next()?.parse().ok().filter(|slot| usize::from(*slot) < SLOTS)?;
        let (named, port) = words.next()?.trim_end().rsplit_once(':')?;
        let named = named.trim_start_matches('[').trim_end_matches(']');
        let port = port.parse::<u16>().ok()?;
        Some(Redirect { slot, place: place(named.as_bytes(), i64::from(port), host) })
    }
}
