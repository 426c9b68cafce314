//! A running server: its event loops and its background thread.

use super::background::BackgroundThread;
use super::core::Core;
use super::options::{PEER_TIMEOUT, ServeOptions};
use super::service::Service;
use crate::job::random_token;
use crate::namespace::Namespace;
use crate::rpc::client::connection::ClientOptions;
use crate::rpc::codec::FRAME_BYTES_MAX;
use keyrack_net::{DatagramPorts, Endpoint, Handle, Limits, Listener, Options, Server};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// A server that runs.
#[derive(Debug)]
pub struct Served {
    /// The loops.
    pub handle: Handle,
    map: Arc<OnceLock<Vec<String>>>,
    calls: Arc<AtomicU64>,
    pub(crate) core: Arc<Core>,
    peers: ClientOptions,
    /// The thread that works with the other servers.
    background: Mutex<Option<BackgroundThread>>,
}

impl Served {
    /// Says where all servers are. Until then a request for the map is refused, and directories do
    /// not split.
    ///
    /// # Errors
    /// An address is none; what the server left undone cannot be read; a thread that cannot be
    /// started.
    pub fn set_map(
        &self,
        addresses: Vec<String>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let first = |text: &String| -> Result<Endpoint, String> {
            // Behind a blank is the address for datagrams.
            let (first, _) = text.split_once(' ').unwrap_or((text, ""));
            first.parse().map_err(|error| format!("'{text}' is no address of a server: {error}"))
        };
        let endpoints = addresses.iter().map(first).collect::<Result<Vec<_>, _>>()?;
        // The first map stays: servers do not move.
        if self.map.set(addresses).is_ok() {
            let background = BackgroundThread::start(&self.core, endpoints, self.peers.clone())?;
            *self.background.lock().unwrap_or_else(PoisonError::into_inner) = background;
        }
        Ok(())
    }

    /// Ends it: first what it does with other servers, then its clients.
    ///
    /// # Errors
    /// A loop that failed; what it could not do with other servers because its store refused it.
    pub fn shutdown(self, grace: Duration) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let background = self.background.into_inner().unwrap_or_else(PoisonError::into_inner);
        let ended = background.map_or(Ok(()), BackgroundThread::end);
        self.handle.shutdown(grace)?;
        Ok(ended?)
    }

    /// Calls that were carried out.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

/// Starts a server; a dummy needs no name space.
///
/// # Errors
/// Listeners that cannot be bound, options that make no sense; a name space without a root.
pub fn serve(
    space: Option<Namespace>,
    options: ServeOptions,
) -> Result<Served, Box<dyn std::error::Error + Send + Sync>> {
    let mut listeners = options.listen.clone();
    for (endpoint, bytes) in &options.datagrams {
        listeners.push(Listener::datagrams(endpoint.clone(), DatagramPorts::Shared, *bytes));
    }
    let threads = options.threads.max(1);
    let peers = ClientOptions {
        // Where none is asked for, any is right.
        token: options.token.clone().unwrap_or_default(),
        timeout: PEER_TIMEOUT,
        connect: options.connect.clone(),
        ..ClientOptions::default()
    };
    let start = match &space {
        Some(space) if !space.is_read_only() => space.epoch() as u32,
        // Nothing counts these starts.
        _ => {
            let [a, b, c, d, ..] = random_token();
            u32::from_le_bytes([a, b, c, d])
        }
    };
    let service = Service::new(space, options, start)?;
    let (map, calls) = (Arc::clone(&service.map), Arc::clone(&service.calls));
    let core = Arc::clone(&service.core);
    let limits =
        Limits { input_bytes_max: FRAME_BYTES_MAX + (64 << 10), output_bytes_max: 8 << 20 };
    let handle =
        Server::start(service, Options { threads, listeners, limits, ..Options::default() })?;
    Ok(Served { handle, map, calls, core, peers, background: Mutex::new(None) })
}
