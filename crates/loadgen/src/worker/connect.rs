//! Making a connection to a node, and asking it for the map of its cluster. Both block, so they run
//! before a phase or in a background thread.

use std::io::{self, Read, Write};
use std::time::Duration;

use super::node::Node;
use super::transport::{Transport, unheard};
use crate::plan::Settings;
use crate::route::{Topology, parse_topology};
use crate::target;

/// Bytes of a cluster's map at most: a range for each slot, and replicas of each.
const TOPOLOGY_BYTES_MAX: usize = 64 << 20;

/// A result that a thread which may block sends to its worker, which must not.
#[derive(Debug)]
pub(super) enum BackgroundEvent {
    /// The connection of this index was made, or failed.
    Reconnected(usize, io::Result<Transport>),
    /// Which node has which slots of a cluster.
    Topology(io::Result<Topology>),
}

/// Connects to a node and greets it. The connection does not block.
pub(super) fn open(node: &Node, settings: &Settings) -> io::Result<Transport> {
    let mut stream = greeted(node, settings)?;
    stream.set_nonblocking()?;
    Ok(stream)
}

/// Asks a node of a cluster which node has which slots.
pub(super) fn discover_topology(node: &Node, settings: &Settings) -> io::Result<Topology> {
    let mut stream = greeted(node, settings)?;
    stream.write_all(b"*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n")?;
    stream.flush()?;
    let (mut reply, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        reply.extend_from_slice(&chunk[..count]);
        let topology = parse_topology(&reply, &node.server.host);
        if let Some(topology) = topology.map_err(io::Error::other)? {
            return Ok(topology);
        }
        if reply.len() > TOPOLOGY_BYTES_MAX {
            return Err(io::Error::other("an endless answer to CLUSTER SLOTS"));
        }
    }
}

/// Connects to a node and greets it. The connection blocks.
fn greeted(node: &Node, settings: &Settings) -> io::Result<Transport> {
    let patience = Duration::from_secs_f64(settings.connect_timeout_s);
    let mut stream = Transport::connect(node, patience)?;
    if !settings.nodelay {
        stream.set_nodelay(false)?;
    }
    let credentials = settings.credentials.as_ref();
    target::greet(&mut stream, settings.protocol, credentials).map_err(unheard)?;
    Ok(stream)
}
