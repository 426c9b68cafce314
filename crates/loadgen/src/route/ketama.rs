//! Points on a circle, so that a server more or less moves few keys: Ketama as libmemcached has it
//! with weights, all of which are 1 here.
//!
//! ```text
//!   of each server    MD5("host-0") .. MD5("host-39")         at the default port
//!                     MD5("host:port-0") ..                   at another
//!   of each digest    four points, its four little-endian words
//!   of a key          the first word of MD5(key); its server is that of the first point from
//!                     there on, beyond the last point the first
//! ```

use super::md5::md5;

/// Digests of a server. Each has four points.
const DIGESTS: u32 = 40;
/// The port that is not written.
const PORT: u16 = 11_211;

/// The circle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Continuum {
    /// Where, and whose; ascending.
    points: Vec<(u32, u32)>,
}

impl Continuum {
    /// The circle of some servers: their names and ports.
    pub(super) fn new(places: &[(String, u16)]) -> Continuum {
        let mut points = Vec::with_capacity(places.len() * DIGESTS as usize * 4);
        for (index, (host, port)) in (0u32..).zip(places) {
            for number in 0..DIGESTS {
                let text = match *port {
                    PORT => format!("{host}-{number}"),
                    port => format!("{host}:{port}-{number}"),
                };
                points.extend(md5(text.as_bytes()).map(|point| (point, index)));
            }
        }
        points.sort_unstable();
        Continuum { points }
    }

    /// The place of a key's server.
    pub(super) fn server_of(&self, key: &[u8]) -> usize {
        let [hash, ..] = md5(key);
        let at = self.points.partition_point(|(point, _)| *point < hash);
        let (_, index) = self
            .points
            .get(at)
            .or(self.points.first())
            .copied()
            .expect("a continuum has points of at least one server");
        index as usize
    }
}
