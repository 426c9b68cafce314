//! TLS 1.2 and 1.3 by rustls: certificates from PEM files, and the session of a connection.
//!
//! A session is a machine between two streams of bytes and does no input or output of its own: what
//! the socket gave goes in ([`Session::decode`]), and everything that can be decoded comes out at
//! once, so rustls holds no plaintext between iterations. Replies are encoded in slices that are
//! sent before the next is encoded, so it holds one slice of ciphertext at most.

use std::fmt;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::Arc;

use keyrack_vfs::Fs;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, ServerConnection};

use crate::error::{Error, Result};
use crate::output::Output;
use crate::socket::Socket;
use crate::stats::Counters;
use crate::transport::Sent;

/// Bytes that are encoded before they are sent: four records of TLS.
const SLICE_BYTES: usize = 64 << 10;

/// The certificates of a server, and the authorities of its clients.
#[derive(Clone)]
pub struct TlsServer {
    config: Arc<ServerConfig>,
}

impl TlsServer {
    /// Reads the chain of certificates (the server's own first) and its private key, both PEM. With
    /// `client_ca`, clients must show a certificate that one of the certificates in that file has
    /// signed.
    ///
    /// # Errors
    /// A file that cannot be read, or holds no usable certificate or key.
    pub fn from_pem(
        fs: &dyn Fs,
        chain_path: &Path,
        key_path: &Path,
        client_ca: Option<&Path>,
    ) -> Result<Self> {
        let chain = certificates(fs, chain_path)?;
        let key_text = fs.read(key_path)?;
        let key = PrivateKeyDer::from_pem_slice(&key_text)
            .map_err(|cause| refused(key_path, format!("no private key: {cause}")))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|cause| refused(chain_path, cause.to_string()))?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(root_store(fs, path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                    .build()
                    .map_err(|cause| refused(path, cause.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder
            .with_single_cert(chain, key)
            .map_err(|cause| refused(chain_path, cause.to_string()))?;
        Ok(TlsServer { config: Arc::new(config) })
    }

    /// The session of a new connection; `None` if rustls has none to give.
    pub(crate) fn session(&self) -> Option<Box<Session>> {
        let connection = ServerConnection::new(Arc::clone(&self.config)).ok()?;
        Some(Box::new(Session { connection }))
    }
}

impl fmt::Debug for TlsServer {
    /// Nothing of the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsServer").finish_non_exhaustive()
    }
}

/// The authorities that a client trusts, and the name that it expects of the server.
#[derive(Clone)]
pub struct TlsClient {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

impl TlsClient {
    /// Trusts the certificates of a PEM file, for a server that shows the given name or address.
    /// With `identity`, a chain and a key, the client shows a certificate of its own.
    ///
    /// # Errors
    /// A file that cannot be read, or holds no usable certificate or key; no valid name.
    pub fn from_pem(
        fs: &dyn Fs,
        ca_path: &Path,
        server_name: &str,
        identity: Option<(&Path, &Path)>,
    ) -> Result<Self> {
        let name = ServerName::try_from(server_name.to_owned())
            .map_err(|_| Error::usage(format!("{server_name:?} is not a valid server name")))?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|cause| refused(ca_path, cause.to_string()))?
            .with_root_certificates(root_store(fs, ca_path)?);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((chain_path, key_path)) => {
                let key_text = fs.read(key_path)?;
                let key = PrivateKeyDer::from_pem_slice(&key_text)
                    .map_err(|cause| refused(key_path, format!("no private key: {cause}")))?;
                builder
                    .with_client_auth_cert(certificates(fs, chain_path)?, key)
                    .map_err(|cause| refused(chain_path, cause.to_string()))?
            }
        };
        Ok(TlsClient { config: Arc::new(config), name })
    }
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").field("name", &self.name).finish_non_exhaustive()
    }
}

fn certificates(fs: &dyn Fs, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let text = fs.read(path)?;
    let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|cause| refused(path, cause.to_string()))?;
    if found.is_empty() {
        return Err(refused(path, "no certificate".to_owned()));
    }
    Ok(found)
}

fn root_store(fs: &dyn Fs, path: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(fs, path)? {
        roots.add(certificate).map_err(|cause| refused(path, cause.to_string()))?;
    }
    Ok(roots)
}

fn refused(path: &Path, reason: String) -> Error {
    Error::Certificate { path: path.to_owned(), reason }
}

/// One connection's side of TLS.
#[derive(Debug)]
pub(crate) struct Session {
    connection: ServerConnection,
}

impl Session {
    /// Takes what the socket gave, and appends what it says. Has the client closed its side?
    pub(crate) fn decode(&mut self, mut cipher: &[u8], plain: &mut Vec<u8>) -> io::Result<bool> {
        let mut is_closed = false;
        while !cipher.is_empty() && !is_closed {
            let taken = self.connection.read_tls(&mut cipher)?;
            let state = self.connection.process_new_packets().map_err(io::Error::other)?;
            is_closed = state.peer_has_closed();
            let mut left = state.plaintext_bytes_to_read();
            let mut reader = self.connection.reader();
            while left > 0 {
                let part = reader.fill_buf()?;
                let count = part.len();
                plain.extend_from_slice(part);
                reader.consume(count);
                left = left.saturating_sub(count.max(1));
            }
            if taken == 0 {
                break;
            }
        }
        Ok(is_closed)
    }

    pub(crate) fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Encodes and sends slice by slice.
    pub(crate) fn send(
        &mut self,
        socket: &mut Socket,
        output: &mut Output,
        counters: &Counters,
    ) -> io::Result<Sent> {
        let mut has_moved = false;
        loop {
            match self.flush(socket, counters)? {
                Sent::All => {}
                Sent::Part { has_moved: now } => {
                    return Ok(Sent::Part { has_moved: has_moved || now });
                }
            }
            if output.is_empty() {
                return Ok(Sent::All);
            }
            let front = output.front();
            let slice = &front[..front.len().min(SLICE_BYTES)];
            let count = self.connection.writer().write(slice)?;
            if count == 0 {
                // Before the end of the handshake rustls takes only so much.
                return Ok(Sent::Part { has_moved });
            }
            output.consume(count);
            has_moved = true;
        }
    }

    /// Sends what is encoded.
    pub(crate) fn flush(&mut self, socket: &mut Socket, counters: &Counters) -> io::Result<Sent> {
        let mut has_moved = false;
        while self.connection.wants_write() {
            counters.writes.add(1);
            match self.connection.write_tls(socket) {
                Ok(count) => {
                    counters.bytes_out.add(count as u64);
                    has_moved |= count > 0;
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Sent::Part { has_moved });
                }
                Err(cause) => return Err(cause),
            }
        }
        Ok(Sent::All)
    }

    pub(crate) fn say_goodbye(&mut self) {
        self.connection.send_close_notify();
    }
}
