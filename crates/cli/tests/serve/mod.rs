//! `keyrack serve`, spoken to as clients do: plain sockets against the real binary, on ports that
//! the kernel chose.

mod admin;
pub(crate) mod bars;
mod clients;
mod disk;
mod durable;
mod kill;
mod log;
mod original;
mod refusals;
mod soak;

use crate::support::{Lab, Running};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// A server that is ready.
pub(crate) struct Served {
    pub(crate) child: Running,
}

impl Served {
    /// Starts `keyrack serve` with these words, and waits until it is ready.
    pub(crate) fn start(lab: &Lab, words: &str) -> Served {
        let mut child = lab.start(&format!("serve {words}"));
        child.wait_for("ready");
        Served { child }
    }

    /// The address behind the first `listening on SCHEME://`.
    #[track_caller]
    pub(crate) fn address(&self, scheme: &str) -> String {
        // A line of its own, or the list of a log of objects.
        let is_told =
            |line: &&str| line.starts_with("listening on ") || line.contains("\"event\":\"ready\"");
        let lines = self.child.seen().lines().filter(is_told);
        let start = format!("{scheme}://");
        let found = lines
            .flat_map(|line| line.split(['"', ',', ' ']))
            .find_map(|url| url.strip_prefix(&start));
        match found {
            Some(address) => address.to_owned(),
            None => panic!("no {scheme} in:\n{}", self.child.seen()),
        }
    }

    pub(crate) fn connect(&self, scheme: &str) -> Client {
        Client::new(TcpStream::connect(self.address(scheme)).unwrap())
    }

    /// Ends it by a signal, and asserts that it ended in order.
    pub(crate) fn end(self) -> String {
        self.child.signal("TERM");
        self.child.finish().exits(0).stderr
    }
}

/// With a file `secret` that its owner alone can read, whose first line is a password.
pub(crate) fn lab_with_secret(password: &str) -> Lab {
    use std::os::unix::fs::PermissionsExt;
    let lab = Lab::with("secret", format!("{password}\n"));
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(lab.path("secret"), mode).unwrap();
    lab
}

/// A connection that sends text and reads lines.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn new(stream: TcpStream) -> Client {
        Client { stream: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    /// Says that nothing more is sent; what was asked for still comes.
    pub(crate) fn end_sending(&mut self) {
        // The other side may have closed already.
        let _ = self.stream.get_ref().shutdown(std::net::Shutdown::Write);
    }

    pub(crate) fn take_bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// So many bytes of what comes, as text.
    pub(crate) fn take(&mut self, count: usize) -> String {
        String::from_utf8_lossy(&self.take_bytes(count)).into_owned()
    }

    /// A line without its end; empty at the end of the connection.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Sends and expects exactly `reply`.
    #[track_caller]
    pub(crate) fn ask(&mut self, request: impl AsRef<[u8]>, reply: &str) {
        self.send(request);
        assert_eq!(self.take(reply.len()), reply);
    }

    /// What comes until the end of the connection.
    pub(crate) fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        self.stream.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
