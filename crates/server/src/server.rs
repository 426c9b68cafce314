//! Starts the loops, the threads beside them and the admin page, and ends them in order.
//!
//! ```text
//!   end:  loops (what was read is carried out, replies are sent) -> syncer, checkpoints -> rows
//! ```
//!
//! **Invariant:** when [`Server::end`] returns, everything that was acknowledged is as durable as
//! was asked for, and the threads are gone.

use crate::admin::{Admin, Loops};
use crate::log::events;
use crate::service::Service;
use crate::state::{SharedRows, State};
use crate::{Control, Error, Listen, Options, Result, Transport};
use keyrack_net::{
    ClientMemory, DatagramPorts, Endpoint, Handle, Listener, ListenerKind, Timeouts,
};
use keyrack_rowstore::Rows;
use keyrack_vfs::Fs;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A running server.
pub struct Server {
    loops: Loops,
    admin: Option<Handle>,
    state: Arc<State>,
    threads: Vec<JoinHandle<()>>,
    bound: Vec<Bound>,
    grace: Duration,
}

/// A listener, and where it came to be.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The scheme, as in a configuration; `http` for the admin page.
    pub scheme: String,
    /// Where: a port that was 0 is the kernel's choice.
    pub endpoint: Endpoint,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Endpoint::Unix(path) => write!(f, "{}://{}", self.scheme, path.display()),
            endpoint => write!(f, "{}://{endpoint}", self.scheme),
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("bound", &self.bound).finish_non_exhaustive()
    }
}

impl Server {
    /// Serves `rows` as `options` say, which have passed [`Options::check`]. When this returns,
    /// clients can connect. `control` says when to end, to whoever calls [`Control::wait_for_end`].
    ///
    /// # Errors
    /// A listener that cannot be bound, certificates that cannot be read, no thread. The rows are
    /// dropped then.
    pub fn start(
        rows: Box<dyn Rows>,
        options: &Options,
        control: &Control,
        fs: &dyn Fs,
    ) -> Result<Self> {
        let admin = Admin::start(options, control)?;
        Self::start_with(admin, rows, options, control, fs)
    }

    /// As [`Server::start`], with an admin page that was started while the rows were being opened.
    ///
    /// # Errors
    /// Those of [`Server::start`].
    pub fn start_with(
        admin: Option<Admin>,
        rows: Box<dyn Rows>,
        options: &Options,
        control: &Control,
        fs: &dyn Fs,
    ) -> Result<Self> {
        let rows: SharedRows = Arc::new(rows);
        let memory = admin.as_ref().map_or_else(
            || ClientMemory::new(options.clients_memory_bytes_max()),
            |admin| Arc::clone(&admin.memory),
        );
        let shared: Loops = Arc::default();
        let handle = Arc::downgrade(&shared);
        let state = Arc::new(State::new(rows, options, control, memory, handle));
        let loops = keyrack_net::Server::start(
            Service { state: Arc::clone(&state) },
            net_options(options, &state, fs)?,
        )?;
        let mut bound = Vec::new();
        for (listen, endpoints) in options.listen.iter().zip(loops.local_addrs()) {
            let scheme = listen.to_string();
            let scheme = scheme.split_once("://").map_or("", |(scheme, _)| scheme);
            bound.extend(
                endpoints.iter().map(|e| Bound { scheme: scheme.to_owned(), endpoint: e.clone() }),
            );
        }
        *shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(loops);
        let mut server = Server {
            loops: shared,
            admin: None,
            state,
            threads: Vec::new(),
            bound,
            grace: options.shutdown_grace,
        };
        server.start_threads(options.checkpoint_interval)?;
        if let Some(admin) = admin {
            admin.show(Arc::clone(&server.state), Arc::clone(&server.loops));
            let endpoints = admin.handle.local_addrs().concat();
            server.bound.extend(
                endpoints.into_iter().map(|endpoint| Bound { scheme: "http".to_owned(), endpoint }),
            );
            server.admin = Some(admin.handle);
        }
        control.serving();
        Ok(server)
    }

    fn start_threads(&mut self, checkpoint_interval: Duration) -> Result<()> {
        let state = Arc::clone(&self.state);
        let syncer = move || state.syncer.run(&**state.rows, &state.control);
        let state = Arc::clone(&self.state);
        let checkpoints =
            move || state.control.write_checkpoints(&**state.rows, checkpoint_interval);
        let thread = std::thread::Builder::new().name("sync".to_owned());
        self.threads.push(thread.spawn(syncer).map_err(Error::Thread)?);
        let thread = std::thread::Builder::new().name("checkpoint".to_owned());
        self.threads.push(thread.spawn(checkpoints).map_err(Error::Thread)?);
        Ok(())
    }

    /// Where the server listens: a line for each listener and address, the admin page last.
    #[must_use]
    pub fn bound(&self) -> &[Bound] {
        &self.bound
    }

    /// Ends the server: what was read is carried out, its replies are sent, the rows are made
    /// durable and closed.
    ///
    /// # Errors
    /// The numbers of the loops and of the store.
    pub fn end(self) -> Result<()> {
        let Server { loops, admin, state, threads, grace, .. } = self;
        let loops = loops.lock().unwrap_or_else(PoisonError::into_inner).take();
        let served = loops.map(|loops| loops.shutdown(grace)).transpose();
        if let Some(admin) = admin {
            admin.shutdown(Duration::ZERO)?;
        }
        state.control.end("end");
        state.syncer.end();
        for thread in threads {
            // A panic of these threads has been printed; the rows are closed all the same.
            let _ = thread.join();
        }
        let rows = Arc::clone(&state.rows);
        drop(state);
        match Arc::try_unwrap(rows) {
            Ok(rows) => rows.close()?,
            Err(_) => events::rows_in_use(),
        }
        served?;
        Ok(())
    }
}

fn net_options(options: &Options, state: &State, fs: &dyn Fs) -> Result<keyrack_net::Options> {
    let timeout = |duration: Duration| (!duration.is_zero()).then_some(duration);
    let mut tls = None;
    if let (Some(cert), Some(key)) = (&options.tls_cert, &options.tls_key) {
        tls = Some(tls_server(fs, cert, key, options)?);
    }
    let listeners = options.listen.iter().map(|listen| listener(listen, options, tls.as_ref()));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(keyrack_net::Options {
        threads: options.loops(),
        cpus: if !options.pin {
            Vec::new()
        } else if options.cpus.is_empty() {
            (0..processors).collect()
        } else {
            options.cpus.clone()
        },
        listeners: listeners.collect::<Result<_>>()?,
        connections_max: options.connections_max,
        limits: keyrack_net::Limits {
            input_bytes_max: usize::try_from(options.request_bytes_max()).unwrap_or(usize::MAX),
            output_bytes_max: usize::try_from(options.output_bytes_max).unwrap_or(usize::MAX),
        },
        timeouts: Timeouts {
            first_request: None,
            request: timeout(options.request_timeout),
            idle: timeout(options.idle_timeout),
            stalled_output: timeout(options.stalled_output_timeout),
        },
        memory: Arc::clone(&state.clients_memory),
        ..keyrack_net::Options::default()
    })
}

#[cfg(feature = "tls")]
type Tls = keyrack_net::TlsServer;
#[cfg(not(feature = "tls"))]
type Tls = std::convert::Infallible;

#[cfg(feature = "tls")]
fn tls_server(
    fs: &dyn Fs,
    cert: &std::path::Path,
    key: &std::path::Path,
    options: &Options,
) -> Result<Tls> {
    Ok(keyrack_net::TlsServer::from_pem(fs, cert, key, options.tls_client_ca.as_deref())?)
}

#[cfg(not(feature = "tls"))]
fn tls_server(_: &dyn Fs, _: &std::path::Path, _: &std::path::Path, _: &Options) -> Result<Tls> {
    Err(Error::usage("this build has no TLS"))
}

fn listener(listen: &Listen, options: &Options, tls: Option<&Tls>) -> Result<Listener> {
    let endpoint: Endpoint = match listen.transport {
        Transport::Unix => format!("unix:{}", listen.address).parse()?,
        _ => listen.address.parse()?,
    };
    if listen.transport == Transport::Udp {
        let reply_bytes_max = crate::masstree::REPLY_BYTES_MAX;
        return Ok(Listener::datagrams(endpoint, DatagramPorts::PerLoop, reply_bytes_max));
    }
    let mut listener = match (listen.transport, tls) {
        #[cfg(feature = "tls")]
        (Transport::Tls, Some(tls)) => Listener::encrypted(endpoint, tls.clone()),
        (Transport::Tls, _) => return Err(Error::usage("a listener with +tls needs tls-cert")),
        _ => Listener::stream(endpoint),
    };
    if let ListenerKind::Stream { unix_mode, .. } = &mut listener.kind {
        *unix_mode = options.unix_mode;
    }
    Ok(listener)
}
