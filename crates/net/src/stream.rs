//! The client's side of a connection, which blocks: for tests, and for programs that drive a server
//! from threads of their own.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

#[cfg(feature = "tls")]
use rustls::{ClientConnection, StreamOwned};

use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
#[cfg(feature = "tls")]
use crate::tls::TlsClient;

/// How to connect. `None` waits for ever.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// For the connection itself, for each address of a name. Unix sockets answer at once.
    pub connect_timeout: Option<Duration>,
    /// For each read.
    pub read_timeout: Option<Duration>,
    /// For each write.
    pub write_timeout: Option<Duration>,
    /// Speaks TLS.
    #[cfg(feature = "tls")]
    pub tls: Option<TlsClient>,
}

impl ConnectOptions {
    /// The same timeout for the connection, each read and each write; no TLS.
    pub fn with_timeout(timeout: Duration) -> Self {
        ConnectOptions {
            connect_timeout: Some(timeout),
            read_timeout: Some(timeout),
            write_timeout: Some(timeout),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

#[derive(Debug)]
enum Plain {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection that blocks.
pub struct Stream {
    inner: Inner,
}

enum Inner {
    Plain(Plain),
    #[cfg(feature = "tls")]
    Tls(Box<StreamOwned<ClientConnection, Plain>>),
}

impl Stream {
    /// Connects. A name is resolved, and its addresses are tried in turn. With TLS, the handshake
    /// happens at the first read or write, which then reports what is wrong with it.
    ///
    /// # Errors
    /// No address, no server, or a timeout.
    pub fn connect(endpoint: &Endpoint, options: &ConnectOptions) -> Result<Stream> {
        let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for candidate in endpoint.resolve()? {
            match connect_plain(&candidate, options) {
                Ok(plain) => return Stream::over(plain, options),
                Err(cause) => failure = cause,
            }
        }
        let endpoint = endpoint.to_string();
        Err(Error::Endpoint { action: "connect to", endpoint, cause: failure })
    }

    #[cfg(feature = "tls")]
    fn over(plain: Plain, options: &ConnectOptions) -> Result<Stream> {
        let Some(tls) = &options.tls else { return Ok(Stream { inner: Inner::Plain(plain) }) };
        let session = ClientConnection::new(tls.config.clone(), tls.name.clone())
            .map_err(|cause| Error::usage(cause.to_string()))?;
        Ok(Stream { inner: Inner::Tls(Box::new(StreamOwned::new(session, plain))) })
    }

    #[cfg(not(feature = "tls"))]
    fn over(plain: Plain, _: &ConnectOptions) -> Result<Stream> {
        Ok(Stream { inner: Inner::Plain(plain) })
    }

    /// Tells the server that nothing more will come; replies can still be read.
    ///
    /// # Errors
    /// A connection that is closed already.
    pub fn shutdown_write(&mut self) -> io::Result<()> {
        #[cfg(feature = "tls")]
        if let Inner::Tls(stream) = &mut self.inner {
            stream.conn.send_close_notify();
            stream.flush()?;
        }
        match self.plain() {
            Plain::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Plain::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    /// From now on reads and writes that would wait fail with [`io::ErrorKind::WouldBlock`]
    /// instead; or wait again. What TLS could not send leaves by a later write or flush.
    ///
    /// # Errors
    /// A connection that is closed already.
    pub fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        match self.plain() {
            Plain::Tcp(stream) => stream.set_nonblocking(is_nonblocking),
            Plain::Unix(stream) => stream.set_nonblocking(is_nonblocking),
        }
    }

    /// From now on a read waits at most so long; `None` waits for ever.
    ///
    /// # Errors
    /// A connection that is closed already.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self.plain() {
            Plain::Tcp(stream) => stream.set_read_timeout(timeout),
            Plain::Unix(stream) => stream.set_read_timeout(timeout),
        }
    }

    /// Lets the kernel collect small writes, as Nagle would have it, or not. Connections start
    /// without; for Unix sockets it means nothing.
    ///
    /// # Errors
    /// A connection that is closed already.
    pub fn set_nodelay(&self, is_nodelay: bool) -> io::Result<()> {
        match self.plain() {
            Plain::Tcp(stream) => stream.set_nodelay(is_nodelay),
            Plain::Unix(_) => Ok(()),
        }
    }

    /// Has TLS bytes that the socket did not take yet? Then [`Write::flush`] is due when it does.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        match &self.inner {
            Inner::Plain(_) => false,
            #[cfg(feature = "tls")]
            Inner::Tls(stream) => stream.conn.wants_write(),
        }
    }

    /// Does it speak TLS? Then a short read says nothing about what else has come.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        match &self.inner {
            Inner::Plain(_) => false,
            #[cfg(feature = "tls")]
            Inner::Tls(_) => true,
        }
    }

    /// The same connection once more, so that one thread can read and another write.
    ///
    /// # Errors
    /// With TLS, whose session is one; and when no descriptor is left.
    pub fn try_clone(&self) -> io::Result<Stream> {
        let plain = match &self.inner {
            Inner::Plain(Plain::Tcp(stream)) => Plain::Tcp(stream.try_clone()?),
            Inner::Plain(Plain::Unix(stream)) => Plain::Unix(stream.try_clone()?),
            #[cfg(feature = "tls")]
            Inner::Tls(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(Stream { inner: Inner::Plain(plain) })
    }

    fn plain(&self) -> &Plain {
        match &self.inner {
            Inner::Plain(plain) => plain,
            #[cfg(feature = "tls")]
            Inner::Tls(stream) => &stream.sock,
        }
    }
}

fn connect_plain(endpoint: &Endpoint, options: &ConnectOptions) -> io::Result<Plain> {
    let plain = match endpoint {
        Endpoint::Ip(address) => {
            let stream = match options.connect_timeout {
                Some(timeout) => TcpStream::connect_timeout(address, timeout)?,
                None => TcpStream::connect(address)?,
            };
            stream.set_nodelay(true)?;
            stream.set_read_timeout(options.read_timeout)?;
            stream.set_write_timeout(options.write_timeout)?;
            Plain::Tcp(stream)
        }
        Endpoint::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(options.read_timeout)?;
            stream.set_write_timeout(options.write_timeout)?;
            Plain::Unix(stream)
        }
        // Resolved before.
        Endpoint::Host { .. } => return Err(io::ErrorKind::AddrNotAvailable.into()),
    };
    Ok(plain)
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match &mut self.inner {
            Inner::Plain(plain) => plain.read(bytes),
            #[cfg(feature = "tls")]
            Inner::Tls(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.inner {
            Inner::Plain(plain) => plain.write(bytes),
            #[cfg(feature = "tls")]
            Inner::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.inner {
            Inner::Plain(plain) => plain.flush(),
            #[cfg(feature = "tls")]
            Inner::Tls(stream) => stream.flush(),
        }
    }
}

impl Read for Plain {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Plain::Tcp(stream) => stream.read(bytes),
            Plain::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Plain::Tcp(stream) => stream.write(bytes),
            Plain::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Plain::Tcp(stream) => stream.flush(),
            Plain::Unix(stream) => stream.flush(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.plain() {
            Plain::Tcp(stream) => stream.as_fd(),
            Plain::Unix(stream) => stream.as_fd(),
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stream").field(self.plain()).finish()
    }
}
